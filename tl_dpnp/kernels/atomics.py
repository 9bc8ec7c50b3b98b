"""Atomic accesses to one element in global or local memory, in device scope.

Of a complex number the parts are accessed one after the other (tensor language reference 0.4, section "Atomic update");
each is atomic by itself.

They are relaxed: they promise atomicity, and the order with other memory comes from barriers and from the end
of the kernel.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from tl_dpnp.kernels.complex_numbers import complex_of, part_of
from tl_dpnp.kernels.elements import from_storage, load_element, store_element, to_storage
from tl_dpnp.kernels.llvm import I64, PRIVATE, index, storage_type
from tl_dpnp.kernels.narrow_floats import rounded
from tl_dpnp.kernels.scalar_ops import mathematics
from tl_dpnp.kernels.targets import target_of
from tl_dpnp.scalars import ScalarType

__all__ = ["atomic_add", "atomic_exchange", "atomic_load", "atomic_replace", "atomic_update", "parts_of"]

#: Sizes with native instructions; smaller elements are parts of a 32-bit word that is compared and exchanged.
_NATIVE = (32, 64)
_WORD = ir.IntType(32)


def atomic_add(builder: ir.IRBuilder, scalar: ScalarType, pointer: ir.Value, value: ir.Value) -> None:
    """Add `value` to the element at `pointer`."""
    if scalar.is_complex:
        for part, place in enumerate(parts_of(builder, scalar, pointer)):
            atomic_add(builder, scalar.part, place, part_of(builder, value, part))
    elif pointer.type.addrspace == PRIVATE:
        store_element(builder, scalar, _plus(builder, scalar, load_element(builder, scalar, pointer), value), pointer)
    elif scalar.bits not in _NATIVE:
        atomic_replace(builder, scalar, pointer, lambda old: _plus(builder, scalar, old, value))
    else:
        target_of(builder).atomic_add(builder, scalar, pointer, value)


def _plus(builder: ir.IRBuilder, scalar: ScalarType, a: ir.Value, b: ir.Value) -> ir.Value:
    return rounded(builder, scalar, builder.fadd(a, b)) if scalar.is_float else builder.add(a, b)


def atomic_exchange(builder: ir.IRBuilder, scalar: ScalarType, pointer: ir.Value, value: ir.Value) -> None:
    """Write `value` to the element at `pointer`, without reading it."""
    space = pointer.type.addrspace
    if scalar.is_complex:
        for part, place in enumerate(parts_of(builder, scalar, pointer)):
            atomic_exchange(builder, scalar.part, place, part_of(builder, value, part))
    elif space == PRIVATE:
        store_element(builder, scalar, value, pointer)
    elif scalar.bits not in _NATIVE:
        atomic_replace(builder, scalar, pointer, lambda old: value)
    else:
        word = ir.IntType(scalar.bits)
        place = builder.bitcast(pointer, word.as_pointer(space))
        target_of(builder).atomic_exchange(builder, place, builder.bitcast(value, word))


def parts_of(builder: ir.IRBuilder, scalar: ScalarType, pointer: ir.Value) -> list[ir.Value]:
    """Return pointers to the parts of a complex number."""
    place = builder.bitcast(pointer, storage_type(scalar.part).as_pointer(pointer.type.addrspace))
    return [builder.gep(place, [index(part)]) for part in (0, 1)]


def atomic_replace(
    builder: ir.IRBuilder, scalar: ScalarType, pointer: ir.Value, update: Callable[[ir.Value], ir.Value]
) -> None:
    """Replace the element at `pointer` by ``update(old)`` with a compare-exchange loop."""
    if pointer.type.addrspace == PRIVATE:
        store_element(builder, scalar, update(load_element(builder, scalar, pointer)), pointer)
    else:
        _replace(builder, scalar, pointer, update)


def atomic_load(builder: ir.IRBuilder, scalar: ScalarType, pointer: ir.Value) -> ir.Value:
    """Return the element at `pointer`."""
    if scalar.is_complex:
        return complex_of(builder, *(
            atomic_load(builder, scalar.part, place) for place in parts_of(builder, scalar, pointer)
        ))
    if pointer.type.addrspace == PRIVATE:
        return load_element(builder, scalar, pointer)
    place, shift = _word_of(builder, scalar, pointer)
    return _element(builder, scalar, target_of(builder).atomic_load(builder, place), shift)


def atomic_update(
    builder: ir.IRBuilder, kind: str, scalar: ScalarType, pointer: ir.Value, value: ir.Value
) -> ir.Value:
    """Add `value` to the element at `pointer`, or make it the ``min`` or ``max`` of both; return what it was before."""
    def combine(old: ir.Value) -> ir.Value:
        if kind == "add":
            return _plus(builder, scalar, old, value)
        return mathematics(builder, kind, scalar, [old, value])

    if scalar.is_complex:
        return complex_of(builder, *(
            atomic_update(builder, kind, scalar.part, place, part_of(builder, value, part))
            for part, place in enumerate(parts_of(builder, scalar, pointer))
        ))
    if pointer.type.addrspace == PRIVATE:
        old = load_element(builder, scalar, pointer)
        store_element(builder, scalar, combine(old), pointer)
        return old
    if kind == "add" and scalar.bits in _NATIVE:
        return target_of(builder).fetch_add(builder, scalar, pointer, value)
    return _element(builder, scalar, *_replace(builder, scalar, pointer, combine))


def _word_of(builder: ir.IRBuilder, scalar: ScalarType, pointer: ir.Value) -> tuple[ir.Value, ir.Value | None]:
    """Return a pointer to the word that an element is or lies in, and then by how many bits it is shifted there."""
    space = pointer.type.addrspace
    if scalar.bits in _NATIVE:
        word = ir.IntType(scalar.bits)
        return builder.bitcast(pointer, word.as_pointer(space)), None
    # The element lies within an aligned 32-bit word; the other bytes of it are written back as they were read.
    address = builder.ptrtoint(pointer, I64)
    aligned = builder.and_(address, ir.Constant(I64, -4))
    target = builder.inttoptr(aligned, _WORD.as_pointer(space))
    return target, builder.trunc(builder.shl(builder.sub(address, aligned), ir.Constant(I64, 3)), _WORD)


def _element(builder: ir.IRBuilder, scalar: ScalarType, word: ir.Value, shift: ir.Value | None) -> ir.Value:
    """Return the element that a word is, or has at `shift`."""
    if shift is None:
        return builder.bitcast(word, storage_type(scalar))
    bits = builder.trunc(builder.lshr(word, shift), ir.IntType(8 * scalar.bytes))
    return from_storage(builder, scalar, builder.bitcast(bits, storage_type(scalar)))


def _replace(
    builder: ir.IRBuilder, scalar: ScalarType, pointer: ir.Value, update: Callable[[ir.Value], ir.Value]
) -> tuple[ir.Value, ir.Value | None]:
    """Replace an element in global or local memory; return the word that was there, and where the element lies in it.
    """
    target, shift = _word_of(builder, scalar, pointer)
    word = target.type.pointee
    initial = builder.load(target, align=word.width // 8)
    before = builder.block
    loop, after = builder.append_basic_block("exchange"), builder.append_basic_block("exchanged")
    builder.branch(loop)
    builder.position_at_end(loop)
    expected = builder.phi(word)
    expected.add_incoming(initial, before)
    if shift is None:
        new = builder.bitcast(update(_element(builder, scalar, expected, shift)), word)
    else:
        mask = builder.shl(ir.Constant(word, (1 << 8 * scalar.bytes) - 1), shift)
        value = update(_element(builder, scalar, expected, shift))
        bits = builder.bitcast(to_storage(builder, scalar, value), ir.IntType(8 * scalar.bytes))
        placed = builder.shl(builder.zext(bits, word), shift)
        new = builder.or_(builder.and_(expected, builder.not_(mask)), placed)
    seen = target_of(builder).compare_exchange(builder, target, expected, new)
    expected.add_incoming(seen, builder.block)
    builder.cbranch(builder.icmp_unsigned("==", seen, expected), after, loop)
    builder.position_at_end(after)
    return expected, shift
