"""The scalar types, as one table: spelling, width, kind and NumPy dtype.

Every layer speaks of element types through `ScalarType`; nothing else decides what ``bf16`` or ``index`` is.
Source: tensor language reference, section "Scalar types"; the types beyond it are this project's extensions.
"""

from __future__ import annotations

import math
import struct
from typing import Literal

from tl_dpnp.records import dataclass

__all__ = ["PRECISIONS", "SCALAR_TYPES", "Kind", "Precision", "ScalarType", "is_lossless", "rounded_number", *(
    "I1 I2 I4 I8 I16 I32 I64 INDEX U2 U4 U8 U16 U32 U64 F16 BF16 F32 F64 C32 C64".split()
)]

#: What products of f32 matrices may lose on a matrix engine (docs/xmx.md).
Precision = Literal["highest", "high", "default"]
PRECISIONS: tuple[Precision, ...] = ("highest", "high", "default")
Kind = Literal["boolean", "signed", "unsigned", "float", "complex"]


@dataclass(frozen=True)
class ScalarType:
    """One scalar type.

    `name` is the spelling of the newer reference; `bits` the width of the value (of both parts together for a
    complex type); `storage` the NumPy dtype of an array of it: bf16 travels as uint16, i1 as one byte; several integers
    below 8 bits share a byte, the first one in its lowest bits.
    `mantissa` counts the significand bits of a float, the implicit one included.
    """

    name: str
    bits: int
    kind: Kind
    storage: str
    mantissa: int = 0
    exponent: int = 0

    def __str__(self) -> str:
        return self.name

    @property
    def bytes(self) -> int:
        """Size of one element in memory, in bytes."""
        return max(1, self.bits // 8)

    @property
    def is_subbyte(self) -> bool:
        """True for integers below 8 bits: types of elements in memory only."""
        return self.is_integer and 0 < self.bits < 8

    @property
    def per_byte(self) -> int:
        """How many elements share a byte in memory; 1 for types of whole bytes."""
        return 8 // self.bits if self.is_subbyte else 1

    @property
    def in_registers(self) -> ScalarType:
        """The type of an element that was loaded: that of 8 bits for integers below, else the type itself."""
        return (I8 if self.kind == "signed" else U8) if self.is_subbyte else self

    def bytes_of(self, elements: int) -> int:
        """Return how many bytes so many elements take, one after another."""
        return -(-elements // self.per_byte) * self.bytes

    @property
    def part(self) -> ScalarType:
        """The type of the real and the imaginary part of a complex type; of others the type itself."""
        return {"c32": F32, "c64": F64}.get(self.name, self)

    @property
    def is_integer(self) -> bool:
        """True for signed and unsigned integers (index included), false for i1."""
        return self.kind in ("signed", "unsigned")

    @property
    def is_float(self) -> bool:
        """True for real floating-point types."""
        return self.kind == "float"

    @property
    def is_complex(self) -> bool:
        """True for complex types."""
        return self.kind == "complex"

    @property
    def is_boolean(self) -> bool:
        """True for i1."""
        return self.kind == "boolean"

    @property
    def minimum(self) -> int:
        """Smallest value of an integer type."""
        return -(1 << (self.bits - 1)) if self.kind == "signed" else 0

    @property
    def maximum(self) -> int:
        """Largest value of an integer or boolean type."""
        return (1 << (self.bits - 1)) - 1 if self.kind == "signed" else (1 << self.bits) - 1


I1 = ScalarType("i1", 1, "boolean", "bool")
I2 = ScalarType("i2", 2, "signed", "uint8")
I4 = ScalarType("i4", 4, "signed", "uint8")
I8 = ScalarType("i8", 8, "signed", "int8")
I16 = ScalarType("i16", 16, "signed", "int16")
I32 = ScalarType("i32", 32, "signed", "int32")
I64 = ScalarType("i64", 64, "signed", "int64")
INDEX = ScalarType("index", 64, "signed", "int64")
U2 = ScalarType("u2", 2, "unsigned", "uint8")
U4 = ScalarType("u4", 4, "unsigned", "uint8")
U8 = ScalarType("u8", 8, "unsigned", "uint8")
U16 = ScalarType("u16", 16, "unsigned", "uint16")
U32 = ScalarType("u32", 32, "unsigned", "uint32")
U64 = ScalarType("u64", 64, "unsigned", "uint64")
F16 = ScalarType("f16", 16, "float", "float16", mantissa=11, exponent=5)
BF16 = ScalarType("bf16", 16, "float", "uint16", mantissa=8, exponent=8)
F32 = ScalarType("f32", 32, "float", "float32", mantissa=24, exponent=8)
F64 = ScalarType("f64", 64, "float", "float64", mantissa=53, exponent=11)
C32 = ScalarType("c32", 64, "complex", "complex64", mantissa=24, exponent=8)
C64 = ScalarType("c64", 128, "complex", "complex128", mantissa=53, exponent=11)

#: Every scalar type by its spelling; ``bool`` is the older reference's spelling of ``i1``.
SCALAR_TYPES: dict[str, ScalarType] = {
    t.name: t for t in (I1, I2, I4, I8, I16, I32, I64, INDEX, U2, U4, U8, U16, U32, U64, F16, BF16, F32, F64, C32, C64)
} | {"bool": I1}


def is_lossless(source: ScalarType, target: ScalarType) -> bool:
    """Return whether every value of `source` is exactly a value of `target` of the same or a wider kind.

    This is the promotion that linear-algebra operands may use: i8 → i32, u8 → i32, f32 → f64, f16 → f32,
    bf16 → f32, f32 → c32; also integers into floats whose significand holds them (i16 → f32, i8 → f16).
    """
    if source == target or {source, target} == {I64, INDEX}:
        return True
    if source.is_boolean or target.is_boolean:
        return False
    if target.is_integer:
        return source.is_integer and target.minimum <= source.minimum and source.maximum <= target.maximum
    if source.is_integer:
        return source.bits - (source.kind == "signed") <= target.mantissa
    if source.is_complex and not target.is_complex:
        return False
    return source.mantissa <= target.mantissa and source.exponent <= target.exponent


def rounded_number(scalar: ScalarType, value: float) -> float:
    """Return a Python float rounded to f16 or bf16, infinite beyond the largest value; unchanged for other types."""
    if scalar not in (F16, BF16):
        return value
    try:
        if scalar == F16:
            return float(struct.unpack("e", struct.pack("e", value))[0])
        (word,) = struct.unpack("I", struct.pack("f", value))
    except OverflowError:
        return math.copysign(math.inf, value)
    if math.isnan(value):
        return value
    # Half a unit in the last place, less one, and the last bit that is kept: ties go to even.
    word += 0x7FFF + (word >> 16 & 1)
    return float(struct.unpack("f", struct.pack("I", word & 0xFFFF0000))[0])
