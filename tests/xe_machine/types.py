"""The types of operands: sizes, and conversions between bytes, numbers and one another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.xe_machine.errors import MachineError

__all__ = ["TYPES", "DataType", "bf16_of", "f32_of_bf16", "tf32_of", "type_named"]


@dataclass(frozen=True)
class DataType:
    """A type: its name in assembly, bytes, the NumPy type of its bits, and whether its bits are a float."""

    name: str
    size: int
    bits: type
    is_float: bool = False

    @property
    def is_signed(self) -> bool:
        """Whether it is an integer with a sign."""
        return not self.is_float and np.issubdtype(self.bits, np.signedinteger)

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the largest integer."""
        info = np.iinfo(self.bits)
        return int(info.min), int(info.max)


TYPES = {
    each.name: each for each in (
        DataType("b", 1, np.int8), DataType("ub", 1, np.uint8), DataType("w", 2, np.int16),
        DataType("uw", 2, np.uint16), DataType("d", 4, np.int32), DataType("ud", 4, np.uint32),
        DataType("q", 8, np.int64), DataType("uq", 8, np.uint64), DataType("f", 4, np.float32, True),
        DataType("hf", 2, np.float16, True), DataType("bf", 2, np.uint16, True), DataType("df", 8, np.float64, True),
        DataType("tf32", 4, np.uint32, True),
    )
}


def type_named(name: str) -> DataType:
    """Return a type by its name in assembly."""
    if name not in TYPES:
        raise MachineError(f"the type {name!r} is not known")
    return TYPES[name]


def f32_of_bf16(bits: np.ndarray) -> np.ndarray:
    """Return the value of bf16, whose bits are given."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def _rounded(values: np.ndarray, dropped: int) -> np.ndarray:
    """Return the bits of f32, rounded to the nearest with so many bits fewer, ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    odd = (bits >> np.uint32(dropped)) & np.uint32(1)
    result = (bits + np.uint32((1 << (dropped - 1)) - 1) + odd) & np.uint32(-(1 << dropped) & 0xFFFFFFFF)
    quiet = bits & np.uint32(-(1 << dropped) & 0xFFFFFFFF) | np.uint32(1 << 22)
    return np.where(np.isnan(values), quiet, result)


def bf16_of(values: np.ndarray) -> np.ndarray:
    """Return the bits of f32 rounded to bf16."""
    return (_rounded(values, 16) >> np.uint32(16)).astype(np.uint16)


def tf32_of(values: np.ndarray) -> np.ndarray:
    """Return the bits of f32 rounded to tf32: 10 bits of fraction, in 32."""
    return _rounded(values, 13)
