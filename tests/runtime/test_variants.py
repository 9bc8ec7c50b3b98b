"""A call's kernel is chosen before anything is compiled: one first call is one compilation."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from dataclasses import replace

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.differential.device import disagreements
from tests.lowering.support import CPU
from tests.runtime.support import AXPY, COUNT
from tests.runtime.test_divided import source
from tests.strategies.programs import random_program
from tl_dpnp import config
from tl_dpnp.language import parse
from tl_dpnp.lowering import LoweringOptions, find_variants, lower, space
from tl_dpnp.lowering.canonicalize import canonicalize
from tl_dpnp.lowering.device import H200
from tl_dpnp.lowering.mappings.divided import divide
from tl_dpnp.lowering.variants import FewGroups, Variant, only_variant, variants_from_json, variants_to_json
from tl_dpnp.runtime.call.program import Program
from tl_dpnp.runtime.compiler import compile_program
from tl_dpnp.runtime.sycl import platform as sycl_platform
from tl_dpnp.runtime.sycl.platform import SyclPlatform
from tl_dpnp.runtime.tune import tuning

#: One large product of sizes that are known at the call only.
DYNAMIC = """
func @product(%a: memref<f32x?x?>, %b: memref<f32x?x?>, %c: memref<f32x?x?>) {
  gemm.n.n 1.0, %a, %b, 0.0, %c : f32, memref<f32x?x?>, memref<f32x?x?>, f32, memref<f32x?x?>
}"""


@pytest.fixture
def compilations(monkeypatch):
    """The forms that the compiler is asked for."""
    asked = []

    def counting(program, device, options, *others):
        asked.append(options.form)
        return compile_program(program, device, options, *others)

    monkeypatch.setattr("tl_dpnp.runtime.overloads.compile_program", counting)
    return asked


@pytest.fixture
def device(monkeypatch):
    """Return a function that sets the number of cores that the device is described with."""
    describe = sycl_platform.describe

    def with_cores(count):
        monkeypatch.setattr(sycl_platform, "describe", lambda device: replace(describe(device), compute_units=count))

    return with_cores


def call(kernel, m, n, k, groups):
    """Call a kernel of `source` and check its result."""
    generator = np.random.default_rng(m * n + k)
    a, b = (generator.integers(-4, 5, (groups, *shape)).astype("f4") for shape in ((k, m), (n, k)))
    c = dpnp.full((groups, n, m), float("nan"), dtype="f4")
    kernel(1, [tl_dpnp.rev(dpnp.asarray(x)) for x in a], tl_dpnp.rev(dpnp.asarray(b)), tl_dpnp.rev(c))
    np.testing.assert_array_equal(c.asnumpy(), b @ a)


def form_by_the_kernel(kernel, groups):
    """Return the form that a call should take, by what the kernel of most calls turns out to be."""
    device = kernel._overloads.current_device()
    lowered = kernel.lower(device)
    divides = (not kernel.options.debug and kernel.options.form is None and lowered.plan.form == "vector"
               and divide(canonicalize(kernel._program.function), device) is not None)
    few = 0 < groups < 4 * device.compute_units
    return "divided" if divides and few and lowered.plan.work >= 30_000 else lowered.plan.form


@pytest.mark.parametrize("seed", range(12))
def test_a_first_call_compiles_one_kernel(seed, compilations, device):
    draw = random.Random(seed)
    device(draw.choice((1, 2, 5)))
    m, n, k = (draw.choice((8, 30, 64, 96, 128, 160)) for _ in range(3))
    groups, options = draw.choice((1, 3, 4, 7, 8, 21)), {}
    if draw.random() < 0.3:
        options = draw.choice(({"debug": True}, {"form": "subgroup"}, {"form": "vector"}))
    kernel = tl_dpnp.compile(source(m, n, k), cache=False, **options)
    call(kernel, m, n, k, groups)
    assert len(compilations) == 1
    assert [signature.form for signature in kernel.signatures] == [form_by_the_kernel(kernel, groups)]


def test_both_choices_are_among_those():
    """Else the test above would not say much."""
    kernel = tl_dpnp.compile(source(128, 128, 96), cache=False)
    assert {form_by_the_kernel(kernel, groups) for groups in (1, 1000)} == {"divided", "vector"}


@pytest.mark.parametrize("seed", range(4))
def test_random_programs_are_compiled_once(seed, compilations):
    assert not disagreements(random_program(seed), (None, None, None))
    assert compilations == [None]


def test_another_variant_is_compiled_when_a_call_needs_it(compilations, device):
    device(2)
    kernel = tl_dpnp.compile(source(128, 128, 96), cache=False)
    for groups, expected in ((1, ["divided"]), (3, ["divided"]), (40, ["divided", None]), (2, ["divided", None])):
        call(kernel, 128, 128, 96, groups)
        assert compilations == expected
    assert {signature.form for signature in kernel.signatures} == {"divided", "vector"}
    assert kernel.diagnostics().count("where there are few work-groups, several work-items share each") == 1
    kernel.recompile()
    assert compilations == ["divided", None] * 2
    call(kernel, 128, 128, 96, 1)
    assert compilations == ["divided", None] * 2


@pytest.mark.parametrize(("specialize", "forms"), [(False, [None]), (True, ["divided", None])])
def test_sizes_of_the_call_compile_one_kernel_or_one_each(compilations, specialize, forms):
    with config.scope(SPECIALIZE=specialize):
        kernel = tl_dpnp.compile(DYNAMIC, cache=False)
    for size in (256, 3, 256):
        a, b, c = (dpnp.ones((size, size), dtype="f4", order="F") for _ in range(3))
        kernel(a, b, c, group_size=1)
        assert (c == size).all()
    assert compilations == forms


def test_a_first_call_from_the_cache_loads_one_kernel_and_no_compiler(tmp_path):
    code = f"""
