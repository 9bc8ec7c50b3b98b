"""The ``gemm`` that the tiles of a program are parts of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from tl_dpnp.errors import TLError
from tl_dpnp.language import ops
from tl_dpnp.language.builder import ALL, FunctionBuilder
from tl_dpnp.lowering.raising.numbers import Unraised
from tl_dpnp.lowering.raising.tiles import Term, Tile, Trace
from tl_dpnp.lowering.raising.trace import traced
from tl_dpnp.scalars import BF16, F16, F32

__all__ = ["Product", "Unraised", "has_tiles", "product_of", "raised"]

_Fact = TypeVar("_Fact")


class Product(NamedTuple):
    """C := alpha op(A) op(B) + beta C: the names of A, B and C, and whether A and B are transposed.

    The matrices are those of a batch where they are among the `slices`.  Tiles of C `are_transposed` that are stored
    so; the first factors of these are of B then.
    """

    a: str
    b: str
    c: str
    slices: frozenset[str]
    transposes: tuple[bool, bool]
    alpha: ops.Operand | int
    beta: ops.Operand | int
    are_transposed: bool


def has_tiles(function: ops.Function) -> bool:
    """Return whether a function multiplies cooperative matrices."""
    return any(isinstance(operation, ops.CooperativeMatrixMulAdd) for operation in function.body.walk())


def raised(function: ops.Function) -> ops.Function:
    """Return a function that does by one ``gemm`` what all work-groups of a verified function do together.

    It has a work-group, or one for each matrix of a batch.  That is so in calls whose tiles are parts of the product,
    each once (`cover`).  Raises `Unraised` where there are no such calls.
    """
    found = product_of(traced(function))
    values = {parameter.name: parameter for parameter in function.parameters}
    builder = FunctionBuilder(function.name, {name: value.type for name, value in values.items()})
    matrices = {name: values[name] for name in (found.a, found.b, found.c)}
    if found.slices:
        group = builder.group_id()
        matrices |= {name: builder.subview(values[name], ALL, ALL, group) for name in sorted(found.slices)}
    try:
        builder.gemm(_number(found.alpha), matrices[found.a], matrices[found.b], _number(found.beta),
                     matrices[found.c], transpose_a=found.transposes[0], transpose_b=found.transposes[1])
    except TLError as error:
        raise Unraised(f"there is no such gemm: {error.message}") from error
    body = ops.Region(tuple(replace(operation, span=function.span) for operation in builder.function().body))
    return replace(function, body=body, work_group_size=None, subgroup_size=None)


def _number(factor: ops.Operand | int) -> ops.Operand | complex:
    """Return alpha or beta as a builder takes it, which gives numbers the type of the result."""
    return factor.value if isinstance(factor, ops.Constant) else factor


def product_of(trace: Trace) -> Product:
    """Return what the tiles of a trace may be parts of.  Raises `Unraised` where they are not of one product."""
    tiles, sums = [stored.tile for stored in trace.stored], [stored.sum for stored in trace.stored]
    if not all(total.terms for total in sums) or not sums:
        raise Unraised("what is stored is no sum of products")
    terms = [term for total in sums for term in total.terms]
    c, is_batch, are_transposed = _same([tile.fact for tile in tiles], "results")
    pairs = [tuple(_loaded(factor) for factor in term.factors) for term in terms]
    first, second = (_same([pair[side].fact for pair in pairs], "factors") for side in (0, 1))
    bases = [None if total.base is None else _loaded(total.base) for total in sums]
    base = _same([None if each is None else each.fact for each in bases], "sums")
    if base not in (None, (c, is_batch, are_transposed)):
        raise Unraised(f"sums begin with another part than that of %{c} which they are stored to")
    if c in (first[0], second[0]):
        raise Unraised(f"%{c} is a factor and the result")
    _check_types(tiles, terms)
    total = sums[0]
    _same([(_key(each.alpha), _key(each.beta)) for each in sums], "sums")
    if isinstance(total.beta, ops.Value) or (total.beta is not None and total.beta.value == 0):
        raise Unraised(f"{total.beta} may be 0, for which gemm does not read %{c}")
    alpha = 1 if total.alpha is None else total.alpha
    beta = 0 if base is None else 1 if total.beta is None else total.beta
    slices = frozenset(name for name, is_slice, _ in (first, second, (c, is_batch, are_transposed)) if is_slice)
    if slices and not is_batch:
        raise Unraised(f"products of several matrices have one result, %{c}")
    flags = first[2], second[2]
    if are_transposed:
        return Product(second[0], first[0], c, slices, (not flags[1], not flags[0]), alpha, beta, True)
    return Product(first[0], second[0], c, slices, flags, alpha, beta, False)


def _same(facts: Sequence[_Fact], what: str) -> _Fact:
    """Return what is the same of all.  Raises `Unraised` where it is not."""
    if any(fact != facts[0] for fact in facts):
        raise Unraised(f"{what} are not of one product")
    return facts[0]


def _key(operand: ops.Operand | None) -> Any:
    return operand.name if isinstance(operand, ops.Value) else operand


def _loaded(factor: object) -> Tile:
    if not isinstance(factor, Tile):
        raise Unraised("a loop carries tiles from one sum to the next")
    return factor


def _check_types(tiles: Sequence[Tile], terms: Sequence[Term]) -> None:
    """Raise `Unraised` where gemm would sum up in another type, or round at another place."""
    element = ops.memref_type(tiles[0].access.memref).element
    sums = F32 if element in (F16, BF16) else element
    for term in terms:
        if term.operation.kept != sums:
            raise Unraised(f"sums for {element} are kept in {term.operation.kept}, and those of gemm in {sums}")
