"""Processes that end while what `submit` started is under way: each must end with the status that it was given."""

from __future__ import annotations

import atexit
import ctypes
import itertools
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from tests.campaigns.outcome import Outcome, case_seeds
from tests.campaigns.patience import run_patiently

__all__ = ["KINDS", "run"]

ROOT = Path(__file__).parents[2]
PRODUCT = """
func @product(%A: memref<f32x32x32x?>, %B: memref<f32x32x32>, %C: memref<f32x32x32x?>) {
  %g = group_id
  %a = subview %A[:,:,%g] : memref<f32x32x32x?>
  %c = subview %C[:,:,%g] : memref<f32x32x32x?>
  gemm.n.n 1.0, %a, %B, 1.0, %c : f32, memref<f32x32x32>, memref<f32x32x32>, f32, memref<f32x32x32>
}
"""
#: Seconds that a process with a core may take; 300 launches take some two.
LIMIT = 120.0
#: What a process ends with that ends itself.
STATUS = 7
MOST_FAILURES = 20
#: Lines of a process's standard error that are shown.
SHOWN = 20


# --- what the processes do -------------------------------------------------------------------------------------------


class Work:
    """A kernel and its arrays, and random choices: how large they are and by what they are submitted."""

    def __init__(self, rng: random.Random) -> None:
        import dpnp

        import tl_dpnp

        self.rng = rng
        batch = rng.choice((1, 50, 400))
        self._kernel = tl_dpnp.compile(PRODUCT)
        self._arrays = [*map(tl_dpnp.rev, (dpnp.ones((batch, 32, 32), dtype="float32"),
                                           dpnp.ones((32, 32), dtype="float32"),
                                           dpnp.ones((batch, 32, 32), dtype="float32")))]
        with tl_dpnp.record() as graph:
            self._kernel(*self._arrays)
        self._submits: tuple[Callable[[], Any], ...] = (partial(self._kernel.submit, *self._arrays), graph.submit)
        self._one_way = rng.choice((*self._submits, None))

    def submit(self, count: int) -> list[Any]:
        """Start so many launches and return their events."""
        return [(self._one_way or self.rng.choice(self._submits))() for _ in range(count)]

    def some(self) -> int:
        """Return a small number of launches."""
        return self.rng.choice((1, 1, 2, 5, 20))

    def pause(self, longest: float = 0.05) -> None:
        """Do nothing for a while, or go on at once."""
        time.sleep(self.rng.choice((0, self.rng.random() * longest)))


def waited(work: Work) -> None:
    for event in work.submit(work.some()):
        event.wait()


def not_waited(work: Work) -> None:
    work.submit(work.some())
    work.pause()


def in_flight(work: Work) -> None:
    events = work.submit(300)
    if work.rng.random() < 0.5:
        events.clear()


def chained(work: Work) -> None:
    event = None
    for _ in range(work.rng.choice((5, 300))):
        event = work._kernel.submit(*work._arrays, depends=[] if event is None else [event])


def thread(work: Work) -> None:
    for _ in range(work.rng.choice((1, 4))):
        threading.Thread(target=work.submit, args=(work.rng.choice((1, 300)),)).start()


def daemon_thread(work: Work) -> None:
    def forever() -> NoReturn:
        while True:
            for event in work.submit(work.rng.choice((1, 20))):
                event.wait()

    threading.Thread(target=forever, daemon=True).start()
    work.pause(0.2)


def calling_threads(work: Work) -> None:
    """Daemon threads that call, without OpenCL and with helpers, while others of them submit."""
    from tl_dpnp.runtime.sycl import helpers, host_calls

    host_calls.CALLS_BEFORE, host_calls.NUMBERS = 2, replace(host_calls.NUMBERS, longest=1e3)
    helpers.start(os.cpu_count() or 1)

    def forever(run: Callable[[], Any]) -> NoReturn:
        while True:
            run()

    ways = [partial(work._kernel, *work._arrays)] * 4 + [partial(work.submit, 1)]
    for way in work.rng.sample(ways, work.rng.randint(1, 5)):
        threading.Thread(target=forever, args=(way,), daemon=True).start()
    work.pause(0.3)


