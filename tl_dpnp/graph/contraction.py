"""A product of two operands of any order, written with gemm, gemv and ger.

Letters name axes.  Those of the left operand alone that lie next to one another in it and in the result become the rows
of a matrix product, in the same way those of the right operand its columns, and summed letters its depth; what is left
becomes loops around it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tl_dpnp.graph.memrefs import lies_evenly
from tl_dpnp.language import FunctionBuilder
from tl_dpnp.language.builder import ALL
from tl_dpnp.language.ops import Value, memref_type
from tl_dpnp.records import dataclass

__all__ = ["Tensor", "is_matrix_product", "write_contraction"]


@dataclass(frozen=True)
class Tensor:
    """A memref whose modes are named by letters."""

    memref: Value
    letters: str


def write_contraction(
    b: FunctionBuilder, lhs: Tensor, rhs: Tensor, out: Tensor, sizes: Mapping[str, Value | int],
    accumulate: bool = False, alpha: Value | float = 1.0, lanes: str = "",
) -> None:
    """Write ``out := alpha · lhs · rhs``, summed over the letters that `out` lacks; with `accumulate`, ``out +=``.

    `alpha` is 1 unless the product is one of matrices (`is_matrix_product`).  Rows begin with the letter `lanes`, if
    one is given that `out` begins with.
    """
    summed = [letter for letter in lhs.letters if letter not in out.letters]
    if out.letters and out.letters[0] in rhs.letters and out.letters[0] not in lhs.letters:
        lhs, rhs = rhs, lhs
    allowed = [c for c in out.letters if c not in rhs.letters]
    rows = _run(out, lhs, allowed, {}, from_first=bool(lanes) and out.letters.startswith(lanes))
    columns = _run(out, rhs, [c for c in out.letters if c not in lhs.letters], sizes)
    depth = _run(lhs, rhs, summed, sizes)
    batch = [c for c in out.letters if c not in rows + columns]
    outer = [c for c in summed if c not in depth]
    places: dict[str, Value | int] = {}

    def product(beta: float) -> None:
        _write_product(b, lhs, rhs, out, rows, columns, depth, places, beta, alpha)

    def sum_outer(remaining: Sequence[str], first: bool) -> None:
        # The first term sets the result, all others are added to it.
        if not remaining:
            product(0.0 if first and not accumulate else 1.0)
            return
        letter, *rest = remaining
        places[letter] = 0
        sum_outer(rest, first)
        with b.for_(1, sizes[letter]) as index:
            places[letter] = index
            sum_outer(rest, False)

    def over_batch(remaining: Sequence[str]) -> None:
        if not remaining:
            sum_outer(outer, True)
            return
        letter, *rest = remaining
        with b.for_(0, sizes[letter]) as index:
            places[letter] = index
            over_batch(rest)

    over_batch(list(reversed(batch)))


def is_matrix_product(lhs: str, rhs: str, out: str) -> bool:
    """Return whether a product with these letters has rows, columns and a depth."""
    return (
        any(letter not in rhs for letter in lhs if letter in out)
        and any(letter not in lhs for letter in rhs if letter in out)
        and any(letter not in out for letter in lhs)
    )


def _run(
    first: Tensor, second: Tensor, allowed: Sequence[str], sizes: Mapping[str, Value | int], *, from_first: bool = False
) -> str:
    """Return the run of allowed letters with the most elements that is one mode of both; of `sizes` that are not known
    the one with the most letters, and the one that begins first if equal.  It begins with the first letter if asked to.
    """
    best, most = "", (0, 0)
    for start in range(1 if from_first else len(first.letters)):
        run = ""
        for letter in first.letters[start:]:
            if letter not in allowed or not (_is_one_mode(first, run + letter) and _is_one_mode(second, run + letter)):
                break
            run += letter
        known = [size if isinstance(size := sizes.get(letter), int) else 1 for letter in run]
        if run and (math.prod(known), len(run)) > most:
            best, most = run, (math.prod(known), len(run))
    return best


def _is_one_mode(tensor: Tensor, run: str) -> bool:
    """Return whether the modes with these letters follow one another, evenly spaced in memory."""
    start = tensor.letters.find(run)
    return start >= 0 and lies_evenly(memref_type(tensor.memref), start, start + len(run) - 1)


def _write_product(
    b: FunctionBuilder, lhs: Tensor, rhs: Tensor, out: Tensor, rows: str, columns: str, depth: str,
    places: dict[str, Value | int], beta: float, alpha: Value | float,
) -> None:
    left, left_axes = _matrix(b, lhs, (rows, depth), places)
    right, right_axes = _matrix(b, rhs, (depth, columns), places)
    result, result_axes = _matrix(b, out, (rows, columns), places)
    match bool(rows), bool(columns), bool(depth):
        case True, True, True:
            if result_axes != (rows, columns):  # the transposed product: Cᵀ = Bᵀ Aᵀ
                b.gemm(alpha, right, left, beta, result, transpose_a=right_axes != (columns, depth),
                       transpose_b=left_axes != (depth, rows))
            else:
                b.gemm(alpha, left, right, beta, result, transpose_a=left_axes != (rows, depth),
                       transpose_b=right_axes != (depth, columns))
        case True, False, True:
            b.gemv(1.0, left, right, beta, result, transpose=left_axes != (rows, depth))
        case False, True, True:
            b.gemv(1.0, right, left, beta, result, transpose=right_axes != (columns, depth))
        case True, True, False:
            if result_axes == (rows, columns):
                b.ger(1.0, left, right, beta, result)
            else:
                b.ger(1.0, right, left, beta, result)
        case False, False, True:
            _write_dot(b, left, right, result, beta)
        case True, False, False:
            _write_scaled(b, left, right, result, beta)
        case False, True, False:
            _write_scaled(b, right, left, result, beta)
        case _:
            value = b.mul(*(b.cast(b.load(m), memref_type(result).element) for m in (left, right)))
            b.store(value if beta == 0 else b.add(b.load(result), value), result)


def _write_dot(b: FunctionBuilder, left: Value, right: Value, result: Value, beta: float) -> None:
    """Write a scalar product: one matrix with a single row times a vector."""
    known = memref_type(left).shape[0]
    size = b.size(left, 0) if known is None else known
    row = b.expand(left, 0, size, 1)
    element = b.expand(result, 0, 1) if memref_type(result).order else None
    if element is None:
        _write_serial_dot(b, left, right, result, beta, size)
    else:
        b.gemv(1.0, row, right, beta, element, transpose=True)


def _write_serial_dot(
    b: FunctionBuilder, left: Value, right: Value, result: Value, beta: float, size: Value | int
) -> None:
    element = memref_type(result).element
    if beta == 0:
        b.store(0, result)
    with b.for_(0, size) as index:
        term = b.mul(b.cast(b.load(left, index), element), b.cast(b.load(right, index), element))
        b.store(b.add(b.load(result), term), result)


def _write_scaled(b: FunctionBuilder, vector: Value, scalar: Value, result: Value, beta: float) -> None:
    factor = b.cast(b.load(scalar), memref_type(result).element)
    b.axpby(factor, vector, beta, result)


def _matrix(
    b: FunctionBuilder, tensor: Tensor, groups: tuple[str, str], places: dict[str, Value | int]
) -> tuple[Value, tuple[str, ...]]:
    """Return the part of a tensor with the letters of `groups`, each group one mode, and the groups in its order."""
    kept = [letter for letter in tensor.letters if letter in groups[0] or letter in groups[1]]
    memref = tensor.memref
    if len(kept) < len(tensor.letters):
        memref = b.subview(memref, *(ALL if letter in kept else places[letter] for letter in tensor.letters))
    order = tuple(sorted((group for group in groups if group), key=lambda group: kept.index(group[0])))
    for mode, group in enumerate(order):
        if len(group) > 1:
            memref = b.fuse(memref, mode, mode + len(group) - 1)
    return memref, order
