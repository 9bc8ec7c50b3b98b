"""Kernels for CUDA devices are chosen before any is compiled; here without a GPU, and without machine code."""

from __future__ import annotations

import random
from types import SimpleNamespace

import numpy as np
import pytest

import tl_dpnp
from tests.cuda.staged_programs import CASES
from tests.cuda.test_tiled import TRANSPOSES, source
from tl_dpnp.language.types import MemrefType
from tl_dpnp.lowering.device import H200
from tl_dpnp.lowering.product_plans import BlockPlan
from tl_dpnp.lowering.variants import FewBlocks, Variant
from tl_dpnp.runtime.call.arguments import BoundCall, MemrefArgument, ScalarArgument
from tl_dpnp.runtime.call.arrays import ArrayView
from tl_dpnp.runtime.compiler import CompiledKernel, lowered
from tl_dpnp.runtime.cuda import platform as cuda
from tl_dpnp.runtime.cuda.arrays import cuda_device
from tl_dpnp.runtime.cuda.platform import CudaPlatform
from tl_dpnp.runtime.cuda.tiles import misfit

FORMS = ("tiled", "blocked", "spread", "staged", "subgroup")


@pytest.fixture
def compilations(monkeypatch):
    """The kernels that are compiled, which is only lowering here; they are loaded and launched by name."""
    made = []

    def lowering_only(program, device, options, cache, refresh=False):
        made.append(options.form)
        return CompiledKernel(lowered(program, device, options).plan, b"", "", 0.0, False)

    monkeypatch.setattr("tl_dpnp.runtime.overloads.compile_program", lowering_only)
    monkeypatch.setattr(cuda, "describe", lambda ordinal: H200)
    monkeypatch.setattr(CudaPlatform, "load", lambda platform, compiled, *_: (compiled.plan.form, False))
    monkeypatch.setattr(CudaPlatform, "prepare", lambda platform, binding, call, queue, handle, plan, device:
                        SimpleNamespace(form=plan.form, handle=handle))
    return made


def bound(kernel, sizes, pads, displaced, groups):
    """Return a call with arrays of these sizes, by name, whose columns are so much further apart, and addresses."""
    arguments = []
    for parameter in kernel.parameters:
        if not isinstance(parameter.type, MemrefType):
            arguments.append(ScalarArgument())
            continue
        shape = (*sizes[parameter.name], groups)[: parameter.type.order]
        strides = [1]
        for number, size in enumerate(shape[:-1]):
            strides.append(strides[-1] * size + (pads[parameter.name] if number == 0 else 0))
        dtype = np.dtype({2: "uint16", 4: "float32", 8: "float64"}[parameter.type.element.bytes])
        address = 4096 + displaced[parameter.name]
        view = ArrayView(None, address, shape, tuple(strides), dtype, cuda_device(0), True)
        arguments.append(MemrefArgument(view, tuple(strides)))
    return BoundCall(tuple(arguments), cuda_device(0), groups)


def form_by_the_kernel(kernel, call):
    """Return the form that a call should take, by what the default kernel turns out to be."""
    plan = kernel.lower(H200).plan
    if plan.tiles is not None and misfit(plan.tiles, kernel._binding, call) is None:
        return plan.form
    try:
        other = tl_dpnp.compile(kernel.source_text, target="cuda", form="staged").lower(H200).plan.form
    except tl_dpnp.LoweringError:
        other = "subgroup"
    (m, n, *_), a = (call.arguments[place].shape for place in (-1, -3))
    k = a[0 if "gemm.t" in kernel.source_text else 1]
    if m * n * k >= 1 << (21 if other == "staged" else 18):
        return "blocked"
    if other == "staged":
        plan = tl_dpnp.compile(kernel.source_text, target="cuda", form="spread").lower(H200)
        blocks = 2 if "mma" in plan.source.splitlines()[0] else 1
        return "spread" if call.groups * plan.plan.parts <= 132 * blocks * plan.plan.teams else other
    return other


def draw_call(draw):
    """Return a product and a call of it: large and small, of arrays that tensor maps take and others."""
    transposes, batched = draw.choice(TRANSPOSES), draw.choice(("", "ABC", "AC"))
    m, n, k = (draw.choice((8, 16, 64, 72, 200, 512)) for _ in range(3))
    is_static = draw.random() < 0.5
    text = source("f16", "f32", transposes, batched=batched, sizes=(m, n, k) if is_static else (None,) * 3)
    kernel = tl_dpnp.compile(text, target="cuda", cache=False)
    sizes = {"A": (k, m) if transposes[0] == "t" else (m, k), "B": (n, k) if transposes[2] == "t" else (k, n),
             "C": (m, n)}
    pads = {name: 0 if is_static and not batched else draw.choice((0, 0, 0, 8, 3)) for name in sizes}
    displaced = {name: draw.choice((0, 0, 0, 16, 4)) for name in sizes}
    return kernel, bound(kernel, sizes, pads, displaced, draw.choice((1, 7, 5000)) if batched else 1)


