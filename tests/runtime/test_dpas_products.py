"""Products on the matrix engine, computed lane by lane on the CPU: whole kernels of the language."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

import tl_dpnp
from tests.drawing import seed_of
from tl_dpnp import ScheduleError, TLError, TLTypeError, UnsupportedError, config
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt
from tl_dpnp.scalars import SCALAR_TYPES

LANES = pytest.mark.parametrize("lanes", [8, 16])
TYPES = [("bf16", "bf16", "f32"), ("f16", "f16", "f32"), ("i8", "i8", "i32"), ("u8", "i8", "i32")]


def stored(values, name):
    if name == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(SCALAR_TYPES[name].storage)


def computed(values, name):
    if name == "bf16":
        values = (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float64)


def matrix(random, name, shape):
    """Return small whole numbers: their sums are exact in every accumulator, in any order."""
    low = 0 if SCALAR_TYPES[name].kind == "unsigned" else -5
    return stored(random.integers(low, 6, shape).astype(np.float64), name)


def on_device(array):
    return dpt.asarray(array, order="F")


@functools.cache
def dynamic_kernel(a, b, c, transposes, lanes, precision=None):
    """Return a kernel for any sizes: one compilation for many shapes."""
    kinds = [f"memref<{name}x?x?>" for name in (a, b, c)]
    one = "2.0" if SCALAR_TYPES[c].is_float else "2"
    text = (f"func @f(%A: {kinds[0]}, %B: {kinds[1]}, %C: {kinds[2]}) {{ gemm.{transposes[0]}.{transposes[1]} {one},"
            f" %A, %B, {one}, %C : {c}, {kinds[0]}, {kinds[1]}, {c}, {kinds[2]} }}")
    with config.scope(SPECIALIZE=False):
        kernel = tl_dpnp.compile(text, emulate_dpas=lanes, precision=precision, cache=False)
    assert "tensorize(m, dpas_" in kernel.lower().schedule
    return kernel


def check(kernel, a, b, c, transposes, m, n, k, random):
    shape_a, shape_b = (k, m) if transposes[0] == "t" else (m, k), (n, k) if transposes[1] == "t" else (k, n)
    x, y, z = matrix(random, a, shape_a), matrix(random, b, shape_b), matrix(random, c, (m, n))
    result = on_device(z)
    kernel(on_device(x), on_device(y), result)
    left, right = computed(x, a), computed(y, b)
    product = (left.T if transposes[0] == "t" else left) @ (right.T if transposes[1] == "t" else right)
    expected = 2 * product + 2 * computed(z, c)
    np.testing.assert_array_equal(computed(dpt.to_numpy(result), c), expected, f"{m} x {n} x {k}")


@pytest.mark.drawn
@LANES
@pytest.mark.parametrize("types", TYPES, ids="-".join)
def test_every_size_and_transpose(types, lanes, request):
    """Sizes 1 to 70 along each mode, with every combination of transposes for one of the types.

    A fifth of the sizes and two of the combinations are drawn, others for each commit; all run with --every-row.
    """
    random = np.random.default_rng([lanes, seed_of(request.config)])
    is_whole = request.config.getoption("--every-row")
    part = 1 if is_whole else 5
    every = [*itertools.product("nt", repeat=2)] if types[0] == "bf16" else [("n", "n")]
    if len(every) > 2 and not is_whole:
        every = [every[place] for place in random.choice(len(every), 2, replace=False)]
    for number, transposes in enumerate(every):
        kernel = dynamic_kernel(*types, transposes, lanes)
        sizes = range(1 + number % 2, 71, 1 if transposes == ("n", "n") else 5)
        for size in random.choice(sizes, -(-len(sizes) // part), replace=False).tolist():
            for shape in ((size, 9, 35), (18, size, 20), (10, 7, size)):
                check(kernel, *types, transposes, *shape, random)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("element", "result"), [("bf16", "f32"), ("i8", "i32")])
def test_reads_of_blocks(element, result, transposed):
    """Matrices that Xe-HPC reads by blocks, which give zeros beyond a k that is no multiple of DPAS's.

    Their addresses are moved by some elements: multiples of 4 bytes shift the first column, others take ordinary loads.
    """
    random = np.random.default_rng(1)
    m, n, k = 80, 19, 80
    letter, shape = ("t", (k, m)) if transposed else ("n", (m, k))
    one, zero = ("1.0", "0.0") if result == "f32" else ("1", "0")
    kinds = [f"memref<{element}x{rows}x{columns}>" for rows, columns in (shape, (k, n))]
    text = (f"func @f(%A: {kinds[0]}, %B: {kinds[1]}, %C: memref<{result}x{m}x{n}>) {{ gemm.{letter}.n {one}, %A,"
            f" %B, {zero}, %C : {result}, {kinds[0]}, {kinds[1]}, {result}, memref<{result}x{m}x{n}> }}")
    depth = 16 if element == "bf16" else 32
    kernel = tl_dpnp.compile(text, emulate_dpas=16, cache=False, schedule={"gemm_0": functools.partial(
        tensorized, f"dpas_{result}_{element}_{element}_8x16x{depth}_tile_2x1x2")})
    x, y = matrix(random, element, shape), matrix(random, element, (k, n))
    expected = (computed(x, element).T if transposed else computed(x, element)) @ computed(y, element)
    for shifts in ((0, 0), (4, 0), (0, 8), (1, 0), (0, 2), (3, 5)):
        z = on_device(np.ones((m, n), SCALAR_TYPES[result].storage))
        kernel(*(shifted(array, by) for array, by in zip((x, y), shifts, strict=True)), z)
        np.testing.assert_array_equal(dpt.to_numpy(z), expected, f"moved by {shifts}")


@pytest.mark.parametrize(
    ("types", "transposes", "shape", "row", "tile", "lanes"),
    [
        (("bf16", "bf16", "f32"), "nn", (72, 40, 100), "8x8x16", "2x2x2", 8),
        (("f16", "f16", "f32"), "tt", (70, 38, 65), "8x16x16", "1x2x2", 16),
        (("i8", "u8", "i32"), "nt", (72, 40, 160), "8x8x32", "2x1x2", 8),
        (("u8", "i8", "i32"), "tn", (144, 9, 128), "8x16x32", "2x1x1", 16),
        (("f32", "f32", "f32"), "nt", (72, 36, 56), "8x16x8", "1x1x2", 16),
        (("bf16", "bf16", "f32"), "nn", (37, 19, 75), "8x8x16", "2x1x3", 8),
        (("f16", "f16", "f32"), "tn", (35, 26, 9), "8x16x16", "2x3x1", 16),
        (("i8", "i8", "i32"), "nn", (34, 17, 70), "8x16x32", "2x1x3", 16),
    ],
)
def test_operands_packed_in_local_memory(types, transposes, shape, row, tile, lanes):
    """Several sub-groups pack the operands, panel after panel, the last of them shorter.

    Addresses that are no multiples of 4, and columns that are no whole words apart, take loads of elements.
    """
    random = np.random.default_rng(6)
    (a, b, c), (m, n, k) = types, shape
    shape_a, shape_b = (k, m) if transposes[0] == "t" else (m, k), (n, k) if transposes[1] == "t" else (k, n)
    kinds = [f"memref<{name}x{rows}x{columns}>"
             for name, (rows, columns) in zip(types, (shape_a, shape_b, (m, n)), strict=True)]
    one, zero = ("1.0", "0.0") if c == "f32" else ("1", "0")
    text = (f"func @f(%A: {kinds[0]}, %B: {kinds[1]}, %C: {kinds[2]}) {{ gemm.{transposes[0]}.{transposes[1]} {one},"
            f" %A, %B, {zero}, %C : {c}, {kinds[0]}, {kinds[1]}, {c}, {kinds[2]} }}")
    elements, terms = (f"{b}_{a}", "") if a != "f32" else ("tf32_tf32", "_from_f32_by_1")
    name = f"dpas_{c}_{elements}_{row}_tile_{tile}{terms}_staged"
    kernel = tl_dpnp.compile(text, emulate_dpas=lanes, precision="default", cache=False, schedule={
        "gemm_0": functools.partial(tensorized, name)})
    assert kernel.lower().plan.subgroups > 1
    assert "operands by way of local memory" in kernel.diagnostics(2)
    x, y = matrix(random, a, shape_a), matrix(random, b, shape_b)
    left, right = computed(x, a), computed(y, b)
    expected = (left.T if transposes[0] == "t" else left) @ (right.T if transposes[1] == "t" else right)
    for shifts in ((0, 0), (1, 0)):
        z = on_device(np.ones((m, n), SCALAR_TYPES[c].storage))
        kernel(*(shifted(array, by) for array, by in zip((x, y), shifts, strict=True)), z)
        np.testing.assert_array_equal(dpt.to_numpy(z), expected, f"moved by {shifts}")


@pytest.mark.parametrize("steps", [2, 4, 5, 6, 7, 9])
def test_panels_of_any_number_of_pieces(steps):
    """Of sums whose size is known at run time, whichever part of a panel the last one fills."""
    random = np.random.default_rng(steps)
    text = """func @f(%A: memref<bf16x16x?>, %B: memref<bf16x?x8>, %C: memref<f32x16x8>) {
      gemm.n.n 1.0, %A, %B, 0.0, %C }"""
    kernel = tl_dpnp.compile(text, emulate_dpas=16, cache=False, schedule={"gemm_0": functools.partial(
        tensorized, f"dpas_f32_bf16_bf16_8x16x16_tile_1x1x{steps}_staged")})
    for k in range(1, 16 * steps * 2 + 2, 5):
        x, y = matrix(random, "bf16", (16, k)), matrix(random, "bf16", (k, 8))
        z = dpt.zeros((16, 8), dtype="float32", order="F")
        kernel(on_device(x), on_device(y), z)
        np.testing.assert_array_equal(dpt.to_numpy(z), computed(x, "bf16") @ computed(y, "bf16"), f"k = {k}")


def test_local_memory_that_staging_takes_beside_temporaries():
    """A temporary that leaves no room for it changes the default; a schedule that asks for it is an error."""
    limit = tl_dpnp.devices()[0].local_memory
    kinds = ["memref<bf16x64x64>", "memref<bf16x64x64>", "memref<f32x64x64>", f"memref<bf16x128x{limit // 256 - 8}>"]
    text = (f"func @f(%A: {kinds[0]}, %C: {kinds[2]}) {{ %t = alloca -> {kinds[3]}\n%s = subview %t[0:64,0:64] :"
            f" {kinds[3]}\naxpby.n 1.0, %A, 0.0, %s : bf16, {kinds[0]}, bf16, memref<bf16x64x64,strided<1,128>>\n"
            f"gemm.n.n 1.0, %A, %s, 0.0, %C : f32, {kinds[0]}, memref<bf16x64x64,strided<1,128>>, f32, {kinds[2]} }}")
    kernel = tl_dpnp.compile(text, emulate_dpas=8, cache=False)
    assert kernel.lower().plan.local_memory <= limit
    name = "dpas_f32_bf16_bf16_8x8x16_tile_2x2x8_staged"
    schedule = {"gemm_1": functools.partial(tensorized, name)}
    kernel = tl_dpnp.compile(text, emulate_dpas=8, cache=False, schedule=schedule)
    with pytest.raises(UnsupportedError, match="bytes of copies in local memory"):
        kernel.lower()


def shifted(array, by):
    """Return a copy on the device that starts some elements behind the start of its allocation."""
    base = dpt.empty(array.size + by, dtype=array.dtype)
    moved = dpt.usm_ndarray(array.shape, dtype=array.dtype, buffer=base.usm_data, offset=by, order="F")
    moved[...] = on_device(array)
    return moved


def tensorized(name, schedule):
    schedule.tensorize("m", name)


@LANES
def test_strides_groups_and_a_chain_through_local_memory(lanes):
    random = np.random.default_rng(2)
    text = """func @f(%A: group<memref<f16x20x12,strided<1,?>>>, %B: memref<f16x12x24>, %D: memref<f16x24x11>,
                      %C: group<memref<f32x20x11>>) {
      %g = group_id
      %a = load %A[%g] : group<memref<f16x20x12,strided<1,?>>>
      %c = load %C[%g] : group<memref<f32x20x11>>
      %t = alloca -> memref<f16x20x24>
      gemm.n.n 1.0, %a, %B, 0.0, %t : f16, memref<f16x20x12,strided<1,?>>, memref<f16x12x24>, f16, memref<f16x20x24>
      gemm.n.n 1.0, %t, %D, 0.0, %c : f32, memref<f16x20x24>, memref<f16x24x11>, f32, memref<f32x20x11> }"""
    kernel = tl_dpnp.compile(text, emulate_dpas=lanes, cache=False)
    assert kernel.lower().schedule.count("tensorize(m, dpas_f32_f16_f16") == 2
    a = [on_device(matrix(random, "f16", (20 + extra, 12)))[:20, :] for extra in (0, 3, 7)]
    b, d = matrix(random, "f16", (12, 24)), matrix(random, "f16", (24, 11))
    c = [dpt.zeros((20, 11), dtype="float32", order="F") for _ in a]
    kernel(a, on_device(b), on_device(d), c)
    for left, result in zip(a, c, strict=True):
        middle = computed(dpt.to_numpy(left), "f16") @ computed(b, "f16")
        np.testing.assert_array_equal(dpt.to_numpy(result), middle @ computed(d, "f16"))


@pytest.mark.drawn
@LANES
@pytest.mark.parametrize("precision", ["high", "default"])
def test_every_size_of_f32(precision, lanes):
    """Small whole numbers lose nothing in any of the precisions."""
    random = np.random.default_rng(lanes)
    kernel = dynamic_kernel("f32", "f32", "f32", ("n", "n"), lanes, precision)
    for size in range(1, 71, 3):
        for shape in ((size, 9, 35), (18, size, 20), (10, 7, size)):
            check(kernel, "f32", "f32", "f32", ("n", "n"), *shape, random)


@pytest.mark.drawn
@LANES
@pytest.mark.parametrize("types", TYPES[:3], ids="-".join)
def test_matrix_times_vector(types, lanes):
    a, b, c = types
    random = np.random.default_rng(3)
    one = "1.0" if c == "f32" else "1"
    text = (f"func @f(%A: memref<{a}x33x41>, %x: memref<{b}x41>, %y: memref<{c}x33>) {{ gemv.n {one}, %A, %x, {one}, %y"
            f" : {c}, memref<{a}x33x41>, memref<{b}x41>, {c}, memref<{c}x33> }}")
    kernel = tl_dpnp.compile(text, emulate_dpas=lanes, cache=False)
    assert f"_1x{lanes}x" in kernel.lower().schedule
    x, y, z = matrix(random, a, (33, 41)), matrix(random, b, 41), matrix(random, c, 33)
    result = on_device(z)
    kernel(on_device(x), on_device(y), result)
    np.testing.assert_array_equal(dpt.to_numpy(result), computed(x, a) @ computed(y, b) + computed(z, c))


@pytest.mark.drawn(count=1)
@LANES
def test_precision_of_f32(lanes):
    """Relative to the largest element of the product.  "high" is as good as f32, nearly."""
    random = np.random.default_rng(4)
    errors = {}
    for depth in (32, 512):
        x, y = (random.normal(size=shape).astype(np.float32) for shape in ((32, depth), (depth, 32)))
        exact = x.astype(np.float64) @ y
        for precision in ("highest", "high", "default"):
            kernel = _f32_kernel(lanes, precision)
            z = dpt.zeros((32, 32), dtype="float32", order="F")
            kernel(on_device(x), on_device(y), z)
            errors[depth, precision] = np.abs(dpt.to_numpy(z) - exact).max() / np.abs(exact).max()
    assert errors[32, "high"] <= 4e-7
    assert errors[512, "high"] <= 4 * errors[512, "highest"]
    bound = 2.0**-11 if lanes == 16 else 2.0**-8  # half a unit in the last place of tf32 and of bf16
    assert errors[32, "high"] < errors[32, "default"] <= 2 * bound


@functools.cache
def _f32_kernel(lanes, precision):
    kind = "memref<f32x?x?>"
    text = (f"func @f(%A: {kind}, %B: {kind}, %C: {kind}) {{ gemm.n.n 1.0, %A, %B, 0.0, %C : f32, {kind}, {kind},"
            f" f32, {kind} }}")
    kernel = tl_dpnp.compile(text, emulate_dpas=lanes, precision=precision, cache=False)
    expected = {"highest": None, "high": "bf16", "default": "tf32" if lanes == 16 else "bf16"}[precision]
    assert (expected is None) != (f"tensorize(m, dpas_f32_{expected}" in kernel.lower().schedule)
    return kernel


@pytest.mark.parametrize(
    ("kernel", "own", "terms"), [("highest", "high", 3), ("high", "default", 1), ("high", "highest", 0)]
)
def test_an_instruction_has_a_precision_of_its_own(kernel, own, terms):
    kind = "memref<f32x16x16>"
    text = (f"func @f(%A: {kind}, %C: {kind}) {{ gemm.n.n.{own} 1.0, %A, %A, 0.0, %C : f32, {kind}, {kind}, f32, {kind}"
            f" gemm.n.n 1.0, %A, %A, 1.0, %C : f32, {kind}, {kind}, f32, {kind} }}")
    first, second = tl_dpnp.compile(text, emulate_dpas=16, precision=kernel, cache=False).lower().schedules
    assert (f"from_f32_by_{terms}" in str(first)) == bool(terms)
    assert ("from_f32_by_3" in str(second)) == (kernel == "high")


@pytest.mark.parametrize(("instruction", "message"), [
    ("gemm.n.n.high 1.0, %A, %A, 0.0, %C : f32, {0}, {0}, f32, {1}", ".high is for products of f32, not of bf16"),
    ("axpby.n.high 1.0, %C, 0.0, %C : f32, {1}, f32, {1}", "expected"),
])
def test_only_products_of_f32_have_a_precision(instruction, message):
    text = PLAIN[: PLAIN.index("gemm")] + instruction.format("memref<bf16x16x16>", "memref<f32x16x16>") + " }"
    with pytest.raises(TLError, match=message):
        tl_dpnp.compile(text)


PLAIN = ("func @f(%A: memref<bf16x16x16>, %C: memref<f32x16x16>) { gemm.n.n 1.0, %A, %A, 0.0, %C : f32,"
         " memref<bf16x16x16>, memref<bf16x16x16>, f32, memref<f32x16x16> }")


@pytest.mark.parametrize(
    ("options", "name", "message"),
    [
        ({}, "dpas_f32_bf16_bf16_8x16x16_tile_1x1x1", "the device has no DPAS"),
        ({"emulate_dpas": 8}, "dpas_f32_bf16_bf16_8x16x16_tile_1x1x1", "has DPAS of 8 lanes"),
        ({"emulate_dpas": 16}, "dpas_f32_f16_f16_8x16x16_tile_1x1x1", "it multiplies bf16 and bf16 into f32"),
        ({"emulate_dpas": 16}, "dpas_f32_bf16_bf16_9x16x16_tile_1x1x1", "there is no instruction"),
    ],
)
def test_wrong_use_is_an_error(options, name, message):
    with pytest.raises(ScheduleError, match=message):
        tl_dpnp.compile(PLAIN, schedule={"gemm_0": functools.partial(tensorized, name)}, cache=False, **options).lower()


@pytest.mark.parametrize(
    ("lanes", "name", "message"),
    [
        (16, "dpas_f32_bf16_bf16_5x16x16_tile_1x1x1", "SPIR-V has no vectors of 5 elements"),
        (8, "dpas_f32_tf32_tf32_8x8x8_tile_1x1x1_from_f32_by_1", "Xe-HPG has no tf32"),
        (16, "dpas_i32_i1_i1_8x16x64_tile_1x1x1", "no function for 1-bit integers"),
        (16, "dpas_i32_i2_i8_1x16x32_tile_1x1x1", "A has 4 bits for each lane, which is no type"),
    ],
)
def test_forms_out_of_reach_say_why(lanes, name, message):
    schedule = {"gemm_0": functools.partial(tensorized, name)}
    with pytest.raises(ScheduleError, match=rf"gemm_0: .*dpas_\w+ cannot be reached: .*{message}"):
        tl_dpnp.compile(PLAIN, schedule=schedule, cache=False, emulate_dpas=lanes).lower()


def test_a_subgroup_that_does_not_fit_computes_without_the_engine_or_refuses_it():
    text = PLAIN.replace("{ gemm", "subgroup_size(8) { gemm")
    kernel = tl_dpnp.compile(text, emulate_dpas=16, cache=False)
    assert "dpas" not in kernel.lower().schedule
    name = "dpas_f32_bf16_bf16_8x16x16_tile_1x1x1"
    with pytest.raises(ScheduleError, match="runs on sub-groups of 16 lanes; the work-group has sub-groups of 8"):
        tl_dpnp.compile(text, emulate_dpas=16, schedule={"gemm_0": functools.partial(tensorized, name)}).lower()


@pytest.mark.parametrize(
    ("a", "c", "message"),
    [
        ("f32", "f32", 'gemm_0 is not on the matrix engine: it sums products of f32 and f32 in f32; precision="high"'),
        ("i8", "f32", "gemm_0 is not on the matrix engine: it sums products of i8 and i8 in f32"),
    ],
)
def test_diagnostics_say_why_a_product_is_not_on_the_engine(a, c, message):
    text = PLAIN.replace("bf16", a).replace("%C: memref<f32", f"%C: memref<{c}")
    kernel = tl_dpnp.compile(text, emulate_dpas=16, cache=False)
    assert message in kernel.diagnostics(2)
    assert "matrix engine" not in tl_dpnp.compile(text, cache=False).diagnostics(2)


def test_diagnostics_say_how_a_product_is_on_the_engine():
    kernel = tl_dpnp.compile(PLAIN.replace("x16x16>", "x8x8>"), emulate_dpas=16, cache=False)
    assert ("gemm_0 is on the matrix engine: dpas_f32_bf16_bf16_8x16x16, tiles of 16 x 8, operands by way of local"
            " memory, packed there") in kernel.diagnostics(2)
    given = {"gemm_0": functools.partial(tensorized, "dpas_f32_bf16_bf16_8x16x16_tile_1x1x1")}
    kernel = tl_dpnp.compile(PLAIN.replace("x16x16>", "x8x8>"), emulate_dpas=16, cache=False, schedule=given)
    assert ("operands by loads of single elements: A has strides or sizes that loads of blocks do not take"
            ) in kernel.diagnostics(2)
    kernel = tl_dpnp.compile(PLAIN.replace("x16x16>", "x64x64>"), emulate_dpas=16, cache=False)
    assert "tiles of 64 x 32, operands by loads of blocks" in kernel.diagnostics(2)


def test_integers_times_zero_leave_no_product():
    """The compiler would take the products away."""
    text = PLAIN.replace("bf16", "i8").replace("f32", "i32").replace("1.0", "0").replace("0.0", "2")
    kernel = tl_dpnp.compile(text, emulate_dpas=16, cache=False)
    assert "gemm_0 is not on the matrix engine: its sums are multiplied by 0" in kernel.diagnostics(2)
    name = "dpas_i32_i8_i8_8x16x32_tile_1x1x1"
    with pytest.raises(ScheduleError, match="its sums are multiplied by 0"):
        tl_dpnp.compile(text, emulate_dpas=16, cache=False, schedule={"gemm_0": functools.partial(tensorized, name)})


def test_only_8_and_16_lanes_are_emulated():
    with pytest.raises(TLTypeError, match="emulate_dpas=4"):
        tl_dpnp.compile(PLAIN, emulate_dpas=4)
