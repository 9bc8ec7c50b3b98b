"""`fuse`: a function of dpnp code whose operations run as kernels.

The first call with arrays of a kind traces the function; later calls with the same key (`keys.CallKey`) run the plan
that the trace left.  Where a function does things that have to happen at each call, it is traced at each call.
"""

from __future__ import annotations

import functools
import inspect
import threading
import types
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar, overload

from tl_dpnp import config
from tl_dpnp.errors import TLTypeError, UnsupportedError
from tl_dpnp.graph.breaks import Break, listing, refusal
from tl_dpnp.graph.explain import Explanation
from tl_dpnp.graph.function_wrapper import FunctionWrapper
from tl_dpnp.graph.fuse_options import check_options
from tl_dpnp.graph.history import History
from tl_dpnp.graph.interception import Interceptor, called_method
from tl_dpnp.graph.keys import CallKey
from tl_dpnp.graph.observation import Observer
from tl_dpnp.graph.own_memory import give_arrays
from tl_dpnp.graph.placeholders import placeholders
from tl_dpnp.graph.plan import Call, Make
from tl_dpnp.graph.plan_store import MOST_KEYS, PlanStore
from tl_dpnp.graph.purity import dpnp_name
from tl_dpnp.graph.recent import RecentCalls
from tl_dpnp.graph.release import is_kept, release, restored
from tl_dpnp.graph.repeated import RepeatedTrace
from tl_dpnp.graph.resized_plans import ResizedPlans
from tl_dpnp.graph.results import result_of
from tl_dpnp.graph.retraces import CallKind, Origin, ParameterNames, array_names
from tl_dpnp.graph.rewriting import obstacle, rewritten
from tl_dpnp.graph.specialization import Specialization
from tl_dpnp.graph.statistics import FusionStats
from tl_dpnp.graph.trace import Trace, active_trace
from tl_dpnp.graph.trace_cache import TraceCache
from tl_dpnp.graph.varying import NamedArray, Varying
from tl_dpnp.logs import check_setting
from tl_dpnp.runtime.array_package import CALLS_BEFORE
from tl_dpnp.runtime.forking import check_process
from tl_dpnp.runtime.kernel import Kernel
from tl_dpnp.runtime.package_name import NAME
from tl_dpnp.runtime.watching import MACHINE_CODE, door

__all__ = ["FusedFunction", "explain", "fuse"]

_P = ParamSpec("_P")
_R = TypeVar("_R")
#: Values of a number with plans of their own after which it is said that there are many.
_MANY_VALUES = 64
#: The flags of code with ``*arguments`` or ``**keywords``.
_COLLECTS = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


