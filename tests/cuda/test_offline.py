"""What the CUDA target makes of programs, without a GPU."""

from __future__ import annotations

import dataclasses
import pathlib
import runpy
import subprocess
import sys

import pytest

import tl_dpnp
from tests.campaigns.programs import WITH_WORK_ITEMS
from tests.cuda.programs import LAYOUTS, with_layout
from tests.cuda.staged_programs import CASES
from tests.cuda.tensorized import TENSORIZED, scheduled, source
from tests.strategies.programs import random_program
from tl_dpnp.errors import ScheduleError
from tl_dpnp.kernels.mma.rows import ROWS
from tl_dpnp.language import ops
from tl_dpnp.lowering.device import H200

#: D[g] += alpha (A[g] Bᵀ) C for a group A and a batch D.
FUSED = """
func @fused(%alpha: f32, %A: group<memref<f32x16x8>>, %B: memref<f32x8x8>, %C: memref<f32x8x16>,
            %D: memref<f32x16x16x?>) {
  %0 = group_id
  %1 = load %A[%0] : group<memref<f32x16x8>>
  %2 = subview %D[:,:,%0] : memref<f32x16x16x?>
  %t = alloca -> memref<f32x16x8>
  gemm.n.t 1.0, %1, %B, 0.0, %t : f32, memref<f32x16x8>, memref<f32x8x8>, f32, memref<f32x16x8>
  gemm.n.n %alpha, %t, %C, 1.0, %2 : f32, memref<f32x16x8>, memref<f32x8x16>, f32, memref<f32x16x16>
}
"""


def large_product(size, element, transposes, tile=128, rows=None):
    """Return C := 2 op(A) op(B) - C for square matrices, a tile of C for each work-group, with its rows if given."""
    rows = rows or tile

    def panel(rows, columns, is_transposed):
        rows, columns = (columns, rows) if is_transposed else (rows, columns)
        return f"{element}x{rows}x{columns},strided<1,{size}>"

    def slices(across, along, is_transposed):
        return f"{along}, {across}" if is_transposed else f"{across}, {along}"

    matrix, whole = f"memref<{element}x{size}x{size}>", f"0:{size}"
    by_rows, by_columns = (letter == "t" for letter in transposes)
    return f"""func @large(%A: {matrix}, %B: {matrix}, %C: {matrix}) {{
      %g = group_id
      %i = arith.rem %g, {size // rows} : index
      %j = arith.div %g, {size // rows} : index
      %m = arith.mul %i, {rows} : index
      %n = arith.mul %j, {tile} : index
      %a = subview %A[{slices(f"%m:{rows}", whole, by_rows)}] : {matrix}
      %b = subview %B[{slices(whole, f"%n:{tile}", by_columns)}] : {matrix}
      %c = subview %C[%m:{rows}, %n:{tile}] : {matrix}
      gemm.{".".join(transposes)} 2.0, %a, %b, -1.0, %c : {element}, memref<{panel(rows, size, by_rows)}>,
        memref<{panel(size, tile, by_columns)}>, {element}, memref<{panel(rows, tile, False)}>
    }}"""


def batched_product(element, sizes, transposes="n.n", beta=0):
    """Return C[g] := op(A[g]) op(B[g]) + beta C[g] for m x k by k x n matrices."""
    m, n, k = sizes
    rows, columns = (k, m) if transposes[0] == "t" else (m, k), (n, k) if transposes[2] == "t" else (k, n)
    a, b, c = (f"{element}x{r}x{s}" for r, s in (rows, columns, (m, n)))
    return f"""func @product(%A: memref<{a}x?>, %B: memref<{b}x?>, %C: memref<{c}x?>) {{
      %g = group_id
      %a = subview %A[:,:,%g] : memref<{a}x?>
      %b = subview %B[:,:,%g] : memref<{b}x?>
      %c = subview %C[:,:,%g] : memref<{c}x?>
      gemm.{transposes} 1.0, %a, %b, {beta}.0, %c : {element}, memref<{a}>, memref<{b}>, {element}, memref<{c}>
    }}"""


def only(views):
    (view,) = views.values()
    return view


@pytest.mark.parametrize("layout", LAYOUTS)
def test_random_programs_compile(layout):
    for seed in range(16):
        function = with_layout(random_program(seed), layout)
        kernel = tl_dpnp.compile(ops.Module((function,)), target="cuda", cache=False, debug=seed % 4 == 0)
        assert ".visible .entry tl_kernel" in only(kernel.inspect_ptx())


