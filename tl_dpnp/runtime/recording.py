"""Recording: many calls of kernels that are checked once and launched together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from tl_dpnp.errors import TLError, TLTypeError
from tl_dpnp.runtime.forking import check_process, process
from tl_dpnp.runtime.platform_choice import default_platform, is_event
from tl_dpnp.runtime.watching import door

if TYPE_CHECKING:
    from tl_dpnp.runtime.platforms import FixedLaunch, Platform

__all__ = ["Graph", "current", "listed_events", "record"]


class Step(NamedTuple):
    """A recorded call: the name of its kernel and, on a device, its launch and platform; else the interpreter's run."""

    name: str
    launch: FixedLaunch | None
    platform: Platform | None
    interpret: Callable[[], None] | None = None

    def __str__(self) -> str:
        return f"@{self.name} in the interpreter" if self.launch is None else f"@{self.name}: {self.launch.extent}"


class _Interpreted:
    """Steps that the interpreter runs."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps

    def run(self) -> None:
        """Run them."""
        for step in self._steps:
            if step.interpret is not None:
                step.interpret()

    def start(self, depends: Sequence[Any]) -> None:
        """Run them after events; there is no event for what is done."""
        _wait(depends)
        self.run()


class Graph:
    """Calls of kernels in the order in which they were recorded; made by `tl_dpnp.record`.

    Calling it runs them all.  It keeps their arrays alive and works on the memory that they had when they were
    recorded.  Several threads may run it; whether that is a race on its arrays is up to them.
    """

    def __init__(self) -> None:
        self._steps: list[Step] = []
        # Stretches of steps that are launched together.
        self._parts: list[Any] = []
        self._unusable: str | None = "is still being recorded"

    def __len__(self) -> int:
        return len(self._steps)

    def __repr__(self) -> str:
        return f"<tl_dpnp.Graph of {len(self)} launches{f', which {self._unusable}' if self._unusable else ''}>"

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of the kernels, in order."""
        return tuple(step.name for step in self._steps)

    def inspect(self) -> str:
        """Return the launches as text, a line for each."""
        return "\n".join(f"{number}  {step}" for number, step in enumerate(self._steps))

    def __call__(self) -> None:
        """Run everything, one kernel after another, and wait once; on a CUDA device only start it.

        As with a call of a kernel, what was submitted before to the queue of the arrays is done first, or on a CUDA
        device to their current stream.  Inside another recording the launches are recorded.  Raises `TLError` for a
        graph whose recording is not over or failed, and `TLBoundsError` for kernels with ``debug=True``.
        """
        self._require_usable()
        recording = current()
        if recording is not None:
            for step in self._steps:
                recording.add(step)
            return
        for part in self._parts:
            part.run()

    def submit(self, *, depends: Iterable[Any] = ()) -> Any:
        """Start everything after the events in `depends` and return the `dpctl.SyclEvent`, or CUDA event, of the end.

        Each kernel starts after the one before it.  With ``debug=True`` and ``target="reference"`` the work is done
        when this returns, so that it can raise.  Otherwise as `Kernel.submit`.
        """
        self._require_usable()
        if current() is not None:
            raise TLError("a graph cannot be submitted while another is recorded: call it, and it is recorded as well")
        device = next(((step.platform, step.launch.queue) for step in self._steps
                       if step.launch is not None and step.platform is not None), None)
        events, event = listed_events(depends), None
        try:
            for part in self._parts:
                event = part.start(events)
                events = [] if event is None else [event]
            if event is None:
                _wait(events)
                return default_platform().completed_event()
            if device is not None:
                platform, queue = device
                platform.keep_alive(queue, (self, *self._steps), event)
        except TLError:
            raise
        except BaseException:  # that of a signal handler may come in between, and the arrays go while the kernels run
            if device is not None:
                platform, queue = device
                platform.wait(queue)
            raise
        return event

    def add(self, step: Step) -> None:
        """Record a call.

        Raises `dpctl.utils.ExecutionPlacementError`, or on CUDA devices `TLBindingError`, if its queue is not that of
        the calls before, and `TLError` if the recording is over.
        """
        if self._unusable is None:
            raise TLError("the recording of this graph is over")
        queues = [(f"@{other.name}", other.launch.queue) for other in self._steps if other.launch is not None]
        if step.launch is not None and step.platform is not None and queues:
            step.platform.arrays.common_queue([queues[-1], (f"@{step.name}", step.launch.queue)])
        self._steps.append(step)

    def end(self, failed: bool = False) -> None:
        """End the recording; a graph whose recording failed cannot be run."""
        self._unusable = "failed to be recorded"
        if failed:
            self._steps.clear()
            return
        self._parts = [
            _Interpreted(steps) if platform is None else platform.together([step.launch for step in steps])
            for platform, steps in _stretches(self._steps)
        ]
        self._unusable = None

    def _require_usable(self) -> None:
        if process.cut_off and any(step.launch is not None for step in self._steps):
            check_process()
        if self._unusable is not None:
            raise TLError(f"this graph cannot be run: it {self._unusable}")


door(Graph, "__call__", lambda graph: (f"graph of {len(graph)} launches", "", {}))
door(Graph, "submit", lambda graph: (f"graph of {len(graph)} launches", "", {}))

_current: ContextVar[Graph | None] = ContextVar("tl_dpnp_recording", default=None)
#: The graph that this thread or task records, or None; this is on the path of every call.
current = _current.get


@contextmanager
def record() -> Iterator[Graph]:
    """Record the calls of kernels in a ``with`` block, instead of running them, as a `Graph`.

    >>> with tl_dpnp.record() as graph:
    ...     first(x, y)
    ...     second(y, z)
    >>> graph()

    Arguments are checked, and their values fixed, while they are recorded: scalars as they are then, arrays by the
    memory that they have then.  It holds for the calls of this thread or task, also for `Kernel.submit`, which waits
    for the events that it is given and returns one that is complete.  Everything but calls of kernels happens at once.
    On a CUDA device the calls become a CUDA graph, but for those with ``debug=True``.

    Raises `TLError` inside another recording.  If the block raises, the graph cannot be run.
    """
    if current() is not None:
        raise TLError("a recording inside a recording: end the first one, or call the graph of the second one in it")
    graph = Graph()
    token = _current.set(graph)
    failed = True
    try:
        yield graph
        failed = False
    finally:
        _current.reset(token)
        graph.end(failed)


def _stretches(steps: Sequence[Step]) -> Iterator[tuple[Platform | None, list[Any]]]:
    """Return the steps in stretches that the interpreter or a device runs; of the latter each has its platform."""
    for platform, stretch in itertools.groupby(steps, key=lambda step: step.platform):
        yield platform, list(stretch)


def listed_events(depends: Iterable[Any]) -> list[Any]:
    """Return the events that a submission was given to wait for; raises `TLTypeError` for what is no list of them."""
    try:
        events = list(depends)
    except TypeError:
        raise TLTypeError(f"depends= takes a list of events, it was given a {type(depends).__name__}: write "
                          "depends=[event]") from None
    for event in events:
        if not is_event(event):
            raise TLTypeError(f"depends= takes events that submit returned, not a {type(event).__name__}")
    return events


def _wait(events: Iterable[Any]) -> None:
    for event in events:
        event.wait()
