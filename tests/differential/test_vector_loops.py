"""Loops of scalar instructions, which the vector form computes as vectors, against the interpreter."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field

import dpnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tl_dpnp
from tl_dpnp.scalars import SCALAR_TYPES

FLOATS, INTEGERS = ("f32", "f64", "f16"), ("i8", "u8", "i16", "i32", "u32", "i64", "u64")
#: Units in the last place that functions may be off, on the device and in NumPy together (OpenCL C 3.0, section 7.4).
ULP = 16


@dataclass
class Loop:
    """The text of a function with one ``foreach``, drawn at random, and the shapes and types of its arrays."""

    seed: int
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.names = (f"%{number}" for number in itertools.count())
        self.first, self.count = self.random.randint(0, 5), self.random.choice([*range(40), 63, 64, 100])
        self.type = self.random.choice(FLOATS * 2 + INTEGERS)
        self.others = self.random.choice(FLOATS if self.type in FLOATS else INTEGERS)
        self.static = self.random.random() < 0.6
        self.factor = self.random.choice([2, 2, 3, 4, 6, 7])
        self.values: dict[str, list[str]] = {}
        for _ in range(self.random.randint(1, 3)):
            self.load(self.random.choice([self.type, self.others]))
        for _ in range(self.random.randint(1, 8)):
            self.instruction()
        value = self.value(self.type)
        self.line(f"store {value}, %out[{self.place(writes=True)}] : {self.memref(self.type)}")

    def line(self, text: str, result: str | None = None) -> str:
        self.lines.append(text if result is None else f"{result} = {text}")
        return result or ""

    def memref(self, type_: str) -> str:
        return f"memref<{type_}x?x?>"

    @property
    def rows(self) -> int:
        """Rows and columns of the arrays: all places that a loop may reach."""
        return self.factor * (self.first + self.count) + 8

    def place(self, writes: bool = False) -> str:
        """Return indices that move with the iteration: side by side, along a row, backwards, several places apart."""
        index = self.random.choice(["%i"] * 4 + ["back", "apart", "apart", "ahead"])
        if index == "back":
            index = self.line(f"arith.sub {self.first + self.count + 2}, %i : index", next(self.names))
        elif index == "apart":
            factor = self.random.choice([str(self.factor)] * 3 + ["%factor"])
            index = self.line(f"arith.mul %i, {factor} : index", next(self.names))
        elif index == "ahead":
            index = self.line("arith.add %i, %ahead : index", next(self.names))
        fixed = self.random.choice(["0", "%ahead"])
        if not writes and self.random.random() < 0.2:
            return f"{fixed}, 1"
        return f"{index}, {fixed}" if self.random.random() < 0.7 else f"{fixed}, {index}"

    def load(self, type_: str) -> None:
        array = "%a" if type_ == self.type else "%b"
        place = self.place()
        self.keep(type_, self.line(f"load {array}[{place}] : {self.memref(type_)}", next(self.names)))

    def keep(self, type_: str, name: str) -> None:
        self.values.setdefault(type_, []).append(name)

    def value(self, type_: str) -> str:
        """Return a value of a type: a vector, a scalar from outside, or a constant."""
        constant = "2.5" if type_ in FLOATS else "3"
        outside = ["%x"] if type_ == self.type else []
        return self.random.choice(self.values.get(type_, []) * 3 + outside + [constant])

    def instruction(self) -> None:
        type_ = self.random.choice(list(self.values))
        if type_ in FLOATS:
            kinds = ["binary", "unary", "function", "function", "select", "cast", "iteration"]
        elif type_ in INTEGERS:
            kinds = ["binary", "division", "unary", "select", "cast", "iteration"]
        else:
            return
        a, b = self.value(type_), self.value(type_)
        kind, name = self.random.choice(kinds), next(self.names)
        match kind:
            case "binary":
                self.line(f"arith.{self.random.choice(['add', 'sub', 'mul'])} {a}, {b} : {type_}", name)
            case "division":
                self.line(f"arith.{self.random.choice(['div', 'rem', 'and', 'xor'])} {a}, {b} : {type_}", name)
            case "unary":
                self.line(f"arith.neg {a} : {type_}", name)
            case "function":
                function = self.random.choice([
                    "exp", "sin", "cos", "tanh", "abs", "sqrt", "log", "min", "max", "fma", "expm1", "log1p", "cbrt",
                    "erf", "atan", "sinh", "cosh", "asinh", "hypot",
                ])
                if function in ("sqrt", "log", "log1p"):
                    a = self.line(f"math.abs {a} : {type_}", next(self.names))
                if function in ("sin", "cos", "exp", "expm1", "sinh", "cosh"):
                    a = self.line(f"math.tanh {a} : {type_}", next(self.names))
                arguments = {**dict.fromkeys(("min", "max", "hypot"), f"{a}, {b}"), "fma": f"{a}, {b}, {a}"}.get(
                    function, a)
                self.line(f"math.{function} {arguments} : {type_}", name)
            case "select":
                test = self.line(f"cmp.{self.random.choice(['lt', 'ne', 'ge'])} {a}, {b} : {type_}", next(self.names))
                inner = next(self.names)
                self.line(f"if {test} -> ({type_}) {{ {inner} = arith.add {a}, {a} : {type_} "
                          f"yield {inner} : {type_} }} else {{ yield {b} : {type_} }}", name)
            case "cast":
                target = self.others if type_ == self.type else self.type
                self.line(f"cast {a} : {type_} -> {target}", name)
                self.keep(target, name)
                return
            case "iteration":
                self.line(f"cast %i : index -> {type_}", name)
        self.keep(type_, name)

    @property
    def source(self) -> str:
        """The text of the function; a loop of known bounds has numbers there."""
        start, stop = (str(self.first), str(self.first + self.count)) if self.static else ("%start", "%stop")
        inside = "\n    ".join(self.lines)
        return f"""
