"""The trace of a function of which it is known what it does: what traces before it have recorded is looked up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tl_dpnp.graph.functions import TAKE_NUMBERS
from tl_dpnp.graph.interception import Interceptor
from tl_dpnp.graph.keys import CallKey
from tl_dpnp.graph.lazy import LazyArray
from tl_dpnp.graph.nodes import Array
from tl_dpnp.graph.trace import Trace
from tl_dpnp.graph.trace_cache import TraceCache
from tl_dpnp.graph.traced_scalars import ScalarTape, TracedFloat
from tl_dpnp.runtime.array_package import xp

__all__ = ["RepeatedTrace"]


class RepeatedTrace(Trace):
    """The recording of a call with a key, into the cache that belongs to the key; and then of another call.

    Once it has ended and nothing refers to what it has made, it is as it was before, and may begin again.
    """

    observed = False
    interceptor: Interceptor

    def __init__(self, name: str, interceptor: Interceptor | None = None) -> None:
        super().__init__(name=name)
        self.interceptor = interceptor or Interceptor(self)

    def begin(self, cache: TraceCache, key: CallKey) -> None:
        """Begin the recording of a call."""
        self.cache, self.ended = cache, False
        self.interceptor.begin(self)
        if cache.arguments is None:
            lazies = [self.argument(array, facts) for array, facts in zip(key.originals, key.facts, strict=True)]
            first: dict[int, tuple[int, Any]] = {}
            for place, lazy in enumerate(lazies):
                first.setdefault(id(lazy), (place, lazy))
            cache.arguments = [(place, lazy._node, lazy._usm_type, lazy._queue) for place, lazy in first.values()]
            return
        registers, arrays, originals = self.registers, key.arrays, key.originals
        hold, know = self._lazies.add, self.known.add
        for place, node, usm_type, queue in cache.arguments:
            registers.append(arrays[place])
            lazy = LazyArray(self, node, usm_type, queue, object())
            hold(lazy)
            know(originals[place], lazy)

    def forget(self) -> None:
        """Be as before the first call."""
        assert self.ended
        self.let_go()
        self.registers, self.compilations, self._outside = [], 0, 0
        for made in (self.steps, self.breaks, self.choices, self.dynamic, self._dirty, self.axes_read):
            made.clear()
        if self.tape.values:
            self.tape = ScalarTape()

    def stand_ins(self, values: Iterable[Any]) -> list[Any]:
        """Return what stands for arguments of the call: kernels are given the integers."""
        lazy_of, number = self.known.lazy_of, self.tape.fixed_number
        return [lazy_of(value) if type(value) is xp.ndarray else number(value) if type(value) is int else value
                for value in values]

    def repeat(self, name: str, arguments: Sequence[Any]) -> Any:
        """Return the result of an operation that was recorded before; None for a new one, and for what `record` has to
        look at: the arguments are lazy arrays, and floats of functions that take them.
        """
        if self._dirty or self._outside:
            return None
        values = self.tape.values
        before = len(values)
        key: Any = None
        if len(arguments) == 2:  # most operations are of an array and another or a float, or of one array
            one, other = arguments
            if type(one) is LazyArray and one._trace is self:
                if type(other) is LazyArray and other._trace is self:
                    key = name, one._node, other._node
                elif type(other) is float and name in TAKE_NUMBERS:
                    key = name, one._node, self.cache.parameter(before), TracedFloat
                    values.append(other)
        elif len(arguments) == 1:
            one = arguments[0]
            if type(one) is LazyArray and one._trace is self:
                key = name, one._node
        if key is None:
            key = self._key_of(name, arguments)
        entry = self.cache.results.get(key)
        if entry is None:
            del values[before:]
            return None
        node, usm_type, queue, base = entry
        result = LazyArray(self, node, usm_type, queue, object() if base is None else arguments[base]._storage)
        self._lazies.add(result)
        return result

    def _key_of(self, name: str, arguments: Sequence[Any]) -> tuple[Any, ...] | None:
        """Return the key of an operation as `TraceCache.key_of` has it, whose floats become numbers of the call."""
        key: list[Any] = [name]
        values = self.tape.values
        for value in arguments:
            kind = type(value)
            if kind is LazyArray and value._trace is self:
                key.append(value._node)
            elif kind is float and name in TAKE_NUMBERS:
                key += self.cache.parameter(len(values)), TracedFloat
                values.append(value)
            else:
                return None
        return tuple(key)

    def compute_all(self) -> None:
        """Compute what somebody still holds, by the steps that have computed the same before."""
        if self._dirty:
            self.write_back()
        waiting = [lazy for lazy in self._lazies.live() if type(lazy._node) is not Array]
        parts: list[Any] = [len(self.registers)]
        for lazy in waiting:
            parts += lazy._node, lazy._usm_type, lazy._queue
        if len(waiting) > 1:  # which of them share memory decides which are copies
            storages: dict[int, int] = {}
            parts += [storages.setdefault(id(lazy._storage), len(storages)) for lazy in waiting]
        key = tuple(parts)
        known = self.cache.endings.get(key)
        if known is None:
            steps_before, registers_before = len(self.steps), len(self.registers)
            self.materialize(waiting)
            self.cache.endings[key] = (tuple(self.steps[steps_before:]), len(self.registers) - registers_before,
                                       [lazy._node for lazy in waiting])
            return
        steps, registers, nodes = known
        self.registers += [None] * registers
        for step in steps:
            self._do(step)
        for lazy, node in zip(waiting, nodes, strict=True):
            lazy._node = node
