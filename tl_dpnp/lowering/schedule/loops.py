"""The primitives that change the loops of a nest: split, fuse, reorder, and how iterations run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal, NamedTuple

from tl_dpnp.lowering.nest import (
    Derived,
    Guard,
    Loop,
    LoopKind,
    Node,
    RoundDown,
    Stage,
    loops_of,
    round_down,
    stages_of,
)
from tl_dpnp.lowering.schedule.draft import Draft, substitute

__all__ = ["BINDINGS", "Binding", "Split", "Tail", "bind", "fuse", "load_ahead", "mark", "prefetch", "reorder", "split",
           "unroll", "vectorize"]

Tail = Literal["remainder", "guard"]
Binding = Literal["rows", "columns", "lanes", "subgroups", "virtual"]
BINDINGS: tuple[Binding, ...] = ("rows", "columns", "lanes", "subgroups", "virtual")


class Split(NamedTuple):
    """The loops that a split made; `remainder` is None where the factor divides the range.

    `renamed` maps each loop and stage inside the split loop to its copy in the remainder.
    """

    outer: str
    inner: str
    remainder: str | None
    renamed: Mapping[str, str]


def split(draft: Draft, loop: str, factor: int, tail: Tail = "remainder") -> Split:
    """See `Schedule.split`."""
    found = draft.loop(loop)
    draft.require(isinstance(factor, int) and factor >= 1, "the factor must be at least 1")
    draft.require(tail in ("remainder", "guard"), f"tail is remainder or guard, not {tail}")
    _require_serial(draft, found, "; split it before")
    outer, inner = draft.fresh(f"{loop}.0"), draft.fresh(f"{loop}.1")
    width = factor * found.step
    renaming = {loop: (outer, inner)}
    (renewed,) = substitute((replace(found, variable="*"),), renaming)
    assert isinstance(renewed, Loop)
    static = found.static_range
    divides = static is not None and len(static) % factor == 0
    guards: tuple[Guard, ...] = renewed.guards
    if tail == "guard" and not divides:
        guards = (((outer, inner), found.stop), *guards)
    inner_loop = Loop(
        inner, 0, width, renewed.body, found.step, reduction=found.reduction, guards=guards, derived=renewed.derived
    )
    stop = found.stop
    if tail == "remainder" and not divides:
        stop = _full_part(draft, found, width)
    outer_loop = Loop(
        outer, found.start, stop, (inner_loop,), width, reduction=found.reduction, prefetch=found.prefetch
    )
    nodes: list[Node] = [outer_loop]
    remainder: str | None = None
    renamed: dict[str, str] = {}
    if tail == "remainder" and not divides:
        (rest,), renamed = draft.copy((found,))
        assert isinstance(rest, Loop)
        remainder = renamed.pop(loop)
        nodes.append(replace(rest, start=stop))
    draft.replace(loop, lambda _: tuple(nodes))
    draft.body = _without_settled_guards(draft.body, {})
    return Split(outer, inner, remainder, renamed)


def _without_settled_guards(nodes: tuple[Node, ...], last: Mapping[str, int]) -> tuple[Node, ...]:
    """Leave out the guards that always hold; `last` has the last value of each variable around, where it is known."""
    def is_open(guard: Guard, known: Mapping[str, int]) -> bool:
        names, bound = guard
        return not (isinstance(bound, int) and all(name in known for name in names)
                    and sum(known[name] for name in names) < bound)

    result: list[Node] = []
    for node in nodes:
        match node:
            case Loop():
                known = {**last, node.variable: max(node.static_range)} if node.static_range else last
                guards = tuple(guard for guard in node.guards if is_open(guard, known))
                result.append(replace(node, guards=guards, body=_without_settled_guards(node.body, known)))
            case Stage():
                result.append(node.with_body(*_without_settled_guards(node.body, last)))
            case _:
                result.append(node)
    return tuple(result)


def _require_serial(draft: Draft, loop: Loop, advice: str = "") -> None:
    draft.require(loop.kind == "serial", f"the loop {loop.variable} is {loop.kind}{advice or ' already'}")
    draft.require(not loop.pipelined, f"the loop {loop.variable} fills a buffer for its next iteration")


def _full_part(draft: Draft, loop: Loop, width: int) -> int | RoundDown:
    """Return where the part of a loop that is made of whole tiles ends."""
    static = loop.static_range
    if static is not None:
        draft.require(len(static) * loop.step >= width, f"the loop has only {len(static)} iterations")
        assert isinstance(loop.start, int)
        return loop.start + len(static) * loop.step // width * width
    start = loop.start
    aligned = start == 0 or (isinstance(start, RoundDown) and start.factor % width == 0)
    draft.require(aligned, "the start of the loop is no multiple of the factor")
    stop = round_down(loop.stop, width)
    assert not isinstance(stop, int)
    return stop if isinstance(stop, RoundDown) else RoundDown(stop, width)


def fuse(draft: Draft, outer: str, inner: str) -> str:
    """See `Schedule.fuse`."""
    first, second = draft.loop(outer), draft.loop(inner)
    draft.require(first.body == (second,), f"{inner} is not perfectly nested in {outer}")
    for loop in (first, second):
        _require_serial(draft, loop)
        draft.require(loop.static_range is not None, f"the range of {loop.variable} is not known")
    draft.require(first.reduction == second.reduction, "one of the loops is a reduction, the other is not")
    assert first.static_range is not None
    assert second.static_range is not None
    inner_count, outer_count = len(second.static_range), len(first.static_range)
    draft.require(inner_count * outer_count > 0, "one of the loops has no iterations")
    fused = draft.fresh(f"{outer}*{inner}")
    derived = (
        Derived(outer, (fused,), inner_count, outer_count, first.step, first.static_range.start),
        *first.derived,
        Derived(inner, (fused,), 1, inner_count, second.step, second.static_range.start),
        *second.derived,
    )
    guards = (*first.guards, *second.guards)
    result = Loop(
        fused, 0, inner_count * outer_count, second.body, reduction=first.reduction, guards=guards, derived=derived,
        prefetch=first.prefetch or second.prefetch,
    )
    draft.replace(outer, lambda _: (result,))
    return fused


def reorder(draft: Draft, *loops: str) -> None:
    """See `Schedule.reorder`."""
    draft.require(len(set(loops)) == len(loops) > 0, "give each loop once")
    chain: list[Loop] = []
    node = draft.loop(min(loops, key=lambda name: len(draft.path_to(draft.loop(name).variable))))
    while True:
        chain.append(node)
        if len(chain) == len(loops):
            break
        following = node.body[0]
        draft.require(
            len(node.body) == 1 and isinstance(following, Loop), f"{node.variable} holds more than a loop"
        )
        assert isinstance(following, Loop)
        node = following
    by_name = {entry.variable: entry for entry in chain}
    draft.require(set(by_name) == set(loops), "the loops are not perfectly nested in one another")
    draft.require(not any(entry.pipelined for entry in chain), "one of the loops fills a buffer for its next iteration")
    draft.require(not any(entry.kind == "tensorized" for entry in chain), "one of the loops is tensorized")
    body = chain[-1].body
    hidden = {variable for entry in chain for variable in entry.variables}
    for name in loops:
        loop = by_name[name]
        hidden -= {loop.variable}
        for derived in loop.derived:
            draft.require(not hidden & set(derived.index), f"{name} computes {derived.variable} from an outer loop")
            hidden -= {derived.variable}
        needs = {variable for index, _ in loop.guards for variable in index}
        draft.require(not hidden & needs, f"the guard of {name} needs an outer loop")
    for name in reversed(loops):
        body = (by_name[name].with_body(*body),)
    draft.replace(chain[0].variable, lambda _: body)


def mark(draft: Draft, loop: str, kind: LoopKind) -> None:
    """Change how the iterations of a serial loop run."""
    draft.require(draft.loop(loop).kind == "serial", f"the loop is {draft.loop(loop).kind} already")
    draft.replace(loop, lambda node: (replace(node, kind=kind),))


def unroll(draft: Draft, loop: str) -> None:
    """See `Schedule.unroll`."""
    draft.require(draft.loop(loop).static_range is not None, "its range is not known")
    mark(draft, loop, "unrolled")


def vectorize(draft: Draft, loop: str) -> None:
    """See `Schedule.vectorize`."""
    draft.require(draft.loop(loop).static_range is not None, "its range is not known")
    draft.require(draft.loop(loop).step == 1, "its step is not 1")
    mark(draft, loop, "vectorized")


def load_ahead(draft: Draft, loop: str) -> None:
    """See `Schedule.load_ahead`."""
    found = draft.loop(loop)
    draft.require(found.kind == "unrolled", f"the loop {loop} is {found.kind}, not unrolled")
    draft.require(not found.guards and not found.pipelined, f"the loop {loop} has a guard or fills a buffer")
    draft.require(next(stages_of(found.body), None) is None, f"a copy is made inside {loop}")
    for inner in loops_of(found.body):
        draft.require(inner.kind in ("unrolled", "vectorized", "tensorized") and not inner.guards,
                      f"the loop {inner.variable} inside is {inner.kind} or has a guard")
    draft.replace(loop, lambda node: (replace(node, loads_ahead=True),))


def bind(draft: Draft, loop: str, kind: Binding) -> None:
    """See `Schedule.bind`."""
    draft.require(kind in BINDINGS, f"a loop is bound to one of {', '.join(BINDINGS)}")
    found = draft.loop(loop)
    if kind in ("lanes", "virtual"):
        draft.require(found.static_range is not None, "its range is not known")
    if kind == "lanes":
        draft.require(found.start == 0, "it does not count from 0")
    mark(draft, loop, kind)


def prefetch(draft: Draft, loop: str) -> None:
    """See `Schedule.prefetch`."""
    draft.require(draft.loop(loop).kind == "serial", "the loop is not serial")
    static = all(node.static_range is not None for node in draft.path_to(loop) if isinstance(node, Loop))
    draft.require(static, "the range of the loop, or of one around it, is not known")
    draft.replace(loop, lambda node: (replace(node, prefetch=True),))
