"""Entries of the disk cache damaged, swapped, forged, deleted in races and half written: the numbers stay right.

A case is a folder of the entries of some programs, which is damaged at random; processes that live through many cases
then compile and run the programs in it and compare the results with NumPy.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.campaigns.outcome import Outcome, case_seeds

__all__ = ["run"]

ROOT = Path(__file__).parents[2]
#: Programs that differ in one number: a kernel in the place of another gives other results.
AXPBY = """
func @f(%x: memref<f32x?>, %y: memref<f32x?>) {{
  axpby.n 2.0, %x, {0}.0, %y : f32, memref<f32x?>, f32, memref<f32x?>
}}"""
GEMM = """
func @f(%x: memref<f32x8x8>, %y: memref<f32x8x8>) {{
  gemm.n.t {0}.0, %x, %x, 1.0, %y : f32, memref<f32x8x8>, memref<f32x8x8>, f32, memref<f32x8x8>
}}"""
PROGRAMS = [(kind, number) for number in (2, 3, 5) for kind in ("axpby", "gemm")]
#: Seconds that a process may take for all programs, where nothing is in the cache and others run.
LIMIT = 180.0
#: Cases after which processes begin anew: what a process keeps of a kernel must not add up to much.
CASES_OF_A_PROCESS = 20


def run(seed: int, minutes: float, count: int | None = None) -> Outcome:
    """Damage entries until `minutes` are over or `count` of them were damaged; a case is finished in any case."""
    end = time.monotonic() + 60 * minutes
    failures: list[str] = []
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="tl_dpnp-campaign-") as place, _Children() as children:
        whole = Path(place, "whole")
        problem = children.first.ask(whole)
        if problem:
            return Outcome(0, (f"with an empty cache: {problem}",))
        for number, case in enumerate(case_seeds(seed)):
            if time.monotonic() > end or (count is not None and counts["entries"] >= count) or len(failures) > 20:
                break
            if number % CASES_OF_A_PROCESS == CASES_OF_A_PROCESS - 1:
                children.renew()
            folder = Path(place, f"case{number}")
            shutil.copytree(whole, folder)
            for problem in _case(case, folder, children, counts):
                failures.append(f"{problem}\npython -m tests.campaigns cache --seed {case} --count 1")
            _remove(folder)
            counts["cases"] += 1
    return Outcome(counts.pop("entries", 0), tuple(failures), (", ".join(f"{n} {what}" for what, n in counts.items()),))


def _case(seed: int, folder: Path, children: _Children, counts: Counter[str]) -> Iterator[str]:
    rng = random.Random(seed)
    happening = rng.choices([_damaged, _raced, _killed], [8, 1, 1])[0]
    with children.renewed_if_dead():
        for problem in happening(rng, folder, children, counts):
            yield f"{happening.__name__[1:]}: {problem}"
        # Whatever happened, the next calls are right, and nothing is left behind when something was written.
        entries = sorted(folder.glob("*.json"))
        _remove(rng.choice(entries) if entries and folder.stat().st_mode & 0o22 == 0 else folder)
        problem = children.first.ask(folder)
        if problem:
            yield f"afterwards: {problem}"
        left = [path.name for path in folder.glob(".*")] if folder.exists() else []
        if left:
            yield f"left behind: {left}"


def _damaged(rng: random.Random, folder: Path, children: _Children, counts: Counter[str]) -> Iterator[str]:
    """Damage many entries, then run the programs."""
    done = [_damage(rng, folder, counts) for _ in range(rng.randint(1, 40))]
    if rng.random() < 0.05:
        folder.chmod(rng.choice([0o777, 0o720, 0o000, 0o500]))
    problem = children.first.ask(folder)
    if problem:
        yield f"{problem}\nafter {'; '.join(done)}"


def _raced(rng: random.Random, folder: Path, children: _Children, counts: Counter[str]) -> Iterator[str]:
    """Run the programs in two processes while a third damages, deletes and puts back."""
    problems: list[str | None] = []
    threads = [threading.Thread(target=lambda c=child: problems.append(c.ask(folder)))
               for child in (children.first, children.second)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        _damage(rng, folder, counts)
        time.sleep(rng.expovariate(20))
    for thread in threads:
        thread.join()
    yield from filter(None, problems)


def _killed(rng: random.Random, folder: Path, children: _Children, counts: Counter[str]) -> Iterator[str]:
    """Kill a process while it writes."""
    for path in folder.glob("*.json"):
        _remove(path)
    victim = children.second
    victim.send({"folder": str(folder), "slow": True})
    wanted, end = rng.randint(1, 12), time.monotonic() + LIMIT
    seen: set[str] = set()
    while len(seen) < wanted and time.monotonic() < end and victim.is_busy():
        seen.update(path.name for path in folder.glob(".*.tmp"))
        time.sleep(0.001)
    victim.kill()
    counts["entries"] += 1
    counts["half written"] += bool(list(folder.glob(".*.tmp")))
    yield from ()


# --- damage ----------------------------------------------------------------------------------------------------------


def _damage(rng: random.Random, folder: Path, counts: Counter[str]) -> str:
    """Damage one entry in one way and say how; another process may have it in its hands."""
    # What is not there any more, or damaged already, is left alone.
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        paths = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
        if paths:
            path, other = rng.choice(paths), rng.choice(paths)
            # Reading a pipe would wait for ever.
            plain = all(stat.S_ISREG(each.lstat().st_mode) for each in (path, other))
            way = rng.choice(_WAYS if plain else [_deleted, _swapped, _replaced])
            way(rng, path, other)
            counts["entries"] += 1
            counts[way.__name__[1:]] += 1
            return f"{way.__name__[1:]} {path.name[:8]}{path.suffix}"
    return "nothing"


def _flipped(rng: random.Random, path: Path, other: Path) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(rng.choice([1, 1, 2, 50])):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data)


def _truncated(rng: random.Random, path: Path, other: Path) -> None:
    os.truncate(path, rng.randrange(path.stat().st_size))


def _lengthened(rng: random.Random, path: Path, other: Path) -> None:
    with path.open("ab") as file:
        file.write(rng.randbytes(rng.choice([1, 5000])))


def _emptied(rng: random.Random, path: Path, other: Path) -> None:
    path.write_bytes(b"")


def _scrambled(rng: random.Random, path: Path, other: Path) -> None:
    path.write_bytes(rng.choice([rng.randbytes(500), b"[" * 100_000, b"null", b"{}", b'{"body": {}}', b"\xff\xfe"]))


def _deleted(rng: random.Random, path: Path, other: Path) -> None:
    _remove(path)


def _swapped(rng: random.Random, path: Path, other: Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent.parent) as place:
        os.rename(path, Path(place, "one"))
        os.rename(other, path)
        os.rename(Path(place, "one"), other)


def _copied(rng: random.Random, path: Path, other: Path) -> None:
    shutil.copy(other, path)


def _forged(rng: random.Random, path: Path, other: Path) -> None:
    """Write another header, in half the cases with the right checksum, which then says nothing that can be used."""
    document = json.loads(path.read_bytes())
    body = document["body"]
    field = rng.choice(["key", "content", "facts"])
    body[field] = rng.choice([None, 3, "", "0" * 64, [], {}, {"plan": {}}, {"plan": [1]}, {"module": []}, other.stem])
    if rng.random() < 0.5 and field == "facts":
        text = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
        document["checksum"] = hashlib.sha256(text).hexdigest()
    path.write_text(json.dumps(document))


def _opened(rng: random.Random, path: Path, other: Path) -> None:
    path.chmod(rng.choice([0o666, 0o622, 0o000, 0o200, 0o400]))


def _given_away(rng: random.Random, path: Path, other: Path) -> None:
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)


def _replaced(rng: random.Random, path: Path, other: Path) -> None:
    """Put something that is no file into the place."""
    _remove(path)
    rng.choice([path.mkdir, lambda: os.mkfifo(path), lambda: path.symlink_to(path), lambda: path.symlink_to(other),
                lambda: path.symlink_to("/dev/zero"), lambda: path.symlink_to("/nowhere/at/all")])()


_WAYS: list[Callable[[random.Random, Path, Path], None]] = [
    _flipped, _flipped, _truncated, _lengthened, _emptied, _scrambled, _deleted, _swapped, _copied, _forged, _forged,
    _opened, _given_away, _replaced,
]


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.chmod(0o700) if not path.is_symlink() else None
    with contextlib.suppress(OSError):
        path.unlink()
    shutil.rmtree(path, ignore_errors=True)


# --- processes that compile and run ----------------------------------------------------------------------------------


class _Child:
    """A process that runs the programs in one folder after another."""

    def __init__(self) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the process)
        self._process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-c", "from tests.campaigns.cache import child; child()"], cwd=ROOT,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True,
        )
        self._answers: list[str] = []
        self._answered = threading.Semaphore(0)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.append(line)
            self._answered.release()
        self._answered.release()

    def send(self, job: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        print(json.dumps(job), file=self._process.stdin, flush=True)

    def is_busy(self) -> bool:
        return not self._answers and self._process.poll() is None

    def ask(self, folder: Path) -> str | None:
        """Have the programs run with the cache in a folder; return what is wrong, or None."""
        try:
            self.send({"folder": str(folder)})
        except OSError:
            return self._death("died")
        if not self._answered.acquire(timeout=LIMIT):
            self._process.send_signal(signal.SIGABRT)
            return self._death("hangs")
        if not self._answers:
            return self._death("died")
        problem: str | None = json.loads(self._answers.pop())
        return problem

    def is_dead(self) -> bool:
        return self._process.poll() is not None

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def _death(self, what: str) -> str:
        status = self._process.wait()
        self._errors.seek(0)
        return f"the process {what} (status {status}): {self._errors.read().decode(errors='replace')[-3000:]}"


class _Children:
    """Two such processes, the second one begun when it is needed."""

    def __init__(self) -> None:
        self._children: dict[int, _Child] = {}

    def __enter__(self) -> _Children:
        return self

    def __exit__(self, *exception: object) -> None:
        self.renew()

    @property
    def first(self) -> _Child:
        return self._get(0)

    @property
    def second(self) -> _Child:
        return self._get(1)

    def _get(self, number: int) -> _Child:
        if number not in self._children:
            self._children[number] = _Child()
        return self._children[number]

    def renew(self) -> None:
        """End the processes; what needs one begins it."""
        while self._children:
            self._children.popitem()[1].kill()

    @contextlib.contextmanager
    def renewed_if_dead(self) -> Iterator[None]:
        yield
        if any(child.is_dead() for child in self._children.values()):
            self.renew()


def child() -> None:
    """Run the programs for each line of standard input, a job, and write what is wrong, or null, as a line."""
    import dpnp
    import numpy as np

    import tl_dpnp
    from tl_dpnp import config

    host = np.asfortranarray(np.arange(64, dtype="f4").reshape(8, 8) % 7)
    replace = os.replace

    def slowly(source: Any, target: Any) -> None:
        time.sleep(0.02)
        replace(source, target)

    def wrong(kind: str, number: int) -> bool:
        source = host if kind == "gemm" else host.ravel()
        x, y = dpnp.asarray(source, order="F"), dpnp.ones(source.shape, dtype="f4", order="F")
        tl_dpnp.compile((GEMM if kind == "gemm" else AXPBY).format(number))(x, y)
        expected = number * (host @ host.T) + 1 if kind == "gemm" else 2 * source + number
        return not np.array_equal(dpnp.asnumpy(y), expected)

    warnings.simplefilter("error")
    warnings.simplefilter("ignore", tl_dpnp.CacheWarning)
    for line in sys.stdin:
        job = json.loads(line)
        os.replace = slowly if job.get("slow") else replace
        problem = None
        with config.scope(CACHE_DIR=job["folder"]):
            for kind, number in PROGRAMS:
                try:
                    if wrong(kind, number):
                        problem = f"wrong numbers: {kind} {number}"
                except Exception as error:
                    problem = f"{type(error).__name__} in {kind} {number}: {error}"
        print(json.dumps(problem), flush=True)