func @f(%start: index, %stop: index, %ahead: index, %factor: index, %x: {self.type}, %a: {self.memref(self.type)},
        %b: {self.memref(self.others)}, %out: {self.memref(self.type)}) {{
  foreach %i = {start}, {stop} {{
    {inside}
  }}
}}"""

    def arguments(self) -> list[np.ndarray]:
        rng = np.random.default_rng(self.seed)
        shape = (self.rows, self.rows)
        return [np.asfortranarray(rng.integers(0 if name.startswith("u") else -4, 5, shape).astype(
            SCALAR_TYPES[name].storage)) for name in (self.type, self.others, self.type)]


def check(seed: int) -> str:
    """Compare the device with the interpreter; return the kernel's text."""
    loop = Loop(seed)
    a, b, out = loop.arguments()
    scalars = (loop.first, loop.first + loop.count, 3, loop.factor, 2 if loop.type in INTEGERS else 0.75)
    expected, given_ = out.copy(order="F"), dpnp.asarray(out, order="F")
    with np.errstate(all="ignore"):
        tl_dpnp.compile(loop.source, target="reference")(*scalars, a, b, expected, group_size=1)
    kernel = tl_dpnp.compile(loop.source, form="vector", cache=False)
    kernel(*scalars, dpnp.asarray(a, order="F"), dpnp.asarray(b, order="F"), given_, group_size=1)
    got = given_.asnumpy()
    if loop.type in INTEGERS and loop.others in INTEGERS:
        np.testing.assert_array_equal(got, expected, err_msg=loop.source)
    else:
        narrowest = max((np.dtype(SCALAR_TYPES[name].storage) for name in (loop.type, loop.others)
                         if name in FLOATS), key=lambda dtype: np.finfo(dtype).eps)
        tolerance = ULP * len(loop.lines) * np.finfo(narrowest).eps
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance, err_msg=loop.source)
    (text,) = kernel.inspect_source().values()
    return text


@settings(deadline=None)
@given(seed=st.integers(0, 2**32))
def test_random_loops(seed):
    check(seed)


