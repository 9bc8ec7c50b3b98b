"""The primitives that copy operands closer to where they are used, and results back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from tl_dpnp.lowering.nest import (
    Access,
    Assign,
    Buffer,
    Derived,
    Index,
    Leaf,
    Loop,
    Node,
    Stage,
    loops_of,
    map_accesses,
    map_assigns,
    stages_of,
    variables_of,
)
from tl_dpnp.lowering.schedule.draft import Draft, substitute
from tl_dpnp.lowering.schedule.regions import Extent, exceeds, extents, require_box

__all__ = ["CacheScope", "block_layout", "cache_read", "cache_write", "compute_at", "copy_async", "double_buffer",
           "reverse_compute_at", "storage_align", "transform_layout"]

CacheScope = Literal["local", "registers"]
#: Buffers that a copy may have in turns.
MOST_BUFFERS = 8


def _uses(draft: Draft, buffer: str, *, writes: bool) -> list[tuple[Leaf, tuple[Index, ...]]]:
    """Return the accesses of a buffer: those that write it, or those that read it."""
    found = []
    for leaf in draft.leaves():
        accesses = (leaf.assign.target,) if writes else leaf.assign.reads
        found += [(leaf, access.indices) for access in accesses if access.buffer.name == buffer]
    return found


def _require_scope(draft: Draft, scope: str) -> None:
    draft.require(scope in ("local", "registers"), f"a copy is kept in local or registers, not in {scope}")


def _copies(
    draft: Draft, stage: Stage, buffer: Buffer, source: Buffer, region: Sequence[Extent], around: Sequence[Loop],
    assign: Assign | None = None,
) -> Stage:
    """Return the stage with new loops over a region; `assign` is what it wrote back before."""
    loops: list[Loop] = []
    near: list[Index] = []
    far: list[Index] = []
    for mode, (extent, size) in enumerate(zip(region, source.shape, strict=True)):
        variable = draft.fresh(f"{stage.buffer}.{mode}")
        index = (*extent.base, variable)
        guards = ((index, size),) if exceeds(extent, size, around) else ()
        loops.append(Loop(variable, extent.first, extent.stop, (), guards=guards))
        near.append((variable,))
        far.append(index)
    inside, outside = Access(buffer, tuple(near)), Access(source, tuple(far))
    if stage.write_back:
        assert assign is not None
        body: tuple[Node, ...] = (replace(assign, target=outside, value=inside),)
    else:
        body = (Assign(inside, outside, "copy"),)
    # The mode that is consecutive in the source runs innermost.
    order = source.order or range(len(loops))
    for mode in order:
        body = (loops[mode].with_body(*body),)
    return stage.with_body(*body)


def _copied_uses(
    draft: Draft, buffer: str, within: str | None, depth: int
) -> list[tuple[Leaf, tuple[Index, ...]]]:
    """Return the reads of a buffer, those in the loop `within` at a depth, which are to be of a copy."""
    source = draft.buffer(buffer)
    draft.require(source.scope != "registers", f"{buffer} is kept in registers already")
    draft.require(not source.doubled, f"{buffer} is double buffered; copy it before")
    draft.require(source.block == 1, f"{buffer} is in blocks; copy it before")
    uses = [use for use in _uses(draft, buffer, writes=False)
            if within is None or any(isinstance(n, Loop) and n.variable == within for n in use[0].path)]
    place = "" if within is None else f" in {within}"
    draft.require(bool(uses), f"nothing reads {buffer}{place}")
    draft.require(not any(isinstance(node, Stage) and node.write_back for leaf, _ in uses for node in leaf.path),
                  f"{buffer} is written back from there")
    filled = [stage for stage in stages_of(draft.body) if stage.buffer == buffer]
    if filled and within is not None:
        holders = {loop.variable for loop in _loops(draft.path_to(buffer))}
        around = {loop.variable for loop in _loops(uses[0][0].path[:depth])}
        draft.require(holders <= around, f"{buffer} is filled inside {within}")
    return uses


def cache_read(draft: Draft, buffer: str, scope: CacheScope, within: str | None = None) -> str:
    """See `Schedule.cache_read`."""
    _require_scope(draft, scope)
    source = draft.buffer(buffer)
    depth = 0 if within is None else len(draft.path_to(draft.loop(within).variable)) - 1
    uses = _copied_uses(draft, buffer, within, depth)
    around = uses[0][0].path[:depth]
    name = draft.fresh(f"{buffer}_{scope}")
    if within is None:
        # Without loops around it the region is all of the operand, whatever is accessed of it.
        region = [Extent((), 0, size) for size in source.shape]
    else:
        region = extents(draft, uses, depth, source.shape)
    enclosing = [node for node in around if isinstance(node, Loop)]
    cached = Buffer(name, source.element.in_registers, scope=scope).reshaped(tuple(extent.stop for extent in region))
    bases = [set(extent.base) for extent in region]

    def redirect(access: Access) -> Access:
        if access.buffer.name != buffer:
            return access
        indices = zip(access.indices, bases, strict=True)
        near = tuple(tuple(v for v in index if v not in base) for index, base in indices)
        return replace(access, buffer=cached, indices=near)

    def rewrite(nodes: tuple[Node, ...], active: bool) -> tuple[Node, ...]:
        result: list[Node] = []
        for node in nodes:
            match node:
                case Assign() if active:
                    scale = None if node.scale is None else map_accesses(node.scale, redirect)
                    result.append(replace(node, value=map_accesses(node.value, redirect), scale=scale))
                case Loop():
                    here = active or node.variable == within
                    if node.variable == within:
                        result.append(stage)
                    result.append(node.with_body(*rewrite(node.body, here)))
                case Stage():
                    reads = active and node.source == buffer and not node.write_back
                    redirected = replace(node, source=name) if reads else node
                    result.append(redirected.with_body(*rewrite(node.body, active)))
                case _:
                    result.append(node)
        return tuple(result)

    stage = _copies(draft, Stage(name, buffer, ()), cached, source, region, enclosing)
    draft.body = rewrite(draft.body, within is None)
    if within is None:
        # A copy of a copy stands behind that one, where its indices have a meaning.
        (*_, last) = [None, *(found for found in stages_of(draft.body) if found.buffer == buffer)]
        if last is not None:
            draft.replace_stage(buffer, (last, stage))
        else:
            draft.body = (stage, *draft.body)
    return name


def cache_write(draft: Draft, buffer: str, scope: CacheScope) -> str:
    """See `Schedule.cache_write`."""
    _require_scope(draft, scope)
    source = draft.buffer(buffer)
    draft.require(source.scope == "global", f"{buffer} is no operand")
    writers = [leaf.assign for leaf in draft.leaves() if leaf.assign.target.buffer.name == buffer]
    draft.require(bool(writers), f"{buffer} is not written")
    draft.require(all(assign.part == "finish" for assign in writers), f"{buffer} is written back from a copy already")
    name = draft.fresh(f"{buffer}_{scope}")
    cached = Buffer(name, source.element, scope=scope).reshaped(source.shape)

    def rewrite(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        result: list[Node] = []
        for node in nodes:
            if isinstance(node, Assign) and node.target.buffer.name == buffer:
                target = Access(cached, node.target.indices)
                result.append(replace(node, target=target, update="set", scale=None))
            else:
                result.append(node.with_body(*rewrite(node.body)) if isinstance(node, (Loop, Stage)) else node)
        return tuple(result)

    region = [Extent((), 0, size) for size in source.shape]
    stage = _copies(draft, Stage(name, buffer, (), write_back=True), cached, source, region, (),
                    replace(writers[0], part="copy"))
    draft.body = (*rewrite(draft.body), stage)
    return name


def compute_at(draft: Draft, stage: str, loop: str) -> None:
    """See `Schedule.compute_at`."""
    found = draft.stage(stage)
    draft.require(not found.write_back, "it writes back: reverse_compute_at moves it behind what it needs")
    _move(draft, found, loop)


def reverse_compute_at(draft: Draft, stage: str, loop: str) -> None:
    """See `Schedule.reverse_compute_at`."""
    found = draft.stage(stage)
    draft.require(found.write_back, "it reads: compute_at moves it in front of what needs it")
    _move(draft, found, loop)


def _move(draft: Draft, stage: Stage, loop: str) -> None:
    """Move the copy of a stage into a loop that holds all that shares its buffer, for the region of one iteration."""
    name = stage.buffer
    to = draft.path_to(draft.loop(loop).variable)
    old = [node.variable for node in draft.path_to(name) if isinstance(node, Loop)]
    draft.require(set(old) < {node.variable for node in _loops(to)},
                  f"{loop} does not lie inside {old[-1]}, where it is computed" if old else "")
    _require_plain(draft, stage)
    leaf = next(leaf for leaf in draft.leaves() if any(node is stage for node in leaf.path))
    uses = _uses(draft, name, writes=stage.write_back)
    holds = all(any(isinstance(n, Loop) and n.variable == loop for n in leaf.path) for leaf, _ in uses)
    draft.require(holds, f"{loop} does not hold all that {'writes' if stage.write_back else 'reads'} {name}")
    cached, source = draft.buffer(name), draft.buffer(stage.source)
    region = extents(draft, uses, len(to), cached.shape)
    if stage.write_back:
        require_box(draft, uses, len(to), cached.shape)
    # The indices of the buffer are relative to the loops around its stage; the copy knows where that is in the source.
    copied = next(a for a in (*leaf.assign.reads, leaf.assign.target) if a.buffer.name == stage.source)
    own = set(variables_of(stage.body))
    bases = [tuple(variable for variable in index if variable not in own) for index in copied.indices]
    moved = [part._replace(base=(*base, *part.base)) for part, base in zip(region, bases, strict=True)]
    smaller = cached.reshaped(tuple(part.stop for part in region))
    fixed = [set(part.base) for part in region]
    draft.replace_stage(name, ())
    draft.names -= own
    draft.replace_buffer(smaller, lambda indices: tuple(
        tuple(v for v in index if v not in base) for index, base in zip(indices, fixed, strict=True)))
    new = _copies(draft, stage, smaller, source, moved, _loops(to), leaf.assign)
    draft.replace(loop, lambda node: (node.with_body(*_inserted(node.body, new)),))


def _loops(nodes: Sequence[Node]) -> list[Loop]:
    return [node for node in nodes if isinstance(node, Loop)]


def _require_plain(draft: Draft, stage: Stage) -> None:
    """The loops of a copy are made anew when it moves, so they must not have been scheduled yet."""
    draft.require(not draft.buffer(stage.buffer).doubled, "it is double buffered; move it before")
    draft.require(draft.buffer(stage.buffer).block == 1, "it is in blocks; move it before")
    nodes, modes = stage.body, 0
    while isinstance(nodes[0], Loop):
        loop, nodes, modes = nodes[0], nodes[0].body, modes + 1
        plain = len(nodes) == 1 and loop.kind == "serial" and not loop.derived
        draft.require(plain, f"the loop {loop.variable} of its copy was scheduled; move it before")
    draft.require(modes == len(draft.buffer(stage.source).shape), "the loops of its copy were split; move it before")


def _inserted(body: tuple[Node, ...], stage: Stage) -> tuple[Node, ...]:
    """Return the body with a copy in front of the first node that reads it, or behind the last that it writes back."""
    touching = [i for i, node in enumerate(body) if _touches(node, stage)]
    at = touching[-1] + 1 if stage.write_back else touching[0]
    return (*body[:at], stage, *body[at:])


def _touches(node: Node, stage: Stage) -> bool:
    """Whether a node reads the buffer of a stage, or writes what the stage writes back."""
    match node:
        case Assign(target):
            accesses = (target,) if stage.write_back else node.reads
            return any(access.buffer.name == stage.buffer for access in accesses)
        case Loop() | Stage():
            return any(_touches(inner, stage) for inner in node.body)
        case _:
            return False


def double_buffer(draft: Draft, stage: str, buffers: int = 2) -> None:
    """See `Schedule.double_buffer`."""
    draft.require(2 <= buffers <= MOST_BUFFERS, f"a copy has 2 to {MOST_BUFFERS} buffers, not {buffers}")
    found = draft.stage(stage)
    draft.require(not found.write_back, "it writes back")
    draft.require(not draft.buffer(stage).doubled, "it is double buffered already")
    draft.require(draft.buffer(stage).block == 1, "it is in blocks")
    path = draft.path_to(stage)
    loop = path[-2] if len(path) > 1 else None
    if not isinstance(loop, Loop):
        raise draft.error("it is not computed inside a loop")
    draft.require(loop.kind in ("serial", "unrolled"), f"the loop {loop.variable} is {loop.kind}")
    draft.require(not loop.guards, f"the loop {loop.variable} has a guard")
    draft.require(loop.pipelined or not loop.derived, f"the loop {loop.variable} was fused")
    draft.require(all(inner.buffer != found.source for inner in stages_of(loop.body)),
                  f"{found.source} is not there before its iteration")
    start = loop.start
    if not isinstance(start, int):
        raise draft.error(f"the start of {loop.variable} is not known")
    half, first, first_half, ahead, following, following_half = (
        draft.fresh(f"{loop.variable}.{word}")
        for word in ("half", "first", "first_half", "ahead", "next", "next_half")
    )
    buffer = draft.buffer(stage)
    order = (*(buffer.order or range(len(buffer.shape))), len(buffer.shape))
    doubled = replace(buffer, order=order, doubled=True).reshaped((*buffer.shape, buffers))
    filled = buffers - 1

    def fill(nodes: tuple[Node, ...], iteration: str, into: str) -> Stage:
        """Return the copy for an iteration of the loop, into one of the buffers."""
        def change(access: Access) -> Access:
            if access.buffer.name != stage:
                return access
            return replace(access, buffer=doubled, indices=(*access.indices, (into,)))

        return found.with_body(*substitute(map_assigns(nodes, change), {loop.variable: (iteration,)}))

    is_long = loop.static_range is not None and len(loop.static_range) >= filled
    prologue = Loop(
        first, start, start + loop.step * filled, (fill(draft.copy(found.body)[0], first, first_half),), loop.step,
        kind="unrolled", guards=() if is_long else (((first,), loop.stop),),
        derived=(Derived(first_half, (first,), loop.step, buffers),),
    )
    prefetch = Loop(
        ahead, 0, 1, (fill(found.body, following, following_half),), kind="unrolled",
        guards=(((following,), loop.stop),),
        derived=(
            Derived(following, (loop.variable,), start=loop.step * filled),
            Derived(following_half, (following,), loop.step, buffers),
        ),
    )
    draft.replace_stage(stage, ())
    draft.replace_buffer(doubled, lambda indices: (*indices, (half,)))

    def pipelined(node: Loop) -> tuple[Node, ...]:
        derived = (*node.derived, Derived(half, (node.variable,), node.step, buffers))
        return prologue, replace(node, body=(prefetch, *node.body), derived=derived, pipelined=True)

    draft.replace(loop.variable, pipelined)


def copy_async(draft: Draft, stage: str) -> None:
    """See `Schedule.copy_async`."""
    found = draft.stage(stage)
    draft.require(not found.write_back, "it writes back")
    draft.require(draft.buffer(stage).scope == "local" and draft.buffer(found.source).scope == "global",
                  "only copies of operands to local memory are asynchronous")
    bits = draft.buffer(stage).element.bits
    draft.require(bits % 16 == 0, f"elements of {bits} bits are not copied so")

    def rewrite(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(
            replace(node, asynchronous=node.asynchronous or node.buffer == stage, body=rewrite(node.body))
            if isinstance(node, Stage) else node.with_body(*rewrite(node.body)) if isinstance(node, Loop) else node
            for node in nodes
        )

    draft.body = rewrite(draft.body)


def storage_align(draft: Draft, stage: str, mode: int, factor: int, offset: int = 0) -> None:
    """See `Schedule.storage_align`."""
    buffer = draft.buffer(draft.stage(stage).buffer)
    draft.require(0 <= mode < len(buffer.shape), f"{stage} has {len(buffer.shape)} modes")
    draft.require(factor >= 1 and 0 <= offset < factor, "the offset must be less than the factor")
    order = buffer.order or tuple(range(len(buffer.shape)))
    draft.require(mode != order[0], f"mode {mode} is the consecutive one")
    kept = tuple(entry for entry in buffer.alignment if entry[0] != mode)
    padding = ((mode, factor, offset),) if factor > 1 else ()
    draft.replace_buffer(replace(buffer, alignment=(*kept, *padding)).reshaped(buffer.shape))


def transform_layout(draft: Draft, stage: str, *order: int) -> None:
    """See `Schedule.transform_layout`."""
    buffer = draft.buffer(draft.stage(stage).buffer)
    draft.require(buffer.block == 1, "it is in blocks")
    modes = len(buffer.shape) - buffer.doubled
    draft.require(sorted(order) == list(range(modes)), f"give each of the {modes} modes once, the fastest first")
    draft.require(not any(mode == order[0] for mode, _, _ in buffer.alignment), f"the stride of {order[0]} is padded")
    # The halves of a double buffer stay the slowest mode.
    full = (*order, *range(modes, len(buffer.shape)))
    draft.replace_buffer(replace(buffer, order=full).reshaped(buffer.shape))


def block_layout(draft: Draft, stage: str, mode: int, factor: int) -> None:
    """See `Schedule.block_layout`."""
    buffer = draft.buffer(draft.stage(stage).buffer)
    modes = len(buffer.shape)
    draft.require(0 <= mode < modes, f"{stage} has {modes} modes")
    draft.require(factor > 1, "a block has two elements or more")
    draft.require(not buffer.doubled and buffer.block == 1, "it is double buffered, or in blocks already")
    size = buffer.shape[mode]
    if not isinstance(size, int):
        raise draft.error(f"the size of mode {mode} is not known")
    ranges: dict[str, range | None] = {}
    for loop in loops_of(draft.body):
        ranges[loop.variable] = loop.static_range
        ranges.update((derived.variable, derived.static_range) for derived in loop.derived)

    def cut(indices: tuple[Index, ...]) -> tuple[Index, ...]:
        known = [(name, values) for name in indices[mode] if (values := ranges[name]) is not None]
        blocks = tuple(name for name, values in known if all(value % factor == 0 for value in values))
        inside = tuple(name for name, _ in known if name not in blocks)
        places = [values for name, values in known if name in inside]
        draft.require(
            len(known) == len(indices[mode]) and all(min(values, default=0) >= 0 for values in places)
            and sum(max(values, default=0) for values in places) < factor,
            f"{' + '.join(indices[mode])} does not say which block of {factor} elements it means, and where in that")
        return (*indices[:mode], inside, *indices[mode + 1 :], blocks)

    order = (mode, *(other for other in buffer.order or range(modes) if other != mode), modes)
    shape = (*buffer.shape[:mode], factor, *buffer.shape[mode + 1 :], -(-size // factor) * factor)
    alignment = tuple(entry for entry in buffer.alignment if entry[0] != mode)
    blocked = replace(buffer, order=order, alignment=alignment, block=factor).reshaped(shape)
    draft.replace_buffer(blocked, cut)
