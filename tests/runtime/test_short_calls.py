"""Calls whose machine code runs without OpenCL: the same results, the same order, the same errors."""

from __future__ import annotations

import ctypes
import gc
import math
import os
import random as chance
import sys
import threading
from dataclasses import replace

import dpctl
import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.runtime.support import AXPY, COUNT, FUSED, RAGGED, on_device, process, random
from tl_dpnp import OverlapWarning, TLBindingError, TLError, TLTypeError, config
from tl_dpnp.runtime.sycl import helpers, host_calls, host_code_adapter, host_functions, host_records
from tl_dpnp.runtime.sycl.helper_code import STATE
from tl_dpnp.runtime.sycl.launch import DirectLaunch
from tl_dpnp.runtime.sycl.tensor_adapter import ExecutionPlacementError
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt

#: A batch of products, each with a temporary and element-wise work on it.
CHAIN = """
func @chain(%alpha: f64, %A: memref<f64x{m}x{k}x?>, %B: memref<f64x{k}x{n}>, %C: memref<f64x{m}x{n}x?>, %b: f64) {{
  %g = group_id
  %a = subview %A[:,:,%g] : memref<f64x{m}x{k}x?>
  %c = subview %C[:,:,%g] : memref<f64x{m}x{n}x?>
  %t = alloca -> memref<f64x{m}x{n}>
  gemm.n.n %alpha, %a, %B, 0.0, %t : f64, memref<f64x{m}x{k}>, memref<f64x{k}x{n}>, f64, memref<f64x{m}x{n}>
  axpby.n 1.0, %t, %b, %c : f64, memref<f64x{m}x{n}>, f64, memref<f64x{m}x{n}>
}}
"""
#: Scalars of several types between arrays: in memory, arguments have the alignment of their types.
SCALARS = """
func @scalars(%a: f32, %b: f32, %n: i32, %c: f32, %y: memref<f64x?>, %d: f64, %flag: i1, %e: f32) {
  foreach %i = 0, 5 : index {
    %0 = arith.add %a, %b : f32
    %1 = arith.mul %0, %c : f32
    %2 = arith.add %1, %e : f32
    %3 = cast %2 : f32 -> f64
    %4 = arith.add %3, %d : f64
    %5 = cast %n : i32 -> f64
    %6 = arith.mul %4, %5 : f64
    store %6, %y[%i] : memref<f64x?>
  }
}
"""


@pytest.fixture(autouse=True)
def _all_are_short(monkeypatch):
    """Take two calls for enough, and the time of a busy machine for short."""
    monkeypatch.setattr(host_calls, "CALLS_BEFORE", 2)
    monkeypatch.setattr(host_calls, "NUMBERS", replace(host_calls.NUMBERS, longest=1e3))


@pytest.fixture
def on_opencl(monkeypatch):
    """The launches that OpenCL ran."""
    runs = []
    run = DirectLaunch.run_on_device

    def noted(self, *arguments):
        runs.append(self)
        return run(self, *arguments)

    monkeypatch.setattr(DirectLaunch, "run_on_device", noted)
    return runs


def repeated(kernel, make, **options):
    """Call a kernel until it needs no OpenCL, each time with arguments of their own; return the last ones."""
    for _ in range(4):
        arguments = make()
        kernel(*arguments, **options)
    return arguments


def bits(array):
    return dpnp.asnumpy(array).tobytes()


def compiled(source, short=True, **options):
    return tl_dpnp.compile(source, **options) if short else _without(source, **options)


def _without(source, **options):
    kernel = tl_dpnp.compile(source, **options)

    def call(*arguments, **more):
        with config.scope(SHORT_CALLS=False):
            kernel(*arguments, **more)

    return call


# --- results ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_results_are_the_same_bits(seed, on_opencl):
    pick = chance.Random(seed)
    m, n, k, batch = pick.randint(1, 20), pick.randint(1, 20), pick.randint(1, 20), pick.choice([1, 2, 7, 40, 301])
    source = CHAIN.format(m=m, n=n, k=k)
    generator = np.random.default_rng(seed)
    a, b, c = (generator.standard_normal(shape) for shape in ((m, k, batch), (k, n), (m, n, batch)))

    def make():
        return [0.37, *map(on_device, (a, b, c)), -1.25]

    kernel = tl_dpnp.compile(source)
    short = repeated(kernel, make)
    taken = len(on_opencl)
    assert taken == 2
    assert bits(short[3]) == bits(repeated(compiled(source, short=False), make)[3])
    assert "the machine code is called" in kernel.diagnostics()


