"""Kernels: calls, events, threads, inspection, pickling."""

from __future__ import annotations

import copy
import gc
import itertools
import multiprocessing
import os
import pathlib
import pickle
import threading
from dataclasses import replace

import dpctl
import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.lowering.support import CPU
from tests.runtime.support import AXPY, COUNT, FUSED, RAGGED, on_device, random
from tl_dpnp import TLBindingError, TLBoundsError, TLError, TLSyntaxError, TLTypeError, UnsupportedError
from tl_dpnp.lowering import LaunchPlan
from tl_dpnp.runtime.call.memo import CallMemo
from tl_dpnp.runtime.compiler import compile_program
from tl_dpnp.runtime.sycl.launch import chunk_of
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt

TARGETS = pytest.mark.parametrize("target", ["sycl", "reference"])
FORMS = pytest.mark.parametrize("form", ["vector", "subgroup"])


def fused_arguments(batch):
    A = [on_device(random(16, 8, seed=i)) for i in range(batch)]
    B, C = on_device(random(8, 8, seed=1000)), on_device(random(8, 16, seed=1001))
    D = on_device(random(16, 16, batch, seed=1002))
    expected = D.asnumpy() + 0.5 * np.stack([a.asnumpy() @ B.asnumpy().T @ C.asnumpy() for a in A], axis=-1)
    return (0.5, A, B, C, D), expected


@FORMS
@pytest.mark.parametrize("batch", [1, 7, 300])
def test_the_fused_sample(form, batch):
    arguments, expected = fused_arguments(batch)
    tl_dpnp.compile(FUSED, form=form)(*arguments)
    assert (arguments[-1].asnumpy() == expected).all()


@FORMS
@pytest.mark.parametrize("count", [28, 31, 95])
def test_arguments_of_all_types_arrive_however_many_they_are(form, count):
    types = ["f32", "i8", "u16", "f64", "i64", "i1", "index", "f16"]
    given = [types[number % len(types)] for number in range(count)]
    values = [number % 2 if type_ == "i1" else number - (type_[0] != "u") for number, type_ in enumerate(given)]
    parameters = ", ".join(f"%p{number}: {type_}" for number, type_ in enumerate(given))
    lines = "\n".join(f"%v{number} = cast %p{number} : {type_} -> f64\nstore %v{number}, %out[{number}] : {{0}}"
                      if type_ != "f64" else f"store %p{number}, %out[{number}] : {{0}}"
                      for number, type_ in enumerate(given)).format(f"memref<f64x{count}>")
    kernel = tl_dpnp.compile(f"func @f({parameters}, %out: memref<f64x{count}>) {{\n{lines}\n}}", form=form)
    out = dpnp.zeros(count, dtype="float64")
    kernel(*(bool(value) if type_ == "i1" else value for value, type_ in zip(values, given, strict=True)), out)
    assert out.asnumpy().tolist() == values


@FORMS
def test_loops_over_many_arrays(form):
    count = 17
    arrays = [on_device(random(40, seed=number)) for number in range(count)]
    parameters = ", ".join(f"%a{number}: memref<f32x?,strided<?>>" for number in range(count))
    loads = "\n".join(f"%v{number} = load %a{number}[%i] : memref<f32x?,strided<?>>" for number in range(count))
    sums = "\n".join(f"%s{number} = arith.add %{f's{number - 1}' if number > 1 else 'v0'}, %v{number} : f32"
                     for number in range(1, count))
    kernel = tl_dpnp.compile(f"""func @f({parameters}) {{
        foreach %i = 0, 20 {{
            {loads}
            {sums}
            store %s{count - 1}, %a0[%i] : memref<f32x?,strided<?>>
        }}
    }}""", form=form)
    expected = arrays[0].asnumpy()
    expected[:40:2] = sum(array.asnumpy()[::2].astype("f8") for array in arrays)
    kernel(*(array[::2] for array in arrays))
    np.testing.assert_allclose(arrays[0].asnumpy(), expected, rtol=1e-5)


def test_the_reference_target_takes_numpy_arrays_in_place():
    arguments, expected = fused_arguments(3)
    alpha, A, B, C, D = arguments
    host = D.asnumpy()
    kernel = tl_dpnp.compile(FUSED, target="reference")
    kernel(alpha, [a.asnumpy() for a in A], B.asnumpy(), C.asnumpy(), host)
    assert (host == expected).all()
    with pytest.raises(TLTypeError, match="%B takes an array of float32, it was given a NumPy array"):
        kernel(alpha, A, B.asnumpy(), C, D)


