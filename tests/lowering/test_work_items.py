"""What regions that work-items run become: as few phases and temporaries as it takes."""

from __future__ import annotations

import numpy as np
import pytest

from tl_dpnp.language import ops, parse
from tl_dpnp.language.interpreter import interpret
from tl_dpnp.language.verifier import find_errors
from tl_dpnp.lowering.canonicalize import canonicalize

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
