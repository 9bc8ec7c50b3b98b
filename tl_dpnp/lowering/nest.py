"""Loop nests: what a collective operation computes, and how its loops run.

A nest is a tree of loops over assignments to elements of buffers, in the spirit of TensorIR (Feng et al., ASPLOS
2023).  It starts as the plain definition of an operation and is rewritten by the primitives of `schedule`; then
`emission` turns it into LLVM IR.  A nest prints as a small Python-like script.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from tl_dpnp.scalars import ScalarType

__all__ = [
    "Access", "Assign", "Bound", "Buffer", "Convert", "Dimension", "Expression", "Index", "Number", "Loop", "LoopKind",
    "MultiplyAdd", "Nest", "Node", "Product", "RoundDown", "Scalar", "Total", "loops_of", "round_down",
]


@dataclass(frozen=True)
class Dimension:
    """A size or a stride that is known at run time, by name."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class RoundDown:
    """The largest multiple of `factor` that does not exceed a run-time size."""

    size: Dimension
    factor: int

    def __str__(self) -> str:
        return f"{self.size} // {self.factor} * {self.factor}"


#: The bound of a loop.
Bound = int | Dimension | RoundDown


def round_down(bound: Bound, factor: int) -> Bound:
    """Return the largest multiple of `factor` that does not exceed `bound`."""
    match bound:
        case int():
            return bound // factor * factor
        case Dimension():
            return RoundDown(bound, factor)
        case RoundDown(size, inner):
            return bound if inner % factor == 0 else RoundDown(size, factor)


@dataclass(frozen=True)
class Buffer:
    """Memory that a nest accesses, or registers that it keeps (`strides` is empty then)."""

    name: str
    element: ScalarType
    strides: tuple[int | Dimension, ...] = ()
    in_registers: bool = False


#: An index: the sum of loop variables.
Index = tuple[str, ...]


@dataclass(frozen=True)
class Access:
    """An element of a buffer."""

    buffer: Buffer
    indices: tuple[Index, ...]

    def __str__(self) -> str:
        return f"{self.buffer.name}[{', '.join(' + '.join(i) or '0' for i in self.indices)}]"


@dataclass(frozen=True)
class Scalar:
    """A value that the kernel passes to the nest, such as alpha."""

    name: str
    type: ScalarType

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Number:
    """A constant."""

    value: int | float
    type: ScalarType

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True)
class Convert:
    """A value converted to another element type."""

    operand: Expression
    type: ScalarType

    def __str__(self) -> str:
        return f"{self.type}({self.operand})"


@dataclass(frozen=True)
class Product:
    """a · b."""

    lhs: Expression
    rhs: Expression

    def __str__(self) -> str:
        return f"{_factor(self.lhs)} * {_factor(self.rhs)}"


@dataclass(frozen=True)
class Total:
    """a + b."""

    lhs: Expression
    rhs: Expression

    def __str__(self) -> str:
        return f"{self.lhs} + {self.rhs}"


@dataclass(frozen=True)
class MultiplyAdd:
    """a · b + c with one rounding."""

    lhs: Expression
    rhs: Expression
    addend: Expression

    def __str__(self) -> str:
        return f"fma({self.lhs}, {self.rhs}, {self.addend})"


Expression = Access | Scalar | Number | Convert | Product | Total | MultiplyAdd


def _factor(expression: Expression) -> str:
    return f"({expression})" if isinstance(expression, Total) else str(expression)


#: ``set`` stores; the others update atomically: ``add`` the value, ``exchange`` it, or ``combine`` it as
#: value + scale · old.
Update = Literal["set", "add", "exchange", "combine"]


@dataclass(frozen=True)
class Assign:
    """One assignment; `part` says which part of a reduction it is."""

    target: Access
    value: Expression
    part: Literal["init", "update", "finish"]
    update: Update = "set"
    scale: Expression | None = None

    def __str__(self) -> str:
        if self.update == "set":
            return f"{self.target} = {self.value}"
        scale = f", scale={self.scale}" if self.scale is not None else ""
        return f"atomic_{self.update}({self.target}, {self.value}{scale})"


#: How the iterations of a loop run:
#: ``serial`` one after the other; ``unrolled`` as copies of the body; ``vectorized`` as lanes of explicit vectors;
#: ``lanes`` one for each lane of the sub-group; ``rows`` and ``columns`` dealt out to the sub-groups of the
#: work-group along its first and second mode.
LoopKind = Literal["serial", "unrolled", "vectorized", "lanes", "rows", "columns"]


@dataclass(frozen=True)
class Loop:
    """``for variable in range(start, stop, step)``.

    `guard` restricts the iterations to those where the sum of its variables is below its bound.  While a loop with
    `prefetch` runs, the operands of the next work-group are fetched into the cache.
    """

    variable: str
    start: Bound
    stop: Bound
    body: tuple[Node, ...]
    step: int = 1
    kind: LoopKind = "serial"
    reduction: bool = False
    guard: tuple[Index, Bound] | None = None
    prefetch: bool = False

    @property
    def static_range(self) -> range | None:
        """The iterations where they are known at compile time."""
        if isinstance(self.start, int) and isinstance(self.stop, int):
            return range(self.start, self.stop, self.step)
        return None

    def with_body(self, *body: Node) -> Loop:
        """Return the loop around another body."""
        return replace(self, body=body)


Node = Loop | Assign


@dataclass(frozen=True)
class Nest:
    """The loops of one collective operation, with a one-line description of what it computes."""

    name: str
    description: str
    body: tuple[Node, ...]

    def __str__(self) -> str:
        return "\n".join([f"# {self.name}: {self.description}", *_lines(self.body, "")])


def _lines(nodes: tuple[Node, ...], indent: str) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, Assign):
            yield f"{indent}{node}"
            continue
        arguments = [str(node.start), str(node.stop)]
        if node.step != 1:
            arguments.append(str(node.step))
        yield f"{indent}for {node.variable} in {node.kind}({', '.join(arguments)}):"
        inner = indent + "    "
        if node.prefetch:
            yield f"{inner}prefetch()"
        if node.guard is not None:
            yield f"{inner}if {' + '.join(node.guard[0])} < {node.guard[1]}:"
            inner += "    "
        yield from _lines(node.body, inner)


def loops_of(nodes: tuple[Node, ...]) -> Iterator[Loop]:
    """Yield every loop, outer loops first."""
    for node in nodes:
        if isinstance(node, Loop):
            yield node
            yield from loops_of(node.body)
