"""The commands of ``python -m tl_dpnp``, and what they have in common with its options."""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tl_dpnp import config
from tl_dpnp.errors import TLBindingError, TLError, nearest
from tl_dpnp.lowering.mappings.frames import FRAMES, Form
from tl_dpnp.target.targets import TARGETS, TargetName

if TYPE_CHECKING:
    from tl_dpnp.language.ops import Function

__all__ = [
    "COMMANDS", "DEFINE", "DEVICE", "FILES", "MAPPING", "Defined", "chosen_functions", "queue_for", "reported_errors",
]

DEVICE = click.option("--device", metavar="FILTER", help="A SYCL device that is here: cpu, gpu, opencl:cpu:0, …")
MAPPING = click.option("--mapping", type=click.Choice(list(FRAMES)), help="How a work-group runs, form= in Python.")
#: Compile-time variables as they come from the command line.
Defined = tuple[tuple[str, str], ...]
FILES = click.Path(exists=True, dir_okay=False, allow_dash=True)


class _Assignment(click.ParamType):  # type: ignore[type-arg]  # generic in the newest versions only
    """``NAME=TEXT`` as a pair."""

    name = "assignment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        name, sign, text = str(value).partition("=")
        if not sign or not name:
            self.fail(f"{value!r} is no NAME=VALUE", param, ctx)
        return name.lstrip("%$"), text


def _once_each(context: click.Context, param: click.Parameter, given: tuple[tuple[str, Any], ...]) -> Any:
    """Refuse a second value for a name."""
    names = [name for name, _ in given]
    for name in names:
        if names.count(name) > 1:
            raise click.BadParameter(f"{name} is given {names.count(name)} times", context, param)
    return given


DEFINE = click.option("-D", "--define", "defined", multiple=True, type=_Assignment(), metavar="NAME=VALUE",
                      callback=_once_each, help="A compile-time variable that FILE does not define.")


@contextmanager
def reported_errors() -> Iterator[None]:
    """Print an error of this package, or of the system, instead of a traceback, and end with the status 1."""
    try:
        yield
    except BrokenPipeError:  # whoever reads has seen enough; Click ends quietly
        raise
    except (TLError, OSError) as error:
        click.echo(str(error), err=True)
        sys.exit(1)


class _Number(click.FloatRange):
    """A finite number from 0 on."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is no finite number", param, ctx)
        return number


@click.group(invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.pass_context
def cache(context: click.Context) -> None:
    """Print where the disk cache is and how large; prune makes it smaller."""
    if context.invoked_subcommand is None:
        from tl_dpnp.runtime.store.cache import cache_folder
        from tl_dpnp.runtime.store.pruning import measure

        with reported_errors():
            click.echo(f"{cache_folder()}: {measure(cache_folder())}")


@cache.command()
@click.option("--older-than", "days", type=_Number(min=0), metavar="DAYS", help="Remove what is older.")
@click.option("--limit", type=_Number(min=0), metavar="MIB", help="Then the oldest, until the rest fits.")
def prune(days: float | None, limit: float | None) -> None:
    """Remove old entries of the disk cache, what tuning found among them; kernels are compiled again when needed."""
    from tl_dpnp.runtime.store import pruning
    from tl_dpnp.runtime.store.cache import cache_folder

    if days is None and limit is None:
        raise click.UsageError("say what to remove: --older-than DAYS, --limit MIB, or both; --limit 0 removes all")
    with reported_errors():
        folder = cache_folder()
        removed = pruning.prune(folder, days=days, limit=None if limit is None else int(limit * (1 << 20)))
        click.echo(f"{folder}: removed {removed}; left {pruning.measure(folder)}")


@click.command()
@click.argument("file", type=FILES)
@click.option("-o", "--output", "folder", required=True, type=click.Path(file_okay=False), help="Where the files go.")
@click.option("-f", "--function", "name", help="Only this function of FILE.")
@click.option("--target", type=click.Choice([name for name in TARGETS if TARGETS[name].code]), default="sycl",
              show_default=True, help="What it is compiled for.")
@click.option("--device", help="An Intel GPU that need not be here, pvc or dg2; by default the current device.")
@MAPPING
@DEFINE
def export(
    file: str, folder: str, name: str | None, target: TargetName, device: str | None, mapping: Form | None,
    defined: Defined,
) -> None:
    """Write the kernels of FILE, with what launches them, for programs in C and C++; print the files' names."""
    from tl_dpnp import compile

    with reported_errors():
        source, functions = chosen_functions(file, name, defined)
        paths = [path for function in functions
                 for path in compile(source, name=function, target=target, form=mapping,
                                     define=dict(defined)).export(folder, device=device)]
        click.echo("\n".join(map(str, dict.fromkeys(paths))))


class _Shape(_Assignment):
    """``NAME=16x8x100`` as a name and sizes."""

    name = "shape"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        name, text = super().convert(value, param, ctx)
        sizes = text.split("x")
        if not all(size.isdecimal() for size in sizes):
            self.fail(f"{text!r} is no shape such as 16x8x100", param, ctx)
        return name, tuple(map(int, sizes))


