"""LLVM building blocks shared by all emitters: types, OpenCL builtins, loops, memory accesses.

LLVM 14 as llvmlite 0.42 writes it: typed pointers, and the SPIR address spaces 1 (global) and 3 (local).
Vector widths are those of SPIR-V: 2, 4, 8 and 16 lanes (SPIR-V specification, section 2.16.1, Vector16 capability).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field

from llvmlite import ir

from tl_dpnp.errors import Span, UnsupportedError
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import ScalarType

__all__ = [
    "GLOBAL", "I1", "I8", "I32", "I64", "LOCAL", "MOST_LANES", "PRIVATE", "Intrinsic", "PairsType", "builtin",
    "constant", "counted_loop", "each_part", "first_lanes", "get_lane", "if_then", "index", "int32", "lanes",
    "lanes_below", "is_zero", "mangled_type", "mask_of", "masked_load", "masked_store", "most_lanes", "numbers_of",
    "power_of_two", "private_array", "select", "set_lane", "shuffle", "splat", "storage_type", "undefined",
    "value_type", "vector_of",
]

I1 = ir.IntType(1)
I8 = ir.IntType(8)
I32 = ir.IntType(32)
I64 = ir.IntType(64)
PRIVATE, GLOBAL, LOCAL = 0, 1, 3
#: Lanes of the widest vector of SPIR-V.
MOST_LANES = 16

#: f16 and bf16 are computed in f32 (`narrow_floats`).
_FLOATS = {"f32": ir.FloatType(), "f64": ir.DoubleType(), "f16": ir.FloatType(), "bf16": ir.FloatType()}
_STORED = {"i1": I8, "f16": ir.HalfType(), "bf16": ir.IntType(16)}
#: Itanium mangling of OpenCL's scalar types, by the language's names.
_MANGLED = {
    "i1": "b", "i8": "c", "u8": "h", "i16": "s", "u16": "t", "i32": "i", "u32": "j",
    "i64": "l", "index": "l", "u64": "m", "f16": "f", "bf16": "f", "f32": "f", "f64": "d",
}


class PairsType(ir.VectorType):  # type: ignore[misc]
    """So many complex numbers: in LLVM a vector of twice as many floats, the real part of each in front.

    A single one is a pair of floats, too.  For Python it is another type than a vector of real numbers, so that what
    deals with lanes finds out how many there are.
    """

    def __init__(self, part: ir.Type, pairs: int) -> None:
        super().__init__(part, 2 * pairs)
        self.pairs = pairs

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PairsType) and (self.element, self.count) == (other.element, other.count)

    def __hash__(self) -> int:
        return hash((PairsType, self.count))


@dataclass(frozen=True)
class Intrinsic:
    """A function that the body of a kernel calls and whose own body is LLVM IR written by `emit`.

    `emit(builder, arguments)` appends to the current block and returns the result, or None where `result` is None.
    `span` is the instruction that it is for, where it is for one.  One that `waits` has a barrier.  Intrinsics of one
    name are equal.
    """

    name: str
    parameters: tuple[ScalarType, ...]
    result: ScalarType | None
    emit: Callable[[ir.IRBuilder, Sequence[ir.Value]], ir.Value | None] = field(compare=False)
    span: Span | None = None
    waits: bool = field(default=False, compare=False)


def value_type(scalar: ScalarType) -> ir.Type:
    """Return the LLVM type of a value of `scalar` in a register."""
    if scalar.is_float and scalar.name in _FLOATS:
        return _FLOATS[scalar.name]
    if scalar.is_integer or scalar.is_boolean:
        return ir.IntType(scalar.in_registers.bits)
    if scalar.is_complex:
        return PairsType(value_type(scalar.part), 1)
    raise UnsupportedError(f"device targets do not compute with {scalar} yet; use target='reference'")


def storage_type(scalar: ScalarType) -> ir.Type:
    """Return the LLVM type of an element of `scalar` in memory: i1 takes a byte, f16 and bf16 take 16 bits.

    Of integers below 8 bits it is the byte that several of them share.
    """
    return _STORED[scalar.name] if scalar.name in _STORED else value_type(scalar)


def vector_of(type_: ir.Type, width: int) -> ir.Type:
    """Return the vector type of `width` lanes; a width of 1 is the scalar itself."""
    if isinstance(type_, PairsType):
        return PairsType(type_.element, width)
    return type_ if width == 1 else ir.VectorType(type_, width)


def lanes(type_: ir.Type) -> int:
    """Return the number of lanes of a type: of elements, of which a complex one is two numbers."""
    if isinstance(type_, PairsType):
        return type_.pairs
    return type_.count if isinstance(type_, ir.VectorType) else 1


def most_lanes(type_: ir.Type) -> int:
    """Return how many lanes like those of a type the widest vector has."""
    return MOST_LANES // 2 if isinstance(type_, PairsType) else MOST_LANES


def numbers_of(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """Return complex numbers as a plain vector of their parts; other values as they are."""
    is_pairs = isinstance(value.type, PairsType)
    return builder.bitcast(value, ir.VectorType(value.type.element, value.type.count)) if is_pairs else value


def power_of_two(count: int) -> int:
    """Return the least power of two that is not below a count."""
    return 1 << max(0, count - 1).bit_length()


def mangled_type(scalar: ScalarType, width: int = 1) -> str:
    """Return the Itanium spelling of a scalar or vector type in an OpenCL builtin's name."""
    letter = _MANGLED[scalar.name]
    return letter if width == 1 else f"Dv{width}_{letter}"


