"""The primitives that change how a sum is computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from tl_dpnp.lowering.nest import Access, Assign, Loop, MultiplyAdd, Node, Number, Stage, Total, leaves, map_assigns
from tl_dpnp.lowering.schedule.draft import Draft

__all__ = ["Decomposed", "decompose_reduction", "rfactor"]


class Decomposed(NamedTuple):
    """What became of the loops that were copied around the first value and around the last step of a reduction."""

    init: Mapping[str, str]
    finish: Mapping[str, str]


def decompose_reduction(draft: Draft, reduction: str, above: str) -> Decomposed:
    """See `Schedule.decompose_reduction`."""
    draft.require(draft.loop(reduction).reduction, f"{reduction} is no reduction")
    chain = [draft.loop(above)]
    while len(chain[-1].body) == 1 and isinstance(chain[-1].body[0], Loop):
        chain.append(chain[-1].body[0])
    inner = chain[-1].body
    positions = [i for i, node in enumerate(inner) if isinstance(node, Loop) and node.variable == reduction]
    draft.require(len(positions) == 1, f"{reduction} does not stand directly inside {chain[-1].variable}")
    draft.require(all(not loop.reduction for loop in chain), "a loop in between is a reduction")
    draft.require(not any(loop.pipelined for loop in chain), "a loop in between fills a buffer for its next iteration")
    draft.require(not any(isinstance(node, Stage) for node in inner), "a stage stands next to the reduction")
    at = positions[0]
    reduce = inner[at]
    assert isinstance(reduce, Loop)

    def around(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        for loop in reversed(chain):
            nodes = (loop.with_body(*nodes),)
        return nodes

    update = reduce.with_body(*around(reduce.body))
    (before, init), (after, finish) = (
        draft.copy(around(nodes)) if nodes else ((), {}) for nodes in (inner[:at], inner[at + 1 :])
    )
    draft.replace(above, lambda _: (*before, update, *after))
    return Decomposed(init, finish)


def rfactor(draft: Draft, loop: str) -> Decomposed:
    """See `Schedule.rfactor`."""
    found = draft.loop(loop)
    draft.require(found.reduction, f"{loop} is no reduction")
    draft.require(found.kind == "serial" and not found.pipelined, f"{loop} is not a plain serial loop")
    draft.require(not found.derived, f"{loop} computes variables")
    draft.require(found.static_range is not None, f"the range of {loop} is not known")
    path = draft.path_to(loop)
    draft.require(all(isinstance(node, Loop) for node in path), "a stage lies around it")
    loops = [node for node in path if isinstance(node, Loop)]
    top = next(node for node in loops if node.reduction)
    draft.require(all(node.reduction for node in loops[loops.index(top):]), "a loop in between is no reduction")
    updates = [leaf for leaf in leaves(found.body) if leaf.assign.part == "update"]
    alone = bool(updates) and len(updates) == len(list(leaves(found.body)))
    draft.require(alone, f"{loop} does not hold updates alone")
    targets = [leaf.assign.target for leaf in updates]
    for target, leaf in zip(targets, updates, strict=True):
        draft.require(target.buffer.in_registers, f"{target} is not kept in registers")
        inside = {variable for node in (*loops[loops.index(top):], *leaf.loops) for variable in node.variables}
        draft.require(not inside & {v for index in target.indices for v in index},
                      f"{target} is not the same for all iterations of {top.variable}")

    for leaf in updates if found.guards else ():
        draft.require(_adds_zero_beyond(loop, leaf.assign),
                      f"{loop} is guarded, and {leaf.assign} is more than a sum of what it reads")
    parts = {target: replace(target.buffer, name=draft.fresh(f"{target.buffer.name}_{loop}")) for target in targets}
    first, last = draft.fresh(loop), draft.fresh(loop)

    def part(target: Access, variable: str) -> Access:
        return Access(parts[target], (*target.indices, (variable,)))

    def redirect(access: Access) -> Access:
        return part(access, loop) if access in parts else access

    draft.replace(loop, lambda node: (replace(node, reduction=False, body=map_assigns(node.body, redirect)),))
    plain = replace(found, reduction=False, prefetch=False, guards=())
    inits = (Assign(part(target, first), Number(0, target.buffer.element), "init") for target in targets)
    totals = (Assign(target, Total(target, part(target, last)), "update") for target in targets)
    before: Node = replace(plain, variable=first, body=tuple(inits))
    after: Node = replace(plain, variable=last, reduction=True, body=tuple(totals))
    draft.replace(top.variable, lambda node: (before, node, after))
    draft.body = _with_inits_at(draft.body, set(targets), after)
    return Decomposed({loop: first}, {loop: last})


def _with_inits_at(nodes: tuple[Node, ...], targets: set[Access], after: Node) -> tuple[Node, ...]:
    """Move the first values of targets next to the node that adds to them, where both stand in one body."""
    if any(node is after for node in nodes):
        inits = [node for node in nodes if isinstance(node, Assign) and node.part == "init" and node.target in targets]
        others = [node for node in nodes if not any(node is init for init in inits)]
        at = next(i for i, node in enumerate(others) if node is after)
        return (*others[:at], *inits, *others[at:])
    return tuple(node.with_body(*_with_inits_at(node.body, targets, after)) if isinstance(node, (Loop, Stage)) else node
                 for node in nodes)


def _adds_zero_beyond(loop: str, assign: Assign) -> bool:
    """Whether an update adds 0 where all that it reads in iterations of a loop beyond its guard is 0.

    A vector's lanes that are not loaded are.
    """
    match assign.value:
        case MultiplyAdd(Access() as left, Access() as right, Access() as before):
            factors = [left, right]
        case Total(Access() as before, Access() as term):
            factors = [term]
        case _:
            return False
    return before == assign.target and all(any(loop in index for index in access.indices) for access in factors)
