"""The packed form of a kernel: the staged form of one product of 16-bit elements, computed from packed factors.

What a work-group reads comes to a single stage.  From there both factors are packed for ``ldmatrix``, and the stage is
filled again while the product is computed.  Where all that has no room in local memory, work-groups compute some
columns of a product: each brings the whole first factor, from the L2 cache for all but the first of them.

The stage may also be filled two or three times, with pieces of factors, before the product is computed.  Nothing comes
meanwhile then: worth it only where threads of the blocked form would be slow, as with results of 16 bits that are added
to.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tl_dpnp.kernels import intrinsics
from tl_dpnp.kernels.llvm import LOCAL
from tl_dpnp.kernels.mma.packing import Packing
from tl_dpnp.kernels.mma.padded_product import PaddedProduct
from tl_dpnp.kernels.ring import Ring
from tl_dpnp.language import ops
from tl_dpnp.lowering.analysis import Analysis
from tl_dpnp.lowering.body.building import GROUP, call
from tl_dpnp.lowering.body.memref import MemrefDescriptor
from tl_dpnp.lowering.body.tree import Call, Expression, add, multiply
from tl_dpnp.lowering.division import Parts, divisible_product, in_parts, static_product
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.mappings.mapping import Mapping, OfParts
from tl_dpnp.lowering.mappings.persistent.frame import TURN, place_in_stage
from tl_dpnp.lowering.mappings.persistent.operands import (
    COPY_ALIGNMENT,
    STAGE_ALIGNMENT,
    PipelinedOperand,
    find_operands,
    place_operands,
    up,
)
from tl_dpnp.lowering.mappings.persistent.staging import Persistent
from tl_dpnp.lowering.mappings.persistent.teams import Work
from tl_dpnp.lowering.tactics.narrow_batches import NarrowBatch, PackedWork, narrow_batch
from tl_dpnp.lowering.tactics.warps import packed_product, sizes_of
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import INDEX
from tl_dpnp.target.multiprocessor import PackedBatches

if TYPE_CHECKING:
    from tl_dpnp.lowering.body.writer import BodyWriter

__all__ = ["Packed"]

#: Lanes and warps of a team, and 32-bit registers that the sums of a lane take: a multiprocessor has one block.
_LANES, _WARPS, _REGISTERS = 32, 8, 128
#: How often a stage may be filled, and columns of which pieces are multiples: those of a tile.
_FILLS, _TILE = 3, 16
#: Columns of which those of a part are a multiple: 16 bytes of a factor along them, and tiles of the instruction.
_STEP = 8
_REMAINDER = intrinsics.arithmetic("rem", INDEX)


@dataclass(frozen=True)
class _Factor:
    """A factor of the product, and how it is packed.

    It is the operand with a number, or `rows` of that, in each part others.
    """

    value: ops.Value
    operand: int
    rows: int
    packing: Packing


@dataclass(frozen=True, kw_only=True)
class Packed(OfParts, Persistent):
    """The packed form of a function whose work-groups are `parts` of those of another, in order; see the module."""

    form = "packed"
    purpose = ("one product of 16-bit elements of known sizes of slices of batches, on CUDA devices from Hopper on, "
               "without schedules,")
    factors: tuple[_Factor, ...]
    fills: int = 1

    @classmethod
    def over(cls, other: Mapping, analysis: Analysis) -> Packed | None:
        options, product, unit = analysis.options, static_product(analysis.canonical), analysis.device.multiprocessor
        if product is None or options.debug or options.schedules or not analysis.device.copy_engine:
            return None
        batch = narrow_batch(product)
        if batch is None or unit is None:
            return None
        if options.form == cls.form or not isinstance(other, Persistent):
            return cls._of(analysis, product, batch, unit.narrow.packed)
        # Of what memory bounds, the estimates differ by less than they are sure.
        is_large = _is_intense(analysis) or math.prod(sizes_of(product)) >= analysis.device.persistent.least_tiled
        if other.cycles is None or not is_large:
            return None
        return cls._of(analysis, product, batch, unit.narrow.packed)

    @classmethod
    def _of(
        cls, analysis: Analysis, product: ops.Contraction, batch: NarrowBatch, numbers: PackedBatches
    ) -> Packed | None:
        """Return the form with the fills and parts that have room and take the fewest cycles."""
        _, n, _ = sizes_of(product)
        most = max(1, n // analysis.device.persistent.columns_of_narrow)
        counts = [count for count in range(1, most + 1) if -(-n // up(-(-n // count), _STEP)) == count]
        parts = [in_parts(analysis.canonical, product, 1, count, _STEP) if count > 1 else None for count in counts]
        ways = (_packed(analysis, each, fills) for fills in range(1, _FILLS + 1) for each in parts)
        found = (replace(each, cycles=each.work.cycles(batch, numbers)) for each in ways if each is not None)
        return min(found, key=lambda each: each.cycles or 0.0, default=None)

    @property
    def _first_packed(self) -> int:
        """Where packed operands are in local memory."""
        return up(self.first_result + self.places * self.results, STAGE_ALIGNMENT)

    def with_places(self) -> Packed:
        """Return the same with places for the packed factors."""
        places = itertools.accumulate((factor.packing.bytes for factor in self.factors), initial=self._first_packed)
        return replace(self, factors=tuple(replace(factor, packing=replace(factor.packing, place=place))
                                           for factor, place in zip(self.factors, places, strict=False)))

    @property
    def work(self) -> PackedWork:
        """What a block does for a part."""
        (product,) = self.products
        assert isinstance(product, PaddedProduct)
        lanes = [(factor.packing.in_words, -(-factor.packing.words // _LANES) * -(-factor.packing.columns // _WARPS))
                 for factor in self.factors]
        brought = [sum(operand.bytes for operand in self.operands if operand.is_read and operand.fill == fill)
                   for fill in range(self.fills)]
        brought[0] += sum(operand.bytes for operand in self.operands if operand.is_written)
        (height, width), (down, across) = product.tiles, product.parts
        return PackedWork(
            self.parts, sum(count for in_words, count in lanes if in_words),
            sum(count for in_words, count in lanes if not in_words), height // down * -(-width // across),
            len(product.steps), brought)

    @property
    def local_memory(self) -> int:
        return self._first_packed + sum(factor.packing.bytes for factor in self.factors)

    @property
    def ring(self) -> Ring:
        return replace(super().ring, waits=True)

    def memref(self, value: ops.Value) -> MemrefDescriptor | None:
        for factor in self.factors:
            if factor.value.name == value.name:
                type_ = ops.memref_type(value)
                return MemrefDescriptor(type_, LOCAL, factor.packing.place, tuple(filter(None, type_.shape)),
                                        (1, factor.packing.pitch), alignment=COPY_ALIGNMENT)
        return super().memref(value)

    def __str__(self) -> str:
        fills = f", {self.fills} fills of a stage" if self.fills > 1 else ""
        return self._described(f"packed form, {self.parts} parts of a work-group{fills}")

    def phase(self, turn: Expression) -> Expression:
        return multiply(turn, self.fills)

    def pack(self, writer: BodyWriter, fetch: Callable[[Sequence[PipelinedOperand]], Call]) -> bool:
        for fill in range(self.fills):
            if fill > 0:
                writer.evaluate(fetch([operand for operand in self.operands if operand.fill == fill]))
                writer.evaluate(call(self.ring.wait(), add(self.phase(TURN), fill)))
                # Threads copy what the engine does not.
                writer.evaluate(call(intrinsics.barrier()))
            self._pack(writer, fill)
        return True

    def _pack(self, writer: BodyWriter, fill: int) -> None:
        for factor in self.factors:
            operand = self.operands[factor.operand]
            if operand.fill != fill:
                continue
            part: Expression = call(_REMAINDER, GROUP, self.parts) if factor.rows else 0
            place = add(place_in_stage(self, operand), multiply(part, factor.rows * operand.type.element.bytes))
            writer.evaluate(call(factor.packing.intrinsic(self.local_memory, _WARPS), place))


def _is_intense(analysis: Analysis) -> bool:
    """Whether memory does not bound a product: see `Work.is_intense`."""
    operands = find_operands(analysis.function)
    return operands is not None and Work(
        analysis.function, analysis.device, tuple(operands), (), analysis.temporaries, "highest").is_intense


def _packed(analysis: Analysis, parts: Parts | None, fills: int) -> Packed | None:
    """Return the form for such parts of work-groups, or whole ones; None where it is not for them, or has no room."""
    canonical = analysis.canonical if parts is None else parts.function
    product = divisible_product(canonical)
    operands = find_operands(replace(analysis, canonical=canonical).function, parts)
    if product is None or operands is None or any(each.in_group or len(each.values) > 1 for each in operands):
        return None
    is_added_to = any(each.is_read and each.is_written and each.type.element.bits == 16 for each in operands)
    if fills > 1 and not is_added_to:
        return None
    if len({value.name for value in product.inputs}) == 1:
        return None  # the zeros behind the end of the sum are behind other ends of each factor
    found = packed_product(product, product.precision or analysis.options.precision, _WARPS)
    if found is None or found.registers > _REGISTERS:
        return None
    pieces = [piece for each in operands for piece in _pieces(each, parts, fills)]
    if {piece.fill for piece in pieces} != set(range(fills)):
        return None
    filled = [place_operands([piece for piece in pieces if piece.fill == fill], 1, 0) for fill in range(fills)]
    placed = tuple(operand for each, _, _ in filled for operand in each)
    factors = [factor for position in range(2) for factor in _factors(product, position, placed, parts)]
    if len({factor.value.name for factor in factors}) < len({value.name for value in product.inputs}):
        return None
    packed = Packed(
        operands=placed, residents=(), layout=SubgroupLayout(_LANES, 1, _WARPS),
        stage=max(stage for _, stage, _ in filled), results=max(results for _, _, results in filled), temporaries=0,
        stages=1, products=(found,), parts=1 if parts is None else parts.count, function=canonical,
        factors=tuple(factors), fills=fills).with_places()
    return packed if packed.local_memory <= analysis.device.local_memory else None


def _pieces(operand: PipelinedOperand, parts: Parts | None, fills: int) -> list[PipelinedOperand]:
    """Return an operand in pieces of whole columns, one for each fill; what parts divide, and results, are one."""
    if operand.is_written:
        return [replace(operand, apart=True)]
    rows, columns = operand.type.shape
    if fills == 1 or (parts is not None and operand.share == 1):
        return [operand]
    assert rows is not None
    assert columns is not None
    width, column = up(-(-columns // fills), _TILE), rows * operand.type.element.bytes
    return [replace(operand, fill=fill, skip=first * column, matrix=operand.bytes,
                    type=replace(operand.type, shape=(rows, min(width, columns - first))))
            for fill, first in enumerate(range(0, columns, width))]


def _factors(
    product: ops.Contraction, position: int, operands: tuple[PipelinedOperand, ...], parts: Parts | None
) -> Iterator[_Factor]:
    """Yield how a factor is packed, or pieces of it; nothing where it is not copied to the stage."""
    value = product.inputs[position]
    source = value if parts is None else next(
        (o.source for o in parts.function.body if isinstance(o, ops.Subview) and o.result == value), value)
    for number, operand in enumerate(operands):
        (name,) = operand.values
        if name in (value.name, source.name):
            is_slice = name != value.name
            (rows, _), (_, stride) = ops.memref_type(value).shape, ops.memref_type(value).strides
            _, columns = operand.type.shape
            assert rows is not None
            assert columns is not None
            assert stride is not None
            # Where columns begin: those of the operand, and of rows of it.
            unit = math.gcd(operand.slot.unit, is_slice * rows * operand.type.element.bytes)
            sum_mode = (1 - position) ^ product.transposes[position]
            packing = Packing(rows, columns, stride, sum_mode, in_words=unit % 4 == 0 and stride % 2 == 0)
            yield _Factor(value, number, rows if is_slice else 0, packing)
