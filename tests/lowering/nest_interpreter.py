"""Runs a loop nest in plain Python: the oracle for schedule primitives.

A nest runs as it is scheduled, with all loops one after the other; or as it is realized for a work-group, by
work-items that take turns at random between barriers.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

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
    if layout is None:
        (work_item,) = [_WorkItem(buffers, sizes or {}, scalars or {}, {}, SubgroupLayout(), 0, plain=True)]
        for _ in work_item.execute(nest.body, {}):
            pass
        return
    local: Memory = {}
    count = layout.lanes * layout.subgroups
    waiting = [
        _WorkItem(buffers, sizes or {}, scalars or {}, local, layout, number).execute(nest.body, {})
        for number in range(count)
    ]
    order = random.Random(seed)
    while waiting:
        order.shuffle(waiting)
        # Between two barriers each work-item runs on its own, in any order.
        arrived = [item for item in waiting if next(item, "done") != "done"]
        assert len(arrived) in (0, len(waiting)), "some work-items wait at a barrier that others never reach"
        waiting = arrived


class _WorkItem:
    def __init__(
        self, buffers: Mapping[str, np.ndarray], sizes: Mapping[str, int], scalars: Values, local: Memory,
        layout: SubgroupLayout, number: int, plain: bool = False,
    ) -> None:
        self.buffers, self.sizes, self.scalars, self.local = buffers, sizes, scalars, local
        self.own: Memory = {}
        self.plain = plain
        subgroup, lane = divmod(number, layout.lanes)
        self.positions = {
            "lanes": (lane, layout.lanes), "rows": (subgroup % layout.rows, layout.rows),
            "columns": (subgroup // layout.rows, layout.columns), "subgroups": (subgroup, layout.subgroups),
        }

    def bound(self, entry: Bound) -> int:
        match entry:
            case int():
                return entry
            case Dimension(name):
                return self.sizes[name]
            case RoundDown(size, factor):
                return self.bound(size) // factor * factor

    def place(self, access: Access, variables: Mapping[str, int]) -> tuple[int, ...]:
        return tuple(sum(variables[name] for name in index) for index in access.indices)

    def memory(self, access: Access, at: tuple[int, ...]) -> tuple[Any, Any]:
        """Return where an element is: a mapping and its key."""
        buffer = access.buffer
        if buffer.scope == "global":
            array = self.buffers[buffer.name]
            assert all(0 <= i < n for i, n in zip(at, array.shape, strict=True)), f"{access} is outside: {at}"
            return array, at
        if buffer.shape:
            bounds = [self.bound(size) for size in buffer.shape]
            assert all(0 <= i < n for i, n in zip(at, bounds, strict=True)), f"{access} is outside: {at}"
        if buffer.strides:
            # By address: a wrong stride shows as elements that overwrite one another.
            at = (sum(i * stride for i, stride in zip(at, buffer.strides, strict=True)),)
        return self.local if buffer.scope == "local" else self.own, (buffer.name, *at)

    def value(self, expression: Expression, variables: Mapping[str, int]) -> float:
        match expression:
            case Access():
                memory, key = self.memory(expression, self.place(expression, variables))
                return memory[key]
            case Scalar(name):
                return self.scalars[name]
            case Number(number):
                return number
            case Convert(operand):
                return self.value(operand, variables)
            case Product(lhs, rhs):
                return self.value(lhs, variables) * self.value(rhs, variables)
            case Total(lhs, rhs):
                return self.value(lhs, variables) + self.value(rhs, variables)
            case MultiplyAdd(lhs, rhs, addend):
                return self.value(lhs, variables) * self.value(rhs, variables) + self.value(addend, variables)

    def execute(self, nodes: tuple[Node, ...], variables: Mapping[str, int]) -> Iterator[None]:
        for node in nodes:
            match node:
                case Assign(target, value, _, "set"):
                    memory, key = self.memory(target, self.place(target, variables))
                    memory[key] = self.value(value, variables)
                case Assign():
                    raise AssertionError("the interpreter knows no atomics")
                case Stage(body=body):
                    yield from self.execute(body, variables)
                case Synchronize():
                    yield
                case Loop():
                    for counter in self.iterations(node):
                        inner = {**variables, node.variable: counter}
                        for derived in node.derived:
                            inner[derived.variable] = derived.of(sum(inner[name] for name in derived.index))
                        if all(sum(inner[name] for name in index) < self.bound(bound) for index, bound in node.guards):
                            yield from self.execute(node.body, inner)

    def iterations(self, loop: Loop) -> range:
        start, stop = self.bound(loop.start), self.bound(loop.stop)
        if self.plain or loop.kind not in self.positions:
            return range(start, stop, loop.step)
        position, share = self.positions[loop.kind]
        return range(start + position * loop.step, stop, loop.step * share)