HEADER = "func @f(%n: index, %x: memref<f32x?x7>, %s: memref<f32x5x7>, %t: memref<i64x7>, %b: memref<i4x8>) {"
LOOPS = {
    "side by side": ("store %v, %x[%i, 0] : memref<f32x?x7>", "%v = load %x[%i, 1] : memref<f32x?x7>"),
    "same for all": ("store %v, %x[%i, 0] : memref<f32x?x7>", "%v = load %x[2, 1] : memref<f32x?x7>"),
    "a row, and a function": ("store %w, %s[0, %i] : memref<f32x5x7>",
                              "%v = load %s[1, %i] : memref<f32x5x7> %w = math.exp %v : f32"),
    "a column from memory": ("store %v, %x[%i, 0] : memref<f32x?x7>",
                             "%j = load %t[3] : memref<i64x7> %k = cast %j : i64 -> index "
                             "%v = load %x[%i, %k] : memref<f32x?x7>"),
}
SCALAR_LOOPS = {
    "a row": ("store %v, %s[0, %i] : memref<f32x5x7>", "%v = load %s[1, %i] : memref<f32x5x7>"),
    "an index from memory": ("store %v, %x[%i, 0] : memref<f32x?x7>",
                             "%j = load %t[%i] : memref<i64x7> %k = cast %j : i64 -> index "
                             "%v = load %x[%k, 0] : memref<f32x?x7>"),
    "a branch that stores": ("if %c { store 0.0, %x[%i, 0] : memref<f32x?x7> }",
                             "%v = load %x[%i, 1] : memref<f32x?x7> %c = cmp.lt %v, 0.0 : f32"),
    "elements of four bits": ("store %w, %x[%i, 0] : memref<f32x?x7>",
                              "%v = load %b[%i] : memref<i4x8> %w = cast %v : i4 -> f32"),
}


@pytest.mark.parametrize("bounds", ["0, 5", "0, %n"])
@pytest.mark.parametrize("name", [*LOOPS, *SCALAR_LOOPS])
def test_which_loops_are_vectors(name, bounds):
    store, body = (LOOPS | SCALAR_LOOPS)[name]
    kernel = tl_dpnp.compile(f"{HEADER} foreach %i = {bounds} {{ {body} {store} }} }}", form="vector", cache=False)
    arrays = [np.ones((9, 7), "f4"), np.ones((5, 7), "f4"), np.zeros(7, "i8"), np.zeros(4, "u1")]
    kernel(5, *(dpnp.asarray(array, order="F") for array in arrays), group_size=1)
    (text,) = kernel.inspect_source().values()
    # What is loaded to be an index is loaded in front only if the loop is known to run.
    are_vectors = name in LOOPS and (name, bounds) != ("a column from memory", "0, %n")
    assert ("vectors of" in text) == are_vectors, text


@pytest.mark.parametrize("n", [0, 1, 5])
def test_an_element_that_the_loop_has_written(n):
    """It is the same for all iterations, and is right only if it is loaded behind the store."""
    kernel = tl_dpnp.compile("""func @f(%n: index, %x: memref<f32x?>, %y: memref<f32x?>) {
      foreach %i = 0, %n {
        store 3.0, %x[%i] : memref<f32x?>
      }
      foreach %i = 0, 1 {
        store 2.0, %x[%i] : memref<f32x?>
        %v = load %x[0] : memref<f32x?>
        store %v, %y[%i] : memref<f32x?>
      }
    }""", form="vector", cache=False)
    x, y = dpnp.ones(8, dtype="f4"), dpnp.zeros(8, dtype="f4")
    kernel(n, x, y, group_size=1)
    np.testing.assert_array_equal(x.asnumpy(), [2] + [3] * (n - 1) + [1] * (8 - max(n, 1)))
    np.testing.assert_array_equal(y.asnumpy(), [2] + [0] * 7)


def test_an_element_of_an_array_that_has_none():
    """A loop that does not run loads nothing."""
    kernel = tl_dpnp.compile("""func @f(%x: memref<f32x?>, %y: memref<f32x?>) {
      %n = size %x[0] : memref<f32x?>
      foreach %i = 0, %n {
        %v = load %y[4096000000] : memref<f32x?>
        store %v, %x[%i] : memref<f32x?>
      }
    }""", form="vector", cache=False)
    kernel(dpnp.ones(0, dtype="f4"), dpnp.ones(1, dtype="f4"), group_size=1)


