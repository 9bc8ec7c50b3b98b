"""Products on the tiles of Intel's processors: on those of this one where it has them, and emulated everywhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import tl_dpnp
from tl_dpnp import ScheduleError, config
from tl_dpnp.kernels.amx.micro_kernel import tile_kernel_named
from tl_dpnp.lowering.device import LoweringOptions
from tl_dpnp.lowering.plan import EXCEEDS_ALL, EXCEEDS_ONE
from tl_dpnp.lowering.space import tunables
from tl_dpnp.runtime.compiler import cache_key
from tl_dpnp.runtime.sycl import amx, opencl_programs_adapter
from tl_dpnp.runtime.sycl.devices import devices
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt
from tools.amx_sweep import TYPES, Product, available, check, products

MODES = pytest.mark.parametrize("mode", ["auto", "emulate"])
needs_tiles = pytest.mark.skipif(
    not amx.features() or amx.refusal() is not None, reason=f"not run on tiles: {amx.refusal()}")


def gemm(m, n, k, types=("bf16", "f32"), precision="", factors=("1.0", "0.0")):
    """Return the text of a batch of products."""
    element, result = types
    shapes = [(element, m, k), (element, k, n), (result, m, n)]
    kinds = [f"memref<{name}x{rows}x{columns}" for name, rows, columns in shapes]
    views = [f"  %{letter.lower()} = subview %{letter}[:,:,%g] : {kind}x?>"
             for letter, kind in zip("ABC", kinds, strict=True)]
    parameters = ", ".join(f"%{letter}: {kind}x?>" for letter, kind in zip("ABC", kinds, strict=True))
    return "\n".join([
        f"func @f({parameters}) {{", "  %g = group_id", *views,
        f"  gemm.n.n{precision} {factors[0]}, %a, %b, {factors[1]}, %c : {result}, {kinds[0]}>, {kinds[1]}>, {result}, "
        f"{kinds[2]}>", "}"])


def bf16(values):
    return (np.asarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def compiled(text, mode="auto", **options):
    with config.scope(AMX=mode):
        return tl_dpnp.compile(text, **{"cache": False, **options})


def run(kernel, *arrays):
    """Call a kernel with arrays whose first mode is the batch, and return the last one."""
    on_device = [dpt.asarray(np.ascontiguousarray(array)) for array in arrays]
    kernel(*map(tl_dpnp.rev, on_device))
    return dpt.to_numpy(on_device[-1])


# --- results ---------------------------------------------------------------------------------------------------------


@MODES
@pytest.mark.drawn
@pytest.mark.parametrize("types", TYPES)
def test_sizes_transposes_factors_and_strides(types, mode):
    """A sample; ``python -m tools.amx_sweep`` does all."""
    if not available(types, mode):
        pytest.skip(f"not run on tiles: this processor has none for {types}, or may not use them")
    seed = sorted(TYPES).index(types)
    sample = list(products(seed, 40))
    group = [*(sample[(seed + 3 * i) % len(sample)] for i in range(3)), Product(33, 17, 65, "tt", (2, -3))]
    assert check(types, group, mode, seed) == []


@MODES
@pytest.mark.parametrize("types", ["bf16-bf16", "i8-i8", "u8-i8"])
def test_words_that_the_sum_does_not_fill(types, mode):
    """LLVM is not to join the bytes that are there and zeros, to vectors longer than SPIR-V has."""
    if not available(types, mode):
        pytest.skip(f"not run on tiles: this processor has none for {types}, or may not use them")
    group = [Product(54, 65, k, transposes, (1, 1)) for k in (1, 2, 3) for transposes in ("nn", "tt")]
    assert check(types, group, mode, 1) == []


@MODES
@pytest.mark.parametrize(("types", "sizes"), [(("bf16", "f32"), (49, 35, 70)), (("i8", "i32"), (40, 33, 130))])
def test_batches_and_groups(types, sizes, mode):
    """Many work-groups, by a batch and by a group with arrays in any order."""
    m, n, k = sizes
    random = np.random.default_rng(m)
    a, b = random.integers(-5, 6, (7, k, m)), random.integers(-5, 6, (7, n, k))
    stored = [bf16(x) if types[0] == "bf16" else x.astype(np.int8) for x in (a, b)]
    c = np.full((7, n, m), 3, np.float32 if types[1] == "f32" else np.int32)
    kernel = compiled(gemm(m, n, k, types), mode)
    if mode == "emulate" or amx.refusal() is None:
        assert f"gemm_0 is on AMX: amx_{types[1]}_{types[0]}_{types[0]}" in kernel.lower().remarks[0]
    np.testing.assert_array_equal(run(kernel, *stored, c), b @ a)
    text = gemm(m, n, k, types)
    text = re.sub(r"(memref<\w+?)x\?>(?=[,)])", r"group<\1>>", text)
    text = re.sub(r"subview (%\w)\[:,:,%g\] : (memref<\w+?)x\?>", r"load \1[%g] : group<\2>>", text)
    order = random.permutation(7)
    groups = [tl_dpnp.group([tl_dpnp.rev(dpt.asarray(x[i])) for i in order]) for x in stored]
    result = dpt.asarray(c)
    compiled(text, mode)(*groups, tl_dpnp.group([tl_dpnp.rev(result[int(i)]) for i in order]))
    np.testing.assert_array_equal(dpt.to_numpy(result), b @ a)


@MODES
@pytest.mark.parametrize("level", [0, EXCEEDS_ONE, EXCEEDS_ALL])
@pytest.mark.parametrize(("sizes", "factors"), [
    ((49, 35, 70), ("1.0", "0.0")), ((96, 40, 17), ("1.0", "0.0")), ((130, 140, 40), ("1.0", "0.0")),
    ((5, 3, 200), ("2.0", "1.0"))])
def test_operands_beyond_caches(mode, level, sizes, factors, monkeypatch):
    """What is fetched ahead, and where results are stored, changes none of them."""
    if not available("bf16-bf16", mode):
        pytest.skip(f"not run on tiles: {amx.refusal()}")
    monkeypatch.setattr("tl_dpnp.runtime.sycl.launch.exceeded_caches", lambda *_: level)
    random = np.random.default_rng(level)
    m, n, k = sizes
    a, b, c = (random.integers(-5, 6, (5, *shape)).astype(np.float32) for shape in ((k, m), (n, k), (n, m)))
    kernel = compiled(gemm(m, n, k, factors=factors), mode, schedule={"gemm_0": on_tiles})
    assert "is on AMX" in kernel.diagnostics(2)
    expected = float(factors[0]) * (b @ a) + float(factors[1]) * c
    np.testing.assert_array_equal(run(kernel, bf16(a), bf16(b), c), expected)


def on_tiles(schedule):
    schedule.tensorize("m", "amx_f32_bf16_bf16")


@MODES
def test_integers_wrap(mode):
    """Sums beyond 32 bits wrap as everywhere in the language."""
    a, b = np.full((1, 64, 16), -128, np.int8), np.full((1, 16, 64), -128, np.int8)
    c = np.full((1, 16, 16), (1 << 31) - 1, np.int32)
    found = run(compiled(gemm(16, 16, 64, ("i8", "i32"), factors=("3000", "1")), mode), a, b, c)
    wanted = (3000 * 64 * 128 * 128 + (1 << 31) - 1 + (1 << 31)) % (1 << 32) - (1 << 31)
    assert set(found.ravel().tolist()) == {wanted}


CHAIN = """
func @chain(%A: memref<bf16x35x24x?>, %B: memref<bf16x24x33>, %D: memref<bf16x33x40>, %C: memref<f32x35x40x?>) {
  %g = group_id
  %a = subview %A[:,:,%g] : memref<bf16x35x24x?>
  %c = subview %C[:,:,%g] : memref<f32x35x40x?>
  %t = alloca -> memref<bf16x35x33>
  gemm.n.n 1.0, %a, %B, 0.0, %t : bf16, memref<bf16x35x24>, memref<bf16x24x33>, bf16, memref<bf16x35x33>
  gemm.n.n 1.0, %t, %D, 2.0, %c : f32, memref<bf16x35x33>, memref<bf16x33x40>, f32, memref<f32x35x40>
}
"""


@MODES
@pytest.mark.parametrize("debug", [False, True])
def test_chains_keep_their_intermediate(mode, debug):
    random = np.random.default_rng(5)
    a, b, d = (random.integers(-2, 3, shape) for shape in ((5, 24, 35), (33, 24), (40, 33)))
    c = np.ones((5, 40, 35), np.float32)
    kernel = compiled(CHAIN, mode, debug=debug)
    found = run(kernel, *map(bf16, (a, b, d)), c)
    np.testing.assert_array_equal(found, d @ (b @ a) + 2.0)
    if mode == "emulate" or amx.refusal() is None:
        assert kernel.diagnostics(2).count("is on AMX: amx_f32_bf16_bf16") == 2


@MODES
def test_atomic_sums(mode):
    """All work-groups add to one result; some of its rows are in two tiles."""
    text = gemm(57, 18, 40).replace("gemm.n.n", "gemm.n.n.atomic").replace(" 0.0,", " 1.0,")
    text = text.replace("subview %C[:,:,%g]", "subview %C[:,:,0]")
    random = np.random.default_rng(6)
    a, b = random.integers(-4, 5, (9, 40, 57)), random.integers(-4, 5, (9, 18, 40))
    found = run(compiled(text, mode), bf16(a), bf16(b), np.ones((1, 18, 57), np.float32))
    np.testing.assert_array_equal(found[0], (b @ a).sum(axis=0) + 1)


SHARED = """
func @shared(%A: memref<bf16x49x70>, %G: group<memref<bf16x49x70>>, %B: memref<bf16x70x33x?>, %C: memref<f32x49x33x?>,
             %D: memref<f32x49x33x?>) {
  %g = group_id
  %b = subview %B[:,:,%g] : memref<bf16x70x33x?>
  %c = subview %C[:,:,%g] : memref<f32x49x33x?>
  %d = subview %D[:,:,%g] : memref<f32x49x33x?>
  %half = div %g, 2 : index
  %a = load %G[%half] : group<memref<bf16x49x70>>
  gemm.n.n 1.0, %A, %b, 0.0, %c : f32, memref<bf16x49x70>, memref<bf16x70x33>, f32, memref<f32x49x33>
  gemm.n.n 1.0, %a, %b, 0.0, %d : f32, memref<bf16x49x70>, memref<bf16x70x33>, f32, memref<f32x49x33>
}
"""


@MODES
@pytest.mark.parametrize("depth", [1, 3])
def test_what_work_groups_share_is_packed_once(mode, depth):
    """A factor of all work-groups, and one that every second work-group has another of; called again with others."""
    random = np.random.default_rng(9)
    kernel = compiled(SHARED, mode)
    for _ in range(2):
        a, others = random.integers(-4, 5, (70, 49)), random.integers(-4, 5, (5 * depth, 70, 49))
        b = random.integers(-4, 5, (10 * depth, 33, 70))
        results = [dpt.empty((10 * depth, 33, 49), dtype="f4") for _ in range(2)]
        group = tl_dpnp.group([tl_dpnp.rev(dpt.asarray(bf16(x))) for x in others])
        kernel(tl_dpnp.rev(dpt.asarray(bf16(a))), group, *(tl_dpnp.rev(x) for x in (dpt.asarray(bf16(b)), *results)))
        np.testing.assert_array_equal(dpt.to_numpy(results[0]), b @ a)
        np.testing.assert_array_equal(dpt.to_numpy(results[1]), b @ others.repeat(2, axis=0))


WRITTEN = """
func @written(%S: memref<f32x32x32>, %A: memref<bf16x32x32>, %B: memref<bf16x32x32x?>, %C: memref<f32x32x32x?>) {
  %n = size %B[2] : memref<bf16x32x32x?>
  for %i = 0, %n {
    %b = subview %B[:,:,%i] : memref<bf16x32x32x?>
    %c = subview %C[:,:,%i] : memref<f32x32x32x?>
    gemm.n.n 1.0, %A, %b, 0.0, %c : f32, memref<bf16x32x32>, memref<bf16x32x32>, f32, memref<f32x32x32>
    foreach (%j) = (0), (32) {
      %v = load %A[%j,%j] : memref<bf16x32x32>
      %w = add %v, %v : bf16
      store %w, %A[%j,%j] : memref<bf16x32x32>
    }
  }
}
"""


@MODES
def test_what_is_written_is_packed_anew(mode):
    """The diagonal of the first factor doubles from product to product."""
    b = np.tile(np.eye(32), (4, 1, 1))
    c = np.empty((4, 32, 32), np.float32)
    arrays = [dpt.asarray(x) for x in (np.zeros((32, 32), np.float32), bf16(np.ones((32, 32))), bf16(b), c)]
    compiled(WRITTEN, mode)(*map(tl_dpnp.rev, arrays))
    found = dpt.to_numpy(arrays[-1])
    assert [float(each[3, 3]) for each in found] == [1, 2, 4, 8]
    assert (found[:, 3, 4] == 1).all()


@MODES
def test_several_work_items_share_a_large_product(mode):
    """The divided form."""
    random = np.random.default_rng(8)
    a, b = random.integers(-4, 5, (1, 200, 320)), random.integers(-4, 5, (1, 256, 200))
    kernel = compiled(gemm(320, 256, 200), mode, form="divided")
    np.testing.assert_array_equal(run(kernel, bf16(a), bf16(b), np.empty((1, 256, 320), np.float32)), b @ a)
    if mode == "emulate" or amx.refusal() is None:
        assert "is on AMX: amx_f32_bf16_bf16" in kernel.diagnostics(2)


@MODES
@pytest.mark.parametrize(("precision", "bound"), [("high", 2.0**-21), ("default", 2.0**-8)])
def test_f32_by_sums_of_bf16(precision, bound, mode):
    random = np.random.default_rng(7)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((2, 70, 33), (2, 35, 70)))
    name = TYPES[f"f32-{precision}"][0]
    schedule = {"gemm_0": lambda s: s.tensorize("m", name)}
    if not available(f"f32-{precision}", mode):
        pytest.skip("not run on tiles: this processor has none, or they may not be used")
    found = run(compiled(gemm(33, 35, 70, ("f32", "f32")), mode, schedule=schedule), a, b, np.empty((2, 35, 33), "f4"))
    wide = b.astype(float) @ a.astype(float)
    sums = np.abs(b).astype(float) @ np.abs(a).astype(float)
    assert (np.abs(found - wide) / sums).max() < bound
    assert precision == "high" or (np.abs(found - wide) / sums).max() > 2.0**-14, "operands are rounded"


@MODES
@pytest.mark.drawn
@pytest.mark.parametrize(("sizes", "shared"), [
    ((64, 64, 64), False), ((130, 40, 70), False), ((40, 70, 20), False), ((100, 33, 40), True),
    ((33, 20, 330), False)])
def test_packing_between_products(sizes, shared, mode):
    """Images that stay and images that take turns, one tile along k and several, rows in a loop, A of all products."""
    if not available("f32-high", mode):
        pytest.skip("not run on tiles: this processor has none, or they may not be used")
    random = np.random.default_rng(sum(sizes))
    m, n, k = sizes
    count = 1 if shared else 3
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((count, k, m), (3, n, k)))
    text = gemm(m, n, k, ("f32", "f32"))
    if shared:
        text = text.replace("[:,:,%g] : memref<f32x100x40x?>", "[:,:,0] : memref<f32x100x40x?>")
    kernel = compiled(text, mode, schedule={"gemm_0": lambda s: s.tensorize("m", TYPES["f32-high"][0])})
    found = run(kernel, a, b, np.full((3, n, m), np.nan, "f4"))
    wide = b.astype(float) @ a.astype(float)
    sums = np.abs(b).astype(float) @ np.abs(a).astype(float)
    assert (np.abs(found - wide) / sums).max() < 2.0**-21


@needs_tiles
@pytest.mark.parametrize("k", [7, 32, 100])
def test_the_emulation_has_the_bits_of_the_processor(k):
    """Ordinary, subnormal and large numbers: the order of sums and what counts as 0 are those of the instruction."""
    random = np.random.default_rng(k)
    shapes = (3, k, 20), (3, 18, k)
    a, b = (random.standard_normal(shape) * 2.0 ** random.integers(-70, 40, shape) for shape in shapes)
    a[1] *= 2.0**-60
    a[2, ::3] = 2.0**-130
    b[2] *= 2.0**40
    c = np.empty((3, 18, 20), np.float32)
    schedule = {"gemm_0": lambda s: s.tensorize("m", "amx_f32_bf16_bf16")}
    kernels = (compiled(gemm(20, 18, k), mode, schedule=schedule) for mode in ("auto", "emulate"))
    found = [run(kernel, bf16(a), bf16(b), c) for kernel in kernels]
    np.testing.assert_array_equal(*(result.view(np.uint32) for result in found))


@MODES
@pytest.mark.parametrize("sizes", [(20, 18, 7), (35, 37, 40), (16, 32, 64)])
def test_bf16_results_are_the_sums_rounded(sizes, mode):
    """As NumPy rounds the sums of the same tiles: ordinary, infinite, too large and no numbers."""
    m, n, k = sizes
    random = np.random.default_rng(m)
    a, b = (bf16(random.standard_normal(shape) * 2.0 ** random.integers(-30, 20, shape)) for shape in
            ((3, k, m), (3, n, k)))
    a[1, :, ::3], a[1, 0, 1::3] = 0x7F80, 0x7FC1
    a[2], b[2] = 0x7F7F, np.where(random.random(b[2].shape) < 0.5, 0x3F80, 0xBF81)
    schedule = {"gemm_0": on_tiles}
    sums = run(compiled(gemm(m, n, k), mode, schedule=schedule), a, b, np.zeros((3, n, m), np.float32))
    found = run(compiled(gemm(m, n, k, ("bf16", "bf16")), mode, schedule=schedule), a, b,
                np.zeros((3, n, m), np.uint16))
    bits = sums.view(np.uint32)
    wanted = np.where(np.isnan(sums), bits >> 16 | 0x40, (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)
    assert np.isnan(sums).any()
    assert np.isinf(sums).any()
    np.testing.assert_array_equal(found, wanted)


# --- which products, and why not -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "remark"), [
    (gemm(32, 32, 32), "is on AMX: amx_f32_bf16_bf16, 2 x 2 x 1 tiles"),
    (gemm(32, 32, 64, ("i8", "i32")), "is on AMX: amx_i32_i8_i8"),
    (gemm(3, 3, 3), "is not on AMX: vectors are expected to be as fast"),
    (gemm(32, 32, 32, ("f32", "f32")), 'is not on AMX: it sums products of f32 and f32 in f32; precision="high" or'),
    (gemm(64, 64, 64, ("f32", "f32"), ".default"), "is on AMX: amx_f32_bf16_bf16_from_f32_by_1"),
    (gemm(48, 48, 48, ("f32", "f32"), ".high"), "is on AMX: amx_f32_bf16_bf16_from_f32_by_3, 3 x 3 x 2 tiles"),
    (gemm(16, 16, 64, ("f32", "f32"), ".high"), "is not on AMX: vectors are expected to be as fast"),
    (gemm(23, 31, 5, ("bf16", "bf16")), "is on AMX: amx_f32_bf16_bf16, 2 x 2 x 1 tiles"),
    (gemm(32, 32, 32, ("i8", "f32")), "is not on AMX: it sums products of i8 and i8 in f32"),
    (gemm(32, 32, 40000), "is not on AMX: its operands would take more than"),
    (gemm(32, "?", 32), "is not on AMX: its sizes are known at run time only"),
])
def test_diagnostics_say_what_computes_a_product(text, remark):
    assert any(f"gemm_0 {remark}" in line for line in compiled(text, "emulate").lower().remarks)


def test_tuning_leaves_products_on_tiles_alone():
    kernel = compiled(gemm(32, 32, 32))
    device = next(device for device in devices() if device.is_cpu)
    found = {mode: [each.name for each in tunables(kernel._program.function, device, LoweringOptions(amx=mode))]
             for mode in ("off", "emulate")}
    assert found == {"off": ["gemm_0"], "emulate": []}


def test_off_is_off():
    kernel = compiled(gemm(32, 32, 32), "off")
    run(kernel, *(np.zeros((2, 32, 32), np.uint16),) * 2, np.empty((2, 32, 32), np.float32))
    text = kernel.diagnostics(2)
    assert "amx_" not in text
    assert ("AMX is not used: TL_DPNP_AMX is off" in text) == bool(amx.features())


def test_without_permission_vectors_compute(monkeypatch):
    monkeypatch.setattr(amx, "refusal", lambda: "Linux gives no permission to use its tiles: a reason")
    kernel = compiled(gemm(32, 32, 32))
    a = np.arange(2 * 32 * 32).reshape(2, 32, 32) % 5
    found = run(kernel, bf16(a), bf16(a), np.empty((2, 32, 32), np.float32))
    np.testing.assert_array_equal(found, a @ a)
    assert "amx_" not in kernel.lower().schedule
    if amx.features():
        assert "AMX is not used: Linux gives no permission to use its tiles: a reason" in kernel.diagnostics(2)


REFUSED = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
class Stack(ctypes.Structure):
    _fields_ = [("start", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]
memory = ctypes.create_string_buffer(6144)
stack = Stack(ctypes.addressof(memory), 0, len(memory))
assert libc.sigaltstack(ctypes.byref(stack), None) == 0, ctypes.get_errno()
from tl_dpnp.runtime.sycl import amx
print(amx.refusal())
"""


