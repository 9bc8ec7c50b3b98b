"""Turns in which threads wait inside the OpenCL runtime for CPUs; two defects of it (2024.2.2) make them necessary.

- Where several threads wait for one out-of-order queue, its markers, which depend on one another, may release each
  other twice, and the process crashes.
- A thread that waits takes part in the work, in an arena of oneTBB with a place for one such thread beside the workers.
  The wait of another one is delegated to a thread inside, which begins it in the middle of what it does there.  If that
  is a task of the out-of-order queue which is waited for, the task waits for the wait and the wait for the task.

So threads wait for a queue one after another; and while something that was submitted may not be complete, the one that
waits is alone, as far as this package knows: what dpnp and others do at the same time it does not.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

__all__ = ["Turn", "inside", "turn_to_wait"]

_T = TypeVar("_T")

#: Seconds for which a thread waits until it is alone: a signal handler may hold what it waits for.
_PATIENCE = 10.0
#: Seconds in which a thread that is alone gets its place in the arena; after that others may enter.
_ENTRANCE = 0.02


class _Inside:
    """The threads that wait for kernels of their own, side by side, or one that waits for a queue, alone.

    As a context manager it is for the former.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running: set[int] = set()
        self._alone: int | None = None
        self._since = 0.0

    def __enter__(self) -> None:
        thread = threading.get_ident()
        with self._changed:
            while self._alone not in (None, thread) and time.monotonic() < self._since + _ENTRANCE:
                self._changed.wait(_ENTRANCE)
            self._running.add(thread)

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._running.discard(threading.get_ident())
            if self._alone is not None:
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Be the only thread inside, or become so within some seconds: only kernels that take longer are met then."""
        thread = threading.get_ident()
        with self._changed:
            end = time.monotonic() + _PATIENCE
            self._changed.wait_for(lambda: self._alone in (None, thread), _PATIENCE)
            nested, self._alone, self._since = self._alone == thread, thread, end
            self._changed.wait_for(lambda: not self._running - {thread}, max(0.0, end - time.monotonic()))
            self._since = time.monotonic()
        try:
            yield
        finally:
            if not nested:
                with self._changed:
                    self._alone = None
                    self._changed.notify_all()


inside = _Inside()


class Turn:
    """The turn to wait for a queue: the `lock` to hold meanwhile, and how much has been submitted.

    `counts` are two numbers that machine code reads: launches that were submitted, and those of them that are known to
    be complete.  The lock may be taken twice by a thread, whose signal handlers may submit.
    """

    __slots__ = ("__weakref__", "_numbers", "_waits_long", "counts", "lock")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.counts = (ctypes.c_int64 * 2)()
        self._numbers, self._waits_long = itertools.count(1), False

    @property
    def is_idle(self) -> bool:
        """Whether all that was submitted is known to be complete."""
        return self.counts[0] == self.counts[1]

    def wait_for_all(self, queue: Any) -> None:
        """Wait for all that was submitted to the queue."""
        with self.lock:
            submitted = self.counts[0]
            self._wait(queue.wait)
            self.counts[1] = submitted

    def wait_for(self, event: Any) -> None:
        """Wait for an event of the queue."""
        with self.lock:
            self._wait(event.wait)

    def _wait(self, wait: Callable[[], object]) -> None:
        if self.is_idle:
            wait()
            return
        self._waits_long = True
        try:
            with inside.alone():
                wait()
        finally:
            self._waits_long = False

    def submit(self, submit: Callable[[], _T]) -> _T:
        """Return what `submit` returns; not while another thread waits for a queue that it takes to be idle."""
        if self._waits_long:
            self.counts[0] = next(self._numbers)
            return submit()
        with self.lock:
            self.counts[0] = next(self._numbers)
            return submit()


_turns_lock = threading.RLock()  # a signal handler may submit while its thread holds it
_turns: weakref.WeakValueDictionary[int, Turn] = weakref.WeakValueDictionary()


def turn_to_wait(queue: Any) -> Turn:
    """Return the turn to wait for a queue; it is the same for all Python objects of one queue."""
    with _turns_lock:
        turn = _turns.get(hash(queue))
        if turn is None:
            turn = _turns[hash(queue)] = Turn()
        return turn
