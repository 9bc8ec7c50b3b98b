"""The rules that one operation must obey on its own: operand types, shapes, constants.

Rules that need the surroundings of an operation (names, regions, lifetimes) are in `verifier`.

Source: tensor language reference, section "Instructions".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tl_dpnp.language.constants import convert
from tl_dpnp.language.infer import POISON, cast_line, check_indices, check_type, describe, result_type, same_type
from tl_dpnp.language.ops import (
    ARITHMETIC,
    COMPARISONS,
    MATHEMATICS,
    UNARY,
    Alloca,
    Arith,
    Axpby,
    Cast,
    Compare,
    Constant,
    For,
    Foreach,
    Gemm,
    Gemv,
    Ger,
    Hadamard,
    If,
    LinearAlgebra,
    Load,
    Math,
    Operand,
    Operation,
    Store,
    Sum,
    Unary,
    Value,
    memref_type,
)
from tl_dpnp.language.rule_error import RuleError, counted
from tl_dpnp.language.types import MemrefType, Type
from tl_dpnp.scalars import F32, I1, PRECISIONS, ScalarType, is_lossless

__all__ = ["TRANSPOSES", "dimension_names", "operation_errors"]

#: Linear algebra: number of transpose flags.
TRANSPOSES: dict[type[LinearAlgebra], int] = {Gemm: 2, Gemv: 1, Ger: 0, Hadamard: 0, Axpby: 1, Sum: 1}

#: Linear algebra: the named sizes of each input and of the output, after transposition.  Where an instruction accepts
#: several orders, the order of the first input chooses the alternative.
_SHAPES: dict[type[LinearAlgebra], tuple[tuple[str, ...], ...]] = {
    Gemm: (("MK", "KN", "MN"),),
    Gemv: (("MK", "K", "M"),),
    Ger: (("M", "N", "MN"),),
    Hadamard: (("M", "M", "M"),),
    Axpby: (("", ""), ("M", "M"), ("MN", "MN")),
    Sum: (("M", ""), ("MN", "M")),
}
_ORDERS = {0: "a scalar memref (order 0)", 1: "a vector (order 1)", 2: "a matrix (order 2)"}


def operation_errors(operation: Operation) -> Iterator[RuleError]:
    """Yield an error for every rule that the operation breaks on its own.

    Operations with poisoned operands must be sorted out before; of one with a poisoned result only the operands count.
    """
    yield from _result_errors(operation)
    if any(result.type is POISON for result in operation.results):
        return
    for position, operand in enumerate(operation.operands):
        if isinstance(operand, Constant):
            yield from _constant_errors(operand, position)
    subbyte = list(_subbyte_errors(operation))
    yield from subbyte
    if subbyte:
        return
    match operation:
        case Alloca(result=result):
            yield from _alloca_errors(result)
        case Arith(kind=kind, lhs=lhs, rhs=rhs, result=result):
            yield from _kind_errors(f"arith.{kind}", result.type, ARITHMETIC.get(kind))
            yield from _scalar_errors((lhs, rhs), result.type, first=0)
            yield from _division_errors(kind, rhs)
        case Unary(kind=kind, operand=operand, result=result):
            yield from _kind_errors(f"arith.{kind}", result.type, UNARY.get(kind))
            yield from _scalar_errors((operand,), result.type, first=0)
        case Math(kind=kind, arguments=arguments, result=result):
            count, kinds = MATHEMATICS.get(kind, (len(arguments), None))
            yield from _kind_errors(f"math.{kind}", result.type, kinds)
            if len(arguments) != count:
                message = f"math.{kind} takes {counted(count, 'operand')}, but {len(arguments)} given"
                yield RuleError(message, f"write {counted(count, 'operand')}", min(len(arguments) - 1, count))
            yield from _scalar_errors(arguments, result.type, first=0)
        case Compare(kind=kind, lhs=lhs, rhs=rhs):
            yield from _compare_errors(kind, lhs, rhs)
        case Cast(operand=operand, result=result):
            yield from _cast_errors(operand, result.type)
        case Store(value=value, target=target, indices=indices):
            yield from _store_errors(value, target, indices)
        case If(condition=condition):
            if condition.type != I1:
                yield RuleError(
                    f"the condition must have type i1, but has type {condition.type}",
                    "write the result of a comparison, true or false",
                    0,
                )
        case For(variable=variable, step=step):
            yield from _loop_errors("for", variable, dict(enumerate(operation.operands)))
            if isinstance(step, Constant) and not isinstance(step.value, complex) and step.value <= 0:
                yield RuleError(f"the step of a for loop is {step.value}", "write a step of at least 1", 2)
        case Foreach():
            yield from _foreach_errors(operation)
        case LinearAlgebra():
            yield from _linear_algebra_errors(operation)


def _result_errors(operation: Operation) -> Iterator[RuleError]:
    """Yield an error if the operands are not fit for the operation, or the result has another type than they give."""
    try:
        inferred = result_type(operation)
    except RuleError as error:
        yield error
        return
    if inferred is not None:
        (result,) = operation.results
        if result.type is not POISON and not same_type(inferred, result.type):
            yield RuleError(f"{result} has type {result.type}, but the operation gives {inferred}")


def _subbyte_errors(operation: Operation) -> Iterator[RuleError]:
    """Yield an error for each use of an integer below 8 bits that is no element to be read.

    They are loaded and converted; linear algebra reads whole memrefs of them.
    """
    match operation:
        case Store(target=Value(type=MemrefType(element=element)) as target) if element.is_subbyte:
            yield _unwritable(element, target, 1)
            return
        case LinearAlgebra(output=Value(type=MemrefType(element=element)) as output) if element.is_subbyte:
            yield _unwritable(element, output, len(operation.inputs) + 2)
            return
        case Alloca(result=Value(type=MemrefType(element=element))) if element.is_subbyte:
            message = f"temporary memory of {element} could not be written: its elements share bytes"
            yield RuleError(message, f"write {element.in_registers}", 0)
            return
    wrong = [(position, operand, operand.type) for position, operand in enumerate(operation.operands)
             if isinstance(operand.type, ScalarType) and operand.type.is_subbyte
             and not (isinstance(operand, Value) and isinstance(operation, Cast))]
    for position, operand, type in wrong:
        message = f"{_operand_name(operand)} has type {type}, which only cast takes"
        yield RuleError(message, _cast_hint(operand, type.in_registers), position)
    if wrong:
        return
    for result in operation.results:
        if isinstance(result.type, ScalarType) and result.type.is_subbyte and not isinstance(operation, Load):
            message = f"{result} has type {result.type}, a type of elements in memory, not of values"
            yield RuleError(message, f"write {result.type.in_registers}")


def _unwritable(element: ScalarType, target: Value, position: int) -> RuleError:
    message = f"{target} has elements of type {element}, which can only be read: several share a byte"
    return RuleError(message, f"use elements of type {element.in_registers} in {target}", position)


def _constant_errors(constant: Constant, position: int) -> Iterator[RuleError]:
    try:
        exact = convert(constant.value, constant.type)
    except RuleError as error:
        yield RuleError(error.message, error.hint, position)
        return
    is_nan = exact != exact
    if type(exact) is not type(constant.value) or (exact != constant.value and not is_nan):
        yield RuleError(f"the constant {constant.value!r} is not exact in type {constant.type}", None, position)


# --- scalars ---------------------------------------------------------------------------------------------------------


def _kind_errors(name: str, type: Type, kinds: tuple[str, ...] | None) -> Iterator[RuleError]:
    if kinds is None:
        yield RuleError(f"there is no instruction {name}")
    elif not isinstance(type, ScalarType):
        yield RuleError(f"{name} works on scalars, not on {describe(type)}")
    elif type.kind not in kinds:
        accepted = {"signed": "integers", "unsigned": "integers", "float": "floats", "complex": "complex numbers"}
        names = list(dict.fromkeys(accepted.get(kind, "i1") for kind in kinds))
        hint = f"cast the operands to {'an integer' if 'signed' in kinds else 'a floating-point'} type first"
        if type == I1:
            hint = "use arith.and, arith.or, arith.xor or arith.not on i1"
        elif type.is_complex:
            hint = "use arith.add, arith.sub, arith.mul, arith.div or arith.neg on complex numbers"
        yield RuleError(f"{name} works on {_enumerate(names)}, not on {type}", hint)


def _enumerate(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _operand_name(operand: Operand) -> str:
    return str(operand) if isinstance(operand, Value) else "the constant"


def _cast_hint(operand: Operand, type: Type) -> str:
    if not isinstance(operand, Value):
        return f"annotate it with {type}"
    if isinstance(operand.type, MemrefType) and operand.type.element == type:
        return f"load an element of {operand} first"
    if isinstance(operand.type, ScalarType) and (type == I1 or not operand.type.is_complex or _is_complex(type)):
        return f"write {cast_line(operand, type)} before, and use that"
    return f"use a value of type {type}"


def _is_complex(type: Type) -> bool:
    return isinstance(type, ScalarType) and type.is_complex


def _scalar_errors(operands: tuple[Operand, ...], type: Type, first: int) -> Iterator[RuleError]:
    """Yield an error for each operand that has another type than the instruction."""
    for position, operand in enumerate(operands, first):
        if operand.type != type:
            yield RuleError(
                f"{_operand_name(operand)} has type {operand.type}, but type {type} is needed",
                _cast_hint(operand, type),
                position,
            )


def _division_errors(kind: str, divisor: Operand) -> Iterator[RuleError]:
    if kind in ("div", "rem") and isinstance(divisor, Constant) and divisor.type.is_integer and divisor.value == 0:
        yield RuleError("integer division by zero", "write a divisor other than 0", 1)


def _compare_errors(kind: str, lhs: Operand, rhs: Operand) -> Iterator[RuleError]:
    if kind not in COMPARISONS:
        yield RuleError(f"there is no instruction cmp.{kind}")
    if not isinstance(lhs.type, ScalarType):
        yield RuleError(f"cmp.{kind} works on scalars, not on {describe(lhs.type)}", None, 0)
        return
    if lhs.type.is_complex and kind not in ("eq", "ne"):
        message = f"cmp.{kind} does not work on {lhs.type}: complex numbers have no order"
        yield RuleError(message, "use cmp.eq or cmp.ne")
    yield from _scalar_errors((rhs,), lhs.type, first=1)


def _cast_errors(operand: Operand, target: Type) -> Iterator[RuleError]:
    if not isinstance(operand.type, ScalarType) or not isinstance(target, ScalarType):
        yield RuleError(f"cast works on scalars, not on {describe(operand.type)}", None, 0)
    elif operand.type.is_complex and not (target.is_complex or target.is_boolean):
        message = f"{operand.type} does not cast to {target}: its imaginary part would be lost"
        yield RuleError(message, "cast it to c32, c64 or i1", 0)


def _foreach_errors(operation: Foreach) -> Iterator[RuleError]:
    count = len(operation.variables)
    if not count or {len(operation.starts), len(operation.stops)} != {count}:
        yield RuleError(
            f"a foreach over {count} indices has {len(operation.starts)} first values and {len(operation.stops)} ends",
            "give one of each for every index",
        )
        return
    for place, (variable, start, stop) in enumerate(operation.ranges):
        yield from _loop_errors("foreach", variable, {place: start, count + place: stop})


def _loop_errors(name: str, variable: Value, bounds: Mapping[int, Operand]) -> Iterator[RuleError]:
    """Yield what is wrong with the type of a loop's variable, and with bounds, by their place among the operands."""
    if not (isinstance(variable.type, ScalarType) and variable.type.is_integer):
        yield RuleError(f"the variable of a {name} loop has type {variable.type}", "use index or another integer type")
        return
    for place, bound in bounds.items():
        yield from _scalar_errors((bound,), variable.type, first=place)


