"""Products written tile by tile are raised to one gemm, and calls that are not the product are found."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest

from tests.strategies.tiled_products import MISTAKES, TiledProduct
from tl_dpnp.errors import TLError
from tl_dpnp.language import ops, parse
from tl_dpnp.language.interpreter import interpret
from tl_dpnp.lowering.device import H200, LoweringOptions
from tl_dpnp.lowering.grid import along_one_axis
from tl_dpnp.lowering.pipeline import find_variants, lower
from tl_dpnp.lowering.raising.cover import Cover
from tl_dpnp.lowering.raising.numbers import Unraised
from tl_dpnp.lowering.raising.product import raised


def misfit(product, function):
    """Return why a call is not the product, as it is launched along several axes and along one."""
    shapes = [*product.shapes, ()]
    found = Cover(function).misfit(shapes, product.groups)
    numbered = Cover(along_one_axis(function), True).misfit([*shapes, (), (), ()], product.groups)
    assert (found is None) == (numbered is None)
    return found


def result(product, function, groups, **options):
    arrays = copy.deepcopy(product.arrays())
    interpret(function, [*arrays, product.alpha], groups, **options)
    return arrays[2]


@pytest.mark.drawn(count=2)
@pytest.mark.parametrize("part", range(4))
def test_random_products_are_raised(part):
    for seed in range(30 * part, 30 * part + 30):
        product = TiledProduct(seed, most=2)
        (function,) = parse(product.source)
        whole = raised(function)
        *_, gemm = whole.body
        assert isinstance(gemm, ops.Gemm)
        assert misfit(product, function) is None, seed
        expected = result(product, function, product.groups, order_seed=seed)
        assert np.array_equal(result(product, whole, max(1, product.batch)), expected), seed


@pytest.mark.drawn(count=5)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_found(mistake):
    found = 0
    for seed in range(12):
        product = TiledProduct(seed, mistake=mistake)
        (function,) = parse(product.source)
        reason = misfit(product, function)
        if reason is None:  # some programs have no place for a mistake, such as those that read nothing of C
            whole = result(product, raised(function), max(1, product.batch))
            assert np.array_equal(whole, result(product, function, product.groups)), seed
        else:
            found += 1
    assert found >= 4


#: A product in which one line is another one.
PRODUCT = """
func @f(%A: memref<{a}x64x64>, %B: memref<{b}x64x64>, %C: memref<{c}x64x64>, %D: memref<{a}x64x64>, %n: index)
    work_group_size(32, 1) subgroup_size(32) {{
  %0 = constant 0 : index  %8 = constant 8 : index  %64 = constant 64 : index  %7 = constant 7 : index
  %1 = constant 1 : index  %2 = constant 2 : index
  %g = group_id.x : index  %x = rem %g, %8 : index  %y = div %g, %8 : index
  %i = mul %x, %8 : index  %j = mul %y, %8 : index
  {before}
  parallel {{
    %Z = constant {first} : coopmatrix<{sum}x8x8,matrix_acc>
    %R = for %k = %0, {end}, %8 init(%c=%Z) -> (coopmatrix<{sum}x8x8,matrix_acc>) {{
      %p = cooperative_matrix_load {factor}[%i, %k] : coopmatrix<{a}x8x8,matrix_a>
      %q = cooperative_matrix_load %B[%k, %j] : coopmatrix<{b}x8x8,matrix_b>
      {inside}
      %d = cooperative_matrix_mul_add {product}, %q, %c : coopmatrix<{sum}x8x8,matrix_acc>
      yield ({yielded})
    }}
    {behind}
    cooperative_matrix_store {stored}, %C[%i, %j]
  }}
}}"""
PARTS = {"a": "f32", "b": "f32", "c": "f32", "sum": "f32", "before": "", "first": "0", "end": "%64", "factor": "%A",
         "inside": "", "product": "%p", "yielded": "%d", "behind": "", "stored": "%R"}
ACC = "coopmatrix<f32x8x8,matrix_acc>"


@pytest.mark.parametrize(("changes", "reason"), [
    ({"first": "1"}, "cooperative_matrix_construct computes with tiles"),
    ({"factor": "%C"}, "%C is a factor and the result"),
    ({"before": "%e = load %A[%0, %0] : f32"}, "load is no part of a product"),
    ({"before": "%t = alloca -> memref<f32x8>"}, "alloca is no part of a product"),
    ({"inside": "%s = cooperative_matrix_scale 2.0, %p : coopmatrix<f32x8x8,matrix_a>", "product": "%s"},
     "%p is no sum of products"),
    ({"inside": f"%s = cooperative_matrix_scale 2.0, %c : {ACC}", "yielded": "%s"},
     "a loop does more with sums than to add products"),
    ({"behind": f"%S = neg %R : {ACC}", "stored": "%S"}, "neg computes with tiles"),
    ({"behind": f"%S = cooperative_matrix_scale 2.0, %R : {ACC} %T = cooperative_matrix_scale 2.0, %S : {ACC}",
      "stored": "%T"}, "sums are scaled twice"),
    ({"behind": f"%S = add %R, %R : {ACC}", "stored": "%S"}, "sums of products are added to one another"),
    ({"behind": f"%L = cooperative_matrix_load %D[%i, %j] : {ACC} %S = add %L, %R : {ACC}", "stored": "%S"},
     "sums begin with another part than that of %C which they are stored to"),
    ({"behind": "cooperative_matrix_store %R, %D[%i, %j]"}, "results are not of one product"),
    ({"behind": f"%B0 = cooperative_matrix_atomic_add %R, %C[%i, %j] : {ACC}"},
     "cooperative_matrix_atomic_add computes with tiles"),
    ({"behind": "%l = subgroup_local_id : i32"}, "tiles depend on single work-items"),
    ({"a": "f16", "b": "f16", "c": "f16", "sum": "f16"}, "sums are rounded to f16 after each step"),
    ({"a": "f32", "c": "f32", "sum": "f64",
      "behind": "%S = cast %R : coopmatrix<f32x8x8,matrix_acc>", "stored": "%S"},
     "sums for f32 are kept in f64, and those of gemm in f32"),
    ({"a": "f16", "b": "f16", "c": "bf16", "behind": "%S = cast %R : coopmatrix<bf16x8x8,matrix_acc>",
      "stored": "%S"}, "there is no such gemm: "),
    ({"stored": "%Z"}, "what is stored is no sum of products"),
])
def test_other_programs_stay_as_they_are_and_say_why(changes, reason):
    (function,) = parse(PRODUCT.format_map(PARTS | changes))
    with pytest.raises(Unraised, match=reason.replace("(", r"\(")):
        raised(function)
    remarks = lower(function, H200, LoweringOptions()).remarks
    assert any(remark.startswith(f"the tiles are not raised to one gemm: {reason}") for remark in remarks)
    assert [variant.form for variant in find_variants(function, H200, LoweringOptions())] == [None]


#: A product in which some tiles, and some terms, are left out by branches.
BRANCHES = """
func @f(%A: memref<f32x?x?>, %B: memref<f32x?x?>, %C: memref<f32x?x?>) work_group_size(64, 1) subgroup_size(32) {{
  %0 = constant 0 : index  %8 = constant 8 : index  %16 = constant 16 : index  %1 = constant 1 : index
  %m = size %C[0] : index  %n = size %C[1] : index  %k = size %A[1] : index
  %g = group_id.x : index
  parallel {{
    %s = subgroup_linear_id : i32  %t = cast %s : index
    %j0 = mul %g, %16 : index  %j1 = mul %t, %8 : index  %j = add %j0, %j1 : index
    %Z = constant 0 : coopmatrix<f32x8x8,matrix_acc>
    for %i = %0, %m, %8 {{
      %is = {condition} : bool
      if %is {{
        %R = for %l = %0, %n, %8 init(%c=%Z) -> (coopmatrix<f32x8x8,matrix_acc>) {{
          %has = less_than %l, %k : bool
          %d = if %has -> (coopmatrix<f32x8x8,matrix_acc>) {{
            %a = cooperative_matrix_load.both_checked %A[%i, %l] : coopmatrix<f32x8x8,matrix_a>
            %b = cooperative_matrix_load.both_checked %B[%l, %j] : coopmatrix<f32x8x8,matrix_b>
            %e = cooperative_matrix_mul_add %a, %b, %c : coopmatrix<f32x8x8,matrix_acc>
            yield (%e)
          }} else {{ yield ({otherwise}) }}
          yield (%d)
        }}
        cooperative_matrix_store.both_checked %R, %C[%i, %j]
      }}
    }}
  }}
}}"""


@pytest.mark.parametrize(("condition", "otherwise", "sizes", "reason"), [
    ("less_than %j, %n", "%c", (20, 45, 30), None),
    ("less_than %j, %n", "%c", (20, 29, 30), None),
    ("less_than %j, %n", "%c", (20, 29, 40), "sums do not have each of the 40 terms once"),
    ("greater_than %j, %0", "%c", (20, 45, 30), "some elements of the result are not stored"),
    ("less_than %i, %8", "%c", (20, 45, 30), "some elements of the result are not stored"),
])
def test_branches_are_followed(condition, otherwise, sizes, reason):
    (function,) = parse(BRANCHES.format(condition=condition, otherwise=otherwise))
    m, n, k = sizes
    shapes, groups = [(m, k), (k, n), (m, n)], (-(-n // 16), 1, 1)
    assert Cover(function).misfit(shapes, groups) == reason
    numbers = np.random.default_rng(1)
    arrays = [np.asfortranarray(numbers.integers(-2, 3, shape).astype("float32")) for shape in shapes]
    expected = copy.deepcopy(arrays)
    interpret(function, expected, groups)
    interpret(raised(function), arrays, 1)
    assert np.array_equal(arrays[2], expected[2]) == (reason is None)


def test_a_branch_that_begins_anew_is_no_sum():
    (function,) = parse(BRANCHES.format(condition="less_than %j, %n", otherwise="%Z"))
    with pytest.raises(Unraised, match="what is done with a sum depends on a branch"):
        raised(function)


def test_what_scalar_arguments_decide_is_not_known():
    """Calls are remembered whatever their scalars are."""
    (function,) = parse(PRODUCT.format_map(PARTS | {"end": "%n"}))
    raised(function)
    reason = Cover(function).misfit([(64, 64)] * 4 + [()], (64, 1, 1))
    assert reason == "places of tiles depend on scalar arguments or on elements"


@pytest.mark.parametrize(("precision", "device", "forms"), [
    ("highest", H200, ["blocked", None]), ("high", H200, [None]), ("default", H200, ["tiled", "blocked", None]),
    ("default", replace(H200, warpgroup_products=False), [None]),
])
def test_f32_is_raised_where_tensor_cores_multiply_no_less_then(precision, device, forms):
    (function,) = parse(PRODUCT.format_map(PARTS))
    options = LoweringOptions(precision=precision)
    assert [variant.form for variant in find_variants(function, device, options)] == forms


@pytest.mark.parametrize(("changes", "groups", "reason"), [
    ({}, 64, None), ({}, 0, "some elements of the result are not stored"),
    ({}, 65, "cooperative_matrix_load in line 13 reaches beyond %B"),
    ({"end": "%0"}, 64, "what is stored is no sum of products"),
    ({"before": "%all = num_groups.x : index %end = sub %all, %64 : index", "end": "%end"}, 64,
     "what is stored is no sum of products"),
    # Loops that do not run, or carry what is not used.
    ({"before": "%last = for %e = %8, %0 init(%h=%8) -> (index) { %more = add %h, %1 : index yield (%more) } "
                "%w = sub %last, %8 : index %end = add %64, %w : index", "end": "%end"}, 64, None),
    ({"before": "%last = for %e = %0, %7 init(%h=%8) -> (index) { %more = add %h, %8 : index yield (%more) }",
      "end": "%last"}, 64, None),
    ({"before": "%last = for %e = %0, %7 init(%h=%1) -> (index) { %more = mul %h, %2 : index yield (%more) }",
      "end": "%last"}, 64, "a loop carries a number that does not grow by the same in each iteration"),
    # 2^64 - 8 is no index, and no place that is 8 in front of the first.
    ({"before": "%u = constant 8 : u64 %v = neg %u : u64 %w = cast %v : index %t = add %w, %8 : index "
                "%end = add %t, %64 : index", "end": "%end"}, 64,
     "places of tiles depend on scalar arguments or on elements"),
])
def test_calls_are_compared_with_the_product(changes, groups, reason):
    (function,) = parse(PRODUCT.format_map(PARTS | changes))
    assert Cover(function).misfit([(64, 64)] * 4 + [()], (groups, 1, 1)) == reason


def test_a_program_is_raised_on_devices_that_have_forms_for_it():
    (function,) = parse(PRODUCT.format_map(PARTS))
    options = LoweringOptions()
    assert [variant.form for variant in find_variants(function, H200, options)] == ["blocked", None]
    assert lower(function, H200, options).plan.form == "subgroup"
    assert lower(function, H200, options.in_form("blocked")).plan.is_raised
    with pytest.raises(TLError, match="cannot run in the tiled form"):
        lower(function, H200, options.in_form("tiled"))