def test_scalars_have_their_places(on_opencl):
    kernel, y = tl_dpnp.compile(SCALARS), dpnp.zeros(5)
    for call in range(6):
        values = (1.5 + call, 0.25, 3 - call, -2.0, 1e-3 * call, call % 2 == 0, 8.0)
        kernel(*values[:4], y, *values[4:])
        a, b, n, c, d, _, e = values
        assert dpnp.asnumpy(y).tolist() == [((a + b) * c + e + d) * n] * 5
    assert len(on_opencl) == 2


def test_groups_and_lists_of_arrays(on_opencl):
    kernel = tl_dpnp.compile(RAGGED)
    sizes = [(3, 5, 2), (8, 8, 8), (17, 1, 4)]
    a, b = ([random(*shape, seed=i) for i, shape in enumerate(shapes)]
            for shapes in ([s[:2] for s in sizes], [s[1:] for s in sizes]))
    given = [tl_dpnp.group([*map(on_device, x)]) for x in (a, b)]
    for as_group in (True, False):
        for _ in range(3):
            c = [dpnp.zeros((s[0], s[2]), dtype="float32", order="F") for s in sizes]
            kernel(*given, tl_dpnp.group(c) if as_group else c)
            for x, y, z in zip(a, b, c, strict=True):
                assert np.array_equal(dpnp.asnumpy(z), x @ y)
    c = tl_dpnp.group(c)
    for _ in range(3):
        kernel(*given, c)
    count = len(on_opencl)
    for _ in range(4):
        kernel(*given, c)
    assert len(on_opencl) == count


def test_denormal_numbers_and_rounding_are_opencls():
    """Whatever the thread that calls was told: here to flush denormal numbers to zero, by MXCSR."""
    script = f"""
import ctypes, sys
import dpnp, numpy as np, tl_dpnp
from tl_dpnp.runtime.sycl import host_calls
host_calls.CALLS_BEFORE = 2
kernel = tl_dpnp.compile({AXPY!r})
x = dpnp.asarray(np.full(9, 1e-40, "float32"))
libm = ctypes.CDLL("libm.so.6")
environment = (ctypes.c_uint32 * 8)()
expected = (np.full(9, 1e-40, "float32").view("uint32") // 2).tolist()
libm.fegetenv(environment)
for call in range(5):
    environment[7] = 0x1F80 | (0x8040 if call > 2 else 0)
    libm.fesetenv(environment)
    y = dpnp.zeros(9, dtype="float32")
    kernel(0.5, x, y)
    libm.fegetenv(environment)
    assert environment[7] & 0x8040 == (0x8040 if call > 2 else 0), hex(environment[7])
    assert dpnp.asnumpy(y).view("uint32").tolist() == expected
print(len(kernel._direct.functions))
"""
    assert process(script) == "1\n"


EXP = """
func @exp(%x: memref<f64x?>) {
  %n = size %x[0] : memref<f64x?>
  foreach %i = 0, %n : index {
    %0 = load %x[%i] : memref<f64x?>
    %1 = math.exp %0 : f64
    store %1, %x[%i] : memref<f64x?>
  }
}
"""


def test_functions_of_vectors_are_the_runtimes(on_opencl):
    kernel, plain = tl_dpnp.compile(EXP), compiled(EXP, short=False)
    for size in (1, 5, 8, 64, 1001):
        values = np.random.default_rng(size).standard_normal(size)
        short = repeated(kernel, lambda values=values: [dpnp.asarray(values)])[0]
        assert bits(short) == bits(repeated(plain, lambda values=values: [dpnp.asarray(values)])[0])
    assert len(on_opencl) == 5 * (2 + 4)


# --- what is looked at in each call ----------------------------------------------------------------------------------


@pytest.fixture
def axpy():
    """A kernel that needs no OpenCL for x and y any more, and these."""
    kernel = tl_dpnp.compile(AXPY)
    x, y = dpnp.ones(12, dtype="float32"), dpnp.ones(12, dtype="float32")
    for _ in range(4):
        kernel(1.0, x, y)
    assert kernel._direct.functions
    return kernel, x, y


def test_other_arrays_are_other_calls(axpy):
    kernel, x, y = axpy
    for size in (12, 5, 12, 40, 1):
        a, b = (dpt.asarray(np.arange(size + 3, dtype="float32")) for _ in range(2))
        kernel(2.0, a[3:], b[:size])
        expected = np.arange(size + 3, dtype="float32")
        expected[:size] += 2 * np.arange(3, size + 3)
        assert np.array_equal(dpt.to_numpy(b), expected)
        with pytest.raises(tl_dpnp.LayoutError):
            kernel(2.0, dpt.ones(24, dtype="float32")[::2], y)
    kernel(1.0, x, y)
    assert dpnp.asnumpy(y).tolist() == [6] * 12


