"""A product that adds to its result reads single elements through integer registers.

Where C has one row more than a vector has lanes, that row shares vectors with that of other columns: what is added to
them lies far apart, and each multiply-add needs an element of A in all lanes.  Such a product waits for vector loads
most of all, and loads into integer registers do not count among those.  So elements of A take that way to the lanes,
and the elements of C go that way to neighbouring places in the work-item's own memory, in front of the sums: a vector
that is loaded from there would have to wait if the stores were recent.  It gains a tenth with 9 rows of f32, a
twentieth of f64; products with more vectors for each broadcast element of B wait for loads less, and lose a little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tl_dpnp.lowering.nest import (
    Access,
    Assign,
    Buffer,
    Index,
    Leaf,
    Loop,
    Nest,
    Node,
    Stage,
    leaves,
    map_accesses,
)
from tl_dpnp.target.core import CACHE_LINE

__all__ = ["use_integer_loads"]

#: Bytes of an integer register.
_WORDS = (4, 8)


def use_integer_loads(nest: Nest) -> Nest:
    """Return a nest with such loads; the nest itself if it has no such row, or nothing is added to it.

    Its accumulators are placed.
    """
    columns = [leaf for leaf in leaves(nest.body) for loop in leaf.loops
               if loop.kind == "vectorized" and not loop.derived]
    if not columns or not all(map(_is_one_vector, columns)):
        return nest
    body = _with_copies(nest.body)
    return nest if body == nest.body else replace(nest, body=_with_integer_broadcasts(body))


def _is_one_vector(leaf: Leaf) -> bool:
    """Whether the vectorized loops around an assignment have no more lanes than the widest vector."""
    iterations = (loop.static_range for loop in leaf.loops if loop.kind == "vectorized")
    most = CACHE_LINE // leaf.assign.target.buffer.element.bytes
    return all(range_ is not None and len(range_) <= most for range_ in iterations)


def _with_copies(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Copy what is added to shared vectors, in front of their sums."""
    result: list[Node] = []
    for node in nodes:
        match node:
            case Loop() if (row := _row_added_to(node)) and (start := _last_start_of_sums(result)) is not None:
                copied, adding = _copied(node, row)
                result.insert(start, copied)
                result.append(adding)
            case Loop() | Stage():
                result.append(node.with_body(*_with_copies(node.body)))
            case _:
                result.append(node)
    return tuple(result)


def _row_added_to(loop: Loop) -> Access | None:
    """Return what a loop of shared vectors adds to, if its elements lie apart."""
    match loop:
        case Loop(kind="vectorized", derived=(_, *_), body=(Assign(part="finish", update="set") as assign,)):
            for access in filter(_is_word, assign.reads):
                strides = {s for i, s in zip(access.indices, access.buffer.strides, strict=True) if _moves(i, loop)}
                if strides and 1 not in strides:
                    return access
    return None


def _last_start_of_sums(nodes: Sequence[Node]) -> int | None:
    """Return the position of the node that begins to set the last sums to 0."""
    sets = [any(leaf.assign.part == "init" for leaf in leaves((node,))) for node in nodes]
    return max((i for i, here in enumerate(sets) if here and not (i and sets[i - 1])), default=None)


def _copied(loop: Loop, row: Access) -> tuple[Loop, Loop]:
    """Return a loop that copies a row of the result, and the one that adds to it, which reads the copy."""
    assert loop.static_range is not None
    buffer = Buffer(f"{row.buffer.name}.{loop.variable}", row.buffer.element, scope="private")
    buffer = buffer.reshaped((loop.static_range.stop,))
    new = {variable: f"{variable}.copied" for variable in loop.variables}

    def renamed(index: Index) -> Index:
        return tuple(new.get(variable, variable) for variable in index)

    source = replace(row, indices=tuple(map(renamed, row.indices)), is_integer_load=True)
    copy = replace(
        loop, kind="unrolled", variable=new[loop.variable],
        derived=tuple(replace(d, variable=new[d.variable], index=renamed(d.index)) for d in loop.derived),
        body=(Assign(Access(buffer, ((new[loop.variable],),)), source, "copy"),),
    )
    (assign,) = loop.body
    assert isinstance(assign, Assign)
    copied = Access(buffer, ((loop.variable,),))
    value = map_accesses(assign.value, lambda access: copied if access == row else access)
    return copy, loop.with_body(replace(assign, value=value))


def _with_integer_broadcasts(nodes: tuple[Node, ...], vector: Loop | None = None) -> tuple[Node, ...]:
    """Load some of what is the same in all lanes of the sums through integer registers.

    Of what shared vectors take that is all; of the elements of B it is those of the first column, and those of 8 bytes
    only, since the way to the lanes takes time of its own.  `vector` is the vectorized loop around the nodes.
    """
    result: list[Node] = []
    for node in nodes:
        match node:
            case Assign(part="update") if vector is not None and vector.derived:
                result.append(_broadcast(node, vector))
            case Loop(kind="unrolled", start=int(first), body=(Assign(part="update") as update,)) if (
                vector is not None and update.target.buffer.element.bytes == max(_WORDS)
            ):
                result.append(replace(node, stop=first + node.step, body=(_broadcast(update, vector),)))
                result.append(replace(node, start=first + node.step))
            case Loop() | Stage():
                inner = node if isinstance(node, Loop) and node.kind == "vectorized" else vector
                result.append(node.with_body(*_with_integer_broadcasts(node.body, inner)))
            case _:
                result.append(node)
    return tuple(result)


def _broadcast(assign: Assign, vector: Loop) -> Assign:
    """Return an assignment that loads what is the same in all lanes of a vector through integer registers."""
    def change(access: Access) -> Access:
        is_same = not any(_moves(index, vector) for index in access.indices)
        return replace(access, is_integer_load=is_same and _is_word(access))

    return replace(assign, value=map_accesses(assign.value, change))


def _moves(index: Index, loop: Loop) -> bool:
    """Whether an index differs from one iteration of a loop to the next."""
    moving = {loop.variable, *(d.variable for d in loop.derived if d.modulus != 1)}
    return not moving.isdisjoint(index)


def _is_word(access: Access) -> bool:
    """Whether an access is to an operand whose elements an integer register holds as they are."""
    element = access.buffer.element
    is_number = element.is_float or element.is_integer
    return access.buffer.scope == "global" and is_number and not element.is_subbyte and element.bytes in _WORDS