def test_the_sub_group_form_is_a_block_of_warps():
    kernel = tl_dpnp.compile(FUSED, target="cuda", form="subgroup", cache=False)
    lowered = kernel.lower(H200)
    assert lowered.plan.subgroup_size == 32
    assert "item" not in lowered.text
    ptx = only(kernel.inspect_ptx())
    assert ".target sm_90a" in ptx
    for instruction in ("bar.sync", "fma.rn.f32", "ld.shared.f32", "st.global.f32", "%ctaid.x", "%tid.y"):
        assert instruction in ptx
    assert f".maxntid {32 * lowered.plan.subgroups}" in ptx


@pytest.mark.parametrize("layout", LAYOUTS)
def test_regions_that_work_items_run_compile(layout):
    """Their work-items are iterations, which threads share; they wait for one another at barriers of the block."""
    barriers = 0
    for seed in range(12):
        function = with_layout(random_program(seed, WITH_WORK_ITEMS), layout)
        kernel = tl_dpnp.compile(ops.Module((function,)), target="cuda", cache=False, debug=seed % 4 == 0)
        barriers += only(kernel.inspect_ptx()).count("bar.sync")
    assert barriers


def test_launches_along_several_axes_are_blocks_along_one():
    source = """func @f(%x: memref<f32x16x16x?x?>, %y: memref<f32x16x16>) {
        %i = group_id.x : index  %j = group_id.y : index
        %c = subview %x[0:16, 0:16, %i, %j] : memref<f32x16x16>
        gemm.n.n 1.0, %y, %y, 0.0, %c
    }"""
    kernel = tl_dpnp.compile(source, target="cuda", cache=False)
    extents = {meaning: name for name, meaning in kernel.lower(H200).legend}
    assert f"rem_index(group, {extents['%groups_x: index']})" in kernel.lower(H200).text
    assert "%ctaid.x" in only(kernel.inspect_ptx())


def test_mathematics_and_atomics_become_those_of_the_device():
    for scalar in ("f32", "f64"):
        source = f"""func @f(%x: memref<{scalar}x64x?>, %y: memref<{scalar}>) {{
            %g = group_id
            %a = load %x[0, %g] : memref<{scalar}x64x?>
            %b = math.tanh %a : {scalar}
            %c = arith.neg %b : {scalar}
            store %c, %x[0, %g] : memref<{scalar}x64x?>
            %v = subview %x[:, %g] : memref<{scalar}x64x?>
            sum.n.atomic 1.0, %v, 1.0, %y : {scalar}, memref<{scalar}x64>, {scalar}, memref<{scalar}>
        }}"""
        ptx = only(tl_dpnp.compile(source, target="cuda", cache=False).inspect_ptx())
        assert f"red.relaxed.gpu.global.add.{scalar}" in ptx
        assert "ex2.approx" in ptx or "fma.rn.f64" in ptx
        assert "call" not in ptx


def test_resources_are_known_without_a_device():
    kernel = tl_dpnp.compile(FUSED, target="cuda", form="subgroup", cache=False)
    with pytest.raises(tl_dpnp.TLTypeError, match="registers= is for an Intel GPU, which device= names"):
        kernel.resources(registers=256)
    resources = only(kernel.resources())
    assert 0 < resources.registers <= 255
    assert resources.stack == 0
    assert resources.local_memory == 16 * 8 * 4


