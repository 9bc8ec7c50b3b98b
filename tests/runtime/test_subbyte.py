"""Integers of 4 and 2 bits on the device: packed arrays, loads, views, groups, and products without a matrix engine."""

from __future__ import annotations

import itertools
import re

import dpnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tl_dpnp
from tests.runtime.support import needs_tools
from tl_dpnp import LayoutError, TLBindingError, TLBoundsError, TLTypeError, pack, unpack
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt
from tl_dpnp.scalars import SCALAR_TYPES

NAMES = ("i4", "u4", "i2", "u2")


def numbers(random, name, shape):
    """Return random integers that fit a type, small whole numbers for wide ones."""
    scalar = SCALAR_TYPES[name]
    low, high = (-5, 5) if scalar.is_float or scalar.bits > 8 else (scalar.minimum, scalar.maximum)
    return random.integers(low, high + 1, shape)


def stored(values, name):
    scalar = SCALAR_TYPES[name]
    return pack(values, name) if scalar.is_subbyte else np.asfortranarray(values.astype(scalar.storage))


def on_device(values, name):
    return dpt.asarray(stored(values, name), order="F")


# --- packing ---------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(data=st.data(), name=st.sampled_from(NAMES))
def test_packing_is_reversible(data, name):
    scalar = SCALAR_TYPES[name]
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=5))
    shape = (shape[0] * scalar.per_byte, *shape[1:])
    dtype = data.draw(st.sampled_from([np.int8, np.int64] if name[0] == "i" else [np.uint8, np.uint64, np.int32]))
    values = data.draw(hnp.arrays(dtype, shape, elements=st.integers(scalar.minimum, scalar.maximum)))
    packed = pack(values, name)
    assert packed.shape == (shape[0] // scalar.per_byte, *shape[1:])
    assert packed.flags.f_contiguous
    assert packed.dtype == np.uint8
    back = unpack(packed, name)
    assert back.dtype == (np.int8 if name[0] == "i" else np.uint8)
    assert (back == values).all()


@settings(deadline=None, max_examples=30)
@given(array=hnp.arrays(np.uint8, hnp.array_shapes(max_dims=2, max_side=6)), name=st.sampled_from(NAMES))
def test_unpacking_is_reversible(array, name):
    assert (pack(unpack(array, name), name) == array).all()


def test_the_first_element_is_in_the_lowest_bits():
    assert pack([1, -2, 7, -8], "i4").tolist() == [0xE1, 0x87]
    assert pack([3, 0, 1, 2], "u2").tolist() == [0b10_01_00_11]


@pytest.mark.parametrize(("values", "name", "error", "message"), [
    ([1, 2, 3], "i4", TLBindingError, "3 elements along axis 0 fill no whole bytes: each holds 2 elements of i4"),
    (5, "u2", TLBindingError, "one element fill"),
    ([8, 0], "i4", TLBindingError, "i4 holds -8 to 7, the values are 0 to 8"),
    (np.full(4, 2**64 - 1, np.uint64), "i2", TLBindingError, "i2 holds -2 to 1"),
    ([0.5, 1.0], "i4", TLTypeError, "pack takes integers, it was given an array of float64"),
    ([0, 1], "i8", TLTypeError, "'i8' is no type of integers below 8 bits; there are i2, i4, u2, u4"),
])
def test_what_cannot_be_packed(values, name, error, message):
    with pytest.raises(error, match=message):
        pack(values, name)


def test_what_cannot_be_unpacked():
    with pytest.raises(TLTypeError, match="unpack takes an array of uint8 with one axis or more, not one of int32"):
        unpack(np.zeros(3, np.int32), "i4")


@pytest.mark.parametrize("function", [pack, unpack])
def test_arrays_on_a_device_are_refused_with_what_copies_them(function):
    array = dpt.asarray(pack([1, -2], "i4"))
    with pytest.raises(TLTypeError, match=f"^{function.__name__} takes integers on the host, .*dpnp.asnumpy"):
        function(array, "i4")
    assert unpack(dpnp.asnumpy(array), "i4").tolist() == [1, -2]


# --- kernels ---------------------------------------------------------------------------------------------------------

TYPES = [("i4", "i4", "i32"), ("u4", "i2", "i32"), ("i8", "u2", "i32"), ("i2", "u8", "i64"), ("u4", "f32", "f32")]


def product(types, transposes, shape, static):
    """Return the text of a product, and the shapes of its operands."""
    m, n, k = shape
    shapes = ((k, m) if transposes[0] == "t" else (m, k), (n, k) if transposes[1] == "t" else (k, n), (m, n))
    kinds = [f"memref<{name}x{'x'.join(map(str, sizes)) if static else '?x?'}>"
             for name, sizes in zip(types, shapes, strict=True)]
    two = "2.0" if types[2] == "f32" else "2"
    text = (f"func @f(%A: {kinds[0]}, %B: {kinds[1]}, %C: {kinds[2]}) {{ gemm.{transposes[0]}.{transposes[1]} {two},"
            f" %A, %B, {two}, %C : {types[2]}, {kinds[0]}, {kinds[1]}, {types[2]}, {kinds[2]} }}")
    return text, shapes


@pytest.mark.parametrize("form", ["vector", "subgroup"])
@pytest.mark.parametrize("types", TYPES, ids="-".join)
def test_products(types, form):
    """All transposes, sizes that are known and unknown to the compiler, with tails."""
    random = np.random.default_rng(3)
    for number, transposes in enumerate(itertools.product("nt", repeat=2)):
        static = number in (0, 3)
        if form == "subgroup" and number in (0, 2):
            continue  # single elements, whatever the layout
        text, _ = product(types, transposes, (20, 12, 28), static)
        kernel = tl_dpnp.compile(text, form=form)
        for shape in ((20, 12, 28),) if static else ((20, 12, 28), (4, 32, 8), (36, 4, 20)):
            _, shapes = product(types, transposes, shape, False)
            values = [numbers(random, name, sizes) for name, sizes in zip(types, shapes, strict=True)]
            x, y, z = (on_device(array, name) for array, name in zip(values, types, strict=True))
            kernel(x, y, z)
            a, b = (array.T if letter == "t" else array for array, letter in zip(values, transposes, strict=False))
            np.testing.assert_array_equal(dpt.to_numpy(z), 2 * (a @ b) + 2 * values[2])


@pytest.mark.parametrize("target", ["sycl", "reference"])
@pytest.mark.parametrize("name", [*NAMES, "i8", "u8"])
def test_conversions(name, target):
    """Elements convert by a cast and by linear algebra, to integers and floats that hold them."""
    random = np.random.default_rng(4)
    values = numbers(random, name, (8, 3))
    for result in ("f16",) if "8" in name else ("u8" if name[0] == "u" else "i8", "i32", "bf16", "f64"):
        one, zero = ("1.0", "0.0") if SCALAR_TYPES[result].is_float else ("1", "0")
        small, large = f"memref<{name}x8x3>", f"memref<{result}x8x3>"
        kernel = tl_dpnp.compile(f"""
        func @f(%x: {small}, %y: {large}, %z: {large}) {{
          axpby.n {one}, %x, {zero}, %y : {result}, {small}, {result}, {large}
          foreach %i = 0, 8 {{
            for %j = 0, 3 {{
              %0 = load %x[%i, %j] : {small}
              %1 = cast %0 : {name} -> {result}
              store %1, %z[%i, %j] : {large}
            }}
          }}
        }}""", target=target)
        y, z = (dpt.zeros((8, 3), dtype=SCALAR_TYPES[result].storage, order="F") for _ in range(2))
        kernel(on_device(values, name), y, z)
        expected = values.astype(np.float32)
        for found in map(dpt.to_numpy, (y, z)):
            if result == "bf16":
                found = (found.astype(np.uint32) << 16).view(np.float32)
            np.testing.assert_array_equal(found, expected, result)


@pytest.mark.parametrize("form", ["vector", "subgroup"])
def test_other_instructions(form):
    """Vectors, sums and outer products of packed operands, in a group with an offset of its own."""
    random = np.random.default_rng(5)
    kernel = tl_dpnp.compile("""
    func @f(%G: group<memref<u2x?x?>, offset: ?>, %v: memref<i4x16>, %s: memref<i32x16x3>, %p: memref<i32x16x3>,
            %o: memref<i32x16x16x3>) {
      %g = group_id
      %A = load %G[%g] : group<memref<u2x?x?>, offset: ?>
      %sum = subview %s[:, %g] : memref<i32x16x3>
      %product = subview %p[:, %g] : memref<i32x16x3>
      %outer = subview %o[:, :, %g] : memref<i32x16x16x3>
      sum.n 1, %A, 0, %sum : i32, memref<u2x?x?>, i32, memref<i32x16>
      gemv.n 1, %A, %v, 0, %product : i32, memref<u2x?x?>, memref<i4x16>, i32, memref<i32x16>
      hadamard 1, %v, %v, 1, %product : i32, memref<i4x16>, memref<i4x16>, i32, memref<i32x16>
      ger 1, %v, %v, 0, %outer : i32, memref<i4x16>, memref<i4x16>, i32, memref<i32x16x16>
    }""", form=form)
    memory = numbers(random, "u2", (3 * 256 + 16,))
    v = numbers(random, "i4", (16,))
    packed = on_device(memory, "u2")
    arrays = [dpt.usm_ndarray((4, 16), dtype="uint8", buffer=packed, offset=64 * i, strides=(1, 4)) for i in range(3)]
    s, p = (dpt.zeros((16, 3), dtype="int32", order="F") for _ in range(2))
    o = dpt.zeros((16, 16, 3), dtype="int32", order="F")
    kernel(tl_dpnp.group(arrays, offset=12), on_device(v, "i4"), s, p, o)
    for number in range(3):
        a = memory[256 * number + 12 : 256 * (number + 1) + 12].reshape(16, 16, order="F")
        assert (dpt.to_numpy(s)[:, number] == a.sum(axis=1)).all()
        assert (dpt.to_numpy(p)[:, number] == a @ v + v * v).all()
        assert (dpt.to_numpy(o)[:, :, number] == np.outer(v, v)).all()
    with pytest.raises(TLBindingError, match=r"the offset 6 of the group for %G is inside a byte, which holds 4 "
                                             r"elements of u2(.|\n)*hint: give a multiple of 4"):
        kernel(tl_dpnp.group(arrays, offset=6), on_device(v, "i4"), s, p, o)


def test_a_loop_over_blocks_of_the_sum():
    """Views at run-time offsets of the packed mode; debug=True finds those inside a byte."""
    text = """
    func @f(%step: index, %A: memref<i4x64x8>, %B: memref<i4x64x8>, %C: memref<i32x8x8>) {
      for %k = 0, 64, %step {
        %a = subview %A[%k:16, :] : memref<i4x64x8>
        %b = subview %B[%k:16, :] : memref<i4x64x8>
        gemm.t.n 1, %a, %b, 1, %C
          : i32, memref<i4x16x8,strided<1,64>>, memref<i4x16x8,strided<1,64>>, i32, memref<i32x8x8>
      }
    }"""
    random = np.random.default_rng(6)
    a, b = (numbers(random, "i4", (64, 8)) for _ in range(2))
    z = dpt.zeros((8, 8), dtype="int32", order="F")
    tl_dpnp.compile(text)(16, on_device(a, "i4"), on_device(b, "i4"), z)
    assert (dpt.to_numpy(z) == a.T @ b).all()
    with pytest.raises(TLBoundsError, match="what is left of a size or offset of mode 0 in a byte of 2 elements"):
        tl_dpnp.compile(text, debug=True)(5, on_device(a, "i4"), on_device(b, "i4"), z)


# --- the matrix engine -----------------------------------------------------------------------------------------------

ENGINE = [
    # A and B, transposes, lanes, (m, n, k), and how operands are loaded
    ("i4", "u4", "tn", 16, (40, 20, 288), "loads of blocks"),
    ("u2", "i4", "tn", 16, (36, 9, 512), "loads of blocks"),
    ("i8", "i2", "nn", 16, (64, 20, 112), "loads of blocks of A, and by way of local memory, packed there, of B"),
    ("i4", "u8", "nn", 8, (16, 12, 104), "way of local memory"),
    ("i8", "i2", "nn", 16, (40, 20, 44), "single elements"),
    ("i2", "u8", "nt", 8, (20, 9, 35), "single elements"),
    ("i4", "i4", "nt", 8, (10, 6, 64), "single elements"),
    ("u4", "i2", "tn", 8, (19, 1, 68), "single elements"),
]


def engine_kernel(a, b, transposes, shape, **options):
    text, shapes = product((a, b, "i32"), transposes, shape, True)
    return tl_dpnp.compile(text, cache=False, **options), shapes


@pytest.mark.drawn(count=4)
@pytest.mark.parametrize(("a", "b", "transposes", "lanes", "shape", "loads"), ENGINE)
def test_products_on_the_matrix_engine(a, b, transposes, lanes, shape, loads):
    """Emulated: tiles and k end inside of DPAS's, values are the largest and smallest as well."""
    kernel, shapes = engine_kernel(a, b, transposes, shape, emulate_dpas=lanes)
    assert f"dpas_i32_{b}_{a}_" in kernel.lower().schedule
    assert f"operands by {'loads of ' if loads == 'single elements' else ''}{loads}" in kernel.diagnostics(2)
    random = np.random.default_rng(7)
    values = [numbers(random, name, sizes) for name, sizes in zip((a, b, "i32"), shapes, strict=True)]
    x, y, z = (on_device(array, name) for array, name in zip(values, (a, b, "i32"), strict=True))
    kernel(x, y, z)
    left, right = (array.T if letter == "t" else array for array, letter in zip(values, transposes, strict=False))
    np.testing.assert_array_equal(dpt.to_numpy(z), 2 * (left @ right) + 2 * values[2])


def test_products_at_odd_addresses():
    """Bytes that are no multiple of 4 take other loads than blocks."""
    kernel, _ = engine_kernel("i4", "i4", "tn", (32, 16, 256), emulate_dpas=16)
    random = np.random.default_rng(8)
    memory = [dpt.asarray(random.integers(0, 256, 128 * columns + 8).astype(np.uint8)) for columns in (32, 16)]
    for shifts in ((0, 0), (4, 8), (1, 0), (0, 3)):
        x, y = (dpt.usm_ndarray((128, columns), dtype="uint8", buffer=buffer, offset=shift, strides=(1, 128))
                for buffer, columns, shift in zip(memory, (32, 16), shifts, strict=True))
        z = dpt.zeros((32, 16), dtype="int32", order="F")
        kernel(x, y, z)
        left, right = (unpack(dpt.to_numpy(array), "i4").astype(np.int32) for array in (x, y))
        np.testing.assert_array_equal(dpt.to_numpy(z), 2 * (left.T @ right))


@pytest.mark.drawn
@needs_tools
@pytest.mark.parametrize("device", ["pvc", "dg2"])
@pytest.mark.parametrize(("a", "b", "names", "share"), [
    ("i4", "u2", "s4:u2", 0.43), ("u4", "u4", "u4:u4", 0.5), ("i8", "i4", "b:s4", 0.43), ("i2", "u8", "s2:ub", 0.48),
])
def test_the_instruction_has_the_precisions_of_the_operands(a, b, names, share, device):
    kernel, _ = engine_kernel(a, b, "tn", (64, 32, 1024))
    resources = kernel.resources(device=device)
    assert resources.loop["dpas"] >= (32 if device == "pvc" else 2)
    if device == "pvc":
        assert resources.dpas_share >= share
    found = {re.findall(r":(\w+)", line)[2:4] == names.split(":")
             for line in kernel.inspect_asm(device).splitlines() if " dpas." in line}
    assert found == {True}


# --- arrays ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["sycl", "reference"])
def test_unfit_arrays(target):
    kernel = tl_dpnp.compile("""
    func @f(%A: memref<i4x8x4>, %y: memref<i32x8>) {
      sum.n 1, %A, 0, %y : i32, memref<i4x8x4>, i32, memref<i32x8>
    }""", target=target)
    y = dpt.zeros(8, dtype="int32")
    packed = (r"hint: dpnp.asarray\(tl_dpnp.pack\(values, \"i4\"\), order=\"F\"\) gives such an array: bytes of 2 "
              "elements along axis 0")
    for array, error, message in (
        (dpt.zeros((8, 4), dtype="int8", order="F"), TLTypeError,
         r"%A takes an array of uint8, 2 elements of i4 in each byte, it was given one of int8"
         r"(.|\n)*hint: pack it on the host: tl_dpnp.pack\(values, \"i4\"\)"),
        (dpt.zeros((8, 4), dtype="uint8", order="F"), LayoutError,
         rf"memref<i4x8x4> takes an array of shape \(4, 4\), it was given \(8, 4\)(.|\n)*{packed}"),
        (dpt.zeros((4, 4), dtype="uint8", order="C"), LayoutError,
         rf"the stride of axis 0 is 8, the layout asks for 1(.|\n)*{packed}"),
    ):
        with pytest.raises(error, match=message):
            kernel(array, y)


def test_empty_arrays():
    kernel = tl_dpnp.compile("""
    func @f(%A: memref<u2x?x?>, %y: memref<i32x?>) {
      sum.n 1, %A, 3, %y : i32, memref<u2x?x?>, i32, memref<i32x?>
    }""")
    y = dpt.ones(8, dtype="int32")
    kernel(dpt.zeros((2, 0), dtype="uint8", order="F"), y)
    assert (dpt.to_numpy(y) == 3).all()
    kernel(dpt.zeros((0, 3), dtype="uint8", order="F"), dpt.ones(0, dtype="int32"))
