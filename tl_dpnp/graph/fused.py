"""`fuse`: a function of dpnp code whose operations run as kernels.

The first call with arrays of a kind traces the function; later calls with the same key (`keys.CallKey`) run the plan
that the trace left.  Where a function does things that have to happen at each call, it is traced at each call.
"""

from __future__ import annotations

import functools
import inspect
import threading
import types
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tl_dpnp.errors import FusionWarning, TLTypeError, UnsupportedError
from tl_dpnp.graph.calls import arrays_in, builder_of
from tl_dpnp.graph.environment import Environment, scan
from tl_dpnp.graph.keys import CallKey
from tl_dpnp.graph.lazy import LazyArray
from tl_dpnp.graph.plan import CallStep, KernelStep, Plan, Registers, Step
from tl_dpnp.graph.recording import lazy_arguments, recording_copy
from tl_dpnp.graph.trace import Break, Trace, TracedFloat, active_trace, extent_of
from tl_dpnp.runtime.forking import check_process

__all__ = ["FusedFunction", "fuse"]

_BREAKS = ("quiet", "warn", "error")
#: Keys that a function remembers; the oldest go first.
_MOST_KEYS = 512
_SIMPLE = (bool, int, float, complex, str, bytes, type(None))


@dataclass
class Specialization:
    """What a trace left: the plan, and the floats that it depends on.

    Where the plan writes to arrays of the call, `overlaps` says which of them share memory.
    """

    plan: Plan
    statics: tuple[tuple[int, float], ...]
    overlaps: tuple[tuple[int, int], ...] | None

    def fits(self, key: CallKey) -> bool:
        """Return whether the plan is right for a call whose key is the same."""
        return all(key.scalars[place] == value for place, value in self.statics) and (
            self.overlaps is None or self.overlaps == overlapping(key.arrays)
        )