# --- memory ----------------------------------------------------------------------------------------------------------


def _alloca_errors(result: Value) -> Iterator[RuleError]:
    if not isinstance(result.type, MemrefType):
        yield RuleError(f"alloca gives a memref, not {describe(result.type)}")
        return
    try:
        check_type(result.type)
    except RuleError as error:
        yield RuleError(error.message, error.hint)
    if not result.type.is_static:
        what = "mode" if None in result.type.shape else "stride"
        yield RuleError(
            f"alloca of {result.type}, which has a dynamic {what}",
            "write constant sizes and strides; only views vary",
            0,  # an alloca has no operands: the place of its type
        )


def _store_errors(value: Operand, target: Value, indices: tuple[Operand, ...]) -> Iterator[RuleError]:
    if not isinstance(target.type, MemrefType):
        yield RuleError(f"store needs a memref, but its operand is {describe(target.type)}", None, 1)
        return
    yield from _scalar_errors((value,), target.type.element, first=0)
    try:
        check_indices(target.type, indices, first=2)
    except RuleError as error:
        yield error


# --- linear algebra --------------------------------------------------------------------------------------------------


def _linear_algebra_errors(operation: LinearAlgebra) -> Iterator[RuleError]:
    name = type(operation).__name__.lower()
    if len(operation.transposes) != TRANSPOSES[type(operation)]:
        yield RuleError(
            f"{name} takes {counted(TRANSPOSES[type(operation)], 'transpose')}, but {len(operation.transposes)} given"
        )
        return
    memrefs = (*operation.inputs, operation.output)
    count = len(_SHAPES[type(operation)][0])
    if len(memrefs) != count:
        yield RuleError(f"{name} takes {counted(count - 1, 'input')}, but {len(operation.inputs)} given")
        return
    positions = (*range(1, len(memrefs)), len(memrefs) + 1)
    sound = True
    for memref, position in zip(memrefs, positions, strict=True):
        if not isinstance(memref.type, MemrefType):
            yield RuleError(f"{name} needs a memref, but {memref} is {describe(memref.type)}", None, position)
            sound = False
        elif memref.type.element == I1:
            message = f"{name} does not work on elements of type i1"
            yield RuleError(message, "use an integer or floating-point type", position)
            sound = False
    if sound:
        yield from _precision_errors(operation, name)
        yield from _element_errors(operation, name, positions)
        yield from _shape_errors(operation, name, positions)


