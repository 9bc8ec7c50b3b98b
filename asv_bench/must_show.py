"""The speeds that the project holds itself to, a command for each: ``python -m asv_bench.must_show --help``.

Everything in a row of a table was timed in turns in one run.  Exits with 1 if a target was missed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click

from . import render
from .benchmarks.sections import SECTIONS

#: Where reports are kept for `asv_bench.plots`; git ignores it.
RESULTS = Path(__file__).parent / ".asv" / "must_show"


class _Commands(click.Group):
    """Has a command for each section of the benchmarks, in their order, and ``all``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*SECTIONS, "all"]


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Measure tl_dpnp against its peers and against what the machine can do, and judge the project's targets.

    TL_DPNP_BENCH=quick keeps a case or two of each command.
    """


def _add(name: str) -> None:
    section = SECTIONS[name]

    @main.command(name, help=f"{section.title}. {section.method}", short_help=section.title)
    @click.option("-s", "--seconds", default=1.5, show_default=True, help="Time for each case.")
    @click.option("-k", "--keep", default="", metavar="WORD", help="Only cases whose name holds this word.")
    @click.option("-p", "--patience", default=10.0, show_default=True,
                  help="Seconds to wait, in each case, for other programs and machines to leave the cores alone.")
    @click.option("-o", "--output", type=click.Path(path_type=Path), help="Where to write the report as JSON.")
    def command(seconds: float, keep: str, patience: float, output: Path | None) -> None:
        from .benchmarks import measure

        click.echo(f"{section.title}; each case for {seconds:g} s", err=True)
        report = measure.run(
            section, seconds, lambda case: keep in case,
            lambda measurement: click.echo(render.line(measurement), err=True), patience,
        )
        if not report.measurements:
            raise click.UsageError(f"no case holds {keep!r}; there are {', '.join(section.cases)}")
        click.echo(f"\n{render.header(report)}\n\n{render.summary(report)}")
        if output is not None or not keep:
            report.save(output or RESULTS / f"{name}.json")
        sys.exit(not report.met)


for _name in SECTIONS:
    _add(_name)


@main.command("all")
@click.option("-s", "--seconds", default=1.5, show_default=True, help="Time for each case.")
@click.option("-p", "--patience", default=10.0, show_default=True, help="As in the single commands.")
@click.argument("names", nargs=-1, type=click.Choice(list(SECTIONS)))
def everything(seconds: float, patience: float, names: tuple[str, ...]) -> None:
    """Run the commands NAMES, by default all, each in a process of its own."""
    failed = []
    for name in names or SECTIONS:
        command = [sys.executable, "-m", "asv_bench.must_show", name, "--seconds", str(seconds),
                   "--patience", str(patience)]
        if subprocess.run(command, check=False, cwd=Path(__file__).parents[1], env=os.environ).returncode:
            failed.append(name)
        click.echo()
    click.echo(f"missed or failed: {', '.join(failed)}" if failed else "all targets met")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
