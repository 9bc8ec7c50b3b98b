"""Compare two commits, case by case, in turns: ``python -m asv_bench.compare COMMIT [COMMIT]``.

asv's own ``continuous`` measures one commit after the other, each in an environment that it builds.  Here both use this
environment, in two processes that take turns, so that noise meets both alike.  The benchmarks are those of this
checkout; the commits only bring the package.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

import click

from .benchmarks.measure import cases_of
from .benchmarks.sections import SECTIONS
from .benchmarks.timing import Quartiles, geometric_mean, quartiles

_ROOT = Path(__file__).parents[1]


def checkout(commit: str, folder: Path) -> Path:
    """Return a folder with the files of a commit; ``.`` is the working tree as it is."""
    if commit == ".":
        return _ROOT
    command = ["git", "-C", str(_ROOT), "archive", "--format=tar", commit]
    result = subprocess.run(command, capture_output=True, check=False)
    if result.returncode:
        raise click.BadParameter(result.stderr.decode().strip(), param_hint="COMMIT")
    folder.mkdir()
    with tarfile.open(fileobj=io.BytesIO(result.stdout)) as archive:
        archive.extractall(folder)
    return folder


class Worker:
    """A process that times the tl_dpnp of a folder for one section, in this environment or that of another Python."""

    def __init__(self, tree: Path, cache: Path, section: str, python: str = sys.executable) -> None:
        path = os.pathsep.join([str(tree), str(_ROOT / "asv_bench")])
        environment = {**os.environ, "PYTHONPATH": path, "TL_DPNP_CACHE_DIR": str(cache)}
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.worker", section], cwd=tree, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )
        found = Path(self._answer()["tl_dpnp"])
        if not found.is_relative_to(tree):
            raise click.ClickException(f"the worker took tl_dpnp from {found}, not from {tree}")

    def ask(self, question: str | None) -> Any:
        """Prepare the case of a name, or with None time it once; returns the worker's answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise click.ClickException(f"a worker ended with {self._process.wait()}; its message is above")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def contest(before: Worker, after: Worker, case: str, seconds: float) -> tuple[list[float], Quartiles]:
    """Return the median speeds of both for a case, and the quartiles of the second's over the first's."""
    ready = before.ask(case)
    rates = [ready["rate"], after.ask(f"{case} {ready['batch']}" if ready["batch"] else case)["rate"]]
    times: list[list[float]] = [[], []]
    end, forward = time.perf_counter() + seconds, True
    while len(times[0]) < 5 or time.perf_counter() < end:
        for position in (0, 1) if forward else (1, 0):
            times[position].append((before, after)[position].ask(None))
        forward = not forward
    speeds = [[rate / t for t in measured] for rate, measured in zip(rates, times, strict=True)]
    ratios = quartiles([new / old for old, new in zip(*speeds, strict=True)])
    return [quartiles(values).median for values in speeds], ratios


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("before")
@click.argument("after", default=".")
@click.option("-b", "--section", "names", multiple=True, default=["cache-resident", "memory"], show_default=True,
              type=click.Choice([name for name in SECTIONS if name != "compile"]),
              help="What to measure; may be repeated.")
@click.option("-k", "--keep", default="", metavar="WORD", help="Only cases whose name holds this word.")
@click.option("-s", "--seconds", default=1.0, show_default=True, help="Time for each case.")
@click.option("-f", "--factor", default=1.1, show_default=True,
              help="A case counts as changed if even the quartile nearer to 1 is beyond this factor.")
@click.option("--seed", type=int, help="Draw the shapes of products instead of those that are named.")
def main(
    before: str, after: str, names: tuple[str, ...], keep: str, seconds: float, factor: float, seed: int | None
) -> None:
    """Print the speed of tl_dpnp in the commits BEFORE and AFTER (a dot, the default, is the working tree).

    Exits with 1 if a case has become slower.
    """
    slower = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        trees = [checkout(commit, folder / name) for name, commit in (("before", before), ("after", after))]
        for name in names:
            workers = [Worker(tree, folder / f"cache-{which}", name) for which, tree in enumerate(trees)]
            unit = SECTIONS[name].unit.replace("µs", "calls/s")
            click.echo(f"\n{name}, {unit}\n{'case':24}{before[:12]:>14}{after[:12]:>14}   after / before")
            found = []
            for case in cases_of(SECTIONS[name] if seed is None else SECTIONS[name].drawn(seed)):
                if keep in case:
                    speeds, ratio = contest(workers[0], workers[1], case, seconds)
                    mark = "slower" if ratio.high < 1 / factor else "faster" if ratio.low > factor else ""
                    slower += mark == "slower"
                    found.append(ratio.median)
                    click.echo(f"{case:24}{speeds[0]:14.4g}{speeds[1]:14.4g}   {ratio}  {mark}")
            for worker in workers:
                worker.close()
            if found:
                click.echo(f"{'geometric mean':24}{'':28}   {geometric_mean(found):.3f}")
    sys.exit(bool(slower))


if __name__ == "__main__":
    main()