def test_the_reference_target_sees_views_of_one_allocation_as_one():
    kernel = tl_dpnp.compile(
        "func @f(%x: memref<i32x3>, %y: memref<i32x3>) { for %i = 0, 3 { %0 = load %x[%i] : memref<i32x3>"
        " %1 = arith.add %0, 1 : i32 store %1, %y[%i] : memref<i32x3> } }", target="reference")
    base = dpnp.zeros(4, dtype="int32")
    kernel(base[:3], base[1:])
    assert base.asnumpy().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(("work", "groups", "units", "chunk"), [
    (100, 10**6, 2, 600), (100, 10, 2, 2), (100, 1, 2, 1), (100, 0, 2, 1), (0, 800, 2, 100), (70_000, 10**6, 2, 1),
    (100, 10**6, 1000, 250),
])  # fmt: skip
def test_a_work_item_gets_enough_work_groups_and_not_too_many(work, groups, units, chunk):
    device = replace(CPU, compute_units=units)
    assert chunk_of(LaunchPlan("k", "vector", work=work), groups, device) == chunk
    assert chunk_of(LaunchPlan("k", "subgroup", work=work), groups, device) == 1


GUARDED = """
func @guarded(%x: memref<i64x?>) {
  %0 = group_id
  %1 = size %x[0] : memref<i64x?>
  %2 = cmp.lt %0, %1 : index
  if %2 { store 7, %x[%0] : memref<i64x?> }
}
"""


def test_more_work_groups_than_a_launch_takes():
    x = dpnp.zeros(4, dtype="int64")
    kernel = tl_dpnp.compile(GUARDED, form="subgroup")
    with pytest.raises(TLBindingError, match=r"268435456 work-groups of @guarded are too many(.|\n)*at most"):
        kernel(x, group_size=2**28)
    with pytest.raises(TLBindingError, match="must fit 64 bits"):
        kernel(x, group_size=2**63)
    tl_dpnp.compile(GUARDED, form="vector")(x, group_size=2**28)  # in few work-items
    assert x.asnumpy().tolist() == [7, 7, 7, 7]


# --- events ----------------------------------------------------------------------------------------------------------


def test_submitted_kernels_wait_for_what_they_depend_on():
    kernel = tl_dpnp.compile(COUNT)
    x = dpt.zeros(3000, dtype="int64")
    assert not x.sycl_queue.is_in_order
    event = None
    for step in range(500):
        event = kernel.submit(x, step, depends=[] if event is None else [event])
        assert isinstance(event, dpctl.SyclEvent)
    event.wait()
    assert set(dpt.to_numpy(x).tolist()) == {sum(range(500))}


LONG = """
func @long(%x: memref<i64x?>, %n: index) {
  %g = group_id
  for %i = 0, %n : index {
    %0 = load %x[%g] : memref<i64x?>
    %1 = arith.mul %0, 3 : i64
    %2 = arith.add %1, 1 : i64
    store %2, %x[%g] : memref<i64x?>
  }
}
"""


def test_submit_returns_before_the_kernel_is_done():
    kernel = tl_dpnp.compile(LONG)
    x = dpnp.zeros(1, dtype="int64")
    kernel.submit(x, 10).wait()
    event = kernel.submit(x, 300_000_000)  # some tenths of a second
    assert event.execution_status != dpctl.event_status_type.complete
    event.wait()
    assert event.execution_status == dpctl.event_status_type.complete


def test_arguments_live_until_the_kernel_is_done():
    """Memory that is freed too soon is taken by the next array, which the kernel would then overwrite."""
    kernel = tl_dpnp.compile(LONG)
    x = dpnp.zeros(256, dtype="int64")
    kernel(x, 1)
    for _ in range(5):
        event = kernel.submit(dpnp.zeros(256, dtype="int64"), 100_000)
        gc.collect()
        others = [dpnp.zeros(256, dtype="int64") for _ in range(20)]
        event.wait()
        assert all((other.asnumpy() == 0).all() for other in others)