@pytest.mark.drawn
@pytest.mark.parametrize("count", range(1, 40))
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_nothing_is_written_behind_a_loop(count, dtype):
    """The last vector is narrower, or only some of its lanes are written."""
    name = {"f4": "f32", "f8": "f64"}[dtype]
    memref = f"memref<{name}x64>"
    for bounds in (f"3, {count + 3}", "3, %n"):
        x, y = dpnp.asarray(np.linspace(0, 1, 64).astype(dtype)), dpnp.full(64, -5, dtype=dtype)
        tl_dpnp.compile(f"""func @f(%n: index, %x: {memref}, %y: {memref}) {{
          foreach %i = {bounds} {{
            %v = load %x[%i] : {memref}
            %w = math.exp %v : {name}
            store %w, %y[%i] : {memref}
          }}
        }}""", form="vector")(count + 3, x, y, group_size=1)
        expected = np.full(64, -5, dtype)
        expected[3:count + 3] = np.exp(x.asnumpy()[3:count + 3])
        np.testing.assert_allclose(y.asnumpy(), expected, rtol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("form", ["vector", "subgroup"])
@pytest.mark.parametrize("bounds", ["(0, 0, 0), (6, 5, 3)", "(0, 0, 1), (6, 5, %n)", "(1, 0, 0), (5, 5, 3)",
                                    "(0, 2, 1), (6, 4, 3)", "(0, 0, %n), (6, 5, 2)", "(0, 1, 0), (6, 1, 3)"])
@pytest.mark.parametrize(("value", "expected"), [
    ("%v = load %x[%i, %j, %k] : memref<f32x6x5x3> %w = math.exp %v : f32", lambda x, b, place: np.exp(x[place])),
    ("%v = load %b[%i] : memref<f32x6> %w = math.exp %v : f32", lambda x, b, place: np.exp(b[place[0]])),
    ("%v = load %x[%i, 1, %k] : memref<f32x6x5x3> %w = arith.add %v, 1.0 : f32",
     lambda x, b, place: x[place[0], 1, place[2]] + 1),
    ("%m = arith.mul %j, 6 : index %t = arith.add %m, %i : index %w = cast %t : index -> f32",
     lambda x, b, place: 6 * place[1] + place[0]),
    ("%w = cast %k : index -> f32", lambda x, b, place: place[2]),
])
def test_loops_over_several_indices(bounds, value, expected, form):
    """All places and no others are written, whether the indices are joined to one or not."""
    kernel = tl_dpnp.compile(f"""func @f(%n: index, %x: memref<f32x6x5x3>, %b: memref<f32x6>, %y: memref<f32x6x5x3>) {{
      foreach (%i, %j, %k) = {bounds} {{
        {value}
        store %w, %y[%i, %j, %k] : memref<f32x6x5x3>
      }}
    }}""", form=form, cache=False)
    rng = np.random.default_rng(0)
    x, b = (np.asfortranarray(rng.random(shape).astype("f4")) for shape in ((6, 5, 3), (6,)))
    y = dpnp.full((6, 5, 3), -5, dtype="f4", order="F")
    kernel(3, dpnp.asarray(x, order="F"), dpnp.asarray(b), y, group_size=1)
    starts, stops = eval(bounds.replace("%n", "3"))  # numbers of this file
    right = np.full((6, 5, 3), -5, "f4")
    for place in itertools.product(*map(range, starts, stops)):
        right[place] = expected(x, b, place)
    np.testing.assert_allclose(y.asnumpy(), right, rtol=1e-6)


def test_indices_that_are_joined():
    kernel = tl_dpnp.compile("""func @f(%x: memref<f32x6x5x?>) {
      %g = group_id
      %a = subview %x[:, :, %g] : memref<f32x6x5x?>
      foreach (%i, %j) = (0, 0), (6, 5) {
        %v = load %a[%i, %j] : memref<f32x6x5>
        %w = math.exp %v : f32
        store %w, %a[%i, %j] : memref<f32x6x5>
      }
    }""", form="vector", cache=False)
    kernel(dpnp.zeros((6, 5, 4), dtype="f4", order="F"))
    (text,) = kernel.inspect_source().values()
    assert text.count("foreach_v") == 1, text
    assert "while v" not in text, text


def test_a_loop_that_reads_many_values():
    """A call with all of them would have more arguments than Numba takes."""
    loads = "\n".join(f"%l{place} = load %x[{place}] : memref<f32x64>" for place in range(40))
    sums = "\n".join(f"%s{place + 1} = arith.add %s{place}, %l{place} : f32" for place in range(40))
    kernel = tl_dpnp.compile(f"""func @f(%x: memref<f32x64>, %y: memref<f32x64>) {{
      {loads}
      foreach %i = 0, 64 {{
        %s0 = load %x[%i] : memref<f32x64>
        {sums}
        store %s40, %y[%i] : memref<f32x64>
      }}
    }}""", form="vector", cache=False)
    x, y = dpnp.arange(64, dtype="f4"), dpnp.zeros(64, dtype="f4")
    kernel(x, y, group_size=1)
    np.testing.assert_array_equal(y.asnumpy(), np.arange(64) + sum(range(40)))
