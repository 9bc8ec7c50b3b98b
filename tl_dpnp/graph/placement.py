"""How the axes of a graph are spread over work-groups.

A region of the graph becomes one kernel.  Its *grid* are axes that all its results have in front: each index of the
grid is one work-group (or, where a grid axis is cut into chunks, each chunk).  From the results the grid is carried
down to the operands: `place` says for every node which of its axes is which grid axis.  An axis that is summed over, or
that a reshape mixes with others, cannot be a grid axis of the operand; there the region ends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field

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
)
from tl_dpnp.graph.symbols import DynamicSize, PartSize, actual, is_dynamic
from tl_dpnp.records import dataclass

__all__ = ["GridAxis", "Places", "Placement", "front_places", "local_shape", "place", "take_places"]

#: For each axis of a node the number of the grid axis that it is, or None.
Places = tuple[int | None, ...]


@dataclass(frozen=True)
class GridAxis:
    """An axis that is spread over work-groups: `size` elements, `chunk` of them in each.

    A chunk that does not divide the size, or a dynamic one, is a `PartSize`: the last work-group has less to do.
    Those of an `interleaved` axis, which is the first one, lie beside one another in temporaries (`interleaving`).
    If it is `overlapping`, the last work-group begins early rather than to have less to do.
    """

    size: int
    chunk: int = 1
    interleaved: bool = False
    overlapping: bool = False

    @property
    def groups(self) -> int:
        """How many work-groups share it, for decisions."""
        return self.size // self.chunk

    @property
    def launched(self) -> int:
        """How many work-groups share it in this call."""
        return -(-actual(self.size) // int(self.chunk))

    @property
    def is_ragged(self) -> bool:
        """Whether the last work-group may have less to do than others."""
        return isinstance(self.chunk, PartSize)

    @classmethod
    def divided(cls, size: int, chunk: int, interleaved: bool = False) -> GridAxis:
        """Return an axis in chunks."""
        part = PartSize(chunk, size) if isinstance(size, DynamicSize) or size % chunk else chunk
        return cls(size, part, interleaved)


@dataclass
class Placement:
    """The grid and the nodes of a region; `leaves` are the arrays that it reads, `cuts` computed nodes outside.

    Work-groups need their index on the grid axes `counted`.
    """

    grid: tuple[GridAxis, ...]
    places: dict[Node, Places] = field(default_factory=dict)
    leaves: dict[tuple[Array, Places], None] = field(default_factory=dict)
    cuts: dict[Node, str] = field(default_factory=dict)
    counted: set[int] = field(default_factory=set)

    @property
    def groups(self) -> int:
        """The number of work-groups in this call."""
        return math.prod(axis.launched for axis in self.grid)

    @property
    def is_interleaved(self) -> bool:
        """Whether several matrices of a batch lie beside one another in temporaries."""
        return bool(self.grid) and self.grid[0].interleaved


def local_shape(shape: tuple[int, ...], places: Places, grid: tuple[GridAxis, ...]) -> tuple[int, ...]:
    """Return the part of a shape that one work-group holds."""
    return tuple(size if place is None else grid[place].chunk for size, place in zip(shape, places, strict=True))


def place(roots: Sequence[Node], grid: tuple[GridAxis, ...], cuts: Mapping[Node, str] | None = None) -> Placement:
    """Carry the grid from `roots`, whose first axes it is, down to everything that they are computed from.

    Nodes that would need another grid become `cuts`, with the reason, as those given are where they are reached.
    """
    result = Placement(grid)
    given = cuts or {}
    stack = [(root, front_places(root, grid)) for root in reversed(roots)]
    while stack:
        node, places = stack.pop()
        match node:
            case Number() | Parameter():
                continue
            case Array():
                result.leaves[node, places] = None
                continue
            case Arange():
                result.counted.update(target for target, stride in zip(places, node.strides, strict=True)
                                      if target is not None and stride)
                continue
        if node in given:
            result.cuts[node] = given[node]
        if node in result.cuts:
            continue
        known = result.places.get(node)
        if known is not None:
            if known != places:
                result.cuts[node] = "it is used at two places that do not line up"
            continue
        result.places[node] = places
        operands = _carry(node, places, grid)
        if isinstance(operands, str):
            result.cuts[_culprit(node)] = operands
            continue
        stack.extend(reversed(operands))
    return result


def front_places(node: Node, grid: tuple[GridAxis, ...]) -> Places:
    """Return the places of a result: its first axes are the grid."""
    return tuple(axis if axis < len(grid) else None for axis in range(len(node.shape)))


def _culprit(node: Node) -> Node:
    """Return the node to compute beforehand when the grid cannot be carried through `node`."""
    match node:
        case Reshape() | Reduce() | View():
            return node.operand if not isinstance(node.operand, Array) else node
    return node


def _carry(node: Node, places: Places, grid: tuple[GridAxis, ...]) -> list[tuple[Node, Places]] | str:
    """Return the operands of a node with their places, or why there are none."""
    match node:
        case Map(operands=operands):
            return [(operand, _aligned(operand.shape, node.shape, places)) for operand in operands]
        case Contract(operands=operands, operand_letters=letters):
            of = dict(zip(node.letters, places, strict=True))
            return [(operand, tuple(of.get(letter) for letter in names))
                    for operand, names in zip(operands, letters, strict=True)]
        case Reduce(operand=operand, axes=axes):
            kept = iter(places)
            return [(operand, tuple(None if axis in axes else next(kept) for axis in range(len(operand.shape))))]
        case View(operand=operand, axes=axes):
            return _through_view(node, operand, axes, places, grid)
        case Reshape(operand=operand):
            return _through_reshape(node, operand, places)
        case Assemble():
            return _through_assembly(node, places)
        case Accumulate(operand=operand, axis=axis):
            return "an axis is accumulated that is spread over work-groups" if places[axis] is not None else [
                (operand, places)
            ]
        case Eliminate(operands=operands):
            batch = len(operands[0].shape) - 2
            if any(target is not None for target in places[batch:]):
                return "a matrix is factored that is spread over work-groups"
            return [(operand, (*places[:batch], None, None)) for operand in operands]
        case Take(operand=operand, indices=indices):
            return list(zip((operand, indices), take_places(node, places), strict=True))
    raise TypeError(node)


def _aligned(shape: tuple[int, ...], result: tuple[int, ...], places: Places) -> Places:
    first = len(result) - len(shape)
    return tuple(None if size == 1 and result[first + axis] != 1 else places[first + axis]
                 for axis, size in enumerate(shape))


def _through_view(
    node: Node, operand: Node, axes: tuple[tuple[int, int, int | None], ...], places: Places, grid: tuple[GridAxis, ...]
) -> list[tuple[Node, Places]] | str:
    result: list[int | None] = []
    for axis, (start, step, out) in enumerate(axes):
        target = None if out is None else places[out]
        if is_dynamic(operand.shape[axis]) and (
            start if out is None else (start, step, operand.shape[axis]) != (0, 1, node.shape[out])
        ):
            return "a part is taken of an axis whose size differs from call to call"
        if target is not None and (start, step, operand.shape[axis]) != (0, 1, grid[target].size):
            return "a part of an axis is taken that is spread over work-groups"
        result.append(target)
    return [(operand, tuple(result))]


def take_places(node: Take, places: Places) -> tuple[Places, Places]:
    """Return the places of the operand and of the indices of a node."""
    end = node.axis + len(node.indices.shape)
    return (*places[: node.axis], None, *places[end:]), places[node.axis : end]


def _through_assembly(node: Assemble, places: Places) -> list[tuple[Node, Places]] | str:
    for operand, position in zip(node.operands, node.positions, strict=True):
        for axis, target in enumerate(places):
            if is_dynamic(node.shape[axis]) and (position[axis], operand.shape[axis]) != ((0, 1), node.shape[axis]):
                return "arrays are put together along an axis whose size differs from call to call"
            if target is not None and (position[axis], operand.shape[axis]) != ((0, 1), node.shape[axis]):
                return "arrays are put together along an axis that is spread over work-groups"
    return [(operand, places) for operand in node.operands]


def _through_reshape(node: Node, operand: Node, places: Places) -> list[tuple[Node, Places]] | str:
    front = 0
    while front < len(places) and places[front] is not None:
        front += 1
    if any(target is not None for target in places[front:]) or operand.shape[:front] != node.shape[:front]:
        return "a reshape mixes axes that are spread over work-groups with others"
    if any(map(is_dynamic, (*node.shape[front:], *operand.shape[front:]))):
        return "a reshape mixes axes whose sizes differ from call to call"
    return [(operand, places[:front] + (None,) * (len(operand.shape) - front))]
