"""The parts of a kernel shell in the staged form: what stands around the body, and where staged memrefs are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tl_dpnp.kernels import intrinsics
from tl_dpnp.kernels.llvm import LOCAL
from tl_dpnp.kernels.ring import Kept
from tl_dpnp.language import ops
from tl_dpnp.lowering.memory import size_in_bytes
from tl_dpnp.lowering.staging import STAGE_ALIGNMENT, StagedOperand, Staging
from tl_dpnp.lowering.text import MemrefText, Text, add, multiply
from tl_dpnp.scalars import INDEX

__all__ = ["StagedFrame", "resident_memrefs", "staged_frame", "staged_memref"]


@dataclass(frozen=True)
class StagedFrame:
    """Lines of the shell: before the loop over the turns of a block, first and last inside it, and after it.

    What is in `meanwhile` belongs after the first instruction.
    """

    before: tuple[str, ...]
    first: tuple[str, ...]
    meanwhile: tuple[str, ...]
    last: tuple[str, ...]
    after: str


def staged_frame(
    staging: Staging, call: Callable[..., str], places: Mapping[str, Text | tuple[str, Text, str]]
) -> StagedFrame:
    """Return what stands around the body; `call` writes a call of an intrinsic.

    `places` has the address of each memref parameter; for a group, its table and its offset in elements.
    """
    ring = staging.ring
    sources, targets = _places(staging.loaded, places), _places(staging.stored, places)
    before = [
        call(ring.setup([operand.slot for operand in staging.loaded])),
        f"first = {call(ring.first_group())}",
        f"step = {call(ring.step())}",
        f"team = {call(ring.team())}",
        "turn = 0",
    ]
    if staging.residents:
        kept = [Kept(staging.first_resident + operand.offset, size_in_bytes(operand.type), operand.type.element.bytes,
                     operand.columns, operand.gap) for operand in staging.residents]
        before.append(call(ring.keep(kept), *[places[operand.parameter] for operand in staging.residents]))
    first: list[str] = []
    meanwhile: list[str] = []
    if sources:
        fetch = ring.fetch([operand.slot for operand in staging.loaded])
        before.append(call(fetch, 0, "first", "groups", *sources))
        # The results of the turn before may still leave the stage that is to be filled.
        (meanwhile if ring.waits else first).append(call(fetch, "turn + 1", "first + step", "groups", *sources))
        first.append(call(ring.wait(), "turn"))
    # What threads have copied so far, others see from here on; later copies are followed by the barrier of a turn.
    before.append(call(intrinsics.barrier()))
    # Teams without a work-group of their own compute the last one once more; nothing of that is copied back.
    first += [
        f"group = {call(intrinsics.mathematics('min', INDEX, 2), 'first + team', 'groups - 1')}",
        f"stage = {call(ring.place(), 'turn')}",
    ]
    if staging.results:
        first.append(f"results = {call(ring.result_place(), 'turn')}")
    flush = ring.flush([operand.slot for operand in staging.stored])
    last = [call(flush, "turn", "first", "groups", *targets), "first = first + step", "turn = turn + 1"]
    return StagedFrame(tuple(before), tuple(first), tuple(meanwhile), tuple(last), call(ring.drain()))


def _places(
    operands: Sequence[StagedOperand], places: Mapping[str, Text | tuple[str, Text, str]]
) -> list[Text]:
    """Return where operands are in global memory: the address of a batch, or that of a table and an offset in bytes."""
    result: list[Text] = []
    for operand in operands:
        match places[operand.parameter]:
            case (table, offset, _):
                result += [table, multiply(offset, operand.type.element.bytes)]
            case address:
                result.append(address)
    return result


def staged_memref(staging: Staging, value: ops.Value) -> MemrefText | None:
    """Return where a memref is in the stage, or None if it is not staged."""
    for operand in staging.operands:
        if value.name in operand.values:
            type_ = ops.memref_type(value)
            sizes = tuple(size for size in type_.shape if size is not None)
            strides = tuple(stride for stride in type_.strides if stride is not None)
            place = add("stage" if operand.is_read else "results", operand.offset)
            address = add(place, multiply("team", operand.pitch))
            return MemrefText(type_, LOCAL, address, sizes, strides, alignment=math.gcd(operand.pitch, STAGE_ALIGNMENT))
    return None


def resident_memrefs(staging: Staging) -> dict[str, MemrefText]:
    """Return where the parameters are that stay in local memory."""
    found = {}
    for operand in staging.residents:
        sizes = tuple(size for size in operand.type.shape if size is not None)
        place = staging.first_resident + operand.offset
        found[operand.parameter] = MemrefText(
            operand.type, LOCAL, place, sizes, operand.strides, alignment=math.gcd(place, STAGE_ALIGNMENT)
        )
    return found
