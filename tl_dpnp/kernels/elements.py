"""Elements in memory and values in registers: what is stored otherwise than it is computed."""

from __future__ import annotations

from llvmlite import ir

from tl_dpnp.kernels.llvm import I8, constant, lanes, vector_of
from tl_dpnp.kernels.narrow_floats import NARROW, narrowed, widened
from tl_dpnp.scalars import ScalarType

__all__ = ["from_storage", "load_element", "store_element", "to_storage"]


def from_storage(builder: ir.IRBuilder, scalar: ScalarType, stored: ir.Value) -> ir.Value:
    """Return what was loaded, scalar or vector, as a value: i1 is a byte in memory, f16 and bf16 take 16 bits."""
    if scalar.is_boolean:
        return builder.icmp_unsigned("!=", stored, constant(stored.type, 0))
    return widened(builder, scalar, stored) if scalar in NARROW else stored


def to_storage(builder: ir.IRBuilder, scalar: ScalarType, value: ir.Value) -> ir.Value:
    """Return a value, scalar or vector, as it is stored."""
    if scalar.is_boolean:
        return builder.zext(value, vector_of(I8, lanes(value.type)))
    return narrowed(builder, scalar, value) if scalar in NARROW else value


def load_element(
    builder: ir.IRBuilder, scalar: ScalarType, pointer: ir.Value, width: int = 1, alignment: int = 1
) -> ir.Value:
    """Load one element, or `width` consecutive ones as a vector; `pointer` points to `storage_type(scalar)`.

    `alignment` is that of the address in bytes, where it is known to be more than that of an element.
    """
    if width > 1:
        vector = ir.VectorType(pointer.type.pointee, width)
        pointer = builder.bitcast(pointer, vector.as_pointer(pointer.type.addrspace))
    value = builder.load(pointer, align=max(scalar.bytes, alignment))
    return from_storage(builder, scalar, value)


def store_element(
    builder: ir.IRBuilder, scalar: ScalarType, value: ir.Value, pointer: ir.Value, alignment: int = 1
) -> None:
    """Store a scalar, or a vector to consecutive elements; `alignment` as in `load_element`."""
    width = lanes(value.type)
    value = to_storage(builder, scalar, value)
    if width > 1:
        pointer = builder.bitcast(pointer, value.type.as_pointer(pointer.type.addrspace))
    builder.store(value, pointer, align=max(scalar.bytes, alignment))
