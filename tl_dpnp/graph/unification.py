"""Which axes of a graph have one size because an operation requires it, and what else of a graph is a value.

Graphs that are built alike have the same `structure` and differ in `values` alone: sizes of axes, constants, strides of
arrays, and places where slices begin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tl_dpnp.graph.nodes import (
    Accumulate,
    Arange,
    Array,
    Assemble,
    Contract,
    Eliminate,
    Map,
    Node,
    Number,
    Parameter,
    Reduce,
    Reshape,
    Take,
    View,
    operands_of,
    topological,
)
from tl_dpnp.records import dataclass

__all__ = ["Axis", "GraphValues", "Value"]

#: An axis of a node.
Axis = tuple[Node, int]


@dataclass(frozen=True)
class Value:
    """A value of a graph and where it is found; a size is that of all axes of a class, of which this is the first."""

    kind: Literal["size", "number", "stride", "constant"]
    value: Any
    node: Node
    axis: int = 0


class GraphValues:
    """The structure of the graph that computes `roots`, which are written to arrays, and its values.

    `classes` has the number among `values` of the size of each axis longer than 1; `static` says why kernels have to
    know some of these sizes.  Nodes `beside` those that the roots need may be looked at as well.
    """

    def __init__(self, roots: Mapping[Node, Array], beside: Sequence[Node] = ()) -> None:
        self.roots = roots
        self.nodes = topological((*roots, *beside))
        self.static: dict[int, str] = {}
        self.values: list[Value] = []
        self.classes: dict[Axis, int] = {}
        self._parents: dict[Axis, Axis] = {}
        self._pinned: list[tuple[Axis, str]] = []
        for node in self.nodes:
            self._unify_operands(node)
        for root, array in roots.items():
            for axis in range(len(root.shape)):
                self._unify((root, axis), (array, axis))
        self.structure: tuple[Any, ...] = tuple(self._entries())
        for pinned, reason in self._pinned:
            if pinned in self.classes:
                self.static.setdefault(self.classes[pinned], reason)

    # --- axes that have one size -------------------------------------------------------------------------------------

    def _find(self, axis: Axis) -> Axis:
        while (parent := self._parents.get(axis, axis)) != axis:
            axis = parent
        return axis

    def _unify(self, one: Axis, other: Axis) -> None:
        """Note that two axes have one size; those of size 1 broadcast, and stay apart."""
        size = one[0].shape[one[1]]
        if size != other[0].shape[other[1]]:
            raise AssertionError(f"{one} and {other} differ")
        if size > 1:
            self._parents[self._find(other)] = self._find(one)

    def _unify_operands(self, node: Node) -> None:
        """Unify the axes of a node with those of its operands, and note which sizes its code depends on."""
        match node:
            case Map(operands=operands):
                for operand in operands:
                    first = len(node.shape) - len(operand.shape)
                    for axis, size in enumerate(operand.shape):
                        if size != 1:
                            self._unify((node, first + axis), (operand, axis))
            case Contract(operands=operands, operand_letters=words):
                known: dict[str, Axis] = {letter: (node, axis) for axis, letter in enumerate(node.letters)}
                for operand, word in zip(operands, words, strict=True):
                    for below, letter in enumerate(word):
                        self._unify(known.setdefault(letter, (operand, below)), (operand, below))
            case Reduce(operand=operand, axes=axes):
                kept = [axis for axis in range(len(operand.shape)) if axis not in axes]
                for axis, below in enumerate(kept):
                    self._unify((node, axis), (operand, below))
            case Accumulate(operand=operand):
                for axis in range(len(node.shape)):
                    self._unify((node, axis), (operand, axis))
            case View(operand=operand, axes=axes):
                for below, (start, step, out) in enumerate(axes):
                    if out is not None and (start, step, operand.shape[below]) == (0, 1, node.shape[out]):
                        self._unify((node, out), (operand, below))
            case Reshape(operand=operand):
                for axis, (size, other) in enumerate(zip(node.shape, operand.shape, strict=False)):
                    if size != other:
                        break
                    self._unify((node, axis), (operand, axis))
            case Assemble():
                self._unify_assembled(node)
            case Take(operand=operand, indices=indices, axis=axis):
                behind = len(indices.shape) - 1
                for below in range(len(operand.shape)):
                    if below != axis:
                        self._unify((node, below if below < axis else below + behind), (operand, below))
                for below in range(len(indices.shape)):
                    self._unify((node, axis + below), (indices, below))
            case Eliminate(kind=kind, operands=operands):
                self._unify_eliminated(node, kind, operands)

    def _unify_assembled(self, node: Assemble) -> None:
        overlapping = sum(operand.size for operand in node.operands) > node.size
        for operand, position in zip(node.operands, node.positions, strict=True):
            for axis, place in enumerate(position):
                if (place, operand.shape[axis]) == ((0, 1), node.shape[axis]):
                    self._unify((node, axis), (operand, axis))
                elif overlapping:  # one kernel writes the parts in their order, each where it begins
                    reason = "a part of the array is assigned"
                    self._pinned += [((node, axis), reason), ((operand, axis), reason)]

    def _unify_eliminated(self, node: Eliminate, kind: str, operands: tuple[Node, ...]) -> None:
        matrices = operands[0]
        batch = len(matrices.shape) - 2
        reason = f"linalg.{kind} is written out for matrices of one size"
        self._pinned += [((matrices, axis), reason) for axis in (batch, batch + 1)]
        for axis in range(batch):
            for operand in operands[1:]:
                self._unify((matrices, axis), (operand, axis))
            if axis < len(node.shape):
                self._unify((node, axis), (matrices, axis))
        if kind == "inv":
            self._pinned += [((node, axis), reason) for axis in (batch, batch + 1)]
        elif kind == "solve":
            self._pinned += [((node, batch), reason), ((operands[1], batch), reason)]
            self._unify((node, batch + 1), (operands[1], batch + 1))

    # --- structure and values ----------------------------------------------------------------------------------------

    def _note(self, kind: Literal["number", "stride", "constant"], value: Any, node: Node, axis: int = 0) -> None:
        self.values.append(Value(kind, value, node, axis))

    def _shape(self, node: Node) -> tuple[Any, ...]:
        """Return the shape with a class in the place of each size but 0 and 1."""
        found: list[Any] = []
        for axis, size in enumerate(node.shape):
            if size <= 1:
                found.append(("size", size))
                continue
            first = self._find((node, axis))
            if first not in self.classes:
                self.classes[first] = len(self.values)
                self.values.append(Value("size", size, node, axis))
            self.classes[node, axis] = self.classes[first]
            found.append(self.classes[first])
        return tuple(found)

    def _strides(self, array: Array) -> tuple[Any, ...]:
        for axis, stride in enumerate(array.strides):
            self._note("stride", int(stride), array, axis)
        return tuple((stride > 0) - (stride < 0) for stride in array.strides)

    def _entries(self) -> list[Any]:
        numbers: dict[Node, int] = {}
        entries: list[Any] = []
        for node in self.nodes:
            numbers[node] = len(numbers)
            operands = tuple(numbers[operand] for operand in operands_of(node))
            entries.append((type(node), None if node.dtype is None else node.dtype.char, operands,
                            () if isinstance(node, Number | Parameter) else self._shape(node), self._own(node)))
        entries += [(numbers[root], self._shape(array), self._strides(array)) for root, array in self.roots.items()]
        return entries

    def _own(self, node: Node) -> Any:
        """Return what a node is besides its operands and its shape; values are noted."""
        match node:
            case Number(value=value):
                if type(value) is bool:
                    return value
                self._note("number", value, node)
                return type(value)
            case Parameter(position=position):
                return position
            case Array(slot=slot):
                return slot, self._strides(node)
            case Arange(strides=strides, offset=offset):
                self._note("constant", (strides, offset), node)
                return len(strides)
            case Map(kind=kind, compute=compute):
                return kind, compute.char
            case Contract(operand_letters=words, letters=letters):
                return words, letters
            case Reduce(kind=kind, axes=axes):
                return kind, axes
            case View(axes=axes):
                self._note("constant", tuple(start for start, _, _ in axes), node)
                return tuple((step, out) for _, step, out in axes)
            case Assemble(positions=positions):
                self._note("constant", tuple(start for position in positions for start, _ in position), node)
                return tuple(step for position in positions for _, step in position)
            case Accumulate(kind=kind, axis=axis):
                return kind, axis
            case Take(axis=axis):
                return axis
            case Eliminate(kind=kind):
                return kind
        return None