class FusedFunction(FunctionWrapper, Generic[_P, _R]):
    """A function that is fused; made by `tl_dpnp.fuse`.  Type checkers see the function's parameters and result."""

    def __init__(
        self, function: Callable[..., Any], *, fullgraph: bool, on_break: str, recompile_limit: int,
        dynamic: bool | None = None,
    ) -> None:
        code = function_of(function)
        if code is None or dpnp_name(function) is not None:
            what = f"one of {NAME}'s; tl_dpnp.xp has those" if code else f"a {type(function).__name__}"
            raise TLTypeError(f"fuse takes a Python function, not {what}"
                              + ("; tl_dpnp.compile takes source text" if isinstance(function, str) else ""))
        if isinstance(function, Kernel):
            raise TLTypeError(f"fuse takes a Python function, not a kernel: call @{function.name} as it is")
        self.name = getattr(function, "__qualname__", code.__qualname__)
        if any(is_one(code) for is_one in (
                inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)):
            raise UnsupportedError(f"{self.name} is a generator or coroutine, which cannot be fused")
        functools.update_wrapper(self, function, updated=())
        self.function = function
        of_any: Any = FusedFunction
        self.like = functools.partial(
            of_any, fullgraph=fullgraph, on_break=on_break, recompile_limit=recompile_limit, dynamic=dynamic)
        self.code = code
        self.fullgraph = fullgraph
        self.on_break = on_break
        self.recompile_limit = recompile_limit
        self.dynamic = dynamic
        self._varying = Varying(dynamic)
        self.enabled: bool = config.get("FUSE")
        self._plans = PlanStore()
        self._resized = ResizedPlans()
        self._recent = RecentCalls()
        self._again: OrderedDict[Any, TraceCache] = OrderedDict()
        self._ended: list[RepeatedTrace] = []
        self._history = History(self.name)
        self._lock = threading.RLock()
        check_setting()

    def __repr__(self) -> str:
        return f"<tl_dpnp.fuse of {self.name}>"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *arguments: _P.args, **keywords: _P.kwargs) -> _R:
        """Call the function; results are plain `dpnp.ndarray` objects."""
        result: _R
        if keywords:
            arguments, keywords = self._by_position(arguments, keywords)
        trace = active_trace()
        if trace is None and not keywords and self.enabled:
            for run in self._recent.short:  # this is all that most repeated calls do
                result = run(arguments)
                if result is not False:
                    return result
        check_process()
        if trace is not None:
            result = (trace.interceptor or Interceptor(trace)).call(self.function)(*arguments, **keywords)
            return result
        if not self.enabled:
            self._history.dpnp_calls += 1
            result = self.function(*arguments, **keywords)
            return result
        if not keywords:
            for recent in self._recent.calls:
                values = recent.unpacked(arguments)
                if values is not None:
                    key = recent.key(values)
                    if isinstance(recent.found, TraceCache):
                        result = self._trace_again(key, recent.found, arguments, keywords)
                        return result
                    fits, result = recent.found.run(key, arguments, keywords)
                    if fits:
                        self._recent.hasten(recent, arguments)
                        return result
        key = self._key(arguments, keywords)
        for specialization in self._plans.of(key):
            fits, result = specialization.run(key, arguments, keywords)
            if fits:
                if not keywords and not self._plans.decides(key):
                    self._recent.note(key, specialization, arguments, specialization.plan.calls)
                return result
        cache = self._again.get(tuple(key.parts))
        other = self._resized.plan(key) if cache is None else None
        if other is not None:
            fits, result = other.run(key, arguments, keywords)
            if fits:
                with self._lock:
                    self._plans.add(key, other)
                return result
        if cache is None:
            result, _, _ = self._trace_call(key, arguments, keywords, False)
        else:
            result = self._trace_again(key, cache, arguments, keywords)
        return result

    def explain(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the function and return what became of it, a `tl_dpnp.graph.explain.Explanation`."""
        check_process()
        arguments, keywords = self._by_position(arguments, keywords)
        key = self._key(arguments, keywords)
        _, trace, again = self._trace_call(key, arguments, keywords, True)
        return Explanation.of_trace(self.name, trace, again)

    def warmup(self, *arguments: Any, **keywords: Any) -> None:
        """Compile for calls with such arguments, and keep the plan, without touching an array of yours.

        Arguments are those of a call; `tl_dpnp.spec` stands for an array by its shape and dtype, also in lists, tuples
        and dicts.  For a method, the object comes first.  The function runs once, on arrays of its own: floats are 1,
        with 2 on the diagonals of square matrices, all others 0.  What has to happen at each call, such as `print`, a
        branch on the value of an array, or a change of an object that was there before, is refused before it is done.

        Does nothing for calls that there is a plan for, and where ``TL_DPNP_FUSE=0``.  Raises `UnsupportedError` for
        functions that do such things, that cannot be fused, or that have reached `recompile_limit`.
        """
        check_process()
        if not self.enabled:
            return
        made: dict[int, Any] = {}
        arguments = placeholders(arguments, made)
        arguments, keywords = self._by_position(arguments, placeholders(keywords, made))
        key = self._key(arguments, keywords)
        if not self._has_plan(key, arguments, keywords):
            self._trace_call(key, arguments, keywords, True, True)

    @property
    def stats(self) -> FusionStats:
        """Counts of the calls so far, and of what became of them."""
        with self._lock:
            return self._history.stats([each.plan.calls for each in self._plans], self._plans.forgotten_calls)

    def clear(self) -> None:
        """Forget all plans and counts, and release what they hold; a kernel stays for other functions that need it."""
        with self._lock:
            self._plans = PlanStore()
            self._resized = ResizedPlans()
            self._recent.clear()
            self._again = OrderedDict()
            self._ended = []
            self._history = History(self.name)
            self._varying = Varying(self.dynamic)

    @property
    def _compilations(self) -> int:
        return self._history.compilations

    def _by_position(self, arguments: Any, keywords: Any) -> tuple[Any, Any]:
        """Return the arguments of a call with those by name in their places, where the function cannot tell.

        One that collects names can, and an argument between them may be left out.
        """
        if not keywords or self.function is not self.code:
            return arguments, keywords
        code = self.code.__code__
        first, last = len(arguments), len(arguments) + len(keywords)
        names = code.co_varnames[first:last]
        if first < code.co_posonlyargcount or last > code.co_argcount or code.co_flags & _COLLECTS or any(
                name not in keywords for name in names):
            return arguments, keywords
        return (*arguments, *[keywords[name] for name in names]), {}

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

    # --- tracing -----------------------------------------------------------------------------------------------------

    def _trace_call(
        self, key: CallKey, arguments: Sequence[Any], keywords: dict[str, Any], asked: bool, rehearsal: bool = False
    ) -> tuple[Any, Trace, list[Break]]:
        """Trace a call.

        If it was `asked` for, what the function reads is found out even if it has effects.  A `rehearsal` leaves a plan
        and does nothing else.
        """
        history = self._history
        parts = tuple(key.parts)
        known = self._again.get(parts)
        has_plan = asked and self._has_plan(key, arguments, keywords)
        has_kernels = has_plan or (known is not None and not known.grows)
        if rewritten(self.code) is None or not (has_kernels or self._may_compile(parts)):
            return self._in_dpnp(arguments, keywords, rehearsal)
        check_setting()
        trace = Trace(name=self.name)
        self._prepare(trace, rehearsal)
        history.traces += 1
        for original, facts in zip(key.originals, key.facts, strict=True):
            trace.argument(original, facts)
        history.rehearsals += rehearsal
        kind = CallKind.of(self._names, arguments, keywords)
        names = list(array_names(self._names, arguments, keywords))
        change = history.differing(key, arguments, keywords, self._names)
        trace.rehearsal = rehearsal
        observer = trace.interceptor = Observer(trace, key)
        raw = self._record(trace, observer, arguments, keywords)
        specialization, again = self._specialized(trace, observer, key, kind, raw)
        if rehearsal and specialization is None:
            trace.end()
            raise self._not_rehearsed(again)
        with self._lock:
            history.sized(parts, trace, None if has_plan else kind, _named_arrays(trace, key, names))
            history.traced(parts, trace, None if has_plan else kind, specialization, change)
            if specialization is not None and not has_plan:
                self._keep_plan(key, specialization, kind)
                self._resized.traced(key, trace, specialization)
            elif specialization is None:
                self._again[parts] = trace.cache
                while len(self._again) > MOST_KEYS:
                    self._again.popitem(last=False)
        breaks = trace.breaks + [b for b in again if b not in trace.breaks]
        history.report(breaks, self._is_strict, self.on_break == "warn")
        if specialization is None:
            give_arrays(trace)
            value = restored(trace, raw)
            del raw
        else:
            originals = [*key.originals, *observer.found]
            value = None if rehearsal else specialization.plan.make(
                Call(trace.registers, originals, trace.tape.values, arguments, keywords))
        _finish(trace, observer, specialization is not None)
        return value, trace, again

    def _trace_again(
        self, key: CallKey, cache: TraceCache, arguments: Sequence[Any], keywords: dict[str, Any]
    ) -> Any:
        """Trace a call of which it is known what the function does, and return its result."""
        if cache.grows and not self._may_compile(tuple(key.parts)):
            return self._in_dpnp(arguments, keywords, False)[0]
        self._history.traces += 1
        try:
            trace = self._ended.pop()  # one that no other thread uses
        except IndexError:
            trace = RepeatedTrace(self.name)
            self._prepare(trace, False)
        trace.begin(cache, key)
        raw = self._record(trace, None, arguments, keywords)
        cache.grows = trace.compilations > 0
        cache.traces += 1
        if trace.compilations or trace.choices:
            with self._lock:
                self._history.sized(key.parts, trace, None, {})
                self._history.traced(tuple(key.parts), trace, None, None, None)
        if trace.breaks:
            self._history.report(trace.breaks, self._is_strict, self.on_break == "warn")
        give_arrays(trace)
        if is_kept(trace):  # stand-ins, in the result or elsewhere
            value = restored(trace, raw)
            del raw
            _finish(trace, None, False)
            again = RepeatedTrace(self.name, trace.interceptor)
            self._prepare(again, False)
            self._ended.append(again)
        else:
            value = raw
            trace.known.forget()
            trace.settle_all()
            trace.forget()
            self._ended.append(trace)
        if cache.traces <= CALLS_BEFORE and not keywords and not self._plans.of(key):
            self._recent.note(key, cache, arguments, cache.traces)
        return value

    def _may_compile(self, parts: Sequence[Any]) -> bool:
        """Return whether a call with such a key is not likely to be one compilation too many."""
        history = self._history
        return history.compilations < self.recompile_limit or (
            self.dynamic is not False and history.is_served(parts))

    def _prepare(self, trace: Trace, rehearsal: bool) -> None:
        """Prepare a trace of calls."""
        trace.refuse = self._refusing(rehearsal)
        trace.varying = self._varying

    def _specialized(
        self, trace: Trace, observer: Observer, key: CallKey, kind: CallKind, raw: Any
    ) -> tuple[Specialization | None, list[Break]]:
        """Return the plan that a trace with the result `raw` leaves, or why there is none."""
        make = result_of(trace, observer, raw)
        again = self._reasons(trace, observer, make)
        if again:
            return None, again
        assert make is not None
        return Specialization.of_trace(trace, observer, key, make, Origin(kind, observer.guards)), again

    def _keep_plan(self, key: CallKey, specialization: Specialization, kind: CallKind) -> None:
        """Keep a plan for later calls; the lock is held."""
        self._recent.clear()  # plans that are there may go
        if self._plans.add(key, specialization) >= _MANY_VALUES:
            names = kind.number_names()
            self._history.many_values(_MANY_VALUES, [names[place] for place in self._plans.deciding(key)])

    @property
    def _is_strict(self) -> bool:
        return self.fullgraph or self.on_break == "error"

    @functools.cached_property
    def _names(self) -> ParameterNames:
        return ParameterNames(self.function)

    def _refusing(self, rehearsal: bool) -> Callable[[Break], None] | None:
        """Return what raises an error for breaks that the trace of a call must not have."""
        if not rehearsal and not self._is_strict:
            return None

        def refuse(found: Break) -> None:
            if self._is_strict:
                raise refusal(self.name, [found])
            if found.again:
                raise self._not_rehearsed([found])

        return refuse

    def _not_rehearsed(self, again: Sequence[Break]) -> UnsupportedError:
        head = f"{self.name} cannot be warmed up, because it does something that has to happen at each call:"
        return UnsupportedError("\n  ".join([head, *listing(again)]))

    def _has_plan(self, key: CallKey, arguments: Sequence[Any], keywords: dict[str, Any]) -> bool:
        """Return whether there is a plan that fits a call."""
        return any(
            specialization.misfit(key, arguments, keywords, self._names) is None
            for specialization in self._plans.of(key)
        )

    def _record(
        self, trace: Trace, observer: Observer | None, arguments: Sequence[Any], keywords: dict[str, Any]
    ) -> Any:
        with trace:
            if observer is None:
                assert isinstance(trace, RepeatedTrace)
                given = trace.stand_ins(arguments)
                named = dict(zip(keywords, trace.stand_ins(keywords.values()), strict=True)) if keywords else {}
            else:
                observer.fused(self.function)
                given = [observer.cover(a, observer.guards.argument(i)) for i, a in enumerate(arguments)]
                named = {name: observer.cover(a, observer.guards.argument(name)) for name, a in keywords.items()}
            try:
                raw = trace.interceptor.call(self.function)(*given, **named)
            except BaseException as error:
                given.clear()
                named.clear()
                changed = trace.interceptor.changed
                if trace.refuse is None or not (trace.breaks or (observer and observer.effects)):
                    trace.finish()  # what dpnp would have done before the error
                else:
                    trace.end()
                if observer is not None:
                    observer.forget()
                release(trace, [error, *changed])
                trace.let_go()
                raise
            given.clear()
            named.clear()
            trace.interceptor.let_go()
            trace.compute_all()  # all at once: those of the result, in whatever objects it has
            return raw

    def _in_dpnp(
        self, arguments: Sequence[Any], keywords: dict[str, Any], rehearsal: bool
    ) -> tuple[Any, Trace, list[Break]]:
        """Run the function as it is, and say so once."""
        history, code = self._history, self.code.__code__
        unknown = rewritten(self.code) is None
        reason, hint = obstacle(self.code) if unknown else history.limit(self.recompile_limit)
        if rehearsal:
            raise UnsupportedError(f"{self.name} cannot be warmed up: {reason} ({hint})")
        found = history.left(reason, hint, self._is_strict, (code.co_filename, code.co_firstlineno))
        trace = Trace(name=self.name)
        trace.left = found
        return self.function(*arguments, **keywords), trace, [found]

    def _reasons(self, trace: Trace, observer: Observer, make: Make | None) -> list[Break]:
        """Return why the function has to be traced at each call; nothing if its plan can be used."""
        code = self.code.__code__
        place = code.co_filename, code.co_firstlineno
        again = [b for b in trace.breaks if b.again] + list(observer.effects)
        if make is None and not again:  # else what has these effects may have made it
            again.append(Break("the result", "it holds objects that a plan cannot make", *place, "return arrays", True))
        return list(dict.fromkeys(again))


door(FusedFunction, "__call__", lambda fused: (fused.name, MACHINE_CODE if fused.enabled else "", {}))
door(FusedFunction, "_trace_call", lambda fused: (f"trace of {fused.name}", "", {}), "compile")
door(FusedFunction, "_trace_again", lambda fused: (f"trace of {fused.name}", "", {}))
door(FusedFunction, "_in_dpnp", lambda fused: (f"{fused.name} in {NAME}", "", {}))


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


def _named_arrays(trace: Trace, key: CallKey, names: Sequence[str]) -> dict[int, NamedArray]:
    """Return the arrays of a call by their registers, with the names that they had before it."""
    if not trace.choices:
        return {}
    held = {id(array): slot for slot, array in enumerate(trace.registers) if array is not None}
    found = ((held.get(id(array)), name, array) for name, array in zip(names, key.arrays, strict=False))
    return {slot: (name, array.shape, tuple(array.strides)) for slot, name, array in found if slot is not None}


def _finish(trace: Trace, observer: Observer | None, has_plan: bool) -> None:
    """End a trace whose result was made, and let go what it holds; the arrays of a plan are the user's now."""
    changed = [] if trace.interceptor is None else trace.interceptor.changed
    if observer is None:
        trace.known.forget_unheld()
    trace.finish()
    if not has_plan:
        if observer is not None:
            observer.forget()
        release(trace, changed)
    trace.let_go()
    trace.registers = []  # hooks refer to their trace and it to them: what it holds would stay for the collector
    trace.known.forget()


@overload
def fuse(
    function: Callable[_P, _R], *, fullgraph: bool = ..., on_break: str = ..., recompile_limit: int = ...,
    dynamic: bool | None = ...,
) -> FusedFunction[_P, _R]: ...
@overload
def fuse(
    function: None = None, *, fullgraph: bool = ..., on_break: str = ..., recompile_limit: int = ...,
    dynamic: bool | None = ...,
) -> Callable[[Callable[_P, _R]], FusedFunction[_P, _R]]: ...
def fuse(
    function: Callable[..., Any] | None = None, *, fullgraph: bool = False, on_break: str = "quiet",
    recompile_limit: int = 8, dynamic: bool | None = None,
) -> Any:
    """Run a function's dpnp operations fused into kernels; to be used as a decorator, with or without options.

    The result of a call is what the function gives without the decorator: values (within the accumulation error of
    products), dtypes, shapes, USM type, queue, aliasing and exceptions are dpnp's.  The function is traced when it is
    called with arrays of a new kind: shape, strides, dtype, USM type or queue; a kernel serves every size of the batch.
    What cannot be fused runs in dpnp.

    `dynamic` says when kernels are given the other sizes, instead of being compiled for them: with None, those that
    have changed since the first call, as `torch.compile` has it; with True, all from the first call on; with False,
    none.  Sizes 0 and 1 are always known, and so are those that the function looks at and those of small linear
    algebra; ``stats.dynamic`` and `tl_dpnp.explain` name the axes.  A kernel keeps intermediate results for sizes of up
    to 32, 64, 128 or 512, or of any size in global memory; there may be one for each.

    `on_break` says what happens then: nothing, a `FusionWarning`, or an `UnsupportedError`; `fullgraph=True` is the
    last one.  After `recompile_limit` traces that had to compile kernels, further kinds of arguments run in dpnp, with
    one warning.

    Raises `TLTypeError` for options that are not understood, `UnsupportedError` for generators and coroutines.
    """
    check_options(fullgraph, on_break, recompile_limit, dynamic)

    def decorate(function: Any) -> Any:
        if isinstance(function, classmethod | staticmethod):
            return type(function)(decorate(function.__func__))
        if isinstance(function, types.MethodType):
            return types.MethodType(decorate(function.__func__), function.__self__)
        return FusedFunction(function, fullgraph=fullgraph, on_break=on_break, recompile_limit=recompile_limit,
                             dynamic=dynamic)

    return decorate if function is None else decorate(function)


def explain(function: Any) -> Callable[..., Explanation]:
    """Return a function that calls `function`, fused or not, and returns what became of it.

    >>> print(tl_dpnp.explain(step)(A, B, C))       # doctest: +SKIP

    The result prints as text: the kernels and the operations in each, launches and bytes before and after, the places
    where fusion ended with file, line, reason and hint, and the tensor language and schedule of each kernel.
    ``to_dict()`` gives the same as data and ``svg()`` a picture.  Raises `TLTypeError` for what is no function.
    """
    if hasattr(function, "__func__") and isinstance(function.__func__, FusedFunction):  # a method
        bound = function.__self__
        return lambda *arguments, **keywords: function.__func__.explain(bound, *arguments, **keywords)
    if not callable(function):
        raise TLTypeError(f"explain takes a function, not a {type(function).__name__}: "
                          "write tl_dpnp.explain(function)(*arguments)")
    fused = function if isinstance(function, FusedFunction) else fuse(function)
    explained: Callable[..., Explanation] = fused.explain
    return explained
