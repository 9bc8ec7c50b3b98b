"""What building an operation takes, whichever it is: numbers become operands, rules are checked, places noted.

The methods of the builder stand beside the instructions that they build, in classes derived from `Building`.
"""

from __future__ import annotations

import linecache
import operator
import pathlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from numbers import Complex, Integral, Real
from typing import SupportsIndex, TypeVar

from tl_dpnp.errors import Diagnostic, Span, TLVerifyError, nearest
from tl_dpnp.language.constants import convert
from tl_dpnp.language.ir import POISON, Constant, Operand, Operation, Value
from tl_dpnp.language.rule_error import RuleError
from tl_dpnp.language.rules import operation_errors
from tl_dpnp.language.type_rules import describe
from tl_dpnp.language.types import CooperativeMatrixType, GroupType, MemrefType, Type
from tl_dpnp.scalars import INDEX, SCALAR_TYPES, ScalarType

__all__ = ["Argument", "Building", "Number", "caller", "located", "python_number", "type_hint"]

#: What an operand may be: a value, or a Python or NumPy number.
Number = bool | int | float | complex
Argument = Value | Constant | Number

_Built = TypeVar("_Built", bound=Operation)


class Building:
    """The part of a function builder that the methods of all instructions share."""

    _regions: list[list[Operation]]
    _returned: list[tuple[Type, ...]]  # for each open region, the types that its yield gives
    _names: set[str]
    _next: int

    def _operand(self, argument: Argument, type: Type) -> Operand:
        """Return a value as it is, a number as a constant of `type`."""
        if isinstance(argument, Value | Constant):
            return argument
        if not isinstance(type, ScalarType):
            raise self._error(f"{_shown(argument)} is no {type}", "give a value of that type")
        with located():
            return Constant(convert(python_number(argument), type), type, caller())

    def _indices(self, indices: Sequence[Argument]) -> tuple[Operand, ...]:
        return tuple(self._operand(index, INDEX) for index in indices)

    def _integer(self, given: SupportsIndex, what: str) -> int:
        """Return an int for a Python or NumPy integer.  Raises `TLVerifyError` for anything else."""
        try:
            return operator.index(given)
        except TypeError:
            raise self._error(f"{what} is an int, not {_shown(given)}", "write a number such as 1") from None

    def _flag(self, given: object, what: str) -> bool:
        """Return whether something that is on or off is on.  Raises `TLVerifyError` for what is no bool."""
        if given != bool(given):
            raise self._error(f"{what} is True or False, not {_shown(given)}", f"write {what}=True, or leave it out")
        return bool(given)

    def _scalar_type(self, type: ScalarType | None, *arguments: Argument | None) -> ScalarType:
        """Return the given type, or that of the first operand that has one."""
        if type is not None:
            return self._checked_type(type)
        for argument in arguments:
            if isinstance(argument, Value | Constant):
                if isinstance(argument.type, ScalarType):
                    return argument.type
                raise self._error(f"a scalar is needed, but {argument} is {describe(argument.type)}", "load an element")
        raise self._error("no operand is a value, so that the type is unknown", "give the type: type=F32")

    def _value_type(self, type: ScalarType | None, *arguments: Argument | None) -> ScalarType | CooperativeMatrixType:
        """Return the type of the first operand that is a cooperative matrix, else what `_scalar_type` does."""
        for argument in arguments:
            if type is None and isinstance(argument, Value) and isinstance(argument.type, CooperativeMatrixType):
                return argument.type
        return self._scalar_type(type, *arguments)

    def _checked_value_type(self, type: ScalarType | CooperativeMatrixType) -> ScalarType | CooperativeMatrixType:
        """Return the type of a scalar or a cooperative matrix as it is, or raise as `_checked_type` does."""
        return type if isinstance(type, CooperativeMatrixType) else self._checked_type(type)

    def _checked_type(self, type: ScalarType) -> ScalarType:
        """Return a scalar type as it is.  Raises `TLVerifyError` for anything else, with the one that was meant."""
        if not isinstance(type, ScalarType):
            raise self._error(f"the type of a scalar is needed, but {_shown(type)} given", type_hint(type))
        return type

    def _memref(self, value: Value) -> MemrefType:
        if not isinstance(value, Value):
            message = f"a memref is needed, but {_shown(value)} given"
            raise self._error(message, "give a value that the builder returned")
        if not isinstance(value.type, MemrefType):
            hint = "load one memref of the group first" if isinstance(value.type, GroupType) else None
            raise self._error(f"a memref is needed, but {value} is {describe(value.type)}", hint)
        return value.type

    def _result(self, type: Type | None, name: str) -> Value:
        """Return a new value, numbered if it has no name; its type is inferred later if it is None."""
        if not isinstance(name, str):
            raise self._error(f"a name is text, not {_shown(name)}", 'write name="x"')
        if name in self._names:
            raise self._error(f"%{name} is already defined", "give the value a name of its own")
        while not name:
            name, self._next = str(self._next), self._next + 1
            name = "" if name in self._names else name
        self._names.add(name)
        return Value(name, POISON if type is None else type, caller())

    def append(self, operation: Operation) -> None:
        """Append an operation as it is, which obeys the rules and whose results the builder gave no names."""
        self._regions[-1].append(operation)

    def append_again(self, operation: Operation) -> Value:
        """Append an operation as `append` does, whose only result gets a name of its own, and return that."""
        result = self._result(operation.results[0].type, "")
        self.append(replace(operation, result=result))  # type: ignore[call-arg]
        return result

    def _add(self, operation: Operation) -> None:
        self._regions[-1].append(self._check(operation))

    def _add_value(self, operation: Operation) -> Value:
        """Append an operation whose only result has its type inferred where that follows from the operands."""
        with located():
            type = operation.result_type()
        if type is not None:
            operation = replace(operation, result=replace(operation.results[0], type=type))  # type: ignore[call-arg]
        self._add(operation)
        return operation.results[0]

    def _value(self, value: Value) -> Value:
        """Return a value as it is.  Raises `TLVerifyError` for anything else."""
        if not isinstance(value, Value):
            raise self._error(f"{_shown(value)} is no operand", "give a value that the builder returned")
        return value

    def _check(self, operation: _Built) -> _Built:
        """Return the operation with the caller's place.  Raises `TLVerifyError` if it breaks a rule."""
        operation = replace(operation, span=caller())
        diagnostics = [_diagnostic(error) for error in operation_errors(operation)]
        if diagnostics:
            raise TLVerifyError.from_diagnostics(diagnostics)
        return operation

    @contextmanager
    def _region(self, types: tuple[Type, ...] = ()) -> Iterator[list[Operation]]:
        """Collect the operations that are built inside the context; drop them if it ends in an exception."""
        body: list[Operation] = []
        self._regions.append(body)
        self._returned.append(types)
        try:
            yield body
        finally:
            self._regions.pop()
            self._returned.pop()

    def _error(self, message: str, hint: str | None = None) -> TLVerifyError:
        return TLVerifyError(message, (_diagnostic(RuleError(message, hint)),))


