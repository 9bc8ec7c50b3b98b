"""What every nest must fulfil, whatever primitives made it.

The rules are checked after each primitive, so that they hold in whatever order the primitives come.
"""

from __future__ import annotations

from tl_dpnp.lowering.nest import Loop, Node, Stage, leaves, loops_of
from tl_dpnp.lowering.schedule.draft import Draft

__all__ = ["DEALT", "check"]

#: Loops whose iterations different work-items run.
DEALT = ("lanes", "rows", "columns", "subgroups")
#: Bindings that must not be nested in one another: both would be dealt by the same position.
_SHARED_POSITION = {
    "lanes": {"lanes"}, "rows": {"rows", "subgroups"}, "columns": {"columns", "subgroups"},
    "subgroups": {"rows", "columns", "subgroups"}, "vectorized": {"vectorized", "tensorized"},
}


def check(draft: Draft) -> None:
    """Raise ScheduleError if the draft breaks a rule."""
    _check_paths(draft, draft.body, ())
    for loop in loops_of(draft.body):
        draft.require(not loop.prefetch or loop.kind == "serial", f"{loop.variable} prefetches, but is {loop.kind}")
        if loop.kind in ("vectorized", *DEALT, "virtual"):
            draft.require(not loop.reduction, f"{loop.variable} is a reduction, whose iterations depend on one another")
            draft.require(not loop.pipelined, f"{loop.variable} fills a buffer for its next iteration")
        if loop.kind == "vectorized":
            _check_vectorized(draft, loop)


def _check_paths(draft: Draft, nodes: tuple[Node, ...], around: tuple[Loop, ...]) -> None:
    for node in nodes:
        match node:
            case Loop():
                forbidden = _SHARED_POSITION.get(node.kind, set())
                for outer in around:
                    draft.require(
                        outer.kind not in forbidden,
                        f"{node.variable} ({node.kind}) lies inside {outer.variable}, which is {outer.kind}",
                    )
                _check_paths(draft, node.body, (*around, node))
            case Stage():
                _check_stage(draft, node, around)
                _check_paths(draft, node.body, around)


def _check_stage(draft: Draft, stage: Stage, around: tuple[Loop, ...]) -> None:
    scope = draft.buffer(stage.buffer).scope
    for loop in around:
        vectorized = loop.kind == "vectorized"
        draft.require(not vectorized, f"{stage.buffer} is copied inside {loop.variable}, which is vectorized")
        if scope == "local":
            draft.require(
                loop.kind in ("serial", "unrolled"),
                f"{stage.buffer} is shared by the work-group, but lies inside {loop.variable}, which is {loop.kind}",
            )
    if scope == "registers" and not stage.write_back:
        for loop in loops_of(stage.body):
            draft.require(
                loop.kind not in DEALT,
                f"{stage.buffer} belongs to one work-item, but {loop.variable} of its copy is bound to {loop.kind}",
            )


def _check_vectorized(draft: Draft, loop: Loop) -> None:
    name = loop.variable
    for inner in (loop, *loops_of(loop.body)):
        for index, _ in inner.guards:
            draft.require(name not in index, f"the guard of {inner.variable} depends on {name}")
        for derived in inner.derived:
            draft.require(name not in derived.index, f"{derived.variable} is computed from {name}")
    for leaf in leaves(loop.body):
        target = leaf.assign.target
        used = [index for index in target.indices if name in index]
        draft.require(len(used) == 1, f"{target} does not use {name} in exactly one index")

