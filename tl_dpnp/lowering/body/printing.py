"""The body of a kernel as text that reads like Python, for people.

Its names are generated and it has numbers besides; nothing of the user's source enters it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tl_dpnp.lowering.body.tree import (
    And,
    Argument,
    Assign,
    Binary,
    Break,
    Call,
    Choice,
    Comparison,
    Constant,
    Count,
    Define,
    Evaluate,
    Expression,
    If,
    Name,
    Not,
    Return,
    Statement,
    While,
)
from tl_dpnp.scalars import F64, I1

__all__ = ["print_body"]


def print_body(name: str, arguments: Sequence[Argument], statements: Sequence[Statement]) -> str:
    """Return the text of a function of that name."""
    header = f"def {name}({', '.join(argument.name for argument in arguments)}):"
    return "\n".join([header, *_block(statements, 1)]) + "\n"


def _block(statements: Sequence[Statement], depth: int) -> Iterator[str]:
    indentation = "    " * depth
    if not statements:
        yield f"{indentation}pass"
    for statement in statements:
        match statement:
            case Define(name, value) | Assign(name, value):
                yield f"{indentation}{name.name} = {_text(value)}"
            case Count(variable, step):
                yield f"{indentation}{variable.name} = {variable.name} + {_text(step)}"
            case Evaluate(call, comment):
                yield f"{indentation}{_text(call)}" + (f"  # {comment}" if comment else "")
            case If(condition, (Break(),), None):
                yield f"{indentation}if {_text(condition)}: break"
            case If(condition, then, otherwise):
                yield f"{indentation}if {_text(condition)}:"
                yield from _block(then, depth + 1)
                if otherwise is not None:
                    yield f"{indentation}else:"
                    yield from _block(otherwise, depth + 1)
            case While(condition, body):
                yield f"{indentation}while {_text(condition)}:"
                yield from _block(body, depth + 1)
            case Return():
                yield f"{indentation}return"
            case Break():
                yield f"{indentation}break"


def _text(expression: Expression) -> str:
    match expression:
        case int():
            return str(expression)
        case Name(name):
            return name
        case Constant(value, type_):
            # Other types have no literals: the call of a conversion gives a number its type.
            return _number(value) if type_ in (F64, I1) else f"{type_}({_number(value)})"
        case Binary("*" | ">>" | "&" as operator, left, right):
            return f"{_factor(left)} {operator} {_factor(right)}"
        case Binary("-", left, right):
            return f"{_term(left)} - {_text(right) if isinstance(right, Call) else _factor(right)}"
        case Binary(operator, left, right) | Comparison(operator, left, right):
            return f"{_term(left)} {operator} {_term(right)}"
        case And(left, right):
            return f"{_text(left)} and {_text(right)}"
        case Not(condition):
            return f"not {_text(condition)}"
        case Choice(condition, then, otherwise):
            return f"{_argument(then)} if {_text(condition)} else {_argument(otherwise)}"
        case Call(intrinsic, arguments):
            return f"{intrinsic.name}({', '.join(map(_argument, arguments))})"
    raise AssertionError(expression)


def _factor(expression: Expression) -> str:
    return _text(expression) if isinstance(expression, int | Name) else f"({_text(expression)})"


def _term(expression: Expression) -> str:
    """Return what may stand beside a + or a comparison."""
    is_loose = isinstance(expression, Choice) or (isinstance(expression, Binary) and expression.operator in (">>", "&"))
    return f"({_text(expression)})" if is_loose else _text(expression)


def _argument(expression: Expression) -> str:
    return f"({_text(expression)})" if isinstance(expression, Choice) else _text(expression)


def _number(value: bool | int | float | complex) -> str:
    if isinstance(value, complex):
        return f"{_number(value.real)}, {_number(value.imag)}"
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return repr(value)
