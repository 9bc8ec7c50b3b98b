"""Which matrices in the registers of a sub-group with DPAS have their columns in another order than in the program.

Messages transpose words of 32 bits.  Where the columns of a second factor of 16 bits follow one another in memory,
words are two columns, and moves take these apart: one for two columns, if of 16 columns the even ones come first (the
kind ``split`` of a block), else one for each.  A sum has the columns of its second factor, and so has what is computed
of it, and what it is passed on to.
"""

from __future__ import annotations

from collections.abc import Iterator

from tl_dpnp.kernels.dpas.sums import COLUMNS
from tl_dpnp.language import ops
from tl_dpnp.language.types import CooperativeMatrixType
from tl_dpnp.lowering.dpas_fragments import do_rows_follow
from tl_dpnp.lowering.fragment_layouts import Alike
from tl_dpnp.lowering.matrix_spreads import Spreads

__all__ = ["column_of", "place_of", "split_columns"]

#: How many columns a word has, and the columns that are ordered together.
_PER_WORD, _TOGETHER = 2, 2 * COLUMNS


def column_of(place: int, is_split: bool) -> int:
    """Return the column of a matrix that is at a place among its registers."""
    if not is_split:
        return place
    group, own = divmod(place, _TOGETHER)
    part, word = divmod(own, COLUMNS)
    return group * _TOGETHER + word * _PER_WORD + part


def place_of(column: int, is_split: bool) -> int:
    """Return the place of a column of a matrix among its registers."""
    first = column - column % _TOGETHER
    return next(place for place in range(first, first + _TOGETHER) if column_of(place, is_split) == column)


def split_columns(function: ops.Function, region: ops.Region, spreads: Spreads) -> frozenset[str]:
    """Return the names of matrices of a region that have even columns before odd ones; those of a function are unique.
    """
    alike, gaining, kept = Alike(), set[str](), set[str]()
    # Matrices of equal components have any order.
    equal = {operation.result.name for operation in function.body.walk()
             if isinstance(operation, ops.CooperativeMatrixConstruct)}
    products = [operation for operation in region.walk() if isinstance(operation, ops.CooperativeMatrixMulAdd)
                and operation.result.name not in spreads]
    seconds = {operation.B.name for operation in products}
    loaded = set[str]()
    for operation in region.walk():
        for values in _of_equal_columns(operation, spreads):
            matrices = [value for value in values if isinstance(value, ops.Value) and value.name not in equal
                        and isinstance(value.type, CooperativeMatrixType) and value.type.columns > 1]
            alike.join([matrix.name for matrix in matrices])
            kept.update(matrix.name for matrix in matrices if ops.matrix_type(matrix).columns % _TOGETHER)
        match operation:
            case ops.CooperativeMatrixLoad(result=result):
                loaded.add(result.name)
                gains = (result.name in seconds and not do_rows_follow(operation)
                         and operation.type.component.bits * _PER_WORD == 32)
                (gaining if gains else kept).add(result.name)
            case ops.CooperativeMatrixStore(A=matrix) if do_rows_follow(operation):
                kept.add(matrix.name)
    # The terms of a sum are in the order of both factors.
    kept.update(operation.A.name for operation in products)
    kept.update(seconds - loaded)
    fixed = {alike.find(name) for name in kept}
    split = {alike.find(name) for name in gaining} - fixed
    return frozenset(name for name in alike.names if alike.find(name) in split)


def _of_equal_columns(operation: ops.Operation, spreads: Spreads) -> Iterator[tuple[ops.Operand, ...]]:
    """Yield values whose columns are in one order; others than matrices may be among them."""
    match operation:
        case ops.CooperativeMatrixMulAdd(A=first, B=second, C=added, result=result):
            spread = spreads.get(result.name)
            yield (second, added, result) if spread is None or spread.is_row else (added, result)
            yield (first,)
        case ops.CooperativeMatrixReduction(A=matrix, axis=0, result=result):
            yield matrix, result
        case ops.For(carried=carried, initial=initial, outputs=outputs) if carried:
            yield from zip(initial, carried, operation.body.operations[-1].operands, outputs, strict=True)
        case ops.If(outputs=outputs) if outputs:
            for region in operation.regions:
                yield from zip(outputs, region.operations[-1].operands, strict=True)
        case ops.CooperativeMatrixApply(matrices=matrices, result=result):
            yield *matrices, result
        case ops.CooperativeMatrixScale() | ops.ScalarOperation():
            yield *operation.operands, *operation.results
