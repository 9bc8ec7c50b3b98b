"""The small intrinsics that the body of any kernel may call: scalar operations, element accesses, work-item functions.

Each is made on demand.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tl_dpnp.kernels import atomics, complex_numbers, scalar_ops
from tl_dpnp.kernels.amx.rows import Palette
from tl_dpnp.kernels.amx.tiles import configure, release
from tl_dpnp.kernels.elements import load_element, load_subbyte, store_element
from tl_dpnp.kernels.llvm import (
    GLOBAL,
    I8,
    I64,
    LOCAL,
    PRIVATE,
    Intrinsic,
    constant,
    index,
    storage_type,
)
from tl_dpnp.kernels.targets import target_of
from tl_dpnp.scalars import I1, INDEX, ScalarType

__all__ = [
    "arithmetic", "atomic_access", "barrier", "check", "comparison", "complex_of", "configure_tiles", "conversion",
    "element_load", "element_store", "first_group", "fits", "group_id", "is_leader", "lane", "mathematics",
    "memory_pointer", "part", "release_tiles", "reinterpretation", "sub_group", "trip_count", "unary", "work_item",
]

_SPACES = {GLOBAL: "", LOCAL: "_local", PRIVATE: "_private"}


def arithmetic(kind: str, scalar: ScalarType) -> Intrinsic:
    """``<kind>_<type>(a, b)``."""
    return Intrinsic(
        f"{kind}_{scalar}", (scalar, scalar), scalar, lambda b, a: scalar_ops.arithmetic(b, kind, scalar, a[0], a[1])
    )


def unary(kind: str, scalar: ScalarType) -> Intrinsic:
    """``neg_<type>(a)``, ``not_<type>(a)`` and ``conj_<type>(a)``."""
    return Intrinsic(f"{kind}_{scalar}", (scalar,), scalar, lambda b, a: scalar_ops.unary(b, kind, scalar, a[0]))


def comparison(kind: str, scalar: ScalarType) -> Intrinsic:
    """``cmp_<kind>_<type>(a, b)``."""
    return Intrinsic(
        f"cmp_{kind}_{scalar}", (scalar, scalar), I1, lambda b, a: scalar_ops.compare(b, kind, scalar, a[0], a[1])
    )


def complex_of(scalar: ScalarType) -> Intrinsic:
    """``<type>_of(re, im)``."""
    return Intrinsic(f"{scalar}_of", (scalar.part,) * 2, scalar, lambda b, a: complex_numbers.complex_of(b, a[0], a[1]))


def part(number: int, scalar: ScalarType) -> Intrinsic:
    """``re_<type>(a)``, number 0, and ``im_<type>(a)``, number 1."""
    name = f"{('re', 'im')[number]}_{scalar}"
    return Intrinsic(name, (scalar,), scalar.part, lambda b, a: complex_numbers.part_of(b, a[0], number))


def configure_tiles(palette: Palette) -> Intrinsic:
    """``configure_tiles()``: sets the shapes of all tiles, until ``release_tiles()``."""
    return Intrinsic("configure_tiles", (), None, lambda b, _: configure(b, palette))


def release_tiles() -> Intrinsic:
    """``release_tiles()``."""
    return Intrinsic("release_tiles", (), None, lambda b, _: release(b))


def conversion(source: ScalarType, target: ScalarType) -> Intrinsic:
    """``<target>_from_<source>(a)``; with equal types it gives a literal its type."""
    name = f"{target}_from_{source}" if source != target else f"{target}"
    return Intrinsic(name, (source,), target, lambda b, a: scalar_ops.convert(b, source, target, a[0]))


def reinterpretation(source: ScalarType, target: ScalarType) -> Intrinsic:
    """``<target>_of_bits_<source>(a)``."""
    name = f"{target}_of_bits_{source}"
    return Intrinsic(name, (source,), target, lambda b, a: scalar_ops.reinterpret(b, source, target, a[0]))


def mathematics(kind: str, scalar: ScalarType, arity: int) -> Intrinsic:
    """``math_<kind>_<type>(...)``."""
    return Intrinsic(
        f"math_{kind}_{scalar}", (scalar,) * arity, scalar,
        lambda b, a: scalar_ops.mathematics(b, kind, scalar, list(a)),
    )


def memory_pointer(
    builder: ir.IRBuilder, scalar: ScalarType, space: int, address: ir.Value, local_memory: int
) -> ir.Value:
    """Return a pointer to elements of `scalar`.

    In global memory `address` is an address; elsewhere it is a byte offset into the work-group's temporary memory of
    `local_memory` bytes: a variable in local memory, or in the sub-group form's absence the work-item's own stack.
    """
    type_ = storage_type(scalar)
    if space == GLOBAL:
        return builder.inttoptr(address, type_.as_pointer(GLOBAL))
    block = target_of(builder).local_memory if space == LOCAL else _private_memory
    return builder.bitcast(builder.gep(block(builder, local_memory), [address]), type_.as_pointer(space))


def _private_memory(builder: ir.IRBuilder, size: int) -> ir.Value:
    entry = builder.function.entry_basic_block
    for instruction in entry.instructions:
        if instruction.name == "private_memory":
            return builder.gep(instruction, [index(0), index(0)])
    with builder.goto_block(entry):
        if entry.instructions:
            builder.position_before(entry.instructions[0])
        block = builder.alloca(ir.ArrayType(I8, size), name="private_memory")
        block.align = 64
    return builder.gep(block, [index(0), index(0)])


def element_load(scalar: ScalarType, space: int, local_memory: int) -> Intrinsic:
    """``load_<type>(address, offset)``: the element at an offset in elements, of 8 bits if it has fewer in memory."""
    def emit(b: ir.IRBuilder, a: Sequence[ir.Value]) -> ir.Value:
        pointer = memory_pointer(b, scalar, space, a[0], local_memory)
        if scalar.is_subbyte:
            return load_subbyte(b, scalar, pointer, a[1])
        return load_element(b, scalar, b.gep(pointer, [a[1]]))

    return Intrinsic(f"load_{scalar}{_SPACES[space]}", (INDEX, INDEX), scalar.in_registers, emit)


def element_store(scalar: ScalarType, space: int, local_memory: int) -> Intrinsic:
    """``store_<type>(value, address, offset)``."""
    def emit(b: ir.IRBuilder, a: Sequence[ir.Value]) -> None:
        pointer = b.gep(memory_pointer(b, scalar, space, a[1], local_memory), [a[2]])
        store_element(b, scalar, a[0], pointer)

    return Intrinsic(f"store_{scalar}{_SPACES[space]}", (scalar, INDEX, INDEX), None, emit)


def atomic_access(kind: str, scalar: ScalarType, space: int, local_memory: int, is_ordered: bool) -> Intrinsic:
    """``atomic_<kind>_<type>([value,] address, offset)``, where `kind` is load, store, add, min or max.

    One that `is_ordered` stands between fences, which are at least what any semantics ask for.
    """
    def emit(b: ir.IRBuilder, a: Sequence[ir.Value]) -> ir.Value | None:
        *values, address, offset = a
        pointer = b.gep(memory_pointer(b, scalar, space, address, local_memory), [offset])
        fences = target_of(b).fence if is_ordered and space != PRIVATE else lambda b: None
        result = None
        fences(b)
        if kind == "load":
            result = atomics.atomic_load(b, scalar, pointer)
        elif kind == "store":
            atomics.atomic_exchange(b, scalar, pointer, *values)
        else:
            result = atomics.atomic_update(b, kind, scalar, pointer, *values)
        fences(b)
        return result

    operands = () if kind == "load" else (scalar,)
    name = f"atomic_{kind}_{scalar}{_SPACES[space]}{'_ordered' * is_ordered}"
    return Intrinsic(name, (*operands, INDEX, INDEX), None if kind == "store" else scalar, emit)


def group_id() -> Intrinsic:
    """``group_id()``: the work-group, along SYCL's dimension 0, which is OpenCL's dimension 1."""
    return Intrinsic("group_id", (), INDEX, lambda b, _: target_of(b).group_index(b, 1))


def first_group(chunk: str = "first_group") -> Intrinsic:
    """``first_group(chunk)``: the first work-group of the language that this work-item computes."""
    return Intrinsic(chunk, (INDEX,), INDEX, lambda b, a: b.mul(target_of(b).group_index(b, 0), a[0]))


def work_item(lanes: int) -> Intrinsic:
    """``work_item()``: the index of this work-item in its work-group."""
    def emit(b: ir.IRBuilder, _: object) -> ir.Value:
        target = target_of(b)
        return b.add(target.item_index(b, 0), b.mul(target.item_index(b, 1), index(lanes)))

    return Intrinsic("work_item", (), INDEX, emit)


def sub_group() -> Intrinsic:
    """``sub_group()``: the index of the sub-group of this work-item in the work-group."""
    return Intrinsic("sub_group", (), INDEX, lambda b, _: target_of(b).item_index(b, 1))


def lane() -> Intrinsic:
    """``lane()``: the index of this work-item in its sub-group."""
    return Intrinsic("lane", (), INDEX, lambda b, _: target_of(b).item_index(b, 0))


def is_leader() -> Intrinsic:
    """``is_leader()``: whether this is the one work-item that stores for all of them."""
    def emit(b: ir.IRBuilder, _: object) -> ir.Value:
        target = target_of(b)
        ids = b.or_(target.item_index(b, 0), target.item_index(b, 1))
        return b.icmp_unsigned("==", ids, index(0))

    return Intrinsic("is_leader", (), I1, emit)


def barrier() -> Intrinsic:
    """``barrier()``: orders local and global memory within the work-group."""
    return Intrinsic("barrier", (), None, lambda b, _: target_of(b).barrier(b), waits=True)


#: How a check compares a value with its bound: signed or not, and the predicate.
_CHECKS = {
    "bounds": ("unsigned", "<"), "most": ("unsigned", "<="), "least": ("signed", ">="), "equal": ("unsigned", "=="),
    "differs": ("unsigned", "!="),
}
#: Kinds of checks that divisors take.
_OF_DIVISORS = ("least", "differs")


def check(kind: str, fields: int) -> Intrinsic:
    """``check_<kind>(record, number, group, value, bound)``: whether the check holds; records the first failure.

    ``bounds`` is 0 ≤ value < bound, ``most`` 0 ≤ value ≤ bound, ``least`` value ≥ bound.  The record has `fields`
    entries, and as many again, the first of which stays 0.
    """
    def emit(b: ir.IRBuilder, a: Sequence[ir.Value]) -> ir.Value:
        sign, predicate = _CHECKS[kind]
        value = a[3]
        if kind in _OF_DIVISORS:
            # LLVM must not learn that a divisor is not 0: it would drop what guards the division, which the OpenCL CPU
            # runtime moves in front of the check.
            record = b.inttoptr(a[0], I64.as_pointer(GLOBAL))
            value = b.or_(value, b.load(b.gep(record, [index(fields)]), align=8))
        return _check(b, a, getattr(b, f"icmp_{sign}")(predicate, value, a[4]), fields)

    return Intrinsic(f"check_{kind}", (INDEX,) * 5, I1, emit)


def fits(source: ScalarType, target: ScalarType) -> Intrinsic:
    """``<target>_holds_<source>(a)``: 1 if a float is in the range of an integer type once truncated, else 0."""
    def emit(b: ir.IRBuilder, a: Sequence[ir.Value]) -> ir.Value:
        return b.zext(scalar_ops.is_in_range(b, source, target, a[0]), I64)

    return Intrinsic(f"{target}_holds_{source}", (source,), INDEX, emit)


def trip_count(scalar: ScalarType) -> Intrinsic:
    """``trips_<type>(start, stop, step)``: how often a loop runs, as an unsigned number; 0 for a step below 1.

    The bounds are of the 64-bit type `scalar`, and no step between them overflows.
    """
    def emit(b: ir.IRBuilder, a: Sequence[ir.Value]) -> ir.Value:
        start, stop, step = a
        compare = b.icmp_signed if scalar.kind == "signed" else b.icmp_unsigned
        advances = compare(">", step, index(0))
        distance = b.sub(b.sub(stop, start), index(1))
        trips = b.add(b.udiv(distance, b.select(advances, step, index(1))), index(1))
        return b.select(b.and_(advances, compare("<", start, stop)), trips, index(0))

    return Intrinsic(f"trips_{scalar}", (INDEX,) * 3, INDEX, emit)


def _check(builder: ir.IRBuilder, arguments: Sequence[ir.Value], holds: ir.Value, fields: int) -> ir.Value:
    """Record a failure, if it is the first one, and return `holds`.

    Later failures are written to the second half of the record, which nobody reads, rather than branched around: all
    work-items of a work-group take the branch of a check together, and vectorizers of CPUs had better see that.
    """
    record = builder.inttoptr(arguments[0], I64.as_pointer(GLOBAL))
    with builder.if_then(builder.not_(holds), likely=False):
        seen = target_of(builder).compare_exchange(builder, record, index(0), index(1))
        is_first = builder.icmp_unsigned("==", seen, constant(I64, 0))
        start = builder.select(is_first, index(0), index(fields))
        for position, value in enumerate(arguments[1:], start=1):
            place = builder.add(start, index(position))
            builder.store(value, builder.gep(record, [place]), align=8)
    return holds
