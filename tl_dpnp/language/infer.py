"""Result types: what an operation returns, computed from its operands.

The parser and the builder ask these functions for the type of a new value, the verifier whether a given one is right.
Each raises `RuleError` where the operation is not defined for its operands.

Source: tensor language reference, sections "Expand", "Fuse", "Load", "Size", "Subview", and section "Types".
"""

from __future__ import annotations

from collections.abc import Sequence

from tl_dpnp.language.constants import LARGEST_INTEGER
from tl_dpnp.language.ops import (
    Compare,
    Constant,
    Expand,
    Fuse,
    GroupId,
    GroupSize,
    Load,
    Operand,
    Operation,
    SizeOf,
    Slice,
    Subview,
    Value,
    variables_of,
)
from tl_dpnp.language.rule_error import RuleError, counted
from tl_dpnp.language.types import GroupType, MemrefType, Size, Type
from tl_dpnp.scalars import I1, INDEX, ScalarType

__all__ = [
    "MAXIMUM_ORDER",
    "MISSING",
    "POISON",
    "cast_line",
    "check_index",
    "check_indices",
    "check_order",
    "check_type",
    "describe",
    "expand_type",
    "fuse_type",
    "has_poison",
    "load_type",
    "result_type",
    "same_type",
    "size_type",
    "subview_type",
]

#: A memref has at most so many modes: as many as an array of NumPy.
MAXIMUM_ORDER = 64
#: Type of a value whose definition is wrong: no rule is applied to it, so that one mistake gives one diagnostic.
POISON = ScalarType("<error>", 0, "signed", "void")


#: Stands for a value that the source leaves out by mistake; it has no name.
MISSING = Value("", POISON)


def has_poison(operation: Operation) -> bool:
    """Return whether an operand of the operation, or a loop variable of it, was reported already."""
    return any(value.type is POISON for value in (*operation.operands, *variables_of(operation)))


def same_type(a: Type, b: Type) -> bool:
    """Return whether two types are equal; group types compare without their offset."""
    if isinstance(a, GroupType) and isinstance(b, GroupType):
        return a.memref == b.memref
    return a == b


def describe(type: Type) -> str:
    """Return a noun phrase for a type: ``a scalar of type f32``, ``a memref<f32x4>``."""
    return f"a scalar of type {type}" if isinstance(type, ScalarType) else f"a {type}"


def cast_line(value: Value, type: Type) -> str:
    """Return the instruction that casts a value, for a hint; the name of its result begins with a letter."""
    return f"%{type}_{value.name} = cast {value} : {value.type} -> {type}"


# --- types -----------------------------------------------------------------------------------------------------------


def check_type(type: Type) -> None:
    """Check the order, the sizes and the layout of a type.

    Raises `RuleError` for more than `MAXIMUM_ORDER` modes, a static size or stride below 1, a layout of another order
    than the shape, a stride below the extent of the mode before it, for an extent beyond 63 bits, and for integers
    below 8 bits that do not fill whole bytes; its `operand` counts the sizes and, behind them, the strides.
    """
    match type:
        case GroupType(memref=memref, offset=offset):
            check_type(memref)
            per_byte = memref.element.per_byte
            if offset is not None and offset % per_byte:
                message = f"the offset {offset} is inside a byte, which holds {per_byte} elements of {memref.element}"
                raise RuleError(message, f"write a multiple of {per_byte}")
            return
        case ScalarType(is_subbyte=True):
            hint = f"write {type.in_registers}, or a memref of {type}"
            raise RuleError(f"{type} is a type of elements in memory, not of values", hint)
        case ScalarType():
            return
    shape, strides = type.shape, type.strides
    check_order(len(shape))
    for mode, size in enumerate(shape):
        if size is not None and size < 1:
            hint = "write a size of at least 1, or ? for a dynamic one"
            raise RuleError(f"the size of mode {mode} is {size}", hint, mode)
    if len(strides) != len(shape):
        raise RuleError(
            f"the layout has {counted(len(strides), 'stride')} but the shape has {counted(len(shape), 'mode')}",
            "write one stride for each mode",
        )
    for mode, stride in enumerate(strides):
        if stride is not None and stride < 1:
            position = len(shape) + mode
            raise RuleError(f"the stride of mode {mode} is {stride}", "write a stride of at least 1, or ?", position)
    for mode in range(1, len(shape)):
        previous, size, stride = strides[mode - 1], shape[mode - 1], strides[mode]
        if previous is not None and size is not None and stride is not None and stride < previous * size:
            raise RuleError(
                f"the stride {stride} of mode {mode} is below {previous * size}, the extent of the mode before it",
                f"write a stride of at least {previous * size}; the layout is column-major",
                len(shape) + mode,
            )
    for size, stride in zip(shape, strides, strict=True):
        if (size or 1) * (stride or 1) * type.element.bytes > LARGEST_INTEGER:
            raise RuleError("the memref spans more than 2^63 - 1 bytes", "write smaller sizes and strides")
    if type.element.is_subbyte:
        _check_whole_bytes(type)


