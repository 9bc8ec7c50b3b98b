"""Runs a loop nest as plain Python: the oracle for schedule primitives.

A nest is written as a function with the same loops, which checks each access before it makes it, for sizes that are
known.  It runs as it is scheduled, with all loops one after the other; or as it is realized for a work-group, by
work-items that take turns at random between barriers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NoReturn

import numpy as np

from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.nest import (
    Access,
    Assign,
    Bound,
    Convert,
    Dimension,
    Expression,
    Loop,
    MultiplyAdd,
    Nest,
    Node,
    Number,
    Product,
    RoundDown,
    Scalar,
    Stage,
    Synchronize,
    Total,
)

Values = Mapping[str, float]
#: The elements of a buffer that is not an operand, by name and index.
Memory = dict[tuple[object, ...], float]
#: Loops in one function: Python takes 20.
_MOST_NESTED = 15


def run_nest(
    nest: Nest,
    buffers: Mapping[str, np.ndarray],
    sizes: Mapping[str, int] | None = None,
    scalars: Values | None = None,
    layout: SubgroupLayout | None = None,
    seed: int = 0,
) -> None:
    """Execute `nest` on arrays, one for each operand, in place.

    With `layout`, `nest` has been realized for it; else every loop is serial and nothing needs a barrier.
    """
    work_item = _Writer(buffers, sizes or {}, scalars or {}, is_plain=layout is None).function(nest)
    if layout is None:
        for _ in work_item({}, {}, _positions(SubgroupLayout(), 0)):
            pass
        return
    local: Memory = {}
    waiting = [work_item(local, {}, _positions(layout, number)) for number in range(layout.lanes * layout.subgroups)]
    order = random.Random(seed)
    while waiting:
        order.shuffle(waiting)
        # Between two barriers each work-item runs on its own, in any order.
        arrived = [item for item in waiting if next(item, "done") != "done"]
        assert len(arrived) in (0, len(waiting)), "some work-items wait at a barrier that others never reach"
        waiting = arrived


def _positions(layout: SubgroupLayout, number: int) -> dict[str, tuple[int, int]]:
    """Return the place of a work-item among those that share the iterations of a kind of loop, and their number."""
    subgroup, lane = divmod(number, layout.lanes)
    return {
        "lanes": (lane, layout.lanes), "rows": (subgroup % layout.rows, layout.rows),
        "columns": (subgroup // layout.rows, layout.columns), "subgroups": (subgroup, layout.subgroups),
    }


_SHARED = tuple(_positions(SubgroupLayout(), 0))


class _Writer:
    """Writes what a work-item runs: statements that follow the nest, and the objects that they name."""

    def __init__(
        self, buffers: Mapping[str, np.ndarray], sizes: Mapping[str, int], scalars: Values, *, is_plain: bool
    ) -> None:
        self.buffers, self.sizes, self.scalars, self.is_plain = buffers, sizes, scalars, is_plain
        self.objects: dict[str, Any] = {}
        self.lines: list[str] = []
        self.count = 0

    def function(self, nest: Nest) -> Callable[[Memory, Memory, Mapping[str, tuple[int, int]]], Iterator[None]]:
        """Return a generator function that waits at barriers, of local and own memory and the work-item's places."""
        self.write(0, "def work_item(local, own, positions):")
        self.nodes(nest.body, 1, {})
        self.write(1, "return", "yield")  # a generator, whether there are barriers or not
        exec(compile("\n".join(self.lines), "<nest>", "exec"), self.objects)
        return self.objects["work_item"]

    def write(self, depth: int, *lines: str) -> None:
        self.lines += [" " * depth + line for line in lines]

    def fresh(self) -> str:
        self.count += 1
        return f"_{self.count}"

    def named(self, thing: Any) -> str:
        """Return a name for an object."""
        name = self.fresh()
        self.objects[name] = thing
        return name

    def bound(self, entry: Bound) -> int:
        match entry:
            case int():
                return entry
            case Dimension(name):
                return self.sizes[name]
            case RoundDown(size, factor):
                return self.bound(size) // factor * factor

    def element(self, access: Access, depth: int, variables: Mapping[str, str]) -> str:
        """Write the checks of an access; return the element, as an expression that may be assigned to."""
        buffer, at = access.buffer, [self.fresh() for _ in access.indices]
        for name, index in zip(at, access.indices, strict=True):
            self.write(depth, f"{name} = {_sum(variables[variable] for variable in index)}")
        is_global = buffer.scope == "global"
        shape = self.buffers[buffer.name].shape if is_global else [self.bound(size) for size in buffer.shape]
        if is_global or shape:
            inside = " and ".join(f"0 <= {i} < {n}" for i, n in zip(at, shape, strict=True)) or "True"
            self.write(depth, f"if not ({inside}): {self.named(_outside)}({self.named(access)}, ({_listed(at)}))")
        if is_global:
            return f"{self.named(self.buffers[buffer.name])}[({_listed(at)})]"
        if buffer.strides:
            # By address: a wrong stride shows as elements that overwrite one another.
            at = [_sum(f"{i} * {stride}" for i, stride in zip(at, buffer.strides, strict=True))]
        return f"{'local' if buffer.scope == 'local' else 'own'}[({_listed([repr(buffer.name), *at])})]"

    def value(self, expression: Expression, depth: int, variables: Mapping[str, str]) -> str:
        """Write what an expression needs; return it."""
        def of(operand: Expression) -> str:
            return self.value(operand, depth, variables)

        match expression:
            case Access():
                return self.element(expression, depth, variables)
            case Scalar(name):
                return self.named(self.scalars[name])
            case Number(number):
                return self.named(number)
            case Convert(operand):
                return of(operand)
            case Product(lhs, rhs):
                return f"({of(lhs)} * {of(rhs)})"
            case Total(lhs, rhs):
                return f"({of(lhs)} + {of(rhs)})"
            case MultiplyAdd(lhs, rhs, addend):
                return f"({of(lhs)} * {of(rhs)} + {of(addend)})"

    def nodes(self, nodes: tuple[Node, ...], depth: int, variables: Mapping[str, str]) -> None:
        for node in nodes:
            match node:
                case Assign(target, value, _, "set"):
                    written = self.value(value, depth, variables)
                    self.write(depth, f"{self.element(target, depth, variables)} = {written}")
                case Assign():
                    raise AssertionError("the interpreter knows no atomics")
                case Stage(body=body):
                    self.nodes(body, depth, variables)
                case Synchronize():
                    self.write(depth, "yield")
                case Loop():
                    self.loop(node, depth, variables)

    def loop(self, loop: Loop, depth: int, variables: Mapping[str, str]) -> None:
        variable = self.fresh()
        inner = {**variables, loop.variable: variable}
        if len(inner) % _MOST_NESTED == 0:
            function = self.fresh()
            self.write(depth, f"def {function}():")
            self.iterations(loop, depth + 1, variable, inner)
            self.write(depth + 1, "return", "yield")
            self.write(depth, f"yield from {function}()")
        else:
            self.iterations(loop, depth, variable, inner)

    def iterations(self, loop: Loop, depth: int, variable: str, inner: dict[str, str]) -> None:
        start, stop, step = self.bound(loop.start), self.bound(loop.stop), loop.step
        if self.is_plain or loop.kind not in _SHARED:
            self.write(depth, f"for {variable} in range({start}, {stop}, {step}):")
        else:
            position, share = (f"positions[{loop.kind!r}][{place}]" for place in (0, 1))
            self.write(depth, f"for {variable} in range({start} + {position} * {step}, {stop}, {step} * {share}):")
        for derived in loop.derived:
            index = _sum(inner[name] for name in derived.index)
            inner[derived.variable] = self.fresh()
            self.write(depth + 1, f"{inner[derived.variable]} = {self.named(derived.of)}({index})")
        guards = [f"{_sum(inner[name] for name in index)} < {self.bound(bound)}" for index, bound in loop.guards]
        self.write(depth + 1, f"if {' and '.join(guards) or 'True'}:", " pass")
        self.nodes(loop.body, depth + 2, inner)


def _sum(terms: Iterable[str]) -> str:
    return " + ".join(terms) or "0"


def _listed(parts: Iterable[str]) -> str:
    """Return the inside of a tuple."""
    return "".join(f"{part}, " for part in parts)


def _outside(access: Access, at: tuple[int, ...]) -> NoReturn:
    raise AssertionError(f"{access} is outside: {at}")