def pool(work: Work) -> None:
    with ThreadPoolExecutor(4) as executor:
        for _ in range(8):
            executor.submit(work.submit, work.some())


def interrupted(work: Work) -> None:
    _signal_soon(work, signal.SIGINT)
    _busy(work)


def interrupted_twice(work: Work) -> None:
    _signal_soon(work, signal.SIGINT)
    _signal_soon(work, signal.SIGINT)
    _busy(work)


def interrupted_at_exit(work: Work) -> None:
    """Ctrl-C after the last line: what has been submitted is waited for all the same."""
    work.submit(300)
    _signal_soon(work, signal.SIGINT)
    raise KeyboardInterrupt


def terminated(work: Work) -> None:
    _signal_soon(work, signal.SIGTERM)
    _busy(work)


def exit_in_handler(work: Work) -> None:
    signal.signal(signal.SIGALRM, lambda *_: sys.exit(STATUS))
    signal.setitimer(signal.ITIMER_REAL, 0.001 + work.rng.random() * 0.2)
    _busy(work)


def exit_after_handler(work: Work) -> None:
    """A handler that submits, too."""
    def handle(*_: Any) -> NoReturn:
        work.submit(work.some())
        sys.exit(STATUS)

    signal.signal(signal.SIGTERM, handle)
    _signal_soon(work, signal.SIGTERM)
    _busy(work)


def exit_in_timer(work: Work) -> None:
    """``sys.exit`` in a thread ends the thread alone."""
    def leave() -> NoReturn:
        work.submit(work.some())
        sys.exit(1)

    threading.Timer(work.rng.random() * 0.05, leave).start()
    work.submit(work.rng.choice((1, 300)))


def exit_in_callback(work: Work) -> None:
    """``sys.exit`` where Python cannot raise: in a finalizer, in a callback of C, as a future is done."""
    def leave(*_: Any) -> NoReturn:
        work.submit(work.some())
        sys.exit(1)

    work.submit(300)
    match work.rng.randrange(3):
        case 0:
            weakref.ref(Work.__new__(Work), leave)
            owner = threading.Event()
            weakref.finalize(owner, leave)
        case 1:
            ctypes.CFUNCTYPE(None)(leave)()
        case 2:
            with ThreadPoolExecutor(1) as executor:
                waiting = threading.Event()
                future = executor.submit(lambda: (waiting.wait(), work.submit(1)))
                future.add_done_callback(leave)  # in the other thread: of a future that is done it would be called here
                waiting.set()


def exit_with_status(work: Work) -> NoReturn:
    work.submit(work.rng.choice((1, 300)))
    sys.exit(STATUS)


def raised(work: Work) -> NoReturn:
    work.submit(work.rng.choice((1, 300)))
    raise ValueError("meant")


def submitted_at_exit(work: Work) -> None:
    """From a function that runs at exit: after the package's own, as those of before its import do, or before."""
    _at_exit.append(partial(work.submit, work.rng.choice((1, 300))))
    if work.rng.random() < 0.5:
        atexit.register(_at_exit.pop())


def _signal_soon(work: Work, number: int) -> None:
    """Send this process a signal from a thread, now or a little later."""
    delay = work.rng.choice((0.0, 0.3)) * work.rng.random()

    def send() -> None:
        time.sleep(delay)
        while True:  # an exception from the handler may have been lost in a finalizer
            os.kill(os.getpid(), number)
            time.sleep(5)

    threading.Thread(target=send, daemon=True).start()


