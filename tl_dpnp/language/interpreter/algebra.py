"""The collective instructions ``out := alpha · f(inputs) + beta · out`` in NumPy.

alpha, beta and the inputs convert to the element type of the output, without loss (the verifier's rule).  Floats
accumulate in `accumulator_dtype` and are rounded once at the end, so that the result is at least as accurate as any
order of summation on a device; bf16 rounds through float32.  Integers are exact modulo 2^bits.
Source: tensor language reference, sections "Axpby" to "Sum".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tl_dpnp.language import ops
from tl_dpnp.language.interpreter.fault import BoundsFault
from tl_dpnp.language.interpreter.scalar import Array, Scalar, compute_dtype, decode, encode, quietly
from tl_dpnp.scalars import ScalarType

__all__ = ["accumulator_dtype", "update"]


def accumulator_dtype(element: ScalarType) -> np.dtype[Any]:
    """Return the dtype that sums are kept in: twice as wide for floats where NumPy has it, as is for integers."""
    if element.is_complex:
        return np.dtype(np.complex128 if element.bits == 64 else np.clongdouble)
    if element.is_float:
        return np.dtype(np.longdouble if element.bits == 64 else np.float64)
    return compute_dtype(element)


@quietly
def update(
    operation: ops.LinearAlgebra, alpha: Scalar, inputs: Sequence[Array], beta: Scalar | None, output: Array
) -> None:
    """Compute `operation` and write `output`.

    `alpha` and `beta` have the output's element type; `beta` None means that the output is not read.
    """
    element = ops.memref_type(operation.output).element
    wide = accumulator_dtype(element)
    operands = [
        np.asarray(decode(array, ops.memref_type(value).element)).astype(wide)
        for value, array in zip(operation.inputs, inputs, strict=True)
    ]
    for position, transpose in enumerate(operation.transposes):
        operands[position] = operands[position].T if transpose else operands[position]
    product = _product(operation, operands, output.shape)
    terms: list[Any] = []
    if product is not None:
        terms.append(wide.type(alpha) * product)
    if beta is not None:
        terms.append(wide.type(beta) * np.asarray(decode(output, element)).astype(wide))
    total = sum(terms[1:], terms[0]) if terms else np.zeros(output.shape, wide)
    output[...] = encode(total, element)


def _product(operation: ops.LinearAlgebra, operands: list[Array], output: tuple[int, ...]) -> Array | None:
    """Return f(inputs), or None for an empty sum, which contributes nothing whatever alpha is."""
    sizes: dict[str, int] = {}
    *inputs, (_, kept) = operation.dimension_names
    letters = [names[::-1] if flag else names  # the operands are transposed already
               for (_, names), flag in zip(inputs, (*operation.transposes, *[False] * len(inputs)), strict=False)]
    for names, shape in zip((*letters, kept), (*(operand.shape for operand in operands), output), strict=True):
        for letter, size in zip(names, shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                found = " and ".join(_shape_text(operand.shape) for operand in operands)
                raise BoundsFault(f"{operation.mnemonic}: sizes {found} (after transposition) do not fit an output of "
                                  f"{_shape_text(output)}")
    is_empty = any(size == 0 for letter, size in sizes.items() if letter not in kept)
    return None if is_empty else np.asarray(operation.product(*operands))


def _shape_text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "one element"
