"""Runs one file of tests in a process, one way, whatever becomes of the process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Options", "Result", "run_file"]

ROOT = Path(__file__).parents[2]
#: Characters of a message that are kept, from its end.
SHOWN = 3000
#: Exit statuses of pytest that say that tests were run, or that none was left by ``-k``.
_RAN = (0, 1, 5)


@dataclass(frozen=True)
class Options:
    """What tests to take: where they lie, pytest's ``-k``, a sample of so many of each file, and for how long."""

    folder: Path
    keyword: str | None = None
    sample: int | None = None
    seed: int = 0
    end: float | None = None
    limit: float = 120.0


@dataclass
class Result:
    """What became of the tests of a file, which have numbers: those chosen, passed, and why others did not pass.

    `problem` says why none was run, such as an import that failed.
    """

    collected: int = 0
    chosen: set[int] = field(default_factory=set)
    names: dict[int, str] = field(default_factory=dict)
    passed: set[int] = field(default_factory=set)
    failed: dict[int, str] = field(default_factory=dict)
    kernels: Counter[str] = field(default_factory=Counter)
    problem: str = ""

    def left(self) -> set[int]:
        """Return the numbers of the tests that have not ended."""
        return self.chosen - self.passed - set(self.failed)


def run_file(path: Path, way: str, options: Options, only: Iterable[int] | None = None) -> Result:
    """Run a file's tests, or `only` those of some numbers, in one of the ways of the plugin.

    A test that ends the process has failed; those after it are run in another process.
    """
    result = Result()
    numbers = None if only is None else sorted(only)
    while numbers != []:
        before = len(result.passed) + len(result.failed)
        _run_once(path, way, options, numbers, result)
        numbers = sorted(result.left())
        over = options.end is not None and time.time() > options.end
        if over or len(result.passed) + len(result.failed) == before:
            break
    return result


def _run_once(path: Path, way: str, options: Options, only: list[int] | None, result: Result) -> None:
    """Run tests in one process until they are done, one ends the process or it has become large."""
    with tempfile.TemporaryDirectory(prefix="tl_dpnp-suite-") as temporary:
        outcomes, numbers, output = (Path(temporary) / name for name in ("outcomes", "numbers", "output"))
        outcomes.touch()
        given = {"way": way, "tests-folder": options.folder, "outcomes": outcomes, "limit": options.limit,
                 "sample": options.sample, "sample-seed": f"{options.seed} {path.name}", "end": options.end}
        if only is not None:
            numbers.write_text(json.dumps(only))
            given["only"] = numbers
        command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(options.folder.parent), "-p",
                   "plugin", "-p", "no:cacheprovider", "-p", "no:faulthandler", "-p", "no:xdist", "--capture=no", "-q",
                   "-W", "ignore", "--assert=plain" if way == "fuse" else "--assert=rewrite", str(path)]
        command += [f"--{name}={value}" for name, value in given.items() if value is not None]
        command += ["-k", options.keyword] if options.keyword and only is None else []
        paths = f"{Path(__file__).parent}{os.pathsep}{ROOT}"  # the plugin and the project
        with open(output, "wb") as log:
            status = subprocess.run(
                command, cwd=temporary, env={**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "0"},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            ).returncode
        before = len(result.names)
        running = _read(outcomes, result)
        if running is not None:
            errors = Path(f"{outcomes}.errors").read_text(errors="replace")
            why = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
            why = f"no end after {options.limit:g} s" if "Timeout (" in errors else f"the process died: {why}"
            result.failed[running] = f"{why}\n{errors[:SHOWN]}".rstrip()
        elif status not in _RAN and len(result.names) == before:
            result.problem = output.read_text(errors="replace")[-SHOWN:].strip() or f"exit status {status}"


def _read(outcomes: Path, result: Result) -> int | None:
    """Take what the plugin has written into a result; return the number of the test that was left running."""
    running = None
    for line in outcomes.read_text(encoding="utf-8").splitlines():
        match json.loads(line):
            case {"collected": collected, "chosen": chosen}:
                result.collected = collected
                result.chosen |= set(chosen)
            case {"start": number, "name": name}:
                result.names[number] = name
                running = number
            case {"end": number, "outcome": outcome, "text": text, "kernels": kernels}:
                running = None
                result.kernels.update(kernels)
                if outcome == "passed":
                    result.passed.add(number)
                else:
                    result.failed[number] = f"{outcome}\n{text[-SHOWN:]}".rstrip()
    return running
