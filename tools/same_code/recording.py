"""Records of kernels in files, built by several processes, and what differs between two of them."""

from __future__ import annotations

import difflib
import gzip
import hashlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.same_code.definitions import Definition
from tools.same_code.normal_form import normal_form, without_names

__all__ = ["Record", "build_all", "changed_parts", "coverage", "difference", "fused_sources"]

_ROOT = Path(__file__).parents[2]
_FORMAT = 1


@dataclass(frozen=True)
class Record:
    """What was built of each definition, by name (`building.build`), and the functions that `fuse` wrote for each
    program."""

    definitions: tuple[Definition, ...]
    built: Mapping[str, Mapping[str, Any]]
    fused: Mapping[str, list[str]]

    def save(self, path: Path) -> None:
        """Write the record to a file."""
        data = {"format": _FORMAT, "definitions": [definition.to_json() for definition in self.definitions],
                "built": self.built, "fused": self.fused}
        with gzip.open(path, "wt", encoding="utf-8", compresslevel=3) as file:
            json.dump(data, file)

    @classmethod
    def load(cls, path: Path) -> Record:
        """Read a record; raises ValueError for a file that is none."""
        try:
            with gzip.open(path, "rt", encoding="utf-8") as file:
                data = json.load(file)
        except (OSError, json.JSONDecodeError) as error:
            raise ValueError(f"{path} is no record: {error}") from None
        if not isinstance(data, dict) or data.get("format") != _FORMAT:
            raise ValueError(f"{path} is no record of this version: record it again")
        return cls(tuple(map(Definition.from_json, data["definitions"])), data["built"], data["fused"])

    @property
    def digest(self) -> str:
        """A hash of all normal forms."""
        digest = hashlib.sha256()
        for name in sorted(self.built):
            for part, text in sorted(self.built[name]["parts"].items()):
                digest.update(f"{name}\0{part}\0{normal_form(part, text)}\0".encode())
        return digest.hexdigest()[:16]


def _environment() -> dict[str, str]:
    """Return the environment of the processes: no setting of the caller's, no kernel cache."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("TL_DPNP_")}
    return {**own, "TL_DPNP_CACHE": "0", "PYTHONPATH": str(_ROOT)}


def fused_sources() -> dict[str, list[str]]:
    """Return the functions that `fuse` writes, from a process of its own."""
    command = [sys.executable, "-m", "tools.same_code.building", "fused"]
    run = subprocess.run(command, cwd=_ROOT, env=_environment(), stdout=subprocess.PIPE, check=True)
    found: dict[str, list[str]] = json.loads(run.stdout)
    return found


class _Process:
    """A process that builds kernels in the environment of an interpreter; begins at the first one."""

    def __init__(self, python: str) -> None:
        self.python = python
        self.process: subprocess.Popen[str] | None = None

    def build(self, definition: Definition) -> dict[str, Any]:
        """Return what was built; raises RuntimeError where the process ends instead."""
        if self.process is None:
            self.process = subprocess.Popen([self.python, "-m", "tools.same_code.building"], cwd=_ROOT, text=True,
                                            env=_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(definition.to_json()) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        answer = self.process.stdout.readline()
        if not answer:
            status = self.process.wait()
            self.process = None
            raise RuntimeError(f"{definition.name}: the process that builds it ended with status {status}")
        result: dict[str, Any] = json.loads(answer)
        return result

    def end(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.communicate()


def build_all(
    definitions: Iterable[Definition], processes: int, cuda_python: str | None, progress: Callable[[int], object]
) -> dict[str, dict[str, Any]]:
    """Return what is built of each definition by name, with so many processes at the same time.

    `cuda_python` is the interpreter of the environment that has numba-cuda; it is needed for definitions for CUDA
    devices.  Raises RuntimeError where a process ends or fails on a kernel.
    """
    waiting: queue.SimpleQueue[Definition] = queue.SimpleQueue()
    for definition in sorted(definitions, key=lambda definition: definition.needs_cuda):
        waiting.put(definition)
    built: dict[str, dict[str, Any]] = {}
    failures: list[str] = []

    def work() -> None:
        servers = {False: _Process(sys.executable), True: _Process(cuda_python or "")}
        while not failures:
            try:
                definition = waiting.get_nowait()
            except queue.Empty:
                break
            if definition.needs_cuda:
                servers[False].end()
            try:
                built[definition.name] = servers[definition.needs_cuda].build(definition)
            except (OSError, RuntimeError) as error:
                failures.append(str(error))
            progress(len(built))
        for server in servers.values():
            server.end()

    threads = [threading.Thread(target=work) for _ in range(processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise RuntimeError("; ".join(failures))
    return built


def changed_parts(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the parts of a kernel whose normal forms differ, in order."""
    return [part for part in dict.fromkeys((*before, *after))
            if part not in before or part not in after
            or normal_form(part, before[part]) != normal_form(part, after[part])]


def difference(part: str, before: str, after: str, context: int = 3) -> Iterator[str]:
    """Yield the lines of a unified diff: without the names of values if the code differs in more than those."""
    texts = [without_names(part, text) for text in (before, after)]
    if texts[0] == texts[1]:
        texts = [normal_form(part, text) for text in (before, after)]
    yield from difflib.unified_diff(*(text.splitlines() for text in texts), "before", "after", lineterm="", n=context)


def coverage(record: Record, instructions: Sequence[str]) -> str:
    """Return how many kernels there are of each mapping, engine and target, and what none of them has, as text."""
    counts: Counter[tuple[str, str, str]] = Counter()
    types: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
    used: defaultdict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    refused: Counter[str] = Counter()
    for definition in record.definitions:
        facts = record.built[definition.name]["facts"]
        if facts["refused"]:
            refused[definition.device] += 1
            continue
        key = facts["mapping"], facts["engine"], definition.device
        counts[key] += 1
        types[key].update(facts["types"])
        used[key].update(facts["instructions"])
    rows = [("mapping", "engine", "target", "kernels", "types", "instructions", "has no")]
    every = Counter[str]()
    for key in sorted(counts):
        every.update(used[key])
        missing = [name for name in instructions if not used[key][name]]
        present = f"{len(instructions) - len(missing)}/{len(instructions)}"
        few = ", ".join(missing) if len(missing) <= 12 else f"{', '.join(missing[:8])} and {len(missing) - 8} more"
        rows.append((*key, str(counts[key]), str(len(types[key])), present, few))
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    lines = ["  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[6]]).rstrip()
             for row in rows]
    lines.append(f"{sum(counts.values())} kernels of {len(counts)} kinds; refused, which is compared as well: "
                 + (", ".join(f"{count} for {device}" for device, count in sorted(refused.items())) or "none"))
    nowhere = [name for name in instructions if not every[name]]
    lines.append(f"instructions in no kernel: {', '.join(nowhere) or 'none'}; in the fewest: "
                 + ", ".join(f"{name} ({every[name]})" for name in sorted(instructions, key=lambda n: every[n])[:5]))
    return "\n".join(lines)
