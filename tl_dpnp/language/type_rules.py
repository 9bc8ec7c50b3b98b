"""What types, modes and indices must obey, and how they are told in errors.

Each check raises `RuleError`.

Source: tensor language reference, section "Types".
"""

from __future__ import annotations

from collections.abc import Sequence

from tl_dpnp.language.constants import LARGEST_INTEGER
from tl_dpnp.language.ir import POISON, Constant, Operand, Operation, Value
from tl_dpnp.language.rule_error import RuleError, counted
from tl_dpnp.language.types import MATRIX_USES, CooperativeMatrixType, GroupType, MemrefType, Size, Type
from tl_dpnp.scalars import INDEX, ScalarType

__all__ = [
    "MAXIMUM_ORDER", "cast_line", "check_bounds", "check_index", "check_indices", "check_mode", "check_order",
    "check_type", "check_view", "describe", "has_poison", "memref_operand", "same_type",
]

#: A memref has at most so many modes: as many as an array of NumPy.
MAXIMUM_ORDER = 64


def has_poison(operation: Operation) -> bool:
    """Return whether an operand of the operation, or a loop variable of it, was reported already."""
    return any(value.type is POISON for value in (*operation.operands, *operation.loop_variables))


def same_type(a: Type, b: Type) -> bool:
    """Return whether two types are equal; group types compare without their length and offset."""
    if isinstance(a, GroupType) and isinstance(b, GroupType):
        return a.memref == b.memref
    return a == b


def describe(type: Type) -> str:
    """Return a noun phrase for a type: ``a scalar of type f32``, ``a memref<f32x4>``."""
    if isinstance(type, CooperativeMatrixType):
        return f"a cooperative matrix of type {type}"
    return f"a scalar of type {type}" if isinstance(type, ScalarType) else f"a {type}"


def cast_line(value: Value, type: Type) -> str:
    """Return the instruction that casts a value, for a hint; the name of its result begins with a letter."""
    return f"%{type}_{value.name} = cast {value} : {value.type} -> {type}"


# --- types -----------------------------------------------------------------------------------------------------------


def check_type(type: Type) -> None:
    """Check the order, the sizes and the layout of a type.

    Raises `RuleError` for more than `MAXIMUM_ORDER` modes, a static size or stride below 1, a layout of another order
    than the shape, a stride below the extent of the mode before it, for an extent beyond 63 bits, and for integers
    below 8 bits that do not fill whole bytes; its `operand` counts the sizes and, behind them, the strides.  Of a
    cooperative matrix, it raises for components that are no numbers of whole bytes, for a number of rows that is no
    power of two, no columns, and for what is no use.
    """
    match type:
        case CooperativeMatrixType():
            _check_matrix(type)
            return
        case GroupType(memref=memref, offset=offset, length=length):
            check_type(memref)
            if length is not None and length < 1:
                raise RuleError(f"the length of the group is {length}", "write a length of at least 1, or ? for any")
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


def _check_matrix(type: CooperativeMatrixType) -> None:
    """Check the type of a cooperative matrix; `operand` counts its component, rows, columns and use."""
    component, (rows, columns) = type.component, type.shape
    if component.is_boolean or component.is_subbyte:
        raise RuleError(f"a cooperative matrix has numbers of at least 8 bits as components, not {component}",
                        f"write {'i8' if component.is_boolean else component.in_registers}", 0)
    if rows < 1 or rows & (rows - 1):
        near = 1 << max(0, rows.bit_length() - 1)
        raise RuleError(f"a cooperative matrix has {rows} rows, which is no power of two",
                        f"write {near} or {2 * near}" if rows > 0 else "write 1, 2, 4, 8 and so on", 1)
    if columns < 1:
        raise RuleError(f"a cooperative matrix has {counted(columns, 'column')}", "write at least 1", 2)
    if type.use not in MATRIX_USES:
        raise RuleError(f"there is no use {type.use!r} of cooperative matrices",
                        f"there are {', '.join(MATRIX_USES)}", 3)
    if rows * columns * component.bytes > LARGEST_INTEGER:
        raise RuleError("the cooperative matrix has more than 2^63 - 1 bytes", "write fewer rows and columns")


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


def check_view(type: MemrefType) -> MemrefType:
    """Return the type of a view, once it is proved legal."""
    try:
        check_type(type)
    except RuleError as error:
        raise RuleError(f"the view would be a {type}, but {error.message}", error.hint) from None
    return type


def memref_operand(type: Type, operation: str) -> MemrefType:
    """Return the type of an operand that must be a memref."""
    if not isinstance(type, MemrefType):
        hint = "load one memref of the group first" if isinstance(type, GroupType) else "write the name of a memref"
        raise RuleError(f"{operation} needs a memref, but its operand is {describe(type)}", hint, 0)
    return type


def check_mode(mode: int, type: MemrefType, position: int) -> None:
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
            check_bounds(value, size, mode, first + mode)


def check_bounds(value: int, size: Size, mode: int, position: int) -> None:
    """Check that an index that is known lies inside its mode."""
    if value < 0:
        raise RuleError(f"the index {value} of mode {mode} is negative", "write an index from 0 on", position)
    if size is not None and value >= size:
        raise RuleError(
            f"the index {value} is out of bounds of mode {mode}, whose size is {size}",
            f"write an index from 0 to {size - 1}",
            position,
        )
