"""What differs between devices is data of the catalogue, and all of it is used."""

from __future__ import annotations

import ast
import functools
import re
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

import tl_dpnp.target as target
from tl_dpnp.target import core, device, fusion, launches, matrix_units, multiprocessor

PACKAGE = Path(target.__file__).parents[1]
MODULES = {path: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
RECORDS = [value for module in (core, device, fusion, launches, matrix_units, multiprocessor)
           for value in vars(module).values() if is_dataclass(value) and value.__module__ == module.__name__]
#: Words by which a comment says that a number comes from a measurement, or from one processor.
MEASURED = re.compile(
    r"\b(measured|nanoseconds?|microseconds?|µs|ns|EPYC|Xeon|Zen|Sapphire Rapids|Hopper|H200|must_show|xmx_quality)\b",
    re.IGNORECASE)


def _is_number(value: ast.expr | None) -> bool:
    match value:
        case ast.Constant(value=int() | float() as number):
            return not isinstance(number, bool)
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Dict(values=parts):
            return any(map(_is_number, parts))
        case ast.BinOp(left=left, right=right):
            return _is_number(left) and _is_number(right)
        case ast.UnaryOp(operand=operand):
            return _is_number(operand)
    return False


def _measured(text: str) -> set[str]:
    """Return the names at the level of a module whose numbers were measured, as the comment above them says."""
    lines, found = text.splitlines(), set()
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and _is_number(statement.value):
            first = statement.lineno - 1
            begin = first
            while begin and lines[begin - 1].startswith("#"):
                begin -= 1
            if MEASURED.search(" ".join(lines[begin : statement.end_lineno])):
                of = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
                found.add(ast.unparse(of).strip("()").split(",")[0])
    return found


def test_measured_numbers_stand_in_the_catalogue():
    found = {path.relative_to(PACKAGE).as_posix(): _measured(text) for path, text in MODULES.items()
             if path.parent.name != "target"}
    assert not {path: names for path, names in found.items() if names}


def test_measured_numbers_are_found():
    text = "#: Nanoseconds of a call.\n_CALL = 12.5\n#: Bytes of a word.\n_WORD = 8\n_A, _B = 3, (4, 5)  # on an EPYC\n"
    assert _measured(text) == {"_CALL", "_A"}


@functools.cache
def _names_read() -> set[str]:
    """Return the attributes that the package reads, by their name or by one that a table holds."""
    nodes = [node for text in MODULES.values() for node in ast.walk(ast.parse(text))]
    return {node.attr for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)} | {
        node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.__name__)
def test_every_field_of_a_device_is_read(record):
    assert {field.name for field in fields(record)} <= _names_read()
