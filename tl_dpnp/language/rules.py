"""The rules that one operation must obey on its own, as far as they are the same for all instructions.

Those of one instruction are methods of its class, which ask the functions here.

Source: tensor language reference, section "Instructions".
"""

from __future__ import annotations

from collections.abc import Iterator

from tl_dpnp.language.constants import convert
from tl_dpnp.language.ir import POISON, Constant, Operand, Operation, Value
from tl_dpnp.language.rule_error import RuleError
from tl_dpnp.language.type_rules import cast_line, describe, same_type
from tl_dpnp.language.types import CooperativeMatrixType, MemrefType, Type
from tl_dpnp.scalars import I1, ScalarType

__all__ = ["cast_hint", "kind_errors", "operand_name", "operation_errors", "scalar_errors"]


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
    yield from subbyte or operation.errors()


def _result_errors(operation: Operation) -> Iterator[RuleError]:
    """Yield an error if the operands are not fit for the operation, or the result has another type than they give."""
    try:
        inferred = operation.result_type()
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
    operands = operation.operands
    for target in operation.writes:
        element = target.type.element if isinstance(target.type, MemrefType) else None
        if element is not None and element.is_subbyte:
            message = f"{target} has elements of type {element}, which can only be read: several share a byte"
            hint = f"use elements of type {element.in_registers} in {target}"
            yield RuleError(message, hint, max(place for place, operand in enumerate(operands) if operand is target))
            return
    wrong = [(position, operand, operand.type) for position, operand in enumerate(operands)
             if isinstance(operand.type, ScalarType) and operand.type.is_subbyte
             and not (isinstance(operand, Value) and operation.takes_subbyte)]
    for position, operand, type in wrong:
        message = f"{operand_name(operand)} has type {type}, which only cast takes"
        yield RuleError(message, cast_hint(operand, type.in_registers), position)
    if wrong:
        return
    for result in operation.results:
        if isinstance(result.type, ScalarType) and result.type.is_subbyte and not operation.gives_subbyte:
            message = f"{result} has type {result.type}, a type of elements in memory, not of values"
            yield RuleError(message, f"write {result.type.in_registers}")


def _constant_errors(constant: Constant, position: int) -> Iterator[RuleError]:
    try:
        exact = convert(constant.value, constant.type)
    except RuleError as error:
        yield RuleError(error.message, error.hint, position)
        return
    is_nan = exact != exact
    if type(exact) is not type(constant.value) or (exact != constant.value and not is_nan):
        yield RuleError(f"the constant {constant.value!r} is not exact in type {constant.type}", None, position)


def kind_errors(name: str, type: Type, kinds: tuple[str, ...] | None) -> Iterator[RuleError]:
    if kinds is None:
        yield RuleError(f"there is no instruction {name}")
    elif not isinstance(type, ScalarType):
        yield RuleError(f"{name} works on scalars, not on {describe(type)}")
    elif type.kind not in kinds:
        accepted = {"signed": "integers", "unsigned": "integers", "float": "floats", "complex": "complex numbers"}
        names = list(dict.fromkeys(accepted.get(kind, "i1") for kind in kinds))
        hint = f"cast the operands to {'an integer' if 'signed' in kinds else 'a floating-point'} type first"
        if kinds == ("complex",):
            hint = "a number without imaginary part is its own conjugate"
        elif type == I1:
            hint = "use arith.and, arith.or, arith.xor or arith.not on i1"
        elif type.is_complex:
            hint = "use arith.add, arith.sub, arith.mul, arith.div, arith.neg or arith.conj on complex numbers"
        yield RuleError(f"{name} works on {_enumerate(names)}, not on {type}", hint)


def _enumerate(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def operand_name(operand: Operand) -> str:
    return str(operand) if isinstance(operand, Value) else "the constant"


def cast_hint(operand: Operand, type: Type) -> str:
    if isinstance(type, CooperativeMatrixType) or isinstance(operand.type, CooperativeMatrixType):
        return f"use a value of type {type}"
    if not isinstance(operand, Value):
        return f"annotate it with {type}"
    if isinstance(operand.type, MemrefType) and operand.type.element == type:
        return f"load an element of {operand} first"
    if isinstance(operand.type, ScalarType) and (type == I1 or not operand.type.is_complex or _is_complex(type)):
        return f"write {cast_line(operand, type)} before, and use that"
    if isinstance(operand.type, ScalarType) and operand.type.is_complex and type == operand.type.part:
        return f"write %{type}_{operand.name} = re {operand} : {operand.type} -> {type} before, and use that"
    return f"use a value of type {type}"


def _is_complex(type: Type) -> bool:
    return isinstance(type, ScalarType) and type.is_complex


def scalar_errors(operands: tuple[Operand, ...], type: Type, first: int) -> Iterator[RuleError]:
    """Yield an error for each operand that has another type than the instruction."""
    for position, operand in enumerate(operands, first):
        if operand.type != type:
            yield RuleError(
                f"{operand_name(operand)} has type {operand.type}, but type {type} is needed",
                cast_hint(operand, type),
                position,
            )
