"""Unrolls loops over sums of products whose matrices are in the registers of a sub-group with DPAS.

Where a loop loads two factors and adds their product, one iteration of several steps loads factors that are as many
times as long along the sum: messages move more at a time, their headers change once, and there is one end of an
iteration for more DPAS.  A loop like the one before does the steps that are left over.  DPAS adds in the same order.
"""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import NamedTuple

from tl_dpnp.kernels.dpas.sums import COLUMNS, LANES
from tl_dpnp.language import ops
from tl_dpnp.language.types import CooperativeMatrixType
from tl_dpnp.lowering.dpas_fragments import SubgroupRegion, factor_loads, product_row, registers_needed
from tl_dpnp.lowering.rewrite import map_operation, replace_body, with_regions
from tl_dpnp.scalars import INDEX
from tl_dpnp.target.catalog import DPAS

__all__ = ["unrolled_sums"]

#: Steps of an iteration, the most first, and the DPAS that it has at most.
_STEPS, _MOST_DPAS = (8, 4, 2), 64


def unrolled_sums(found: SubgroupRegion) -> tuple[ops.Operation, ...]:
    """Return a region that is in registers with its sums unrolled as far as registers suffice, and what it needs
    in front of it.  Names of the function are unique, and those of the result in it.
    """
    region, front = found.region, list[ops.Operation]()
    names = {value.name for operation in found.function.body.walk()
             for value in (*operation.results, *operation.loop_variables)}
    names.update(value.name for value in found.function.parameters)
    inside = {value.name for operation in region.body.walk()
              for value in (*operation.results, *operation.loop_variables)}
    for loop in [*region.body.walk()]:
        if not isinstance(loop, ops.For) or not _is_sum(loop, inside):
            continue
        for steps in _STEPS:
            unrolled = _Unrolled(loop, steps, names).parts()
            changed = _with(region, loop, unrolled.loops)
            function = replace_body(found.function, _replaced(
                found.function.body, found.region, (*front, *unrolled.front, changed)))
            if unrolled.loops and _fits(SubgroupRegion(function, changed), unrolled.loops[0]):
                region = changed
                front += unrolled.front
                names.update(unrolled.names)
                break
    return (*front, region)


def _with(
    region: ops.Parallel | ops.ForeachTile, old: ops.Operation, new: tuple[ops.Operation, ...]
) -> ops.Parallel | ops.ForeachTile:
    return with_regions(region, [_replaced(region.body, old, new)])


def _replaced(region: ops.Region, old: ops.Operation, new: tuple[ops.Operation, ...]) -> ops.Region:
    """Return a region with others in the place of an operation: the same one where it is not in it."""
    found = list[ops.Operation]()
    for operation in region:
        if operation is old:
            found += new
            continue
        inner = [_replaced(each, old, new) for each in operation.regions]
        is_same = all(one is other for one, other in zip(inner, operation.regions, strict=True))
        found.append(operation if is_same else with_regions(operation, inner))
    same = len(found) == len(region.operations) and all(map(operator.is_, found, region.operations))
    return region if same else ops.Region(tuple(found))


def _is_sum(loop: ops.For, inside: set[str]) -> bool:
    """Return whether all that a loop does is to add products of factors that follow one another along the sum."""
    if loop.variable.type != INDEX or not isinstance(loop.step, ops.Constant) or loop.step.value.real <= 0 or any(
        isinstance(bound, ops.Value) and bound.name in inside for bound in (loop.start, loop.stop)
    ):
        return False
    *body, last = loop.body
    loads = {operation.result.name: operation for operation in body if isinstance(operation, ops.CooperativeMatrixLoad)}
    products = [operation for operation in body if isinstance(operation, ops.CooperativeMatrixMulAdd)]
    if not products or len(loads) + len(products) != len(body) or not isinstance(last, ops.Yield):
        return False
    sums = {operation.C.name: operation.result for operation in products if isinstance(operation.C, ops.Value)}
    step = int(loop.step.value.real)
    return (
        [*last.values] == [sums.get(value.name) for value in loop.carried]
        and len(sums) == len(products) == len(loop.carried)
        and all(_moves(loads.get(factor.name), loop, step, is_first) for operation in products
                for factor, is_first in ((operation.A, True), (operation.B, False)))
    )


def _moves(load: ops.CooperativeMatrixLoad | None, loop: ops.For, step: int, is_first: bool) -> bool:
    """Return whether a loop loads a factor that goes on along the sum by all of its length."""
    if load is None:
        return False
    along = int(is_first != load.transpose)
    own = {value.name for operation in loop.body for value in operation.results}
    first = load.indices[along]
    other = load.indices[1 - along]
    return (isinstance(first, ops.Value) and first.name == loop.variable.name
            and (isinstance(other, ops.Constant) or other.name not in {*own, loop.variable.name})
            and _length(load.type, is_first) == step)


