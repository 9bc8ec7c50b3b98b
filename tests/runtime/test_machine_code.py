"""What the driver makes of SPIR-V is kept, and loaded in place of a build."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import warnings

import dpctl
import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.runtime.support import AXPY
from tl_dpnp import config
from tl_dpnp.errors import CacheWarning
from tl_dpnp.runtime.store.cache import Entry, open_cache
from tl_dpnp.runtime.sycl import machine_code, opencl_adapter, opencl_programs_adapter
from tl_dpnp.runtime.sycl.machine_code import machine_code_key

BATCH = 7
GEMM = """
func @gemm(%A: memref<f32x24x10x?>, %B: memref<f32x10x12x?>, %C: memref<f32x24x12x?>) {
  %g = group_id
  %a = subview %A[:,:,%g] : memref<f32x24x10x?>
  %b = subview %B[:,:,%g] : memref<f32x10x12x?>
  %c = subview %C[:,:,%g] : memref<f32x24x12x?>
  gemm.n.n 1.0, %a, %b, 0.0, %c : f32, memref<f32x24x10>, memref<f32x10x12>, f32, memref<f32x24x12>
}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path):
    """Give each test a cache folder of its own."""
    with config.scope(CACHE=True, CACHE_DIR=tmp_path / "cache"):
        yield tmp_path / "cache"


def run_axpy(kernel=None, queue=None):
    """Run a kernel, by default one compiled now, check its result and return it."""
    kernel = kernel or tl_dpnp.compile(AXPY)
    x = dpnp.arange(5, dtype="float32", sycl_queue=queue)
    y = dpnp.ones(5, dtype="float32", sycl_queue=queue)
    kernel(3.0, x, y)
    assert y.asnumpy().tolist() == [1, 4, 7, 10, 13]
    return kernel


def machine_code_path(kernel):
    """Return where the cache has the machine code of a kernel for the only device that it was compiled for."""
    ((device, _),) = kernel._overloads.made
    (spirv,) = kernel.inspect_spirv().values()
    return open_cache().path(machine_code_key(spirv, device))


def test_the_cpu_runtime_is_supported():
    assert opencl_adapter.why_unsupported() is None
    assert opencl_adapter.supports(dpnp.ones(1).sycl_queue)


@pytest.mark.parametrize("form", ["vector", "subgroup"])
@pytest.mark.parametrize("debug", [False, True])
def test_machine_code_from_the_cache_computes_the_same(form, debug):
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(shape, dtype=np.float32) for shape in [(BATCH, 10, 24), (BATCH, 12, 10)])
    results = []
    for builds in (1, 0):
        kernel = tl_dpnp.compile(GEMM, form=form, debug=debug)
        c = dpnp.full((BATCH, 12, 24), float("nan"), dtype="float32")
        kernel(*map(tl_dpnp.rev, (dpnp.asarray(a), dpnp.asarray(b), c)))
        assert kernel.stats.driver_builds == builds
        results.append(c.asnumpy())
    np.testing.assert_allclose(results[0], b @ a, rtol=1e-4, atol=1e-5)
    assert np.array_equal(*results)


def test_checks_still_find_what_they_look_for():
    source = """func @pick(%i: index, %x: memref<f32x4>) {
      %v = load %x[%i] : memref<f32x4>
      store %v, %x[0] : memref<f32x4>
    }"""
    for _ in range(2):
        kernel = tl_dpnp.compile(source, debug=True)
        with pytest.raises(tl_dpnp.TLBoundsError, match="4, where the bound is 4"):
            kernel(4, dpnp.ones(4, dtype="float32"))
    assert kernel.stats.driver_builds == 0


def test_another_context_loads_it_as_well():
    kernel = run_axpy()
    device = dpctl.select_default_device()
    run_axpy(kernel, dpctl.SyclQueue(dpctl.SyclContext([device]), device))
    assert kernel.stats.driver_builds == 2  # its SPIR-V is new, so nothing is looked up
    again = run_axpy()
    run_axpy(again, dpctl.SyclQueue(dpctl.SyclContext([device]), device))
    assert again.stats.driver_builds == 0