def test_an_array_with_another_shape_is_another_array(axpy):
    kernel, x, y = axpy
    y.shape = (3, 4)
    with pytest.raises(TLBindingError, match="shape"):
        kernel(1.0, x, y)
    y.shape = (12,)
    kernel(1.0, x, y)
    assert dpnp.asnumpy(y).tolist() == [6] * 12


def test_what_does_not_fit_is_refused_as_ever(axpy):
    kernel, x, y = axpy
    other = dpt.ones(12, dtype="float32", sycl_queue=dpctl.SyclQueue(x.sycl_device))
    read_only = dpt.ones(12, dtype="float32")
    read_only.flags.writable = False
    for arguments, kind in (
        ((1.0, x), TLTypeError), ((1.0, x, y, y), TLTypeError), ((1.0, x, y.astype("float64")), TLTypeError),
        ((1.0, x, y[:7]), TLBindingError), ((1.0, x, other), ExecutionPlacementError),
        ((1.0, x, read_only), TLBindingError), (("1", x, y), TLTypeError), ((1e300, x, y), TLBindingError),
        ((1.0, np.ones(12, "float32"), y), TLTypeError), ((1.0, None, y), TLTypeError),
    ):
        with pytest.raises(kind):
            kernel(*arguments)
    kernel(1.0, x, y)
    assert dpnp.asnumpy(y).tolist() == [6] * 12


def test_scalars_that_are_no_plain_numbers_take_the_other_way(axpy):
    kernel, x, y = axpy
    for alpha in (np.float32(1), 1, np.int64(1), np.float64(1.0)):
        kernel(alpha, x, y)
    assert dpnp.asnumpy(y).tolist() == [9] * 12
    kernel(math.inf, x, y)
    assert dpnp.asnumpy(y).tolist() == [math.inf] * 12
    kernel(math.nan, x, y)
    assert np.isnan(dpnp.asnumpy(y)).all()


def test_arrays_that_overlap_give_their_warning(axpy):
    kernel, _, _ = axpy
    memory = dpnp.ones(20, dtype="float32")
    with pytest.warns(OverlapWarning):
        kernel(1.0, memory[:12], memory[8:])


@pytest.mark.parametrize("change", [(7,), (3, 4), (12,)])
def test_an_argument_that_changes_meanwhile_makes_no_stale_function(change, monkeypatch):
    """As if another thread gave it another shape after the launch was found, and before its looks are written down."""
    make = host_functions._function_of_arguments

    def changed(functions, binding, launch, arguments, looks):
        other = (1.0, *(dpnp.ones(change, dtype="float32") for _ in range(2)))
        function = make(functions, binding, launch, other, other)
        assert (function is not None) == (change == (12,))
        return function

    monkeypatch.setattr(host_functions, "_function_of_arguments", changed)
    kernel = tl_dpnp.compile(AXPY)
    for _ in range(4):
        x, y = dpnp.ones(12, dtype="float32"), dpnp.ones(12, dtype="float32")
        kernel(1.0, x, y)
        assert dpnp.asnumpy(y).tolist() == [2] * 12


def test_arrays_are_neither_kept_nor_let_go(axpy):
    kernel, x, y = axpy
    usm = x._array_obj
    before = sys.getrefcount(usm), sys.getrefcount(x), sys.getrefcount(y)
    for _ in range(100):
        kernel(1.0, x, y)
        with pytest.raises(TLTypeError):
            kernel(1.0, x, None)
    assert (sys.getrefcount(usm), sys.getrefcount(x), sys.getrefcount(y)) == before


def test_calls_leave_no_memory_behind(axpy):
    kernel, x, y = axpy

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    def call(count):
        for _ in range(count):
            kernel(1.0, x, y)
            kernel._direct.functions[0]((1.0, x, None))

    call(2000)
    before = resident()
    call(50_000)
    assert resident() - before < 50_000 * 4  # a single object takes 16 bytes and more


