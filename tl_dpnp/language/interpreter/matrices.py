"""Cooperative matrices: arrays of `compute_dtype` of their components, which a sub-group shares and nobody changes.

Source: tensor language reference 0.4, section "Cooperative matrix instructions"; docs/language.md decides what it
leaves open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tl_dpnp.language import ops
from tl_dpnp.language.interpreter.algebra import accumulator_dtype
from tl_dpnp.language.interpreter.fault import Fault
from tl_dpnp.language.interpreter.scalar import Array, Scalar, compute_dtype, convert, decode, encode, quietly
from tl_dpnp.language.types import CooperativeMatrixType, MemrefType
from tl_dpnp.scalars import ScalarType

__all__ = ["check_uniform", "componentwise", "inserted", "made", "multiplied", "own", "reduced"]


def made(type: CooperativeMatrixType, component: Callable[[int, int], Scalar]) -> Array:
    """Return the matrix whose components a function gives, by row and column."""
    result = np.empty(type.shape, compute_dtype(type.component))
    for place in np.ndindex(type.shape):
        result[place] = component(*place)
    return result


def componentwise(
    type: CooperativeMatrixType, matrices: Mapping[str, Array], single: Callable[[dict[str, Scalar]], Scalar]
) -> Array:
    """Return the matrix whose components a function gives of those of others, which it is given by name."""
    return made(type, lambda i, j: single({name: matrix[i, j] for name, matrix in matrices.items()}))


@quietly
def multiplied(a: Array, b: Array, c: Array, kept: ScalarType, to: ScalarType) -> Array:
    """Return a · b + c, summed up as linear algebra is, rounded to the type `kept` and converted to another one."""
    wide = accumulator_dtype(kept)
    total = decode(encode(a.astype(wide) @ b.astype(wide) + c.astype(wide), kept), kept)
    result = np.empty(total.shape, compute_dtype(to))
    for place in np.ndindex(total.shape):
        result[place] = convert(total[place], kept, to)
    return result


@quietly
def reduced(kind: str, matrix: Array, axis: int, component: ScalarType) -> Array:
    """Return the sums (``add``), or the largest (``max``) or smallest (``min``) components, along an axis, which stays.

    Floats are summed up in a wider type and rounded once.
    """
    if kind == "add":
        wide = accumulator_dtype(component)
        return np.asarray(decode(encode(matrix.astype(wide).sum(axis=axis, keepdims=True, dtype=wide), component),
                                 component))
    meaning: Any = np.fmax if kind == "max" else np.fmin
    return np.asarray(meaning.reduce(matrix, axis=axis, keepdims=True))


def own(matrix: Array, place: tuple[int, int]) -> Scalar:
    """Return a component; behind the last column it is 0."""
    row, column = place
    return matrix[row, column] if column < matrix.shape[1] else matrix.dtype.type(0)


def inserted(matrix: Array, components: Iterator[tuple[tuple[int, int], Scalar]]) -> Array:
    """Return a copy with other components at some places; those behind the last column are none."""
    result = matrix.copy()
    for (row, column), value in components:
        if column < result.shape[1]:
            result[row, column] = value
    return result


def check_uniform(operands: Sequence[ops.Operand], values: Sequence[Sequence[Any]], mnemonic: str) -> None:
    """Raise `Fault` for an operand whose values, one from each work-item, are not all the same."""
    for operand, given in zip(operands, values, strict=True):
        first = _identity(operand, given[0])
        for lane, value in enumerate(given):
            if value is not given[0] and _identity(operand, value) != first:
                raise Fault(f"{operand} is not the same for all work-items that do {mnemonic} together: it differs "
                            f"between 0 and {lane}", "use a value that does not depend on the work-item")


def _identity(operand: ops.Operand, value: Any) -> Any:
    """Return what two values have in common that are the same: memrefs their memory, others their bits."""
    if isinstance(operand.type, MemrefType):
        return value.ctypes.data, value.shape, value.strides
    return np.asarray(value).tobytes()
