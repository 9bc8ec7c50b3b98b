"""Virtual threads: their iterations run in one work-item, interleaved statement by statement.

The loop moves inwards, through every loop that does not depend on it, to the single assignments, where it is
unrolled.  A copy that its body keeps in registers gets one more mode: each virtual thread has its own.
"""

from __future__ import annotations

from dataclasses import replace

from tl_dpnp.lowering.nest import Access, Assign, Buffer, Loop, Nest, Node, Stage, map_assigns, stages_of

__all__ = ["interleave"]


def interleave(nest: Nest) -> Nest:
    """Return the nest without virtual loops."""
    return replace(nest, body=_rewritten(nest.body))


def _rewritten(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    result: list[Node] = []
    for node in nodes:
        if not isinstance(node, (Loop, Stage)):
            result.append(node)
            continue
        body = _rewritten(node.body)
        if isinstance(node, Loop) and node.kind == "virtual":
            result += _pushed(node, _with_own_copies(node, body))
        else:
            result.append(node.with_body(*body))
    return tuple(result)


def _with_own_copies(loop: Loop, body: tuple[Node, ...]) -> tuple[Node, ...]:
    """Add a mode for the virtual thread to the copies that are made inside its loop."""
    assert loop.static_range is not None
    extent = max(loop.static_range, default=0) + 1
    own = {stage.buffer for stage in stages_of(body)}

    def expanded(buffer: Buffer) -> Buffer:
        order = (*(buffer.order or range(len(buffer.shape))), len(buffer.shape))
        return replace(buffer, order=order).reshaped((*buffer.shape, extent))

    def change(access: Access) -> Access:
        if access.buffer.name not in own:
            return access
        return replace(access, buffer=expanded(access.buffer), indices=(*access.indices, (loop.variable,)))

    return map_assigns(body, change)


def _pushed(virtual: Loop, nodes: tuple[Node, ...]) -> list[Node]:
    """Return the nodes with the virtual loop around each assignment, or around what depends on it."""
    unrolled = replace(virtual, kind="unrolled")
    if virtual.guards or virtual.derived:
        return [unrolled.with_body(*nodes)]
    result: list[Node] = []
    for node in nodes:
        match node:
            case Assign():
                result.append(unrolled.with_body(node))
            case Loop() if _depends(node, virtual.variable):
                result.append(unrolled.with_body(node))
            case Loop() | Stage():
                result.append(node.with_body(*_pushed(virtual, node.body)))
            case _:
                result.append(node)
    return result


def _depends(loop: Loop, variable: str) -> bool:
    return any(variable in index for index, _ in loop.guards) or any(variable in d.index for d in loop.derived)
