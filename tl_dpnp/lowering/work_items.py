"""Regions that each work-item runs for itself, as ``foreach`` loops over the work-items.

The work-items that a program sees are indices of loops, whichever work-items a device has: a region becomes phases
(`phases.py`), each of which is a ``foreach``.  Regions whose matrices are in registers (`fragments.py`) stay, beside
phases for arrays that messages cannot access where there may be some.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from tl_dpnp.errors import Span
from tl_dpnp.language import ops
from tl_dpnp.language.builder import FunctionBuilder
from tl_dpnp.lowering.fragment_choice import BlocksFit, regions_of
from tl_dpnp.lowering.rewrite import replace_body, with_regions
from tl_dpnp.scalars import INDEX

__all__ = ["has_work_items", "spread_work_items"]

#: Cooperative matrices that are filled with constants, by name.
_Constants = Mapping[str, ops.CooperativeMatrixConstruct]


def has_work_items(function: ops.Function) -> bool:
    """Return whether a function has instructions about work-items."""
    kinds = (ops.Parallel, ops.ForeachTile, ops.WorkItemCount)
    return any(isinstance(operation, kinds) or operation.is_cooperative for operation in function.body.walk())


def spread_work_items(
    function: ops.Function, kept: Mapping[int, BlocksFit | None],
    unrolled: Mapping[int, tuple[ops.Operation, ...]] = MappingProxyType({}),
) -> ops.Function:
    """Return a function without instructions about work-items; the names of `function` must be unique.

    Regions whose numbers are `kept` stay, with the constants that they use: where what comes with them allows it.  What
    some of them are `unrolled` to takes their places then.
    """
    taken = {parameter.name for parameter in function.parameters}
    for operation in function.body.walk():
        taken.update(value.name for value in (*operation.results, *operation.loop_variables))
    constants = {operation.result.name: operation for operation in function.body.walk()
                 if isinstance(operation, ops.CooperativeMatrixConstruct) and operation.is_constant}
    staying = {id(region): kept[number] for number, region in enumerate(regions_of(function)) if number in kept}
    instead = {id(region): unrolled[number] for number, region in enumerate(regions_of(function)) if number in unrolled}
    used = {operand.name for region in regions_of(function) if id(region) in staying
            for inner in region.body.walk() for operand in inner.operands if isinstance(operand, ops.Value)}
    items = ops.work_items_of(function)
    return replace_body(function, _spread(function.body, _Spreading(items, taken, constants, staying, used, instead)))


class _Spreading(NamedTuple):
    """What regions are spread by; those with the identities `staying` are not, and use the values `used`.

    What stays comes with what decides at run time whether it is run, if anything does, and with what is run `instead`.
    """

    items: ops.WorkItems
    taken: Collection[str]
    constants: _Constants
    staying: Mapping[int, BlocksFit | None]
    used: Container[str]
    instead: Mapping[int, tuple[ops.Operation, ...]]


def _spread(region: ops.Region, by: _Spreading) -> Iterator[ops.Operation]:
    items = by.items
    for operation in region:
        if isinstance(operation, ops.CooperativeMatrixConstruct) and operation.is_constant and (
            operation.result.name not in by.used
        ):
            continue  # the regions that use it fill one of their own
        if isinstance(operation, ops.WorkItemCount):
            number = ops.Constant(operation.number(items), INDEX)
            yield ops.Cast(operand=number, result=operation.result, span=operation.span)
            continue
        stays, guard = id(operation) in by.staying, by.staying.get(id(operation))
        kept = [_spread_inside(each, by) for each in by.instead.get(id(operation), (operation,))]
        operation = _spread_inside(operation, by)
        if not isinstance(operation, ops.Parallel | ops.ForeachTile) or (stays and guard is None):
            yield from kept
            continue
        own = {inner.span for inner in operation.body.walk()}
        phases = _placed(_written(operation, items, by, is_apart=stays), operation.span, own)
        if guard is None:
            yield from phases
        else:
            fit = guard.result
            while fit.name in by.taken:
                fit = replace(fit, name=f"{fit.name}_")
            yield replace(guard, result=fit, span=operation.span)
            yield ops.If(condition=fit, outputs=(), then=ops.Region(tuple(kept)),
                         otherwise=ops.Region(tuple(phases)), span=operation.span)


def _spread_inside(operation: ops.Operation, by: _Spreading) -> ops.Operation:
    return with_regions(operation, [ops.Region(tuple(_spread(inner, by))) for inner in operation.regions])


def _written(
    operation: ops.Parallel | ops.ForeachTile, items: ops.WorkItems, by: _Spreading, is_apart: bool
) -> ops.Region:
    """Return what takes the place of a region; what it keeps in memory shows in a first attempt.

    Where it `is_apart`, sub-groups, which do not wait for one another, are done one after the other, in the memory of
    one of them.
    """
    from tl_dpnp.lowering.phase_values import memory_type  # which programs without such regions do not need
    from tl_dpnp.lowering.phases import Phases

    together = ops.WorkItems(items.lanes, 1, 1) if is_apart else items

    def write(b: FunctionBuilder, memory: dict[int, ops.Value] | None) -> Phases:
        phases = Phases(b, together, memory, items.rows)
        if together.subgroups == items.subgroups or isinstance(operation, ops.ForeachTile):
            phases.write(operation, by.constants)
        else:
            with b.for_(0, items.rows * items.columns) as number:
                phases.subgroup = lambda: number
                phases.write(operation, by.constants)
        return phases

    # Parameters of these names keep the builder from giving them to other values.
    trial = write(FunctionBuilder("work_items", dict.fromkeys(by.taken, INDEX)), None)
    b = FunctionBuilder("work_items", dict.fromkeys(by.taken, INDEX))
    memory = {number: b.alloca(memory_type(type, together)) for number, type in sorted(trial.read.items())}
    write(b, memory)
    body, kept = b.function().body, {value.name for value in memory.values()}
    temporaries = {operation.result.name: operation for operation in body
                   if isinstance(operation, ops.Alloca) and operation.result.name in kept}
    others = [operation for operation in body if not kept.intersection(value.name for value in operation.results)]
    return _with_temporaries(ops.Region(tuple(others)), temporaries)


def _with_temporaries(region: ops.Region, temporaries: Mapping[str, ops.Alloca]) -> ops.Region:
    """Return a region with temporaries in front of their first uses, in the innermost loop or branch that has all uses.

    There they live no longer than they have to: what is used inside of a loop only is written anew in each iteration.
    """
    uses: dict[str, set[tuple[int, int]]] = {}  # places of operations, and numbers of their regions, -1 for none
    for place, operation in enumerate(region):
        for number, inner in ((-1, [operation]), *enumerate(region.walk() for region in operation.regions)):
            for each in inner:
                for operand in each.operands:
                    if isinstance(operand, ops.Value) and operand.name in temporaries:
                        uses.setdefault(operand.name, set()).add((place, number))
    begun: dict[tuple[int, int], dict[str, ops.Alloca]] = {}
    for name, places in uses.items():
        place, number = min(places)
        if len(places) > 1 or not isinstance(region.operations[place], ops.For | ops.If):
            number = -1
        begun.setdefault((place, number), {})[name] = temporaries[name]
    operations: list[ops.Operation] = []
    for place, operation in enumerate(region):
        operations += begun.get((place, -1), {}).values()
        operations.append(with_regions(operation, [
            _with_temporaries(inner, begun[place, number]) if (place, number) in begun else inner
            for number, inner in enumerate(operation.regions)]))
    return ops.Region(tuple(operations))


def _placed(region: ops.Region, span: Span, own: Container[Span]) -> Iterator[ops.Operation]:
    """Yield operations at the place of an instruction, unless they stand at places in it."""
    for operation in region:
        regions = [ops.Region(tuple(_placed(inner, span, own))) for inner in operation.regions]
        yield replace(with_regions(operation, regions), span=operation.span if operation.span in own else span)