# --- order -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_order", [False, True])
def test_what_was_submitted_is_done_first(in_order, on_opencl):
    from tests.runtime.test_order import SLOW, STEPS, expected

    device = dpctl.select_default_device()
    queue = dpctl.SyclQueue(device, property="in_order") if in_order else dpctl.SyclQueue(device)
    slow, count = tl_dpnp.compile(SLOW), tl_dpnp.compile(COUNT)
    x = dpt.zeros(4, dtype="int64", sycl_queue=queue)
    for _ in range(4):
        count(x, 1)
    for _ in range(3):
        x[:] = 0
        queue.wait()
        before = len(on_opencl)
        slow.submit(x, STEPS)
        count(x, 1)
        assert dpt.to_numpy(x).tolist() == [expected(STEPS) + 1] * 4
        count.submit(x, 1)
        count(x, 1)
        assert dpt.to_numpy(x).tolist() == [expected(STEPS) + 3] * 4
        assert len(on_opencl) == before


def test_threads_and_submitted_work_lose_nothing(monkeypatch):
    """Eight threads call one kernel, each with arrays of its own and one submission in ten; helpers are used."""
    shared_with_helpers(monkeypatch)
    kernel = tl_dpnp.compile(COUNT)
    arrays = [dpnp.zeros(64, dtype="int64") for _ in range(8)]
    wrong = []

    def work(x):
        for call in range(600):
            if call % 10 == 9:
                kernel.submit(x, 1)
            else:
                kernel(x, 1)
        tl_dpnp.wait(x)
        if dpnp.asnumpy(x).tolist() != [600] * 64:
            wrong.append(x)

    threads = [threading.Thread(target=work, args=(x,)) for x in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert kernel._direct.functions


# --- helpers ---------------------------------------------------------------------------------------------------------


def shared_with_helpers(monkeypatch):
    """Have all calls from now on shared with the helpers."""
    helpers.start(4)
    if not STATE.helpers:
        pytest.skip("this process may use one core")

    class Shared(host_records.HostRecord):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options, alone=10**12, measured=1 << 40, counted=100)

    monkeypatch.setattr(host_records, "HostRecord", Shared)


@pytest.mark.parametrize("seed", range(4))
def test_shared_calls_give_the_same_bits(seed, monkeypatch):
    shared_with_helpers(monkeypatch)
    source = CHAIN.format(m=9, n=5, k=4)
    generator = np.random.default_rng(seed)
    batch = [1, 3, 64, 1001][seed]
    a, b, c = (generator.standard_normal(shape) for shape in ((9, 4, batch), (4, 5), (9, 5, batch)))
    plain = repeated(compiled(source, short=False), lambda: [0.5, *map(on_device, (a, b, c)), 2.0])[3]
    kernel, number = tl_dpnp.compile(source), STATE.number
    for _ in range(200):
        short = [0.5, *map(on_device, (a, b, c)), 2.0]
        kernel(*short)
        assert bits(short[3]) == bits(plain)
    assert STATE.number - number == 198
    assert STATE.threads == min(STATE.helpers + 1, batch)
    words = (ctypes.c_int64 * (8 * STATE.threads)).from_address(STATE.ranges)[::8]
    assert [word >> 32 for word in words] == [STATE.number] * STATE.threads
    assert all(word & 0xFFFF == word >> 16 & 0xFFFF for word in words)  # nothing is left


def test_faults_in_helpers_are_reported(monkeypatch):
    """A signal of a fault that its thread blocks ends the process before anything is written."""
    shared_with_helpers(monkeypatch)
    faults = sum(1 << (number - 1) for number in helpers._FAULTS)
    main = os.getpid()
    masks = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/status", encoding="utf-8") as file:
            masks += [int(line.split()[1], 16) for line in file if line.startswith("SigBlk:") and int(task) != main]
    assert any(masks)  # helpers block all other signals
    assert not any(mask & faults for mask in masks)


def test_helpers_sleep_when_there_is_nothing_to_do(monkeypatch):
    shared_with_helpers(monkeypatch)
    kernel, x = tl_dpnp.compile(COUNT), dpnp.zeros(64, dtype="int64")
    for _ in range(10):
        kernel(x, 1)
    looks = []  # one that was about to sleep when the last call rang looks once more
    while len(looks) < 1000 and looks[-3:] != [STATE.helpers] * 3:
        threading.Event().wait(0.01)
        looks.append(STATE.sleepers)
    assert looks[-3:] == [STATE.helpers] * 3


# --- what OpenCL still runs ------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("options", "source", "reason"), [
    ({"form": "subgroup"}, COUNT, "the subgroup form"), ({"debug": True}, COUNT, None),
])
def test_other_kernels_are_opencls(options, source, reason, on_opencl):
    kernel = tl_dpnp.compile(source, **options)
    x = dpnp.zeros(64, dtype="int64")
    for _ in range(6):
        kernel(x, 1)
    assert not kernel._direct.functions
    assert dpnp.asnumpy(x)[0] == 6
    if reason is not None:
        assert f"OpenCL runs them, because {reason}" in kernel.diagnostics()


