"""Atomic updates of one element in global or local memory: out := x + beta · out, in device scope.

Sources: SPIR-V specification, sections 3.27 (Scope), 3.25 (Memory Semantics) and 3.42.18 (Atomic Instructions);
SPV_EXT_shader_atomic_float_add for the addition of floats.  The updates are relaxed: they promise atomicity, and
the order with other memory comes from barriers and from the end of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from tl_dpnp.kernels.llvm import I1, I32, I64, PRIVATE, builtin, constant, load_element, storage_type, store_element
from tl_dpnp.scalars import ScalarType

__all__ = ["atomic_add", "atomic_exchange", "atomic_replace"]

_DEVICE, _RELAXED = 1, 0
_LETTERS = {32: "i", 64: "l"}
#: The types with native instructions; the others are parts of a 32-bit word that is compared and exchanged.
_WORD = ir.IntType(32)


def _ordering(count: int) -> list[ir.Value]:
    return [ir.Constant(I32, _DEVICE), *[ir.Constant(I32, _RELAXED)] * count]


def _integer(bits: int) -> ir.IntType:
    return ir.IntType(bits)


def atomic_add(builder: ir.IRBuilder, scalar: ScalarType, pointer: ir.Value, value: ir.Value) -> None:
    """Add `value` to the element at `pointer`."""
    space = pointer.type.addrspace
    if space == PRIVATE:
        store_element(builder, scalar, _plus(builder, scalar, load_element(builder, scalar, pointer), value), pointer)
    elif scalar.bits not in _LETTERS:
        atomic_replace(builder, scalar, pointer, lambda old: _plus(builder, scalar, old, value))
    elif scalar.is_float:
        letter = "f" if scalar.bits == 32 else "d"
        name = f"_Z21__spirv_AtomicFAddEXTPU3AS{space}{letter}jj{letter}"
        builtin(builder, name, value.type, [pointer, *_ordering(1), value])
    else:
        letter = _LETTERS[scalar.bits]
        name = f"_Z18__spirv_AtomicIAddPU3AS{space}{letter}jj{letter}"
        builtin(builder, name, value.type, [pointer, *_ordering(1), value])


def _plus(builder: ir.IRBuilder, scalar: ScalarType, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.fadd(a, b) if scalar.is_float else builder.add(a, b)


def atomic_exchange(builder: ir.IRBuilder, scalar: ScalarType, pointer: ir.Value, value: ir.Value) -> None:
    """Write `value` to the element at `pointer`, without reading it."""
    space = pointer.type.addrspace
    if space == PRIVATE:
        store_element(builder, scalar, value, pointer)
    elif scalar.bits not in _LETTERS:
        atomic_replace(builder, scalar, pointer, lambda old: value)
    else:
        word = _integer(scalar.bits)
        letter = _LETTERS[scalar.bits]
        name = f"_Z22__spirv_AtomicExchangePU3AS{space}{letter}jj{letter}"
        target = builder.bitcast(pointer, word.as_pointer(space))
        builtin(builder, name, word, [target, *_ordering(1), builder.bitcast(value, word)])


def atomic_replace(
    builder: ir.IRBuilder, scalar: ScalarType, pointer: ir.Value, update: Callable[[ir.Value], ir.Value]
) -> None:
    """Replace the element at `pointer` by ``update(old)`` with a compare-exchange loop."""
    space = pointer.type.addrspace
    if space == PRIVATE:
        store_element(builder, scalar, update(load_element(builder, scalar, pointer)), pointer)
        return
    narrow = storage_type(scalar)
    if scalar.bits in _LETTERS:
        word = _integer(scalar.bits)
        target = builder.bitcast(pointer, word.as_pointer(space))
        shift = None
    else:
        # The element lies within an aligned 32-bit word; the other bytes of it are written back as they were read.
        word = _WORD
        address = builder.ptrtoint(pointer, I64)
        aligned = builder.and_(address, ir.Constant(I64, -4))
        target = builder.inttoptr(aligned, word.as_pointer(space))
        shift = builder.trunc(builder.shl(builder.sub(address, aligned), ir.Constant(I64, 3)), word)
    initial = builder.load(target, align=word.width // 8)
    before = builder.block
    loop, after = builder.append_basic_block("exchange"), builder.append_basic_block("exchanged")
    builder.branch(loop)
    builder.position_at_end(loop)
    expected = builder.phi(word)
    expected.add_incoming(initial, before)
    if shift is None:
        new = builder.bitcast(update(builder.bitcast(expected, narrow)), word)
    else:
        mask = builder.shl(ir.Constant(word, (1 << 8 * scalar.bytes) - 1), shift)
        old = builder.trunc(builder.lshr(expected, shift), narrow)
        old = builder.icmp_unsigned("!=", old, constant(narrow, 0)) if scalar.is_boolean else old
        value = update(old)
        if value.type == I1:
            value = builder.zext(value, narrow)
        placed = builder.shl(builder.zext(value, word), shift)
        new = builder.or_(builder.and_(expected, builder.not_(mask)), placed)
    letter = _LETTERS[word.width]
    name = f"_Z29__spirv_AtomicCompareExchangePU3AS{space}{letter}jjj{letter}{letter}"
    seen = builtin(builder, name, word, [target, *_ordering(2), new, expected])
    expected.add_incoming(seen, builder.block)
    builder.cbranch(builder.icmp_unsigned("==", seen, expected), after, loop)
    builder.position_at_end(after)