def python_number(argument: object) -> Number:
    """Return a Python number for a Python or NumPy number."""
    match argument:
        case bool() | int() | float() | complex():
            return argument
        case Integral():
            return int(argument)
        case Real():
            try:
                return float(argument)
            except OverflowError:
                raise RuleError("a number is larger than any float", "give a smaller one, or infinity") from None
        case Complex():
            return complex(argument)
    raise RuleError(f"{_shown(argument)} is no operand", "give a value that the builder returned, or a number")


def _shown(argument: object) -> str:
    """Return what somebody gave, in short: an array by its class."""
    text = repr(argument)
    return text if len(text) <= 40 and "\n" not in text else f"a {type(argument).__name__}"


#: Scalar types by what else they are called: NumPy's names, and Python's types of that size.
_OTHER_NAMES = {
    **{scalar.storage: scalar for scalar in reversed(SCALAR_TYPES.values()) if not scalar.is_subbyte},
    "bfloat16": SCALAR_TYPES["bf16"], "float": SCALAR_TYPES["f64"], "int": SCALAR_TYPES["i64"],
    "complex": SCALAR_TYPES["c64"],
}


def type_hint(given: object) -> str:
    """Say how the type is written that somebody meant."""
    name = getattr(given, "__name__", str(given))
    meant = SCALAR_TYPES.get(name) or _OTHER_NAMES.get(name)
    near = nearest(name, SCALAR_TYPES) if meant is None else meant.name
    if near is None:
        return "write F32 or another type of tl_dpnp.scalars, memref(F32, 16, 8), or group(memref(F32, 16, 8))"
    upper = SCALAR_TYPES[near].name.upper()
    return f"write {upper}, after from tl_dpnp.scalars import {upper}"


@contextmanager
def located() -> Iterator[None]:
    """Give a broken rule the caller's place."""
    try:
        yield
    except RuleError as error:
        raise TLVerifyError.from_diagnostics([_diagnostic(error)]) from None


def _diagnostic(error: RuleError) -> Diagnostic:
    span = caller()
    return Diagnostic(error.message, span, error.hint, linecache.getline(span.file, span.line).rstrip() or None)


def caller() -> Span:
    """Return the line of Python code that called the builder."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INTERNAL):
        frame = frame.f_back
    file, line = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(file, line).rstrip()
    first = len(text) - len(text.lstrip()) + 1
    return Span(file, line, first, line, max(len(text), first) + 1)


#: Where the files of the language are, and that of context managers.
_INTERNAL = (f"{pathlib.Path(__file__).parent}/", contextmanager.__code__.co_filename)
