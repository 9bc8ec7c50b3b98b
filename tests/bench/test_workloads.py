"""The workloads of the benchmarks are right: each compares the device with NumPy when it is made."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tl_dpnp
from asv_bench.benchmarks import code, functions, programs
from asv_bench.benchmarks.limits import Fill, FmaPeak, Read, Triad, _memory, host_vector_bytes
from asv_bench.benchmarks.small_products import GENERATED, generated_products
from asv_bench.benchmarks.streams import Stream
from asv_bench.benchmarks.tables import Shape
from asv_bench.benchmarks.workloads import Chain, Gemm, Groups

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("transposes", ["n.n", "t.t"])
@pytest.mark.parametrize("looped", [False, True])
def test_products(transposes, looped):
    gemm = Gemm(Shape(5, 3, 7), "f64", batch=11, transposes=transposes, beta=0.5, looped=looped, passes=1 + 2 * looped)
    assert gemm.flops == 2 * 5 * 3 * 7 * 11
    assert gemm.bytes == 8 * 11 * (5 * 7 + 7 * 3 + 2 * 5 * 3)  # C is read and written


def test_products_by_generated_kernels_are_those_of_numpy():
    """Each batch is compared when it is made; where there is no C compiler nobody takes part."""
    for shape, batch, passes in [(Shape(5, 3, 7), 11, 3), (Shape(16, 16, 16), 1, 1), (Shape(33, 1, 2), 4, 2)]:
        for element in ("f32", "f64"):
            gemm = Gemm(shape, element, batch=batch)
            contestants = generated_products(shape, element, gemm.host, passes)
            assert set(contestants) <= set(GENERATED)
            if shutil.which("cc"):
                assert "MKL's JIT" in contestants
            for contestant in contestants.values():
                gemm.host["C"].fill(0)
                contestant.call()
                np.testing.assert_allclose(gemm.host["C"], gemm.host["B"] @ gemm.host["A"], rtol=1e-3, atol=1e-3)
                assert contestant.passes == passes


def test_a_wrong_product_is_noticed():
    gemm = Gemm(Shape(4, 4, 4), batch=3)
    gemm.compute = lambda xp, arrays: arrays["C"].fill(0)
    with pytest.raises(AssertionError):
        gemm.check()


def test_chains_groups_and_instructions():
    Chain(0.01)
    Chain(0.01, passes=3)
    Groups(Shape(4, 4, 4), "f32", 5)
    for instruction in Stream.NAMES:
        Stream(instruction, "f32", 0.2)


@pytest.mark.parametrize("case", functions.CASES)
def test_functions(case):
    errors = functions.Function(*case.split()).errors()
    assert max(errors.values()) < 5


def test_groups_have_no_loop():
    with pytest.raises(ValueError, match="does not know how many"):
        programs.batched({"A": "f32x4"}, "", looped=True, groups=True)


def test_limits_do_what_they_count():
    single, double = FmaPeak("f32", 1), FmaPeak("f64", 1)
    assert single.flops == 2 * double.flops  # twice the lanes
    single()
    triad = Triad(1, 2, streaming=True)
    a, b, c = _memory(triad.bytes // 8).reshape(3, -1)
    b[:], c[:] = 2.0, 0.5
    triad()
    assert (a == 3.5).all()
    fill = Fill(1, 2, streaming=False)
    filled = _memory(fill.bytes // 8)
    fill()
    assert (filled == 3.0).all()
    read = Read(1, 2, prefetching=True)
    assert sum(call() for call in read._calls) == 3.0 * read.bytes / host_vector_bytes()  # one lane of each


def test_the_inner_loop_of_a_product():
    loop = code.inner_loop(tl_dpnp.compile(programs.gemm(48, 16, 32)), 64)
    assert 0 < loop.fma < loop.instructions
    assert loop.moved >= loop.fma * 4
    assert loop.spills == 0


def test_the_densest_loop_is_found():
    assembly = """
    .LBB0_1:
        vmovups	(%rax), %zmm1
    .LBB0_2:
        vfmadd231ps	(%rcx){1to16}, %zmm1, %zmm0
        vfmadd231pd	64(%rcx), %ymm1, %ymm0
        vmovups	%zmm0, 64(%rsp)
        jne	.LBB0_2
        jne	.LBB0_1
    """.splitlines()
    assert code._densest(assembly) == code.InnerLoop(instructions=4, fma=2, moved=4 + 32, spills=1)


def test_a_loop_is_found_wherever_its_text_begins():
    """Here that of the inner one does behind its entrance, and what follows it stands in front of both."""
    assembly = """
        movq	%rdi, %rbp
        jmp	.LBB0_3
    .LBB0_1:
        movq	24(%rsp), %rcx
        vmovups	%zmm0, (%rcx)
        decq	%rsi
        je	.LBB0_4
    .LBB0_3:
        jmp	.LBB0_5
    .LBB0_2:
        vfmadd231ps	(%rbp){1to16}, %zmm1, %zmm0
        decq	%rdx
        jae	.LBB0_1
    .LBB0_5:
        prefetcht0	(%rcx)
        testb	%al, %al
        jne	.LBB0_2
        prefetcht0	64(%rcx)
        jmp	.LBB0_2
    .LBB0_4:
        retq
    """.splitlines()
    assert code._densest(assembly) == code.InnerLoop(instructions=8, fma=1, moved=4, spills=0)


def test_one_core_must_be_chosen_early():
    program = (
        "import os; from asv_bench.benchmarks.processes import pin_to_one_core as pin; pin();"
        "assert len(os.sched_getaffinity(0)) == 1; import numpy\n"
        "try: pin()\n"
        "except RuntimeError as error: print(error)"
    )
    result = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "before dpctl and numpy are loaded" in result.stdout


def test_threads_of_numpy_sleep_when_the_next_one_begins():
    """They spin after a product, and must have ended before whoever comes next is timed."""
    program = (
        "import os, sys, time; from asv_bench.benchmarks.measure import _PAUSE; import numpy as np\n"
        "def busy():\n"
        "    return [int(open(f'/proc/self/task/{thread}/schedstat').read().split()[0]) for thread in threads]\n"
        "a = np.ones((400, 400), dtype='f4'); a @ a\n"
        "threads = sorted(set(os.listdir('/proc/self/task')) - {str(os.getpid())}); a @ a\n"
        "time.sleep(_PAUSE); begin = busy(); time.sleep(0.2)\n"
        "assert all(end - start < 2e6 for end, start in zip(busy(), begin)), 'they were busy'\n"
        "print(len(threads))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    if int(done.stdout) == 0:
        pytest.skip("NumPy has one thread")
