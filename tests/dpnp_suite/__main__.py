"""The command ``python -m tests.dpnp_suite``: dpnp's own tests, plain and fused; exit status 1 if a test is lost."""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.dpnp_suite import topics
from tests.dpnp_suite.running import Options, Result, run_file
from tests.dpnp_suite.tests_folder import downloaded
from tests.dpnp_suite.topics import TOPICS, Difference, difference

#: The ways in which tests may be lost; the plugin has the same and what each does.
WAYS = ("xp", "fusing", "fuse")


@dataclass
class Lost:
    """A test that plain dpnp passes and that fails in a way."""

    name: str
    way: str
    text: str

    @property
    def difference(self) -> Difference | None:
        """Why this is as it should be."""
        return difference(self.name, self.way)


@dataclass
class FileReport:
    """What became of the tests of one file; `unsteady` are those that fail now and then, in plain dpnp or in a way.

    dpnp 0.15 reads memory before it is written now and then, as in 1 of 1 000 calls of ``cumsum(dtype=, out=)``.
    """

    path: Path
    stock: Result
    passed: dict[str, int] = field(default_factory=dict)
    lost: list[Lost] = field(default_factory=list)
    unsteady: list[Lost] = field(default_factory=list)
    unfinished: bool = False
    kernels: Counter[str] = field(default_factory=Counter)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; return the exit status."""
    options = _parser().parse_args(arguments)
    folder = (options.tests or downloaded()).resolve()
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    end = None if options.minutes is None else time.time() + 60 * options.minutes
    chosen = Options(folder, options.k, options.sample, seed, end, options.limit)
    files = _files(folder, options.files)
    sample = "" if options.sample is None else f", {options.sample} tests of each, seed {seed}"
    print(f"dpnp's tests in {folder}: {len(files)} files{sample}", flush=True)
    with ThreadPoolExecutor(options.workers) as pool:
        reports = []
        for report in pool.map(lambda path: run_ways(path, options.way or WAYS, chosen), files):
            print(_line(report, folder), flush=True)
            for word, tests in (("lost", report.lost), ("unsteady", report.unsteady)):
                for one in tests:
                    if one.difference is None:
                        print(f"  {word}, {one.way}: {one.name}\n" + "\n".join(
                            f"    {line}" for line in one.text.splitlines()[-options.lines:]), flush=True)
            reports.append(report)
    _print_kernels(reports, options.kernels)
    return summary(reports)


def run_ways(path: Path, ways: Sequence[str], options: Options) -> FileReport:
    """Run a file's tests in plain dpnp, and those that pass in each way."""
    stock = run_file(path, "stock", options)
    report = FileReport(path, stock, unfinished=bool(stock.left()))
    if not stock.passed:
        return report
    for way in ways:
        result = run_file(path, way, options, stock.passed)
        if result.problem or result.collected != stock.collected:
            why = result.problem or f"{result.collected} tests were found, and {stock.collected} in plain dpnp"
            report.lost.append(Lost(path.name, way, why))
            continue
        report.unfinished |= bool(result.left())
        report.kernels += result.kernels
        report.passed[way] = len(result.passed)
        unsteady = set(run_file(path, "stock", options, result.failed).failed) if result.failed else set()
        doubtful = set(result.failed) - unsteady
        unsteady |= run_file(path, way, options, doubtful).passed if doubtful else set()
        for number, text in sorted(result.failed.items()):
            found = report.unsteady if number in unsteady else report.lost
            found.append(Lost(stock.names[number], way, text))
    return report


def _files(folder: Path, wanted: Sequence[str]) -> list[Path]:
    """Return the files of some topics, or of patterns; all topics if there are none."""
    patterns = [pattern for name in wanted or TOPICS for pattern in TOPICS.get(name, (name,))]
    found = {path: None for pattern in patterns for path in sorted(folder.glob(pattern))}
    if not found:
        raise SystemExit(f"there are no such tests in {folder}")
    return list(found)


def _line(report: FileReport, folder: Path) -> str:
    name, stock = report.path.relative_to(folder), report.stock
    if stock.problem:
        lines = stock.problem.splitlines()
        why = next((line[1:].strip() for line in lines if line.startswith("E ")), lines[-1])
        return f"{name}: none runs in plain dpnp: {why}"
    counts = [f"{len(stock.passed)} of {len(stock.chosen)} pass in plain dpnp"]
    counts += [f"{passed} {way}" for way, passed in report.passed.items()]
    counts += [f"{len(report.lost)} lost"] if report.lost else []
    counts += [f"{len(report.unsteady)} unsteady"] if report.unsteady else []
    kernels = f"{len(report.kernels)} kernels, {report.kernels.total()} launches"
    return f"{name}: {', '.join(counts)}; {kernels}{'; the time was over' if report.unfinished else ''}"


def _print_kernels(reports: Sequence[FileReport], path: Path | None) -> None:
    """Print the kernels by name: how many have it, and how often they ran; write all of them to a file."""
    kernels: Counter[str] = sum((report.kernels for report in reports), Counter())
    different = Counter(kernel.partition(" ")[0] for kernel in kernels)
    launches: Counter[str] = Counter()
    for kernel, number in kernels.items():
        launches[kernel.partition(" ")[0]] += number
    print("\nkernels run (different ones, launches):")
    for name, number in sorted(different.items()):
        print(f"  {name} ({number}, {launches[name]})")
    if path is not None:
        path.write_text("".join(f"{kernel} {number}\n" for kernel, number in sorted(kernels.items())))


def summary(reports: Sequence[FileReport]) -> int:
    """Print the tests that are lost on purpose, then the counts; return the exit status."""
    lost = [one for report in reports for one in report.lost]
    for entry in topics.DIFFERENCES:
        meant = sorted({one.name for one in lost if one.difference is entry})
        if meant:
            print(f"\nlost on purpose: {entry.why}\n" + "\n".join(f"  {name}" for name in meant))
    bad = [one for one in lost if one.difference is None]
    kernels: Counter[str] = sum((report.kernels for report in reports), Counter())
    passed: Counter[str] = sum((Counter(report.passed) for report in reports), Counter())
    print(f"\n{sum(len(report.stock.passed) for report in reports)} tests pass in plain dpnp; "
          + ", ".join(f"{way}: {number}" for way, number in passed.items())
          + f"; {len(kernels)} different kernels, {kernels.total()} launches")
    if any(report.unfinished for report in reports):
        print("not all tests were run: the time was over")
    print(f"{len(lost) - len(bad)} lost on purpose, {len(bad)} lost")
    return int(bool(bad))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.dpnp_suite", description=__doc__)
    parser.add_argument("files", nargs="*", metavar="FILES",
                        help=f"topics or patterns of files; the topics are {', '.join(TOPICS)} (all)")
    parser.add_argument("--tests", type=Path, help="the folder of dpnp's tests (downloaded once)")
    parser.add_argument("--way", action="append", choices=WAYS, help="run the tests this way only; may be repeated")
    parser.add_argument("-k", metavar="EXPRESSION", help="tests whose names match, as pytest takes it")
    parser.add_argument("--sample", type=int, metavar="N", help="run N tests of each file, drawn by the seed")
    parser.add_argument("--seed", type=int, help="repeats a sample; drawn and printed if left out")
    parser.add_argument("--minutes", type=float, help="start no test after so long")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds after which a test hangs (120)")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="files at a time (the number of cores)")
    parser.add_argument("--lines", type=int, default=12, help="lines to show of why a test is lost (12)")
    parser.add_argument("--kernels", type=Path, metavar="FILE", help="write the list of different kernels to a file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
