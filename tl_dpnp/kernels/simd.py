"""The SIMD engine: outer products by fused multiply-adds of vectors, and transpositions, in one work-item."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tl_dpnp.kernels import scalar_ops
from tl_dpnp.kernels.llvm import PairsType, get_lane, lanes, set_lane, shuffle, splat
from tl_dpnp.kernels.simd_rows import SimdRow
from tl_dpnp.scalars import SCALAR_TYPES, ScalarType

__all__ = ["lanes_of_part", "outer_product", "total_of_lanes", "totals_of_lanes", "transpose", "transpose_parts"]

#: Bits of the parts of a vector register within which x86-64 interleaves elements.
_PART_BITS = 128
#: How the lanes of 4 and of 8 vectors are added up, one step after the other: which bits of a lane's number tell if it
#: is of the second vector, and those in which the lane differs that it is added to.  Others would do, but LLVM chooses
#: their lanes by shuffles with an immediate operand, for which some cores have a single port.
_WAYS = {4: [(0b11, 0b01), (0b10, 0b11)], 8: [(0b101, 0b001), (0b110, 0b010), (0b111, 0b111)]}
_BITS = {"float": 32, "double": 64, **{f"i{bits}": bits for bits in (8, 16, 32, 64)}}


def lanes_of_part(type_: ir.Type) -> int:
    """Return how many elements of a vector, or of such ones, are interleaved with one another, which are 128 bits."""
    number = type_.element if isinstance(type_, ir.VectorType) else type_
    return max(1, _PART_BITS // (_BITS[str(number)] * (2 if isinstance(type_, PairsType) else 1)))


def outer_product(
    builder: ir.IRBuilder, instruction: SimdRow, a: ir.Value, b: Sequence[ir.Value], c: Sequence[ir.Value]
) -> list[ir.Value]:
    """Emit an instruction with k = 1: `a` is a column of A, `b` a row of B, `c` the columns of C before.

    Where the device's vectors have fewer lanes than the instruction, `a` and `c` are a part of the rows.
    """
    assert len(b) == len(c) == instruction.n
    return [
        scalar_ops.fused_multiply_add(
            builder, SCALAR_TYPES[instruction.c.name], a, splat(builder, factor, lanes(a.type)), column
        )
        for factor, column in zip(b, c, strict=True)
    ]


def total_of_lanes(builder: ir.IRBuilder, element: ScalarType, vector: ir.Value) -> ir.Value:
    """Add the lanes of a vector, halves to halves; their number is a power of two."""
    count = lanes(vector.type)
    while count > 1:
        count //= 2
        low, high = (shuffle(builder, vector, [], range(first, first + count)) if count > 1 else
                     get_lane(builder, vector, first) for first in (0, count))
        vector = scalar_ops.arithmetic(builder, "add", element, low, high)
    return vector


def totals_of_lanes(
    builder: ir.IRBuilder, element: ScalarType, vectors: Sequence[ir.Value], parts: int = 1
) -> ir.Value:
    """Add the lanes of each of several vectors; the result has a lane for each of them.

    Where a vector has several `parts`, the lanes of each are added up apart, and the result has as many parts.
    The numbers of vectors, lanes and parts are powers of two.  Lanes of two vectors are added in pairs at once: half of
    the lanes of either are chosen, without a shuffle, and one brings those that they are added to.  That leaves half as
    many vectors, whose lanes are added likewise, and so on.
    """
    number = min(len(vectors), lanes(vectors[0].type) // parts)
    assert parts == 1 or number == len(vectors)
    ways = _WAYS.get(number) or [(1 << bit, 1 << bit) for bit in range(number.bit_length() - 1)]
    totals = [_total_of_lanes(builder, element, vectors[first : first + number], ways, parts)
              for first in range(0, len(vectors), number)]
    while len(totals) > 1:
        totals = [_joined(builder, *pair) for pair in zip(totals[::2], totals[1::2], strict=True)]
    return totals[0]


def _total_of_lanes(
    builder: ir.IRBuilder, element: ScalarType, vectors: Sequence[ir.Value], ways: Sequence[tuple[int, int]],
    parts: int,
) -> ir.Value:
    """Do so for no more vectors than a part of them has lanes."""
    count, rows = lanes(vectors[0].type), [*vectors]
    for lane, vector in enumerate(vectors):
        rows[sum(_is_odd(lane & mask) << bit for bit, (mask, _) in enumerate(ways))] = vector
    for mask, distance in ways:
        from_second = [count * _is_odd(lane & mask) for lane in range(count)]
        kept = [lane + side for lane, side in enumerate(from_second)]
        others = [(lane ^ distance) + side for lane, side in enumerate(from_second)]
        rows = [scalar_ops.arithmetic(builder, "add", element, shuffle(builder, first, [second], kept),
                                      shuffle(builder, first, [second], others))
                for first, second in zip(rows[::2], rows[1::2], strict=True)]
    (total,) = rows
    while lanes(total.type) > len(vectors) * parts:
        size = lanes(total.type) // parts
        halves = [[start + first + i for start in range(0, parts * size, size) for i in range(size // 2)]
                  for first in (0, size // 2)]
        low, high = (shuffle(builder, total, [], half) if len(half) > 1 else get_lane(builder, total, half[0])
                     for half in halves)
        total = scalar_ops.arithmetic(builder, "add", element, low, high)
    return total


def _is_odd(number: int) -> int:
    return number.bit_count() % 2


def _joined(builder: ir.IRBuilder, first: ir.Value, second: ir.Value) -> ir.Value:
    if lanes(first.type) == 1:
        return set_lane(builder, splat(builder, first, 2), second, 1)
    return shuffle(builder, first, [second], range(2 * lanes(first.type)))


def transpose(builder: ir.IRBuilder, rows: Sequence[ir.Value]) -> list[ir.Value]:
    """Transpose a square in registers: its rows are vectors of as many lanes, a power of two.

    First the elements within parts of 128 bits change places, by interleaving, then the parts, by choosing the even and
    the odd ones of two vectors: both are single instructions on x86-64.  Either way a square of n x n is transposed
    after log2(n) rounds.
    """
    count = len(rows)
    if count == 1:
        return list(rows)
    assert all(lanes(row.type) == count for row in rows)
    part = min(count, lanes_of_part(rows[0].type))
    parts = count // part
    result: list[ir.Value] = []
    for first in range(0, count, part):
        result += _interleaved(builder, list(rows[first : first + part]), part)
    exchanged = [_deinterleaved(builder, result[place::part], part) for place in range(part)]
    return [exchanged[place][number] for number in range(parts) for place in range(part)]


def transpose_parts(builder: ir.IRBuilder, rows: Sequence[Sequence[ir.Value]]) -> list[ir.Value]:
    """Return p columns of a square of n x n, of which parts of p elements were loaded, p being those of 128 bits.

    List i of the p lists of `rows` has the parts of rows i, i + p, i + 2 p and so on.  Joined they are a vector, for
    which an insertion from memory takes no shuffle; its parts are then transposed as those of whole rows are.
    """
    joined = [list(parts) for parts in rows]
    while len(joined[0]) > 1:
        joined = [[shuffle(builder, first, [second], range(2 * lanes(first.type)))
                   for first, second in zip(parts[::2], parts[1::2], strict=True)] for parts in joined]
    return _interleaved(builder, [whole for whole, in joined], len(rows))


def _interleaved(builder: ir.IRBuilder, rows: list[ir.Value], part: int) -> list[ir.Value]:
    """Transpose the squares of `part` x `part` elements that lie side by side in as many rows."""
    count, half = lanes(rows[0].type), part // 2
    size = part
    while size > 1:
        mixed = []
        for first, second in zip(rows[:half], rows[half:], strict=True):
            for start in (0, half):
                places = [base + start + i for base in range(0, count, part) for i in range(half)]
                mixed.append(shuffle(builder, first, [second], [p + side for p in places for side in (0, count)]))
        rows, size = mixed, size // 2
    return rows


def _deinterleaved(builder: ir.IRBuilder, rows: list[ir.Value], part: int) -> list[ir.Value]:
    """Transpose a square of parts of `part` elements: as many rows as a row has parts."""
    count = lanes(rows[0].type)
    parts, size = len(rows), len(rows)
    while size > 1:
        chosen: list[list[ir.Value]] = [[], []]
        for first, second in zip(rows[::2], rows[1::2], strict=True):
            for odd in (0, 1):
                starts = [side + (2 * i + odd) * part for side in (0, count) for i in range(parts // 2)]
                places = [start + i for start in starts for i in range(part)]
                chosen[odd].append(shuffle(builder, first, [second], places))
        rows, size = [*chosen[0], *chosen[1]], size // 2
    return rows