def _busy(work: Work) -> None:
    """Submit, and wait or not, until something ends it."""
    while True:
        events = work.submit(work.rng.choice((1, 20, 300)))
        for event in events[:work.rng.choice((0, 1, 300))]:
            event.wait()
        if work.rng.random() < 0.3:
            events[-1].wait()


#: What was registered before the package was imported calls these.
_at_exit: list[Callable[[], Any]] = []


# --- the campaign ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """What a process does, and the status that it ends with: a signal's is negative."""

    act: Callable[[Work], None]
    status: int = 0


KINDS = {kind.act.__name__.replace("_", "-"): kind for kind in (
    Kind(waited), Kind(not_waited), Kind(in_flight), Kind(chained), Kind(thread), Kind(daemon_thread), Kind(pool),
    Kind(interrupted, -signal.SIGINT), Kind(interrupted_twice, -signal.SIGINT),
    Kind(interrupted_at_exit, -signal.SIGINT), Kind(terminated, -signal.SIGTERM), Kind(exit_in_handler, STATUS),
    Kind(exit_after_handler, STATUS), Kind(exit_in_timer), Kind(exit_in_callback), Kind(exit_with_status, STATUS),
    Kind(raised, 1), Kind(submitted_at_exit), Kind(calling_threads),
)}


def run(
    seed: int, minutes: float, count: int | None = None, *, kind: str | None = None, workers: int | None = None
) -> Outcome:
    """Start processes of each kind in turn, until the minutes are over or there were `count` of each."""
    if kind is not None and kind not in KINDS:
        raise SystemExit(f"exits has no kind {kind!r}; it has {', '.join(KINDS)}")
    kinds = [kind] if kind else list(KINDS)
    cases = itertools.islice(_cases(kinds, seed), None if count is None else count * len(kinds))
    tried: Counter[str] = Counter()
    failures: list[str] = []
    end, lock = time.monotonic() + 60 * minutes, threading.Lock()

    def loop(folder: str) -> None:
        while time.monotonic() < end and len(failures) < MOST_FAILURES:
            with lock:
                case = next(cases, None)
            if case is None:
                return
            failure = try_one(*case, folder)
            with lock:
                tried[case[0]] += 1
                failures.extend(failure)

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(workers or os.cpu_count() or 1) as executor:
        for future in [executor.submit(loop, folder) for _ in range(executor._max_workers)]:
            future.result()
    return Outcome(sum(tried.values()), tuple(failures), (", ".join(f"{name}: {n}" for name, n in tried.items()),))


def _cases(kinds: list[str], seed: int) -> Iterator[tuple[str, int]]:
    """Yield kinds and seeds, all kinds with each."""
    return ((kind, case) for case in case_seeds(seed) for kind in kinds)


def try_one(kind: str, seed: int, folder: str) -> list[str]:
    """Run a process and return what was wrong with its end; `folder` is for its cache."""
    command = [sys.executable, "-X", "faulthandler", "-m", __name__, kind, str(seed)]
    environment = {**os.environ, "TL_DPNP_CACHE_DIR": folder}
    try:
        ended = run_patiently(command, LIMIT, cwd=ROOT, env=environment)
    except subprocess.TimeoutExpired as problem:
        return [_failure(kind, seed, f"hung: no end after {LIMIT:.0f} s with a core", str(problem.stderr))]
    if ended.returncode == KINDS[kind].status:
        return []
    return [_failure(kind, seed, f"ended with {ended.returncode} in place of {KINDS[kind].status}", ended.stderr)]


def _failure(kind: str, seed: int, what: str, errors: str) -> str:
    shown = "\n".join(f"  {line}" for line in errors.splitlines()[-SHOWN:])
    return f"repeat with: python -m tests.campaigns exits --kind {kind} --seed {seed} --count 1\n{what}\n{shown}"


def main(kind: str, seed: int) -> None:
    """Be one of the processes."""
    atexit.register(lambda: [act() for act in _at_exit])
    KINDS[kind].act(Work(random.Random(seed)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
