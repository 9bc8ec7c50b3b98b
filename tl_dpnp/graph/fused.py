"""`fuse`: a function of dpnp code whose operations run as kernels.

The first call with arrays of a kind traces the function; later calls with the same key (`keys.CallKey`) run the plan
that the trace left.  Where a function does things that have to happen at each call, it is traced at each call.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import types
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import dpnp

from tl_dpnp import config
from tl_dpnp.errors import FusionWarning, TLTypeError, UnsupportedError
from tl_dpnp.graph.calls import arrays_in
from tl_dpnp.graph.guards import Check, same_value
from tl_dpnp.graph.interception import Interceptor, called_method
from tl_dpnp.graph.keys import CallKey
from tl_dpnp.graph.observation import Observer
from tl_dpnp.graph.plan import Call, CallStep, KernelStep, Make, Plan, Step
from tl_dpnp.graph.purity import dpnp_name
from tl_dpnp.graph.release import release, restored
from tl_dpnp.graph.results import result_of
from tl_dpnp.graph.rewriting import rewritten
from tl_dpnp.graph.trace import Break, Trace, active_trace, extent_of, refusal
from tl_dpnp.graph.trace_cache import TraceCache
from tl_dpnp.graph.traced_scalars import bucket
from tl_dpnp.runtime.forking import check_process

__all__ = ["FusedFunction", "fuse"]

_BREAKS = ("quiet", "warn", "error")
#: Keys that a function remembers; the oldest go first.
_MOST_KEYS = 512
#: Values of a number with plans of their own after which it is said that there are many.
_MANY_VALUES = 64


@dataclass
class Specialization:
    """What a trace left: the plan, what it depends on besides the key, and what it takes from each call.

    `numbers` are the values that numbers of the call have to have, by their position, and `buckets` those of integers
    that kernels are given.  Where the plan writes to arrays of the call, `overlaps` says which of them share memory.
    `held` are objects whose identity is part of the key.
    """

    plan: Plan
    guards: Check | None
    numbers: tuple[tuple[int, float], ...]
    buckets: tuple[tuple[int, int], ...]
    overlaps: tuple[tuple[int, int], ...] | None
    held: list[Any]

    def run(self, key: CallKey, arguments: Sequence[Any], keywords: dict[str, Any]) -> tuple[bool, Any]:
        """Run the plan for a call with the same key, if it fits; return whether it did, and the result."""
        arrays, originals, scalars = key.arrays, key.originals, key.scalars
        if self.guards is not None:
            arrays, originals, scalars = list(arrays), list(originals), list(scalars)
            if not self.guards(arguments, keywords, arrays, originals, scalars):
                return False, None
        tape = self.plan.tape
        if tape is not None:
            try:
                scalars = tape.replay(scalars)
            except (ArithmeticError, ValueError):  # the function itself raises it, after what it does before
                return False, None
        for place, value in self.numbers:
            if not same_value(scalars[place], value):
                return False, None
        for place, expected in self.buckets:
            if bucket(scalars[place]) != expected:  # type: ignore[arg-type]  # these are integers
                return False, None
        if self.overlaps is not None and self.overlaps != overlapping(arrays):
            return False, None
        self.plan.calls += 1
        return True, self.plan.run(arrays, originals, scalars, arguments, keywords)


class FusedFunction:
    """A function that is fused; made by `tl_dpnp.fuse`."""

    def __init__(
        self, function: Callable[..., Any], *, fullgraph: bool, on_break: str, recompile_limit: int
    ) -> None:
        code = function_of(function)
        if code is None or dpnp_name(function) is not None:
            what = "one of dpnp's; tl_dpnp.xp has those" if code else f"a {type(function).__name__}"
            raise TLTypeError(f"fuse takes a Python function, not {what}")
        self.name = getattr(function, "__qualname__", code.__qualname__)
        if inspect.isgeneratorfunction(code) or inspect.iscoroutinefunction(code):
            raise UnsupportedError(f"{self.name} is a generator or coroutine, which cannot be fused")
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.code = code
        self.fullgraph = fullgraph
        self.on_break = on_break
        self.recompile_limit = recompile_limit
        self.enabled: bool = config.get("FUSE")
        self._specializations: OrderedDict[Any, list[Specialization]] = OrderedDict()
        self._deciding: dict[Any, tuple[int, ...]] = {}
        self._values: dict[Any, int] = {}
        self._again: OrderedDict[Any, TraceCache] = OrderedDict()
        self._interceptors: list[Interceptor] = []
        self._compilations = 0
        self._kinds: dict[str, list[list[Any]]] = {}
        self._warned: set[str] = set()
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"<tl_dpnp.fuse of {self.name}>"

    def __reduce__(self) -> Any:
        """Pickle by name where that finds this object, else by the function and the options."""
        found: Any = sys.modules.get(getattr(self.function, "__module__", None) or "")
        for part in self.name.split("."):
            found = getattr(found, part, None)
        options = self.fullgraph, self.on_break, self.recompile_limit
        return self.name if found is self else (_unpickled, (self.function, *options))

    def __copy__(self) -> FusedFunction:
        return self

    def __deepcopy__(self, memo: Any) -> FusedFunction:
        return self  # as functions are copied

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the function; results are plain `dpnp.ndarray` objects."""
        check_process()
        trace = active_trace()
        if trace is not None:
            return (trace.interceptor or Interceptor(trace)).call(self.function)(*arguments, **keywords)
        if not self.enabled:
            return self.function(*arguments, **keywords)
        key = self._key(arguments, keywords)
        for specialization in self._specializations.get(self._full_key(key), ()):
            fits, result = specialization.run(key, arguments, keywords)
            if fits:
                return result
        return self._trace_call(key, arguments, keywords, False)[0]

    def explain(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the function and return what became of it, a `tl_dpnp.graph.explain.Explanation`."""
        from tl_dpnp.graph.explain import Explanation

        check_process()
        key = self._key(arguments, keywords)
        _, trace, again = self._trace_call(key, arguments, keywords, True)
        return Explanation.of_trace(self.function, trace, again)

    def _key(self, arguments: Sequence[Any], keywords: dict[str, Any]) -> CallKey:
        """Return the key of a call."""
        key = CallKey()
        for value in arguments:
            key.add(value)
        for name, value in keywords.items():  # in their order, which the function may see
            key.parts.append(name)
            key.add(value)
        key.finish()
        return key

    def _full_key(self, key: CallKey) -> tuple[Any, ...]:
        """Return the key of a call with the values of those numbers that decided what earlier traces did."""
        parts = tuple(key.parts)
        return parts, tuple(_exactly(key.scalars[place]) for place in self._deciding.get(parts, ()))

    # --- tracing -----------------------------------------------------------------------------------------------------

    def _trace_call(
        self, key: CallKey, arguments: Sequence[Any], keywords: dict[str, Any], observed: bool
    ) -> tuple[Any, Trace, list[Break]]:
        """Trace a call; `observed` to find out what the function reads even if it is known to have effects."""
        code = rewritten(self.code)
        if code is None or self._compilations >= self.recompile_limit:
            return self._in_dpnp(code is None, arguments, keywords)
        parts = tuple(key.parts)
        trace = Trace(None if observed else self._again.get(parts))
        trace.observed = observed or parts not in self._again
        trace.refusing = self.name if self.fullgraph or self.on_break == "error" else None
        for original in key.originals:
            trace.argument(original)
        observer = Observer(trace, key) if trace.observed else None
        trace.interceptor = observer or self._interceptor(trace)
        raw = self._record(trace, observer, arguments, keywords)
        if observer is None:
            self._interceptors.append(trace.interceptor)
        make = None if observer is None else result_of(trace, observer, raw)
        again = [b for b in trace.breaks if b.again] if observer is None else self._reasons(trace, observer, make)
        specialization = None
        if observer is not None and not again:
            assert make is not None
            specialization = self._specialization(trace, observer, key, make)
        with self._lock:
            self._compilations += trace.compilations > 0
            if trace.compilations:
                self._note_kinds(trace.tape.fixed, arguments, keywords)
            if specialization is not None:
                deciding = {place for place in trace.tape.fixed if place < len(key.scalars)}
                self._deciding[parts] = tuple(sorted(deciding.union(self._deciding.get(parts, ()))))
                full = self._full_key(key)
                if full not in self._specializations and full[1]:
                    self._count_values(parts, arguments, keywords)
                found = self._specializations.setdefault(full, [])
                found.append(specialization)
                del found[:-8]
                while len(self._specializations) > _MOST_KEYS:
                    self._specializations.popitem(last=False)
                while len(self._deciding) > _MOST_KEYS:
                    oldest = next(iter(self._deciding))
                    del self._deciding[oldest]
                    self._values.pop(oldest, None)
            elif observer is not None:
                self._again[parts] = trace.cache
                while len(self._again) > _MOST_KEYS:
                    self._again.popitem(last=False)
        self._report(trace.breaks + [b for b in again if b not in trace.breaks])
        if specialization is None:
            value = restored(trace, raw)
            del raw, make
        else:
            assert observer is not None
            originals = [*key.originals, *observer.found]
            value = specialization.plan.make(
                Call(trace.registers, originals, trace.tape.values, arguments, keywords))
        trace.finish()
        if specialization is not None:
            trace.registers = []
        else:
            if observer is not None:
                observer.forget()
            release(trace)
        trace.tape.let_go()
        return value, trace, again

    def _interceptor(self, trace: Trace) -> Interceptor:
        """Return hooks that no other thread uses."""
        try:
            found = self._interceptors.pop()
        except IndexError:
            return Interceptor(trace)
        found.begin(trace)
        return found

    def _record(
        self, trace: Trace, observer: Observer | None, arguments: Sequence[Any], keywords: dict[str, Any]
    ) -> Any:
        with trace:
            if observer is None:
                given = [_stand_in(trace, value) for value in arguments]
                named = {name: _stand_in(trace, value) for name, value in keywords.items()}
            else:
                observer.fused(self.function)
                given = [observer.cover(a, observer.guards.argument(i)) for i, a in enumerate(arguments)]
                named = {name: observer.cover(a, observer.guards.argument(name)) for name, a in keywords.items()}
            try:
                raw = trace.interceptor.call(self.function)(*given, **named)
            except BaseException:
                if trace.refusing is None or not (trace.breaks or (observer and observer.effects)):
                    trace.finish()  # what dpnp would have done before the error
                else:
                    trace.end()
                if observer is not None:
                    observer.forget()
                release(trace)
                raise
            finally:
                del given, named
            trace.write_back()
            trace.materialize(arrays_in(raw))
            return raw

    def _specialization(self, trace: Trace, observer: Observer, key: CallKey, make: Make) -> Specialization:
        tape = trace.tape
        plain = all(entry is None for entry in tape.entries)
        overlaps = None
        if plan_writes(trace.steps):
            overlaps = overlapping([*key.arrays, *(trace.registers[slot] for slot in observer.inputs)])
        plan = Plan(len(trace.registers), list(trace.steps), make, observer.slots, None if plain else tape)
        numbers = tuple((place, tape.values[place]) for place in sorted(tape.fixed))
        buckets = tuple((place, bucket(value)) for place, value in enumerate(tape.values)
                        if place in tape.integers - tape.fixed and type(value) is int)
        return Specialization(plan, observer.guards.compiled(), numbers, buckets, overlaps, key.held)

    def _changing(self) -> str:
        """Return, for a message, which arguments were of how many kinds when something was compiled."""
        kinds = [(name, {repr(kind) for kind in found}) for name, found in self._kinds.items()]
        texts = [f"argument {name} was of {len(found)} kinds" for name, found in kinds if len(found) > 1]
        return f", and {', '.join(texts)}" if texts else ""

    def _named(
        self, arguments: Sequence[Any], keywords: dict[str, Any]
    ) -> Iterator[tuple[str, list[Any], dict[int, float]]]:
        """Yield the name of each argument, its kind, and its numbers by their position."""
        before = 0
        names = self.code.__code__.co_varnames
        numbered = {names[i] if i < self.code.__code__.co_argcount else str(i + 1): a for i, a in enumerate(arguments)}
        for name, argument in {**numbered, **keywords}.items():
            key = CallKey()
            key.add(argument)
            yield name, key.parts, dict(enumerate(key.scalars, before))
            before += len(key.scalars)

    def _count_values(self, parts: Any, arguments: Sequence[Any], keywords: dict[str, Any]) -> None:
        """Count the plans for values of numbers, and say once that there are many."""
        self._values[parts] = count = self._values.get(parts, 0) + 1
        if count >= _MANY_VALUES and "values" not in self._warned:
            self._warned.add("values")
            names = [name for name, _, numbers in self._named(arguments, keywords)
                     if any(place in numbers for place in self._deciding[parts])]
            warnings.warn(
                f"{self.name} has been traced for {count} values of {', '.join(names)}: it looks at the value, as a "
                "size, an index or in a comparison, so that each needs a plan of its own", FusionWarning, stacklevel=5)

    def _note_kinds(self, fixed: set[int], arguments: Sequence[Any], keywords: dict[str, Any]) -> None:
        """Remember of what kind each argument was; of numbers, the values of those that are `fixed`."""
        for name, parts, numbers in self._named(arguments, keywords):
            values = [value for place, value in numbers.items() if place in fixed]
            kinds = self._kinds.setdefault(name, [])
            if [parts, values] not in kinds:
                kinds.append([parts, values])

    def _in_dpnp(
        self, unknown: bool, arguments: Sequence[Any], keywords: dict[str, Any]
    ) -> tuple[Any, Trace, list[Break]]:
        """Run the function as it is, and say so once."""
        name = self.name
        reason = "unknown" if unknown else "limit"
        if reason not in self._warned:
            self._warned.add(reason)
            warnings.warn(
                f"the source of {name} cannot be found, or is not what was compiled: it runs in dpnp as it is, without "
                "fusion; define it in a file or a notebook" if unknown else
                f"{name} has been compiled {self._compilations} times{self._changing()}; further kinds of arguments "
                "run in dpnp as they are: keep what changes the same, or raise recompile_limit", FusionWarning,
                stacklevel=4,
            )
        code = self.code.__code__
        place = code.co_filename, code.co_firstlineno
        why = "its source cannot be found" if unknown else "it has reached recompile_limit"
        return self.function(*arguments, **keywords), Trace(), [Break(name, why, *place, "", True)]

    def _reasons(self, trace: Trace, observer: Observer, make: Make | None) -> list[Break]:
        """Return why the function has to be traced at each call; nothing if its plan can be used."""
        code = self.code.__code__
        place = code.co_filename, code.co_firstlineno
        again = [b for b in trace.breaks if b.again] + list(observer.effects)
        if make is None:
            again.append(Break("the result", "it holds objects that a plan cannot make", *place, "return arrays", True))
        return list(dict.fromkeys(again))

    def _report(self, breaks: Sequence[Break]) -> None:
        if not breaks:
            return
        text = "\n".join(f"  {b}" for b in breaks)
        if self.fullgraph or self.on_break == "error":
            raise refusal(self.name, text)
        if self.on_break == "warn":
            warnings.warn(f"{self.name} is not fused as a whole:\n{text}", FusionWarning, stacklevel=4)


def function_of(function: Any) -> types.FunctionType | None:
    """Return the Python function that runs when something is called, None if there is none."""
    if isinstance(function, types.FunctionType):
        return function
    if isinstance(function, functools.partial):
        return function_of(function.func)
    if isinstance(function, types.MethodType):
        return function_of(function.__func__)
    called = None if isinstance(function, type) else called_method(type(function))
    return called if isinstance(called, types.FunctionType) else None


def _unpickled(function: Any, fullgraph: bool, on_break: str, recompile_limit: int) -> FusedFunction:
    return FusedFunction(function, fullgraph=fullgraph, on_break=on_break, recompile_limit=recompile_limit)


def _exactly(value: float) -> Any:
    """Return what a number has in common with those that are the same: zeros have signs, and NaN is the same as NaN."""
    return value if type(value) is int else (float, repr(value))


def _stand_in(trace: Trace, value: Any) -> Any:
    """Return what stands for an argument where a function is traced at each call: kernels are given the integers."""
    if type(value) is int:
        return trace.tape.fixed_number(value)
    return trace.argument(value) if type(value) is dpnp.ndarray else value


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

    def decorate(function: Any) -> Any:
        if isinstance(function, classmethod | staticmethod):
            return type(function)(decorate(function.__func__))
        if isinstance(function, types.MethodType):
            return types.MethodType(decorate(function.__func__), function.__self__)
        return FusedFunction(function, fullgraph=fullgraph, on_break=on_break, recompile_limit=recompile_limit)

    return decorate if function is None else decorate(function)

