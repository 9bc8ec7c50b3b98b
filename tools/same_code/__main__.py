"""The command; see the package."""

from __future__ import annotations

import fnmatch
import itertools
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import click

import tools.same_code
from tl_dpnp.language import ops
from tools.same_code import forms, linear_algebra
from tools.same_code.building import build
from tools.same_code.definitions import Definition
from tools.same_code.normal_form import normal_form, without_names
from tools.same_code.recording import Record, build_all, changed_parts, coverage, difference, fused_sources

_ROOT = Path(__file__).parents[2]
_RANDOM_PROGRAMS = 60
#: Every fourth function of `fuse` is built for a CUDA device as well.
_FUSED_FOR_CUDA = 4
#: Spellings of all instructions.
_INSTRUCTIONS = (
    *(f"arith.{kind}" for kind in (*ops.ARITHMETIC, *ops.UNARY)), *(f"math.{kind}" for kind in ops.MATHEMATICS),
    *(f"cmp.{kind}" for kind in ops.COMPARISONS), "cast", "group_id", "group_size", "alloca", "lifetime_stop",
    "barrier", "load", "store", "size_of", "expand", "fuse", "subview", "if", "for", "foreach", "yield",
    *(f"{name}{atomic}" for name in (
        "axpby.n", "axpby.t", "gemm.n.n", "gemm.n.t", "gemm.t.n", "gemm.t.t", "gemv.n", "gemv.t", "ger", "hadamard",
        "sum.n", "sum.t") for atomic in ("", ".atomic")),
)


def _definitions(seed: int, only: tuple[str, ...] = ()) -> tuple[list[Definition], dict[str, list[str]]]:
    """Return the kernels of the families that a pattern of `only` is about, and the functions of `fuse` if it is one
    of them; `seed` is that of the random programs.
    """
    fused: dict[str, list[str]] = {}

    def written() -> list[Definition]:
        fused.update(fused_sources())
        return _fused_definitions(fused)

    families: dict[str, Callable[[], Iterable[Definition]]] = {
        "linear": linear_algebra.linear_algebra, "scalar": linear_algebra.scalar_code, **forms.FAMILIES,
        "random": lambda: forms.random_programs(seed, _RANDOM_PROGRAMS), "fused": written,
    }
    definitions = [definition for name, family in families.items()
                   if not only or any(fnmatch.fnmatch(name, pattern.split("/")[0]) for pattern in only)
                   for definition in family()]
    return definitions, fused


def _fused_definitions(fused: dict[str, list[str]]) -> list[Definition]:
    texts = [(f"fused/{program}/{place}", text, program)
             for program, found in fused.items() for place, text in enumerate(found)]
    return [*(Definition(f"{name}/avx512", text, "avx512", origin=program) for name, text, program in texts),
            *(Definition(f"{name}/sm_90a", text, "sm_90a", origin=program)
              for name, text, program in texts[::_FUSED_FOR_CUDA])]


def _chosen(definitions: Iterable[Definition], only: tuple[str, ...], cuda: bool) -> list[Definition]:
    found = [definition for definition in definitions
             if not only or any(fnmatch.fnmatch(definition.name, pattern) for pattern in only)]
    if not found:
        raise click.ClickException(f"no kernel has a name like {', '.join(only)}")
    return [definition for definition in found if cuda or not definition.needs_cuda]


def _interpreter(cuda_python: str | None, definitions: Iterable[Definition]) -> str | None:
    """Return the interpreter for kernels for CUDA devices, None where there are none."""
    if not any(definition.needs_cuda for definition in definitions):
        return None
    path = cuda_python or str(_ROOT / ".venv-cuda" / "bin" / "python")
    if not Path(path).exists():
        raise click.ClickException(f"kernels for CUDA devices are built by {path}, which is missing: "
                                   "`make .venv-cuda/.installed`, or name another with --cuda-python, or leave them "
                                   "out with --without-cuda")
    return path


def _build(definitions: list[Definition], processes: int, cuda_python: str | None) -> dict[str, dict]:  # type: ignore[type-arg]
    start = time.perf_counter()
    interpreter = _interpreter(cuda_python, definitions)
    with click.progressbar(length=len(definitions), label=f"{len(definitions)} kernels") as bar:
        try:
            built = build_all(definitions, processes, interpreter, lambda count: bar.update(count - bar.pos))
        except RuntimeError as error:
            raise click.ClickException(str(error)) from None
    busy = sum(found["seconds"] for found in built.values())
    click.echo(f"built in {time.perf_counter() - start:.0f} s by {processes} processes, {busy:.0f} s of processor time")
    return built


