"""The product of two matrices by a work-group: every sub-group computes tiles of C with DPAS."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TypeVar

from llvmlite import ir

from tl_dpnp.kernels.dpas.accumulators import Accumulators, accumulators_for
from tl_dpnp.kernels.dpas.block_messages import BlockMessages, Surface, inline_assembly
from tl_dpnp.kernels.dpas.block_packing import BlockPacking, SharedOperand, share_of
from tl_dpnp.kernels.dpas.block_product import BlockProduct, Shared
from tl_dpnp.kernels.dpas.block_reads import BlockReads
from tl_dpnp.kernels.dpas.block_results import Result, TileStores, result_surfaces
from tl_dpnp.kernels.dpas.dealing import Whole, dealt
from tl_dpnp.kernels.dpas.emit import multiply_add
from tl_dpnp.kernels.dpas.fragments import Loader, Matrix, Size, size_value
from tl_dpnp.kernels.dpas.functions import operand_types
from tl_dpnp.kernels.dpas.line_packing import LineLayout, LineOperand, LinePacking, conditions_of, line_layout
from tl_dpnp.kernels.dpas.local_product import LocalProduct
from tl_dpnp.kernels.dpas.local_reads import LocalReads
from tl_dpnp.kernels.dpas.local_tiles import LocalTile
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.kernels.dpas.operands import refused_operand, takes_a, takes_b_along_k
from tl_dpnp.kernels.dpas.packed_loads import PackedLoader
from tl_dpnp.kernels.dpas.panel_packing import ItemPacking
from tl_dpnp.kernels.dpas.pieces import WORD_BITS, Piece, needed_for_words, packs, piece_words
from tl_dpnp.kernels.dpas.sub_groups import SubGroup
from tl_dpnp.kernels.dpas.tile_blocks import operand_surface
from tl_dpnp.kernels.llvm import GLOBAL, I32, I64, counted_loop, index
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import F32

__all__ = ["Product", "emit_product"]

#: Registers of sums beside which what is computed ahead may not fit, and beside which ordinary loads and their
#: addresses do not.
_MANY, _MANY_BY_ELEMENTS = 64, 32
#: Called with a row of C for each lane, a column, and the sum for that element.
Finish = Callable[[ir.Value, ir.Value, ir.Value], None]
_Sum = TypeVar("_Sum")


@dataclass(frozen=True)
class Product:
    """What is multiplied: A is m x k and B is k x n; `result` is None where C is not just set."""

    a: Matrix
    b: Matrix
    m: Size
    n: Size
    k: Size
    result: Result | None = None

    @property
    def a_along_k(self) -> bool:
        """Whether messages take the elements of A in their order along k, rather than along its rows."""
        return self.a.strides[0] != 1

    @property
    def b_along_k(self) -> bool:
        """The same of B and its columns."""
        return self.b.strides[0] == 1

    def blocks(self, kernel: MicroKernel) -> tuple[Surface, Surface] | None:
        """Return the operands as messages take them, None where a micro-kernel or what is known forbids it."""
        spaces = {matrix.pointer.type.addrspace for matrix in (self.a, self.b)}
        if not kernel.takes_blocks or spaces != {GLOBAL} or refused_operand(
                kernel.row, self.a.strides, self.b.strides, (self.m, self.n, self.k)) is not None:
            return None
        return self._surfaces

    @property
    def _surfaces(self) -> tuple[Surface, Surface]:
        """A and B as messages take them."""
        b = Matrix(self.b.pointer, self.b.element, (self.b.strides[1], self.b.strides[0]))
        return operand_surface(self.a, self.m, self.k, self.a_along_k), operand_surface(
            b, self.n, self.k, self.b_along_k)

    def block(self, kernel: MicroKernel) -> Surface | None:
        """Return the operand that a micro-kernel does not pack as messages take it, None where they may not."""
        row, is_b = kernel.row, kernel.packs == "a"
        matrix = self.b if is_b else self.a
        takes = takes_b_along_k(row, matrix.strides, self.n, self.k) if is_b else takes_a(
            row, matrix.strides, self.m, self.k)
        if kernel.terms or row.execution_size != 16 or matrix.pointer.type.addrspace != GLOBAL or not takes:
            return None
        return self._surfaces[is_b]


def emit_product(
    builder: ir.IRBuilder, kernel: MicroKernel, product: Product, place: SubGroup, finish: Finish, emulated: bool,
    scratch: ir.Value | None = None,
) -> None:
    """Emit the sums of products; `finish` stores each, and is called where the row and the column are inside C.

    Tiles are dealt out to the sub-groups.  Where messages may load the operands, or one of them, addresses and what
    else is known at run time only decide once, in front of all loops, whether they do.
    """
    def emitter(kernel: MicroKernel) -> _Emitter:
        return _Emitter(builder, kernel, product, place, finish, emulated, scratch)

    own = emitter(kernel)
    layouts = own.line_layouts() if kernel.packs else {}
    blocks: tuple[Surface, ...] = ()
    if kernel.packs == "ab":
        possible_at_all = emulated or bool(layouts)
    elif kernel.packs:
        one = product.block(kernel)
        blocks = () if one is None else (one,)
        possible_at_all = one is not None
    else:
        blocks = product.blocks(kernel) or ()
        possible_at_all = bool(blocks)
    if not possible_at_all:
        _emit_without_blocks(emitter(kernel.alternative))
        return
    result = result_surfaces(builder, product.result, product.m, product.n, kernel.row.repeat)
    conditions = [condition for surface in (*blocks, *result) for condition in surface.conditions(builder)]
    conditions += own.conditions_of_layouts(layouts)
    with builder.if_else(functools.reduce(builder.and_, conditions)) as (possible, otherwise):
        with possible:
            if kernel.packs:
                own.deal(True, lambda first_row, first_column: own.by_local_memory(
                    first_row, first_column, result, None, next(iter(blocks), None), layouts))
            else:
                _emit_by_blocks(own, *blocks, surfaces=result)
        with otherwise:
            _emit_without_blocks(emitter(kernel.alternative))


def _emit_by_blocks(emitter: _Emitter, a: Surface, b: Surface, *, surfaces: tuple[Surface, ...]) -> None:
    """Emit the product from operands that messages load; they store C as well where it has surfaces."""
    kernel, product = emitter.kernel, emitter.product
    if not kernel.shared or isinstance(product.m, int) or isinstance(product.n, int):
        _emit_tiles(emitter, a, b, surfaces)
        return
    whole = Whole.of(emitter.builder, kernel, emitter.place, product.m, product.n, product.k)
    _emit_tiles(emitter, a, b, surfaces, whole)
    _emit_tiles(replace(emitter, kernel=emitter.alone), a, b, surfaces, whole)


def _emit_tiles(
    emitter: _Emitter, a: Surface, b: Surface, surfaces: tuple[Surface, ...], whole: Whole | None = None
) -> None:
    """Emit all tiles, or those of `whole` places of the work-group where these are shared, else of the rest."""
    is_rest = whole is not None and not emitter.kernel.shared
    builder, kernel, product, place = emitter.builder, emitter.kernel, emitter.product, emitter.place
    messages = BlockMessages(builder, place.lane, emitter.emulated)
    blocks = BlockProduct(kernel, messages, a, b, product.a_along_k, product.b_along_k, product.k)
    sharing_a, sharing_b = Shared(place.column, place.columns), Shared(place.row, place.rows)

    def tile(first_row: ir.Value, first_column: ir.Value) -> None:
        if not kernel.shared:
            stored(first_row, first_column, blocks.sums(first_row, first_column, sharing_a, sharing_b))
            return
        row = builder.add(first_row, builder.mul(place.row, index(kernel.tile_rows)))
        column = builder.add(first_column, builder.mul(place.column, index(kernel.tile_columns)))
        emitter.by_shared_blocks(blocks, first_row, first_column, lambda sums: stored(row, column, sums), whole)

    def stored(first_row: ir.Value, first_column: ir.Value, sums: Sequence[ir.Value]) -> None:
        if not surfaces or product.result is None:
            # One after the other: all of them again are as many registers as the sums, and so are addresses ahead.
            emitter.store(emitter.rows_of(first_row, kernel.lane_blocks, emitter.lane_here()), first_column, sums,
                          blocks.accumulators.value, blocks.columns)
        else:
            TileStores(kernel, blocks.accumulators, product.result, surfaces, blocks.columns).store(
                first_row, first_column, [[total] for total in sums])

    if whole is None:
        emitter.deal(kernel.shared, tile)
    elif is_rest:
        whole.deal_rest(tile)
    else:
        whole.deal(tile)


def _emit_without_blocks(emitter: _Emitter) -> None:
    """Emit the product from operands that are loaded by elements, or by words.

    Lanes and columns beyond C compute on copies of the last ones, so that the loop over k has no conditions; only its
    rest, where k is no multiple of DPAS's, does.  A packed kernel takes words of local memory, `scratch`; all
    sub-groups of the work-group go through its tiles together.
    """
    if not emitter.kernel.packed:
        emitter.deal(False, emitter.tile)
        return
    builder, product = emitter.builder, emitter.product
    row = emitter.kernel.row
    surfaces = result_surfaces(
        builder, product.result, product.m, product.n, row.repeat) if row.execution_size == 16 else ()
    conditions = [condition for surface in surfaces for condition in surface.conditions(builder)]
    possible = functools.reduce(builder.and_, conditions) if conditions else None
    emitter.deal(True, lambda first_row, first_column: emitter.by_local_memory(
        first_row, first_column, surfaces, possible))


@dataclass
class _Emitter:
    builder: ir.IRBuilder
    kernel: MicroKernel
    product: Product
    place: SubGroup
    finish: Finish
    emulated: bool
    scratch: ir.Value | None = None

    def deal(self, together: bool, tile: Callable[[ir.Value, ir.Value], None]) -> None:
        """Run `tile` for the first row and column of each tile of this sub-group, or of all of them `together`."""
        builder, kernel, product, place = self.builder, self.kernel, self.product, self.place
        rows, columns = kernel.tile_rows, kernel.tile_columns
        if together:
            rows, columns = self.rows_together, self.columns_together
            place = SubGroup(place.lane, index(0), index(0), 1, 1)
        dealt(builder, product.m, rows, place.row, place.rows, lambda first_row: dealt(
            builder, product.n, columns, place.column, place.columns,
            lambda first_column: tile(first_row, first_column),
        ))

    @property
    def alone(self) -> MicroKernel:
        """The micro-kernel of the same tile whose sub-groups load operands each for itself.

        It does two steps at a time where the same messages bring both: those that transpose bring one.
        """
        brings_two = self.product.b_along_k and not self.product.a_along_k
        return replace(self.kernel, shared=False, steps=2 if brings_two else 1)

    def tile(self, first_row: ir.Value, first_column: ir.Value) -> None:
        """Emit one tile."""
        kernel = self.kernel
        if kernel.lane_blocks * kernel.column_blocks * kernel.row.repeat > _MANY_BY_ELEMENTS:
            self.in_parts(first_row, first_column)
        else:
            self.by_elements(first_row, first_column, kernel.lane_blocks, kernel.column_blocks)

    def in_parts(self, first_row: ir.Value, first_column: ir.Value) -> None:
        """Emit a tile in smaller ones: ordinary loads need registers for addresses."""
        kernel, builder = self.kernel, self.builder
        blocks = next(count for count in (2, 1) if kernel.column_blocks % count == 0)

        def part(row: ir.Value, column: ir.Value) -> None:
            self.by_elements(builder.add(first_row, row), builder.add(first_column, column), 1, blocks)

        dealt(builder, kernel.tile_rows, kernel.row.execution_size, index(0), 1, lambda row: dealt(
            builder, kernel.tile_columns, blocks * kernel.row.repeat, index(0), 1, lambda column: part(row, column)))

    # --- sums --------------------------------------------------------------------------------------------------------

    def zeros(self, blocks: int) -> list[ir.Value]:
        type_ = operand_types(self.kernel.row)[2]
        zero = ir.Constant(type_, None) if isinstance(type_, ir.VectorType) else ir.Constant(type_, 0)
        return [zero] * blocks

    def multiply(
        self,
        sums: Sequence[ir.Value],
        a: Sequence[Sequence[ir.Value]],
        b: Sequence[ir.Value],
        products: Sequence[tuple[int, int]] = ((0, 0),),
    ) -> list[ir.Value]:
        """Return the sums of a column of blocks with the products added; each fragment is a list of terms."""
        result = []
        for total, left in zip(sums, a, strict=True):
            for i, j in products:
                total = multiply_add(self.builder, self.kernel.row, b[j], left[i], total, emulated=self.emulated)
            result.append(total)
        return result

    def by_elements(
        self, first_row: ir.Value, first_column: ir.Value, lane_blocks: int, column_blocks: int
    ) -> None:
        """Emit a tile from ordinary loads."""
        kernel, product, builder = self.kernel, self.product, self.builder
        dpas = kernel.row
        of_a, of_b = self.loader(product.a), self.loader(product.b)
        places = self.rows_of(first_row, lane_blocks)
        rows = [self.inside(row, product.m, self.rows_together) for row in places]
        columns = [self.inside(builder.add(first_column, index(j)), product.n, self.columns_together)
                   for j in range(column_blocks * dpas.repeat)]
        count = lane_blocks * column_blocks
        groups = [columns[j : j + dpas.repeat] for j in range(0, len(columns), dpas.repeat)]

        def add(k: ir.Value, sums: list[ir.Value], end: ir.Value | None) -> list[ir.Value]:
            a = [of_a.a(product.a, row, k, end) for row in rows]
            results: list[list[ir.Value]] = [[] for _ in kernel.products]
            for group in groups:
                b = of_b.b(product.b, group, k, end)
                for number, (result, products) in enumerate(zip(results, kernel.products, strict=True)):
                    first = number * count + len(result)
                    result += self.multiply(sums[first : first + lane_blocks], a, b, products)
            return [total for result in results for total in result]

        def steps(k: ir.Value, sums: list[ir.Value]) -> list[ir.Value]:
            for step in range(kernel.steps):
                sums = add(builder.add(k, index(step * dpas.k)) if step else k, sums, None)
            return sums

        whole = kernel.steps * dpas.k
        sums, done = self.zeros(count * len(kernel.products)), self.multiple(product.k, whole)
        if done != 0:
            sums = counted_loop(builder, index(0), size_value(done), index(whole), sums, steps,
                                runs_at_least_once=isinstance(done, int), unrolled=False)
        if not (isinstance(product.k, int) and product.k == done):
            end = size_value(product.k)
            sums = counted_loop(builder, size_value(done), end, index(dpas.k), sums,
                                lambda k, values: add(k, values, end), unrolled=False)
        self.store(places, first_column, self.total(sums), lambda total: total)

    def loader(self, matrix: Matrix) -> Loader:
        """Return what loads elements of a matrix."""
        if matrix.element.is_subbyte:
            per_byte = matrix.element.per_byte
            return PackedLoader(self.builder, self.kernel, self.place.lane, self.emulated, per_byte)
        return Loader(self.builder, self.kernel, self.place.lane, self.emulated)

    def by_local_memory(
        self, first_row: ir.Value, first_column: ir.Value, surfaces: tuple[Surface, ...], possible: ir.Value | None,
        block: Surface | None = None, layouts: dict[bool, LineLayout] | None = None,
    ) -> None:
        """Emit the tiles of all sub-groups from operands that they pack in local memory together.

        Where sizes, strides or addresses that are known at run time only do not allow loads of words, elements are
        loaded one by one.  Messages store C, which has `surfaces` then, where that is `possible`, always for None.
        Where one operand is packed only, messages load `block`, the other one.  Those that are packed are loaded by
        messages, too, where there are `layouts` for that.
        """
        kernel, product, builder, place = self.kernel, self.product, self.builder, self.place
        row = builder.add(first_row, builder.mul(place.row, index(kernel.tile_rows)))
        column = builder.add(first_column, builder.mul(place.column, index(kernel.tile_columns)))
        accumulators = accumulators_for(kernel.row, BlockMessages(builder, place.lane, self.emulated))
        tiles, possible_words = self.tiles(first_row, first_column)
        reads: list[LocalReads | BlockReads] = []
        for is_a, first, along_k in ((True, row, product.a_along_k), (False, column, product.b_along_k)):
            tile = tiles.get(is_a)
            if tile is not None:
                reads.append(self.local_reads(accumulators, tile.piece, tile.base))
            else:
                assert block is not None
                reads.append(BlockReads(kernel, accumulators, block, first, is_a, along_k))
        packing = self.line_packing(accumulators, tiles, layouts) if layouts else ItemPacking(
            kernel, tuple(tiles.values()), product.k, possible_words)
        of_b = (layouts or {}).get(False)
        unit = of_b.columns if of_b is not None and of_b.direct else (0,)
        columns = [first + column for first in range(0, kernel.tile_columns, len(unit)) for column in unit]
        LocalProduct(kernel, accumulators, packing, (reads[0], reads[1]), product.k,
                     self.is_inside(first_row, first_column)).compute(
            lambda sums: self.store_packed(accumulators, row, column, sums, columns, surfaces, possible))

    def store_packed(
        self, accumulators: Accumulators, row: ir.Value, column: ir.Value, sums: Sequence[ir.Value],
        columns: Sequence[int], surfaces: tuple[Surface, ...], possible: ir.Value | None,
    ) -> None:
        """Store the sums of a tile whose operands were packed; what is `possible` is that of `by_local_memory`."""
        kernel, builder, result = self.kernel, self.builder, self.product.result
        count = kernel.lane_blocks * kernel.column_blocks
        apart = [sums[place::count] for place in range(count)]

        def total(parts: Sequence[ir.Value]) -> ir.Value:
            return functools.reduce(builder.fadd, map(accumulators.value, parts))

        def by_elements() -> None:
            # One after the other: all of them again are as many registers as the sums, and so are addresses ahead.
            is_large = len(sums) * kernel.row.repeat > _MANY
            rows = self.rows_of(row, kernel.lane_blocks, self.lane_here() if is_large else None)
            self.store(rows, column, apart, total, columns, apart=bool(surfaces))

        def by_messages(result: Result) -> None:
            # Nothing of the headers is computed ahead, where it would take registers.
            messages = BlockMessages(builder, self.lane_here(), self.emulated)
            TileStores(kernel, replace(accumulators, messages=messages), result, surfaces,
                       columns).store(row, column, apart)

        if not surfaces or result is None:
            by_elements()
        elif possible is None:
            by_messages(result)
        else:
            with builder.if_else(possible) as (by_blocks, otherwise):
                with by_blocks:
                    by_messages(result)
                with otherwise:
                    by_elements()

    def tiles(
        self, first_row: ir.Value, first_column: ir.Value
    ) -> tuple[dict[bool, LocalTile], tuple[ir.Value | None, ...]]:
        """Return what packs A (True) and B, those of them that are packed, and whether words can be loaded of each."""
        kernel, product, builder, place = self.kernel, self.product, self.builder, self.place
        base = self.scratch
        assert base is not None
        subgroup = builder.add(builder.mul(place.column, index(place.rows)), place.row)
        item = builder.add(builder.mul(subgroup, index(kernel.row.execution_size)), place.lane)
        items = kernel.row.execution_size * place.rows * place.columns
        b = Matrix(product.b.pointer, product.b.element, (product.b.strides[1], product.b.strides[0]))
        result, possible = {}, list[ir.Value | None]()
        for piece, matrix, size, first in zip(
                piece_words(kernel, place.rows, place.columns), (product.a, b), (product.m, product.n),
                (first_row, first_column), strict=True):
            if not packs(kernel, piece):
                continue
            found = None if matrix.element == F32 else needed_for_words(matrix.strides, size, piece)
            possible.append(self.words_possible(matrix, found))
            result[piece.across] = LocalTile(
                builder, self.loader(matrix), piece, matrix, first, size, item, items, base, found is not None)
            base = builder.gep(base, [index(kernel.steps * piece.size)])
        return result, tuple(possible)

    def line_layouts(self) -> dict[bool, LineLayout]:
        """Return how messages load all operands that are packed, A (True) and B; nothing where they do not."""
        kernel, product, place = self.kernel, self.product, self.place
        result = {}
        strides = product.a.strides, (product.b.strides[1], product.b.strides[0])
        for piece, matrix, along, size in zip(
                piece_words(kernel, place.rows, place.columns), (product.a, product.b), strides,
                (product.m, product.n), strict=True):
            if not packs(kernel, piece):
                continue
            layout = line_layout(kernel.row, piece, along, size, product.k, kernel.steps,
                                 kernel.lane_blocks if piece.across else kernel.column_blocks)
            if self.emulated or layout is None or matrix.pointer.type.addrspace != GLOBAL:
                return {}
            result[piece.across] = layout
        return result

    def conditions_of_layouts(self, layouts: dict[bool, LineLayout]) -> list[ir.Value]:
        """Return what has to hold of matrices that have a layout, as values of one bit."""
        return [condition for is_a, matrix in ((True, self.product.a), (False, self.product.b)) if is_a in layouts
                for condition in conditions_of(self.builder, layouts[is_a], matrix)]

    def line_packing(
        self, accumulators: Accumulators, tiles: dict[bool, LocalTile], layouts: dict[bool, LineLayout]
    ) -> LinePacking:
        """Return what packs operands that messages load."""
        kernel, place, builder = self.kernel, self.place, self.builder
        number = builder.add(builder.mul(place.column, index(place.rows)), place.row)
        operands = tuple(
            LineOperand(layouts[is_a], tile.matrix, tile.piece, tile.first_line, tile.base, kernel.steps,
                        place.rows * place.columns) for is_a, tile in tiles.items())
        return LinePacking(accumulators, operands, number)

    def by_shared_blocks(
        self, blocks: BlockProduct, first_row: ir.Value, first_column: ir.Value,
        store: Callable[[Sequence[ir.Value]], None], whole: Whole | None,
    ) -> None:
        """Compute this sub-group's tile from operands that all of them load by messages together."""
        kernel, builder, place = self.kernel, self.builder, self.place
        assert self.scratch is not None
        pieces = piece_words(kernel, place.rows, place.columns)
        bases = [self.scratch, builder.gep(self.scratch, [index(kernel.steps * pieces[0].size)])]
        subgroups, product = place.rows * place.columns, self.product
        a, b = (
            SharedOperand(surface, first, size, share_of(
                kernel.row, kernel.steps, piece.across, along_k, piece.blocks, subgroups), piece, base, subgroups)
            for surface, first, size, along_k, piece, base in zip(
                (blocks.a, blocks.b), (first_row, first_column), (product.m, product.n),
                (blocks.a_along_k, blocks.b_along_k), pieces, bases, strict=True)
        )
        number = builder.add(builder.mul(place.column, index(place.rows)), place.row)
        accumulators = blocks.accumulators
        packing = BlockPacking(accumulators, kernel, (a, b), number)
        of_a, of_b = (self.local_reads(accumulators, *each) for each in zip(pieces, bases, strict=True))
        inside = self.is_inside(first_row, first_column) if whole is None else None
        LocalProduct(kernel, accumulators, packing, (of_a, of_b), self.product.k, inside).compute(store)

    def is_inside(self, first_row: ir.Value, first_column: ir.Value) -> ir.Value | None:
        """Return whether this sub-group's tile, of those from a place on, is a part of C, None where all are.

        Nor is it asked where messages are emulated: runtimes of CPUs do not vectorize what stands in a branch.
        """
        if self.emulated:
            return None
        conditions = [
            self.builder.icmp_signed("<", self.builder.add(first, self.builder.mul(number, index(step))),
                                     size_value(size))
            for first, number, step, count, size in (
                (first_row, self.place.row, self.kernel.tile_rows, self.place.rows, self.product.m),
                (first_column, self.place.column, self.kernel.tile_columns, self.place.columns, self.product.n))
            if not (isinstance(size, int) and -(-size // step) % count == 0)
        ]
        return functools.reduce(self.builder.and_, conditions) if conditions else None

    def local_reads(self, accumulators: Accumulators, piece: Piece, base: ir.Value) -> LocalReads:
        """Return what reads this sub-group's fragments of A or of B from pieces in local memory."""
        kernel, place, builder = self.kernel, self.place, self.builder
        number, blocks = (place.row, kernel.lane_blocks) if piece.across else (place.column, kernel.column_blocks)
        first = builder.mul(number, index(blocks * piece.terms * piece.fragment))
        return LocalReads(accumulators, piece, builder.gep(base, [first]), blocks, piece.across)

    def words_possible(self, matrix: Matrix, needed: list[tuple[object, int]] | None) -> ir.Value | None:
        """Return whether narrow elements of a matrix can be loaded by words, None where they are not, or are f32."""
        if needed is None:
            return None
        builder = self.builder
        known = [(builder.ptrtoint(matrix.pointer, I64), WORD_BITS // 8)]
        known += [(value, divisor) for value, divisor in needed if not isinstance(value, int)]
        conditions = [builder.icmp_unsigned("==", builder.and_(value, index(divisor - 1)), index(0))
                      for value, divisor in known]
        return functools.reduce(builder.and_, conditions)

    def total(self, sums: Sequence[ir.Value]) -> list[ir.Value]:
        """Return the sums of the leading and of the smaller products together, where they are apart."""
        count = self.kernel.lane_blocks * self.kernel.column_blocks
        if len(self.kernel.products) == 1:
            return list(sums)
        return [self.builder.fadd(*both) for both in zip(sums[:count], sums[count:], strict=True)]

    @property
    def rows_together(self) -> int:
        """Rows of C that the sub-groups compute at a time."""
        return self.kernel.tile_rows * self.place.rows

    @property
    def columns_together(self) -> int:
        """Columns of C that the sub-groups compute at a time."""
        return self.kernel.tile_columns * self.place.columns

    def rows_of(self, first_row: ir.Value, lane_blocks: int, lane: ir.Value | None = None) -> list[ir.Value]:
        """Return this lane's rows of C, one for each block; `lane` may be given."""
        size, own = self.kernel.row.execution_size, self.builder.add(first_row, lane or self.place.lane)
        return [self.builder.add(own, index(i * size)) for i in range(lane_blocks)]

    def inside(self, place: ir.Value, size: Size, covered: int) -> ir.Value:
        """Return a place in C, or the last one if it is beyond."""
        if isinstance(size, int) and size % covered == 0:
            return place
        last = self.builder.add(size_value(size), index(-1))
        return self.builder.select(self.builder.icmp_signed("<", place, last), place, last)

    def multiple(self, size: Size, factor: int) -> Size:
        """Return the largest multiple of a factor in a size."""
        if isinstance(size, int):
            return size // factor * factor
        if factor & (factor - 1) == 0:
            return self.builder.and_(size, index(-factor))
        return self.builder.sub(size, self.builder.urem(size, index(factor)))

    # --- results -----------------------------------------------------------------------------------------------------

    def store(
        self, rows: Sequence[ir.Value], first_column: ir.Value, sums: Sequence[_Sum],
        read: Callable[[_Sum], ir.Value], columns: Sequence[int] | None = None, apart: bool = False,
    ) -> None:
        """Store the sums of a tile, whose values `read` returns, and whose columns may have another order.

        The code of blocks may be kept `apart`.
        """
        dpas, builder = self.kernel.row, self.builder
        for i, row in enumerate(rows):
            with self.where(row, self.product.m, self.rows_together):
                for block, total in enumerate(sums[i::len(rows)]):
                    with self.apart() if apart else nullcontext():
                        value = read(total)
                        for number in range(dpas.repeat):
                            place = block * dpas.repeat + number
                            column = builder.add(first_column, index(place if columns is None else columns[place]))
                            with self.where(column, self.product.n, self.columns_together):
                                one = value if dpas.repeat == 1 else builder.extract_element(
                                    value, ir.Constant(I32, number))
                                self.finish(row, column, one)

    def apart(self) -> AbstractContextManager[object]:
        """Return a context whose code the compiler does not mix with what is around it.

        In all of a tile's code it computes so much ahead that registers do not suffice.
        """
        if self.emulated:
            return nullcontext()
        context: AbstractContextManager[object] = self.builder.if_then(
            self.builder.icmp_unsigned("<", self.lane_here(), index(self.kernel.row.execution_size)))
        return context

    def lane_here(self) -> ir.Value:
        """Return the lane such that compilers do not compute anything of it elsewhere than here."""
        if self.emulated:
            return self.place.lane
        line = f"mov (M1,{self.kernel.row.execution_size}) $0(0,0)<1> $1(0,0)<1;1,0>"
        lane = inline_assembly(self.builder, I32, [line], "=rw,rw", [self.builder.trunc(self.place.lane, I32)])
        return self.builder.zext(lane, I64)

    def where(self, place: ir.Value, size: Size, covered: int) -> AbstractContextManager[object]:
        """Return a context in which code is emitted that runs where a place is inside."""
        if isinstance(size, int) and size % covered == 0:
            return nullcontext()
        inside = self.builder.icmp_signed("<", place, size_value(size))
        context: AbstractContextManager[object] = self.builder.if_then(inside)
        return context