def _check_whole_bytes(type: MemrefType) -> None:
    """Check that each column of a memref of integers below 8 bits fills whole bytes; `operand` as in `check_type`."""
    element, per_byte = type.element, type.element.per_byte
    packed = f"{per_byte} elements of {element} share a byte, along mode 0"
    if not type.shape:
        raise RuleError(f"a memref of {element} has at least one mode: {packed}", f"write memref<{element}x{per_byte}>")
    if type.strides[0] != 1:
        stride = "dynamic" if type.strides[0] is None else type.strides[0]
        raise RuleError(f"the stride of mode 0 is {stride}, but {packed}", "write 1 for it", type.order)
    entries = [(0, f"the size {type.shape[0]} of mode 0", type.shape[0])]
    entries += [(type.order + mode, f"the stride {stride} of mode {mode}", stride)
                for mode, stride in enumerate(type.strides) if mode]
    for position, what, value in entries:
        if value is not None and value % per_byte:
            raise RuleError(f"{what} ends inside a byte: {packed}", f"write a multiple of {per_byte}", position)


def check_order(order: int) -> None:
    """Check the number of modes of a memref, before its strides are computed: they grow with each."""
    if order > MAXIMUM_ORDER:
        raise RuleError(f"the memref has {order} modes", f"write at most {MAXIMUM_ORDER}")


def _check_result(type: MemrefType) -> MemrefType:
    """Return the type of a view, once it is proved legal."""
    try:
        check_type(type)
    except RuleError as error:
        raise RuleError(f"the view would be a {type}, but {error.message}", error.hint) from None
    return type


def _memref(type: Type, operation: str) -> MemrefType:
    if not isinstance(type, MemrefType):
        hint = "load one memref of the group first" if isinstance(type, GroupType) else None
        raise RuleError(f"{operation} needs a memref, but its operand is {describe(type)}", hint, 0)
    return type


def _check_mode(mode: int, type: MemrefType, position: int) -> None:
    """Check that a memref has a mode; `position` is that of the mode, which counts behind the operands."""
    if not 0 <= mode < type.order:
        last = type.order - 1
        legal = (f"write a mode from 0 to {last}" if last else "write mode 0") if type.order else None
        hint = legal or "use a memref of higher order: one of order 0 has no modes"
        raise RuleError(f"mode {mode} is out of range of {type}", hint, position)


def check_index(operand: Operand, position: int, what: str = "an index") -> int | None:
    """Check that an index, offset or size has type index; return its value if it is a constant."""
    if operand.type != INDEX:
        hint = "use a value of type index"
        if isinstance(operand, Value) and isinstance(operand.type, ScalarType) and not operand.type.is_complex:
            hint = f"write {cast_line(operand, INDEX)} before, and use that"
        raise RuleError(f"{what} must have type index, but {_name(operand)} has type {operand.type}", hint, position)
    return int(operand.value.real) if isinstance(operand, Constant) else None


def _name(operand: Operand) -> str:
    return str(operand) if isinstance(operand, Value) else "the constant"


# --- operations ------------------------------------------------------------------------------------------------------


