"""What every nest must fulfil, whatever primitives made it.

The rules are checked after each primitive, so that they hold in whatever order the primitives come.
"""

from __future__ import annotations

from tl_dpnp.kernels.llvm import power_of_two
from tl_dpnp.lowering.nest import (
    Access,
    Assign,
    Guard,
    Loop,
    Node,
    Number,
    Stage,
    Total,
    leaves,
    loops_of,
    predicate_of,
    vector_beside,
)
from tl_dpnp.lowering.schedule.draft import Draft

__all__ = ["DEALT", "check"]

#: Loops whose iterations different work-items run.
DEALT = ("lanes", "rows", "columns", "subgroups")
#: Bindings that must not be nested in one another: both would be dealt by the same position.
_SHARED_POSITION = {
    "lanes": {"lanes"}, "rows": {"rows", "subgroups"}, "columns": {"columns", "subgroups"},
    "subgroups": {"rows", "columns", "subgroups"}, "vectorized": {"tensorized"},
}


def check(draft: Draft) -> None:
    """Raise ScheduleError if the draft breaks a rule."""
    _check_paths(draft, draft.body, ())
    for loop in loops_of(draft.body):
        draft.require(not loop.prefetch or loop.kind == "serial", f"{loop.variable} prefetches, but is {loop.kind}")
        if loop.kind in ("vectorized", *DEALT, "virtual"):
            draft.require(not loop.reduction or _adds_lanes(loop),
                          f"{loop.variable} is a reduction, whose iterations depend on one another")
            draft.require(not loop.pipelined, f"{loop.variable} fills a buffer for its next iteration")
        if loop.kind == "vectorized" and not loop.reduction:
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
                for counted in (*around, node) if node.prefetch else ():
                    draft.require(
                        counted.static_range is not None,
                        f"{node.variable} prefetches, but the range of {counted.variable} is not known",
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


def _adds_lanes(loop: Loop) -> bool:
    """Whether a vectorized reduction adds up the lanes of a vector in registers."""
    plain = loop.kind == "vectorized" and not loop.guards and not loop.derived
    return plain and all(_adds_lanes_of(loop, node) for node in loop.body)


def _adds_lanes_of(loop: Loop, node: Node) -> bool:
    match node:
        case Assign(target, Total(lhs, Access(buffer, indices)), "update", "set"):
            used = [index for index in indices if loop.variable in index]
            return lhs == target and buffer.in_registers and used == [(loop.variable,)] and not any(
                loop.variable in index for index in target.indices)
    return False


def _has_lanes_of_registers(loop: Loop) -> bool:
    """Whether a vectorized loop adds up lanes of registers, or sets them to a number."""
    if loop.reduction:
        return _adds_lanes(loop)
    return not loop.guards and not loop.derived and all(
        isinstance(node, Assign) and node.target.buffer.in_registers and isinstance(node.value, Number)
        for node in loop.body)


def _check_vectorized(draft: Draft, loop: Loop) -> None:
    name = loop.variable
    inner = list(loops_of(loop.body))
    computed = {d.variable for d in loop.derived}
    predicate = predicate_of(loop)
    if predicate is not None:
        _check_predicate(draft, loop, predicate)
    for entry in (loop, *inner):
        for index, _ in (guard for guard in entry.guards if guard is not predicate):
            draft.require(not {name, *computed} & set(index), f"the guard of {entry.variable} depends on {name}")
        for derived in entry.derived:
            own = entry is loop and derived.index == (name,)
            draft.require(own or not {name, *computed} & set(derived.index),
                          f"{derived.variable} is computed from {name} and others")
    for leaf in leaves(loop.body):
        target = leaf.assign.target
        used = [v for index in target.indices for v in index if v == name or v in computed]
        # What a fused loop computes tells its iterations apart only together.
        enough = used == [name] or (computed and set(used) == computed and len(used) == len(computed))
        draft.require(bool(enough), f"{target} does not use {name} in exactly one index")
    if any(entry.kind == "vectorized" for entry in inner):
        _check_transposition(draft, loop)


def _check_predicate(draft: Draft, loop: Loop, predicate: Guard) -> None:
    """Lanes that do not take part are left out of whole vectors: of neighbours in memory, which are only set."""
    name = loop.variable
    inside = {variable for inner in loops_of(loop.body) for variable in inner.variables}
    draft.require(not loop.derived and predicate[0].count(name) == 1 and not inside & set(predicate[0]),
                  f"the guard of {name} depends on more than its lanes")
    for leaf in leaves(loop.body):
        draft.require(leaf.assign.update == "set", f"lanes of {name} are guarded, and {leaf.assign.target} is atomic")
        for access in (leaf.assign.target, *leaf.assign.reads):
            if access.buffer.in_registers:
                continue
            strides = [s for entry, s in zip(access.indices, access.buffer.strides, strict=True) if name in entry]
            whole = not strides or (strides == [1] and not access.buffer.element.is_subbyte)
            draft.require(whole, f"lanes of {name} are guarded, and {access} is not consecutive along it")


def _check_transposition(draft: Draft, loop: Loop) -> None:
    """Two vectorized loops inside one another must be a copy of a region that uses each in one index.

    Or those inside set or add up the lanes of vectors in registers, which each lane of the one around has one of.  Or
    vectors have lanes of both.
    """
    inner_vectors = [entry for entry in loops_of(loop.body) if entry.kind == "vectorized"]
    if not loop.guards and not loop.derived and all(map(_has_lanes_of_registers, inner_vectors)):
        return
    beside = vector_beside(loop)
    if beside is not None and _is_of_sums(beside):
        _check_beside(draft, loop, beside)
        return
    match loop.body:
        case (Loop(kind="vectorized", body=(Assign(target, Access() as source, "copy", "set"),)) as inner,):
            plain = not loop.guards and not loop.derived and not inner.guards and not inner.derived
            used = [sum(v in index for index in access.indices)
                    for access in (target, source) for v in (loop.variable, inner.variable)]
            apart = not any(loop.variable in i and inner.variable in i for a in (target, source) for i in a.indices)
            draft.require(plain and used == [1, 1, 1, 1] and apart,
                          f"{loop.variable} and the loop inside are not the two modes of a copy")
            return
    raise draft.error(f"{loop.variable} is vectorized around another vectorized loop, which is no copy")


def _is_of_sums(loop: Loop) -> bool:
    """Whether a vectorized loop sums in registers, or adds up lanes of such sums."""
    return all(leaf.assign.target.buffer.in_registers for leaf in leaves(loop.body)) or any(
        _adds_lanes(entry) for entry in loops_of(loop.body) if entry.reduction)


def _check_beside(draft: Draft, loop: Loop, inner: Loop) -> None:
    """Vectors with lanes of two loops; what these add up in registers has as many lanes of the outer one each time."""
    predicate = predicate_of(inner)
    plain = not any((loop.guards, loop.derived, inner.derived)) and inner.guards in ((), (predicate,))
    draft.require(plain, f"{loop.variable} or {inner.variable}, whose lanes are of the same vectors, has a guard or "
                         "computes variables")
    if predicate is not None:
        known = isinstance(predicate[1], int)
        kept = all(leaf.assign.target.buffer.in_registers for leaf in leaves(inner.body))
        draft.require(known and kept, f"lanes of {inner.variable} are guarded beside those of {loop.variable}, by what "
                                      "is not known or where results leave registers")
    for entry in loops_of(inner.body):
        if entry.kind == "vectorized":
            count = len(entry.static_range or ())
            draft.require(_has_lanes_of_registers(entry) and count == power_of_two(count),
                          f"{entry.variable} is vectorized inside {inner.variable}, whose vectors have lanes of "
                          f"{loop.variable}, and does not set or add up a power of two of lanes in registers")
