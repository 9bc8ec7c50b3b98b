"""Barriers at branches and loops in which work-items wait."""

from __future__ import annotations

from tl_dpnp.kernels import intrinsics
from tl_dpnp.lowering.body.branch_barriers import with_branch_barriers
from tl_dpnp.lowering.body.tree import Call, Comparison, Evaluate, If, Name, Return, While

WAIT = Evaluate(Call(intrinsics.barrier(), ()))
DONE = Evaluate(Call(intrinsics.release_tiles(), ()))
TEST = Comparison("<", Name("n"), 3)


def test_what_has_no_barrier_stays_as_it_is():
    body = (DONE, If(TEST, (DONE,), (Return(),)), While(TEST, (DONE, If(TEST, (DONE,)))), WAIT)
    assert with_branch_barriers(body) == body


def test_a_barrier_stands_in_front_of_a_branch_with_one():
    assert with_branch_barriers((DONE, If(TEST, (DONE, WAIT)))) == (DONE, WAIT, If(TEST, (DONE, WAIT)))
    assert with_branch_barriers((If(TEST, (DONE,), (WAIT,)),)) == (WAIT, If(TEST, (DONE,), (WAIT,)))
    assert with_branch_barriers((WAIT, If(TEST, (WAIT,)))) == (WAIT, If(TEST, (WAIT,)))


def test_a_barrier_stands_in_front_of_a_loop_with_one_and_at_its_end():
    assert with_branch_barriers((While(TEST, (WAIT, DONE)),)) == (WAIT, While(TEST, (WAIT, DONE, WAIT)))
    assert with_branch_barriers((While(TEST, (DONE, WAIT)),)) == (WAIT, While(TEST, (DONE, WAIT)))


def test_branches_in_loops_and_loops_in_branches():
    inner = If(TEST, (While(TEST, (WAIT, DONE)),))
    assert with_branch_barriers((While(TEST, (inner, DONE)),)) == (
        WAIT, While(TEST, (WAIT, If(TEST, (WAIT, While(TEST, (WAIT, DONE, WAIT)))), DONE, WAIT)))
