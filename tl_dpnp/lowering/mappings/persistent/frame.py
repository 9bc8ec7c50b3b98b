"""The parts of a body in the staged form: the loop over the turns of a block, and where staged memrefs are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tl_dpnp.kernels import intrinsics
from tl_dpnp.kernels.llvm import LOCAL
from tl_dpnp.kernels.ring import Kept
from tl_dpnp.language import ops
from tl_dpnp.lowering.body.building import GROUP, GROUPS, MINIMUM, call
from tl_dpnp.lowering.body.memref import MemrefDescriptor
from tl_dpnp.lowering.body.tree import Call, Comparison, Expression, Name, add, multiply, subtract
from tl_dpnp.lowering.mappings.persistent.operands import COPY_ALIGNMENT, STAGE_ALIGNMENT, PipelinedOperand
from tl_dpnp.lowering.memory import size_in_bytes

if TYPE_CHECKING:
    from tl_dpnp.lowering.body.writer import BodyWriter
    from tl_dpnp.lowering.mappings.persistent.staging import Persistent

__all__ = ["TEAM", "TURN", "memref_in_stage", "place_in_stage", "write_persistent_loop"]

#: The team of the block that a work-item belongs to, and the first work-group of a turn.
TEAM, _FIRST = Name("team"), Name("first")
#: The number of a block's turn.
TURN = Name("turn")
_STEP, _STAGE, _RESULTS = map(Name, ("step", "stage", "results"))


def write_persistent_loop(staging: Persistent, writer: BodyWriter) -> None:
    """Write the loop over the turns of a block, with the function's own instructions inside."""
    ring, addresses = staging.ring, {name: memref.address for name, memref in writer.memrefs.items()}

    def fetch(operands: Sequence[PipelinedOperand], turn: Expression, first: Expression) -> Call:
        places = _places(operands, addresses, writer)
        return call(ring.fetch([operand.slot for operand in operands]), turn, first, GROUPS, *places)

    loaded, targets = staging.loaded, _places(staging.stored, addresses, writer)
    flush = ring.flush([operand.slot for operand in staging.stored])
    # The results of the turn before may still leave the stage that is to be filled.
    following = fetch(loaded, add(TURN, 1), add(_FIRST, _STEP))
    writer.evaluate(call(ring.setup([operand.slot for operand in loaded])))
    for variable, value in ((_FIRST, call(ring.first_group())), (_STEP, call(ring.step())), (TEAM, call(ring.team()))):
        writer.assign(variable, value)
    writer.assign(TURN, 0)
    if staging.residents:
        kept = [Kept(staging.first_resident + operand.offset, size_in_bytes(operand.type), operand.type.element.bytes,
                     operand.columns, operand.gap) for operand in staging.residents]
        writer.evaluate(call(ring.keep(kept), *[addresses[operand.parameter] for operand in staging.residents]))
        writer.memrefs |= _resident_memrefs(staging)
    if loaded:
        writer.evaluate(fetch(loaded, 0, _FIRST))
    # What threads have copied so far, others see from here on; later copies are followed by the barrier of a turn.
    writer.evaluate(call(intrinsics.barrier()))
    with writer.loop(Comparison("<", _FIRST, GROUPS)):
        if loaded:
            if not ring.waits and ring.stages > 1:
                writer.evaluate(following)
            writer.evaluate(call(ring.wait(), staging.phase(TURN)))
        # Teams without a work-group of their own compute the last one once more; nothing of that is copied back.
        writer.assign(GROUP, call(MINIMUM, add(_FIRST, TEAM), subtract(GROUPS, 1)))
        writer.assign(_STAGE, call(ring.place(), TURN))
        for operand in staging.operands:
            if operand.slot.shifts:
                shift = call(ring.shift(operand.slot), addresses[operand.parameter], _FIRST)
                writer.assign(_shift(staging, operand), shift)
        if staging.results:
            writer.assign(_RESULTS, call(ring.result_place(), TURN))
        is_packed = staging.pack(writer, lambda operands: fetch(operands, TURN, _FIRST))
        if is_packed:
            writer.evaluate(following)
        body = tuple(writer.function.body)
        split = 1 + next(place for place, operation in enumerate(body)
                         if any(isinstance(each, ops.LinearAlgebra) for each in ops.Region((operation,)).walk()))
        writer.region(ops.Region(body[:split]))
        if loaded and ring.waits and not is_packed:
            writer.evaluate(following)
        writer.region(ops.Region(body[split:]))
        if targets or ring.stages > 1:
            writer.evaluate(call(flush, TURN, _FIRST, GROUPS, *targets))
        writer.count_up(_FIRST, _STEP)
        writer.count_up(TURN, 1)
    writer.evaluate(call(ring.drain()))


def _places(
    operands: Sequence[PipelinedOperand], addresses: Mapping[str, Expression], writer: BodyWriter
) -> list[Expression]:
    """Return where operands are in global memory: an address, or a table and an offset in bytes."""
    result: list[Expression] = []
    for operand in operands:
        if operand.parameter in addresses:
            result.append(addresses[operand.parameter])
        else:
            table, offset, _ = writer.groups[operand.parameter]
            result += [table, multiply(offset, operand.type.element.bytes)]
    return result


def memref_in_stage(staging: Persistent, value: ops.Value) -> MemrefDescriptor | None:
    """Return where a memref is in the stage, or None if it is in none."""
    for operand in staging.operands:
        if value.name in operand.values:
            type_ = ops.memref_type(value)
            sizes = tuple(size for size in type_.shape if size is not None)
            strides = tuple(stride for stride in type_.strides if stride is not None)
            alignment = math.gcd(operand.pitch, COPY_ALIGNMENT if operand.slot.shifts else STAGE_ALIGNMENT)
            return MemrefDescriptor(type_, LOCAL, place_in_stage(staging, operand), sizes, strides, alignment=alignment)
    return None


def place_in_stage(staging: Persistent, operand: PipelinedOperand) -> Expression:
    """Return where a team's operand is in local memory, in bytes."""
    place = add(_RESULTS if operand.in_results else _STAGE, operand.offset)
    if operand.slot.shifts:
        place = add(place, _shift(staging, operand))
    return add(place, multiply(TEAM, operand.pitch)) if operand.share == 1 else place


def _shift(staging: Persistent, operand: PipelinedOperand) -> Name:
    """Return the variable for how far behind its place an operand lies in a turn."""
    return Name(f"shift{staging.operands.index(operand)}")


def _resident_memrefs(staging: Persistent) -> dict[str, MemrefDescriptor]:
    """Return where the parameters are that stay in local memory."""
    found = {}
    for operand in staging.residents:
        sizes = tuple(size for size in operand.type.shape if size is not None)
        place = staging.first_resident + operand.offset
        found[operand.parameter] = MemrefDescriptor(
            operand.type, LOCAL, place, sizes, operand.strides, alignment=math.gcd(place, STAGE_ALIGNMENT)
        )
    return found
