"""A part of a nest that a warp computes by ``mma.sync``: what its lanes have of a tile of the result.

The schedule deals the tile to the lanes as the instruction does it: lane 4 g + t has row g of each block of eight rows,
and the columns 2 t and 2 t + 1.  What is left to each lane are three loops: over the blocks, over the two columns and
over the sum.  For the sum, a lane needs elements that others have; the emitter reads them by the instruction's layout.
"""

from __future__ import annotations

from dataclasses import replace

from tl_dpnp.kernels.mma.rows import ROWS, MmaRow
from tl_dpnp.lowering.nest import Access, Assign, Buffer, Convert, Expression, Loop, MultiplyAdd, Nest, stages_of
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import ScalarType

__all__ = ["WarpTile", "element_of", "row_of", "warp_tile_of"]

#: Rows of a block, and columns of a lane.
_BLOCK, _PAIR = 8, 2


@dataclass(frozen=True)
class WarpTile:
    """The loops over blocks of rows, columns and the sum, outermost first, and the assignment inside.

    `left` and `right` are the factors, which read `a` and `b`; the modes are those of A and of the result along the
    rows, and that of B along the columns.
    """

    blocks: Loop | None
    pair: Loop
    depth: Loop
    assign: Assign
    left: Expression
    right: Expression
    a: Access
    b: Access
    row_mode: int
    a_mode: int
    b_mode: int

    @property
    def target(self) -> Access:
        """The element of the result."""
        return self.assign.target

    def tensorized(self, row: MmaRow) -> Loop:
        """Return the loops as one instruction."""
        loop = replace(self.depth, kind="tensorized", body=(self.assign,))
        for outer in (self.pair, *([] if self.blocks is None else [self.blocks])):
            loop = replace(outer, kind="tensorized", body=(loop,))
        return replace(loop, instruction=row.name)


def row_of(loop: Loop) -> MmaRow | None:
    """Return the form of ``mma.sync`` that a loop stands for, if it does."""
    return None if loop.instruction is None else ROWS.get(loop.instruction)


def warp_tile_of(loop: Loop, row: MmaRow) -> WarpTile | None:
    """Return the loops of a part of a nest by what they do for an instruction, or None where they do not fit."""
    chain = [loop]
    while len(chain[-1].body) == 1 and isinstance(chain[-1].body[0], Loop):
        chain.append(chain[-1].body[0])
    kinds = ("serial", "tensorized")
    if any(entry.kind not in kinds or entry.guards or entry.derived or entry.pipelined for entry in chain):
        return None
    match chain[-1].body:
        case (Assign(target, MultiplyAdd(left, right, addend), "update", "set") as assign,) if addend == target:
            pass
        case _:
            return None
    a, b = _element(left), _element(right)
    if a is None or b is None or not all(_is_matrix(access) for access in (a, b, target)):
        return None
    ranges = [entry.static_range for entry in chain]
    blocks, pair, depth = [None, *chain][-3:] if len(chain) in (2, 3) else (None, None, None)
    wanted = [range(0, row.m, _BLOCK)] * (row.m > _BLOCK) + [range(_PAIR), range(row.k)]
    if ranges != wanted or pair is None or depth is None:
        return None
    row_modes = [_modes(access, blocks) for access in (target, a)] if blocks is not None else None
    columns = [_modes(access, pair) for access in (target, b)]
    sums = [_modes(access, depth) for access in (a, b)]
    if not all(len(modes) == 1 for modes in (*columns, *sums, *(row_modes or ()))) or _modes(target, depth):
        return None
    row_mode, a_mode, b_mode = 1 - columns[0][0], 1 - sums[0][0], columns[1][0]
    fits = b_mode != sums[1][0] and (row_modes is None or row_modes == [[row_mode], [a_mode]])
    apart = not _modes(a, pair) and (blocks is None or not _modes(b, blocks))
    if not (fits and apart):
        return None
    return WarpTile(blocks, pair, depth, assign, left, right, a, b, row_mode, a_mode, b_mode)


def element_of(nest: Nest, buffer: Buffer) -> ScalarType:
    """Return the type that the elements of a buffer have, or of which they are copies."""
    sources = {stage.buffer: stage.source for stage in stages_of(nest.body) if not stage.write_back}
    name = buffer.name
    while name in sources:
        name = sources[name]
    return nest.buffers[name].element


def _element(expression: Expression) -> Access | None:
    match expression:
        case Access():
            return expression
        case Convert(Access() as access):
            return access
    return None


def _is_matrix(access: Access) -> bool:
    """Whether an access has two modes, besides that of a double buffer."""
    return len(access.indices) == (3 if access.buffer.doubled else 2)


def _modes(access: Access, loop: Loop) -> list[int]:
    """Return the modes that a loop indexes."""
    return [mode for mode, index in enumerate(access.indices) if loop.variable in index]
