"""What regions that work-items run become: as few phases and temporaries as it takes."""

from __future__ import annotations

import numpy as np
import pytest

from tl_dpnp.language import ops, parse
from tl_dpnp.language.interpreter import interpret
from tl_dpnp.language.verifier import find_errors
from tl_dpnp.lowering.canonicalize import canonicalize
from tl_dpnp.lowering.memory import place_temporaries

HEAD = """func @f(%x: memref<f32x64>, %g: group<memref<f32x64> x ?>, %n: i32) attributes{work_group_size=[16, 2]} {
parallel {
    %lane = subgroup_local_id : i32
    %p = cast %lane : index
"""


def lowered(body):
    function = canonicalize(parse(f"{HEAD}{body}\n}} }}").functions[0])
    assert not find_errors(ops.Module((function,)))
    assert not any(each.is_newer and not isinstance(each, ops.AtomicAccess) for each in function.body.walk())
    return function


def counts(function, *kinds):
    return tuple(sum(isinstance(each, kind) for each in function.body.walk()) for kind in kinds)


@pytest.mark.parametrize(("body", "phases", "temporaries"), [
    ("store 1.0, %x[%p]", 1, 0),
    ("%v = load %x[%p] : f32 for %i = 0, 4 { %w = add %v, 1.0 : f32 store %w, %x[%p] }", 1, 0),
    ("%v = load %x[%p] : f32 barrier store %v, %x[%p]", 2, 1),
    # Where it is, and what it views, a work-item knows in each phase.
    ("%m = load %g[3] : memref<f32x64> store 1.0, %m[%p] barrier store 2.0, %m[%p]", 2, 0),
    # One for the value of each, none for the result, which the same phase uses.
    ("%v = load %x[%p] : f32 %s = subgroup_reduce_add %v : f32 store %s, %x[%p]", 2, 1),
    ("%v = load %x[%p] : f32 %s = subgroup_reduce_add %v : f32 %t = add %s, %v : f32 store %t, %x[%p]", 2, 2),
    # What is the same for all work-items decides for all.
    ("for %i = 0, %n : i32 { store 1.0, %x[%p] barrier store 2.0, %x[%p] }", 2, 0),
    ("%m = mul %n, %n : i32 %k = add %m, 1 : i32 %c = less_than %k, 9 : bool "
     "if %c { store 1.0, %x[%p] barrier store 2.0, %x[%p] }", 3, 0),
])
def test_phases(body, phases, temporaries):
    assert counts(lowered(body), ops.Foreach, ops.Alloca) == (phases, temporaries)


def test_the_loop_of_a_barrier_is_that_of_the_work_group():
    function = lowered("for %i = 0, %n : i32 { store 1.0, %x[%p] barrier store 2.0, %x[%p] }")
    (loop,) = (each for each in function.body if isinstance(each, ops.For))
    assert [type(each) for each in loop.body] == [ops.Foreach, ops.Barrier, ops.Foreach]
    assert loop.stop == function.parameters[2]


def test_places_are_those_of_what_was_written():
    """Errors of later stages point into the region, and those of what was put in at the region."""
    function = lowered("%v = load %x[%p] : f32\n%s = subgroup_reduce_add %v : f32\nstore %s, %x[%p]")
    lines = {type(each): each.span.line for each in function.body.walk()}
    assert lines[ops.Alloca] == lines[ops.Foreach] == 2
    loads = [each for each in function.body.walk() if isinstance(each, ops.Load)]
    assert [each.span.line for each in loads] == [5, *[2] * 16]


def test_tiles_of_several_sub_groups_use_matrices_that_are_filled_before():
    matrix = "coopmatrix<f32x4x2,matrix_acc>"
    (function,) = parse(f"""func @f(%z: memref<f32x8x8>) attributes{{subgroup_size=4, work_group_size=[4, 2]}} {{
        %one = constant 1.0 : {matrix}
        foreach_tile (%i, %j) = (0, 0), (8, 8) as (%m, %n) <= (4, 2) {{
            %two = for %k = 0, 2 init(%c=%one) -> ({matrix}) {{ %d = add %c, %one : {matrix} yield (%d) }}
            cooperative_matrix_store %two, %z[%i, %j]
        }}
    }}""")
    canonical = canonicalize(function)
    assert not find_errors(ops.Module((canonical,)))
    found = np.zeros((8, 8), "f4", order="F")
    interpret(canonical, (found,))
    np.testing.assert_array_equal(found, 3)


MATRIX, FACTORS = "coopmatrix<f32x16x8,matrix_acc>", ("coopmatrix<f32x16x4,matrix_a>", "coopmatrix<f32x4x8,matrix_b>")