def test_machine_code_needs_the_disassembler(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(tl_dpnp.UnsupportedError, match="cuda-nvdisasm"):
        tl_dpnp.compile(FUSED, target="cuda", cache=False).inspect_sass()


def test_what_other_targets_have_is_refused():
    kernel = tl_dpnp.compile(FUSED, target="cuda", cache=False)
    with pytest.raises(tl_dpnp.UnsupportedError, match='inspect_spirv is for target="sycl"'):
        kernel.inspect_spirv()
    with pytest.raises(tl_dpnp.LoweringError, match="form='vector'"):
        tl_dpnp.compile(FUSED, target="cuda", form="vector", cache=False).inspect_ptx()
    with pytest.raises(tl_dpnp.TLTypeError, match="queue= takes a SYCL queue"):
        tl_dpnp.compile(FUSED, target="cuda", queue=object())


def test_the_cache_keeps_the_code():
    source = FUSED.replace("@fused", "@kept")
    first, second = (tl_dpnp.compile(source, target="cuda") for _ in range(2))
    assert only(first.inspect_ptx()) == only(second.inspect_ptx())
    assert (first.stats.cache_misses, second.stats.cache_hits) == (1, 1)


def test_no_package_of_the_other_target_is_needed():
    code = (
        f"import sys\nfor name in ('dpctl', 'dpnp', 'numba_dpex'):\n    sys.modules[name] = None\n"
        f"import tl_dpnp\nkernel = tl_dpnp.compile({FUSED!r}, target='cuda', cache=False)\nkernel.inspect_ptx()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize("name", CASES)
def test_programs_run_staged(name):
    kernel = tl_dpnp.compile(CASES[name].source, target="cuda", cache=False, precision=CASES[name].precision)
    assert kernel.lower(H200).plan.form == "staged"
    ptx = only(kernel.inspect_ptx())
    for instruction in ("mbarrier.try_wait.parity", "fence.proxy.async", "cp.async.bulk.wait_group.read"):
        assert instruction in ptx
    # Matrices of groups whose size is no multiple of 16 bytes are copied by threads, always.
    by_engine = name not in ("groups_5x3x2", "volume_35x9_f32_groups")
    assert ("cp.async.bulk.shared::cluster.global.mbarrier" in ptx) == by_engine
    # Threads store large results that they alone have computed.
    stored_by_threads = name == "large_result"
    assert ("st.global.f32" in ptx) == stored_by_threads
    assert ("cp.async.bulk.global.shared::cta.bulk_group" in ptx) == (by_engine and not stored_by_threads)
    resources = only(kernel.resources())
    assert resources.stack == 0
    assert resources.local_memory <= H200.local_memory


def test_tiles_are_read_and_written_in_vectors():
    ptx = only(tl_dpnp.compile(CASES["16x16x16_f32_n.n_beta1"].source, target="cuda", cache=False).inspect_ptx())
    assert ptx.count("ld.shared.v4.f32") > 4 * ptx.count("ld.shared.f32")
    assert "st.shared.v4.f32" in ptx
    assert "st.shared.f32" not in ptx


@pytest.mark.parametrize("body", [
    "store 1.0, %x[0, %g] : memref<f32x4x?>",  # not linear algebra
    "%v = subview %x[:,0] : memref<f32x4x?>\n axpby.n 1.0, %u, 1.0, %v : f32, memref<f32x4>, f32, memref<f32x4>",
    "axpby.n.atomic 1.0, %u, 1.0, %y : f32, memref<f32x4>, f32, memref<f32x4>",  # y belongs to all work-groups
    "axpby.n 1.0, %u, 1.0, %y : f32, memref<f32x4>, f32, memref<f32x4>",
])
def test_other_programs_do_not(body):
    source = f"""func @f(%x: memref<f32x4x?>, %y: memref<f32x4>) {{
        %g = group_id
        %u = subview %x[:,%g] : memref<f32x4x?>
        {body}
    }}"""
    assert tl_dpnp.compile(source, target="cuda").lower(H200).plan.form == "subgroup"
    with pytest.raises(tl_dpnp.LoweringError, match="cannot run in the staged form on NVIDIA H200"):
        tl_dpnp.compile(source, target="cuda", form="staged").lower(H200)


@pytest.mark.parametrize(("name", "instruction"), [
    ("64x64x64_f64_n.n_beta0", "m16n8k8_f64_f64_f64"), ("64x16x20_f64_n.t_beta2", "m16n8k4_f64_f64_f64"),
    ("32x32x32_f16_n.n_beta0", "m16n8k16_f16_f16_f32"), ("16x8x24_f16_n.t_beta2", "m16n8k8_f16_f16_f32"),
    ("64x64x64_f32_n.n_beta0_default", "m16n8k8_tf32_tf32_f32"),
    ("48x8x12_f32_t.n_beta1_high", "m16n8k4_tf32_tf32_f32"),
    ("volume_56x9_f64", "m16n8k8_f64_f64_f64"), ("volume_35x9_f64", "m16n8k8_f64_f64_f64"),
    ("35x9x35_f64_n.n_beta2", "m16n8k8_f64_f64_f64"), ("50x12x20_f16_t.n_beta1", "m16n8k16_f16_f16_f32"),
    ("volume_56x9_f32", "m16n8k8_tf32_tf32_f32"), ("halves", "m16n8k16_f16_f16_f32"),
])
def test_products_on_tensor_cores(name, instruction):
    kernel = tl_dpnp.compile(CASES[name].source, target="cuda", cache=False, precision=CASES[name].precision)
    assert f"staged form, by {instruction}" in only(kernel.inspect_source())
    ptx = only(kernel.inspect_ptx())
    assert ROWS[instruction].instruction in ptx
    assert ("ldmatrix.sync.aligned.m8n8" in ptx) == ("f16" in name and "50x12x20" not in name)
    assert ("cvt.rna.tf32.f32" in ptx) == ("tf32" in instruction)
    assert "fma.rn.f64" not in ptx or "beta0" not in name


def test_the_stages_of_a_large_product_compile():
    example = runpy.run_path(str(pathlib.Path(__file__).parents[2] / "examples" / "cuda_gemm_stages.py"))
    for stage, (rows, work_group) in example["STAGES"].items():
        source, schedule = example["program"](1024, work_group, rows), {"gemm_0": stage}
        kernel = tl_dpnp.compile(source, target="cuda", schedule=schedule, cache=False)
        resources, ptx = only(kernel.resources()), only(kernel.inspect_ptx())
        assert resources.stack == 0
        assert resources.registers <= 128 or stage.__name__ == "double_buffered"  # two work-groups of a multiprocessor
        assert (resources.local_memory > 0) == (stage.__name__ not in ("naive", "thread_tile"))
        assert ("st.shared.v4" in ptx) == (stage.__name__ in ("warp_tile", "vectorized"))
        assert ("cp.async.cg.shared.global" in ptx) == (stage.__name__ == "double_buffered")
    kernel = tl_dpnp.compile(example["on_tensor_cores"](1024), target="cuda", cache=False)
    assert "wgmma.mma_async" in only(kernel.inspect_ptx())


@pytest.mark.parametrize(
    ("element", "rows", "precision", "subgroups", "instruction"), [
        ("f32", 256, "highest", 8, "fma.rn.f32"), ("f32", 128, "highest", 4, "fma.rn.f32"),
        ("f32", 256, "default", 8, ROWS["m16n8k8_tf32_tf32_f32"].instruction),
        ("f64", 128, "highest", 4, ROWS["m16n8k4_f64_f64_f64"].instruction),
    ])
def test_large_products_are_copied_asynchronously_by_default(element, rows, precision, subgroups, instruction):
    kernel = tl_dpnp.compile(
        large_product(256, element, "nt", rows=rows), target="cuda", cache=False, precision=precision)
    assert kernel.lower(H200).plan.subgroups == subgroups
    smaller = dataclasses.replace(H200, local_memory=99 << 10, copy_engine=False)  # of compute capability 8.6
    assert kernel.lower(smaller).plan.local_memory >= 64 << 10
    ptx, resources = only(kernel.inspect_ptx()), only(kernel.resources())
    for found in ("cp.async.cg.shared.global", "cp.async.wait_all", instruction):
        assert found in ptx
    assert ("cp.async.wait_group 1" in ptx) == (element == "f64")
    assert ("ld.shared.v4" in ptx) == (instruction == "fma.rn.f32")
    assert resources.stack == 0
    # In between products stand few copies at a time.
    runs = [part.count("cp.async.c") for part in ptx.split(instruction)[1:-1]]
    assert sum(runs) >= 4
    assert max(runs) <= 4
    small = tl_dpnp.compile(large_product(256, element, "nt", tile=64), target="cuda", cache=False)
    assert "cp.async" not in only(small.inspect_ptx())


@pytest.mark.parametrize("name", TENSORIZED)
def test_schedules_use_tensor_cores(name):
    schedule = {"gemm_0": scheduled(ROWS[name], copied="A")}
    kernel = tl_dpnp.compile(source(ROWS[name], "nt"), target="cuda", schedule=schedule, cache=False)
    assert name in str(kernel.schedules()["gemm_0"])
    ptx = only(kernel.inspect_ptx())
    assert ROWS[name].instruction in ptx
    assert only(kernel.resources()).stack == 0
    if name.startswith("m16n8k8_f64"):
        with pytest.raises(ScheduleError, match="an instruction that the device does not have"):
            kernel.lower(dataclasses.replace(H200, architecture="sm_86"))


def test_copies_may_have_several_buffers():
    row = ROWS["m16n8k8_f64_f64_f64"]
    kernel = tl_dpnp.compile(source(row, "nt"), target="cuda", cache=False,
                             schedule={"gemm_0": scheduled(row, copied="AB", buffers=3)})
    ptx = only(kernel.inspect_ptx())
    # Two groups before the loop, one in each iteration, of which the last may be under way.
    assert ptx.count("cp.async.commit_group") >= 3
    assert "cp.async.wait_group 1" in ptx


@pytest.mark.parametrize(("sizes", "places"), [((64, 64, 72), 2), ((64, 64, 64), 3), ((33, 35, 34), 3)])
@pytest.mark.parametrize("transposes", ["n.n", "t.n"])
def test_results_that_have_no_room_three_times_wait(sizes, places, transposes):
    """What results are added to comes, and they leave, while others are computed, in three places if there is room."""
    program = batched_product("f64", sizes, transposes, beta=1)
    lowered = tl_dpnp.compile(program, target="cuda", form="staged").lower(H200)
    assert " 2 stages of" in lowered.mapping
    assert f" bytes, {places} of" in lowered.mapping
