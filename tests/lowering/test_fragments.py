"""Which regions have their matrices in registers, and how these are held."""

from __future__ import annotations

import pytest

from tl_dpnp.kernels.mma.fragments import BY_ROWS, Layout
from tl_dpnp.language import parse
from tl_dpnp.lowering import lower
from tl_dpnp.lowering.canonicalize import rename_uniquely
from tl_dpnp.lowering.device import H200, LoweringOptions
from tl_dpnp.lowering.fragment_layouts import layouts_of
from tl_dpnp.lowering.fragments import FragmentChoice, choose_fragments

ATTRIBUTES = "work_group_size(64, 2) subgroup_size(32)"


def product(body="", a="bf16x32x64", b="bf16x64x16", c="f32x32x16", letters="tn", attributes=ATTRIBUTES):
    """Return a function that adds a product to a sum in a loop, with other instructions in front of the product."""
    types = [type.partition("x")[0] for type in (a, b, c)]
    x, y, z = (f"memref<{type}x?x?>" for type in types)
    return f"""func @f(%x: {x}, %y: {y}, %z: {z}) {attributes} {{
        %0 = constant 0 : index  %1 = constant 1 : index  %9 = constant 9 : index
        parallel {{
            %s = subgroup_linear_id : i32  %p = cast %s : index
            %Z = constant 0 : coopmatrix<{c},matrix_acc>
            %C = for %k = %0, %9 init(%c=%Z) -> (coopmatrix<{c},matrix_acc>) {{
                %A = cooperative_matrix_load.{letters[0]} %x[%0, %k] : coopmatrix<{a},matrix_a>
                %B = cooperative_matrix_load.{letters[1]} %y[%k, %p] : coopmatrix<{b},matrix_b>
                {body}
                %d = cooperative_matrix_mul_add %A, %B, %c : coopmatrix<{c},matrix_acc>
                yield (%d)
            }}
            cooperative_matrix_store %C, %z[%0, %p]
        }}
    }}"""


def remark_of(source, **options):
    (function,) = parse(source)
    remark, *_ = lower(function, H200, LoweringOptions(**options)).remarks  # the other one is about raising
    return remark


@pytest.mark.parametrize(("options", "row"), [
    ({}, "m16n8k16_bf16_bf16_f32"),
    ({"a": "f16x16x8", "b": "f16x8x8", "c": "f32x16x8"}, "m16n8k8_f16_f16_f32"),
    ({"a": "f64x8x8", "b": "f64x8x8", "c": "f64x8x8"}, "m8n8k4_f64_f64_f64"),
    ({"a": "i8x16x32", "b": "u8x32x8", "c": "i32x16x8"}, "m16n8k32_s8_u8_s32"),
    ({"attributes": ""}, "m16n8k16_bf16_bf16_f32"),
])
def test_products_on_tensor_cores_keep_their_matrices_in_registers(options, row):
    assert remark_of(product(**options)) == f"the matrices of parallel in line 3 are in registers, multiplied by {row}"


@pytest.mark.parametrize(("options", "reason"), [
    ({"c": "f32x32x12", "b": "bf16x64x12"}, "%Z has 12 columns, no multiple of 8"),
    ({"a": "f32x32x64", "b": "f32x64x16"},
     "no instruction for fragments multiplies f32 by f32 into f32 with precision 'highest' and a sum of 64"),
    ({"a": "f32x32x64", "b": "bf16x64x16", "c": "f32x32x16"},
     "no instruction for fragments multiplies f32 by bf16 into f32 with precision 'highest' and a sum of 64"),
    ({"a": "bf16x256x64", "c": "f32x256x128", "b": "bf16x64x128"},
     "they would need 1408 registers of each work-item, which has 255"),
    ({"body": "barrier", "attributes": ""},
     "a barrier needs subgroup_size(32) and work_group_size, so that sub-groups are warps"),
    ({"body": "%l = subgroup_local_id : i32", "attributes": "work_group_size(64, 2)"},
     "work-items have numbers in sub-groups of 16, and a warp has 32"),
    ({"body": "%R = cooperative_matrix_reduce_add.row %A : coopmatrix<bf16x32x1,matrix_a>"},
     "cooperative_matrix_reduce_add has no form for registers"),
    ({"body": "%l = subgroup_local_id : i32 %m = cast %l : bf16 %E = cooperative_matrix_apply (%i, %j, %v) = %A -> "
              "coopmatrix<bf16x32x64,matrix_a> { yield (%m) }"},
     "the body of cooperative_matrix_apply depends on the work-item that runs it"),
])
def test_others_are_in_local_memory_and_say_why(options, reason):
    (function,) = parse(product(**options))
    choice = choose_fragments(rename_uniquely(function), H200, LoweringOptions())
    assert choice == FragmentChoice(
        remarks=(f"the matrices of parallel in line 3 are in local memory: {reason}",))


def test_checks_and_schedules_keep_matrices_in_local_memory():
    assert remark_of(product(), debug=True).endswith("in local memory: debug=True checks each access")


@pytest.mark.parametrize(("options", "expected"), [
    # As many elements as a load has, where those are neighbours along the sum.
    ({}, {"A": Layout(False, 8), "B": Layout(True, 8), "c": BY_ROWS, "C": BY_ROWS, "d": BY_ROWS}),
    ({"letters": "nn"}, {"A": BY_ROWS, "B": Layout(True)}),
    ({"a": "bf16x32x16", "b": "bf16x16x16"}, {"A": Layout(False, 4), "B": Layout(True, 4)}),
    ({"a": "f64x32x16", "b": "f64x16x16", "c": "f64x32x16"}, {"A": BY_ROWS, "B": Layout(True)}),
    # What is a sum, too, is held as one, and converted where it is a second factor.
    ({"body": "%E = cast %c : coopmatrix<bf16x32x16,matrix_b> %T = constant 1 : coopmatrix<bf16x32x32,matrix_a>"
              "%F = cooperative_matrix_mul_add %T, %E, %c : coopmatrix<f32x32x16,matrix_acc>"},
     {"E": BY_ROWS, "T": BY_ROWS, "F": BY_ROWS, "A": Layout(False, 8)}),
    # One matrix as both factors.
    ({"body": "%E = cast %c : coopmatrix<bf16x32x16,matrix_a> %T = cast %c : coopmatrix<bf16x32x16,matrix_b>"},
     {"E": BY_ROWS, "T": BY_ROWS}),
])
def test_matrices_are_held_as_they_are_used(options, expected):
    (function,) = parse(product(**options))
    layouts = layouts_of(function)
    assert {name: layouts[name] for name in expected} == expected


def test_values_that_loops_and_branches_pass_on_are_held_alike():
    body = """%t = greater_than %k, %1 : bool
        %E = if %t -> (coopmatrix<bf16x64x16,matrix_b>) { yield (%B) } else {
            %G = add %B, %B : coopmatrix<bf16x64x16,matrix_b> yield (%G) }"""
    (function,) = parse(product(body))
    layouts = layouts_of(function)
    assert layouts["E"] == layouts["G"] == layouts["B"] == Layout(True, 8)


def test_a_region_that_stays_is_printed_as_it_was():
    (function,) = parse(product())
    stages = lower(function, H200, LoweringOptions()).stages
    assert "parallel" in stages["barriers"]
    assert "cooperative_matrix_mul_add" in stages["barriers"]
