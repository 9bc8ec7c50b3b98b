"""Chains of products in the staged form, without a GPU: which run so, how, and where their matrices are."""

from __future__ import annotations

import pytest

import tl_dpnp
from tests.cuda.drawn_products import drawn_axes, drawn_chain, drawn_sandwich
from tests.cuda.staged_programs import CASES, volume
from tests.cuda.test_offline import only
from tl_dpnp.kernels.register_product import RegisterProduct
from tl_dpnp.language.parser import parse
from tl_dpnp.language.verifier import verify
from tl_dpnp.lowering.analysis import Analysis, analyse
from tl_dpnp.lowering.device import H200, LoweringOptions
from tl_dpnp.lowering.mappings.persistent.problems import chain_of
from tl_dpnp.lowering.mappings.persistent.staging import Persistent, find_staging


def analysed(source: str) -> Analysis:
    module = parse(source)
    verify(module)
    return analyse(module.functions[0], H200, LoweringOptions())


def staging_of(source: str) -> Persistent:
    found = analysed(source)
    staging = find_staging(found.function, H200, found.temporaries)
    assert staging is not None
    return staging


@pytest.mark.parametrize("drawn", [drawn_chain, drawn_sandwich, drawn_axes], ids=lambda drawn: drawn.__name__)
@pytest.mark.parametrize("seed", range(6))
def test_tiles_of_every_product_cover_its_result(drawn, seed):
    staging = staging_of(drawn(seed).source)
    assert staging.local_memory <= H200.local_memory
    threads = staging.layout.lanes * staging.layout.columns
    for product in staging.products:
        if not isinstance(product, RegisterProduct):
            continue
        height, width = product.tile
        assert product.down * height >= product.m
        assert product.across * width >= product.n
        assert product.threads <= threads
        assert product.is_partial == (product.threads < threads)
        assert product.in_line == (len(staging.products) > 1)


AXES = """func @axes(%U: memref<f32x8x8x8x?>, %D: memref<f32x8x8>, %V: memref<f32x8x8x8x?>, %n: index) {{
  %g = group_id
  %u = subview %U[:,:,:,%g] : memref<f32x8x8x8x?>
  %v = subview %V[:,:,:,%g] : memref<f32x8x8x8x?>
  %t = alloca -> memref<f32x8x8x8>
  %t0 = fuse %t[1,2] : memref<f32x8x8x8>
  %u0 = fuse %u[1,2] : memref<f32x8x8x8>
  gemm.n.n 1.0, %D, %u0, 0.0, %t0 : f32, memref<f32x8x8>, memref<f32x8x64>, f32, memref<f32x8x64>
  for %k = {bounds} {{
    %a = subview %t[:,:,%k] : memref<f32x8x8x8>
    %b = subview %v[:,:,%k] : memref<f32x8x8x8>
    gemm.n.t 1.0, %a, %D, 0.0, %b : f32, memref<f32x8x8>, memref<f32x8x8>, f32, memref<f32x8x8>
  }}
}}"""


@pytest.mark.parametrize(("bounds", "form"), [("0, 8", "staged"), ("1, 8, 3", "staged"), ("0, %n", "subgroup"),
                                             ("5, 5", "subgroup")])
def test_loops_over_slices_run_staged_where_all_work_groups_run_them_equally_often(bounds, form):
    kernel = tl_dpnp.compile(AXES.format(bounds=bounds), target="cuda", cache=False)
    assert kernel.lower(H200).plan.form == form
    assert only(kernel.resources()).stack == 0


def test_loops_count_as_often_as_they_run():
    staging = staging_of(AXES.format(bounds="1, 8, 3"))
    found = analysed(AXES.format(bounds="1, 8, 3"))
    chain = chain_of(found.function, staging.operands, staging.residents, staging.temporaries)
    assert chain is not None
    assert chain.times == (1, 3)
    first, second = chain.problems
    assert (first.sizes, second.sizes) == ((8, 64, 8), (8, 8, 8))
    # A slice begins at a multiple of 64 elements, so that four are loaded together.
    assert second.alignments == (16, 16, 16)
    assert (4, 1, (1, 1)) in second.chunks()


