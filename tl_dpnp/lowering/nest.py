"""Loop nests: what a collective operation computes, and how its loops run.

A nest is a tree of loops over assignments to elements of buffers, in the spirit of TensorIR (Feng et al., ASPLOS
2023).  It starts as the plain definition of an operation and is rewritten by the primitives of `schedule`; then
`realization` places its memory and `emission` turns it into LLVM IR.  A nest prints as a small Python-like script.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import is_
from typing import Literal

from tl_dpnp.lowering.expressions import (
    Access,
    Bound,
    Buffer,
    Convert,
    Dimension,
    Expression,
    Index,
    MultiplyAdd,
    Number,
    Product,
    RoundDown,
    Scalar,
    Scope,
    TimesI,
    Total,
    accesses_of,
    map_accesses,
    round_down,
    type_of,
)
from tl_dpnp.records import dataclass

__all__ = [
    "Access", "Assign", "Bound", "Buffer", "Convert", "Derived", "Dimension", "Expression", "Guard", "Index", "Leaf",
    "Loop", "LoopKind", "MultiplyAdd", "Nest", "Node", "Number", "Product", "RoundDown", "Scalar", "Scope", "Stage",
    "Synchronize", "TimesI", "Total", "are_apart", "is_transposition", "leaves", "loops_of", "map_accesses",
    "map_assigns", "predicate_of", "round_down", "stages_of", "type_of", "variables_of", "vector_beside",
]

#: ``set`` stores; the others update atomically: ``add`` the value, ``exchange`` it, or ``combine`` it as
#: value + scale · old.
Update = Literal["set", "add", "exchange", "combine"]


@dataclass(frozen=True)
class Assign:
    """One assignment; `part` says which part of a reduction it is, or that it copies to or from a stage's buffer."""

    target: Access
    value: Expression
    part: Literal["init", "update", "finish", "copy"]
    update: Update = "set"
    scale: Expression | None = None

    @property
    def reads(self) -> tuple[Access, ...]:
        """The accesses that it reads."""
        scale = () if self.scale is None else accesses_of(self.scale)
        return (*accesses_of(self.value), *scale)

    def __str__(self) -> str:
        if self.update == "set":
            return f"{self.target} = {self.value}"
        scale = f", scale={self.scale}" if self.scale is not None else ""
        return f"atomic_{self.update}({self.target}, {self.value}{scale})"


#: How the iterations of a loop run:
#: ``serial`` one after the other; ``unrolled`` as copies of the body; ``vectorized`` as lanes of explicit vectors;
#: ``lanes`` one for each lane of the sub-group; ``rows`` and ``columns`` dealt out to the sub-groups of the
#: work-group along its first and second mode, ``subgroups`` to all of them; ``virtual`` interleaved within one
#: work-item, statement by statement; ``tensorized`` all at once, by an instruction of the engine.
LoopKind = Literal[
    "serial", "unrolled", "vectorized", "lanes", "rows", "columns", "subgroups", "virtual", "tensorized"
]

#: A condition on the iterations of a loop: the sum of the variables is below the bound.
Guard = tuple[Index, Bound]


@dataclass(frozen=True)
class Derived:
    """A variable that a loop computes: ``start + sum(index) // divisor % modulus * scale``, without ``%`` for None."""

    variable: str
    index: Index
    divisor: int = 1
    modulus: int | None = None
    scale: int = 1
    start: int = 0

    @property
    def static_range(self) -> range | None:
        """The values that it takes, where they are known."""
        if self.modulus is None:
            return None
        return range(self.start, self.start + self.modulus * self.scale, self.scale)

    def of(self, value: int) -> int:
        """Return the value of the variable for a sum of the index."""
        quotient = value // self.divisor
        return self.start + (quotient if self.modulus is None else quotient % self.modulus) * self.scale

    def __str__(self) -> str:
        text = " + ".join(self.index)
        if len(self.index) > 1 and (self.divisor, self.modulus, self.scale) != (1, None, 1):
            text = f"({text})"
        text += f" // {self.divisor}" if self.divisor != 1 else ""
        text += f" % {self.modulus}" if self.modulus is not None else ""
        text += f" * {self.scale}" if self.scale != 1 else ""
        return f"{self.variable} = {text}{f' + {self.start}' if self.start else ''}"