@TARGETS
def test_depends_may_be_any_iterable_of_events(target):
    kernel = tl_dpnp.compile(COUNT, target=target)
    x = dpnp.zeros(4, dtype="int64")
    events = [kernel.submit(x[i : i + 1], 5) for i in range(4)]
    kernel.submit(x, 1, depends=iter(events)).wait()
    kernel.submit(x, 1, depends=(event for event in events), group_size=0).wait()
    assert x.asnumpy().tolist() == [6, 6, 6, 6]


@TARGETS
@pytest.mark.parametrize("thing", [None, 3, "event"])
def test_depends_takes_nothing_but_events(target, thing):
    """A call returns None, and `submit` an event."""
    kernel = tl_dpnp.compile(COUNT, target=target)
    name = type(thing).__name__
    with pytest.raises(TLTypeError, match=f"depends= takes events that submit returned, not a {name}"):
        kernel.submit(dpnp.zeros(4, dtype="int64"), 1, depends=[thing])


def test_masks_are_not_ignored():
    kernel, x = tl_dpnp.compile(COUNT, target="reference"), np.ma.masked_equal(np.arange(4), 2)
    with pytest.raises(TLTypeError, match=r"given a masked array, and kernels know no masks(.|\n)*array\.data"):
        kernel(x, 1)
    kernel(x.data, 1)
    assert x.data.tolist() == [1, 2, 3, 4]


# --- debug -----------------------------------------------------------------------------------------------------------


@FORMS
def test_bounds_are_checked_under_debug(form):
    source = "func @f(%x: memref<f32x?>, %i: index) {\n  %g = group_id\n  store 1.0, %x[%i] : memref<f32x?>\n}"
    kernel = tl_dpnp.compile(source, form=form, debug=True)
    x = dpnp.zeros(5, dtype="float32")
    kernel(x, 4)
    assert x.asnumpy().tolist() == [0, 0, 0, 0, 1]
    for index in (5, -1, 2**62):
        for call in (kernel, kernel.submit):
            with pytest.raises(TLBoundsError, match=rf"<string>:3:\d+: error: .*{index}, where the bound is 5 \(in "
                                                    r"work-group 0\)\n  3 \|   store 1.0, %x\[%i\]"):
                call(x, index)
    kernel(x, 0)
    assert x.asnumpy().tolist() == [1, 0, 0, 0, 1]


def test_the_failing_work_group_is_named():
    source = """func @f(%x: group<memref<f32x?>>) {
      %g = group_id
      %0 = load %x[%g] : group<memref<f32x?>>
      store 1.0, %0[6] : memref<f32x?>
    }"""
    kernel = tl_dpnp.compile(source, debug=True)
    x = [dpnp.zeros(6 if i == 23 else 7, dtype="float32") for i in range(40)]
    with pytest.raises(TLBoundsError, match=r"6, where the bound is 6 \(in work-group 23\)"):
        kernel(x)
    with pytest.raises(TLBoundsError, match=r"6, where the bound is 6 \(in work-group 23\)"):
        kernel(tl_dpnp.group(x))


# --- threads and many calls ------------------------------------------------------------------------------------------


def run_threads(count, work):
    errors = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


def test_eight_threads_call_a_thousand_times(monkeypatch):
    compilations = []

    def counting(*arguments):
        compilations.append(arguments)
        return compile_program(*arguments)

    monkeypatch.setattr("tl_dpnp.runtime.overloads.compile_program", counting)
    kernel = tl_dpnp.compile(COUNT, cache=False)
    arrays = [dpnp.zeros(10 + number, dtype="int64") for number in range(8)]
    barrier = threading.Barrier(8)

    def work(number):
        barrier.wait()  # the first calls race for the compilation
        for _ in range(1000):
            kernel(arrays[number], number)

    run_threads(8, work)
    for number, array in enumerate(arrays):
        assert set(array.asnumpy().tolist()) == {1000 * number}
    assert len(compilations) == 1


