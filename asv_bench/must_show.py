"""The speeds that the project holds itself to, a command for each: ``python -m asv_bench.must_show --help``.

Everything in a row of a table was timed in turns in one run.  Exits with 1 if a target was missed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click

from . import render
from .benchmarks.namespaces import names as program_names
from .benchmarks.realistic_peers import PeerError
from .benchmarks.realistic_programs import BATCHES, Programs
from .benchmarks.sections import SECTIONS, Section, against_peers, fused_programs

#: Where reports are kept for `asv_bench.plots`; git ignores it.
RESULTS = Path(__file__).parent / ".asv" / "must_show"
#: Those of drawn shapes.
DRAWN = RESULTS / "drawn"


class _Commands(click.Group):
    """Has a command for each section of the benchmarks, in their order, and ``all``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*SECTIONS, "all"]


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Measure tl_dpnp against its peers and against what the machine can do, and judge the project's targets.

    TL_DPNP_BENCH=quick keeps a case or two of each command.
    """


_seconds = click.option("-s", "--seconds", default=1.5, show_default=True, help="Time for each case.")
_keep = click.option("-k", "--keep", default="", metavar="WORD", help="Only cases whose name holds this word.")
_patience = click.option(
    "-p", "--patience", default=10.0, show_default=True,
    help="Seconds to wait, in each case, for other programs and machines to leave the cores alone.",
)
_output = click.option("-o", "--output", type=click.Path(path_type=Path), help="Where to write the report as JSON.")


def _run(section: Section, seconds: float, keep: str, patience: float, output: Path | None) -> None:
    """Measure a section, print and save what was found, and exit."""
    from .benchmarks import measure

    click.echo(f"{section.title}; each case for {seconds:g} s", err=True)
    try:
        report = measure.run(
            section, seconds, lambda case: keep in case,
            lambda measurement: click.echo(render.line(measurement), err=True), patience,
        )
    except PeerError as problem:
        raise click.ClickException(str(problem)) from problem
    if not report.measurements:
        raise click.UsageError(f"no case holds {keep!r}; there are {', '.join(section.cases)}")
    click.echo(f"\n{render.header(report)}\n\n{render.summary(report)}")
    if output is not None:
        report.save(output)
    sys.exit(not report.met)


def _command(name: str) -> Callable[[Callable[..., None]], click.Command]:
    """Return what makes a function the command of a section, with the options that all have."""
    section = SECTIONS[name]
    command = main.command(name, help=f"{section.title}. {section.method}", short_help=section.title)
    return lambda function: command(_seconds(_keep(_patience(_output(function)))))


def _add(name: str) -> None:
    section = SECTIONS[name]

    if section.draw is not None:
        @_command(name)
        @click.option("--seed", type=int, help="Draw other shapes.")
        def drawn(seconds: float, keep: str, patience: float, output: Path | None, seed: int | None) -> None:
            named = None if keep else (RESULTS if seed is None else DRAWN) / f"{name}.json"
            _run(section if seed is None else section.drawn(seed), seconds, keep, patience, output or named)
    else:
        @_command(name)
        def command(seconds: float, keep: str, patience: float, output: Path | None) -> None:
            _run(section, seconds, keep, patience, output or (None if keep else RESULTS / f"{name}.json"))


def _add_programs(name: str, section_of: Callable[[Programs], Section]) -> None:
    """Add the command of a section of realistic programs, whose seed, sizes and programs can be chosen."""

    @_command(name)
    @click.option("--seed", default=0, show_default=True, help="Draws the sizes and the data.")
    @click.option("--batch", "batches", multiple=True, type=click.IntRange(1), default=BATCHES, show_default=True,
                  help="Only this batch; may be repeated.")
    @click.option("-e", "--element", "elements", multiple=True, type=click.Choice(["f32", "f64"]), default=("f32",),
                  show_default=True, help="The element type; may be repeated.")
    @click.option("--only", multiple=True, type=click.Choice(list(program_names())), metavar="NAME",
                  help="Only this program; may be repeated.")
    def command(
        seconds: float, keep: str, patience: float, output: Path | None, seed: int, batches: tuple[int, ...],
        elements: tuple[str, ...], only: tuple[str, ...],
    ) -> None:
        programs = Programs(seed, batches, elements, only)
        if output is None and not keep and programs == Programs():
            output = RESULTS / f"{name}.json"
        _run(section_of(programs), seconds, keep, patience, output)


_PROGRAMS = {"fusion-programs": fused_programs, "fusion-peers": against_peers}
for _name in SECTIONS:
    if _name in _PROGRAMS:
        _add_programs(_name, _PROGRAMS[_name])
    else:
        _add(_name)


@main.command("all")
@_seconds
@click.option("-p", "--patience", default=10.0, show_default=True, help="As in the single commands.")
@click.option("--seed", type=int, help="Draw other shapes: run the commands that can.")
@click.argument("names", nargs=-1, type=click.Choice(list(SECTIONS)))
def everything(seconds: float, patience: float, seed: int | None, names: tuple[str, ...]) -> None:
    """Run the commands NAMES, by default all, each in a process of its own."""
    failed = []
    for name in names or [name for name, section in SECTIONS.items() if seed is None or section.draw is not None]:
        command = [sys.executable, "-m", "asv_bench.must_show", name, "--seconds", str(seconds),
                   "--patience", str(patience), *([] if seed is None else ["--seed", str(seed)])]
        if subprocess.run(command, check=False, cwd=Path(__file__).parents[1], env=os.environ).returncode:
            failed.append(name)
        click.echo()
    click.echo(f"missed or failed: {', '.join(failed)}" if failed else "all targets met")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
