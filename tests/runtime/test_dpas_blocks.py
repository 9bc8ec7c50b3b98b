"""Products whose operands are loaded, and whose result is stored, by messages of large blocks, emulated on the CPU."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import tl_dpnp
from tests.runtime.test_dpas_products import computed, matrix, stored, tensorized
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt

#: Elements between columns of A, B and C, and in front of the first one, each with whether blocks can be moved then.
PLACES = [
    ((16, 16, 16), (0, 0, 0)), ((16, 32, 16), (2, 4, 1)), ((64, 16, 24), (16, 2, 0)),  # by blocks
    ((0, 0, 0), (2, 2, 1)), ((16, 16, 16), (1, 0, 0)), ((15, 16, 16), (0, 0, 0)), ((16, 16, 15), (0, 0, 0)),
]


def placed(array, gap, by):
    """Return a column-major copy with a gap between columns, some elements behind the start of what is allocated."""
    rows, columns = array.shape
    size = (rows + gap) * columns + by
    whole = dpt.asarray(np.full(size, 77).astype(array.dtype))
    view = dpt.usm_ndarray(array.shape, dtype=array.dtype, buffer=whole.usm_data, offset=by, strides=(1, rows + gap))
    view[...] = dpt.asarray(array)
    return view, whole


def check(kernel, types, transposes, shape, place, random):
    """Run ``C := 2 A B + 2 C`` and compare; what lies around and between the columns of C has to stay."""
    (m, n, k), (gaps, starts) = shape, place
    shapes = (k, m) if transposes[0] == "t" else (m, k), (n, k) if transposes[1] == "t" else (k, n), (m, n)
    values = [matrix(random, name, size) for name, size in zip(types, shapes, strict=True)]
    (x, _), (y, _), (z, whole) = (placed(*entry) for entry in zip(values, gaps, starts, strict=True))
    kernel(x, y, z)
    left, right, before = (computed(value, name) for value, name in zip(values, types, strict=True))
    left, right = left.T if transposes[0] == "t" else left, right.T if transposes[1] == "t" else right
    expected, _ = placed(stored(2 * left @ right + 2 * before, types[2]), gaps[2], starts[2])
    np.testing.assert_array_equal(dpt.to_numpy(z), dpt.to_numpy(expected), f"{shape} {place}")
    around = np.ones(whole.size, bool)
    around[starts[2] :].reshape(n, m + gaps[2])[:, :m] = False
    assert (dpt.to_numpy(whole)[around] == np.full(1, 77).astype(values[2].dtype)).all()


@pytest.mark.drawn(count=5)
@pytest.mark.parametrize(
    ("types", "transposes", "tile"),
    [
        (("bf16", "bf16", "f32"), "nn", "8x16x16_tile_2x2x2"), (("f16", "f16", "f16"), "tn", "8x16x16_tile_1x2x2"),
        (("u8", "i8", "i32"), "nn", "8x16x32_tile_4x1x1"), (("u8", "i8", "i32"), "tt", "8x16x32_tile_1x1x2_exchanged"),
        (("bf16", "bf16", "f32"), "nt", "8x16x16_tile_1x3x2"), (("i8", "u8", "i32"), "nt", "8x16x32_tile_1x3x1"),
        (("f32", "f32", "f32"), "nn", "8x16x8_tile_2x1x4_from_f32_by_1_or_1x1x1_staged"),
        (("f32", "f32", "f32"), "tn", "8x16x8_tile_1x2x2_from_f32_by_1_or_1x1x1_staged"),
        (("f32", "f32", "f32"), "nt", "8x16x8_tile_1x3x1_from_f32_by_1_or_1x1x1_staged"),
        (("f32", "f32", "f32"), "nn", "8x16x8_tile_1x2x4_from_f32_by_1_shared_or_1x1x1_staged"),
        (("f32", "f32", "f32"), "tn", "8x16x8_tile_2x1x3_from_f32_by_1_shared_or_1x1x1_staged"),
        (("f32", "f32", "f32"), "nt", "8x16x8_tile_1x3x8_from_f32_by_1_shared_or_2x1x1_staged"),
        (("f32", "f32", "f32"), "tt", "8x16x8_tile_1x1x2_from_f32_by_1_exchanged_shared_or_1x1x1_staged"),
        (("bf16", "bf16", "f32"), "nn", "8x16x16_tile_2x2x4_b_staged_or_2x2x2_staged"),
        (("bf16", "bf16", "f32"), "tn", "8x16x16_tile_2x3x4_a_staged_or_2x3x1_staged"),
        (("f16", "f16", "f16"), "tt", "8x16x16_tile_2x1x8_b_staged_or_2x1x2_staged"),
        (("u8", "i8", "i32"), "nn", "8x16x32_tile_1x2x3_a_staged_or_1x2x2_staged"),
        (("i8", "i8", "i32"), "nt", "8x16x32_tile_4x1x1_b_staged_or_1x1x1_staged"),
    ],
)
def test_sizes_strides_and_addresses_known_at_the_call(types, transposes, tile):
    """Rests of m, n and k; addresses and strides that messages take, and others, for which there are other loops."""
    random = np.random.default_rng(3)
    a, b, c = types
    total = "i32" if c == "i32" else "f32"
    row = f"{a}_{b}" if "exchanged" in tile else f"{b}_{a}"
    row = row.replace("f32", "tf32") if a == "f32" else row
    two = "2" if c == "i32" else "2.0"
    kinds = [f"memref<{name}x?x?,strided<1,?>>" for name in types]
    text = (f"func @f(%A: {kinds[0]}, %B: {kinds[1]}, %C: {kinds[2]}) {{ gemm.{transposes[0]}.{transposes[1]} {two},"
            f" %A, %B, {two}, %C : {c}, {kinds[0]}, {kinds[1]}, {c}, {kinds[2]} }}")
    name = f"dpas_{total}_{row}_{tile}"
    kernel = tl_dpnp.compile(text, emulate_dpas=16, cache=False, precision="default", schedule={
        "gemm_0": functools.partial(tensorized, name)})
    assert "operands by loads of blocks" in kernel.diagnostics(2)
    for number, shape in enumerate(((80, 24, 72), (64, 9, 33), (67, 67, 96), (8, 8, 8))):
        if transposes == "nt":  # what lies along n then, along k otherwise, has to be long
            shape = (shape[0], shape[2], shape[1])
        for place in PLACES if number < 2 else PLACES[number::3]:
            check(kernel, types, transposes, shape, place, random)


def test_the_other_loops_of_a_dynamic_product_pack_in_local_memory():
    random = np.random.default_rng(4)
    kind, result = "memref<bf16x?x?,strided<1,?>>", "memref<f32x?x?,strided<1,?>>"
    text = (f"func @f(%A: {kind}, %B: {kind}, %C: {result}) {{ gemm.n.n 2.0, %A, %B, 2.0, %C : f32, {kind}, {kind},"
            f" f32, {result} }}")
    name = "dpas_f32_bf16_bf16_8x16x16_tile_2x2x2_or_1x1x2_staged"
    kernel = tl_dpnp.compile(text, emulate_dpas=16, cache=False, schedule={
        "gemm_0": functools.partial(tensorized, name)})
    assert kernel.lower().plan.local_memory
    assert "operands by loads of blocks, by way of local memory where these cannot be" in kernel.diagnostics(2)
    for place in (PLACES[1], PLACES[4]):
        check(kernel, ("bf16", "bf16", "f32"), "nn", (70, 35, 50), place, random)


@pytest.mark.parametrize(
    ("types", "transposes", "tile"),
    [
        (("bf16", "bf16", "f32"), "nn", "8x16x16_tile_2x2x2"), (("f16", "f16", "f16"), "tn", "8x16x16_tile_1x2x2"),
        (("i8", "u8", "i32"), "tt", "8x16x32_tile_1x2x1"),
        (("f32", "f32", "f32"), "nt", "8x16x16_tile_2x1x1_from_f32_by_3"),
    ],
)
def test_messages_store_tiles_whose_operands_are_packed(types, transposes, tile):
    """Also where C is read; addresses and strides that messages take, and others, whose elements are stored singly."""
    random = np.random.default_rng(8)
    a, b, c = types
    row = "bf16_bf16" if a == "f32" else f"{b}_{a}"
    two = "2" if c == "i32" else "2.0"
    kinds = [f"memref<{name}x?x?,strided<1,?>>" for name in types]
    text = (f"func @f(%A: {kinds[0]}, %B: {kinds[1]}, %C: {kinds[2]}) {{ gemm.{transposes[0]}.{transposes[1]} {two},"
            f" %A, %B, {two}, %C : {c}, {kinds[0]}, {kinds[1]}, {c}, {kinds[2]} }}")
    name = f"dpas_{'i32' if c == 'i32' else 'f32'}_{row}_{tile}_staged"
    kernel = tl_dpnp.compile(text, emulate_dpas=16, cache=False, precision="high", schedule={
        "gemm_0": functools.partial(tensorized, name)})
    for shape in ((80, 24, 40), (67, 35, 33), (9, 3, 5)):
        for place in PLACES:
            check(kernel, types, transposes, shape, place, random)


@pytest.mark.parametrize("shared", ["", "_shared"])
@pytest.mark.parametrize("transposes", ["nn", "nt", "tn"])
def test_blocks_of_f32_are_rounded_to_the_nearest_tf32(transposes, shared):
    """All elements lie three quarters of a unit in tf32's last place above 1; others become 1 + 2^-10 as well."""
    m, n, k = 40, 24, 64
    shapes = (k, m) if transposes[0] == "t" else (m, k), (n, k) if transposes[1] == "t" else (k, n), (m, n)
    kinds = [f"memref<f32x{rows}x{columns}>" for rows, columns in shapes]
    text = (f"func @f(%A: {kinds[0]}, %B: {kinds[1]}, %C: {kinds[2]}) {{ gemm.{transposes[0]}.{transposes[1]} 1.0, %A,"
            f" %B, 0.0, %C : f32, {kinds[0]}, {kinds[1]}, f32, {kinds[2]} }}")
    name = f"dpas_f32_tf32_tf32_8x16x8_tile_1x1x2_from_f32_by_1{shared}_or_1x1x1_staged"
    kernel = tl_dpnp.compile(text, emulate_dpas=16, cache=False, precision="default", schedule={
        "gemm_0": functools.partial(tensorized, name)})
    assert "operands by loads of blocks" in kernel.diagnostics(2)
    arrays = [dpt.asarray(np.full(shape, value, np.float32, order="F"))
              for shape, value in zip(shapes, (1 + 0.75 * 2**-10, 1 + 1.25 * 2**-10, 0), strict=True)]
    kernel(*arrays)
    np.testing.assert_allclose(dpt.to_numpy(arrays[2]), k * (1 + 2**-10) ** 2, rtol=2**-20)


def test_a_local_operand_is_not_planned_as_blocks():
    """Messages move blocks of global memory only: the other operand is."""
    kinds = ["memref<bf16x64x64>", "memref<f32x64x64>"]
    text = (f"func @f(%A: {kinds[0]}, %C: {kinds[1]}) {{ %t = alloca -> {kinds[0]}\n"
            f"axpby.n 1.0, %A, 0.0, %t : bf16, {kinds[0]}, bf16, {kinds[0]}\n"
            f"gemm.n.n 1.0, %t, %A, 0.0, %C : f32, {kinds[0]}, {kinds[0]}, f32, {kinds[1]} }}")
    kernel = tl_dpnp.compile(text, emulate_dpas=16, cache=False)
    assert "operands by loads of blocks of B, and by way of local memory, packed there, of A" in kernel.diagnostics(2)