def load_type(source: Type, indices: Sequence[Operand]) -> Type:
    """Return the element type of a memref, or the memref type of a group."""
    match source:
        case MemrefType():
            check_indices(source, indices, first=1)
            return source.element
        case GroupType():
            if len(indices) != 1:
                position = min(len(indices), 2)
                raise RuleError(f"a group takes one index, but {len(indices)} are given", "write one index", position)
            value = check_index(indices[0], 1)
            if value is not None and value < 0:
                raise RuleError(f"the index {value} is negative", "write an index from 0 on", 1)
            return source.memref
    raise RuleError(f"load needs a memref or a group, but its operand is {describe(source)}", None, 0)


def check_indices(memref: MemrefType, indices: Sequence[Operand], first: int) -> None:
    """Check number, types and bounds of the indices of a load or a store; `first` is the position of the first."""
    if len(indices) != memref.order:
        raise RuleError(
            f"{memref} takes {counted(memref.order, 'index', 'indices')}, but {len(indices)} given",
            "write one index for each mode" if memref.order else "write [] without an index",
            first + memref.order if len(indices) > memref.order else first - 1,
        )
    for mode, (index, size) in enumerate(zip(indices, memref.shape, strict=True)):
        value = check_index(index, first + mode)
        if value is not None:
            _check_bounds(value, size, mode, first + mode)


def _check_bounds(value: int, size: Size, mode: int, position: int) -> None:
    if value < 0:
        raise RuleError(f"the index {value} of mode {mode} is negative", "write an index from 0 on", position)
    if size is not None and value >= size:
        raise RuleError(
            f"the index {value} is out of bounds of mode {mode}, whose size is {size}",
            f"write an index from 0 to {size - 1}",
            position,
        )


def size_type(source: Type, mode: int) -> ScalarType:
    """Return index, the type of a size."""
    _check_mode(mode, _memref(source, "size"), 1)
    return INDEX


def expand_type(source: Type, mode: int, shape: Sequence[Constant | Value | None]) -> MemrefType:
    """Return the type of a memref with one mode viewed as several; strides follow the canonical computation."""
    memref = _memref(source, "expand")
    _check_mode(mode, memref, 1 + sum(entry is not None for entry in shape))
    if len(shape) < 2:
        raise RuleError("expand needs at least two sizes", "write for example 4 x ?")
    if sum(entry is None for entry in shape) > 1:
        raise RuleError("at most one size of an expand may be ?", "write the other sizes as constants or values")
    sizes: list[Size] = []
    product, position = 1, 0
    for entry in shape:
        position += entry is not None
        value = None if entry is None else check_index(entry, position, "a size of expand")
        if value is not None and value < 1:
            raise RuleError(f"the size {value} of expand is not positive", "write a size of at least 1", position)
        sizes.append(value)
        product *= 1 if value is None else value
    _check_division(sizes, product, memref.shape[mode], mode)
    size = memref.shape[mode]
    if size is not None and None in shape and sizes.count(None) == 1:
        sizes[sizes.index(None)] = size // product
    strides: list[Size] = [memref.strides[mode]]
    for extent in sizes[:-1]:
        stride = strides[-1]
        strides.append(None if extent is None or stride is None else extent * stride)
    return _check_result(
        MemrefType(
            memref.element,
            (*memref.shape[:mode], *sizes, *memref.shape[mode + 1 :]),
            (*memref.strides[:mode], *strides, *memref.strides[mode + 1 :]),
        )
    )


def _check_division(sizes: list[Size], product: int, size: Size, mode: int) -> None:
    """Check that the constant sizes of an expand fit into a mode of static size."""
    if size is None:
        return
    if None in sizes and size % product != 0:
        raise RuleError(
            f"{product} does not divide {size}, the size of mode {mode}",
            f"write constant sizes whose product divides {size}",
            1,
        )
    if None not in sizes and product != size:
        raise RuleError(
            f"the sizes of expand multiply to {product}, but mode {mode} has size {size}",
            f"write sizes whose product is {size}, or ? for one of them",
            1,
        )