_options = [
    click.option("--processes", default=os.cpu_count(), show_default=True, help="Processes that build kernels."),
    click.option("--cuda-python", help="Python of the environment with numba-cuda; by default that of .venv-cuda."),
    click.option("--without-cuda", is_flag=True, help="Leave out kernels for CUDA devices."),
    click.option("--only", multiple=True, help="Names of kernels, with * and ?; all by default."),
]


def _with_options(command):  # type: ignore[no-untyped-def]
    for option in reversed(_options):
        command = option(command)
    return command


@click.group(help=tools.same_code.__doc__)
def main() -> None:
    """Group of commands."""


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--seed", default=0, show_default=True, help="Of the random programs.")
@_with_options
def record(file: Path, seed: int, processes: int, cuda_python: str | None, without_cuda: bool,
           only: tuple[str, ...]) -> None:
    """Build all kernels and keep them in FILE."""
    drawn, fused = _definitions(seed, only)
    definitions = _chosen(drawn, only, not without_cuda)
    made = Record(tuple(definitions), _build(definitions, processes, cuda_python), fused)
    made.save(file)
    click.echo(coverage(made, _INSTRUCTIONS))
    click.echo(f"{len(definitions)} kernels in {file}, {file.stat().st_size >> 10} KiB, hash {made.digest}")


@main.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True))
@click.option("--differences", default=1, show_default=True, help="Kernels whose difference is printed.")
@click.option("--lines", default=60, show_default=True, help="Lines of each difference.")
@_with_options
def compare(file: Path, differences: int, lines: int, processes: int, cuda_python: str | None, without_cuda: bool,
            only: tuple[str, ...]) -> None:
    """Build the kernels of FILE again and print which came out otherwise; the exit status is 1 if one did."""
    try:
        before = Record.load(file)
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    definitions = _chosen(before.definitions, only, not without_cuda)
    changed: dict[str, dict[str, tuple[str, str]]] = {}
    if before.fused and not only:
        fused = fused_sources()
        for program in dict.fromkeys((*before.fused, *fused)):
            old, new = ("\n".join(texts.get(program, [])) for texts in (before.fused, fused))
            if old != new:
                changed[f"what fuse writes for {program}"] = {"source": (old, new)}
    for name, found in _build(definitions, processes, cuda_python).items():
        old, new = before.built[name]["parts"], found["parts"]
        parts = {part: (old.get(part, ""), new.get(part, "")) for part in changed_parts(old, new)}
        if parts:
            changed[name] = parts
    for name, parts in changed.items():
        click.echo(f"{name}: {', '.join(parts)}")
    for name, parts in itertools.islice(changed.items(), differences):
        # What code is made of comes before it; the first difference is nearest to the cause.
        part, (old, new) = next(iter(parts.items()))
        click.echo(f"\n{name}, {part}:")
        click.echo("\n".join(itertools.islice(difference(part, old, new), lines)))
    by_part = Counter(part for parts in changed.values() for part in parts)
    left_out = len(before.definitions) - len(definitions)
    click.echo(f"{len(changed)} changed of {len(definitions)} kernels and {0 if only else len(before.fused)} programs"
               + "".join(f"; {part}: {count}" for part, count in by_part.items())
               + (f"; {left_out} left out" if left_out else ""))
    raise SystemExit(1 if changed else 0)


@main.command()
@click.argument("name")
@click.option("--part", default="llvm", show_default=True, help="plan, source, schedule, llvm or ptx.")
@click.option("--names", is_flag=True, help="Number values instead of leaving their names out.")
@click.option("--file", type=click.Path(path_type=Path, exists=True), help="Show it as it is in a record.")
@click.option("--seed", default=0, show_default=True, help="Of the random programs.")
def show(name: str, part: str, names: bool, file: Path | None, seed: int) -> None:
    """Print a part of the kernel NAME in its normal form."""
    if file is not None:
        built = Record.load(file).built
        if name not in built:
            raise click.ClickException(f"the record has no kernel {name}")
        parts = built[name]["parts"]
    else:
        (definition, *_) = _chosen(_definitions(seed, (name,))[0], (name,), True)
        parts = build(definition)["parts"]
    if part not in parts:
        raise click.ClickException(f"{name} has no part {part}; it has {', '.join(parts)}")
    click.echo((normal_form if names else without_names)(part, parts[part]))


if __name__ == "__main__":
    main(prog_name="python -m tools.same_code")
