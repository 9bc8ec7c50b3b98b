"""``python -m tl_dpnp``: print what the compiler makes of a file at any stage, or what it found on this machine."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click

from tl_dpnp import config
from tl_dpnp.errors import TLError

#: What ``--emit`` can print besides the IR after each pass: a name, the inspection it calls, what it shows.
VIEWS: dict[str, tuple[Callable[[Any], str | bytes], str]] = {
    "schedule": (lambda kernel: kernel.inspect_schedule(), "the loop nest of each collective operation"),
    "source": (lambda kernel: kernel.inspect_source(), "the kernel's shell in Python"),
    "llvm": (lambda kernel: kernel.inspect_llvm(), "LLVM IR"),
    "spirv": (lambda kernel: kernel.inspect_spirv(), "SPIR-V: text if spirv-dis is installed, else binary with -o"),
}


def _stages() -> dict[str, str]:
    """Return every stage and what it shows, in the order of the pipeline."""
    from tl_dpnp.lowering import STAGES

    return {"ir": "the program as parsed", **STAGES, **{name: doc for name, (_, doc) in VIEWS.items()}}


class _Command(click.Command):
    """Adds the stages and the settings, which are tables elsewhere, to the help text."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Stages for --emit"):
            formatter.write_dl(list(_stages().items()))
        with formatter.section("Environment variables"):
            formatter.write_dl([(s.variable, f"{s.doc} [{s.kind}; {s.default_text}]") for s in config.SETTINGS.values()])


@click.command(cls=_Command, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--emit", "stage", metavar="STAGE", help="Print the program at this stage; without it, only check FILE.")
@click.option("-f", "--function", "name", help="Only this function of FILE.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, writable=True), help="Write to a file.")
@click.option("-s", "--system", is_flag=True, help="Print packages, devices and settings, and what is wrong with them.")
@click.option("--sys-json", is_flag=True, help="The same as JSON.")
@click.version_option(package_name="tl_dpnp", prog_name="tl_dpnp")
def main(
    file: str | None, stage: str | None, name: str | None, output: str | None, system: bool, sys_json: bool
) -> None:
    """Check FILE, a program in the tensor language (- reads standard input), or print a stage of its compilation."""
    if system or sys_json:
        from tl_dpnp.runtime import system_info

        info = system_info.gather()
        text = json.dumps(info.to_json(), indent=2) if sys_json else str(info)
        _write(text, output)
        return
    if file is None:
        raise click.UsageError("name a FILE, or use --system")
    if stage is not None and stage not in _stages():
        raise click.BadParameter(f"{stage!r} is none of {', '.join(_stages())}", param_hint="--emit")
    source = click.get_text_stream("stdin").read() if file == "-" else Path(file)
    try:
        result = _emit(source, stage, name)
        if result is not None:
            _write(_disassemble(result, output) if isinstance(result, bytes) else result, output)
    except TLError as error:
        _fail(str(error))


def _emit(source: str | Path, stage: str | None, name: str | None) -> str | bytes | None:
    """Return the program at `stage`, or None when `stage` is None: then it is only checked."""
    from tl_dpnp.language import parse, print_module

    module = parse(source)
    functions = [function.name for function in module.functions]
    if name is not None and name not in functions:
        raise TLError(f"there is no function @{name} in this file; there are {', '.join(functions)}")
    if stage is None:
        return None
    if stage == "ir" and name is None:
        return print_module(module)
    from tl_dpnp import compile

    chosen = functions if name is None else [name]
    parts = [_view(compile(source, name=function), stage) for function in chosen]
    texts = [part for part in parts if isinstance(part, str)]
    if len(texts) == len(parts):
        return "\n\n".join(texts)
    if len(parts) > 1:
        raise TLError(f"the {stage} of several functions does not fit one file: choose one with --function")
    return parts[0]


def _view(kernel: Any, stage: str) -> str | bytes:
    if stage in VIEWS:
        return VIEWS[stage][0](kernel)
    text: str = kernel.inspect_ir(stage)
    return text


def _disassemble(binary: bytes, output: str | None) -> str | bytes:
    """Return SPIR-V as text for the screen when the disassembler is there; a file gets the binary."""
    if output is not None:
        return binary
    tool = shutil.which("spirv-dis")
    if tool is None:
        raise TLError("spirv-dis, which prints SPIR-V, is not on the PATH: write the binary to a file with -o FILE.spv")
    return subprocess.run([tool, "--no-color", "-"], input=binary, stdout=subprocess.PIPE, check=True).stdout.decode()


def _write(content: str | bytes, output: str | None) -> None:
    if isinstance(content, bytes):
        assert output is not None
        Path(output).write_bytes(content)
    elif output is not None:
        Path(output).write_text(content.rstrip("\n") + "\n")
    else:
        click.echo(content.rstrip("\n"))


def _fail(message: str) -> NoReturn:
    click.echo(message, err=True)
    sys.exit(1)


if __name__ == "__main__":
    main(prog_name="python -m tl_dpnp")
