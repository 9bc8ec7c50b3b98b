"""The graph of array operations: what dpnp code computes, written down while it runs.

Nodes are compared by identity.  A node has the shape and the dtype that dpnp gives the result; only `Array` nodes exist
in memory.  Transposes, slices and broadcasts are index maps (`View`), not operations.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

__all__ = [
    "Accumulate", "Arange", "Array", "Assemble", "AxisMap", "ComplexParameter", "Contract", "Eliminate", "Given", "Map",
    "NOT_ELEMENTWISE", "Node", "Number", "Parameter", "Part", "Position", "Reduce", "Reshape", "Take", "View",
    "number_node", "operands_of", "part_dtype", "reached", "topological",
]


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Node:
    """Base of all nodes."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __repr__(self) -> str:
        sizes = "x".join(map(str, self.shape)) or "scalar"
        return f"<{type(self).__name__} {sizes} {self.dtype}>"

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Array(Node):
    """A view of the array in register `slot` of a plan; `strides` and `offset` (from its first element) in elements."""

    slot: int
    strides: tuple[int, ...]
    offset: int = 0


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Arange(Node):
    """Numbers that count along axes: ``offset`` plus the index on each axis times its stride, in no memory."""

    strides: tuple[int, ...]
    offset: int = 0


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Number(Node):
    """A constant; it takes the dtype that its consumer computes in."""

    value: bool | int | float | complex


def part_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the parts of complex numbers; of others the dtype itself."""
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def number_node(value: bool | int | float | complex) -> Number:
    """Return the node of a constant, which has no dtype: operations give it theirs."""
    return Number((), None, value)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Parameter(Node):
    """A float or int that may differ from call to call: number `position` of the call's scalars."""

    position: int

    @property
    def given(self) -> tuple[Parameter, ...]:
        """What kernels are given of it."""
        return (self,)


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class ComplexParameter(Parameter):
    """A complex number that may differ from call to call; its parts are the two scalars behind it."""

    @property
    def given(self) -> tuple[Parameter, ...]:
        """The real and the imaginary part."""
        return tuple(Parameter(self.shape, self.dtype, self.position + place) for place in (1, 2))


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Given(Parameter):
    """A constant that a kernel is given, because it differs between the calls that share the kernel.

    `position` is below 0, where no number of a call is.
    """

    value: int | float


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Map(Node):
    """An element-wise function of broadcast operands, computed in `compute` and converted to `dtype`.

    `kind` is a key of `tl_dpnp.graph.functions.FUNCTIONS`.
    """

    kind: str
    operands: tuple[Node, ...]
    compute: np.dtype[Any]


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Part(Map):
    """The ``real`` or ``imag`` parts of an array of complex numbers as a view of it: in its memory, if it is there."""


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Contract(Node):
    """A product of two operands, summed over the letters that `letters` lacks: ``einsum("ab,bc->ac")``.

    `operand_letters` name the axes of the operands, `letters` those of the result; no letter occurs twice in one of
    them, every letter of the result is in an operand, and sizes agree exactly.
    """

    operands: tuple[Node, Node]
    operand_letters: tuple[str, str]
    letters: str

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of the axes by their letters."""
        return {letter: size for operand, letters in zip(self.operands, self.operand_letters, strict=True)
                for letter, size in zip(letters, operand.shape, strict=True)}


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Reduce(Node):
    """``sum``, ``prod``, ``max``, ``min``, ``any`` or ``all`` of the operand over `axes`, which disappear.

    With `is_partial` it is of pieces, for more work-groups than the reduction of its results has.
    """

    kind: str
    operand: Node
    axes: tuple[int, ...]
    is_partial: bool = False


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Accumulate(Node):
    """``cumsum`` or ``cumprod``: reductions, of kind ``sum`` or ``prod``, of all elements up to each one on `axis`."""

    kind: str
    operand: Node
    axis: int


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Take(Node):
    """The operand at `indices` on `axis`; axes of the indices come in its place.  All indices are within the axis."""

    operand: Node
    indices: Node
    axis: int


#: Where an axis of the operand of a view is read: at ``offset + step * i``, with i the index of axis `out` of the
#: result, or at ``offset`` where `out` is None.
AxisMap = tuple[int, int, int | None]


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class View(Node):
    """Elements of the operand in other places: transposes, slices, new and broadcast axes."""

    operand: Node
    axes: tuple[AxisMap, ...]


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Reshape(Node):
    """The elements of the operand in C order, with another shape."""

    operand: Node


#: Where a part lies on each axis of a whole: index i of the part is at ``start + step * i``.
Position = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Assemble(Node):
    """The operands side by side, or one over another: each at its position, later ones over earlier ones.

    Operands have as many axes as the result and are converted to its dtype; together they fill it.
    """

    operands: tuple[Node, ...]
    positions: tuple[Position, ...]


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Eliminate(Node):
    """What Gaussian elimination makes of small square matrices, the last two axes of the first operand.

    `kind` is ``det``, ``singular`` (whether they are), ``inv``, or ``solve``, which has right-hand sides as the columns
    of the second operand.  Operands have one dtype, that of the result but for ``singular``.
    """

    kind: str
    operands: tuple[Node, ...]


#: Nodes an element of which is more than a function of one element of each operand.
NOT_ELEMENTWISE = Contract | Reduce | Reshape | Assemble | Accumulate | Take | Eliminate


def operands_of(node: Node) -> tuple[Node, ...]:
    """Return the nodes that `node` is computed from."""
    match node:
        case Map() | Contract() | Assemble() | Eliminate():
            return node.operands
        case Reduce() | Accumulate() | View() | Reshape():
            return (node.operand,)
        case Take():
            return node.operand, node.indices
    return ()


@lru_cache(maxsize=1024)
def topological(roots: tuple[Node, ...]) -> tuple[Node, ...]:
    """Return every node that `roots` need and the roots themselves, operands first, each once."""
    return tuple(reached(roots, ()))


def reached(roots: Sequence[Node], outside: Container[Node]) -> list[Node]:
    """Return what `topological` does, without the nodes `outside` and what only they need."""
    order: list[Node] = []
    seen: set[int] = set()
    stack: list[tuple[Node, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            order.append(node)
        elif id(node) not in seen and node not in outside:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend([(operand, False) for operand in reversed(operands_of(node))])
    return order
