"""Compare two stacks of packages, case by case, in turns: ``python -m asv_bench.stacks PYTHON``.

This environment runs against that of another interpreter, with the tl_dpnp of this checkout in both.  Two processes
take turns, so that noise meets both alike.  Section ``compile`` starts processes in turns, each with an empty cache,
and counts the wall-clock time from a program's text to its first result; imports and the arrays are made before.

Speeds are the other stack's over this one's: above 1 the other one is faster.  A case under `LEAST` is measured again,
`AGAIN` times in other processes and three times as long; the median of all counts.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from .benchmarks import processes
from .benchmarks.contests import parse_case
from .benchmarks.measure import cases_of
from .benchmarks.sections import SECTIONS
from .benchmarks.timing import geometric_mean
from .compare import Worker, contest

#: What is asked of the other stack: the geometric mean of a section at least, and each case.
MEAN, LEAST = 1.0, 0.95
#: How often a case that is under the bound is measured again.
AGAIN = 3
#: Pairs of processes for a case of ``compile``.
_STARTS = 3

_ROOT = Path(__file__).parents[1]
_DEFAULT = ("cache-resident", "memory", "launch", "groups", "compile")


class Pair:
    """The two stacks, for one section: `ratio` measures a case."""

    def __init__(self, pythons: Sequence[str], section: str) -> None:
        self._pythons, self._section, self._workers = pythons, section, list[Worker]()
        self._folder = tempfile.TemporaryDirectory(prefix="tl_dpnp-stacks-")

    def ratio(self, case: str, seconds: float) -> tuple[list[float], float]:
        """Return the median speeds of both stacks for a case, and the median of the other's over this one's."""
        if self._section == "compile":
            return _cold(self._pythons, case)
        if not self._workers:
            self._workers = [Worker(_ROOT, Path(self._folder.name, f"cache-{number}"), self._section, python)
                             for number, python in enumerate(self._pythons)]
        speeds, ratios = contest(self._workers[0], self._workers[1], case, seconds)
        return speeds, ratios.median

    def close(self) -> None:
        """End the processes."""
        for worker in self._workers:
            worker.close()
        self._folder.cleanup()


def _cold(pythons: Sequence[str], case: str) -> tuple[list[float], float]:
    element, shape, _ = parse_case(case)
    times: list[list[float]] = [[], []]
    for turn in range(_STARTS):
        for which in (0, 1) if turn % 2 else (1, 0):
            times[which].append(processes.cold_gemm(shape, element, pythons[which])["compile"])
    speeds = [1 / statistics.median(measured) for measured in times]
    return speeds, speeds[1] / speeds[0]


def repeated(pythons: Sequence[str], section: str, case: str, seconds: float, first: float) -> list[float]:
    """Return all ratios of a case that was under the bound at first: each of the others is that of new processes."""
    found = [first]
    for _ in range(AGAIN):
        pair = Pair(pythons, section)
        found.append(pair.ratio(case, 3 * seconds)[1])
        pair.close()
    return found


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("other")
@click.option("-b", "--section", "names", multiple=True, default=_DEFAULT, show_default=True,
              type=click.Choice(list(SECTIONS)), help="What to measure; may be repeated.")
@click.option("-k", "--keep", default="", metavar="WORD", help="Only cases whose name holds this word.")
@click.option("-s", "--seconds", default=1.0, show_default=True, help="Time for each case.")
def main(other: str, names: tuple[str, ...], keep: str, seconds: float) -> None:
    """Print the speed of the stack of OTHER, an interpreter, over that of this one.

    Exits with 1 if a section's geometric mean is under 1, or a case under 0.95.
    """
    if not os.access(other, os.X_OK):
        raise click.BadParameter(f"{other} is no interpreter", param_hint="OTHER")
    pythons = [sys.executable, os.path.abspath(other)]
    missed = []
    for name in names:
        found = _measured(pythons, name, keep, seconds)
        if not found:
            continue
        mean, (worst, least) = geometric_mean(found.values()), min(found.items(), key=lambda row: row[1])
        click.echo(f"{name}: {len(found)} cases, geometric mean {mean:.3f}, least {least:.3f} ({worst})")
        missed += [f"the geometric mean of {name} is {mean:.3f}"] if mean < MEAN else []
        missed += [f"{name}, {case}: {ratio:.3f}" for case, ratio in found.items() if ratio < LEAST]
    for line in missed:
        click.echo(f"missed: {line}")
    sys.exit(bool(missed))


def _measured(pythons: Sequence[str], name: str, keep: str, seconds: float) -> dict[str, float]:
    """Measure the cases of a section; returns the ratio of each."""
    unit = SECTIONS[name].unit.replace("µs", "calls/s") if name != "compile" else "compilations/s"
    click.echo(f"\n{name}, {unit}\n{'case':24}{'here':>14}{'other':>14}   other / here")
    pair, found = Pair(pythons, name), {}
    for case in cases_of(SECTIONS[name]):
        if keep not in case:
            continue
        speeds, ratio = pair.ratio(case, seconds)
        again = repeated(pythons, name, case, seconds, ratio) if ratio < LEAST else [ratio]
        found[case] = statistics.median(again)
        note = "" if len(again) == 1 else f", of {' '.join(f'{each:.3f}' for each in again)}"
        click.echo(f"{case:24}{speeds[0]:14.4g}{speeds[1]:14.4g}   {found[case]:.3f}{note}")
    pair.close()
    return found


if __name__ == "__main__":
    main()