def _length(type: CooperativeMatrixType, is_first: bool) -> int:
    return type.columns if is_first else type.rows


class _Parts(NamedTuple):
    """What stands in front of a region, the loops in the place of one, none if it is shorter, and the names of both."""

    front: list[ops.Operation]
    loops: tuple[ops.For, ...]
    names: set[str]


class _Unrolled:
    """Makes a loop of several steps of another one, and what does the rest; `taken` are names that are not free."""

    def __init__(self, loop: ops.For, steps: int, taken: set[str]) -> None:
        self.loop, self.steps = loop, steps
        self.taken, self.names = taken, set[str]()
        self.front: list[ops.Operation] = []

    def value(self, like: ops.Value) -> ops.Value:
        """Return a new value of a type."""
        count = 1
        while (name := f"{like.name}_{count}") in self.taken or name in self.names:
            count += 1
        self.names.add(name)
        return replace(like, name=name)

    def parts(self) -> _Parts:
        """Return all of it."""
        loop = self.loop
        assert isinstance(loop.step, ops.Constant)
        step = replace(loop.step, value=self.steps * loop.step.value)
        stop = self.last(int(step.value.real))
        if isinstance(stop, ops.Constant) and isinstance(loop.start, ops.Constant) and (
            stop.value.real <= loop.start.value.real
        ):
            return _Parts([], (), set())
        outputs = tuple(map(self.value, loop.outputs))
        whole = replace(self.longer(), stop=stop, step=step, outputs=outputs)
        rest = replace(loop, start=stop, initial=outputs)
        if isinstance(stop, ops.Constant) and stop == loop.stop:
            return _Parts([], (replace(whole, outputs=loop.outputs),), self.names)
        return _Parts(self.front, (whole, rest), self.names)

    def last(self, step: int) -> ops.Operand:
        """Return where the last whole iteration ends."""
        start, stop = self.loop.start, self.loop.stop
        if isinstance(start, ops.Constant) and isinstance(stop, ops.Constant):
            first, limit = int(start.value.real), int(stop.value.real)
            end = first + max(limit - first, 0) // step * step
            return stop if end == limit else replace(stop, value=end)
        zero, size = ops.Constant(0, INDEX), ops.Constant(step, INDEX)
        length = self.computed("sub", stop, start)
        more = self.value(self.loop.variable)
        self.front.append(ops.Math(kind="max", arguments=(length, zero), result=more, span=self.loop.span))
        whole = self.computed("mul", self.computed("div", more, size), size)
        return self.computed("add", start, whole)

    def computed(self, kind: str, lhs: ops.Operand, rhs: ops.Operand) -> ops.Value:
        """Return a number that is computed in front of the region."""
        result = self.value(self.loop.variable)
        self.front.append(ops.Arith(kind=kind, lhs=lhs, rhs=rhs, result=result, span=self.loop.span))
        return result

    def longer(self) -> ops.For:
        """Return the loop with names of its own and factors that are several times as long."""
        loop, renamed = self.loop, dict[str, ops.Value]()

        def use(operand: ops.Operand) -> ops.Operand:
            return renamed.get(operand.name, operand) if isinstance(operand, ops.Value) else operand

        def define(value: ops.Value) -> ops.Value:
            renamed[value.name] = self.longer_factor(self.value(value))
            return renamed[value.name]

        def nested(region: ops.Region) -> ops.Region:
            return ops.Region(tuple(map_operation(each, use, define, nested) for each in region))

        carried = tuple(map(define, loop.carried))
        return replace(loop, variable=define(loop.variable), carried=carried, body=nested(loop.body))

    def longer_factor(self, value: ops.Value) -> ops.Value:
        type = value.type
        if not isinstance(type, CooperativeMatrixType) or type.use == "matrix_acc":
            return value
        if type.use == "matrix_a":
            return replace(value, type=replace(type, columns=type.columns * self.steps))
        return replace(value, type=replace(type, rows=type.rows * self.steps))


def _fits(region: SubgroupRegion, loop: ops.For) -> bool:
    """Return whether matrices and the headers of messages, which loops change in place, fit in registers."""
    products = [operation for operation in loop.body if isinstance(operation, ops.CooperativeMatrixMulAdd)]
    if sum(map(_dpas, products)) > _MOST_DPAS:
        return False
    headers = sum(len(factor_loads(load, use).loads) - 1 for load in loop.body
                  if isinstance(load, ops.CooperativeMatrixLoad)
                  for use in region.factors[load.result.name] if use is not None)
    needed = registers_needed(region.region.body, region.spreads) + headers
    return needed <= DPAS[LANES].by_blocks.registers and next(region.faults(), None) is None


def _dpas(operation: ops.CooperativeMatrixMulAdd) -> int:
    row = product_row(operation)
    a, c = ops.matrix_type(operation.A), ops.matrix_type(operation.C)
    return 0 if row is None else (c.rows // LANES) * (c.columns // COLUMNS) * (a.columns // row.k)
