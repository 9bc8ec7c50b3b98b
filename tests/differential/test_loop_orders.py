"""Loops over several indices whose arrays lie in different orders, against the interpreter.

The vector form chooses the index that becomes vectors, collects elements that lie apart, and may unroll another index.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import dpnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tl_dpnp
from tl_dpnp.kernels.llvm import GLOBAL
from tl_dpnp.language import ops
from tl_dpnp.language.types import MemrefType
from tl_dpnp.lowering.body.memref import MemrefDescriptor
from tl_dpnp.lowering.emission.accesses import Access, pieces_of
from tl_dpnp.lowering.unrolling import unroll
from tl_dpnp.scalars import F32, INDEX, SCALAR_TYPES

TYPES = ("f32", "f32", "f64", "f16", "i32", "i8", "u16", "i64")


@dataclass
class Program:
    """A function drawn at random: a ``foreach`` that loads from arrays and temporaries in any order of indices."""

    seed: int

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.type = self.random.choice(TYPES)
        self.is_float = self.type.startswith("f")
        largest = {1: 100, 2: 15, 3: 5}[number := self.random.choice([1, 2, 2, 2, 3])]  # the temporary has to fit
        self.sizes = [self.random.randint(1, largest) for _ in range(number)]
        self.starts = [self.random.choice([0, 0, 0, 1]) for _ in self.sizes]
        self.extents = [start + size for start, size in zip(self.starts, self.sizes, strict=True)]
        #: The modes of each array: an index of the loop, or a size of its own that is read at constant places.
        self.arrays: dict[str, list[int | None]] = {}
        self.shapes: dict[str, list[int]] = {}
        self.count = 0

    def array(self, name: str, must: list[int]) -> None:
        modes: list[int | None] = [*must]
        if self.random.random() < 0.6:
            modes.append(None)
        self.random.shuffle(modes)
        self.arrays[name] = modes
        self.shapes[name] = [self.random.randint(2, 9) if mode is None else self.extents[mode] for mode in modes]

    def memref(self, name: str) -> str:
        return f"memref<{self.type}x{'x'.join(map(str, self.shapes[name]))}>"

    def place(self, name: str) -> str:
        return ", ".join(str(self.random.randrange(size)) if mode is None else f"%i{mode}"
                         for mode, size in zip(self.arrays[name], self.shapes[name], strict=True))

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    @property
    def source(self) -> str:
        every = [*range(len(self.sizes))]
        for name in ("x", "y"):
            self.array(name, sorted(self.random.sample(every, self.random.randint(1, len(every)))))
        self.array("t", every)
        self.array("out", every)
        lines, values = [], []
        for name in self.random.choices(["x", "y", "t"], k=self.random.randint(1, 8)):
            values.append(self.fresh())
            lines.append(f"{values[-1]} = load %{name}[{self.place(name)}] : {self.memref(name)}")
        for _ in range(self.random.randint(0, 6)):
            a, b, result = self.random.choice(values), self.random.choice(values), self.fresh()
            lines.append(f"{result} = {self.random.choice(['arith.add', 'arith.sub', 'arith.mul', 'math.max'])} "
                         f"{a}, {b} : {self.type}")
            values.append(result)
        if self.is_float and self.random.random() < 0.2:
            values.append(self.fresh())
            lines.append(f"{values[-2]}t = math.tanh {values[-2]} : {self.type}")
            lines.append(f"{values[-1]} = arith.mul {values[-2]}t, {values[-2]}t : {self.type}")
        loop = (f"foreach ({', '.join(f'%i{n}' for n in every)}) = ({', '.join(map(str, self.starts))}), "
                f"({', '.join(map(str, self.extents))})")
        copied = ", ".join(f"%c{mode}" for mode in range(len(self.shapes["t"])))
        whole = f"({', '.join('0' for _ in self.shapes['t'])}), ({', '.join(map(str, self.shapes['t']))})"
        body = "\n    ".join(lines)
        return f"""