class FusedFunction:
    """A function that is fused; made by `tl_dpnp.fuse`."""

    def __init__(
        self, function: Callable[..., Any], *, fullgraph: bool, on_break: str, recompile_limit: int
    ) -> None:
        if not isinstance(function, types.FunctionType):
            raise TLTypeError(f"fuse takes a Python function, not a {type(function).__name__}")
        if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
            raise UnsupportedError(f"{function.__qualname__} is a generator or coroutine, which cannot be fused")
        functools.update_wrapper(self, function)
        self.function = function
        self.fullgraph = fullgraph
        self.on_break = on_break
        self.recompile_limit = recompile_limit
        self._specializations: OrderedDict[Any, list[Specialization]] = OrderedDict()
        self._environment: Environment | None = None
        self._compilations = 0
        self._warned = False
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"<tl_dpnp.fuse of {self.function.__qualname__}>"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the function; results are plain `dpnp.ndarray` objects."""
        check_process()
        trace = active_trace()
        if trace is not None:
            return self._inline(trace, arguments, keywords)
        key = self._key(arguments, keywords)
        if key is None:
            return self.function(*arguments, **keywords)
        found = self._specializations.get(tuple(key.parts))
        if found is not None:
            for specialization in found:
                if specialization.fits(key):
                    plan = specialization.plan
                    plan.calls += 1
                    return plan.run(key.arrays, key.originals, key.scalars)
        return self._trace_call(key, arguments, keywords)[0]

    def explain(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the function and return what became of it, a `tl_dpnp.graph.explain.Explanation`."""
        from tl_dpnp.graph.explain import Explanation

        check_process()
        key = self._key(arguments, keywords)
        if key is None:  # there is no array, and nothing to fuse
            self.function(*arguments, **keywords)
            return Explanation.of_trace(self.function, Trace(), ())
        _, trace, again = self._trace_call(key, arguments, keywords)
        return Explanation.of_trace(self.function, trace, again)

    # --- keys --------------------------------------------------------------------------------------------------------

    def _key(self, arguments: Sequence[Any], keywords: dict[str, Any]) -> CallKey | None:
        """Return the key of a call, None if it has no array: then there is nothing to fuse."""
        environment = self._environment
        if environment is None:
            environment = self._environment = scan(self.function)
            self._attributes = frozenset(environment.attributes)
            self._getters = [get for get, _ in environment.names]
        key = CallKey(self._attributes)
        for value in arguments:
            key.add(value)
        if keywords:
            for name in sorted(keywords):
                key.parts.append(name)
                key.add(keywords[name])
        for get in self._getters:
            key.add(get(), False)
        key.finish()
        return key if key.arrays else None

    # --- tracing -----------------------------------------------------------------------------------------------------

    def _inline(self, trace: Trace, arguments: Sequence[Any], keywords: dict[str, Any]) -> Any:
        """Run inside the trace of another fused function, as part of its graph."""
        copy, variables = recording_copy(trace, self.function)
        try:
            return copy(*arguments, **keywords)
        finally:
            self._share_globals(variables)

    def _share_globals(self, variables: dict[str, Any]) -> None:
        for name in scan(self.function).assigned_globals if self._environment is None else \
                self._environment.assigned_globals:
            if name in variables:
                self.function.__globals__[name] = variables[name]

    def _trace_call(
        self, key: CallKey, arguments: Sequence[Any], keywords: dict[str, Any]
    ) -> tuple[Any, Trace, list[Break]]:
        parts = tuple(key.parts)
        if self._compilations >= self.recompile_limit:
            if not self._warned:
                self._warned = True
                warnings.warn(
                    f"{self.function.__qualname__} has been compiled {self._compilations} times for arrays of "
                    "different kinds; further kinds run in dpnp as they are (recompile_limit=)", FusionWarning,
                    stacklevel=3,
                )
            trace = Trace()
            return self.function(*arguments, **keywords), trace, []
        trace = Trace()
        trace.scalars = list(key.scalars)
        for original in key.originals:
            trace.argument(original)
        result, raw = self._record(trace, arguments, keywords)
        again = self._again(trace, key, raw)
        statics = tuple((scalar.position, scalar.value) for scalar in trace.traced if scalar.static)
        plan, overlaps = None, None
        if not again:
            overlaps = overlapping(key.arrays) if plan_writes(trace.steps) else None
            plan = Plan(len(trace.registers), list(trace.steps), result)
        with self._lock:
            self._compilations += trace.compilations > 0
            found = self._specializations.setdefault(parts, [])
            if plan is not None:
                found.append(Specialization(plan, statics, overlaps))
                del found[:-8]
            while len(self._specializations) > _MOST_KEYS:
                self._specializations.popitem(last=False)
        value = result(trace.registers, key.originals, trace.scalars)
        trace.finish()
        self._report(trace.breaks + [b for b in again if b not in trace.breaks])
        if plan is not None:
            trace.registers = []
        return value, trace, again

    def _record(
        self, trace: Trace, arguments: Sequence[Any], keywords: dict[str, Any]
    ) -> tuple[Callable[[Registers, Sequence[Any], Sequence[float]], Any], Any]:
        with trace:
            copy, variables = recording_copy(trace, self.function)
            lazy = [lazy_arguments(trace, argument) for argument in arguments]
            named = {name: lazy_arguments(trace, keywords[name]) for name in sorted(keywords)}
            try:
                raw = copy(*lazy, **{name: named[name] for name in keywords})
            except BaseException:
                trace.write_back()  # what dpnp would have done before the error
                raise
            finally:
                self._share_globals(variables)
                del lazy, named
            trace.write_back()
            trace.materialize(arrays_in(raw))
            return result_of(trace, raw), raw

    def _again(self, trace: Trace, key: CallKey, raw: Any) -> list[Break]:
        """Return why the function has to be traced at each call; nothing if its plan can be used."""
        assert self._environment is not None
        code = self.function.__code__
        place = code.co_filename, code.co_firstlineno
        again = [b for b in trace.breaks if b.again]
        again += [Break(e.what, e.reason, e.file, e.line, "", True) for e in self._environment.effects]
        again += [Break("assignment", "elements of something other than an array are assigned", file, line, "", True)
                  for file, line in sorted(self._environment.stores - trace.assignments)]
        again += [Break(name, "it is an object that cannot be compared with that of another call", *place, "", True)
                  for name in key.opaque]
        if trace.foreign:
            again.append(Break("an array", "it is neither an argument nor a variable of the function", *place,
                               "pass it as an argument", True))
        unknown = _unknown_in(raw, trace)
        if unknown:
            again.append(Break(unknown, "it is returned, and might differ at each call", *place, "return arrays", True))
        return list(dict.fromkeys(again))

    def _report(self, breaks: Sequence[Break]) -> None:
        if not breaks:
            return
        text = "\n".join(f"  {b}" for b in breaks)
        if self.fullgraph or self.on_break == "error":
            raise UnsupportedError(f"{self.function.__qualname__} is not fused as a whole:\n{text}")
        if self.on_break == "warn":
            warnings.warn(f"{self.function.__qualname__} is not fused as a whole:\n{text}", FusionWarning, stacklevel=4)