import dpnp, sys, tl_dpnp
kernel = tl_dpnp.compile({source(128, 128, 96)!r})
a, b, c = (dpnp.ones((1, *shape), dtype="f4") for shape in ((96, 128), (128, 96), (128, 128)))
kernel(1, [tl_dpnp.rev(a[0])], tl_dpnp.rev(b), tl_dpnp.rev(c))
assert (c == 96).all()
(signature,) = kernel.signatures
print(signature.form, kernel.stats.cache_hits, kernel.stats.cache_misses, kernel.stats.driver_builds,
      *[name for name in ("numba", "llvmlite", "tl_dpnp.lowering.pipeline") if name in sys.modules])
"""
    root = os.path.dirname(os.path.dirname(tl_dpnp.__file__))
    environment = {**os.environ, "PYTHONPATH": root, "TL_DPNP_CACHE_DIR": str(tmp_path)}
    outputs = [subprocess.run([sys.executable, "-c", code], env=environment, text=True, capture_output=True,
                              timeout=120, check=True).stdout.split() for _ in range(2)]
    assert outputs[0][:4] == ["divided", "0", "1", "1"]
    assert outputs[1] == ["divided", "1", "0", "0"]


@pytest.mark.parametrize("damage", ["cut", "other facts"])
def test_damaged_variants_are_found_again(tmp_path, damage, monkeypatch):
    monkeypatch.setenv("TL_DPNP_CACHE_DIR", str(tmp_path / "cache"))
    text = source(64, 96, 80)
    call(tl_dpnp.compile(text), 64, 96, 80, 1)
    (entry,) = (path for path in (tmp_path / "cache").glob("*.json") if "FewGroups" in path.read_text())
    if damage == "cut":
        entry.write_text(entry.read_text()[:40])
    else:
        tl_dpnp.runtime.store.cache.open_cache().store(
            entry.stem, tl_dpnp.runtime.store.cache.Entry({"variants": [{"form": None, "condition": {"Moon": {}}}]}))
    kernel = tl_dpnp.compile(text)
    with pytest.warns(tl_dpnp.CacheWarning, match="is ignored"):
        call(kernel, 64, 96, 80, 1)
    again = tl_dpnp.compile(text)
    call(again, 64, 96, 80, 1)
    assert kernel.signatures == again.signatures


def test_a_queue_compiles_at_once_what_most_calls_take(compilations):
    queue = dpnp.ones(1).sycl_queue
    kernel = tl_dpnp.compile(source(128, 128, 96), queue=queue, cache=False)
    assert compilations == [None]
    assert [signature.form for signature in kernel.signatures] == ["vector"]
    call(kernel, 128, 128, 96, 1)
    assert compilations == [None, "divided"]


def test_tuning_leaves_the_kernel_of_the_call(compilations, monkeypatch, tmp_path):
    monkeypatch.setenv("TL_DPNP_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(space, "_MOST_SHAPES", 1)
    monkeypatch.setattr(space, "_UNROLLINGS", (2,))
    monkeypatch.setattr(tuning.Workbench, "sample", lambda workbench, choice: (workbench._run(choice), 1.0)[1])
    kernel = tl_dpnp.compile(source(128, 128, 96))
    a, b, c = (dpnp.ones((1, *shape), dtype="f4") for shape in ((96, 128), (128, 96), (128, 128)))
    report = kernel.tune(1, [tl_dpnp.rev(a[0])], tl_dpnp.rev(b), tl_dpnp.rev(c), budget=600)
    assert report.best is report.tried[0]
    assert report.best.form == "divided"
    assert {tried.form for tried in report.tried[1:]} == {"vector"}  # what has schedules is not divided
    assert [signature.form for signature in kernel.signatures] == ["divided"]
    call(kernel, 128, 128, 96, 1)
    assert compilations == []


# --- what is declared -------------------------------------------------------------------------------------------------


def test_variants_know_what_the_kernel_will_be():
    """The work of a work-group is that in the plan of the kernel that is compiled later."""
    draw = random.Random(7)
    for _ in range(20):
        m, n, k = (draw.randint(1, 200) for _ in range(3))
        function = parse(source(m, n, k)).functions[0]
        first, *others = find_variants(function, CPU, LoweringOptions())
        if divide(canonicalize(function), CPU) is None:
            assert (first, others) == (Variant(None), [])
        else:
            plan = lower(function, CPU, LoweringOptions()).plan
            assert (first, others) == (Variant("divided", FewGroups(plan.work)), [Variant(None)])
            assert lower(function, CPU, LoweringOptions(form=first.form)).plan.form == "divided"


def has_product(function):
    return Program(function).usage.has_matrix_product


@pytest.mark.parametrize("target", [CPU, H200], ids=["CPU", "H200"])
def test_options_that_leave_no_choice_leave_one_variant(target):
    functions = [parse(source(128, 128, 96)).functions[0], *(random_program(seed).function for seed in range(4))]
    schedule = lower(functions[0], target, LoweringOptions(debug=True)).schedules[0].to_json()
    given = [LoweringOptions(debug=True), LoweringOptions(form="subgroup"), LoweringOptions(form="divided"),
             LoweringOptions(form="vector"),
             LoweringOptions(schedules=(("gemm_0", schedule),))]
    for options in given:
        for function in functions if not options.schedules else functions[:1]:
            assert only_variant(has_product(function), options) == Variant(None)
            try:
                assert find_variants(function, target, options) == (Variant(None),)
            except tl_dpnp.LoweringError:  # the form is not possible, which compiling will say
                assert options.form in ("divided", "vector")
    for function in functions:
        if only_variant(has_product(function), LoweringOptions()) is not None:
            assert find_variants(function, target, LoweringOptions()) == (Variant(None),)


def test_other_programs_than_products_have_one_variant():
    product = parse(source(128, 128, 96)).functions[0]
    assert only_variant(has_product(product), LoweringOptions()) is None
    for text in (AXPY, COUNT):
        function = parse(text).functions[0]
        assert only_variant(has_product(function), LoweringOptions()) == Variant(None)
        assert find_variants(function, CPU, LoweringOptions()) == (Variant(None),)


def test_variants_survive_json():
    large = """func @product(%a: memref<f16x?x?>, %b: memref<f16x?x?>, %c: memref<f32x?x?>) {
      gemm.n.n 1.0, %a, %b, 0.0, %c : f32, memref<f16x?x?>, memref<f16x?x?>, f32, memref<f32x?x?>
    }"""
    for text, target in ((source(128, 128, 96), CPU), (large, H200), (large, CPU)):
        variants = find_variants(parse(text).functions[0], target, LoweringOptions())
        # On the GPU: tiles by tensor maps, tiles of what they do not take, and small products.
        assert len(variants) == (3 if target is H200 else 1 if text == large else 2)
        assert variants_from_json(json.loads(json.dumps(variants_to_json(variants)))) == variants
    with pytest.raises(ValueError, match="no condition of a variant"):
        variants_from_json([{"form": None, "condition": {"Moon": {}}}])


def test_calls_that_share_work_groups():
    """Few work-groups for the cores, each with the work of a work-item or more."""
    def shares(work, groups, cores):
        bound = tl_dpnp.runtime.call.arguments.BoundCall((), None, groups)
        return SyclPlatform().misfit(FewGroups(work), None, bound, replace(CPU, compute_units=cores)) is None

    assert [shares(1 << 20, groups, 2) for groups in (0, 1, 7, 8, 100)] == [False, True, True, False, False]
    assert [shares(work, 1, 2) for work in (29_999, 30_000)] == [False, True]
