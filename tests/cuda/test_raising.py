"""Products that are written tile by tile, in the forms of gemm: what calls take, and on a GPU that it is right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tl_dpnp
from tests.cuda.test_variants import bound, compilations  # noqa: F401
from tests.strategies.tiled_products import MISTAKES, TiledProduct
from tl_dpnp.language import parse
from tl_dpnp.lowering.device import H200
from tl_dpnp.lowering.raising.cover import Cover
from tl_dpnp.lowering.variants import variants_from_json, variants_to_json
from tl_dpnp.runtime.call.arguments import ScalarArgument
from tl_dpnp.runtime.cuda.arrays import cuda_device
from tl_dpnp.runtime.cuda.driver_adapter import device_count

on_device = pytest.mark.skipif(device_count() == 0, reason="there is no CUDA device")
#: Tiles that tensor cores take, in products of up to 384 rows and columns.
SIDES = {"unit": 16, "most": 6}
NONE = dict.fromkeys("ABC", 0)
#: Types of factors, sums and results for programs that are not the product.
TYPES = (("bf16", "f32", "f32"), ("f64", "f64", "f64"))


def kernel_of(product, **options):
    return tl_dpnp.compile(product.source, target="cuda", precision="default" if product.factor == "f32" else None,
                           cache=False, **options)


def call_of(product, kernel, groups=None, displaced=None):
    """Return the kernel that runs a call, and the call."""
    x, y, z = product.groups if groups is None else groups
    sizes = dict(zip("ABC", (shape[:2] for shape in product.shapes), strict=True))
    places = {name: (place << 24) + (displaced or NONE).get(name, 0) for place, name in enumerate("ABC")}
    call = bound(kernel, sizes, NONE, places, x * y * z)
    call = replace(call, arguments=tuple(_with_batch(argument, product.batch) for argument in call.arguments))
    if kernel._has_axes:
        more = tuple(ScalarArgument() for _ in range(3))
        call = replace(call, arguments=(*call.arguments, *more), height=y, depth=z)
    return call


def _with_batch(argument, batch):
    """Return an argument with so many matrices, where `bound` has one for each work-group."""
    if len(argument.shape) < 3:
        return argument
    return replace(argument, view=argument.view._replace(shape=(*argument.shape[:2], batch)))


def form_of(product, kernel=None, **options):
    kernel = kernel or kernel_of(product)
    return kernel.prepare(call_of(product, kernel, **options), cuda_device(0)).form


def is_large(product):
    m, n, k = product.sizes
    return m * n * k >= 1 << 18


def takes_maps(product):
    """Whether tensor maps take dense arrays of a product."""
    return product.factor != "f64" and all(
        shape[0] * {"f32": 4}.get(type, 2) % 16 == 0
        for shape, type in zip(product.shapes, (product.factor, product.factor, product.result), strict=True))


@pytest.mark.usefixtures("compilations")
def test_calls_that_are_the_product_take_its_forms():
    seen = []
    for seed in range(60):
        product = TiledProduct(seed, **SIDES)
        expected = "subgroup" if not is_large(product) else "tiled" if takes_maps(product) else "blocked"
        assert form_of(product) == expected, (seed, product.sizes)
        seen.append(expected)
    assert all(seen.count(form) >= 5 for form in ("subgroup", "tiled", "blocked"))


@pytest.mark.usefixtures("compilations")
@pytest.mark.parametrize("mistake", MISTAKES)
def test_programs_with_mistakes_run_as_they_are_written(mistake):
    """Whether a mistake is one is asked of the interpreter in `tests/lowering/test_raising.py`."""
    product = next(each for each in (TiledProduct(seed, mistake=mistake, **SIDES) for seed in range(100_000))
                   if is_large(each) and each.loop == "plain" and each.sums == "of C" and each.launch == "numbered")
    kernel = kernel_of(product)
    assert form_of(product, kernel) == "subgroup"
    (reason,) = kernel._overloads.program.cover.refused
    assert f"  a call was not one gemm: {reason}" in kernel.diagnostics().splitlines()


def large(**facts):
    """Return a large product in bf16 with C = A B, each side a multiple of its tiles."""
    return next(product for product in (TiledProduct(seed, types=(("bf16", "f32", "f32"),), **SIDES)
                                        for seed in range(100_000))
                if is_large(product) and takes_maps(product) and product.is_checked and product.sums == "zero"
                and all(getattr(product, name) == value for name, value in facts.items()))


@pytest.mark.usefixtures("compilations")
def test_each_call_is_looked_at():
    product = large(launch="numbered", batch=0, has_views=False)
    x, y, z = product.groups
    kernel = kernel_of(product)
    forms = [form_of(product, kernel, groups=(groups, y, z)) for groups in (x - 2, x, x + 3, 1)]
    assert forms == ["subgroup", "tiled", "tiled", "subgroup"]
    assert form_of(product, kernel, displaced={"A": 4}) == "blocked"
    assert {signature.form for signature in kernel.signatures} == {"subgroup", "tiled", "blocked"}
    assert kernel.stats.raised == 2


@pytest.mark.usefixtures("compilations")
def test_a_result_in_the_memory_of_a_factor_is_computed_as_it_is_written():
    product = large(launch="numbered", is_turned=False)
    kernel = kernel_of(product)
    call = call_of(product, kernel)
    a, b, c, *rest = call.arguments
    over_a = replace(c, view=c.view._replace(address=a.view.address))
    assert kernel.prepare(replace(call, arguments=(a, b, over_a, *rest)), cuda_device(0)).form == "subgroup"
    assert kernel.prepare(call, cuda_device(0)).form == "tiled"


def test_variants_survive_json_and_source_says_what_it_is():
    product = large()
    kernel = kernel_of(product)
    found = kernel._overloads.variants(H200)
    assert [variant.form for variant in found] == ["tiled", "blocked", None]
    assert [variant.is_raised for variant in found] == [True, True, False]
    assert variants_from_json(variants_to_json(found)) == found
    assert "each once, run as that in the tiled or blocked form" in kernel.diagnostics(2)
    tiled = kernel_of(product, form="tiled")
    (source,) = tiled.inspect_source().values()
    assert source.startswith("# tiled form of the gemm that all tiles are, by m64n256k16_bf16_bf16_f32")
    (stages,) = tiled.inspect_ir().values()
    assert "gemm" in stages
    assert "coopmatrix" not in stages


@pytest.mark.parametrize("options", [{"form": "subgroup"}, {"debug": True}])
def test_options_ask_for_the_program_as_it_is_written(options):
    kernel = kernel_of(large(), **options)
    assert [(variant.form, variant.condition) for variant in kernel._overloads.variants(H200)] == [(None, None)]


@pytest.mark.usefixtures("compilations")
def test_a_form_that_was_asked_for_refuses_what_is_not_the_product():
    product = large(launch="numbered", batch=0, has_views=False)
    kernel = kernel_of(product, form="tiled")
    assert form_of(product, kernel) == "tiled"
    with pytest.raises(tl_dpnp.TLBindingError, match="some elements of the result are not stored"):
        form_of(product, kernel, groups=(1, 1, 1))


def is_wrong(product):
    """Whether a program is not the product: some have no place for a mistake, such as those that read nothing of C."""
    (function,) = parse(product.source)
    return Cover(function).misfit([*product.shapes, ()], product.groups) is not None


# --- on a device -----------------------------------------------------------------------------------------------------


def on_gpu(product):
    import torch

    types = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}
    return [torch.from_numpy(np.ascontiguousarray(values.T)).to("cuda", types[type]).permute(*range(values.ndim)[::-1])
            for values, type in zip(product.numbers(), (product.factor, product.factor, product.result), strict=True)]


def results(product, **options):
    """Return C after a call, and the forms of the kernels that there are then."""
    kernel, (a, b, c) = kernel_of(product, **options), on_gpu(product)
    for _ in range(3):  # later calls are remembered
        c.copy_(on_gpu(product)[2])
        kernel(a, b, c, product.alpha, group_size=product.groups)
    return c, {signature.form for signature in kernel.signatures}


@on_device
@pytest.mark.parametrize("seed", range(24))
def test_products_are_right(seed):
    import torch

    product = TiledProduct(seed, **SIDES)
    c, forms = results(product)
    assert forms <= {"tiled", "blocked"} if is_large(product) else forms == {"subgroup"}
    assert torch.equal(c, torch.from_numpy(product.expected()).to(c))


@on_device
@pytest.mark.parametrize("mistake", MISTAKES)
def test_programs_with_mistakes_do_what_they_say(mistake):
    import torch

    # Others would access what is outside of the matrices.
    product = next(product for product in (TiledProduct(seed, mistake=mistake, types=TYPES, **SIDES)
                                           for seed in range(100))
                   if product.is_checked and is_large(product) and is_wrong(product))
    (found, forms), (own, _) = results(product), results(product, form="subgroup")
    assert forms == {"subgroup"}
    if mistake not in ("overlapping rows", "stored twice"):  # which are races
        assert torch.equal(found, own)