class _WholeConstant(ir.Constant):  # type: ignore[misc]
    """A constant vector that one word stands for, where llvmlite writes each lane: half of all text was such lanes."""

    def __init__(self, type_: ir.Type, value: object, word: str) -> None:
        super().__init__(type_, value)
        self._word = word

    def get_reference(self) -> str:
        return self._word


@functools.cache
def undefined(type_: ir.Type) -> ir.Constant:
    """Return the undefined value of a type."""
    return _WholeConstant(type_, ir.Undefined, "undef")


@functools.cache
def _zeros(type_: ir.VectorType) -> ir.Constant:
    return _WholeConstant(type_, 0, "zeroinitializer")


def constant(type_: ir.Type, value: complex | bool) -> ir.Constant:
    """Return a scalar or splat vector constant."""
    if isinstance(type_, ir.VectorType) and repr(value) in ("0", "0.0"):
        return _zeros(type_)
    if isinstance(type_, PairsType):
        number = complex(value)
        return ir.Constant(type_, [ir.Constant(type_.element, part) for part in (number.real, number.imag)] *
                           type_.pairs)
    if isinstance(type_, ir.VectorType):
        return ir.Constant(type_, [ir.Constant(type_.element, value)] * type_.count)
    return ir.Constant(type_, value)


def index(value: int) -> ir.Constant:
    """Return a 64-bit integer constant."""
    return ir.Constant(I64, value)


def int32(value: int) -> ir.Constant:
    """Return a 32-bit integer constant."""
    return ir.Constant(I32, value)


def builtin(
    builder: ir.IRBuilder,
    name: str,
    result: ir.Type,
    arguments: Sequence[ir.Value],
    attributes: Sequence[str] = ("nounwind",),
) -> ir.Value:
    """Call an OpenCL or SPIR-V builtin by its mangled name, declaring it in the module where it is missing."""
    module = builder.module
    function = module.globals.get(name)
    if function is None:
        function = ir.Function(module, ir.FunctionType(result, [a.type for a in arguments]), name)
        function.calling_convention = "spir_func"
        for attribute in attributes:
            function.attributes.add(attribute)
    return builder.call(function, arguments, cconv="spir_func")


def is_zero(value: ir.Value) -> bool:
    """Whether a value is the constant 0, in all lanes; -0.0 is another one."""
    if not isinstance(value, ir.Constant):
        return False
    numbers = value.constant
    return all(map(is_zero, numbers)) if isinstance(numbers, (list, tuple)) else repr(numbers) in ("0", "0.0", "None")


def splat(builder: ir.IRBuilder, value: ir.Value, width: int) -> ir.Value:
    """Broadcast a scalar to all lanes of a vector."""
    if width == 1:
        return value
    if isinstance(value.type, PairsType):
        return shuffle(builder, value, [], [0] * width)
    if isinstance(value, ir.Constant):
        return ir.Constant(ir.VectorType(value.type, width), [value] * width)
    nothing = undefined(ir.VectorType(value.type, width))
    first = builder.insert_element(nothing, value, ir.Constant(I32, 0))
    return builder.shuffle_vector(first, nothing, constant(ir.VectorType(I32, width), 0))


