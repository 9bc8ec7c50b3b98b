"""Profiles: what was compiled, looked up and launched in a ``with`` block, and how long each took."""

from __future__ import annotations

import json
import os
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from tl_dpnp.errors import TLError, TLTypeError
from tl_dpnp.runtime.marks import marks_named
from tl_dpnp.runtime.watching import Observer, Span, unwatch, watch

__all__ = ["profile"]

#: Spans that a profile keeps by default: some 300 bytes each.
_MOST_SPANS = 1_000_000
_NOT_BEGUN = "the profile has recorded nothing: write `with profile:` around the calls"


class profile:  # noqa: N801  # it is called as a function
    """Record what this package does in a ``with`` block, in all threads of this process.

    >>> with tl_dpnp.profile("trace.json") as profile:
    ...     kernel(x, y)
    >>> print(profile)

    What is recorded are compilations with their stages, looks into the disk cache, traces of fused functions, and each
    launch, with how it was run.  Short calls are run by machine code as they are without a profile, and timed around
    that.  It takes some microseconds for each call; without a profile calls cost nothing more.  Times are those of the
    thread: on CUDA devices, and with `submit`, of the start of a kernel alone.

    At the end of the block, also if it raises, a trace is written to `path`, if one is given, as JSON that Chrome's
    ``chrome://tracing`` and https://ui.perfetto.dev show.  `marks` asks for ranges in the profilers of hardware
    vendors, too: ``"itt"`` (Intel VTune, by the package ``ittapi``), ``"nvtx"`` (NVIDIA Nsight Systems, by ``nvtx``),
    or a tuple of them.  After `most` spans no further ones are kept; the text says how many were left out.

    Raises `TLTypeError` for options that are not understood, `UnsupportedError` where the package of a mark is missing,
    FileNotFoundError where the folder of `path` is not there, IsADirectoryError where it is a folder itself, and
    `TLError` if a profile is used twice.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, marks: str | tuple[str, ...] = (), most: int = _MOST_SPANS,
    ) -> None:
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise TLTypeError(f"most= takes a positive number of spans, not {most!r}")
        if path is not None and not isinstance(path, str | os.PathLike):
            raise TLTypeError(f"profile takes the path of a file for a trace, or nothing, not a {type(path).__name__}: "
                              "write `with tl_dpnp.profile() as profile:` around the calls")
        self.path = None if path is None else Path(path)
        if self.path is not None and not self.path.parent.is_dir():
            raise FileNotFoundError(f"the folder of {str(self.path)!r}, for the trace of a profile, is not there")
        if self.path is not None and self.path.is_dir():
            raise IsADirectoryError(f"{str(self.path)!r} is a folder: name a file for the trace of a profile")
        self._marks = marks_named(marks)
        self._recorder = _Recorder(most)
        self._begin = self._end = 0

    def __enter__(self) -> profile:
        if self._begin:
            raise TLError("a profile is used for one block: make another with tl_dpnp.profile(...)")
        self._begin = time.perf_counter_ns()
        for observer in self._observers:
            watch(observer)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for observer in self._observers:
            unwatch(observer)
        self._recorder.close()
        self._end = time.perf_counter_ns()
        if self.path is not None:
            self.save(self.path)

    @property
    def _observers(self) -> tuple[Observer, ...]:
        return self._recorder, *self._marks

    @property
    def seconds(self) -> float:
        """How long the block took, or takes so far."""
        return ((self._end or time.perf_counter_ns()) - self._begin) / 1e9 if self._begin else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the trace as JSON-serialisable data, in Chrome's Trace Event Format (complete events, times in µs).

        Raises `TLError` before the block: nothing is recorded then.
        """
        if not self._begin:
            raise TLError(_NOT_BEGUN)
        spans, process = self._recorder.spans, os.getpid()
        names = {thread: name for _, thread, name in spans}
        events = [
            {"name": "thread_name", "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
            for thread, name in names.items()
        ]
        events += [
            {"name": span.name, "cat": span.topic, "ph": "X", "pid": process, "tid": thread,
             "ts": (span.begin - self._begin) / 1e3, "dur": (span.end - span.begin) / 1e3, "args": _arguments(span)}
            for span, thread, _ in spans
        ]
        return {"traceEvents": events, "displayTimeUnit": "ns",
                "otherData": {"left_out": self._recorder.left_out, "seconds": self.seconds}}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace to a file.  Raises `TLError` before the block: nothing is recorded then."""
        trace = self.to_json()
        with open(path, "w", encoding="utf-8") as file:
            json.dump(trace, file)

    def __str__(self) -> str:
        """Return a table of launches and compilations: how often, and how long all of them and the median one took."""
        if not self._begin:
            return _NOT_BEGUN
        spans = [span for span, _, _ in self._recorder.spans]
        rows = [("", "count", "all ms", "median µs"), *_rows(spans)]
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines = [f"profile of {self.seconds:.3f} s"]
        lines += [" ".join([row[0].ljust(widths[0]), *(cell.rjust(width + 1) for cell, width in
                                                       zip(row[1:], widths[1:], strict=True))]) for row in rows]
        cache = [span for span in spans if span.topic == "cache"]
        loads = [span for span in cache if "hit" in span.details]
        found = sum(span.details["hit"] for span in loads)
        lines.append(f"disk cache: {found} found, {len(loads) - found} missed, {len(cache) - len(loads)} stored")
        if self._recorder.left_out:
            lines.append(f"{self._recorder.left_out} later spans were left out (most={self._recorder.most})")
        return "\n".join(lines)

    __repr__ = __str__


class _Recorder:
    """Keeps spans that have ended, with the number and the name of their thread, up to `most`."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.left_out = 0
        self.spans: list[tuple[Span, int, str]] = []
        self._is_over = False

    def begin(self, span: Span, /) -> None:
        """There is nothing to keep yet."""

    def end(self, span: Span, /) -> None:
        """Keep a span, unless the profile is over."""
        if self._is_over:
            return
        if len(self.spans) >= self.most:
            self.left_out += 1
            return
        span.outer, span.observers = None, ()  # a chain of spans would keep all that they were in
        self.spans.append((span, threading.get_native_id(), threading.current_thread().name))

    def close(self) -> None:
        """Keep no more."""
        self._is_over = True


def _arguments(span: Span) -> dict[str, Any]:
    """Return the details of a span for a trace."""
    arguments = dict(span.details)
    if span.how and span.is_leaf:
        arguments["how"] = span.how
    if span.error is not None:
        arguments["error"] = span.error
    return arguments


def _rows(spans: Sequence[Span]) -> Iterator[tuple[str, str, str, str]]:
    """Yield the rows of a table: launches by kernel and how they were run, then compilations; the longest first."""
    for topic in ("launch", "compile"):
        groups: dict[str, list[int]] = {}
        for span in spans:
            if span.topic == topic and (topic == "compile" or (span.is_leaf and span.how)):
                name = f"{span.name}, {span.how}" if topic == "launch" else f"{topic} {span.name}"
                groups.setdefault(name, []).append(span.end - span.begin)
        for name, taken in sorted(groups.items(), key=lambda group: -sum(group[1])):
            yield name, str(len(taken)), f"{sum(taken) / 1e6:.3f}", f"{statistics.median(taken) / 1e3:.1f}"