def _precision_errors(operation: LinearAlgebra, name: str) -> Iterator[RuleError]:
    """Yield an error for a precision of what is no product of f32."""
    if operation.precision is None:
        return
    if not isinstance(operation, Gemm | Gemv) or operation.precision not in PRECISIONS:
        yield RuleError(f"{name} has no precision {operation.precision!r}", f"there are {', '.join(PRECISIONS)}")
        return
    elements = [memref_type(value).element for value in (*operation.inputs, operation.output)]
    if elements != [F32] * 3:
        types = ", ".join(map(str, elements))
        yield RuleError(f".{operation.precision} is for products of f32, not of {types}", "leave it away")


def _element_errors(operation: LinearAlgebra, name: str, positions: tuple[int, ...]) -> Iterator[RuleError]:
    """Yield an error for each operand that does not convert to the output's element type without loss."""
    assert isinstance(operation.output.type, MemrefType)
    target = operation.output.type.element
    operands: list[tuple[Operand, int]] = [(operation.alpha, 0), (operation.beta, len(operation.inputs) + 1)]
    operands += zip(operation.inputs, positions, strict=False)
    for operand, position in operands:
        source = operand.type.element if isinstance(operand.type, MemrefType) else operand.type
        if not isinstance(source, ScalarType):
            yield RuleError(f"{name} needs a scalar here, but {operand} is {describe(source)}", None, position)
        elif not is_lossless(source, target):
            what = "elements of type" if isinstance(operand.type, MemrefType) else "type"
            hint = _cast_hint(operand, target)
            if isinstance(operand.type, MemrefType):
                hint = f"use elements of type {target} in {operand}, or of another type in {operation.output}"
            yield RuleError(
                f"{_operand_name(operand)} has {what} {source}, which cannot become {target}, the element type of the "
                f"output {operation.output}, without loss",
                hint,
                position,
            )