@dataclass(frozen=True)
class Loop:
    """``for variable in range(start, stop, step)``.

    `derived` are computed in each iteration, in order; `guards` then restrict the iterations.  A `pipelined` loop
    fills a stage's buffer for its next iteration, so that its iterations must run in order.  `instruction` names the
    engine's instruction that a tensorized loop stands for.  While the loops with `prefetch` run, the operands of a
    later work-group are fetched into the cache, a share in each iteration.  An unrolled loop that `loads_ahead` reads
    local memory for its next iteration before it computes the present one.
    """

    variable: str
    start: Bound
    stop: Bound
    body: tuple[Node, ...]
    step: int = 1
    kind: LoopKind = "serial"
    reduction: bool = False
    guards: tuple[Guard, ...] = ()
    derived: tuple[Derived, ...] = ()
    pipelined: bool = False
    instruction: str | None = None
    prefetch: bool = False
    loads_ahead: bool = False

    @property
    def static_range(self) -> range | None:
        """The iterations where they are known at compile time."""
        if isinstance(self.start, int) and isinstance(self.stop, int):
            return range(self.start, self.stop, self.step)
        return None

    @property
    def variables(self) -> tuple[str, ...]:
        """The loop's variable and those that it derives."""
        return (self.variable, *(d.variable for d in self.derived))

    def with_body(self, *body: Node) -> Loop:
        """Return the loop around another body; itself where that is its own."""
        return self if _are_same(body, self.body) else replace(self, body=body)


@dataclass(frozen=True)
class Stage:
    """The copy of a region of `source` to `buffer`, or with `write_back` from `buffer` to `source`.

    The buffer holds what one iteration of the loops around the stage needs.  An `asynchronous` copy goes on until the
    next barrier, while work-items compute.
    """

    buffer: str
    source: str
    body: tuple[Node, ...]
    write_back: bool = False
    asynchronous: bool = False

    def with_body(self, *body: Node) -> Stage:
        """Return the stage with other loops; itself where that is its own."""
        return self if _are_same(body, self.body) else replace(self, body=body)


@dataclass(frozen=True)
class Synchronize:
    """A barrier of the work-group: what was written to local memory before it is seen after it."""


Node = Loop | Assign | Stage | Synchronize


@dataclass(frozen=True)
class Nest:
    """The loops of one collective operation, with a one-line description of what it computes."""

    name: str
    description: str
    body: tuple[Node, ...]

    def __str__(self) -> str:
        declarations = [
            f"# {b.name}: {b.element} {'x'.join(map(str, b.shape))} in {_PLACES[b.scope]}, strides {list(b.strides)}"
            for b in self.buffers.values() if b.shape and b.scope != "global"
        ]
        return "\n".join([f"# {self.name}: {self.description}", *declarations, *_lines(self.body, "")])

    @property
    def buffers(self) -> dict[str, Buffer]:
        """The buffers that the nest accesses, by name."""
        return {access.buffer.name: access.buffer for leaf in leaves(self.body)
                for access in (*leaf.assign.reads, leaf.assign.target)}


_PLACES = {"local": "local memory", "registers": "registers", "private": "private memory"}


def _lines(nodes: tuple[Node, ...], indent: str) -> Iterator[str]:
    for node in nodes:
        match node:
            case Assign():
                yield f"{indent}{node}"
            case Synchronize():
                yield f"{indent}synchronize()"
            case Stage(buffer, source, body, write_back, asynchronous):
                kind = "write_back" if write_back else "asynchronous" if asynchronous else "stage"
                yield f"{indent}with {kind}({buffer}, {source}):"
                yield from _lines(body, indent + "    ")
            case Loop():
                yield from _loop_lines(node, indent)