def test_views_that_begin_anywhere_are_read_one_by_one():
    source = """func @views(%A: memref<f32x9x9x?>, %D: memref<f32x9x9>, %C: memref<f32x8x9x?>) {
      %g = group_id
      %a = subview %A[:,:,%g] : memref<f32x9x9x?>
      %c = subview %C[:,:,%g] : memref<f32x8x9x?>
      %t = alloca -> memref<f32x12x9>
      %s = subview %t[1:9,:] : memref<f32x12x9>
      %r = subview %t[4:8,:] : memref<f32x12x9>
      gemm.n.n 1.0, %a, %D, 0.0, %s : f32, memref<f32x9x9>, memref<f32x9x9>, f32, memref<f32x9x9,strided<1,12>>
      gemm.n.n 1.0, %r, %D, 0.0, %c : f32, memref<f32x8x9,strided<1,12>>, memref<f32x9x9>, f32, memref<f32x8x9>
    }"""
    staging = staging_of(source)
    found = analysed(source)
    chain = chain_of(found.function, staging.operands, staging.residents, staging.temporaries)
    assert chain is not None
    assert chain.problems[0].alignments[2] == 4
    assert chain.problems[1].alignments[0] == 16


def test_results_that_views_cover_are_not_read():
    """What is written as a whole through a view of all of it need not be brought before; a slice of it must be."""
    whole = AXES.format(bounds="0, 0").replace("%t0 :", "%v0 :").replace(
        "%u0 = fuse", "%v0 = fuse %v[1,2] : memref<f32x8x8x8>\n  %u0 = fuse").replace(", %t0", ", %v0")
    for source, is_read in ((whole.partition("  for")[0] + "}", False), (AXES.format(bounds="0, 8"), True)):
        operands = {operand.parameter: operand for operand in staging_of(source).operands}
        assert operands["V"].is_written
        assert operands["V"].is_read == is_read


@pytest.mark.parametrize(("name", "way"), [
    ("chain", "in registers"), ("volume_56x9_f64", "m16n8k8_f64"), ("large_chain", "m16n8k8_f64"),
])
def test_the_way_of_chains(name, way):
    assert way in only(tl_dpnp.compile(CASES[name].source, target="cuda", cache=False).inspect_source()).splitlines()[0]


@pytest.mark.parametrize("size", [12, 24])
def test_chains_of_f64_are_on_tensor_cores_where_their_products_are_large(size):
    matrix = f"memref<f64x{size}x{size}>"
    source = f"""func @three(%A: {matrix[:-1]}x?>, %B: {matrix}, %D: {matrix[:-1]}x?>) {{
      %g = group_id
      %a = subview %A[:,:,%g] : {matrix[:-1]}x?>
      %d = subview %D[:,:,%g] : {matrix[:-1]}x?>
      %t = alloca -> {matrix}
      gemm.n.n 1.0, %a, %B, 0.0, %t : f64, {matrix}, {matrix}, f64, {matrix}
      gemm.n.n 1.0, %t, %B, 0.0, %d : f64, {matrix}, {matrix}, f64, {matrix}
    }}"""
    head = only(tl_dpnp.compile(source, target="cuda", cache=False).inspect_source()).splitlines()[0]
    assert ("m16n8k8_f64" in head) == (size**3 >= H200.persistent.multiplications_of_chain)


@pytest.mark.parametrize("element", ["f32", "f64"])
def test_matrices_of_a_chain_stay_in_local_memory(element):
    """Three of 84 x 84: f32 takes 83 KB, f64 165 KB, beside which one team has room, with more warps."""
    staging = staging_of(volume(84, 9, element).source)
    assert {operand.parameter for operand in staging.residents} == {"K0", "K1", "K2"}
    if element == "f64":
        assert (staging.teams, staging.layout.columns) == (1, 8)


def test_what_has_no_room_beside_them_does_not_keep_them():
    """Two matrices of 100 x 100 in f64 leave no room for a team."""
    matrix, t = "memref<f64x100x100>", "memref<f64x100x20>"
    source = f"""func @large(%A: {matrix}, %B: {matrix}, %X: {t[:-1]}x?>, %Y: {t[:-1]}x?>) {{
      %g = group_id
      %x = subview %X[:,:,%g] : {t[:-1]}x?>
      %y = subview %Y[:,:,%g] : {t[:-1]}x?>
      %t = alloca -> {t}
      gemm.n.n 1.0, %A, %x, 0.0, %t : f64, {matrix}, {t}, f64, {t}
      gemm.n.n 1.0, %B, %t, 0.0, %y : f64, {matrix}, {t}, f64, {t}
    }}"""
    staging = staging_of(source)
    assert len(staging.residents) < 2
    assert staging.local_memory <= H200.local_memory