def overlapping(arrays: Sequence[Any]) -> tuple[tuple[int, int], ...]:
    """Return the pairs of arrays that share memory."""
    extents = [extent_of(array) for array in arrays]
    return tuple(
        (i, j) for i, (low, high) in enumerate(extents) for j, (other_low, other_high) in enumerate(extents[:i])
        if low < other_high and other_low < high
    )


def plan_writes(steps: Sequence[Step]) -> bool:
    """Return whether steps may write to an array that existed before."""
    return any(
        isinstance(step, CallStep)
        or (isinstance(step, KernelStep) and len(step.allocations) < len(step.report.region.outputs)) for step in steps
    )


def result_of(trace: Trace, raw: Any) -> Callable[[Registers, Sequence[Any], Sequence[float]], Any]:
    """Return a function that makes a call's result; an argument that is returned is the caller's own object."""
    originals = {id(lazy): position for position, lazy in enumerate(trace.arguments())}

    def build(value: Any) -> Callable[[Registers, Sequence[Any], Sequence[float]], Any]:
        if type(value) is LazyArray:
            position = originals.get(id(value))
            if position is not None:
                return lambda registers, given, scalars: given[position]
            make = builder_of(trace, value)
            return lambda registers, given, scalars: make(registers, scalars)
        if type(value) is TracedFloat:
            place = value.position
            return lambda registers, given, scalars: scalars[place]
        if type(value) in (list, tuple):
            parts, kind = [build(part) for part in value], type(value)
            return lambda registers, given, scalars: kind([part(registers, given, scalars) for part in parts])
        if type(value) is dict:
            entries = [(key, build(part)) for key, part in value.items()]
            return lambda registers, given, scalars: {key: part(registers, given, scalars) for key, part in entries}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            fields, named = [build(part) for part in value], type(value)
            return lambda registers, given, scalars: named(*[part(registers, given, scalars) for part in fields])
        return lambda registers, given, scalars: value

    return build(raw)


def _unknown_in(value: Any, trace: Trace) -> str | None:
    """Return what in a result can neither be made again from registers nor is a simple constant."""
    if type(value) is LazyArray or type(value) is TracedFloat or isinstance(value, _SIMPLE):
        return None
    if type(value) in (list, tuple) or (isinstance(value, tuple) and hasattr(value, "_fields")):
        return next((found for part in value if (found := _unknown_in(part, trace))), None)
    if type(value) is dict:
        return next((found for part in value.values() if (found := _unknown_in(part, trace))), None)
    return f"a {type(value).__name__}"


def fuse(
    function: Callable[..., Any] | None = None, *, fullgraph: bool = False, on_break: str = "quiet",
    recompile_limit: int = 8,
) -> Any:
    """Run a function's dpnp operations fused into kernels; to be used as a decorator, with or without options.

    The result of a call is what the function gives without the decorator: values (within the accumulation error of
    products), dtypes, shapes, USM type, queue, aliasing and exceptions are dpnp's.  The function is traced when it is
    called with arrays of a new kind: shape, strides, dtype, USM type or queue; a kernel serves every size of the batch.
    What cannot be fused runs in dpnp.

    `on_break` says what happens then: nothing, a `FusionWarning`, or an `UnsupportedError`; `fullgraph=True` is the
    last one.  After `recompile_limit` traces that had to compile kernels, further kinds of arguments run in dpnp, with
    one warning.

    Raises `TLTypeError` for options that are not understood, `UnsupportedError` for generators and coroutines.
    """
    if on_break not in _BREAKS:
        raise TLTypeError(f"on_break={on_break!r} is not understood: it takes {', '.join(map(repr, _BREAKS))}")
    if not isinstance(recompile_limit, int) or recompile_limit < 1:
        raise TLTypeError(f"recompile_limit={recompile_limit!r} is not understood: it takes a number from 1")

    def decorate(function: Callable[..., Any]) -> FusedFunction:
        return FusedFunction(function, fullgraph=fullgraph, on_break=on_break, recompile_limit=recompile_limit)

    return decorate if function is None else decorate(function)