def _loop_lines(loop: Loop, indent: str) -> Iterator[str]:
    arguments = [str(loop.start), str(loop.stop)]
    if loop.step != 1:
        arguments.append(str(loop.step))
    if loop.instruction is not None:
        arguments.append(loop.instruction)
    yield f"{indent}for {loop.variable} in {loop.kind}({', '.join(arguments)}):"
    inner = indent + "    "
    if loop.prefetch:
        yield f"{inner}prefetch()"
    if loop.loads_ahead:
        yield f"{inner}load_ahead()"
    for derived in loop.derived:
        yield f"{inner}{derived}"
    for index, bound in loop.guards:
        yield f"{inner}if {' + '.join(index)} < {bound}:"
        inner += "    "
    yield from _lines(loop.body, inner)


def is_transposition(loop: Loop) -> bool:
    """Whether a loop and the one inside it are both vectorized: a copy whose squares are transposed in registers."""
    match loop.body:
        case (Loop(kind="vectorized", body=(Assign(part="copy"),)),):
            return loop.kind == "vectorized"
    return False


def vector_beside(loop: Loop) -> Loop | None:
    """Return the vectorized loop that a vectorized one holds alone, so that vectors have lanes of both; None if none.

    The lanes of the inner one follow one another for each of the outer one.
    """
    match loop.body:
        case (Loop(kind="vectorized") as inner,) if loop.kind == "vectorized" and not is_transposition(loop):
            return inner
    return None


def predicate_of(loop: Loop) -> Guard | None:
    """Return the guard that tells which lanes of a vectorized loop take part; None where all of them do."""
    return next((guard for guard in loop.guards if loop.kind == "vectorized" and loop.variable in guard[0]), None)


def _are_same(nodes: tuple[Node, ...], others: tuple[Node, ...]) -> bool:
    return len(nodes) == len(others) and all(map(is_, nodes, others))


def loops_of(nodes: tuple[Node, ...]) -> Iterator[Loop]:
    """Yield every loop, outer loops first."""
    for node in nodes:
        if isinstance(node, Loop):
            yield node
        if isinstance(node, (Loop, Stage)):
            yield from loops_of(node.body)


def stages_of(nodes: tuple[Node, ...]) -> Iterator[Stage]:
    """Yield every stage in the order of the script."""
    for node in nodes:
        if isinstance(node, Stage):
            yield node
        if isinstance(node, (Loop, Stage)):
            yield from stages_of(node.body)


def variables_of(nodes: tuple[Node, ...]) -> Iterator[str]:
    """Yield the variables of all loops, derived ones included."""
    for loop in loops_of(nodes):
        yield from loop.variables


@dataclass(frozen=True)
class Leaf:
    """An assignment with the loops and stages around it, outermost first."""

    assign: Assign
    path: tuple[Loop | Stage, ...]

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The loops around it, outermost first."""
        return tuple(node for node in self.path if isinstance(node, Loop))


def leaves(nodes: tuple[Node, ...], path: tuple[Loop | Stage, ...] = ()) -> Iterator[Leaf]:
    """Yield every assignment in the order of the script."""
    for node in nodes:
        if isinstance(node, Assign):
            yield Leaf(node, path)
        elif isinstance(node, (Loop, Stage)):
            yield from leaves(node.body, (*path, node))


def map_assigns(nodes: tuple[Node, ...], change: Callable[[Access], Access]) -> tuple[Node, ...]:
    """Return the nodes with `change` applied to each access."""
    result: list[Node] = []
    for node in nodes:
        match node:
            case Assign(target, value, _, _, scale):
                scale = None if scale is None else map_accesses(scale, change)
                result.append(replace(node, target=change(target), value=map_accesses(value, change), scale=scale))
            case Loop() | Stage():
                result.append(node.with_body(*map_assigns(node.body, change)))
            case Synchronize():
                result.append(node)
    return tuple(result)


def are_apart(loop: Loop) -> bool:
    """Whether each iteration of a loop has results of its own."""
    return all(any(loop.variable in index for index in leaf.assign.target.indices) for leaf in leaves(loop.body))
