"""Products whose vectors run along the sum: a lane adds up every so many terms, and lanes are added up at the end.

Where the first factor is read across its columns, its rows are consecutive along the sum, so that nothing of it has to
be transposed.  What that takes instead is to add up the lanes of a vector for each element of C, which is done for
several rows together.  Vectors that have fewer terms of each of several columns beside one another have fewer lanes to
add up; those of B are copied as they are used, and terms of A are loaded for all of these columns at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from tl_dpnp.lowering.contraction import OUTPUT, Contraction
from tl_dpnp.lowering.nest import leaves
from tl_dpnp.lowering.packing import MOST_PACKED, copy_in_vectors, count, pack, strided_along
from tl_dpnp.lowering.schedule import Schedule
from tl_dpnp.lowering.tactics.tiles import Part
from tl_dpnp.lowering.tile_cycles import cut, even_tile, is_plain, vector_width
from tl_dpnp.target.core import CACHE_LINE, Core

__all__ = ["InnerTile", "inner_product_schedule", "inner_tile", "inner_tiles"]

#: Rows of a tile, whose lanes are added up together.
_ROWS = (12, 8, 4, 2)
#: Registers beside the sums and the vectors that are kept of one factor: a vector of the other, and what chooses lanes.
_OTHERS = 2
#: Vectors of terms that one iteration adds up: two, so that loops end less often.
_UNROLLED = 2
#: Cycles of the chain of additions at the end of a tile's columns, which what comes next does not overlap with.
_START = 25
#: Cycles in which a vector of a copy is loaded and stored.
_MOVES = 2


class Columns(NamedTuple):
    """So many columns of a tile; a vector has sums of so many `steps` for each of one column, or of several."""

    number: int
    steps: int


class InnerTile(NamedTuple):
    """Tiles of so many rows, and the columns of each that are next to one another, the first ones as often as they fit.

    `cycles` are those of the product, as estimated.
    """

    rows: int
    columns: tuple[Columns, ...]
    cycles: float


def inner_tile(contraction: Contraction, core: Core) -> InnerTile | None:
    """Return the quickest tile; None where vectors should not run along the sum."""
    return min(inner_tiles(contraction, core), key=lambda tile: tile.cycles, default=None)


def inner_tiles(contraction: Contraction, core: Core) -> Iterator[InnerTile]:
    """Yield the tiles that there are, none where vectors should not run along the sum.

    A is consecutive along it.  Terms that are left over by whole vectors take masks.
    """
    sizes = contraction.rows, contraction.columns, contraction.depth
    if not all(isinstance(size, int) for size in sizes) or contraction.columns == 1 or not is_plain(contraction.nest):
        return
    across = {name for name, _ in strided_along(contraction, "m")}
    is_along = across and not across & {name for name, _ in strided_along(contraction, "k")}
    if is_along and contraction.jam == 1 and contraction.sums == 1:
        yield from _Estimate(contraction, core, vector_width(contraction, core)).tiles()


class _Estimate(NamedTuple):
    """Counts the cycles of the tiles of a product of known sizes."""

    contraction: Contraction
    core: Core
    width: int

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows, columns and terms."""
        rows, columns, depth = self.contraction.rows, self.contraction.columns, self.contraction.depth
        assert isinstance(rows, int)
        assert isinstance(columns, int)
        assert isinstance(depth, int)
        return rows, columns, depth

    def tiles(self) -> Iterator[InnerTile]:
        """Yield the tiles that fit the registers."""
        rows, columns, _ = self.sizes
        registers, bits = self.core.registers - _OTHERS, self.width.bit_length()
        for steps in (1 << bit for bit in range(1, bits)):
            beside = self.width // steps
            if not self.cuts(steps) or (beside > 1 and not self.has_room()):
                continue
            vectors, highest = -(-columns // beside), rows if beside > 1 else min(rows, self.width)
            for height in (height for height in _ROWS if height <= highest):
                most = (registers - height) // height
                for wide in dict.fromkeys(even_tile(vectors, wide) for wide in range(most, 0, -1)):
                    if height * wide + min(height, wide) <= registers:
                        yield self.tile(height, self.parts(height, columns, min(columns, wide * beside), steps))

    def cuts(self, steps: int) -> bool:
        """Whether vectors may have so many terms of each sum."""
        return self.core.masks or self.sizes[2] % steps == 0

    def has_room(self) -> bool:
        """Whether a copy of B, whose blocks may have padding, fits into the work-item's own memory."""
        _, columns, depth = self.sizes
        padded = (columns + self.width) * (depth + self.width)
        return padded * self.contraction.element.bytes <= MOST_PACKED

    def parts(self, height: int, columns: int, wide: int, steps: int) -> tuple[Columns, ...]:
        """Cut columns into tiles of so many and what is left over: vectors with parts to spare, or of more steps."""
        beside = self.width // steps
        wide = wide // beside * beside or wide
        first, rest = (Columns(wide, steps),), columns % wide
        if rest == 0:
            return first
        if rest >= beside:
            return first + self.parts(height, rest, rest, steps)
        others: list[tuple[Columns, ...]] = [(Columns(rest, steps),)]
        if self.cuts(2 * steps):
            others.append(self.parts(height, rest, rest, 2 * steps))
        return first + min(others, key=lambda parts: self.cycles(height, rest, parts))

    def tile(self, height: int, parts: tuple[Columns, ...]) -> InnerTile:
        """Return a tile with the cycles of the product, copies of B included."""
        _, columns, _ = self.sizes
        around, left = 0.0, columns
        for each in parts:
            around += left // each.number * (_START + self.copy(each))
            left %= each.number
        return InnerTile(height, parts, around + self.cycles(height, columns, parts))

    def copy(self, part: Columns) -> float:
        """Estimate the cycles in which B is copied for some columns."""
        core, beside, is_strided = self.core, self.width // part.steps, bool(strided_along(self.contraction, "k"))
        vectors = -(-part.number // beside) * -(-self.sizes[2] // part.steps)
        if beside == 1:
            moved = _MOVES * _splits(self.contraction)
            return vectors * (core.transposition(self.width) if is_strided else moved)
        # What is consecutive in B is put together, and shuffled where that is along its columns; terms of a last block
        # that is not whole are stored for each column.
        pieces, left = part.steps if is_strided else beside, self.sizes[2] % part.steps
        return part.number * left.bit_count() + vectors * (
            _MOVES + (pieces - 1) / core.multiply_adds + core.shuffle * is_strided)

    def cycles(self, height: int, columns: int, parts: Sequence[Columns]) -> float:
        """Estimate the cycles of sums, and of adding up the lanes of each."""
        (rows, _, depth), core, rest, found = self.sizes, self.core, columns, 0.0
        for number, steps in parts:
            times, rest = divmod(rest, number)
            beside = self.width // steps
            vectors = -(-number // beside)
            for high, often in cut(rows, height):
                sums = sum(again * core.lane_sums(some, steps, beside)
                           for some, again in cut(high, steps if beside > 1 else high))
                terms = -(-depth // steps) * core.inner(high, vectors, beside, splits=_splits(self.contraction))
                found += times * often * (terms + vectors * sums)
        return found


def _splits(contraction: Contraction) -> bool:
    """Whether rows of A begin inside a cache line."""
    assert isinstance(contraction.depth, int)
    return bool(contraction.depth * contraction.element.bytes % CACHE_LINE)


def inner_product_schedule(contraction: Contraction, tile: InnerTile, core: Core) -> Schedule:
    """Schedule a nest for the vector form: vectors along the sum, tiles of C in registers.

    B is copied where it is read across its columns, where vectors of it would begin inside a line of the cache (those
    of A do, too, and such a load takes two), and where vectors have parts of several columns.
    """
    schedule, width = Schedule(contraction.nest), vector_width(contraction, core)
    assert isinstance(contraction.columns, int)
    schedule.reorder("n", "m")
    rest, left = Part("m", None, "k", "n"), contraction.columns
    for columns in tile.columns:
        split = schedule.split(rest.outer, left // columns.number * columns.number)
        schedule.reorder(split.outer, rest.rows, split.inner)
        part = replace(rest, columns=split.inner, outer=split.outer)
        _sum_columns(schedule, contraction, part, columns, tile.rows, width)
        left %= columns.number
        if split.remainder is not None:
            rest = rest.renamed(split.renamed, outer=split.remainder)
    return schedule


def _sum_columns(
    schedule: Schedule, contraction: Contraction, part: Part, columns: Columns, height: int, width: int
) -> None:
    """Schedule the sums of a part of the columns of C, the inner ones of its loops over columns."""
    assert part.columns is not None
    strided, copies = strided_along(contraction, "k"), {}
    if columns.steps < width:
        if strided or count(schedule, part.rows) > height:
            copies = {_copy_in_blocks(schedule, buffer, mode, part.outer, columns.steps, width): mode
                      for buffer, mode in _factors_of_columns(contraction).items()}
    elif strided:
        for buffer, modes in strided:
            pack(schedule, buffer, modes, width, part.outer)
    elif _splits(contraction):
        for buffer in _factors_of_columns(contraction):
            copy_in_vectors(schedule, buffer, width, part.outer)
    panels = _tiles_of(schedule, part.rows, height)
    schedule.prefetch(panels[0].outer)
    for panel in panels:
        own = replace(part, outer=part.columns).renamed(panel.renamed, rows=panel.inner)
        schedule.reorder(own.outer, own.rows)
        split = schedule.split(own.outer, columns.number)
        _sum_along(schedule, replace(own, columns=split.inner), contraction.depth, columns.steps, width)
    for copy, mode in copies.items():
        schedule.block_layout(copy, mode, columns.steps)
        schedule.storage_align(copy, 2, width, 0)


class _Tiles(NamedTuple):
    """The loop over tiles, that inside, and how further loops inside are called."""

    outer: str
    inner: str
    renamed: Mapping[str, str]


def _tiles_of(schedule: Schedule, loop: str, size: int) -> list[_Tiles]:
    """Cut a loop into tiles of a size, and one of what is left over."""
    split = schedule.split(loop, min(size, count(schedule, loop)))
    whole = _Tiles(split.outer, split.inner, {})
    if split.remainder is None:
        return [whole]
    rest = schedule.split(split.remainder, count(schedule, split.remainder))
    return [whole, _Tiles(rest.outer, rest.inner, split.renamed)]


def _copy_in_blocks(schedule: Schedule, buffer: str, mode: int, within: str, steps: int, width: int) -> str:
    """Copy a matrix, whose `mode` runs along the sum, by vectors of so many steps of several columns."""
    copy = schedule.cache_read(buffer, "registers", within)
    schedule.compute_at(copy, within)
    outer, inner = schedule.loops_of(copy)
    columns, terms = (outer, inner) if mode == 0 else (inner, outer)
    schedule.reorder(columns, terms)
    for tile in _tiles_of(schedule, columns, width // steps):
        own = tile.renamed.get(terms, terms)
        schedule.reorder(own, tile.inner)
        for block in _tiles_of(schedule, own, steps):
            beside = block.renamed.get(tile.inner, tile.inner)
            schedule.reorder(block.outer, beside, block.inner)
            schedule.vectorize(schedule.fuse(beside, block.inner))
    return copy


def _factors_of_columns(contraction: Contraction) -> dict[str, int]:
    """Return the matrices in memory that have columns of C, and no rows, with their modes along the sum."""
    return {
        access.buffer.name: access.indices.index(("k",))
        for leaf in leaves(contraction.nest.body) for access in leaf.assign.reads
        if ("n",) in access.indices and ("m",) not in access.indices
        and not access.buffer.in_registers and access.buffer.name != OUTPUT}


def _sum_along(schedule: Schedule, tile: Part, depth: object, steps: int, width: int) -> None:
    """Make vectors of the terms of a tile's sums, and of the rows of its results."""
    assert tile.reduction is not None
    assert tile.columns is not None
    assert isinstance(depth, int)
    columns, beside = tile.columns, []
    if steps < width:
        together = schedule.split(columns, min(width // steps, count(schedule, columns)))
        columns, beside = together.outer, [together.inner]
    split = schedule.split(tile.reduction, steps, tail="guard")
    parts = schedule.rfactor(split.inner)
    around = schedule.decompose_reduction(split.outer, above=columns)
    loops, first, last = [columns, *beside, tile.rows], around.init, around.finish
    _vectorize_terms(schedule, [first[loop] for loop in loops], first[parts.init[split.inner]])
    _vectorize_terms(schedule, loops, split.inner)
    schedule.vectorize(last[parts.finish[split.inner]])
    _vectorize_rows(schedule, [last[loop] for loop in loops], steps)
    whole, outer = depth // steps, split.outer
    if depth % steps and whole == 1:
        schedule.unroll(outer)
        return
    if depth % steps and whole:
        # The vectors that are whole need no masks.
        outer = schedule.split(outer, whole).inner
    if whole > _UNROLLED:
        pairs = schedule.split(outer, _UNROLLED)
        schedule.unroll(pairs.inner)


def _vectorize_terms(schedule: Schedule, loops: Sequence[str], terms: str) -> None:
    """Make vectors of terms, in loops over columns, over those beside one another if there are such, and over rows."""
    columns, *beside, rows = loops
    if beside:
        schedule.reorder(rows, *beside)
    if count(schedule, rows) > count(schedule, columns):
        # The vectors of fewer columns are kept, those of the rows are read one after the other.
        schedule.reorder(rows, columns)
    for loop in (rows, columns):
        schedule.unroll(loop)
    for loop in (*beside, terms):
        schedule.vectorize(loop)


def _vectorize_rows(schedule: Schedule, loops: Sequence[str], lanes: int) -> None:
    """Make vectors of rows, up to so many for each of the columns beside one another; the loops are the same."""
    columns, *beside, rows = loops
    if not beside:
        if count(schedule, rows) > 1:
            schedule.vectorize(rows)
        schedule.unroll(columns)
        return
    schedule.reorder(rows, columns, *beside)
    for tile in _tiles_of(schedule, rows, lanes):
        others, together = (tile.renamed.get(loop, loop) for loop in (columns, *beside))
        schedule.reorder(tile.outer, others, together, tile.inner)
        for loop in (tile.outer, others):
            schedule.unroll(loop)
        for loop in (tile.inner, together):
            schedule.vectorize(loop)
