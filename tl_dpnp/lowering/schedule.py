"""Schedule primitives: rewrites of a loop nest that keep what it computes.

The names are TensorIR's (Feng et al., ASPLOS 2023).  Loops are addressed by the name of their variable; `split`
names its parts ``m.0`` and ``m.1``, and loops that a primitive copies get a prime.  A primitive that is not legal
raises `ScheduleError` and leaves the schedule as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from tl_dpnp.errors import ScheduleError
from tl_dpnp.lowering.nest import (
    Access,
    Assign,
    Convert,
    Expression,
    Index,
    Loop,
    LoopKind,
    MultiplyAdd,
    Nest,
    Node,
    Number,
    Product,
    RoundDown,
    Scalar,
    Total,
    loops_of,
    round_down,
)

__all__ = ["Schedule", "Split"]

Tail = Literal["remainder", "guard"]


@dataclass(frozen=True)
class Split:
    """The loops that a split made; `remainder` is None where the factor divides the range.

    `renamed` maps each loop inside the split loop to its copy in the remainder.
    """

    outer: str
    inner: str
    remainder: str | None
    renamed: Mapping[str, str]


class Schedule:
    """A loop nest and the primitives that were applied to it; printing gives the script of both."""

    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.trace: list[str] = []
        #: Every name that a loop has or had: names are never used twice.
        self._names = {loop.variable for loop in loops_of(nest.body)}

    def __str__(self) -> str:
        return "\n".join([*(f"# {step}" for step in self.trace), str(self.nest)])

    def range_of(self, loop: str) -> range | None:
        """Return the iterations of a loop, or None where they are known only at run time."""
        return self._find(loop).static_range

    def is_static(self, loop: str) -> bool:
        """Return whether the ranges of a loop and of those around it are known at compile time."""
        return all(entry.static_range is not None for entry in self._enclosing(loop))

    # --- primitives --------------------------------------------------------------------------------------------------

    def split(self, loop: str, factor: int, tail: Tail = "remainder") -> Split:
        """Split a loop into an outer loop and an inner one of `factor` iterations.

        Where `factor` does not divide the range, ``tail="remainder"`` runs the rest in a copy of the loop after
        the full part, which then needs no predicate; ``tail="guard"`` keeps one nest and guards the inner loop.
        """
        found = self._find(loop)
        rule = f"split({loop}, {factor})"
        self._require(factor >= 1, rule, "the factor must be at least 1")
        self._require(found.kind == "serial", rule, f"the loop is {found.kind}; split it before")
        self._require(found.guard is None, rule, "the loop has a guard")
        outer, inner = f"{loop}.0", f"{loop}.1"
        self._names |= {outer, inner}
        width = factor * found.step
        body = tuple(_substitute(node, {loop: (outer, inner)}) for node in found.body)
        static = found.static_range
        divides = static is not None and len(static) % factor == 0
        inner_loop = Loop(inner, 0, width, body, found.step, reduction=found.reduction)
        if tail == "guard" and not divides:
            inner_loop = replace(inner_loop, guard=((outer, inner), found.stop))
        stop = found.stop
        if tail == "remainder" and not divides:
            stop = self._full_part(found, width, rule)
        nodes: list[Node] = [replace(found, variable=outer, stop=stop, step=width, body=(inner_loop,))]
        remainder, renamed = None, {}
        if tail == "remainder" and not divides:
            names = {name: self._fresh(name) for name in [loop, *(x.variable for x in loops_of(found.body))]}
            remainder = names.pop(loop)
            renamed = names
            copies = {name: (new,) for name, new in {**names, loop: remainder}.items()}
            rest = tuple(_substitute(node, copies) for node in found.body)
            nodes.append(replace(found, variable=remainder, start=stop, body=rest))
        self._replace(loop, lambda _: tuple(nodes), f"{rule}, tail={tail}")
        return Split(outer, inner, remainder, renamed)

    def reorder(self, *loops: str) -> None:
        """Nest perfectly nested loops in the given order, outermost first."""
        rule = f"reorder({', '.join(loops)})"
        chain: list[Loop] = []
        node = self._find(min(loops, key=lambda name: len(self._enclosing(name))))
        while True:
            chain.append(node)
            if len(chain) == len(loops):
                break
            following = node.body[0]
            self._require(
                len(node.body) == 1 and isinstance(following, Loop), rule, f"{node.variable} holds more than a loop"
            )
            assert isinstance(following, Loop)
            node = following
        by_name = {entry.variable: entry for entry in chain}
        self._require(set(by_name) == set(loops), rule, "the loops are not perfectly nested in one another")
        body = chain[-1].body
        visible: set[str] = set()
        for name in loops:
            visible.add(name)
            guard = by_name[name].guard
            inner = set(by_name) - visible
            self._require(guard is None or not inner & set(guard[0]), rule, f"the guard of {name} needs an outer loop")
        for name in reversed(loops):
            body = (by_name[name].with_body(*body),)
        self._replace(chain[0].variable, lambda _: body, rule)

    def unroll(self, loop: str) -> None:
        """Replace a loop of known range by copies of its body."""
        self._require(self._find(loop).static_range is not None, f"unroll({loop})", "its range is not known")
        self._mark(loop, "unrolled", f"unroll({loop})")

    def vectorize(self, loop: str) -> None:
        """Run the iterations of a loop of known range as lanes of vectors."""
        rule = f"vectorize({loop})"
        found = self._find(loop)
        self._require(found.static_range is not None, rule, "its range is not known")
        self._require(not found.reduction, rule, "it is a reduction, whose iterations depend on one another")
        self._require(found.step == 1, rule, "its step is not 1")
        for target in _targets(found.body):
            used = [i for i in target.indices if loop in i]
            self._require(len(used) == 1, rule, f"{target} does not use it in exactly one index")
        self._mark(loop, "vectorized", rule)

    def bind(self, loop: str, kind: Literal["lanes", "rows", "columns"]) -> None:
        """Deal the iterations of a loop out to the lanes of the sub-group, or to the sub-groups."""
        rule = f"bind({loop}, {kind})"
        found = self._find(loop)
        self._require(not found.reduction, rule, "it is a reduction, whose iterations depend on one another")
        if kind == "lanes":
            self._require(found.static_range is not None and found.step == 1, rule, "its range is not known")
        self._mark(loop, kind, rule)

    def prefetch(self, loop: str) -> None:
        """Fetch the operands of the next work-group into the cache, spread over the iterations of a serial loop.

        It changes nothing where the kernel does not know the next operands.  The loop and those around it must have
        known ranges, so that each iteration knows its share.
        """
        rule = f"prefetch({loop})"
        chain = self._enclosing(loop)
        self._require(chain[-1].kind == "serial", rule, "the loop is not serial")
        self._require(self.is_static(loop), rule, "the range of the loop, or of one around it, is not known")
        self._replace(loop, lambda node: (replace(node, prefetch=True),), rule)

    def decompose_reduction(self, reduction: str, above: str) -> None:
        """Move a reduction outside the perfectly nested loops from `above` inwards.

        What stands before and after the reduction is split off into copies of those loops: the initialisation
        before it and the final assignment after it.
        """
        rule = f"decompose_reduction({reduction}, above={above})"
        chain = [self._find(above)]
        while len(chain[-1].body) == 1 and isinstance(chain[-1].body[0], Loop):
            chain.append(chain[-1].body[0])
        inner = chain[-1].body
        positions = [i for i, node in enumerate(inner) if isinstance(node, Loop) and node.variable == reduction]
        self._require(len(positions) == 1, rule, f"{reduction} does not stand directly inside {chain[-1].variable}")
        self._require(all(loop.guard is None for loop in chain), rule, "a loop in between has a guard")
        self._require(all(not loop.reduction for loop in chain), rule, "a loop in between is a reduction")
        at = positions[0]
        reduce = inner[at]
        assert isinstance(reduce, Loop)

        def around(nodes: tuple[Node, ...], copy: bool) -> tuple[Node, ...]:
            if not nodes:
                return ()
            names = {loop.variable: self._fresh(loop.variable) if copy else loop.variable for loop in chain}
            body = tuple(_substitute(node, {old: (new,) for old, new in names.items()}) for node in nodes)
            for loop in reversed(chain):
                body = (replace(loop, variable=names[loop.variable], body=body),)
            return body

        update = reduce.with_body(*around(reduce.body, copy=False))
        parts = (*around(inner[:at], copy=True), update, *around(inner[at + 1 :], copy=True))
        self._replace(above, lambda _: parts, rule)

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _find(self, name: str) -> Loop:
        for loop in loops_of(self.nest.body):
            if loop.variable == name:
                return loop
        known = ", ".join(loop.variable for loop in loops_of(self.nest.body))
        raise ScheduleError(f"{self.nest.name}: there is no loop {name}; the loops are {known}")

    def _enclosing(self, name: str) -> list[Loop]:
        """Return the loops around a loop, outermost first, and the loop itself."""
        def search(nodes: tuple[Node, ...]) -> list[Loop] | None:
            for node in nodes:
                if isinstance(node, Loop):
                    found = [] if node.variable == name else search(node.body)
                    if found is not None:
                        return [node, *found]
            return None

        self._find(name)
        chain = search(self.nest.body)
        assert chain is not None
        return chain

    def _fresh(self, name: str) -> str:
        """Return the name with as many primes as make it new, and take it."""
        new = name + "'"
        while new in self._names:
            new += "'"
        self._names.add(new)
        return new

    def _require(self, condition: bool, rule: str, reason: str) -> None:
        if not condition:
            raise ScheduleError(f"{self.nest.name}: {rule} is not legal: {reason}")

    def _full_part(self, loop: Loop, width: int, rule: str) -> int | RoundDown:
        """Return where the part of a loop that is made of whole tiles ends."""
        static = loop.static_range
        if static is not None:
            self._require(len(static) * loop.step >= width, rule, f"the loop has only {len(static)} iterations")
            assert isinstance(loop.start, int)
            return loop.start + len(static) * loop.step // width * width
        start = loop.start
        aligned = start == 0 or (isinstance(start, RoundDown) and start.factor % width == 0)
        self._require(aligned, rule, "the start of the loop is no multiple of the factor")
        stop = round_down(loop.stop, width)
        assert not isinstance(stop, int)
        return stop if isinstance(stop, RoundDown) else RoundDown(stop, width)

    def _mark(self, loop: str, kind: LoopKind, rule: str) -> None:
        found = self._find(loop)
        self._require(found.kind == "serial", rule, f"the loop is {found.kind} already")
        self._replace(loop, lambda node: (replace(node, kind=kind),), rule)

    def _replace(self, name: str, change: Callable[[Loop], tuple[Node, ...]], step: str) -> None:
        def rewrite(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
            result: list[Node] = []
            for node in nodes:
                if isinstance(node, Assign):
                    result.append(node)
                elif node.variable == name:
                    result += change(node)
                else:
                    result.append(node.with_body(*rewrite(node.body)))
            return tuple(result)

        self.nest = replace(self.nest, body=rewrite(self.nest.body))
        self.trace.append(step)


Renaming = Mapping[str, Index]


def _substitute(node: Node, names: Renaming) -> Node:
    """Replace loop variables by sums of others."""
    if isinstance(node, Assign):
        return replace(
            node,
            target=_substitute_access(node.target, names),
            value=_substitute_expression(node.value, names),
            scale=None if node.scale is None else _substitute_expression(node.scale, names),
        )
    guard = node.guard and (_substitute_index(node.guard[0], names), node.guard[1])
    variable = names.get(node.variable, (node.variable,))
    body = tuple(_substitute(inner, names) for inner in node.body)
    return replace(node, variable=variable[0], body=body, guard=guard)


def _substitute_index(index: Index, names: Renaming) -> Index:
    return tuple(new for name in index for new in names.get(name, (name,)))


def _substitute_access(access: Access, names: Renaming) -> Access:
    return replace(access, indices=tuple(_substitute_index(index, names) for index in access.indices))


def _substitute_expression(expression: Expression, names: Renaming) -> Expression:
    match expression:
        case Access():
            return _substitute_access(expression, names)
        case Scalar() | Number():
            return expression
        case Convert(operand, type_):
            return Convert(_substitute_expression(operand, names), type_)
        case Product(lhs, rhs):
            return Product(_substitute_expression(lhs, names), _substitute_expression(rhs, names))
        case Total(lhs, rhs):
            return Total(_substitute_expression(lhs, names), _substitute_expression(rhs, names))
        case MultiplyAdd(lhs, rhs, addend):
            return MultiplyAdd(*(_substitute_expression(e, names) for e in (lhs, rhs, addend)))


def _targets(nodes: tuple[Node, ...]) -> list[Access]:
    found: list[Access] = []
    for node in nodes:
        found += [node.target] if isinstance(node, Assign) else _targets(node.body)
    return found
