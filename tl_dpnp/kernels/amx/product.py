"""The product of two matrices by a work-item, on tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from llvmlite import ir

from tl_dpnp.kernels.amx.fetching import Fetching
from tl_dpnp.kernels.amx.micro_kernel import TileKernel
from tl_dpnp.kernels.amx.packing import Packer, plus, times
from tl_dpnp.kernels.amx.rows import IMAGE, MOST, WORD, Cut
from tl_dpnp.kernels.amx.tiles import EmulatedTiles, HardwareTiles, Tiles
from tl_dpnp.kernels.dpas.fragments import Matrix, Size, size_value
from tl_dpnp.kernels.dpas.gemm import Product
from tl_dpnp.kernels.llvm import I64, counted_loop, if_then, index, private_array
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import INDEX, U32

__all__ = ["Finish", "emit_tile_product"]

#: Called with the first row and column of a tile of sums in C and the numbers of its rows and columns; those in front
#: of a range were finished before.  The sums lie in memory of the work-item, 16 rows to a column.
Finish = Callable[[Size, Size, range, range], None]

_ROW = index(MOST * WORD)
#: Steps along k that are written one after the other, at most.
_UNROLLED = 4
#: Images of A that are packed at once, at most: more leave less of the nearest cache than they save time.
_MOST_AT_ONCE = 8


@dataclass(frozen=True)
class _Tile:
    """A tile of C along one mode: its kind among those computed together, its number, its first place, its overlap."""

    kind: int
    number: Size
    first: Size
    size: int
    overlap: int = 0


def emit_tile_product(
    builder: ir.IRBuilder, kernel: TileKernel, product: Product, result: Matrix | None, sums: ir.Value,
    finish: Finish, emulated: bool, keeps_a: bool, fetching: Fetching,
) -> None:
    """Emit a product of known sizes; the tiles are configured.

    With `keeps_a`, A is packed where its address is not that of the last time: nothing may have written to it since.
    Sums are stored to `result`, whose columns have no gaps; without it they are stored to `sums`, a pointer to memory
    for a tile, and `finish` is called.
    """
    m, n, k = product.m, product.n, product.k
    assert isinstance(m, int)
    assert isinstance(n, int)
    assert isinstance(k, int)
    palette = kernel.palette(m, n, k)
    tiles: Tiles = EmulatedTiles(builder, palette) if emulated else HardwareTiles(builder)
    a = Packer(builder, kernel, tiles, product.a, "A", m, k)
    b = Packer(builder, kernel, tiles, product.b, "B", n, k)
    emitter = _Emitter(builder, kernel, tiles, a, b, result, sums, finish, keeps_a, fetching)
    if keeps_a:
        emitter.pack_new_a()
    elif emitter.packs_all:
        emitter.groups(kernel.cut(m), lambda rows, _: emitter.pack_rows(rows))
    emitter.pack_b()
    emitter.groups(kernel.cut(m), lambda rows, row: emitter.groups(
        kernel.cut(n), lambda columns, column: emitter.sums_of(rows, columns, (row, column))))


@dataclass
class _Emitter:
    builder: ir.IRBuilder
    kernel: TileKernel
    tiles: Tiles
    a: Packer
    b: Packer
    result: Matrix | None
    sums: ir.Value
    finish: Finish
    keeps_a: bool
    fetching: Fetching

    def __post_init__(self) -> None:
        self.terms = max(1, self.kernel.terms)
        self.depth, self.words = self.kernel.depth(self.a.k)
        #: Elements along k of a tile, and of the last one.
        self.elements = self.words * self.kernel.row.per_word
        self.last = self.a.k - (self.depth - 1) * self.elements
        #: How many images of A and of B there are, and the images.
        cuts = self.kernel.cut(self.a.size), self.kernel.cut(self.b.size)
        self.packs_all = cuts[0].count * self.depth * self.terms <= _MOST_AT_ONCE
        self.counts = self.kernel.images(
            self.a.size, self.b.size, self.a.k, self.b.lies_along_k, self.has_all_of_a)
        #: How many groups of tiles are computed along the modes of C.
        self.group_counts = tuple(-(-cut.count // min(self.kernel.together, cut.count)) for cut in cuts)
        self.images_of_a, self.images_of_b = (
            private_array(self.builder, U32, max(1, count) * IMAGE) for count in self.counts)

    # --- tiles of C --------------------------------------------------------------------------------------------------

    @property
    def has_all_of_a(self) -> bool:
        """Whether there are images of all of A, not only of the rows that are computed together."""
        return self.keeps_a or self.packs_all

    def groups(self, cut: Cut, body: Callable[[list[_Tile], Size], None]) -> None:
        """Run `body` for the tiles along a mode that are computed together, and say which group of tiles they are."""
        together = min(self.kernel.together, cut.count)
        whole = cut.count // together
        if cut.overlap and cut.count % together == 0:
            whole -= 1
        step = sum(cut.sizes[kind % len(cut.sizes)] for kind in range(together))

        def group(number: Size) -> list[_Tile]:
            b = self.builder
            base, first = times(b, number, step), times(b, number, together)
            return [_Tile(kind, plus(b, first, kind), plus(b, base, cut.start(kind)), self._size(cut, kind))
                    for kind in range(together)]

        def iteration(counter: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            body(group(counter), counter)
            return []

        if whole:
            body(group(0), 0)
        if whole == 2:
            body(group(1), 1)
        elif whole > 2:
            counted_loop(self.builder, index(1), index(whole), index(1), [], iteration, runs_at_least_once=True,
                         unrolled=False)
        rest = range(whole * together, cut.count)
        if rest:
            body([_Tile(kind, tile, cut.start(tile), self._size(cut, kind), cut.overlap if tile == rest[-1] else 0)
                  for kind, tile in enumerate(rest)], whole)

    def _size(self, cut: Cut, kind: int) -> int:
        return cut.sizes[kind % len(cut.sizes)]

    def sums_of(self, rows: list[_Tile], columns: list[_Tile], group: tuple[Size, Size]) -> None:
        """Emit the sums of tiles of C, which are a group by its numbers along rows and along columns."""
        kernel, tiles, b = self.kernel, self.tiles, self.builder
        self.fetching.block(rows[0].first, columns[0].first, _extent(rows), _extent(columns))
        if not self.has_all_of_a and isinstance(group[1], int) and group[1] == 0:
            self.pack_rows(rows)
        for j in columns:
            for i in rows:
                tiles.zero(kernel.total(i.kind, j.kind))
        number = times(b, plus(b, times(b, group[0], self.group_counts[1]), group[1]), self.depth)
        count = self.group_counts[0] * self.group_counts[1] * self.depth

        def step(k: Size) -> None:
            self.fetching.share(plus(b, number, k), count)
            self.step(rows, columns, k)

        self.along_k(step)
        for j in columns:
            for i in rows:
                self.store(i, j)

    def along_k(self, body: Callable[[Size], None]) -> None:
        """Run `body` for the tiles along k."""
        regular = self.depth - (self.last != self.elements)

        def iteration(k: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            body(k)
            return []

        if regular > _UNROLLED:
            counted_loop(self.builder, index(0), index(regular), index(1), [], iteration, runs_at_least_once=True,
                         unrolled=False)
        for k in range(0 if regular <= _UNROLLED else regular, self.depth):
            body(k)

    def step(self, rows: list[_Tile], columns: list[_Tile], k: Size) -> None:
        """Emit the products of one tile along k."""
        kernel, tiles = self.kernel, self.tiles
        last: tuple[int, int] | tuple[None, None] = None, None
        for of_a, of_b in kernel.products:
            for j in columns if of_b != last[1] else ():
                tiles.load(kernel.b(j.kind), *self.image_of_b(j, k, of_b))
            for i in rows:
                if of_a != last[0]:
                    tiles.load(kernel.a(i.kind), self.at(self.images_of_a, self.place_of_a(k, i, of_a)), _ROW)
                for j in columns:
                    tiles.multiply_add(kernel.row, kernel.total(i.kind, j.kind), kernel.b(j.kind), kernel.a(i.kind))
            last = of_a, of_b

    def store(self, i: _Tile, j: _Tile) -> None:
        """Store a tile of sums, or finish it by way of the work-item's own memory."""
        kernel, b = self.kernel, self.builder
        if self.result is not None:
            columns = self.result.strides[1]
            pointer = b.gep(self.result.pointer, [size_value(plus(b, i.first, times(b, j.first, columns)))])
            self.tiles.store(kernel.total(i.kind, j.kind), pointer, size_value(times(b, columns, WORD)))
            return
        self.tiles.store(kernel.total(i.kind, j.kind), self.sums, _ROW)
        self.finish(i.first, j.first, range(i.overlap, i.size), range(j.overlap, j.size))

    # --- images ------------------------------------------------------------------------------------------------------

    def at(self, images: ir.Value, place: Size) -> ir.Value:
        """Return a pointer to an image."""
        return self.builder.gep(images, [size_value(times(self.builder, place, IMAGE))])

    def place_of_a(self, k: Size, tile: _Tile, term: int) -> Size:
        """Return the number of an image of A."""
        b, rows = self.builder, self.kernel.cut(self.a.size).count
        along = rows if self.has_all_of_a else min(self.kernel.together, rows)
        number = tile.number if self.has_all_of_a else tile.kind
        return plus(b, times(b, k, along * self.terms), plus(b, times(b, number, self.terms), term))

    def place_of_b(self, tile: Size, k: Size, term: int) -> Size:
        """Return the number of an image of B."""
        b, each = self.builder, self.counts[1] // self.kernel.cut(self.b.size).count
        return plus(b, times(b, tile, each), plus(b, times(b, k, self.terms), term) if each > self.terms else term)

    @property
    def loads_b(self) -> bool:
        """Whether tiles of B are loaded as they lie in memory, all or all but the last ones along k."""
        return self.b.lies_along_k and not self.kernel.terms

    def image_of_b(self, tile: _Tile, k: Size, term: int) -> tuple[ir.Value, ir.Value]:
        """Return where a tile of B is, and the stride of its rows in bytes."""
        b = self.builder
        is_last = isinstance(k, int) and k == self.depth - 1 and self.last != self.elements
        if not self.loads_b or is_last:
            return self.at(self.images_of_b, self.place_of_b(tile.number, k, term)), _ROW
        pointer = self.b.at(tile.first, times(b, k, self.elements))
        return pointer, size_value(times(b, self.b.strides[0], self.b.matrix.element.bytes))

    def pack_new_a(self) -> None:
        """Emit the packing of all of A where it has another address than the last time."""
        b = self.builder
        with b.goto_block(b.function.entry_basic_block):
            last = private_array(b, INDEX, 1)
            b.store(index(0), last)
        address = b.ptrtoint(self.a.matrix.pointer, I64)

        def pack() -> None:
            self.groups(self.kernel.cut(self.a.size), lambda rows, _: self.pack_rows(rows))
            b.store(address, last)

        if_then(b, b.icmp_unsigned("!=", address, b.load(last)), pack)

    def pack_rows(self, rows: Sequence[_Tile]) -> None:
        """Emit the packing of rows of A.

        All of them are packed before tiles are computed: stores leave a core in their order, so that those behind
        a product of tiles would wait for it, and loads of what they store for them.
        """
        def pack(k: Size) -> None:
            for tile in rows:
                self.pack(self.a, tile, k, self.images_of_a, partial(self.place_of_a, k, tile))

        self.along_k(pack)

    def pack_b(self) -> None:
        """Emit the packing of what tiles cannot load of B."""
        if not self.counts[1]:
            return
        cut = self.kernel.cut(self.b.size)
        first = self.depth - 1 if self.loads_b else 0

        def pack(group: list[_Tile], _: Size) -> None:
            for tile in group:
                for k in range(first, self.depth):
                    self.pack(self.b, tile, k, self.images_of_b, partial(self.place_of_b, tile.number, k))

        self.groups(cut, pack)

    def pack(
        self, packer: Packer, tile: _Tile, k: Size, images: ir.Value, place: Callable[[int], Size]
    ) -> None:
        """Pack the images of a tile, one for each term."""
        b = self.builder
        elements = self.last if isinstance(k, int) and k == self.depth - 1 else self.elements

        def store(term: int, number: int, row: ir.Value) -> None:
            target = b.gep(self.at(images, place(term)), [index(number * MOST)])
            b.store(row, b.bitcast(target, row.type.as_pointer(target.type.addrspace)), align=MOST * WORD)

        packer.pack(tile.first, tile.size, times(b, k, self.elements), self.words, elements, store)


def _extent(tiles: Sequence[_Tile]) -> int:
    """Return the places of tiles that follow one another."""
    return sum(tile.size for tile in tiles) - (tiles[-1].overlap if len(tiles) > 1 else 0)