@click.command()
@click.argument("files", nargs=-1, required=True, type=FILES)
@click.option("--check", is_flag=True, help="Change no file; the status is 1 if one is laid out in another way.")
@click.option("--diff", is_flag=True, help="Change no file; print what would be changed.")
@DEFINE
def fmt(files: tuple[str, ...], check: bool, diff: bool, defined: Defined) -> None:
    """Lay FILES out as the printer does, comments, names and compile-time variables kept; - is standard input,
    printed on standard output."""
    from tl_dpnp.language.formatting import formatted

    failed, others = False, 0
    for file in files:
        try:
            text, path = _text(file)
            result = formatted(text, path, dict(defined))
            if result != text and file != "-" and not (check or diff):
                Path(file).write_text(result, encoding="utf-8")
        except (TLError, OSError) as error:
            click.echo(str(error), err=True)
            failed = True
            continue
        others += result != text
        if diff:
            ends = text.splitlines(keepends=True), result.splitlines(keepends=True)
            click.echo("".join(difflib.unified_diff(*ends, path, f"{path} (formatted)")), nl=False)
        elif file == "-" and not check:
            click.echo(result, nl=False)
        elif result != text:
            click.echo(f"{path}: {'would be' if check else 'is'} formatted")
    sys.exit(1 if failed or (check and others) else 0)


@click.command()
@click.argument("file", type=FILES)
@click.option("-f", "--function", "name", help="Only this function of FILE.")
@click.option("--shape", "shapes", multiple=True, type=_Shape(), metavar="NAME=16x8x100", callback=_once_each,
              help="The sizes of an array; of a group, those of each of its arrays.")
@click.option("--batch", type=click.IntRange(min=1), default=1000, show_default=True,
              help="All other sizes that the types leave open, and the lengths of groups.")
@click.option("--budget", type=_Number(min=0, min_open=True), default=10.0, show_default=True,
              help="Seconds for each function.")
@DEVICE
@MAPPING
@DEFINE
def tune(
    file: str, name: str | None, shapes: tuple[tuple[str, tuple[int, ...]], ...], batch: int, budget: float,
    device: str | None, mapping: Form | None, defined: Defined,
) -> None:
    """Search the schedules of the kernels of FILE, with arrays of ones, and keep what is faster in the disk cache.

    Kernels that are compiled later, here and elsewhere with this cache, use it.
    """
    from tl_dpnp import compile

    if not config.get("CACHE"):
        click.echo("TL_DPNP_CACHE switches the disk cache off: what is found is shown, and not kept", err=True)
    with reported_errors():
        source, functions = chosen_functions(file, name, defined)
        for function in functions:
            kernel = compile(source, name=function, target="sycl", form=mapping, define=dict(defined))
            from tl_dpnp.runtime.sycl.dpctl_adapter import default_queue
            from tl_dpnp.runtime.tune.sample_arguments import sample_arguments

            queue = default_queue() if device is None else queue_for(device)
            try:
                arguments = sample_arguments(kernel.parameters, queue, dict(shapes), batch)
                click.echo(repr(kernel.tune(*arguments, budget=budget)))
            except TLBindingError as error:
                raise TLError(f"{error}\ngive sizes that fit by --shape NAME=16x8; those that it does not give are "
                              f"{batch}, or --batch") from None


#: What may stand in the place of a file.
COMMANDS: dict[str, click.Command] = {"cache": cache, "export": export, "fmt": fmt, "tune": tune}


def queue_for(device: str | None) -> Any:
    """Return a queue of the device that is asked for, None where none is; raises `UnsupportedError`."""
    if device is None:
        return None
    from tl_dpnp.runtime.missing import needed

    return needed("tl_dpnp.runtime.sycl.devices", "--device").queue_of(device)


def _text(file: str) -> tuple[str, str]:
    """Return the text of a file and what to call it; raises `TLError`."""
    binary = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    path = "<stdin>" if file == "-" else file
    try:
        return binary.decode("utf-8-sig"), path  # as `compile` reads a file
    except UnicodeDecodeError as error:
        raise TLError(f"{path}: byte {error.start} is not UTF-8: this is no text") from None


def chosen_functions(file: str, name: str | None, defined: Defined) -> tuple[str | Path, dict[str, Function]]:
    """Return what to compile, and those functions of a file that are asked for; raises `TLError`."""
    from tl_dpnp.language import parse

    text, path = _text(file)
    functions = {function.name: function for function in parse(text, path, dict(defined)).functions}
    if name is not None and name not in functions:
        known = ", ".join(f"@{function}" for function in functions)
        near = nearest(name.removeprefix("@"), functions)
        raise TLError(f"{path}: there is no function @{name}; there are {known}"
                      + (f": did you mean --function {near}?" if near else ""))
    return text if file == "-" else Path(file), functions if name is None else {name: functions[name]}
