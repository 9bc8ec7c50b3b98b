"""Elements in memory and values in registers: what is stored otherwise than it is computed."""

from __future__ import annotations

from llvmlite import ir

from tl_dpnp.kernels.llvm import (
    I8,
    constant,
    each_part,
    get_lane,
    index,
    lanes,
    masked_load,
    masked_store,
    set_lane,
    shuffle,
    splat,
    vector_of,
)
from tl_dpnp.kernels.narrow_floats import NARROW, narrowed, widened
from tl_dpnp.kernels.targets import target_of
from tl_dpnp.scalars import ScalarType

__all__ = [
    "alignment_of", "from_storage", "load_element", "load_lanes", "load_subbyte", "load_subbytes", "store_element",
    "store_lanes", "to_storage",
]


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


def alignment_of(builder: ir.IRBuilder, scalar: ScalarType) -> int:
    """Return what addresses of elements are multiples of, in bytes."""
    return (scalar if target_of(builder).aligns_pairs else scalar.part).bytes


def load_element(
    builder: ir.IRBuilder, scalar: ScalarType, pointer: ir.Value, width: int = 1, alignment: int = 1,
    active: ir.Value | None = None,
) -> ir.Value:
    """Load one element, or `width` consecutive ones as a vector; `pointer` points to `storage_type(scalar)`.

    `alignment` is that of the address in bytes, where it is known to be more than that of an element.  Where `active`
    says so, a vector of i1, only some lanes are read, and the others are 0.
    """
    if width > 1:
        vector = vector_of(pointer.type.pointee, width)
        pointer = builder.bitcast(pointer, vector.as_pointer(pointer.type.addrspace))
    alignment = max(alignment_of(builder, scalar), alignment)
    if active is not None:
        value = masked_load(builder, pointer, each_part(builder, active, pointer.type.pointee), alignment)
    else:
        value = builder.load(pointer, align=alignment)
    return from_storage(builder, scalar, value)


def store_element(
    builder: ir.IRBuilder, scalar: ScalarType, value: ir.Value, pointer: ir.Value, alignment: int = 1,
    active: ir.Value | None = None,
) -> None:
    """Store a scalar, or a vector to consecutive elements; `alignment` and `active` as in `load_element`."""
    width = lanes(value.type)
    value = to_storage(builder, scalar, value)
    if width > 1:
        pointer = builder.bitcast(pointer, value.type.as_pointer(pointer.type.addrspace))
    alignment = max(alignment_of(builder, scalar), alignment)
    if active is not None:
        masked_store(builder, value, pointer, each_part(builder, active, value.type), alignment)
    else:
        builder.store(value, pointer, align=alignment)


def load_lanes(
    builder: ir.IRBuilder, scalar: ScalarType, pointer: ir.Value, step: ir.Value, width: int, count: int
) -> ir.Value:
    """Load the first `count` elements of a vector one by one, each `step` elements behind the one before."""
    stored = constant(vector_of(pointer.type.pointee, width), 0)
    for lane in range(count):
        place = builder.gep(pointer, [builder.mul(step, index(lane))])
        stored = set_lane(builder, stored, builder.load(place, align=alignment_of(builder, scalar)), lane)
    return from_storage(builder, scalar, stored)


def store_lanes(
    builder: ir.IRBuilder, scalar: ScalarType, value: ir.Value, pointer: ir.Value, step: ir.Value, count: int
) -> None:
    """Store the first `count` elements of a vector one by one, as `load_lanes` loads them."""
    stored = to_storage(builder, scalar, value)
    for lane in range(count):
        place = builder.gep(pointer, [builder.mul(step, index(lane))])
        builder.store(get_lane(builder, stored, lane), place, align=alignment_of(builder, scalar))


def load_subbyte(builder: ir.IRBuilder, scalar: ScalarType, pointer: ir.Value, place: ir.Value | int) -> ir.Value:
    """Load one integer below 8 bits as one of 8 bits: the `place`-th from the lowest bits of the byte at `pointer` on.

    A `place` of 64 bits may lie in a later byte.
    """
    last = scalar.per_byte - 1
    if isinstance(place, int):
        byte, number = index(place // scalar.per_byte), index(place & last)
    else:
        byte = builder.lshr(place, index(last.bit_length()))
        number = builder.and_(place, index(last))
    stored = builder.load(builder.gep(pointer, [byte]), align=1)
    return _field(builder, scalar, stored, builder.trunc(number, I8))


def load_subbytes(builder: ir.IRBuilder, scalar: ScalarType, pointer: ir.Value, width: int) -> ir.Value:
    """Load a vector of integers below 8 bits that fill whole bytes, as a vector of integers of 8 bits."""
    count = width // scalar.per_byte
    if count == 1:
        stored = splat(builder, builder.load(pointer, align=1), width)
    else:
        vector = ir.VectorType(I8, count)
        stored = builder.load(builder.bitcast(pointer, vector.as_pointer(pointer.type.addrspace)), align=1)
        stored = shuffle(builder, stored, [], [lane // scalar.per_byte for lane in range(width)])
    places = [ir.Constant(I8, lane % scalar.per_byte) for lane in range(width)]
    return _field(builder, scalar, stored, ir.Constant(ir.VectorType(I8, width), places))


def _field(builder: ir.IRBuilder, scalar: ScalarType, stored: ir.Value, place: ir.Value) -> ir.Value:
    """Return the fields of bytes at some places: shifted to the highest bits, and back to extend the sign."""
    rest = constant(stored.type, 8 - scalar.bits)
    left = builder.sub(rest, builder.mul(place, constant(stored.type, scalar.bits)))
    return (builder.ashr if scalar.kind == "signed" else builder.lshr)(builder.shl(stored, left), rest)