def test_first_calls_compile_one_kernel(compilations):
    draw, forms = random.Random(11), []
    for _ in range(60):
        kernel, call = draw_call(draw)
        del compilations[:]
        launch = kernel.prepare(call, cuda_device(0))
        assert len(compilations) == 1
        assert launch.form == launch.handle == form_by_the_kernel(kernel, call)
        assert [signature.form for signature in kernel.signatures] == [launch.form]
        kernel.prepare(call, cuda_device(0))
        assert len(compilations) == 1
        forms.append(launch.form)
    assert {form: forms.count(form) >= 5 for form in FORMS} == dict.fromkeys(FORMS, True)


def test_another_variant_is_compiled_when_a_call_needs_it(compilations):
    kernel = tl_dpnp.compile(source("f16", "f32"), target="cuda", cache=False)
    none = dict.fromkeys("ABC", 0)

    def form(size, displaced=none):
        sizes = dict.fromkeys("ABC", (size, size))
        return kernel.prepare(bound(kernel, sizes, none, displaced, 1), cuda_device(0)).form

    assert [form(8), form(16)] == ["subgroup"] * 2
    assert compilations == ["subgroup"]
    assert [form(512), form(512, {**none, "A": 4}), form(512)] == ["tiled", "blocked", "tiled"]
    assert compilations == ["subgroup", None, "blocked"]


@pytest.mark.parametrize(("element", "sizes", "form"), [
    ("bf16", (107, 170, 104), "packed"), ("bf16", (202, 198, 219), "blocked"), ("bf16", (66, 68, 67), "staged"),
    ("f32", (89, 102, 78), "staged"),
])
def test_elements_of_16_bits_are_not_multiplied_in_registers_where_products_are_large(
    compilations, element, sizes, form
):
    """Register tiles make each of them f32 for each term; small ones run on tensor cores in the staged form, too."""
    m, n, k = sizes
    program = source(element, element, "n.t", sizes=sizes, batched="ABC")
    kernel = tl_dpnp.compile(program, target="cuda", cache=False)
    none = dict.fromkeys("ABC", 0)
    call = bound(kernel, {"A": (m, k), "B": (n, k), "C": (m, n)}, none, none, 400)
    assert kernel.prepare(call, cuda_device(0)).form == form
    mapping = tl_dpnp.compile(program, target="cuda", form=form, cache=False).lower(H200).mapping
    assert ("in registers" in mapping) == (element == "f32")


@pytest.mark.parametrize("name", ["what tensor maps take", "an address", "a stride", "the end of columns"])
def test_a_form_that_was_asked_for_is_compiled_for_calls_that_it_takes(compilations, name):
    kernel = tl_dpnp.compile(source("f16", "f32", batched="ABC"), target="cuda", form="tiled", cache=False)
    none = dict.fromkeys("ABC", 0)
    pads, displaced = {**none, "A": 3 * (name == "a stride")}, {**none, "B": 4 * (name == "an address")}
    sizes = dict.fromkeys("ABC", (64, 64))
    if name == "the end of columns":  # copies of results would store zeros behind them
        sizes, pads = {**sizes, "A": (63, 64), "C": (63, 64)}, {"A": 1, "B": 0, "C": 1}
    call = bound(kernel, sizes, pads, displaced, 2)
    if name == "what tensor maps take":
        assert kernel.prepare(call, cuda_device(0)).form == "tiled"
        assert compilations == ["tiled"]
        return
    refusal = r"the form that was asked for cannot run @product: .* of 16 bytes"
    with pytest.raises(tl_dpnp.TLBindingError, match=refusal):
        kernel.prepare(call, cuda_device(0))
    assert compilations == []


def test_other_programs_have_one_variant_for_many_groups():
    for case in CASES.values():
        kernel = tl_dpnp.compile(case.source, target="cuda", precision=case.precision, cache=False)
        *others, last = kernel._overloads.variants(H200)
        assert last == Variant(None)
        shared = [other for other in others if isinstance(other.condition, BlockPlan)]
        assert all(other.condition.is_for_few for other in shared)
        assert not shared or "f64" in case.name
        assert [type(other.condition) for other in others[len(shared) :]] == [FewBlocks] * (len(others) > len(shared))


@pytest.mark.parametrize(("element", "size", "groups", "form"), [
    ("f64", 32, 1, "blocked"), ("f64", 32, 132, "blocked"), ("f64", 32, 300, "staged"), ("f64", 12, 1, "spread"),
    ("f32", 32, 1, "spread"), ("f64", 100, 1000, "blocked"),
])
def test_few_products_of_f64_are_shared_out(compilations, element, size, groups, form):
    """No more than there are multiprocessors; a kernel that is made before there is a call is for many."""
    kernel = tl_dpnp.compile(source(element, element, "n.t", sizes=(size,) * 3, batched="ABC"), target="cuda",
                             cache=False)
    none = dict.fromkeys("ABC", 0)
    call = bound(kernel, dict.fromkeys("ABC", (size, size)), none, none, groups)
    assert kernel.prepare(call, cuda_device(0)).form == form
    assert kernel.lower(H200).plan.form == ("blocked" if size == 100 else "staged")