def matrices(body):
    (function,) = parse(f"func @f(%x: memref<f32x64x64>, %n: index) {{ %c0 = constant 0 : index "
                        f"%zero = constant 0 : {MATRIX} %two = constant 2.0 : {MATRIX} parallel {{ {body} }} }}")
    canonical = canonicalize(function)
    assert not find_errors(ops.Module((canonical,)))
    return canonical


SUM = f"""
    %s = for %k = %c0, %n init(%c=%zero) -> ({MATRIX}) {{
        %A = cooperative_matrix_load %x[0, %k] : {FACTORS[0]} %B = cooperative_matrix_load %x[%k, 0] : {FACTORS[1]}
        %d = cooperative_matrix_mul_add %A, %B, %c : {MATRIX}
        yield (%d)
    }}
    cooperative_matrix_store %s, %x[0, 0]"""

PRODUCT = (f"%A = cooperative_matrix_load %x[0, 0] : {FACTORS[0]} %B = cooperative_matrix_load %x[0, 0] : {FACTORS[1]} "
           f"%d = cooperative_matrix_mul_add %A, %B, %two : {MATRIX} cooperative_matrix_store %d, %x[0, 0]")


@pytest.mark.parametrize(("body", "temporaries"), [
    (SUM, 3),  # the factors and the sum, which begins in its own place
    (PRODUCT.replace("%two", "%zero"), 3),
    (PRODUCT, 3),
    (f"cooperative_matrix_store %two, %x[0, 0] %d = add %two, %two : {MATRIX} "
     "cooperative_matrix_store %d, %x[0, 8]", 2),
], ids=["carried", "zero", "added", "stored"])
def test_constant_matrices_have_memory_only_where_they_are_operands(body, temporaries):
    assert counts(matrices(body), ops.Alloca) == (temporaries,)


def test_matrices_of_a_loop_share_memory_with_those_before_and_behind_it():
    """What only one iteration knows lives no longer, nor do all live from the beginning."""
    step = (f"%A# = cooperative_matrix_load %x[0, %k] : {MATRIX} %B# = cooperative_matrix_load %x[16, %k] : {MATRIX} "
            f"%C# = add %A#, %B# : {MATRIX} cooperative_matrix_store %C#, %x[32, %k] ")
    body = "for %k = %c0, %n {" + "".join(step.replace("#", str(number)) for number in range(4)) + "}"
    assert max(p.offset + p.size for p in place_temporaries(matrices(body), 2**20).values()) == 2 * 16 * 8 * 4


def test_a_body_that_uses_what_is_the_same_for_all_runs_for_components_and_not_by_work_items():
    body = (f"%m = add %n, 3 : index %q = cast %m : f32 %A = cooperative_matrix_load %x[0, 0] : {MATRIX} "
            f"%B = cooperative_matrix_apply (%i, %j, %v)=%A -> {MATRIX} {{ %w = mul %v, %q : f32 yield (%w) }} "
            "cooperative_matrix_store %B, %x[0, 0]")
    assert counts(matrices(body), ops.For) == (0,)


def test_a_value_that_is_computed_of_itself_again_and_again_is_computed_once_more():
    """For a condition of the work-group: as many instructions as the program has, not twice as many for each."""
    chain = "".join(f"%v{k + 1} = add %v{k}, %v{k} : index " for k in range(40))
    body = (f"%v0 = add %n, 1 : index {chain} %c = less_than %v40, %n : bool "
            f"if %c {{ cooperative_matrix_store %zero, %x[0, 0] }}")
    assert len([*matrices(body).body.walk()]) < 200


@pytest.mark.parametrize(("divisor", "is_beside"), [("%n", False), ("-1", False), ("4", True)])
def test_a_division_that_may_end_the_process_is_done_where_the_program_does_it(divisor, is_beside):
    """For the sub-groups that take the branch, of which there may be none, and not for the work-group beside it."""
    body = (f"%s = subgroup_linear_id : i32 %t = cast %s : index %c = less_than %t, %n : bool if %c {{ "
            f"%q = rem %n, {divisor} : index %d = equal %q, 2 : bool "
            "if %d { cooperative_matrix_store %zero, %x[0, 0] } }")
    function = matrices(body)

    def divisions(region):
        return [each for each in region.walk()
                if isinstance(each, ops.Arith) and each.kind == "rem" and str(each.lhs) == "%n"]

    by_work_items = [each for loop in function.body.walk() if isinstance(loop, ops.Foreach)
                     for each in divisions(loop.body)]
    assert divisions(function.body)
    assert (divisions(function.body) != by_work_items) == is_beside


def test_checked_accesses_have_no_condition_for_each_component():
    body = (f"%A = cooperative_matrix_load.both_checked %x[%n, %n] : {MATRIX} "
            "cooperative_matrix_store.t.rows_checked %A, %x[%n, 0]")
    assert counts(matrices(body), ops.If) == (0,)
