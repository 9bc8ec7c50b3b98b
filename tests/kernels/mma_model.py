"""NumPy models of the tensor cores' instructions: on the words of each lane, as the tables say they lie."""

from __future__ import annotations

from typing import Any

import numpy as np

from tl_dpnp.kernels.instructions import Element
from tl_dpnp.kernels.mma.rows import LANES, MmaRow, Operand
from tl_dpnp.kernels.mma.sparse import unpack

__all__ = ["decode", "encode", "fragments", "matrix", "model", "random_operands"]

Array = np.ndarray[Any, Any]


def _float8(code: int, exponent_bits: int) -> float:
    """Return the value of an 8-bit float (OCP 8-bit Floating Point Specification 1.0, section 5)."""
    mantissa_bits = 7 - exponent_bits
    exponent, mantissa = divmod(code & 0x7F, 1 << mantissa_bits)
    bias = (1 << exponent_bits - 1) - 1
    fraction = mantissa / (1 << mantissa_bits)
    value = 2.0 ** (exponent - bias) * (1 + fraction) if exponent else 2.0 ** (1 - bias) * fraction
    return -value if code & 0x80 else value


#: Codes of the 8-bit floats without infinities and NaNs.
_FLOATS8 = {name: {_float8(code, bits): code for code in range(256) if _float8(code, bits) < limit}
            for name, bits, limit in (("e4m3", 4, 449.0), ("e5m2", 5, 57345.0))}


def encode(element: Element, values: Array) -> Array:
    """Return values as the integers that stand for them."""
    match element.name:
        case "f16":
            return values.astype(np.float16).view(np.uint16).astype(np.uint64)
        case "bf16":
            return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint64)
        case "tf32" | "f32":
            return values.astype(np.float32).view(np.uint32).astype(np.uint64)
        case "f64":
            return values.astype(np.float64).view(np.uint64)
        case "e4m3" | "e5m2":
            return np.vectorize(_FLOATS8[element.name].__getitem__, otypes=[np.uint64])(values)
    return values.astype(np.int64).astype(np.uint64) & np.uint64((1 << element.bits) - 1)


def decode(element: Element, codes: Array) -> Array:
    """Return the values that integers stand for."""
    match element.name:
        case "f16":
            return codes.astype(np.uint16).view(np.float16).astype(np.float64)
        case "bf16":
            return (codes.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        case "tf32" | "f32":
            return codes.astype(np.uint32).view(np.float32).astype(np.float64)
        case "f64":
            return codes.view(np.float64)
        case "e4m3" | "e5m2":
            return np.vectorize({code: value for value, code in _FLOATS8[element.name].items()}.__getitem__)(codes)
    signed = codes.astype(np.int64)
    if element.kind == "signed":
        signed = np.where(signed >> (element.bits - 1) & 1, signed - (1 << element.bits), signed)
    return signed.astype(np.float64)


def fragments(row: MmaRow, operand: Operand, values: Array) -> Array:
    """Return the words of each lane (32, words) as uint64, for a matrix as the operand holds it."""
    element = row.element(operand)
    codes = encode(element, values)
    words = np.zeros((LANES, row.words(operand)), np.uint64)
    for lane, word in np.ndindex(*words.shape):
        for part in range(row.parts(operand)):
            i, j = row.place(operand, lane, word, part)
            words[lane, word] |= codes[i, j] << np.uint64(element.bits * part)
    return words


def matrix(row: MmaRow, operand: Operand, words: Array) -> Array:
    """Return the matrix that the words of the lanes hold."""
    element = row.element(operand)
    codes = np.zeros((row.rows(operand), row.columns(operand)), np.uint64)
    mask = np.uint64((1 << element.bits) - 1)
    for lane, word in np.ndindex(*words.shape):
        for part in range(row.parts(operand)):
            codes[row.place(operand, lane, word, part)] = words[lane, word] >> np.uint64(element.bits * part) & mask
    return decode(element, codes)


def model(row: MmaRow, a: Array, b: Array, c: Array, places: Array | None = None) -> Array:
    """Return the words of D from those of A, B and C; exact for operands whose sums are exact."""
    left, right, start = matrix(row, "a", a), matrix(row, "b", b), matrix(row, "c", c)
    if places is not None:
        left = unpack(left, places)
    if row.operation:
        # Bits: the population count of the exclusive or, or of the conjunction.
        both = left @ right
        ones = left.sum(1)[:, None] + right.sum(0)[None, :]
        product = ones - 2 * both if row.operation == "xor" else both
    else:
        product = left @ right
    return fragments(row, "d", product + start)


def random_operands(row: MmaRow, seed: int = 0) -> tuple[Array, Array, Array]:
    """Return dense matrices of small whole numbers, whose sums of products are exact in every type."""
    random = np.random.default_rng(seed)

    def draw(element: Element, shape: tuple[int, int]) -> Array:
        low, high = {"signed": (-4, 5), "unsigned": (0, 8), "bit": (0, 2), "float": (-2, 3)}[element.kind]
        return random.integers(low, high, shape).astype(np.float64)

    a, b, c = draw(row.a, (row.m, row.k)), draw(row.b, (row.k, row.n)), draw(row.c, (row.m, row.n))
    if row.sparse:
        keep = np.argsort(random.random((row.m, row.k // 4, 4)), axis=2) < 2
        a = a * keep.reshape(a.shape)
    return a, b, c
