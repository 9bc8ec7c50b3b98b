"""What this package does, told to those who watch: to the logs, to profiles and to the marks of other profilers.

What takes milliseconds, such as compiling, is a `span` wherever it is done.  Calls and launches take microseconds: the
methods that do them are *doors*, which are replaced by others that make spans for as long as there is an observer.  So
a call that nobody watches runs the very code that it would run without this module.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from tl_dpnp.logs import is_wanted, log

__all__ = [
    "MACHINE_CODE", "Description", "Observer", "Span", "door", "follow_log", "in_words", "purpose", "span", "timed",
    "unwatch", "watch",
]

#: How calls are run that no Python of this package sees.
MACHINE_CODE = "machine code"

#: The name of a span, how it runs a launch, and details.
Description = tuple[str, str, dict[str, Any]]


@dataclass(slots=True, eq=False)
class Span:
    """Something that was done: on which topic of the logs, of what, and when, in nanoseconds of `time.perf_counter_ns`.

    `how` says how a launch was run by this span, where no door was opened in it; it is empty for what only holds
    launches.  `details` are added while it lasts, and
    `error` is the class of what it raised.  `outer` is the span that it was done in, and `is_leaf` says
    that no door was opened in it.
    """

    topic: str
    name: str
    how: str
    details: dict[str, Any]
    begin: int = 0
    end: int = 0
    error: str | None = None
    outer: Span | None = None
    is_leaf: bool = True
    observers: tuple[Observer, ...] = field(default=(), repr=False)


class Observer(Protocol):
    """Who is told of spans: of the end of each whose begin it was told of, on the same thread, the inner ones first."""

    def begin(self, span: Span, /) -> None: ...

    def end(self, span: Span, /) -> None: ...


class _Doors:
    """The methods that are doors, by class and name, with what describes them; while they are open, also their own."""

    def __init__(self) -> None:
        self._known: list[tuple[type, str, Callable[[type, str], Callable[..., Any]]]] = []
        self._plain: dict[tuple[type, str], Any] | None = None

    def add(self, owner: type, method: str, watched: Callable[[type, str], Callable[..., Any]]) -> None:
        """Take in a door; its module may have been imported when there are observers already."""
        self._known.append((owner, method, watched))
        if self._plain is not None:
            self._open(self._plain, owner, method, watched)

    def open(self) -> None:
        """Replace the methods."""
        if self._plain is None:
            self._plain = {}
            for each in self._known:
                self._open(self._plain, *each)

    def close(self) -> None:
        """Put the methods back."""
        for (owner, method), plain in (self._plain or {}).items():
            setattr(owner, method, plain)
        self._plain = None

    @staticmethod
    def _open(
        plain: dict[tuple[type, str], Any], owner: type, method: str,
        watched: Callable[[type, str], Callable[..., Any]],
    ) -> None:
        plain[owner, method] = owner.__dict__[method]
        setattr(owner, method, watched(owner, method))


#: The innermost span of this thread or task; the compiler's threads have that of the thread that waits for them.
_innermost: ContextVar[Span | None] = ContextVar("tl_dpnp_span", default=None)
_doors = _Doors()
_lock = threading.Lock()
_observers: tuple[Observer, ...] = ()


def watch(observer: Observer) -> None:
    """Tell an observer of all spans that begin from now on, in all threads; the same when called again."""
    global _observers
    with _lock:
        if observer not in _observers:
            _observers = (*_observers, observer)
        _doors.open()


def unwatch(observer: Observer) -> None:
    """Tell an observer of no spans that begin from now on."""
    global _observers
    with _lock:
        _observers = tuple(other for other in _observers if other is not observer)
        if not _observers:
            _doors.close()


def _begin(topic: str, name: str, how: str, details: dict[str, Any]) -> Span:
    made = Span(topic, name, how, details, outer=_innermost.get(), observers=_observers)
    _innermost.set(made)
    for observer in made.observers:
        observer.begin(made)
    made.begin = time.perf_counter_ns()
    return made


def _end(made: Span) -> None:
    made.end = time.perf_counter_ns()
    _innermost.set(made.outer)
    for observer in reversed(made.observers):
        observer.end(made)


@contextmanager
def span(topic: str, name: str, text: Callable[[Span], str] | None = None, **details: Any) -> Iterator[Span]:
    """Do what is inside as a span; if its log is wanted, what `text` makes of it in the end is a line of that."""
    made = _begin(topic, name, "", details)
    try:
        yield made
    except BaseException as problem:
        made.error = type(problem).__name__
        raise
    finally:
        _end(made)
        if text is not None and is_wanted(topic):
            log(topic, [f"{text(made)}, {made.error}" if made.error else text(made)])


def door(owner: type, method: str, describe: Callable[[Any], Description], topic: str = "launch") -> None:
    """Say that a method of a class is a door, and what describes its spans, of the object."""

    def watched(owner: type, method: str) -> Callable[..., Any]:
        plain = owner.__dict__[method]

        @functools.wraps(plain)
        def run(self: Any, /, *arguments: Any, **named: Any) -> Any:
            made = _begin(topic, *describe(self))
            above = made.outer
            while above is not None and above.is_leaf:
                above.is_leaf, above = False, above.outer
            try:
                return plain(self, *arguments, **named)
            except BaseException as problem:
                made.error = type(problem).__name__
                if made.how == MACHINE_CODE:  # which raises nothing: what follows it has refused the call
                    made.how = ""
                raise
            finally:
                _end(made)

        return run

    _doors.add(owner, method, watched)


def in_words(made: Span) -> str:
    """Return how long a span was."""
    taken = (made.end - made.begin) / 1e3
    return f"{taken:.1f} µs" if taken < 1e3 else f"{taken / 1e3:.1f} ms" if taken < 1e6 else f"{taken / 1e6:.2f} s"


def timed(made: Span) -> str:
    """Return what a span was, of which compilation, and how long it was, as the line of a log."""
    return f"{made.name}{purpose()}: {in_words(made)}"


def purpose() -> str:
    """Return what is being compiled, in words for the end of a line, or nothing."""
    found = _innermost.get()
    while found is not None and found.topic != "compile":
        found = found.outer
    return "" if found is None else f" for {found.name}"


class _LaunchLog:
    """Writes the log of launches."""

    def begin(self, made: Span, /) -> None:
        """There is nothing to say yet."""

    def end(self, made: Span, /) -> None:
        """Say what was launched, unless another span inside was that, or nothing was."""
        if made.topic == "launch" and made.is_leaf and (made.how or made.error) and is_wanted("launch"):
            parts = [in_words(made), *map(str, made.details.values()), made.error or made.how]
            log("launch", [f"{made.name}: {', '.join(parts)}"])


_LAUNCH_LOG = _LaunchLog()


def follow_log() -> None:
    """Watch launches for their log from now on, if somebody reads it.

    That is asked where a kernel, a fused function or a launch is made, so that calls need not ask.
    """
    if _LAUNCH_LOG not in _observers and is_wanted("launch"):
        watch(_LAUNCH_LOG)