def fuse_type(source: Type, first: int, last: int) -> MemrefType:
    """Return the type of a memref with the modes `first` to `last`, both included, viewed as one."""
    memref = _memref(source, "fuse")
    _check_mode(first, memref, 1)
    _check_mode(last, memref, 2)
    if first >= last:
        raise RuleError(f"fuse needs rising modes, but got {first} and {last}", "write [from, to] with from < to", 2)
    shape, strides = memref.shape, memref.strides
    for mode in range(first, last):
        stride, size, following = strides[mode], shape[mode], strides[mode + 1]
        if stride is not None and size is not None and following is not None and stride * size != following:
            raise RuleError(
                f"modes {mode} and {mode + 1} cannot be fused: stride {stride} x size {size} is {stride * size}, "
                f"but the next stride is {following}",
                "fuse only modes that lie densely in memory",
                1,
            )
    product: Size = 1
    for size in shape[first : last + 1]:
        product = None if size is None or product is None else product * size
    return _check_result(
        MemrefType(
            memref.element,
            (*shape[:first], product, *shape[last + 1 :]),
            (*strides[: first + 1], *strides[last + 1 :]),
        )
    )


def subview_type(source: Type, slices: Sequence[Slice]) -> MemrefType:
    """Return the type of a part of a memref: an index removes its mode, a slice keeps it; strides are unchanged."""
    memref = _memref(source, "subview")
    if len(slices) != memref.order:
        raise RuleError(
            f"subview of {memref} takes {counted(memref.order, 'entry', 'entries')}, but {len(slices)} given",
            "write one index or slice for each mode",
            1 + sum(1 + (s.size is not None) for s in slices[: memref.order]) if len(slices) > memref.order else 0,
        )
    shape: list[Size] = []
    strides: list[Size] = []
    position = 1
    per_byte = memref.element.per_byte
    for mode, entry in enumerate(slices):
        size = memref.shape[mode]
        offset = check_index(entry.offset, position, "an index" if entry.is_index else "an offset")
        if mode == 0 and per_byte > 1 and (entry.is_index or (offset or 0) % per_byte):
            what = "one index of mode 0" if entry.is_index else f"the offset {offset} of mode 0"
            message = f"{what} is inside a byte: {per_byte} elements of {memref.element} share one, along mode 0"
            raise RuleError(message, f"write a slice whose offset is a multiple of {per_byte}", position)
        if entry.is_index:
            if offset is not None:
                _check_bounds(offset, size, mode, position)
        else:
            shape.append(_slice_size(entry, offset, size, mode, position))
            strides.append(memref.strides[mode])
        position += 1 + (entry.size is not None)
    return _check_result(MemrefType(memref.element, tuple(shape), tuple(strides)))


def _slice_size(entry: Slice, offset: int | None, size: Size, mode: int, position: int) -> Size:
    """Return the size of what a slice keeps of a mode of size `size`."""
    if offset is not None and offset < 0:
        raise RuleError(f"the offset {offset} of mode {mode} is negative", "write an offset from 0 on", position)
    if entry.size is None:
        if size is None or offset is None:
            return size if offset == 0 else None
        if offset >= size:
            raise RuleError(
                f"the offset {offset} leaves nothing of mode {mode}, whose size is {size}",
                f"write an offset from 0 to {size - 1}",
                position,
            )
        return size - offset
    extent = check_index(entry.size, position + 1, "a size")
    if extent is None:
        return None
    if extent < 1:
        raise RuleError(
            f"the size {extent} of a slice is not positive", "write a size from 1 on, or ? for the rest", position + 1
        )
    end = extent + (offset or 0)
    if size is not None and end > size:
        raise RuleError(
            f"the slice ends at {end}, out of bounds of mode {mode}, whose size is {size}",
            "a slice is written offset : size, not from : to",
            position + 1,
        )
    return extent


def result_type(operation: Operation) -> Type | None:
    """Return the type of the operation's only result where its operands determine it, else None.

    Raises `RuleError` where the operation is not defined for its operands.
    """
    match operation:
        case Load(source=source, indices=indices):
            return load_type(source.type, indices)
        case Subview(source=source, slices=slices):
            return subview_type(source.type, slices)
        case Expand(source=source, mode=mode, shape=shape):
            return expand_type(source.type, mode, shape)
        case Fuse(source=source, first=first, last=last):
            return fuse_type(source.type, first, last)
        case SizeOf(source=source, mode=mode):
            return size_type(source.type, mode)
        case Compare():
            return I1
        case GroupId() | GroupSize():
            return INDEX
    return None
