"""How the tiles of a product are packed, multiplied and stored: operands first, products then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from llvmlite import ir

from tl_dpnp.kernels.amx.fetching import Fetching
from tl_dpnp.kernels.amx.micro_kernel import TileKernel
from tl_dpnp.kernels.amx.packing import Packer, plus, times
from tl_dpnp.kernels.amx.rows import IMAGE, MOST, WORD, Cut
from tl_dpnp.kernels.amx.tiles import Tiles
from tl_dpnp.kernels.dpas.fragments import Matrix, Size, size_value
from tl_dpnp.kernels.llvm import I1, I64, counted_loop, if_then, index, masked_store, private_array
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import INDEX, U32

__all__ = ["MOST_WRITTEN", "ROW", "Emitter", "Finish", "Tile", "emit_all", "extent"]

#: Called with the first row and column of a tile of sums in C and the numbers of its rows and columns; those in front
#: of a range were finished before.  The sums lie in memory of the work-item, 16 rows to a column.
Finish = Callable[[Size, Size, range, range], None]

#: Returns where a tile of an operand is, and the stride of its rows in bytes, for one of its terms.
Image = Callable[["Tile", int], tuple[ir.Value, ir.Value]]

ROW = index(MOST * WORD)
#: Steps along k that are written one after the other, at most.
_UNROLLED = 4
#: Groups of tiles along a mode of C that are written one after the other, at most.
MOST_WRITTEN = 2
#: Images of A that are packed at once, at most: more leave less of the nearest cache than they save time.
_MOST_AT_ONCE = 8


@dataclass(frozen=True)
class Tile:
    """A tile of C along one mode: its kind among those computed together, its number, its first place, its overlap."""

    kind: int
    number: Size
    first: Size
    size: int
    overlap: int = 0


@dataclass
class Emitter:
    """Emits a product; with `keeps_a`, A is packed where its address is not that of the last time."""

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
        overlaps = self.kernel.overlaps(self.b.size, self.a.k)
        self.packs_all = not overlaps and cuts[0].count * self.depth * self.terms <= _MOST_AT_ONCE
        self.counts = self.kernel.images(
            self.a.size, self.b.size, self.a.k, self.b.lies_along_k, self.has_all_of_a)
        #: How many groups of tiles are computed along the modes of C.
        self.group_counts = tuple(-(-cut.count // min(self.kernel.together, cut.count)) for cut in cuts)
        self.images_of_a, self.images_of_b = (
            private_array(self.builder, U32, max(1, count) * IMAGE) for count in self.counts)

    def emit(self) -> None:
        """Emit the product."""
        rows, columns = self.kernel.cut(self.a.size), self.kernel.cut(self.b.size)
        if self.keeps_a:
            self.pack_new_a()
        elif self.packs_all:
            self.groups(rows, lambda tiles, _: self.pack_rows(tiles))
        self.pack_b()
        self.groups(rows, lambda tiles, row: self.groups(
            columns, lambda others, column: self.sums_of(tiles, others, (row, column))))

    # --- tiles of C --------------------------------------------------------------------------------------------------

    @property
    def has_all_of_a(self) -> bool:
        """Whether there are images of all of A, not only of the rows that are computed together."""
        return self.keeps_a or self.packs_all

    def groups(self, cut: Cut, body: Callable[[list[Tile], Size], None]) -> None:
        """Run `body` for the tiles along a mode that are computed together, and say which group of tiles they are."""
        whole, rest = self._whole(cut), self._rest(cut)

        def iteration(counter: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            body(self._group(cut, counter), counter)
            return []

        for number in range(whole if whole <= MOST_WRITTEN else 1):
            body(self._group(cut, number), number)
        if whole > MOST_WRITTEN:
            counted_loop(self.builder, index(1), index(whole), index(1), [], iteration, runs_at_least_once=True,
                         unrolled=False)
        if rest:
            body(rest, whole)

    def group_list(self, cut: Cut) -> list[list[Tile]]:
        """Return all tiles along a mode, those that are computed together in a list each."""
        groups = [self._group(cut, number) for number in range(self._whole(cut))]
        rest = self._rest(cut)
        return [*groups, rest] if rest else groups

    def _whole(self, cut: Cut) -> int:
        """Return how many groups have all tiles that are computed together, and none that overlaps others."""
        together = min(self.kernel.together, cut.count)
        return cut.count // together - bool(cut.overlap and cut.count % together == 0)

    def _group(self, cut: Cut, number: Size) -> list[Tile]:
        b, together = self.builder, min(self.kernel.together, cut.count)
        step = sum(self._size(cut, kind) for kind in range(together))
        base, first = times(b, number, step), times(b, number, together)
        return [Tile(kind, plus(b, first, kind), plus(b, base, cut.start(kind)), self._size(cut, kind))
                for kind in range(together)]

    def _rest(self, cut: Cut) -> list[Tile]:
        rest = range(self._whole(cut) * min(self.kernel.together, cut.count), cut.count)
        return [Tile(kind, tile, cut.start(tile), self._size(cut, kind), cut.overlap if tile == rest[-1] else 0)
                for kind, tile in enumerate(rest)]

    def _size(self, cut: Cut, kind: int) -> int:
        return cut.sizes[kind % len(cut.sizes)]

    def sums_of(self, rows: list[Tile], columns: list[Tile], group: tuple[Size, Size]) -> None:
        """Emit the sums of tiles of C, which are a group by its numbers along rows and along columns."""
        b = self.builder
        self.fetch_block(rows, columns)
        if not self.has_all_of_a and isinstance(group[1], int) and group[1] == 0:
            self.pack_rows(rows)
        self.clear(rows, columns)
        number = times(b, plus(b, times(b, group[0], self.group_counts[1]), group[1]), self.depth)
        count = self.group_counts[0] * self.group_counts[1] * self.depth

        def step(k: Size) -> None:
            self.fetching.share(plus(b, number, k), count)
            self.step(rows, columns, k)

        self.along_k(step)
        self.store_all(rows, columns)

    def fetch_block(self, rows: list[Tile], columns: list[Tile]) -> None:
        """Emit the fetching of what tiles of sums are stored to."""
        self.fetching.block(rows[0].first, columns[0].first, extent(rows), extent(columns))

    def clear(self, rows: list[Tile], columns: list[Tile]) -> None:
        """Emit what sets tiles of sums to zeros."""
        for j in columns:
            for i in rows:
                self.tiles.zero(self.kernel.total(i.kind, j.kind))

    def store_all(self, rows: list[Tile], columns: list[Tile]) -> None:
        """Store tiles of sums, or finish them."""
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

    def step(self, rows: list[Tile], columns: list[Tile], k: Size) -> None:
        """Emit the products of one tile along k."""
        self.products(rows, columns, self.kernel.products,
                      lambda i, term: (self.at(self.images_of_a, self.place_of_a(k, i, term)), ROW),
                      lambda j, term: self.image_of_b(j, k, term))

    def products(
        self, rows: list[Tile], columns: list[Tile], terms: Sequence[tuple[int, int]], image_of_a: Image,
        image_of_b: Image, after: Callable[[], None] = lambda: None,
    ) -> None:
        """Emit the products of some terms of one tile along k, and what is to come after each product."""
        kernel, tiles = self.kernel, self.tiles
        last: tuple[int, int] | tuple[None, None] = None, None
        for of_a, of_b in terms:
            for j in columns if of_b != last[1] else ():
                tiles.load(kernel.b(j.kind), *image_of_b(j, of_b))
            for i in rows:
                if of_a != last[0]:
                    tiles.load(kernel.a(i.kind), *image_of_a(i, of_a))
                for j in columns:
                    tiles.multiply_add(kernel.row, kernel.total(i.kind, j.kind), kernel.b(j.kind), kernel.a(i.kind))
                    after()
            last = of_a, of_b

    def store(self, i: Tile, j: Tile) -> None:
        """Store a tile of sums, or finish it by way of the work-item's own memory."""
        kernel, b = self.kernel, self.builder
        if self.result is not None and self.result.element.bytes == WORD:
            self.tiles.store(kernel.total(i.kind, j.kind), self._place_in(self.result, i.first, j.first),
                             size_value(times(b, self.result.strides[1], WORD)))
            return
        self.tiles.store(kernel.total(i.kind, j.kind), self.sums, ROW)
        if self.result is not None:
            self._store_rounded(self.result, i, j)
            return
        self.finish(i.first, j.first, range(i.overlap, i.size), range(j.overlap, j.size))

    def _place_in(self, result: Matrix, row: Size, column: Size) -> ir.Value:
        offset = plus(self.builder, row, times(self.builder, column, result.strides[1]))
        return self.builder.gep(result.pointer, [size_value(offset)])

    def _store_rounded(self, result: Matrix, i: Tile, j: Tile) -> None:
        """Store a tile of sums, which are in the work-item's own memory, as bf16."""
        b = self.builder
        sums = b.bitcast(self.sums, ir.VectorType(ir.FloatType(), MOST).as_pointer(self.sums.type.addrspace))
        lanes = [ir.Constant(I1, i.overlap <= row < i.size) for row in range(MOST)]
        for column in range(j.overlap, j.size):
            value = self.tiles.rounded(b.load(b.gep(sums, [index(column)]), align=MOST * WORD))
            start = self._place_in(result, i.first, plus(b, j.first, column))
            pointer = b.bitcast(start, value.type.as_pointer(start.type.addrspace))
            if i.size - i.overlap == MOST:
                b.store(value, pointer, align=result.element.bytes)
            else:
                masked_store(b, value, pointer, ir.Constant(ir.VectorType(I1, MOST), lanes), result.element.bytes)

    # --- images ------------------------------------------------------------------------------------------------------

    def at(self, images: ir.Value, place: Size) -> ir.Value:
        """Return a pointer to an image."""
        return self.builder.gep(images, [size_value(times(self.builder, place, IMAGE))])

    def place_of_a(self, k: Size, tile: Tile, term: int) -> Size:
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

    def image_of_b(self, tile: Tile, k: Size, term: int) -> tuple[ir.Value, ir.Value]:
        """Return where a tile of B is, and the stride of its rows in bytes."""
        b = self.builder
        is_last = isinstance(k, int) and k == self.depth - 1 and self.last != self.elements
        if not self.loads_b or is_last:
            return self.at(self.images_of_b, self.place_of_b(tile.number, k, term)), ROW
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

    def pack_rows(self, rows: Sequence[Tile]) -> None:
        """Emit the packing of rows of A.

        All of them are packed before tiles are computed: stores leave a core in their order, so that those behind
        a product of tiles would wait for it, and loads of what they store for them.
        """
        def pack(k: Size) -> None:
            for tile in rows:
                emit_all(self.pack(self.a, tile, k, self.images_of_a, partial(self.place_of_a, k, tile)))

        self.along_k(pack)

    def pack_b(self) -> None:
        """Emit the packing of what tiles cannot load of B."""
        if not self.counts[1]:
            return
        cut = self.kernel.cut(self.b.size)
        first = self.depth - 1 if self.loads_b else 0

        def pack(group: list[Tile], _: Size) -> None:
            for tile in group:
                for k in range(first, self.depth):
                    emit_all(self.pack(self.b, tile, k, self.images_of_b, partial(self.place_of_b, tile.number, k)))

        self.groups(cut, pack)

    def pack(
        self, packer: Packer, tile: Tile, k: Size, images: ir.Value, place: Callable[[int], Size]
    ) -> Iterator[None]:
        """Pack the images of a tile, one for each term, some rows at each step of the iterator."""
        b = self.builder
        elements = self.last if isinstance(k, int) and k == self.depth - 1 else self.elements

        def store(term: int, number: int, row: ir.Value) -> None:
            target = b.gep(self.at(images, place(term)), [index(number * MOST)])
            b.store(row, b.bitcast(target, row.type.as_pointer(target.type.addrspace)), align=MOST * WORD)

        return packer.pack(tile.first, tile.size, times(b, k, self.elements), self.words, elements, store)


def emit_all(steps: Iterator[None]) -> None:
    """Emit what is left of code that comes in steps."""
    for _ in steps:
        pass


def extent(tiles: Sequence[Tile]) -> int:
    """Return the places of tiles that follow one another."""
    return sum(tile.size for tile in tiles) - (tiles[-1].overlap if len(tiles) > 1 else 0)
