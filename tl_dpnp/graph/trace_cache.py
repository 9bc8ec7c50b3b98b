"""What traces of a function have recorded before: to record it again costs a look-up for each operation.

Nodes are compared by identity, so everything here gives the same node for the same thing: an operation of the same
nodes and constants is the node that it was the last time, and the same results are computed by the same steps.  Nothing
depends on how far a trace has come or which way it went; what is new is recorded the long way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tl_dpnp.graph.functions import TAKE_NUMBERS
from tl_dpnp.graph.lazy import LazyArray
from tl_dpnp.graph.nodes import Array, Map, Node, Number, Parameter, number_node
from tl_dpnp.graph.traced_scalars import NUMPY_KINDS, TRACED, TRACED_FLOATS, ScalarTape, bucket
from tl_dpnp.graph.views import c_strides
from tl_dpnp.runtime.array_package import array_facts, first_element

if TYPE_CHECKING:
    from tl_dpnp.graph.plan import Step

__all__ = ["TraceCache"]

#: Entries that one function may keep; beyond that all are forgotten.
_MOST = 20_000
#: Constants of a call, which count by type and value.
_CONSTANTS = (int, bool, str, type(None), np.dtype, type)


class TraceCache:
    """The nodes and steps of one function, for arguments of one kind, for which it was traced so many times again.

    `results` has the node of an operation with its USM type and queue, and which operand it is a view of; `steps` has
    the steps that compute given nodes, and the registers that they need; `endings` have both and the nodes afterwards,
    for all arrays that were held at once.  `arguments` are the arrays of a call, without those that occur before: the
    place, node, USM type and queue of each.  It `grows` if the last
    trace with it had to compile.  `backwards` has the axes along which dpnp has the result of a node run backwards in
    memory.
    """

    def __init__(self) -> None:
        self.grows = False
        self.traces = 0
        self.results: dict[Any, tuple[Node, str, Any, int | None]] = {}
        self.steps: dict[Any, tuple[tuple[Step, ...], int]] = {}
        self.endings: dict[Any, tuple[tuple[Step, ...], int, list[Node]]] = {}
        self.arguments: list[tuple[int, Node, str, Any]] | None = None
        self.replaced: dict[Any, dict[Node | None, dict[Node, Node]]] = {}
        self.backwards: dict[Node, frozenset[int]] = {}
        self._copies: dict[tuple[Node, int], Node] = {}
        self._arrays: dict[Any, Array] = {}
        self._whole: set[Array] = set()
        self._in_memory: dict[Any, tuple[Array, str, Any]] = {}
        self._results: dict[tuple[Node, int, str, Any], Array] = {}
        self._parameters: dict[tuple[int, type[Parameter]], Parameter] = {}
        self._numbers: dict[Any, Number] = {}

    def in_memory(self, array: Any, slot: int, facts: Any = None) -> tuple[Array, str, Any]:
        """Return the node of a content in a register, its USM type and its queue; `facts` as `array_facts` are.
        """
        facts = facts or array_facts(array)
        found = self._in_memory.get((slot, facts))
        if found is None:
            shape, strides, _, kind, queue, _ = facts
            first = first_element(facts)
            key = slot, shape, strides, array.dtype, kind, queue, first
            node = self._array(key, Array(shape, array.dtype, slot, tuple(strides), first))
            found = self._in_memory[slot, facts] = node, kind, queue
        return found

    def result(self, node: Node, slot: int, usm_type: str, queue: Any) -> Array:
        """Return the node of the memory that a node is computed to, in C order."""
        found = self._results.get((node, slot, usm_type, queue))
        if found is None:
            key = slot, node.shape, node.dtype, usm_type, queue
            made = Array(node.shape, node.dtype, slot, c_strides(node.shape))
            found = self._results[node, slot, usm_type, queue] = self._array(key, made)
        return found

    def _array(self, key: Any, made: Array) -> Array:
        node = self._arrays.setdefault(key, made)
        self._whole.add(node)
        return node

    def is_whole(self, node: Node) -> bool:
        """Return whether a node is all of the array in its register, in the same order; others are views of that."""
        return node in self._whole

    def parameter(self, position: int, kind: type[Parameter] = Parameter) -> Parameter:
        """Return the node of a number of the call."""
        found = self._parameters.get((position, kind))
        if found is None:
            found = self._parameters[position, kind] = kind((), None, position)  # type: ignore[arg-type]
        return found

    def copy(self, node: Node, number: int) -> Node:
        """Return the node of a copy."""
        found = self._copies.get((node, number))
        if found is None:
            found = self._copies[node, number] = Map(node.shape, node.dtype, "positive", (node,), node.dtype)
            self.renamed(node, found)
        return found

    def renamed(self, old: Node, new: Node) -> None:
        """Know of a node that stands for another one what was known of that."""
        if old in self.backwards:
            self.backwards[new] = self.backwards[old]

    def number(self, value: bool | int | float | complex) -> Number:
        """Return the node of a constant."""
        key = type(value), repr(value)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = number_node(value)
        return found

    def key_of(
        self, tape: ScalarTape, name: str, arguments: Sequence[Any], keywords: dict[str, Any]
    ) -> tuple[tuple[Any, ...], Sequence[Any]] | None:
        """Return what an operation depends on, and its arguments; None for what has no key.

        Numbers among the operands of an element-wise function become numbers of the call.
        """
        numeric = name in TAKE_NUMBERS
        parts: list[Any] = [name]
        given: list[Any] | None = None
        for number, value in enumerate(arguments):
            kind = type(value)
            if kind is LazyArray:
                parts.append(value._node)
            elif (
                (numeric and (kind is float or kind is complex or kind in NUMPY_KINDS))
                or ((numeric or (name == "power" and kind in TRACED_FLOATS)) and kind in TRACED and value.tape is tape)
            ):
                if kind not in TRACED:
                    value = tape.fixed_number(value)
                    given = given or list(arguments)
                    given[number] = value
                if tape.operand(value) is None:
                    return None
                parts += self.parameter(value.position), type(value)
                if value.position in tape.integers:
                    parts.append(bucket(tape.values[value.position]))
            else:
                part = _sequence(value) if kind is list or kind is tuple else _constant(value)
                if part is None:
                    return None
                parts.append(part)
        for keyword, value in keywords.items():
            part = _constant(value)
            if part is None:
                return None
            parts += keyword, part
        return tuple(parts), given or arguments

    def keep(self, key: Any, entry: tuple[Node, str, Any, int | None]) -> None:
        """Remember an operation."""
        if len(self.results) >= _MOST:
            self.results.clear()
            self.steps.clear()
            self.endings.clear()
            self.replaced.clear()
            self.backwards.clear()
            self._copies.clear()
            self._results.clear()
        self.results[key] = entry


def _sequence(value: Sequence[Any]) -> Any:
    """Return a list or tuple of arrays and constants as part of a key."""
    parts = tuple(v._node if type(v) is LazyArray else _constant(v) for v in value)
    return None if None in parts else (type(value), parts)


def _constant(value: Any) -> Any:
    kind = type(value)
    if kind in _CONSTANTS or isinstance(value, np.dtype | type):
        return kind, value
    if kind is float or kind is complex:
        return kind, repr(value)
    if kind is tuple or kind is list:
        parts = tuple(map(_constant, value))
        return None if None in parts else (kind, parts)
    if kind is slice:
        return _constant((slice, value.start, value.stop, value.step))
    return (kind,) if value is Ellipsis else None