def test_a_setting_leaves_all_to_opencl(on_opencl):
    kernel, x = tl_dpnp.compile(COUNT), dpnp.zeros(64, dtype="int64")
    with config.scope(SHORT_CALLS=False):
        for _ in range(6):
            kernel(x, 1)
    assert len(on_opencl) == 6
    assert "TL_DPNP_SHORT_CALLS" in kernel.diagnostics()


def test_long_calls_are_opencls(on_opencl, monkeypatch):
    monkeypatch.setattr(host_calls, "NUMBERS", replace(host_calls.NUMBERS, longest=1e-9))
    kernel, x = tl_dpnp.compile(COUNT), dpnp.zeros(64, dtype="int64")
    for _ in range(6):
        kernel(x, 1)
    assert len(on_opencl) == 6
    assert "they take too long" in kernel.diagnostics()


def test_calls_that_become_long_go_to_opencl(on_opencl):
    from tests.runtime.test_order import SLOW

    kernel, x = tl_dpnp.compile(SLOW), dpnp.zeros(4, dtype="int64")
    for _ in range(4):
        kernel(x, 1)
    assert len(on_opencl) == 2
    record = next(iter(kernel._memo._kept.values())).launch.short._made.record
    record.longest = 1
    function = kernel._direct.functions
    kernel._direct.functions = ()  # the other function has a record of its own
    for _ in range(6):
        kernel(x, 1)
        kernel._direct.functions = ()
    assert function
    assert len(on_opencl) > 2
    assert "they take too long" in kernel.diagnostics()


# --- binaries --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def binary():
    """The program of a kernel, its entry, and the types of its arguments."""
    found = []
    load = host_code_adapter.load

    def noted(*arguments):
        found.append(arguments)
        return load(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(host_calls, "CALLS_BEFORE", 1)
        patch.setattr(host_calls, "NUMBERS", replace(host_calls.NUMBERS, longest=1e3))  # as in the fixture of each test
        patch.setattr(host_functions, "load", noted)
        tl_dpnp.compile(AXPY)(1.0, dpnp.ones(5, dtype="float32"), dpnp.ones(5, dtype="float32"))
    return found[0]


def test_a_binary_of_another_form_is_refused(binary):
    content, entry, types = binary
    refusal = host_code_adapter.refusal
    assert refusal(content, entry, types) is None
    version = content.index(b".ocl.ver")
    assert version > 0
    assert "where the arguments lie" in refusal(content, entry, types[:-1])
    assert "where the arguments lie" in refusal(content, entry, [ctypes.c_double, *types[1:]])
    assert "no function" in refusal(content, "other", types) or "arguments" in refusal(content, "other", types)
    for name in (b".ocl.ver", b".ocl.meta", b".ocl.obj"):
        assert refusal(content.replace(name, b".ocl.xxx"[: len(name)].ljust(len(name), b"x")), entry, types)
    place = content.rindex(b"\x7fELF")
    assert "x86-64" in refusal(content[: place + 18] + b"\xb7\x00" + content[place + 20 :], entry, types)
    assert refusal(b"", entry, types)
    assert refusal(b"not an ELF file" * 10, entry, types)


def test_truncated_binaries_are_refused(binary):
    content, entry, types = binary
    pick = chance.Random(0)
    for size in [*range(64), *(pick.randrange(64, len(content) - 64) for _ in range(200))]:
        assert host_code_adapter.refusal(content[:size], entry, types)


def test_machine_code_goes_with_its_kernel():
    gc.collect()
    before = len(host_functions._codes)
    kernel, x = tl_dpnp.compile(COUNT), dpnp.zeros(4, dtype="int64")
    for _ in range(4):
        kernel(x, 1)
    assert len(host_functions._codes) == before + 1
    del kernel
    gc.collect()
    assert len(host_functions._codes) == before


def test_a_graph_of_short_calls_runs(axpy):
    kernel, x, y = axpy
    with tl_dpnp.record() as graph:
        kernel(1.0, x, y)
        kernel(2.0, x, y)
    for _ in range(5):
        graph()
    assert dpnp.asnumpy(y).tolist() == [5 + 15] * 12
    with pytest.raises(TLError):
        tl_dpnp.compile(FUSED)(1.0)