def test_launches_in_a_context_of_several_devices_are_left_to_sycl():
    device = dpctl.select_default_device()
    if device.max_compute_units < 2:
        pytest.skip("the device cannot be divided")
    parts = device.create_sub_devices(partition=[1, 1])
    queue = dpctl.SyclQueue(dpctl.SyclContext(parts), parts[0])
    assert not opencl_adapter.supports(queue)
    assert opencl_programs_adapter.builds(queue) == hasattr(opencl_adapter.functions(), "make_kernel")
    assert run_axpy(queue=queue).stats.driver_builds == 1
    assert opencl_adapter.supports(dpctl.SyclQueue(parts[0]))


def test_a_binary_that_the_driver_refuses_is_replaced():
    kernel = run_axpy()
    ((device, _),) = kernel._overloads.made
    (spirv,) = kernel.inspect_spirv().values()
    open_cache().store(machine_code_key(spirv, device), Entry({}, b"no machine code"))
    with pytest.warns(CacheWarning, match="is ignored: clCreateProgramWithBinary fails"):
        assert run_axpy().stats.driver_builds == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run_axpy().stats.driver_builds == 0


def test_damaged_machine_code_is_built_again(folder):
    run_axpy()
    for path in folder.glob("*.bin"):
        data = path.read_bytes()
        if data.startswith(b"\x7fELF"):
            path.write_bytes(data[:-1])
    with pytest.warns(CacheWarning, match="checksum of its content"):
        stats = run_axpy().stats
    assert (stats.cache_hits, stats.driver_builds) == (1, 1)
    assert run_axpy().stats.driver_builds == 0


def test_a_driver_that_gives_no_binary_costs_a_warning(monkeypatch):
    def refuse(handle):
        raise opencl_programs_adapter.ProgramError("clGetProgramInfo fails with code -5")

    monkeypatch.setattr(opencl_programs_adapter, "binary_of", refuse)
    with pytest.warns(CacheWarning, match="is not kept: clGetProgramInfo"):
        assert run_axpy().stats.driver_builds == 1


def test_without_the_functions_kernels_are_built(monkeypatch, folder):
    functions = {**opencl_adapter._FUNCTIONS, "delete_kernel": ("sycl", "of_another_version", None, ())}
    monkeypatch.setattr(opencl_adapter, "_FUNCTIONS", functions)
    opencl_adapter.functions.cache_clear()
    try:
        assert "of_another_version" in opencl_adapter.why_unsupported()
        for _ in range(2):
            assert run_axpy().stats.driver_builds == 1
    finally:
        opencl_adapter.functions.cache_clear()


def test_recompile_builds_and_replaces(folder):
    run_axpy()
    kernel = run_axpy()
    before = os.stat(machine_code_path(kernel)).st_ino
    kernel.recompile()
    run_axpy(kernel)
    assert kernel.stats.driver_builds == 1
    assert os.stat(machine_code_path(kernel)).st_ino != before


def test_without_a_cache_nothing_is_kept(folder):
    for _ in range(2):
        assert run_axpy(tl_dpnp.compile(AXPY, cache=False)).stats.driver_builds == 1
    assert not folder.exists()


def test_the_key_tells_apart_what_gives_other_code(monkeypatch):
    (device, *_) = tl_dpnp.devices()
    keys = [machine_code_key(b"one", device), machine_code_key(b"other", device)]
    monkeypatch.setenv("CL_CONFIG_CPU_TARGET_ARCH", "corei7")  # SSE4.2, which no processor here would get by itself
    keys.append(machine_code_key(b"one", device))
    monkeypatch.setenv("CL_CONFIG_CPU_VECTORIZER_MODE", "4")
    keys.append(machine_code_key(b"one", device))
    monkeypatch.setattr(machine_code, "processor", lambda: {"flags": "sse2"})
    keys.append(machine_code_key(b"one", device))
    assert len(set(keys)) == len(keys)


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def mappings():
    with open("/proc/self/maps") as file:
        return sum(1 for _ in file)


