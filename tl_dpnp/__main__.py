"""``python -m tl_dpnp``: print what the compiler makes of a file at any stage, or what it found on this machine."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

import tl_dpnp
from tl_dpnp import config
from tl_dpnp.commands import COMMANDS, DEFINE, DEVICE, MAPPING, Defined, chosen_functions, queue_for, reported_errors
from tl_dpnp.errors import TLError, nearest
from tl_dpnp.lowering.mappings.frames import Form

#: What ``--emit`` prints: a stage, what it shows, and the inspection of a kernel that gives it.
STAGES: dict[str, tuple[str, Callable[[Any], dict[Any, str | bytes]]]] = {
    "parsed": ("the program as parsed, in the dialect 0.4", lambda kernel: kernel.inspect_ir(stage="parsed")),
    "canonical": ("after constant folding and dead code removal", lambda kernel: kernel.inspect_ir(stage="canonical")),
    "memory": ("with the places of temporaries in local memory", lambda kernel: kernel.inspect_ir(stage="memory")),
    "barriers": ("with the barriers that the compiler added", lambda kernel: kernel.inspect_ir(stage="barriers")),
    "schedule": ("the loop nest of each collective instruction", lambda kernel: kernel.inspect_schedule()),
    "source": ("the kernel's body as text that reads like Python", lambda kernel: kernel.inspect_source()),
    "llvm": ("LLVM IR", lambda kernel: kernel.inspect_llvm()),
    "spirv": ("SPIR-V: text if spirv-dis is installed, binary with -o", lambda kernel: kernel.inspect_spirv()),
}


#: Those that are the same for all devices and mappings.
_OF_TEXT = frozenset({"parsed", "canonical"})


class _File(click.Path):
    """A file; the message for a word that is none names the commands, one of which was meant."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            if not str(value).isalpha():
                raise
            near = nearest(str(value), COMMANDS, 0.65)  # check is not like cache
            meant = f"did you mean {near}?" if near else "a FILE alone is checked"
            text = f"{error.message} There are the commands {', '.join(COMMANDS)}: {meant}"
            raise click.BadParameter(text, ctx, param) from None


class _Command(click.Command):
    """Adds the stages and the settings, which are tables elsewhere, to the help text, and hands over to `COMMANDS`."""

    def main(
        self, args: Sequence[str] | None = None, prog_name: str | None = None, *others: Any, **options: Any
    ) -> Any:
        given = list(sys.argv[1:] if args is None else args)
        if given and given[0] in COMMANDS:
            name = f"{prog_name or self.name} {given[0]}"
            return COMMANDS[given[0]].main(given[1:], name, *others, **options)
        return super().main(given, prog_name, *others, **options)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands in place of FILE (./cache is a file of such a name)"):
            formatter.write_dl([(name, command.get_short_help_str(100)) for name, command in COMMANDS.items()])
        with formatter.section("Stages for --emit"):
            formatter.write_dl([(stage, doc) for stage, (doc, _) in STAGES.items()])
        with formatter.section("Environment variables"):
            settings = config.SETTINGS.values()
            formatter.write_dl([(s.variable, f"{s.doc} [{s.kind}; default: {s.default_text}]") for s in settings])


def _print_version(context: click.Context, _parameter: click.Parameter, is_wanted: bool) -> None:
    """Print the version, also of a source folder, which Click's own option ends in an error for."""
    if is_wanted and not context.resilient_parsing:
        click.echo(f"tl_dpnp, version {tl_dpnp.__version__}")
        context.exit()


@click.command(cls=_Command, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("file", required=False, type=_File(exists=True, dir_okay=False, allow_dash=True))
@click.option("--emit", "stage", type=click.Choice(list(STAGES)), metavar="STAGE", help="Print FILE at this stage.")
@click.option("-f", "--function", "name", help="Only this function of FILE.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, writable=True), help="Write to a file.")
@DEVICE
@MAPPING
@DEFINE
@click.option("-s", "--system", is_flag=True, help="Print packages, devices and settings, and what is wrong with them.")
@click.option("--dpas", is_flag=True, help="Compile every form of DPAS for Intel GPUs and print what became of it.")
@click.option("--sys-json", is_flag=True, help="The same as JSON.")
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version,
              help="Print the version.")
def main(
    file: str | None, stage: str | None, name: str | None, output: str | None, device: str | None,
    mapping: Form | None, defined: Defined, system: bool, dpas: bool, sys_json: bool,
) -> None:
    """Check FILE, a program in the tensor language (- is standard input); with --emit, print what becomes of it."""
    report = "--system" if system or sys_json else "--dpas" if dpas else None
    if report is not None:
        _refuse(f"{report} is no report about a file: leave {{}} out", {
            "FILE": file, "--emit": stage, "--function": name, "--device": device, "--mapping": mapping,
            "--define": defined, "--dpas": dpas and report != "--dpas"})
    elif file is None:
        raise click.UsageError("name a FILE, or use --system or --dpas")
    elif stage is None:
        _refuse("{}: of a file that is only checked nothing is compiled or printed: use them with --emit", {
            "--device": device, "--mapping": mapping, "--output": output})
    with reported_errors():
        result = _report(report, sys_json) if file is None else _emit(file, stage, name, device, mapping, defined)
        if result is not None:
            _write(_disassemble(result, output) if isinstance(result, bytes) else result, output)


def _refuse(words: str, options: Mapping[str, Any]) -> None:
    """Refuse options that would be ignored; `words` has a place for the names of those that were given."""
    given = [name for name, value in options.items() if value not in (None, False, ())]
    if given:
        raise click.UsageError(words.format(" and ".join(given)))


def _report(name: str | None, as_json: bool) -> str:
    """Return the text of ``--dpas``, or of ``--system``, as JSON or not."""
    if name == "--dpas":
        from tl_dpnp.runtime.offline import dpas_table

        return dpas_table.table()
    from tl_dpnp.runtime import system_info

    info = system_info.gather()
    return json.dumps(info.to_json(), indent=2) if as_json else str(info)


def _emit(
    file: str, stage: str | None, name: str | None, device: str | None, mapping: Form | None, defined: Defined
) -> str | bytes | None:
    """Return the program at `stage`, or None when `stage` is None: then it is only checked."""
    from tl_dpnp.language.printer import print_function

    source, chosen = chosen_functions(file, name, defined)
    if stage is None:
        return None
    if stage in _OF_TEXT and (device is not None or mapping is not None):
        raise click.UsageError(f"--device and --mapping change nothing at the stage {stage}: leave them out")
    if stage == "parsed":
        return "\n".join(print_function(function) for function in chosen.values())
    if stage == "spirv" and len(chosen) > 1:
        place = "<stdin>" if file == "-" else file
        raise TLError(f"{place}: each function is a SPIR-V module of its own: choose one with --function")
    from tl_dpnp import compile

    inspect = STAGES[stage][1]
    queue = queue_for(device)
    views = [view for function in chosen
             for view in inspect(compile(source, name=function, queue=queue, form=mapping,
                                         define=dict(defined))).values()]
    return views[0] if len(views) == 1 else "\n\n".join(map(str, views))


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


if __name__ == "__main__":
    main(prog_name="python -m tl_dpnp")
