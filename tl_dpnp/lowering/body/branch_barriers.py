"""Barriers at the branches and loops in which work-items wait, so that compilers do not copy those.

All work-items take such a branch together.  LLVM's jump threading copies what decides it into branches that only some
of them take, which it leaves to targets whose work-items run apart; the targets of `Target.threads_jumps` it does not
know as such.  Work-items would then wait in a branch of some: Intel's runtime for CPUs (2024.2), whose passes do the
same, stored to wrong addresses there.  No pass copies a block with a barrier, so one stands in each block that ends
in such a branch.

Source: LLVM language reference, function attribute ``convergent``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tl_dpnp.kernels import intrinsics
from tl_dpnp.lowering.body.tree import Call, Evaluate, If, Statement, While

__all__ = ["with_branch_barriers"]

_BARRIER = Evaluate(Call(intrinsics.barrier(), ()))


def with_branch_barriers(statements: Sequence[Statement]) -> tuple[Statement, ...]:
    """Return statements with a barrier in front of each branch and loop with one, and at the end of such a loop."""
    return tuple(_with_branch_barriers(statements))


def _with_branch_barriers(statements: Sequence[Statement]) -> Iterator[Statement]:
    before: Statement | None = None
    for statement in statements:
        if _waits(statement):
            if before != _BARRIER and not isinstance(statement, Evaluate):
                yield _BARRIER
            match statement:
                case If(then=then, otherwise=otherwise):
                    statement = replace(statement, then=with_branch_barriers(then),
                                        otherwise=None if otherwise is None else with_branch_barriers(otherwise))
                case While(body=body):
                    inside = with_branch_barriers(body)
                    statement = replace(statement, body=inside if inside[-1] == _BARRIER else (*inside, _BARRIER))
        yield statement
        before = statement


def _waits(statement: Statement) -> bool:
    """Return whether work-items wait for one another in a statement."""
    match statement:
        case Evaluate(call=call):
            return call.intrinsic.waits
        case If(then=then, otherwise=otherwise):
            return any(map(_waits, (*then, *(otherwise or ()))))
        case While(body=body):
            return any(map(_waits, body))
    return False