def handle_of(kernel):
    (handle,) = next(iter(kernel._overloads.made.values())).handles.values()
    return handle


def test_programs_are_given_back():
    """Each is some 500 kB and two mappings in the CPU runtime; it goes with the last reference to its kernel."""
    kernel = run_axpy()
    (spirv,) = kernel.inspect_spirv().values()
    handle, queue = handle_of(kernel), dpnp.ones(1).sycl_queue
    binary, entry = opencl_programs_adapter.binary_of(handle), handle.kernel.get_function_name()
    makers = {
        "loaded": (100, lambda: opencl_programs_adapter.load(binary, entry, queue)),
        "built": (20, lambda: opencl_programs_adapter.build(spirv, entry, queue)),
    }
    for name, (count, make) in makers.items():
        for _ in range(20):
            make()
        before, mapped = resident(), mappings()
        for _ in range(count):
            make()
        assert resident() - before < count * 100_000, name
        assert mappings() - mapped < count // 4, name


def test_a_kernel_runs_that_outlives_the_program():
    """SYCL keeps the kernel until a launch is done, and may let go of it after the program."""
    kernel = run_axpy()
    x, y = dpnp.arange(5, dtype="float32"), dpnp.ones(5, dtype="float32")
    event = kernel.submit(3.0, x, y)
    del kernel
    gc.collect()
    event.wait()
    assert y.asnumpy().tolist() == [1, 4, 7, 10, 13]


def test_what_the_driver_does_not_build_comes_with_its_log():
    queue = dpnp.ones(1).sycl_queue
    (spirv,) = tl_dpnp.compile(AXPY).inspect_spirv().values()
    with pytest.raises(opencl_programs_adapter.ProgramError, match=r"clCreateKernel.*CL_INVALID_KERNEL_NAME"):
        opencl_programs_adapter.build(spirv, "another", queue)
    with pytest.raises(opencl_programs_adapter.ProgramError, match=r"(?s)clBuildProgram.*log.*no-such-option"):
        opencl_programs_adapter.build(spirv, "tl_kernel", queue, "-no-such-option")


def test_too_little_memory_is_named():
    """In a process of its own: the limit also holds for what else needs memory."""
    script = f"""if True:
        import resource, sys
        import dpnp, tl_dpnp
        from tl_dpnp.runtime.sycl import platform as sycl
        load = sycl.load_kernel
        def limited(*arguments):
            pages = int(open("/proc/self/statm").read().split()[0])
            resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + int(sys.argv[1]), -1))
            try:
                return load(*arguments)
            finally:
                resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
        sycl.load_kernel = limited
        kernel = tl_dpnp.compile({AXPY!r}, cache=False)
        x = dpnp.ones(5, dtype="float32")
        try:
            kernel(3.0, x, dpnp.ones(5, dtype="float32"))
        except tl_dpnp.LoweringError as error:
            print(error)
        sycl.load_kernel = load
        y = dpnp.ones(5, dtype="float32")
        kernel(3.0, x, y)
        assert (y == 4).all()
    """
    for spare in (0, 1 << 20, 2 << 20, 4 << 20, 12 << 20):
        run = subprocess.run([sys.executable, "-c", script, str(spare)], capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        assert "ulimit -v" in run.stdout


@pytest.mark.parametrize("debug", [False, True])
def test_the_driver_prints_nothing(capfd, debug):
    """It would vectorize over work-items, fail and say "loop not vectorized" where the kernel is told not to."""
    source = """func @f(%x: memref<f32x?>) {
      %i = group_id
      %v = load %x[%i] : memref<f32x?>
      %w = math.abs %v : f32
      store %w, %x[%i] : memref<f32x?>
    }"""
    x = dpnp.arange(-2, 3, dtype="float32")
    kernel = tl_dpnp.compile(source, debug=debug)
    kernel(x)
    assert x.asnumpy().tolist() == [2, 1, 0, 1, 2]
    assert kernel.stats.driver_builds == 1
    assert capfd.readouterr() == ("", "")
