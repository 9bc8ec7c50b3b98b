"""Work on a thread of its own, for what must neither be interrupted halfway nor depend on how deep its caller is.

Numba, dpctl and dpnp do not survive an exception in the middle of their import or of a first compilation: registries
stay half filled, and everything after fails.  Two exceptions can come at any place there.  A signal handler may raise
one, for example `KeyboardInterrupt`: Python runs handlers in the main thread only, so another thread never sees them.
And `RecursionError` comes where the caller's stack is deep already: Python counts the depth of each thread by itself.

A fresh stack is also a fast one.  CPython 3.11 allocates frames in blocks, and calls that cross the end of one map and
unmap memory each time; Numba's compiler does that thousands of times if it starts at an unlucky depth.

All of it is much work that makes objects to keep, so cycles are looked for rarely meanwhile (`garbage.py`).
"""

from __future__ import annotations

import contextvars
import importlib
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

from tl_dpnp.errors import calling_frame, works_for
from tl_dpnp.garbage import rarely_collected

__all__ = ["import_whole", "on_fresh_stack", "with_room"]

_T = TypeVar("_T")

#: Calls that `with_room` leaves to a function at the least: the parser and passes take some for each nested region.
_ROOM = 500
#: Calls that starting a thread and waiting for it take, with a margin: beyond that nothing is begun.
_ROOM_FOR_THREAD = 60
#: Seconds after which a thread that has not begun is taken for one that was interrupted before it was started.
_SECONDS_TO_BEGIN = 1.0


def on_fresh_stack(function: Callable[..., _T], *arguments: Any) -> _T:
    """Return ``function(*arguments)``, called on a new thread in a copy of this thread's context.

    What a signal handler raises meanwhile is raised when the function is done, in place of its result; a second time it
    is raised at once, and the function ends in the background.  Raises `RecursionError` where there is too little room
    to begin.
    """
    _descend(_ROOM_FOR_THREAD)
    work = _Work(_context(), function, arguments)
    # No daemon: where the waiting thread is one, the interpreter must still not end before the compiler does.
    thread = threading.Thread(target=work.run, name="tl_dpnp compiler", daemon=False)
    try:
        thread.start()
        work.wait()
    except BaseException:
        if not work.take():  # the thread has it, and may be in the middle
            work.wait()
        if work.begun.wait(_SECONDS_TO_BEGIN):  # on its way out
            thread.join()
        raise
    thread.join()
    try:
        if work.error is not None:
            raise work.error
        result: _T = work.result
        return result
    finally:
        del work  # an error leads to this frame, which must not lead to the error


def _context() -> contextvars.Context:
    """Return a copy of this thread's context that knows who called the package: warnings point there."""
    context = contextvars.copy_context()
    context.run(works_for.set, calling_frame())
    return context


class _Work:
    """A call that one thread makes and another waits for, with its result or error."""

    def __init__(self, context: contextvars.Context, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._call = (context, function, arguments)
        self._taken = threading.Lock()
        self._done = threading.Lock()
        self._done.acquire()
        self.begun = threading.Event()
        self.error: BaseException | None = None
        self.result: Any = None

    def take(self) -> bool:
        """Return whether nobody took the work before."""
        return self._taken.acquire(blocking=False)

    def run(self) -> None:
        """Make the call, unless the waiting thread took it back."""
        self.begun.set()
        if not self.take():
            return
        context, function, arguments = self._call
        del self._call
        try:
            with rarely_collected():
                self.result = context.run(function, *arguments)
        except BaseException as error:
            self.error = error
        self._done.release()

    def wait(self) -> None:
        """Wait until the call is made."""
        with self._done:
            pass


def with_room(function: Callable[..., _T], *arguments: Any) -> _T:
    """Return ``function(*arguments)``, called here unless the stack is so deep that a fresh one is needed."""
    try:
        _descend(_ROOM)
    except RecursionError:
        pass
    else:
        with rarely_collected():
            return function(*arguments)
    return on_fresh_stack(function, *arguments)


def import_whole(name: str) -> ModuleType:
    """Import a module, on a fresh stack unless that has begun."""
    return importlib.import_module(name) if name in sys.modules else on_fresh_stack(importlib.import_module, name)


def _descend(calls: int) -> None:
    """Raise `RecursionError` unless so many calls can be nested here."""
    if calls:
        _descend(calls - 1)
