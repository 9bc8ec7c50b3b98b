"""The parts of a body in the staged form: what stands around the function's own, and where staged memrefs are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tl_dpnp.kernels import intrinsics
from tl_dpnp.kernels.llvm import LOCAL
from tl_dpnp.kernels.ring import Kept
from tl_dpnp.language import ops
from tl_dpnp.lowering.body.building import GROUP, GROUPS, call
from tl_dpnp.lowering.body.memref import MemrefDescriptor
from tl_dpnp.lowering.body.tree import Assign, Count, Evaluate, Expression, Name, Statement, add, multiply, subtract
from tl_dpnp.lowering.memory import size_in_bytes
from tl_dpnp.lowering.staged_operands import COPY_ALIGNMENT, STAGE_ALIGNMENT, StagedOperand
from tl_dpnp.lowering.staging import Staging
from tl_dpnp.scalars import INDEX

__all__ = ["FIRST", "TEAM", "StagedFrame", "resident_memrefs", "staged_frame", "staged_memref"]

#: The first work-group of a turn, and the team of the block that a work-item belongs to.
FIRST, TEAM = Name("first"), Name("team")
_STEP, _TURN, _STAGE, _RESULTS = map(Name, ("step", "turn", "stage", "results"))


@dataclass(frozen=True)
class StagedFrame:
    """Statements before the loop over the turns of a block, first and last inside it, and the one after it.

    What is in `meanwhile` belongs after the first instruction.
    """

    before: tuple[Statement, ...]
    first: tuple[Statement, ...]
    meanwhile: tuple[Statement, ...]
    last: tuple[Statement, ...]
    after: Statement


def staged_frame(
    staging: Staging, addresses: Mapping[str, Expression], tables: Mapping[str, tuple[Expression, Expression]]
) -> StagedFrame:
    """Return what stands around the function's own statements.

    `addresses` are those of memref parameters, `tables` those of groups, with their offsets in elements.
    """
    def places(operands: Sequence[StagedOperand]) -> list[Expression]:
        """Return where operands are in global memory: an address, or a table and an offset in bytes."""
        result: list[Expression] = []
        for operand in operands:
            if operand.parameter in addresses:
                result.append(addresses[operand.parameter])
            else:
                table, offset = tables[operand.parameter]
                result += [table, multiply(offset, operand.type.element.bytes)]
        return result

    ring = staging.ring
    sources, targets = places(staging.loaded), places(staging.stored)
    before: list[Statement] = [
        Evaluate(call(ring.setup([operand.slot for operand in staging.loaded]))),
        Assign(FIRST, call(ring.first_group())),
        Assign(_STEP, call(ring.step())),
        Assign(TEAM, call(ring.team())),
        Assign(_TURN, 0),
    ]
    if staging.residents:
        kept = [Kept(staging.first_resident + operand.offset, size_in_bytes(operand.type), operand.type.element.bytes,
                     operand.columns, operand.gap) for operand in staging.residents]
        before.append(Evaluate(call(ring.keep(kept), *[addresses[operand.parameter] for operand in staging.residents])))
    first: list[Statement] = []
    meanwhile: list[Statement] = []
    if sources:
        fetch = ring.fetch([operand.slot for operand in staging.loaded])
        before.append(Evaluate(call(fetch, 0, FIRST, GROUPS, *sources)))
        # The results of the turn before may still leave the stage that is to be filled.
        following = Evaluate(call(fetch, add(_TURN, 1), add(FIRST, _STEP), GROUPS, *sources))
        (meanwhile if ring.waits else first).append(following)
        first.append(Evaluate(call(ring.wait(), _TURN)))
    # What threads have copied so far, others see from here on; later copies are followed by the barrier of a turn.
    before.append(Evaluate(call(intrinsics.barrier())))
    # Teams without a work-group of their own compute the last one once more; nothing of that is copied back.
    own = call(intrinsics.mathematics("min", INDEX, 2), add(FIRST, TEAM), subtract(GROUPS, 1))
    first += [Assign(GROUP, own), Assign(_STAGE, call(ring.place(), _TURN))]
    for operand in staging.operands:
        if operand.slot.shifts:
            shift = call(ring.shift(operand.slot), addresses[operand.parameter], FIRST)
            first.append(Assign(_shift(staging, operand), shift))
    if staging.results:
        first.append(Assign(_RESULTS, call(ring.result_place(), _TURN)))
    flush = ring.flush([operand.slot for operand in staging.stored])
    last = (
        Evaluate(call(flush, _TURN, FIRST, GROUPS, *targets)),
        Count(FIRST, _STEP),
        Count(_TURN, 1),
    )
    return StagedFrame(tuple(before), tuple(first), tuple(meanwhile), last, Evaluate(call(ring.drain())))


def staged_memref(staging: Staging, value: ops.Value) -> MemrefDescriptor | None:
    """Return where a memref is in the stage, or None if it is not staged."""
    for operand in staging.operands:
        if value.name in operand.values:
            type_ = ops.memref_type(value)
            sizes = tuple(size for size in type_.shape if size is not None)
            strides = tuple(stride for stride in type_.strides if stride is not None)
            place = add(_STAGE if operand.is_read else _RESULTS, operand.offset)
            if operand.slot.shifts:
                place = add(place, _shift(staging, operand))
            address = add(place, multiply(TEAM, operand.pitch))
            alignment = math.gcd(operand.pitch, COPY_ALIGNMENT if operand.slot.shifts else STAGE_ALIGNMENT)
            return MemrefDescriptor(type_, LOCAL, address, sizes, strides, alignment=alignment)
    return None


def _shift(staging: Staging, operand: StagedOperand) -> Name:
    """Return the variable for how far behind its place an operand lies in a turn."""
    return Name(f"shift{staging.operands.index(operand)}")


def resident_memrefs(staging: Staging) -> dict[str, MemrefDescriptor]:
    """Return where the parameters are that stay in local memory."""
    found = {}
    for operand in staging.residents:
        sizes = tuple(size for size in operand.type.shape if size is not None)
        place = staging.first_resident + operand.offset
        found[operand.parameter] = MemrefDescriptor(
            operand.type, LOCAL, place, sizes, operand.strides, alignment=math.gcd(place, STAGE_ALIGNMENT)
        )
    return found