def test_threads_compile_different_kernels_at_once():
    results = dpnp.zeros(8, dtype="int64")

    def work(number):
        source = COUNT.replace("arith.add %0, %step", f"arith.add %0, {number + 1}")
        tl_dpnp.compile(source, cache=False)(results[number : number + 1], 0)

    run_threads(8, work)
    assert results.asnumpy().tolist() == list(range(1, 9))


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
def test_memory_stays_flat_over_a_hundred_thousand_calls():
    kernel = tl_dpnp.compile(COUNT)
    x = dpnp.zeros(4, dtype="int64")
    for _ in range(5_000):
        kernel(x, 1)
    before = resident_bytes()
    for _ in range(95_000):
        kernel(x, 1)
    assert resident_bytes() - before < 2 << 20
    assert x.asnumpy().tolist() == [100_000] * 4


def test_memory_stays_flat_when_arguments_change():
    kernel = tl_dpnp.compile(RAGGED)

    def calls(count):
        for _ in range(count):
            a = on_device(random(3, 3))
            kernel([a], [a], [dpnp.zeros((3, 3), dtype="float32", order="F")])
            kernel.submit([a], [a], tl_dpnp.group([dpnp.zeros((3, 3), dtype="float32", order="F")])).wait()

    calls(600)
    before = resident_bytes()
    calls(600)
    assert resident_bytes() - before < 4 << 20


