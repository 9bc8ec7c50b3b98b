"""Factors of products in the registers of a sub-group, loaded by messages of blocks from any place of a matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from tl_dpnp.kernels.dpas.accumulators import EmulatedFragment, Fragment, Part, taken_apart
from tl_dpnp.kernels.dpas.block_messages import BlockMessages, Surface
from tl_dpnp.kernels.dpas.block_shapes import COLUMN, ROW, Block
from tl_dpnp.kernels.dpas.functions import operand_types
from tl_dpnp.kernels.dpas.moving_headers import Header
from tl_dpnp.kernels.dpas.rows import DpasRow
from tl_dpnp.kernels.dpas.tile_blocks import TileLoad, TileLoads
from tl_dpnp.kernels.llvm import index
from tl_dpnp.records import dataclass

__all__ = [
    "DeferredFactor", "Fragments", "factor_headers", "load_block", "load_factor", "unbroadcast",
]

#: Fragments by their blocks of lines and steps along the sum.
Fragments = dict[tuple[int, int], Part]


def factor_headers(
    messages: BlockMessages, loads: TileLoads, surface: Surface, place: tuple[ir.Value, ir.Value],
    moving: int | None = None, before: Callable[[Block], int] = lambda _: 0,
) -> list[ir.Value]:
    """Return the headers of messages for a factor whose first element is at a column and a row of lines of a matrix.

    A field that a loop changes in place is `moving`, from so much `before` on: such headers are copies of the first one
    that are changed in place themselves.  Others are values, whose field along the sum is set last.
    """
    places = [(load.line, load.k) if loads.lines_are_columns else (load.k, load.line) for load in loads.loads]
    fields = (loads.k_field,) * len(places) if moving is None else (moving,)
    headers = [_header(messages, surface, load.block, place, moved, field, before(load.block))
               for load, moved, field in zip(loads.loads, places, fields, strict=False)]
    for load, moved in list(zip(loads.loads, places, strict=True))[len(headers) :]:
        column, row = (distance - first for distance, first in zip(moved, places[0], strict=True))
        headers.append(messages.beside(headers[0], load.block, column * surface.bits // load.block.word_bits, row))
    return headers


@dataclass(frozen=True)
class DeferredFactor:
    """A factor whose messages are sent where what they load is multiplied first; not where they are emulated."""

    loads: TileLoads
    headers: Sequence[Header]

    def fragments(self, messages: BlockMessages) -> Fragments:
        """Return fragments that are loaded when they are asked for."""
        return _Loading(self, messages)


class _Loading(Fragments):
    """Fragments of a factor; asking for one loads those of its message."""

    def __init__(self, factor: DeferredFactor, messages: BlockMessages) -> None:
        super().__init__()
        self.factor, self.messages = factor, messages

    def __missing__(self, place: tuple[int, int]) -> Part:
        load, header = next((load, header) for load, header in zip(
            self.factor.loads.loads, self.factor.headers, strict=True) if place in load.fragments)
        self.update(_loaded(self.messages, load, header))
        return self[place]


def load_factor(
    messages: BlockMessages, row: DpasRow, loads: TileLoads, is_first: bool, headers: Sequence[Header]
) -> Fragments:
    """Load a first factor, or a second one, by messages with these headers."""
    found: Fragments = {}
    type_ = operand_types(row)[1 if is_first else 0]
    for load, header in zip(loads.loads, headers, strict=True):
        # What is emulated is loaded here, too: memory may have changed where it is multiplied.
        found |= _loaded(messages, load, header) if not messages.emulated else {
            fragment: EmulatedFragment(messages.fragment(header.value, load.block, offset, type_), {})
            for fragment, offset in load.fragments.items()}
    return found


def _loaded(messages: BlockMessages, load: TileLoad, header: Header) -> Fragments:
    """Send a message; return the fragments that it loads."""
    loaded = messages.load(header.value, load.block, load.block.type, header.number)
    if load.block.is_taken_apart:
        loaded = taken_apart(messages.builder, loaded, load.block)
    return {fragment: Fragment(loaded, load.block.size, offset) for fragment, offset in load.fragments.items()}


def unbroadcast(fragments: Fragments) -> Fragments:
    """Return fragments of which nothing was broadcast, which is right in this branch only where they are emulated."""
    if isinstance(fragments, _Loading):
        return fragments
    return {place: EmulatedFragment(part.value, {}) if isinstance(part, EmulatedFragment) else part
            for place, part in fragments.items()}


def load_block(
    messages: BlockMessages, surface: Surface, block: Block, type_: ir.Type, place: tuple[ir.Value, ir.Value],
    moved: tuple[int, int],
) -> ir.Value:
    """Load a block from so many columns and rows behind a place on as a value of a type that fills its registers."""
    header = _header(messages, surface, block, place, moved, COLUMN if block.kind == "transposed" else ROW)
    return messages.fragment(header, block, 0, type_) if messages.emulated else messages.load(header, block, type_)


def _header(
    messages: BlockMessages, surface: Surface, block: Block, place: tuple[ir.Value, ir.Value], moved: tuple[int, int],
    moving: int, before: int = 0,
) -> ir.Value:
    column, row = (messages.builder.add(first, index(distance)) for first, distance in zip(place, moved, strict=True))
    return messages.header(surface, block, column, row, moving, before)
