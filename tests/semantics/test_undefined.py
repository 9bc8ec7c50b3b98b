"""What the language leaves undefined: ``debug=True`` reports each condition, on every target, with its line.

Beside them stand conditions that look alike and are defined: they are not reported, and their results are right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.semantics.support import TARGETS, Target
from tl_dpnp.errors import TLError

_TARGETS = [target for target in TARGETS if target.name in ("reference", "vector", "one_subgroup")]


@dataclass(frozen=True)
class Condition:
    """A function of integers `%a` and `%b`, with arrays `%x` and `%y` of f32x?, and calls of it.

    `bad` calls break a rule in line `line`, `good` ones do not; `message` is what the device says.
    """

    body: str
    good: list[tuple[int, int]]
    bad: list[tuple[int, int]]
    message: str
    line: int = 2
    type: str = "index"
    arrays: str = "f32x?"

    @property
    def source(self) -> str:
        v = f"memref<{self.arrays}>"
        return f"func @f(%a: {self.type}, %b: {self.type}, %x: {v}, %y: {v}) {{\n{self.body}\n}}"


def _slice(entry: str) -> str:
    return f"""%u = subview %x[{entry}] : memref<f32x?>
        %v = subview %y[{entry}] : memref<f32x?>
        axpby.n 1.0, %u, 0.0, %v : f32, memref<f32x?>, f32, memref<f32x?>"""


def _scalar(operation: str, type_: str) -> str:
    return f"""%r = arith.{operation} %a, %b : {type_}
        %o = cast %r : {type_} -> f32
        store %o, %y[0] : memref<f32x?>"""


def _cast(target: str) -> str:
    return f"""%q = cast %a : i64 -> f32
        %s = cast %b : i64 -> f32
        %f = arith.mul %q, %s : f32
        %r = cast %f : f32 -> {target}
        %o = cast %r : {target} -> f32
        store %o, %y[0] : memref<f32x?>"""


_EXPANDED = """%u = expand %x[0 -> %a x %b] : memref<f32x?>
        %e = load %u[0, 0] : memref<f32x?x?,strided<1,?>>
        store %e, %y[0] : memref<f32x?>"""
_INFERRED = """%u = expand %x[0 -> %a x ?] : memref<f32x?>
        %n = size %u[1] : memref<f32x?x?,strided<1,?>>
        %e = cast %n : index -> f32
        store %e, %y[0] : memref<f32x?>"""

#: All arrays have 12 elements.
CONDITIONS = {
    "load": Condition("%e = load %x[%a] : memref<f32x?>\nstore %e, %y[0] : memref<f32x?>", [(0, 0), (11, 0)],
                      [(12, 0), (-1, 0), (2**62, 0)], "index is out of bounds"),
    "store": Condition("store 1.0, %x[%a] : memref<f32x?>", [(11, 0)], [(12, 0), (-1, 0)], "index is out of bounds"),
    "load in foreach": Condition(
        "foreach %i = 0, %a {\n%e = load %x[%i] : memref<f32x?>\nstore %e, %y[%i] : memref<f32x?>\n}", [(12, 0)],
        [(13, 0)], "index is out of bounds", line=3),
    "index of a subview": Condition(
        "%u = subview %x[%a] : memref<f32x?>\naxpby.n 1.0, %u, 1.0, %u : f32, memref<f32>, f32, memref<f32>",
        [(11, 0)], [(12, 0), (-1, 0)], "index is out of bounds"),
    "slice": Condition(_slice("%a:%b"), [(0, 12), (5, 7), (11, 1), (12, 0), (3, 0)],
                       [(0, 13), (5, 8), (13, 0), (-1, 2), (5, -3), (5, -5), (0, -1), (0, -(2**63)), (5, 2**63 - 1),
                        (2**63 - 1, 5)],
                       "(offset|size) of the slice is out of bounds"),
    "slice to the end": Condition(_slice("%a:?"), [(0, 0), (11, 0), (12, 0)], [(13, 0), (-1, 0)],
                                  "offset of the slice is out of bounds"),
    "expand": Condition(_EXPANDED, [(3, 4), (1, 12)], [(3, 5), (-3, -4), (-12, -1), (0, 0)],
                        "expand shape (is|differs)"),
    "expand, one size inferred": Condition(_INFERRED, [(3, 0), (12, 0)], [(5, 0), (-3, 0), (0, 0), (13, 0)],
                                           "expand shape (is|differs)"),
    "cumsum": Condition(
        """%u = subview %x[0:%a] : memref<f32x?>
        %v = subview %y[0:%b] : memref<f32x?>
        cumsum 1.0, %u, 0, 0.0, %v""", [(12, 12), (5, 5), (0, 0)], [(3, 5), (5, 3), (0, 1), (1, 0)],
        "size of the slice", line=4),
    "step": Condition("for %i = 0, 4, %a : i32 {\nstore 1.0, %x[0] : memref<f32x?>\n}", [(1, 0), (9, 0)],
                      [(0, 0), (-1, 0), (-(2**31), 0)], "the step of the loop is", type="i32"),
    "unsigned step": Condition("for %i = 0, 4, %a : u64 {\nstore 1.0, %x[0] : memref<f32x?>\n}",
                               [(1, 0), (2**63, 0), (2**64 - 1, 0)], [(0, 0)], "the step of the loop is", type="u64"),
    **{f"{operation} of {type_}": Condition(_scalar(operation, type_), [(7, 2), (0, 1)], [(7, 0), (0, 0)],
                                            f"division of a value of type {type_} by zero", type=type_)
       for operation in ("div", "rem") for type_ in ("i8", "i32", "index", "u16", "u64")},
    **{f"{operation} of {type_}": Condition(_scalar(operation, type_), [(7, 0), (7, bits - 1)],
                                            [(7, bits)] + [(7, -1)] * (type_[0] == "i"), "shift amount is out",
                                            type=type_)
       for operation in ("shl", "shr") for type_, bits in (("i8", 8), ("i32", 32), ("u64", 64))},
    "cast to i8": Condition(_cast("i8"), [(127, 1), (-128, 1)], [(128, 1), (-129, 1), (2**40, 2**40)],
                            "cast of a value", line=5, type="i64"),
    "cast to u8": Condition(_cast("u8"), [(255, 1), (0, 1)], [(256, 1), (-1, 1)], "cast of a value", line=5,
                            type="i64"),
    "cast to i32": Condition(_cast("i32"), [(2**31 - 128, 1), (-(2**31), 1)], [(2**31, 1), (-(2**31) - 256, 1)],
                             "cast of a value", line=5, type="i64"),
    "cast to i64": Condition(_cast("i64"), [(2**31, 2**31), (-(2**32), 2**31)], [(2**32, 2**31), (2**33, -(2**31))],
                             "cast of a value", line=5, type="i64"),
    "cast to u64": Condition(_cast("u64"), [(2**32, 2**31)], [(2**32, 2**32), (-1, 1)], "cast of a value", line=5,
                             type="i64"),
}


@pytest.mark.parametrize("target", _TARGETS, ids=str)
@pytest.mark.parametrize("name", CONDITIONS)
def test_debug_reports(name: str, target: Target) -> None:
    condition = CONDITIONS[name]
    kernel = target.compile(condition.source, debug=True)
    for a, b in condition.good:
        _call(kernel, target, a, b)
    for a, b in condition.bad:
        with pytest.raises(TLError) as caught:
            _call(kernel, target, a, b)
        (diagnostic,) = caught.value.diagnostics
        assert diagnostic.span is not None
        assert diagnostic.span.line == condition.line, (a, b)
        if target.name != "reference":
            assert caught.match(condition.message), (a, b)


def _call(kernel: Any, target: Target, a: int, b: int) -> np.ndarray:
    x, y = np.arange(12, dtype=np.float32), np.zeros(12, np.float32)
    target.call(kernel, a, b, x, y, group_size=1)
    return y


#: What is defined: operation, type, operands, result.
DEFINED = [
    ("div", "i8", -128, -1, -128), ("rem", "i8", -128, -1, 0), ("div", "i32", -(2**31), -1, -(2**31)),
    ("rem", "i32", -(2**31), -1, 0), ("div", "i64", -(2**63), -1, -(2**63)), ("rem", "i64", -(2**63), -1, 0),
    ("add", "i8", 127, 1, -128), ("mul", "i32", 2**31 - 1, 2, -2), ("sub", "u8", 0, 1, 255),
]


@pytest.mark.parametrize("target", _TARGETS, ids=str)
@pytest.mark.parametrize(("operation", "type_", "a", "b", "expected"), DEFINED)
def test_integers_wrap(operation: str, type_: str, a: int, b: int, expected: int, target: Target) -> None:
    source = Condition(_scalar(operation, type_), [], [], "", type=type_).source
    for debug in (False, True):
        assert _call(target.compile(source, debug=debug), target, a, b)[0] == np.float32(expected)


@pytest.mark.parametrize("target", _TARGETS, ids=str)
@pytest.mark.parametrize("operation", ["div", "rem"])
def test_floats_divide_by_zero(operation: str, target: Target) -> None:
    """Values and constants are as IEEE 754 says, with debug, too."""
    source = f"""func @f(%a: f32, %x: memref<f32x?>, %y: memref<f32x?>) {{
        %q = arith.{operation} 1.5, %a : f32
        %r = arith.{operation} %a, 0.5 : f32
        store %q, %y[0] : memref<f32x?>
        store %r, %y[1] : memref<f32x?>
    }}"""
    y = np.zeros(12, np.float32)
    target.run(source, 0.0, np.zeros(12, np.float32), y, group_size=1, debug=True)
    np.testing.assert_array_equal(y[:2], [np.inf if operation == "div" else np.nan, 0.0])


@pytest.mark.parametrize("target", _TARGETS, ids=str)
def test_a_step_of_zero_ends(target: Target) -> None:
    """Without debug, too: the device runs no iteration, the interpreter raises."""
    condition = CONDITIONS["step"]
    if target.name == "reference":
        with pytest.raises(TLError, match="the step of the loop is 0"):
            _call(target.compile(condition.source), target, 0, 0)
    else:
        kernel = target.compile(condition.source)
        for step in (0, -1):
            _call(kernel, target, step, 0)


@pytest.mark.parametrize("target", _TARGETS, ids=str)
def test_constants_out_of_range(target: Target) -> None:
    """A cast that is folded at compile time is reported at the call, and without debug gives the nearest end."""
    source = """func @f(%x: memref<f32x?>, %y: memref<f32x?>) {
        %big = arith.mul 1.0e5, 1.0e5 : f32
        %i = cast %big : f32 -> i8
        %o = cast %i : i8 -> f32
        store %o, %y[0] : memref<f32x?>
    }"""
    x, y = np.zeros(12, np.float32), np.zeros(12, np.float32)
    target.run(source, x, y, group_size=1)
    assert y[0] == 127
    with pytest.raises(TLError, match=":3:"):
        target.run(source, x, y, group_size=1, debug=True)