def test_launches_are_forgotten_when_they_become_too_many():
    memo = CallMemo()
    for number in range(1000):
        memo.put(number, number, 3)
        assert memo.get(number) == number
    assert sum(memo.get(number) is not None for number in range(1000)) <= CallMemo.MOST_CALLS
    for number in range(5):
        memo.put(number, number, CallMemo.MOST_ARRAYS // 2)
        assert memo.get(number) == number
    assert [memo.get(number) for number in range(5)] == [None, None, None, 3, 4]


def test_a_kernel_follows_its_arguments_to_another_context():
    kernel = tl_dpnp.compile(AXPY)
    device = dpctl.select_default_device()
    for context in (dpctl.SyclContext([device]), dpctl.SyclContext([device])):
        queue = dpctl.SyclQueue(context, device)
        x, y = (dpt.ones(4, dtype="float32", sycl_queue=queue) for _ in range(2))
        kernel(2.0, x, y)
        assert dpt.to_numpy(y).tolist() == [3, 3, 3, 3]
    assert len(kernel.signatures) == 1


# --- inspection ------------------------------------------------------------------------------------------------------


def test_inspection_compiles_what_is_not_compiled_yet():
    kernel = tl_dpnp.compile(FUSED)
    assert kernel.signatures == []
    sources = kernel.inspect_source()
    assert kernel.signatures == list(sources)
    (signature,) = sources
    assert signature.parameters[1] == "group<memref<f32x16x8>>"
    assert signature.form == "vector"
    assert "gemm" in sources[signature]
    assert kernel.inspect_source(signature) == sources[signature]
    with pytest.raises(TLBindingError, match="has not been compiled for"):
        kernel.inspect_source(type(signature)((), "nothing", "vector"))


@FORMS
def test_all_stages_can_be_looked_at(form):
    kernel = tl_dpnp.compile(FUSED, form=form)
    (signature,) = kernel.inspect_source()
    assert kernel.inspect_spirv(signature)[:4] == b"\x03\x02\x23\x07"
    assert "define" in kernel.inspect_llvm(signature)
    assert "gemm" in kernel.inspect_schedule(signature) or "for" in kernel.inspect_schedule(signature)
    for stage in kernel.lower().stages:
        assert "func @fused" in kernel.inspect_ir(signature, stage=stage)
    assert "func @fused" in kernel.inspect_ir()[signature]
    with pytest.raises(TLError, match="there is no stage 'none'; there are "):
        kernel.inspect_ir(stage="none")


@pytest.mark.parametrize("level", ["2", None, 2.5, 0, 5])
def test_the_level_of_diagnostics_is_a_number(level):
    with pytest.raises(TLTypeError, match="the level is a number from 1 to 4"):
        tl_dpnp.compile("func @f(%a: memref<f32x4>) { }").diagnostics(level)


def test_diagnostics_say_more_with_each_level():
    kernel = tl_dpnp.compile(FUSED)
    reports = [kernel.diagnostics(level) for level in range(1, 5)]
    assert all(len(less) < len(more) for less, more in itertools.pairwise(reports))
    assert reports[0].startswith("@fused(f32, group<memref<f32x16x8>>")


def test_the_reference_target_has_no_code_to_look_at():
    kernel = tl_dpnp.compile(FUSED, target="reference")
    for look in (kernel.inspect_source, kernel.inspect_spirv, kernel.diagnostics, kernel.lower, kernel.recompile):
        with pytest.raises(UnsupportedError, match="reference"):
            look()
    assert kernel.signatures == []


def test_what_is_lowered_for_is_a_description_or_a_name():
    kernel = tl_dpnp.compile(AXPY)
    for use in (kernel.lower, kernel.schedules, lambda device: kernel.export("nowhere", device=device)):
        with pytest.raises(TLTypeError, match=r"one of tl_dpnp.devices\(\), or a name, not a SyclDevice"):
            use(dpctl.SyclDevice())


def test_kernels_lower_for_devices_that_are_not_there():
    from dataclasses import replace

    (device, *_) = tl_dpnp.devices()
    gpu = replace(device, name="another", is_cpu=False, subgroup_sizes=(16, 32), max_work_group_size=1024)
    kernel = tl_dpnp.compile(FUSED)
    assert kernel.lower(gpu).plan.form == "subgroup"
    assert kernel.lower(device).plan.form == "vector"
    assert kernel.signatures == []


def test_names():
    kernel = tl_dpnp.compile(AXPY)
    assert kernel.name == "axpy"
    assert [str(parameter) for parameter in kernel.parameters] == ["%alpha", "%x", "%y"]
    assert kernel.source_text == AXPY
    assert repr(kernel) == "<tl_dpnp.Kernel @axpy(%alpha: f32, %x: memref<f32x?>, %y: memref<f32x?>) for sycl>"


# --- pickling --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("duplicate", [lambda kernel: pickle.loads(pickle.dumps(kernel)), copy.copy, copy.deepcopy])
def test_kernels_pickle_as_source_and_options(duplicate):
    kernel = tl_dpnp.compile(COUNT, debug=True, form="subgroup")
    x = dpnp.zeros(3, dtype="int64")
    kernel(x, 1)
    twin = duplicate(kernel)
    assert twin.options == kernel.options
    assert twin.source_text == kernel.source_text
    twin(x, 10)
    assert x.asnumpy().tolist() == [11, 11, 11]


def test_modules_pickle():
    module = pickle.loads(pickle.dumps(tl_dpnp.compile(AXPY + COUNT)))
    x = dpnp.zeros(3, dtype="int64")
    module.count(x, 4)
    assert x.asnumpy().tolist() == [4, 4, 4]


def test_groups_do_not_pickle():
    with pytest.raises(TypeError):
        pickle.dumps(tl_dpnp.group([dpnp.zeros(3)]))


def _call_elsewhere(kernel, results):
    x = dpnp.zeros(3, dtype="int64")
    kernel(x, 6)
    results.put(x.asnumpy().tolist())


def test_kernels_cross_processes():
    context = multiprocessing.get_context("spawn")  # a fork would inherit a SYCL runtime that hangs
    results = context.Queue()
    process = context.Process(target=_call_elsewhere, args=(tl_dpnp.compile(COUNT), results))
    process.start()
    assert results.get(timeout=120) == [6, 6, 6]
    process.join(timeout=60)
    assert process.exitcode == 0


# --- compile ---------------------------------------------------------------------------------------------------------


def test_one_function_gives_a_kernel_and_several_a_module(tmp_path):
    assert isinstance(tl_dpnp.compile(AXPY), tl_dpnp.Kernel)
    module = tl_dpnp.compile(AXPY + COUNT)
    assert isinstance(module, tl_dpnp.Module)
    assert list(module) == ["axpy", "count"]
    assert len(module) == 2
    assert module["axpy"] is module.axpy
    assert "count" in module
    assert "nothing" not in module
    assert repr(module) == "<tl_dpnp.Module of @axpy, @count>"
    assert "count" in dir(module)
    with pytest.raises(KeyError, match="no function 'nothing'; it has axpy, count"):
        module["nothing"]
    with pytest.raises(AttributeError, match="no function 'nothing'; it has axpy, count"):
        module.nothing  # noqa: B018
    assert tl_dpnp.compile(AXPY + COUNT, name="count").name == "count"
    with pytest.raises(TLBindingError, match="no function 'nothing'; it has axpy, count"):
        tl_dpnp.compile(AXPY + COUNT, name="nothing")


def test_source_from_a_file(tmp_path):
    path = tmp_path / "kernel.tl"
    path.write_text(COUNT)
    x = dpnp.zeros(2, dtype="int64")
    tl_dpnp.compile(path)(x, 2)
    assert x.asnumpy().tolist() == [2, 2]
    with pytest.raises(TLTypeError, match="is the name of a file; compile"):
        tl_dpnp.compile(str(path))
    path.write_text(COUNT.replace("arith.add", "arith.plus"))
    with pytest.raises(TLSyntaxError, match=r"kernel\.tl:5:"):
        tl_dpnp.compile(path)
    path.write_bytes(b"func @f() { } ; \xff")
    with pytest.raises(TLSyntaxError, match="is not UTF-8 text: byte 16 is 0xff"):
        tl_dpnp.compile(path)
    with pytest.raises(FileNotFoundError):
        tl_dpnp.compile(pathlib.Path(tmp_path / "nothing"))


@pytest.mark.parametrize("name", ["kernel.tl", "folder/kernel.tl", "some kernel.tl", "kernel.txt"])
def test_the_name_of_a_file_that_is_not_there_is_no_program(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(tl_dpnp.TLTypeError) as error:
        tl_dpnp.compile(name)
    assert str(error.value) == (f"{name!r} is the name of a file; compile(pathlib.Path({name!r})) reads it, once it is "
                                f"there: {tmp_path} has no such")


def test_source_from_the_parser_and_the_builder():
    from tl_dpnp.language.builder import FunctionBuilder, memref
    from tl_dpnp.scalars import F32

    x, y = dpnp.ones(3, dtype="float32"), dpnp.ones(3, dtype="float32")
    tl_dpnp.compile(tl_dpnp.parse(AXPY))(1.0, x, y)
    tl_dpnp.compile(tl_dpnp.parse(AXPY).functions[0])(1.0, x, y)
    builder = FunctionBuilder("twice", x=memref(F32, None))
    builder.axpby(2.0, builder.x, 0.0, builder.x)
    kernel = tl_dpnp.compile(builder)
    kernel(y)
    assert y.asnumpy().tolist() == [6, 6, 6]
    assert "func @twice(%x: memref<f32x?>)" in kernel.source_text
    pickle.loads(pickle.dumps(kernel))(y)
    assert y.asnumpy().tolist() == [12, 12, 12]


@pytest.mark.parametrize(("options", "text"), [
    ({"target": "rocm"}, "target='rocm' is not understood: it takes 'auto', 'sycl', 'cuda', 'reference'"),
    ({"form": "wide"}, "form='wide' is not understood"),
    ({"debug": 1}, "debug=1 is not understood: it takes True or False"),
    ({"cache": "yes"}, "cache='yes' is not understood"),
    ({"target": "reference", "form": "vector"}, 'form= says how a device runs a kernel; with target="reference"'),
    ({"target": "reference", "queue": dpctl.SyclQueue}, "queue= takes a dpctl.SyclQueue, not a type"),
    ({"queue": "cpu"}, "queue= takes a dpctl.SyclQueue, not a str"),
])  # fmt: skip
def test_unfit_options_are_refused(options, text):
    with pytest.raises(TLTypeError, match=text):
        tl_dpnp.compile(AXPY, **options)


def test_the_reference_target_has_no_queue():
    with pytest.raises(TLTypeError, match='queue= says how a device runs a kernel; with target="reference"'):
        tl_dpnp.compile(AXPY, target="reference", queue=dpctl.SyclQueue())


def test_other_sources_are_refused():
    for source in (3, b"func @f() { }", None, [AXPY]):
        with pytest.raises(TLTypeError, match="compile takes source text, a path or what a builder gives, not a"):
            tl_dpnp.compile(source)


def test_settings_stand_in_for_options():
    with tl_dpnp.config.scope(TARGET="reference", DEBUG=True, FORM="subgroup"):
        kernel = tl_dpnp.compile(AXPY)
    assert (kernel.options.target, kernel.options.debug, kernel.options.form) == ("reference", True, "subgroup")
    with tl_dpnp.config.scope(TARGET="reference", DEBUG=True, FORM="subgroup"):
        kernel = tl_dpnp.compile(AXPY, target="sycl", debug=False, form="vector")
    assert (kernel.options.target, kernel.options.debug, kernel.options.form) == ("sycl", False, "vector")