def _shape_errors(operation: LinearAlgebra, name: str, positions: tuple[int, ...]) -> Iterator[RuleError]:
    """Yield an error for each operand of a wrong order, and each size that differs from the size of the same name."""
    memrefs = (*operation.inputs, operation.output)
    shapes = [memref.type.shape for memref in memrefs if isinstance(memref.type, MemrefType)]
    alternatives = _SHAPES[type(operation)]
    row = next((row for row in alternatives if len(row[0]) == len(shapes[0])), None)
    if row is None:
        expected = " or ".join(_ORDERS[len(row[0])] for row in alternatives)
        formulas = " or ".join(_formula(row) for row in alternatives)
        yield RuleError(
            f"{name} needs {expected}, but {memrefs[0]} is {describe(memrefs[0].type)}",
            f"{name} computes {formulas}; subview, expand or fuse give memrefs of other orders",
            positions[0],
        )
        return
    entries = list(zip(memrefs, row, shapes, positions, strict=True))
    wrong = [entry for entry in entries if len(entry[1]) != len(entry[2])]
    for memref, dims, _, position in wrong:
        message = f"{name} needs {_ORDERS[len(dims)]} here, but {memref} is {describe(memref.type)}"
        hint = f"{name} computes {_formula(row)}; subview, expand or fuse give memrefs of other orders"
        yield RuleError(message, hint, position)
    if wrong:
        return
    known: dict[str, tuple[int, Value, bool]] = {}
    flags = (*operation.transposes, False, False, False)
    for (memref, dims, shape, position), flag in zip(entries, flags, strict=False):
        transposed = flag and len(shape) == 2 and memref is not operation.output
        for dim, size in zip(dims, shape[::-1] if transposed else shape, strict=True):
            if size is None:
                continue
            first, owner, owner_transposed = known.setdefault(dim, (size, memref, transposed))
            if first != size:
                yield RuleError(
                    f"the shapes do not fit: {dim} is {first} in {_operand(owner, owner_transposed)} "
                    f"but {size} in {_operand(memref, transposed)}",
                    f"{name} computes {_formula(row)}; change a size or a transpose",
                    position,
                )


def dimension_names(operation: LinearAlgebra) -> list[tuple[Value, str]]:
    """Return each input and the output of a verified instruction with one letter for each of its modes.

    Modes with the same letter have the same size: ``gemm.t.n`` gives KM, KN and MN.
    """
    memrefs = (*operation.inputs, operation.output)
    order = memref_type(memrefs[0]).order
    row = next(row for row in _SHAPES[type(operation)] if len(row[0]) == order)
    flags = (*operation.transposes, False, False, False)
    inputs = [dims[::-1] if flag else dims for dims, flag in zip(row[:-1], flags, strict=False)]
    return list(zip(memrefs, [*inputs, row[-1]], strict=True))


def _operand(memref: Value, transposed: bool) -> str:
    return f"the transpose of {memref}" if transposed else str(memref)


def _formula(row: tuple[str, ...]) -> str:
    """Return the shapes of inputs and output as text: ``MxK, KxN -> MxN``."""
    *inputs, output = ("x".join(dims) or "order 0" for dims in row)
    return f"{', '.join(inputs)} -> {output}"
