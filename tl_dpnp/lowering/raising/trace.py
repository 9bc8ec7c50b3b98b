"""What all sub-groups of a launch do with tiles, found by running a program once for all of them.

Scalars are arrays of their values in all work-groups, sub-groups and iterations (`numbers`); cooperative matrices are
parts of parameters (`Tile`), or sums of products of such parts (`TileSum`).  Before a call, when neither sizes nor the
number of work-groups are known, the run is the same with numbers that are not known either.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from tl_dpnp.language import ops
from tl_dpnp.language.extents import AXES
from tl_dpnp.language.interpreter.scalar import silence
from tl_dpnp.language.types import GroupType, MemrefType
from tl_dpnp.lowering.raising import numbers
from tl_dpnp.lowering.raising.loops import Loop
from tl_dpnp.lowering.raising.numbers import Number, Unraised, along, both, check_size
from tl_dpnp.lowering.raising.tiles import (
    Call,
    Carried,
    Factor,
    Stored,
    Term,
    Tile,
    TileSum,
    Trace,
    View,
    added,
    is_sum,
    merged,
)
from tl_dpnp.scalars import INDEX, ScalarType, is_lossless

__all__ = ["traced"]

_GROUPS = 0  # the axis of the work-groups
#: NumPy's arrays have 32 axes at most.
_MOST_AXES = 28
_ZERO = np.asarray(0, np.int64)
#: What has no effect on results.
_HINTS = (ops.Barrier, ops.CooperativeMatrixPrefetch)


def traced(function: ops.Function, call: Call | None = None) -> Trace:
    """Return what the sub-groups of a call do with tiles, or of any call.

    Raises `Unraised` for a function that does anything else with arrays.
    """
    tracer = _Tracer(function, call)
    scalars = {} if call is None else call.scalars
    values: _Values = {}
    for parameter in function.parameters:
        if isinstance(parameter.type, ScalarType):
            known = scalars.get(parameter.name)
            values[parameter.name] = None if known is None else numbers.constant(known, INDEX)
        elif isinstance(parameter.type, MemrefType):
            shape = parameter.type.shape if call is None else call.shapes[parameter.name]
            values[parameter.name] = View(parameter.name, tuple(
                (_ZERO, None if size is None else np.asarray(size, np.int64)) for size in shape))
    with silence():
        tracer.region(function.body, values, np.asarray(True))
    return Trace(tuple(tracer.loaded), tuple(tracer.stored), tuple(tracer.lengths))


#: The values of scalars and cooperative matrices, by name.
_Values: TypeAlias = "dict[str, Any]"


class _Tracer:
    """The state of a run: what was loaded and stored so far, and the loops around the present place."""

    def __init__(self, function: ops.Function, call: Call | None) -> None:
        if any(isinstance(parameter.type, GroupType) for parameter in function.parameters):
            raise Unraised("it has a group of matrices")
        self.parameters = {parameter.name for parameter in function.parameters}
        self.call, self.items = call, ops.work_items_of(function)
        self.loaded: list[Tile] = []
        self.stored: list[Stored] = []
        self.lengths: list[int] = []
        self._loops: list[int] = []
        self._terms = 0
        #: The place of the sub-group, None where that is not known.
        self._subgroup: Number = None
        groups = 1 if call is None else math.prod(call.extents)
        self._axis(groups)
        self._group: Number = None if call is None else along(_GROUPS, groups)

    # --- regions -----------------------------------------------------------------------------------------------------

    def region(self, region: ops.Region, outer: _Values, mask: Number) -> tuple[Any, ...]:
        """Run a region for those in the mask; return what it yields."""
        values = dict(outer)
        for operation in region:
            if isinstance(operation, ops.Yield):
                return tuple(self._value(value, values) for value in operation.values)
            for result, value in zip(operation.results, self._results(operation, values, mask), strict=True):
                values[result.name] = value
        return ()

    def _results(self, operation: ops.Operation, values: _Values, mask: Number) -> Sequence[Any]:
        match operation:
            case ops.For():
                return self._for(operation, values, mask)
            case ops.If():
                return self._if(operation, values, mask)
            case ops.Parallel():
                self._parallel(operation, values, mask)
                return ()
            case ops.ForeachTile():
                self._foreach_tile(operation, values, mask)
                return ()
            case ops.CooperativeMatrixStore():
                total = self._value(operation.A, values)
                tile = self._tile(operation, values, mask)
                if not isinstance(total, TileSum):
                    raise Unraised(f"{operation.A} is no sum of products")
                self.stored.append(Stored(tile, total))
                return ()
            case _ if isinstance(operation, _HINTS):
                return ()
            case ops.Subview():
                return (self._view(operation, values),)
            case _ if operation.is_cooperative:
                return (self._matrix(operation, values, mask),)
            case _ if operation.pure:
                return (self._number(operation, values),)
        raise Unraised(f"{operation.mnemonic} is no part of a product")

    def _axis(self, length: int) -> int:
        """Begin a loop that runs so often for each of what is outside of it, and return its axis."""
        if len(self.lengths) == _MOST_AXES:
            raise Unraised("there are too many loops to look at")
        self.lengths.append(length)
        self._loops.append(len(self.lengths) - 1)
        return self._loops[-1]

    def _parallel(self, operation: ops.Parallel, values: _Values, mask: Number) -> None:
        count = math.prod(self.items.subgroups)
        axis = self._axis(count)
        self._subgroup = along(axis, count)
        self.region(operation.body, values, mask)
        self._subgroup = None
        self._loops.pop()

    def _foreach_tile(self, operation: ops.ForeachTile, values: _Values, mask: Number) -> None:
        inner = dict(values)
        for first, extent, start, stop, tile in zip(operation.firsts, operation.extents, operation.starts,
                                                    operation.stops, operation.tiles, strict=True):
            size = numbers.constant(tile, ops.scalar_type(first))
            last: Number = self._value(stop, values)
            place, is_inside, _ = self._iterations(self._value(start, values), last, size)
            mask = both(mask, is_inside)
            inner[first.name] = place
            inner[extent.name] = None if place is None or last is None else np.minimum(last - place, tile)
        self.region(operation.body, inner, mask)
        del self._loops[-len(operation.firsts) :]

    def _iterations(self, start: Number, stop: Number, step: Number) -> tuple[Number, Number, Number]:
        """Begin a loop; return the values of its variable, which of them it takes, and how many."""
        count = numbers.counts(start, stop, step)
        if count is None or start is None or step is None:
            self._axis(1)
            return None, None, None
        length = int(count.max(initial=0))
        axis = self._axis(length)
        number = along(axis, length)
        check_size(start, step, number)
        is_inside = np.asarray(True) if np.all(count == length) else number < count
        place = (start.astype(np.int64) + step.astype(np.int64) * number).astype(start.dtype)
        return place, is_inside, count

    def _for(self, operation: ops.For, values: _Values, mask: Number) -> Sequence[Any]:
        bounds = (self._value(bound, values) for bound in (operation.start, operation.stop, operation.step))
        place, is_inside, count = self._iterations(*bounds)
        axis = self._loops[-1]
        initial = [self._value(value, values) for value in operation.initial]
        loop = Loop(operation, axis, count, self.lengths[axis], initial)
        mark = len(self.loaded), len(self.stored), len(self.lengths)
        # What a loop carries becomes known one after the other, where one value is made of another one.
        for _ in range(len(operation.carried) + 2):
            inner = {**values, operation.variable.name: place, **{
                value.name: known for value, known in zip(operation.carried, loop.carried, strict=True)}}
            yielded = self.region(operation.body, inner, both(mask, is_inside))
            if not loop.learn(yielded):
                break
            for events, length in zip((self.loaded, self.stored, self.lengths), mark, strict=True):
                del events[length:]  # type: ignore[attr-defined]
        else:
            raise Unraised("a loop carries what is not known to be a place or a tile")
        self._loops.pop()
        return [loop.output(number, value) for number, value in enumerate(yielded)]

    def _if(self, operation: ops.If, values: _Values, mask: Number) -> Sequence[Any]:
        condition = self._value(operation.condition, values)
        otherwise = operation.otherwise or ops.Region()
        if condition is not None and (np.all(condition) or not np.any(condition)):
            return self.region(operation.then if np.all(condition) else otherwise, values, mask)
        before = self._terms
        first = self.region(operation.then, values, both(mask, condition))
        between = self._terms
        second = self.region(otherwise, values, both(mask, None if condition is None else ~condition))
        found: list[Any] = []
        for one, other in zip(first, second, strict=True):
            if isinstance(one, TileSum) and isinstance(other, TileSum):
                found.append(merged(one, other, before, between))
            elif isinstance(one, Tile | Carried) or isinstance(other, Tile | Carried):
                raise Unraised("a tile that is multiplied depends on a branch")
            else:
                known = condition is not None and one is not None and other is not None
                found.append(np.where(condition, one, other) if known else None)
        return found

    # --- values ------------------------------------------------------------------------------------------------------

    def _value(self, operand: ops.Operand, values: _Values) -> Any:
        if isinstance(operand, ops.Constant):
            return numbers.constant(operand.value, operand.type)
        return values.get(operand.name)

    def _number(self, operation: ops.Operation, values: _Values) -> Number:
        """Return what an instruction on scalars gives."""
        def value(operand: ops.Operand) -> Number:
            found: Number = self._value(operand, values)
            return found

        match operation:
            case ops.GroupId(axis=axis):
                return self._group_id(axis)
            case ops.GroupSize(axis=axis):
                return None if self.call is None else np.asarray(self.call.extents[AXES.index(axis)], np.int64)
            case ops.SizeOf(source=source, mode=mode):
                first, last = self._viewed(source, values).ranges[mode]
                return numbers.arith("sub", INDEX, last, first)
            case ops.SubgroupLocalId():
                raise Unraised("tiles depend on single work-items")
            case ops.WorkItemPlace():
                if self._subgroup is None:
                    raise Unraised("which sub-group computes a tile of foreach_tile is not defined")
                return np.asarray(operation.number(0, self._subgroup, self.items), np.int32)  # type: ignore[arg-type]
            case ops.WorkItemCount():
                return np.asarray(operation.number(self.items), np.int32)
            case ops.Arith(kind=kind, lhs=lhs, rhs=rhs):
                return numbers.arith(kind, ops.scalar_type(operation.result), value(lhs), value(rhs))
            case ops.Unary(kind=kind, operand=operand):
                return numbers.unary(kind, ops.scalar_type(operation.result), value(operand))
            case ops.Cast(operand=operand, result=result):
                return numbers.cast(ops.scalar_type(operand), ops.scalar_type(result), value(operand))
            case ops.Compare(kind=kind, lhs=lhs, rhs=rhs):
                return numbers.compare(kind, value(lhs), value(rhs))
            case ops.Math(kind=kind, arguments=arguments, result=result):
                return numbers.mathematics(kind, ops.scalar_type(result), tuple(map(value, arguments)))
        raise Unraised(f"{operation.mnemonic} is no part of a product")

    def _group_id(self, axis: str) -> Number:
        if self.call is None or self._group is None:
            return None
        x, y, _ = self.call.extents
        place = (self._group % max(x, 1), self._group // max(x, 1) % max(y, 1), self._group // max(x * y, 1))
        return np.asarray(place[AXES.index(axis)])

    def _viewed(self, memref: ops.Value, values: _Values) -> View:
        found = values.get(memref.name)
        if not isinstance(found, View):
            raise Unraised(f"{memref} is no part of a parameter")
        return found

    def _index(self, operand: ops.Operand, values: _Values, after: Number) -> Number:
        """Return an index of a view whose mode begins so far behind that of the parameter."""
        index = self._value(operand, values)
        return numbers.arith("add", INDEX, None if index is None else index.astype(np.int64), after)

    def _view(self, operation: ops.Subview, values: _Values) -> View:
        """Return a view of a part of a matrix, or of a matrix of a batch."""
        source = self._viewed(operation.source, values)
        ranges = []
        for (first, last), entry in zip(source.ranges, operation.slices, strict=True):
            begin = self._index(entry.offset, values, first)
            if not entry.is_index:
                ranges.append((begin, last if entry.size is None else self._index(entry.size, values, begin)))
        is_slice = len(ranges) < len(source.ranges)
        if is_slice and not (
            len(source.ranges) == 3 and len(ranges) == 2 and operation.slices[-1].is_index
            and source.ranges[-1][0] is _ZERO
        ):
            raise Unraised(f"{operation.result} is no matrix of a batch")
        return View(source.parameter, tuple(ranges), begin if is_slice else source.slice, is_slice or source.is_slice)

    def _tile(self, operation: ops.MatrixAccess, values: _Values, mask: Number) -> Tile:
        view = self._viewed(operation.memref, values)
        first, second = (self._index(operand, values, begin)
                         for operand, (begin, _) in zip(operation.indices, view.ranges, strict=True))
        return Tile(operation, view, (first, second), mask, tuple(self._loops))

    def _matrix(self, operation: ops.Operation, values: _Values, mask: Number) -> TileSum | Factor:
        """Return what an instruction on cooperative matrices gives."""
        match operation:
            case ops.CooperativeMatrixConstruct(is_zero=True):
                return TileSum()
            case ops.CooperativeMatrixLoad(result=result):
                self.loaded.append(self._tile(operation, values, mask))
                return TileSum(base=self.loaded[-1]) if is_sum(result) else self.loaded[-1]
            case ops.CooperativeMatrixMulAdd():
                return self._product(operation, values, mask)
            case ops.CooperativeMatrixScale(value=factor, A=matrix):
                return self._scaled(factor, self._sum(matrix, values))
            case ops.Arith(kind="add", lhs=lhs, rhs=rhs) if is_sum(operation.result):
                return added(self._sum(lhs, values), self._sum(rhs, values))
            case ops.Cast(operand=operand, result=result) if is_sum(operand) and is_sum(result):
                found = self._sum(operand, values)
                source, target = (ops.matrix_type(value).component for value in (operand, result))
                return found if is_lossless(source, target) and not found.terms else replace(
                    found, is_rounded=found.is_rounded or source != target)
        name = operation.name if isinstance(operation, ops.ScalarOperation) else operation.mnemonic
        raise Unraised(f"{name} computes with tiles")

    def _sum(self, matrix: ops.Operand, values: _Values) -> TileSum:
        """Return a sum that may still be scaled and added to."""
        found = self._value(matrix, values)
        if not isinstance(found, TileSum) or found.is_rounded:
            raise Unraised(f"{matrix} is rounded before all terms are added" if isinstance(found, TileSum) else
                           f"{matrix} is no sum of products")
        return found

    def _product(self, operation: ops.CooperativeMatrixMulAdd, values: _Values, mask: Number) -> TileSum:
        kept, own = ops.matrix_type(operation.C).component, ops.matrix_type(operation.result).component
        if kept != operation.kept or kept != own:
            raise Unraised(f"sums are rounded to {kept if kept != operation.kept else own} after each step")
        added = self._sum(operation.C, values)
        if added.alpha is not None:
            raise Unraised("sums are scaled before all terms are added")
        first, second = (self._value(value, values) for value in (operation.A, operation.B))
        if not isinstance(first, Tile | Carried) or not isinstance(second, Tile | Carried):
            raise Unraised("factors are computed")
        self._terms += 1
        term = Term(self._terms, operation, (first, second), mask, tuple(self._loops))
        return replace(added, terms=(*added.terms, term))

    def _scaled(self, factor: ops.Operand, found: TileSum) -> TileSum:
        if isinstance(factor, ops.Value) and factor.name not in self.parameters:
            raise Unraised(f"sums are scaled by {factor}, which is neither a constant nor a parameter")
        if (found.terms and found.alpha is not None) or (found.base is not None and found.beta is not None):
            raise Unraised("sums are scaled twice")
        return replace(found, alpha=factor if found.terms else None, beta=factor if found.base is not None else None)