func @f(%x: {self.memref("x")}, %y: {self.memref("y")}, %s: {self.memref("t")}, %out: {self.memref("out")}) {{
  %t = alloca -> {self.memref("t")}
  foreach ({copied}) = {whole} {{
    %c = load %s[{copied}] : {self.memref("t")}
    store %c, %t[{copied}] : {self.memref("t")}
  }}
  {loop} {{
    {body}
    store {values[-1]}, %out[{self.place("out")}] : {self.memref("out")}
  }}
}}"""


def check(seed: int) -> None:
    """Compare the device with the interpreter."""
    program = Program(seed)
    source = program.source
    rng = np.random.default_rng(seed)
    arrays = [np.asfortranarray(rng.integers(0, 5, program.shapes[name]).astype(SCALAR_TYPES[program.type].storage))
              for name in ("x", "y", "t", "out")]
    expected, got = arrays[-1].copy(order="F"), [dpnp.asarray(array, order="F") for array in arrays]
    with np.errstate(all="ignore"):
        tl_dpnp.compile(source, target="reference")(*arrays[:-1], expected, group_size=1)
    tl_dpnp.compile(source, form="vector", cache=False)(*got, group_size=1)
    tolerance = 64 * np.finfo(expected.dtype).eps if program.is_float else 0
    np.testing.assert_allclose(got[-1].asnumpy(), expected, rtol=tolerance, atol=tolerance, err_msg=source)


@settings(deadline=None)
@given(seed=st.integers(0, 2**32))
def test_random_orders(seed):
    check(seed)


@pytest.mark.parametrize("rows", range(5, 34, 4))
@pytest.mark.parametrize("name", ["f32", "f64", "f16", "i8", "u16", "i64"])
def test_copies_that_end_within_a_vector(name, rows):
    """The loop that fills the temporary ends inside one of its columns, a vector which LLVM then has a part of.

    With vectors of 8, 9 rows of f32 left 6 elements, a number for which SPIR-V has no vectors by itself.
    """
    kind, column = f"memref<{name}x{rows}x3>", f"memref<{name}x3>"
    source = f"""
    func @f(%s: {kind}, %y: {column}, %out: memref<{name}x3x{rows}>) {{
      %t = alloca -> {kind}
      foreach (%i, %j) = (0, 0), ({rows}, 3) {{
        %c = load %s[%i, %j] : {kind}
        store %c, %t[%i, %j] : {kind}
      }}
      foreach (%i, %j) = (0, 0), ({rows}, 3) {{
        %a = load %t[%i, %j] : {kind}
        %b = load %y[%j] : {column}
        %c = math.max %a, %b : {name}
        store %c, %out[%j, %i] : memref<{name}x3x{rows}>
      }}
    }}"""
    rng = np.random.default_rng(rows)
    s, y = (np.asfortranarray(rng.integers(0, 100, shape), SCALAR_TYPES[name].storage) for shape in ((rows, 3), 3))
    out = dpnp.zeros((3, rows), dtype=s.dtype, order="F")
    tl_dpnp.compile(source, form="vector", cache=False)(dpnp.asarray(s, order="F"), dpnp.asarray(y), out, group_size=1)
    np.testing.assert_array_equal(out.asnumpy(), np.maximum(s, y).T)


@pytest.mark.drawn(pairs=True)
@pytest.mark.parametrize("type_", ["f32", "f64", "i8"])
@pytest.mark.parametrize("stride", [2, 3, 6, 11])
@pytest.mark.parametrize("count", [2, 3, 16, 17, 29, 125])
def test_rows_that_are_read_element_by_element(type_, stride, count):
    """A function of rows: elements of a column lie a row apart."""
    row, result = f"memref<{type_}x{stride}x{count}>", f"memref<{type_}x{count}>"
    loads = "\n".join(f"%l{k} = load %x[{k}, %i] : {row}" for k in range(stride))
    sums = "\n".join(f"%s{k} = arith.add %{'l0' if k == 1 else f's{k - 1}'}, %l{k} : {type_}" for k in range(1, stride))
    kernel = tl_dpnp.compile(f"""func @f(%x: {row}, %y: {result}) {{
      foreach %i = 0, {count} {{
        {loads}
        {sums}
        store %s{stride - 1}, %y[%i] : {result}
      }}
    }}""", form="vector", cache=False)
    x = np.random.default_rng(stride).integers(-5, 5, (stride, count)).astype(SCALAR_TYPES[type_].storage)
    y = dpnp.zeros(count, dtype=x.dtype)
    kernel(dpnp.asarray(x, order="F"), y, group_size=1)
    np.testing.assert_array_equal(y.asnumpy(), x.sum(axis=0, dtype=x.dtype))
    (text,) = kernel.inspect_source().values()
    lanes = min(device.vector_bytes for device in tl_dpnp.devices() if device.is_cpu) // x.itemsize
    assert "vectors of" in text or count < 16 or stride > min(6, lanes), text


def test_iterations_that_share_what_they_read():
    """The index with few values is unrolled, so that the rows that lie apart are collected once."""
    kernel = tl_dpnp.compile("""func @f(%x: memref<f32x5x100>, %b: memref<f32x5x5>, %y: memref<f32x100x5>) {
      foreach (%i, %j) = (0, 0), (100, 5) {
        %v0 = load %x[0, %i] : memref<f32x5x100>
        %v1 = load %x[4, %i] : memref<f32x5x100>
        %w0 = load %b[%j, 0] : memref<f32x5x5>
        %w1 = load %b[%j, 1] : memref<f32x5x5>
        %p0 = arith.mul %v0, %w0 : f32
        %p1 = arith.mul %v1, %w1 : f32
        %p = arith.add %p0, %p1 : f32
        store %p, %y[%i, %j] : memref<f32x100x5>
      }
    }""", form="vector", cache=False)
    rng = np.random.default_rng(0)
    x, b = rng.random((5, 100), "f4"), rng.random((5, 5), "f4")
    y = dpnp.zeros((100, 5), dtype="f4", order="F")
    kernel(dpnp.asarray(x, order="F"), dpnp.asarray(b, order="F"), y, group_size=1)
    np.testing.assert_allclose(y.asnumpy(), np.outer(x[0], b[:, 0]) + np.outer(x[4], b[:, 1]), rtol=1e-6)
    (text,) = kernel.inspect_source().values()
    assert "while v" not in text, text


def test_unrolled_bodies_share_what_does_not_depend_on_the_index():
    memref = ops.Value("x", MemrefType(F32, (9, 9), (1, 9)))
    i, j = ops.Value("i", INDEX), ops.Value("j", INDEX)
    v, w, s = (ops.Value(name, F32) for name in "vws")
    body = (ops.Load(memref, (i, ops.Constant(0, INDEX)), v), ops.Load(memref, (i, j), w),
            ops.Arith("add", v, w, s), ops.Store(s, memref, (i, j)))
    copies = unroll(body, j, range(3))
    assert [type(each) for each in copies].count(ops.Load) == 4
    assert [each.indices[1].value for each in copies if isinstance(each, ops.Store)] == [0, 1, 2]
    assert len({value.name for each in copies for value in each.results}) == 7


@given(step=st.integers(-20, 20).filter(lambda step: step not in (0, 1)), count=st.integers(2, 16))
def test_vectors_hold_all_elements_and_reach_beyond_none(step, count):
    memref = MemrefDescriptor(MemrefType(F32, (64, 64), (1, 64)), GLOBAL, 0, (64, 64), (1, 64))
    access = Access(memref, (ops.Constant(0, INDEX), ops.Value("i", INDEX)), (step,))
    elements = {step * lane for lane in range(count)}
    starts, width = access.chunks(count)
    covered = {start + place for start in starts for place in range(width)}
    assert elements <= covered
    assert min(covered) == min(elements)
    assert max(covered) == max(elements)


@given(count=st.integers(0, 100))
def test_pieces(count):
    lanes = [first + lane for first, width in pieces_of(count) for lane in range(width)]
    assert lanes == [*range(count)]
    assert all(width & (width - 1) == 0 for _, width in pieces_of(count))