@needs_tiles
def test_linux_may_refuse():
    """It does where a thread has a stack for signals that has no room for tiles."""
    done = subprocess.run([sys.executable, "-c", REFUSED], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Linux gives no permission to use its tiles: No space left")


def test_a_given_schedule_needs_tiles():
    schedule = {"gemm_0": lambda s: s.tensorize("m", "amx_f32_bf16_bf16")}
    with pytest.raises(ScheduleError, match="needs amx_bf16, which the device does not have or may not use"):
        compiled(gemm(8, 8, 8), "off", schedule=schedule).lower()
    with pytest.raises(ScheduleError, match="it sums products of i8 and i8 in i32"):
        compiled(gemm(8, 8, 8, ("i8", "i32")), "emulate", schedule=schedule).lower()
    assert tile_kernel_named("amx_i32_u8_i8_from_f32_by_3") is None


# --- caches and machine code -----------------------------------------------------------------------------------------


def test_the_engine_is_part_of_the_keys():
    kernel = compiled(gemm(32, 32, 32))
    device = next(device for device in devices() if device.is_cpu)
    keys = {cache_key(kernel._program, device, LoweringOptions(amx=mode)) for mode in ("on", "off", "emulate")}
    assert len(keys) == 3


@needs_tiles
def test_what_is_kept_on_disk_is_not_taken_for_another_engine(tmp_path):
    a = np.zeros((2, 32, 32), np.uint16)
    with config.scope(CACHE_DIR=tmp_path, CACHE=True):
        for _ in range(2):
            for mode, is_used in (("auto", True), ("off", False), ("emulate", True)):
                kernel = compiled(gemm(32, 32, 32), mode, cache=True)
                run(kernel, a, a, np.empty((2, 32, 32), np.float32))
                assert ("is on AMX" in kernel.diagnostics(2)) == is_used
                assert (b"tilerelease" in next(iter(kernel.inspect_spirv().values()))) == (mode == "auto")


def machine_code(kernel):
    """Return the disassembled machine code of a kernel that was called."""
    ((_, overload),) = kernel._overloads.made.items()
    (handle,) = overload.handles.values()
    binary = opencl_programs_adapter.binary_of(handle)
    return binary[binary.rindex(b"\x7fELF"):]


def instructions(listing):
    """Return the address, the name and the operands of each instruction."""
    found = re.findall(r"^ +([0-9a-f]+):\t(\w+) *(.*)$", listing, re.MULTILINE)
    return [(int(address, 16), name, operands) for address, name, operands in found]


def follow(listing):
    """Go along all ways through a function: tiles are configured where they are used, and nowhere else."""
    code = instructions(listing)
    numbers = {address: number for number, (address, *_) in enumerate(code)}
    states, waiting = {}, [(0, False)]
    while waiting:
        number, configured = waiting.pop()
        address, name, operands = code[number]
        if number in states:
            assert states[number] == configured, f"{name} at {address:x} is reached with tiles and without"
            continue
        states[number] = configured
        if name in {"ldtilecfg", "tilerelease"}:
            assert configured == (name == "tilerelease"), name
            configured = not configured
        elif name == "ret":
            assert not configured
            continue
        elif name.startswith(("tile", "tdp")):
            assert configured, name
        if name.startswith("j"):
            waiting.append((numbers[int(operands.split()[0], 16)], configured))
        if name != "jmp":
            waiting.append((number + 1, configured))
    assert any(code[number][1].startswith("tdp") for number in states)


@needs_tiles
@pytest.mark.skipif(shutil.which("objdump") is None, reason="objdump is not installed")
@pytest.mark.parametrize(("text", "debug", "releases"), [
    (gemm(40, 35, 70), False, 1), (gemm(40, 35, 70), True, 1), (CHAIN, False, 2)])
def test_machine_code_releases_tiles(text, debug, releases, tmp_path):
    """Tiles are configured and released by turns, and whoever leaves the kernel has released them."""
    kernel = compiled(text, debug=debug)
    shapes = [parameter.type.shape for parameter in kernel._program.function.parameters]
    arrays = [np.zeros([size or 3 for size in shape[::-1]], np.float32 if i == len(shapes) - 1 else np.uint16)
              for i, shape in enumerate(shapes)]
    run(kernel, *arrays)
    path = tmp_path / "kernel.o"
    path.write_bytes(machine_code(kernel))
    listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True)
    found = [name for _, name, _ in instructions(listing.stdout)]
    assert found.count("tilerelease") == found.count("ldtilecfg") == releases
    follow(listing.stdout)
    assert {"tdpbf16ps", "tileloadd", "tilestored"} <= set(found)


@needs_tiles
def test_permission_is_asked_before_the_first_launch(tmp_path):
    """In a process that finds everything on disk, too."""
    script = ("import numpy as np, tl_dpnp\n"
              "from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt\n"
              f"kernel = tl_dpnp.compile({gemm(32, 32, 32)!r})\n"
              "a = dpt.asarray(np.full((2, 32, 32), 0x3f80, np.uint16)); c = dpt.empty((2, 32, 32), dtype='f4')\n"
              "kernel(tl_dpnp.rev(a), tl_dpnp.rev(a), tl_dpnp.rev(c))\nassert (dpt.to_numpy(c) == 32).all()\n"
              "print(kernel.stats.cache_hits)")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TL_DPNP_CACHE_DIR", str(tmp_path))
        runs = [subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
                for _ in range(2)]
    assert [run.stdout.strip() for run in runs] == ["0", "1"]


def test_the_flags_are_those_of_the_processor():
    assert set(amx.features()) <= {"amx_bf16", "amx_int8", "amx_fp16"}
    assert amx.refusal() is None or not amx.features() or "permission" in amx.refusal()