def shuffle(
    builder: ir.IRBuilder, first: ir.Value, others: Sequence[ir.Value], sources: Iterable[int]
) -> ir.Value:
    """Return a vector of lanes of one vector, or of two that count on from one to the other."""
    if isinstance(first.type, PairsType):
        return _shuffle_pairs(builder, first, others, sources)
    second = others[0] if others else undefined(first.type)
    mask = [ir.Constant(I32, source) for source in sources]
    return builder.shuffle_vector(first, second, ir.Constant(ir.VectorType(I32, len(mask)), mask))


def _shuffle_pairs(
    builder: ir.IRBuilder, first: ir.Value, others: Sequence[ir.Value], sources: Iterable[int]
) -> ir.Value:
    numbers = [2 * source + part for source in sources for part in (0, 1)]
    result = shuffle(builder, numbers_of(builder, first), [numbers_of(builder, o) for o in others], numbers)
    return builder.bitcast(result, PairsType(first.type.element, len(numbers) // 2))


def get_lane(builder: ir.IRBuilder, vector: ir.Value, lane: int) -> ir.Value:
    """Return one lane of a vector as a scalar."""
    if isinstance(vector.type, PairsType):
        return shuffle(builder, vector, [], [lane])
    return builder.extract_element(vector, ir.Constant(I32, lane))


def set_lane(builder: ir.IRBuilder, vector: ir.Value, value: ir.Value, lane: int) -> ir.Value:
    """Return a vector with another scalar in one lane."""
    if not isinstance(vector.type, PairsType):
        return builder.insert_element(vector, value, ir.Constant(I32, lane))
    result, numbers = numbers_of(builder, vector), numbers_of(builder, value)
    for part in (0, 1):
        number = builder.extract_element(numbers, ir.Constant(I32, part))
        result = builder.insert_element(result, number, ir.Constant(I32, 2 * lane + part))
    return builder.bitcast(result, vector.type)


def each_part(builder: ir.IRBuilder, mask: ir.Value, type_: ir.Type) -> ir.Value:
    """Return a mask of lanes as one of what a vector of this type has: complex numbers have two for each lane."""
    if not isinstance(type_, PairsType):
        return mask
    if lanes(mask.type) == 1:
        return splat(builder, mask, 2)
    return shuffle(builder, mask, [], [lane for lane in range(lanes(mask.type)) for _ in range(2)])


def select(builder: ir.IRBuilder, condition: ir.Value, then: ir.Value, otherwise: ir.Value) -> ir.Value:
    """Return one of two values, or of two in each lane."""
    return builder.select(each_part(builder, condition, then.type), then, otherwise)


def first_lanes(active: int, width: int) -> ir.Constant:
    """Return the mask of the first lanes of a vector."""
    return mask_of([lane < active for lane in range(width)])


def mask_of(active: Sequence[bool]) -> ir.Constant:
    """Return the mask of the lanes that are active."""
    return ir.Constant(ir.VectorType(I1, len(active)), [ir.Constant(I1, lane) for lane in active])


def lanes_below(builder: ir.IRBuilder, count: ir.Value, numbers: range, width: int) -> ir.Value:
    """Return the mask of the lanes of a vector with one of these `numbers`, which begin it, below a `count`."""
    most = index(numbers.stop)
    count = builder.trunc(builder.select(builder.icmp_signed("<", count, most), count, most), I32)
    lanes_ = ir.Constant(ir.VectorType(I32, width), [ir.Constant(I32, numbers.start + lane) for lane in range(width)])
    return builder.icmp_signed("<", lanes_, splat(builder, count, width))


def masked_load(builder: ir.IRBuilder, pointer: ir.Value, active: ir.Value, alignment: int) -> ir.Value:
    """Load the lanes of a vector that are `active`; the others are 0 (LLVM language reference, ``llvm.masked.load``).

    Only what is for CPUs may use it: the translator hands the call on by its name.
    """
    type_ = pointer.type.pointee
    vector = ir.VectorType(type_.element, type_.count)
    place = builder.bitcast(pointer, vector.as_pointer(pointer.type.addrspace))
    arguments = [place, ir.Constant(I32, alignment), active, constant(vector, 0)]
    return builder.bitcast(builder.call(_masked(builder, "load", vector, vector, arguments), arguments), type_)


def masked_store(
    builder: ir.IRBuilder, value: ir.Value, pointer: ir.Value, active: ir.Value, alignment: int
) -> None:
    """Store the lanes of a vector that are `active`; used as `masked_load` is."""
    vector = ir.VectorType(value.type.element, value.type.count)
    place = builder.bitcast(pointer, vector.as_pointer(pointer.type.addrspace))
    arguments = [builder.bitcast(value, vector), place, ir.Constant(I32, alignment), active]
    builder.call(_masked(builder, "store", vector, ir.VoidType(), arguments), arguments)


def _masked(
    builder: ir.IRBuilder, what: str, vector: ir.VectorType, result: ir.Type, arguments: Sequence[ir.Value]
) -> ir.Function:
    """Return LLVM's function; that for pairs of floats is the one for as many floats."""
    (space,) = {argument.type.addrspace for argument in arguments if isinstance(argument.type, ir.PointerType)}
    name = f"v{vector.count}{vector.element.intrinsic_name}"
    name = f"llvm.masked.{what}.{name}.p{space}{name}"
    found = builder.module.globals.get(name)
    return found or ir.Function(builder.module, ir.FunctionType(result, [a.type for a in arguments]), name)


def private_array(builder: ir.IRBuilder, scalar: ScalarType, count: int) -> ir.Value:
    """Return a pointer to `count` elements of the work-item's own memory; one array for all uses of the call."""
    entry = builder.function.entry_basic_block
    with builder.goto_block(entry):
        if entry.instructions:
            builder.position_before(entry.instructions[0])
        array = builder.alloca(ir.ArrayType(storage_type(scalar), count))
        array.align = 64
        # In LLVM the pointer to the array and that to its first element differ in type only.
    return builder.bitcast(array, storage_type(scalar).as_pointer(PRIVATE))


def counted_loop(
    builder: ir.IRBuilder,
    start: ir.Value,
    stop: ir.Value,
    step: ir.Value,
    carried: Sequence[ir.Value],
    body: Callable[[ir.Value, list[ir.Value]], Sequence[ir.Value]],
    *,
    runs_at_least_once: bool = False,
    unrolled: bool = True,
    ends_at_stop: bool = False,
) -> list[ir.Value]:
    """Emit ``for i in range(start, stop, step)`` with loop-carried values in registers.

    `body(i, values)` returns the carried values of the next iteration; the result is those after the last one.
    A loop that is known to run is tested at its bottom, which saves the back end a guard.  One that is not to be
    `unrolled` says so to the back end.  Where the range is a multiple of the step, a loop that is known to run may
    compare for equality as it `ends_at_stop`: LLVM would compare the counter before its step with a `stop` that is
    known, for which Intel's back end needs a second jump in each iteration.
    """
    before = builder.block
    header = builder.append_basic_block("loop")
    after = builder.append_basic_block("after")
    builder.branch(header)
    builder.position_at_end(header)
    counter = builder.phi(start.type)
    counter.add_incoming(start, before)
    phis = []
    for value in carried:
        phi = builder.phi(value.type)
        phi.add_incoming(value, before)
        phis.append(phi)
    if not runs_at_least_once:
        inside = builder.append_basic_block("body")
        builder.cbranch(builder.icmp_signed("<", counter, stop), inside, after)
        builder.position_at_end(inside)
    results = list(body(counter, list(phis)))
    following = builder.add(counter, step)
    end = builder.block
    counter.add_incoming(following, end)
    for phi, value in zip(phis, results, strict=True):
        phi.add_incoming(value, end)
    if runs_at_least_once:
        back = builder.cbranch(builder.icmp_signed("!=" if ends_at_stop else "<", following, stop), header, after)
        _keep_as_loop(back, unrolled)
        builder.position_at_end(after)
        return results
    _keep_as_loop(builder.branch(header), unrolled)
    builder.position_at_end(after)
    return list(phis)


def _keep_as_loop(back: ir.Instruction, unrolled: bool) -> None:
    """Mark a jump back such that its loop is not unrolled (LLVM language reference, ``llvm.loop.unroll.disable``)."""
    if unrolled:
        return
    module = back.parent.parent.module
    disable = module.add_metadata(["llvm.loop.unroll.disable"])
    # The first operand of a loop's node is the node itself, which tells it from those of other loops.
    node = ir.MDValue(module, [disable], name=str(len(module.metadata)))
    node.operands = (node, disable)
    back.set_metadata("llvm.loop", node)


def if_then(builder: ir.IRBuilder, condition: ir.Value, body: Callable[[], None]) -> None:
    """Emit a branch that runs `body` where `condition` holds."""
    inside = builder.append_basic_block("then")
    after = builder.append_basic_block("after")
    builder.cbranch(condition, inside, after)
    builder.position_at_end(inside)
    body()
    builder.branch(after)
    builder.position_at_end(after)
