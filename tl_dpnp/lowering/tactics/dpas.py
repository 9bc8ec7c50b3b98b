"""Products on the matrix engine of Intel's GPUs (DPAS): which micro-kernel a nest gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.kernels.dpas.operands import refused_operand, takes_a, takes_b_along_k
from tl_dpnp.kernels.dpas.pieces import packed_bytes, packed_registers, packs, piece_words
from tl_dpnp.kernels.dpas.rows import DpasRow, find_row
from tl_dpnp.lowering.contraction import Contraction
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.matrix_engine import MatrixEngine
from tl_dpnp.lowering.nest import Bound, Nest
from tl_dpnp.lowering.nest_products import (
    NestProduct,
    multiplies_by_zero,
    strides_along,
    whole_product,
)
from tl_dpnp.lowering.tactics.rounding import hint, rounding
from tl_dpnp.lowering.tactics.tactic import EngineTactic, Place
from tl_dpnp.target.catalog import DPAS

__all__ = ["MOST_SUBGROUPS", "Dpas", "default_micro_kernel", "extent_of_tiles"]

#: Sub-groups that a default work-group has at most along rows and along columns, and where sizes are not known.
MOST_SUBGROUPS, _UNKNOWN = (4, 4), 2
#: Sub-groups of a work-group from which on they load for one another where sizes are known at the call only.
_LEAST_SHARING = 4
#: Rows and columns of operands that take as much to be loaded, rounded and passed on as what each sub-group does.
_LINES_OF_ONE = 16
#: Elements that DPAS takes, by the names of the language's types.
_OPERANDS = ("bf16", "f16", "i8", "u8", "i4", "u4", "i2", "u2")


class Dpas(EngineTactic[MicroKernel]):
    """See the module."""

    kind = MicroKernel

    @classmethod
    def of(cls, contraction: Contraction, place: Place) -> Dpas | None:
        if place.layout.lanes != place.engine.lanes:
            return None
        kernel = default_micro_kernel(contraction.nest, place.engine, place.layout)
        return None if kernel is None else cls(contraction, place, kernel)

    @classmethod
    def remark(cls, plain: Nest, engine: MatrixEngine, used: MicroKernel | None) -> str | None:
        return _remark(plain, engine, used)

    @classmethod
    def missing(cls, used: MicroKernel, engine: MatrixEngine) -> str | None:
        if used.row.execution_size == engine.lanes:
            return None
        has = f"has DPAS of {engine.lanes} lanes" if engine.lanes else "has no DPAS"
        return f"{used.name} needs DPAS of {used.row.execution_size} lanes; the device {has}, and none is emulated"

    @classmethod
    def registers(cls, used: MicroKernel) -> int:
        return used.registers


def default_micro_kernel(
    nest: Nest, engine: MatrixEngine, layout: SubgroupLayout | None = None
) -> MicroKernel | None:
    """Return the micro-kernel for a nest, or None where the engine has none for it.

    Without the layout of the work-group, that is one which has a sub-group for each tile.
    """
    kernel = _largest_micro_kernel(nest, engine, layout)
    for _ in range(engine.smaller_tiles):
        kernel = None if kernel is None else _halved(kernel)
    return kernel


def _halved(kernel: MicroKernel) -> MicroKernel:
    """Return a micro-kernel whose tile has fewer columns, or rows if it is higher than wide; 1 stays 1.

    It is the next power of two: others have more variables of different sizes, which registers are kept for.
    """
    def less(count: int) -> int:
        return 1 << max(0, (count - 1).bit_length() - 1)

    rows, columns = kernel.lane_blocks, kernel.column_blocks
    if columns >= rows:
        columns = less(columns)
    else:
        rows = less(rows)
    # Where both operands are packed tiles are no larger than where one is.
    other = kernel.other
    if kernel.packs and other is not None:
        other = min(rows, other[0]), min(columns, other[1]), other[2]
    return replace(kernel, lane_blocks=rows, column_blocks=columns, other=other)


def _largest_micro_kernel(nest: Nest, engine: MatrixEngine, layout: SubgroupLayout | None) -> MicroKernel | None:
    product = whole_product(nest)
    if product is None or not engine.lanes or multiplies_by_zero(product):
        return None
    kernel = _kernel_of(product, engine, layout)
    if kernel is None or _no_blocks(product, kernel) is None:
        return kernel
    # Where messages load no columns of B along k, they may load rows of A so.
    turned = None if layout is None else SubgroupLayout(layout.lanes, layout.columns, layout.rows)
    other = _kernel_of(product.exchanged, engine, turned)
    if other is None:
        return kernel
    takes_blocks = _no_blocks(product.exchanged, other) is None
    # The same where they fill panels.
    fills_panels = _packs_by_messages(product.exchanged, other, turned) and not _packs_by_messages(
        product, kernel, layout)
    return replace(other, exchanged=True) if takes_blocks or fills_panels else kernel


def _packs_by_messages(product: NestProduct, kernel: MicroKernel, layout: SubgroupLayout | None) -> bool:
    """Whether messages load all operands that a micro-kernel packs."""
    if not kernel.packs or any(access.buffer.is_temporary for access in (product.a, product.b)):
        return False
    from tl_dpnp.kernels.dpas.line_packing import line_layout

    pieces = piece_words(kernel, *_extent(product, kernel, layout))
    tile = kernel.lane_blocks, kernel.column_blocks
    return all(line_layout(kernel.row, piece, strides, lines, product.k.stop, kernel.steps, blocks) is not None
               for piece, (strides, lines), blocks in zip(pieces, product.lines, tile, strict=True)
               if packs(kernel, piece))


def _kernel_of(product: NestProduct, engine: MatrixEngine, layout: SubgroupLayout | None) -> MicroKernel | None:
    """Return the micro-kernel for a product as it is."""
    found = _types(product, engine)
    if found is None:
        return None
    accumulator, a, b, terms = found
    m, columns = product.m.stop, product.n.stop
    # The language's A is the second source of DPAS, B the first.
    found_rows = [find_row(engine.lanes, accumulator, b, a, repeat) for repeat in (1, 2, 4, 8)
                  if repeat == 8 or (isinstance(columns, int) and columns <= repeat)]
    row = next((row for row in found_rows if row is not None and row.unused is None), None)
    if row is None:
        return None
    packed = _packed_kernel(product, row, terms, engine.local_memory, layout)
    by_blocks = _block_kernel(product, row, terms, packed, engine.local_memory, layout)
    if by_blocks is not None:
        return by_blocks
    if packed is not None:
        return _half_packed_kernel(product, packed, engine.local_memory, layout) or packed
    most_rows, most_columns = DPAS[row.execution_size].elements_read
    return MicroKernel(row, _blocks(m, engine.lanes, most_rows), _blocks(columns, row.repeat, most_columns), 1, terms)


def _block_kernel(
    product: NestProduct, row: DpasRow, terms: int, packed: MicroKernel | None, local_memory: int,
    layout: SubgroupLayout | None,
) -> MicroKernel | None:
    """Return the micro-kernel that loads large blocks, and the tile of a packed one where these cannot be loaded."""
    is_packed = packed is not None and (terms > 0 or not product.is_static)
    other = None
    if packed is not None and is_packed:
        other = _other_tile(product, packed, local_memory, layout)
    kernel = MicroKernel(row, 1, 1, 1, terms, other=other)
    if _no_blocks(product, kernel) is not None:
        return None
    from tl_dpnp.lowering.tactics.block_tiles import block_tile
    from tl_dpnp.lowering.tactics.shared_tiles import shared_tile

    a, b = _strides(product)
    sizes, along_k = (product.m.stop, product.n.stop, product.k.stop), (a[0] != 1, b[0] == 1)
    rows, columns, steps = block_tile(row, sizes, *along_k)
    alone = replace(kernel, lane_blocks=rows, column_blocks=columns, steps=steps)
    if terms == 0:
        return alone
    if not product.is_static:
        # The tile is that of sub-groups that load for themselves what no whole work-group covers.  Where messages
        # transpose, others take less for that.
        is_open = not (isinstance(sizes[0], int) or isinstance(sizes[1], int))
        has_few = layout is not None and layout.subgroups < _LEAST_SHARING
        if not is_open or has_few or along_k != (False, True):
            return alone
        extent = _extent(product, replace(kernel, shared=True), None)
        local_memory = min(local_memory, DPAS[row.execution_size].panel_bytes * extent[0] * extent[1])
    # Panels fit in the work-group that it would have alone, too: the tile is to be the same in it.
    found = shared_tile(
        kernel, alone, sizes, along_k, lambda shared: _extent(product, shared, None),
        lambda shared: {_extent(product, shared, None), _extent(product, shared, layout)}, local_memory)
    if found is not None and found.other is not None and not product.is_static:
        # There are twice as many sub-groups along the columns, each of which has half of them.
        found = replace(found, other=(found.other[0], max(1, found.other[1] // 2), found.other[2]))
    return found or alone


def _other_tile(
    product: NestProduct, packed: MicroKernel, local_memory: int, layout: SubgroupLayout | None
) -> tuple[int, int, int]:
    """Return the tile of a packed kernel beside loops that load large blocks: registers are left for no larger one."""
    rows, columns = min(packed.lane_blocks, _UNKNOWN), min(packed.column_blocks, _UNKNOWN)
    # Wider ones pack less for each DPAS; elements, which such kernels may have to pack, take most of the instructions.
    wide = _blocks(product.n.stop, packed.row.repeat, 2 * _UNKNOWN, 2 * _UNKNOWN)
    kernel = replace(packed, lane_blocks=rows, column_blocks=wide)
    extents = {_extent(product, kernel, None), _extent(product, kernel, layout)}
    fits = all(packed_bytes(kernel, *extent) <= local_memory for extent in extents)
    return rows, wide if fits else columns, packed.steps


def _packed_kernel(
    product: NestProduct, row: DpasRow, terms: int, local_memory: int, layout: SubgroupLayout | None
) -> MicroKernel | None:
    """Return the micro-kernel whose operands are packed in local memory, None where none fits."""
    m, n = product.m.stop, product.n.stop
    numbers = DPAS[row.execution_size]
    for rows, most_columns in numbers.packed_f32 if terms > 1 else numbers.packed:
        columns = _blocks(n, row.repeat, most_columns, max(1, most_columns // 2))
        # Addresses of f32 take more registers, and strides that are not known even more.
        unknown = _UNKNOWN if terms else rows
        kernel = MicroKernel(row, _blocks(m, row.execution_size, rows, unknown), columns, 1, terms, packed=True)
        extents = {_extent(product, kernel, None), _extent(product, kernel, layout)}
        if all(_fits(product, kernel, extent, local_memory) for extent in extents):
            return replace(kernel, steps=min(
                _steps_of_panel(kernel, extent, product.k.stop, local_memory) for extent in extents))
    return None


def _half_packed_kernel(
    product: NestProduct, packed: MicroKernel, local_memory: int, layout: SubgroupLayout | None
) -> MicroKernel | None:
    """Return the micro-kernel whose panels messages fill, or one beside operands that they load; None without them."""
    row = packed.row
    if row.execution_size != 16 or packed.terms > 1:
        return None
    a, b = _strides(product)
    m, n, k = product.m.stop, product.n.stop, product.k.stop
    takes = (not product.a.buffer.is_temporary and takes_a(row, a, m, k),
             not product.b.buffer.is_temporary and takes_b_along_k(row, b, n, k))
    # Their loops leave a large tile less room.
    rows = min(packed.lane_blocks, DPAS[row.execution_size].rows_beside) if packed.is_large else packed.lane_blocks
    kernel = replace(
        packed, steps=1, packed=False, other=(rows, packed.column_blocks, packed.steps),
        packs="ab" if packed.terms else "b" if takes[0] else "a" if takes[1] else "ab")
    if packed.terms:
        takes = False, False  # both are rounded
    tile = None
    if product.is_static and not any(access.buffer.is_temporary for access, taken in zip(
            (product.a, product.b), takes, strict=True) if not taken):
        from tl_dpnp.lowering.tactics.panel_tiles import panel_tile

        tile = panel_tile(product, kernel, (a[0] != 1, b[0] == 1), MOST_SUBGROUPS, local_memory,
                          lambda kernel, extent: _even_steps(kernel, extent, k, local_memory))
    if tile is not None:
        kernel = replace(kernel, lane_blocks=tile[0], column_blocks=tile[1])
    elif kernel.packs == "ab":
        return None
    extents = {_extent(product, kernel, None), _extent(product, kernel, layout)}
    kernel = replace(kernel, steps=min(_even_steps(kernel, extent, k, local_memory) for extent in extents))
    return kernel if all(packed_bytes(kernel, *extent) <= local_memory for extent in extents) else None


def _even_steps(kernel: MicroKernel, extent: tuple[int, int], k: Bound, local_memory: int) -> int:
    """Return the same as `_steps_of_panel` for iterations that load what two DPAS take along k.

    Those of a single panel may have one in front.
    """
    steps = _steps_of_panel(kernel, extent, k, local_memory)
    is_only_one = isinstance(k, int) and k <= steps * kernel.row.k
    return steps if is_only_one else steps + steps % 2


def _steps_of_panel(kernel: MicroKernel, extent: tuple[int, int], k: Bound, local_memory: int) -> int:
    """Return the DPAS along k for which operands are packed at a time: panels are equally long."""
    numbers, step = DPAS[kernel.row.execution_size], packed_bytes(kernel, *extent)
    room = min(local_memory, max(numbers.panel_steps * step, numbers.panel_bytes * extent[0] * extent[1]))
    most = room // step
    if most > 3:
        most -= most % 2  # an iteration multiplies what several DPAS take, and a panel has several iterations
    if not isinstance(k, int):
        return most
    needed = -(-max(k, 1) // kernel.row.k)
    each = -(-needed // -(-needed // most))
    return min(most, each + each % 2) if needed > most else each


def _fits(product: NestProduct, kernel: MicroKernel, extent: tuple[int, int], local_memory: int) -> bool:
    """Whether a packed product of so many sub-groups has the local memory and the registers that it takes."""
    return (product.can_be_packed(kernel) and packed_bytes(kernel, *extent) <= local_memory
            and packed_registers(kernel, *extent, product.lines) <= DPAS[kernel.row.execution_size].registers)


def _extent(product: NestProduct, kernel: MicroKernel, layout: SubgroupLayout | None) -> tuple[int, int]:
    if layout is not None:
        return layout.rows, layout.columns
    return extent_of_tiles([(product.m.stop, product.n.stop, kernel)])


def _no_blocks(product: NestProduct, kernel: MicroKernel) -> str | None:
    """Return why the operands of a product cannot be read by blocks, None where they can."""
    row = kernel.row
    if row.execution_size != 16:
        return "the device has no loads of blocks"
    if not kernel.takes_blocks:
        return "they are packed, or rounded, as they are loaded"
    for access in (product.a, product.b):
        if access.buffer.is_temporary:
            return f"{access.buffer.name} is in local memory"
    refused = refused_operand(row, *_strides(product), (product.m.stop, product.n.stop, product.k.stop))
    if refused is None:
        return None
    access = product.a if refused == "A" else product.b
    return f"{access.buffer.name} has strides or sizes that loads of blocks do not take"


def _strides(product: NestProduct) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """Return the strides of A along m and k, and of B along k and n."""
    m, n, k = product.m.variable, product.n.variable, product.k.variable
    return strides_along(product.a, m, k), strides_along(product.b, k, n)


def _remark(nest: Nest, engine: MatrixEngine, used: MicroKernel | None) -> str | None:
    product = whole_product(nest)
    if product is None or not engine.lanes:
        return None
    if used is not None:
        why = _no_blocks(product.seen_by(used), used)
        loads = (
            "way of local memory, packed there" if used.packed else
            "loads of blocks" + ("" if used.other is None else ", by way of local memory where these cannot be")
            if why is None else f"loads of single elements: {why}"
        )
        if used.packs == "ab":
            loads = "loads of blocks that are packed in local memory"
        elif used.packs:
            packed, other = (product.a, product.b) if used.packs == "a" else (product.b, product.a)
            loads = (f"loads of blocks of {other.buffer.name}, and by way of local memory, packed there, of"
                     f" {packed.buffer.name}")
        rows, columns = used.tile
        return f"is on the matrix engine: {used.row}, tiles of {rows} x {columns}, operands by {loads}"
    return f"is not on the matrix engine: {_refusal(nest, product, engine)}"


def _refusal(nest: Nest, product: NestProduct, engine: MatrixEngine) -> str:
    if default_micro_kernel(nest, engine) is not None:
        return "the work-group's sub-groups have another size, or it has a schedule of its own"
    if multiplies_by_zero(product):
        return "its sums are multiplied by 0"
    a, b, total = product.types
    return f"it sums products of {a} and {b} in {total}{hint(product.types)}"


def _types(product: NestProduct, engine: MatrixEngine) -> tuple[str, str, str, int] | None:
    """Return the accumulator, the types of A and B on the engine, and the terms of an f32 operand."""
    a, b, total = product.types
    found = rounding(product.types, engine.precision, "dpas 16" if engine.lanes == 16 else "dpas 8")
    if found is None or found.terms:
        return None if found is None else (total, *found)
    fits = "i32" if product.a.buffer.element.is_integer else "f32"
    return (total, *found) if a in _OPERANDS and b in _OPERANDS and total == fits else None


def extent_of_tiles(products: Sequence[tuple[Bound, Bound, MicroKernel]]) -> tuple[int, int]:
    """Return rows and columns of sub-groups such that each has a tile of the largest product, of known sizes m x n."""
    rows, columns = 1, 1
    for m, n, kernel in products:
        if kernel.shared and isinstance(m, int) and isinstance(n, int):
            found = _extent_that_shares(m, n, kernel)
            rows, columns = max(rows, found[0]), max(columns, found[1])
            continue
        tile_rows, tile_columns = kernel.tile
        most_rows, most_columns = _unknown_extent(kernel)
        rows = max(rows, _extent_along(m, tile_rows, most_rows, MOST_SUBGROUPS[0]))
        columns = max(columns, _extent_along(n, tile_columns, most_columns, MOST_SUBGROUPS[1]))
    return rows, columns


def _extent_that_shares(m: int, n: int, kernel: MicroKernel) -> tuple[int, int]:
    """Return rows and columns of sub-groups that load least of A and B for one another, of known sizes."""
    tiles = [-(-size // tile) for size, tile in zip((m, n), kernel.tile, strict=True)]
    most = MOST_SUBGROUPS[0] * MOST_SUBGROUPS[1]

    def moved(extent: tuple[int, int]) -> int:
        times = -(-tiles[0] // extent[0]) * -(-tiles[1] // extent[1])
        lines = sum(count * size for count, size in zip(extent, kernel.tile, strict=True))
        return times * (lines + _LINES_OF_ONE * extent[0] * extent[1])

    extents = [(rows, columns) for rows in range(1, most + 1) for columns in range(1, most // rows + 1)]
    return min(extents, key=moved)


def _extent_along(size: Bound, tile: int, unknown: int, most: int) -> int:
    """Return the sub-groups along a mode, at most so many: those that take equally many tiles each."""
    if not isinstance(size, int):
        return min(unknown, most)
    tiles = max(1, -(-size // tile))
    return -(-tiles // -(-tiles // most))


def _unknown_extent(kernel: MicroKernel) -> tuple[int, int]:
    """Return rows and columns of sub-groups where sizes are not known.

    What they share is least for each where its tiles together are about as many rows as columns.
    """
    if not kernel.shared:
        return _UNKNOWN, _UNKNOWN
    return (2 * _UNKNOWN, _UNKNOWN) if kernel.exchanged else (_UNKNOWN, 2 * _UNKNOWN)


def _blocks(size: Bound, block: int, most: int, unknown: int = 2) -> int:
    """Return the blocks of a tile along a mode: as even as possible, or so many where the size is `unknown`."""
    if not isinstance(size, int):
        return min(unknown, most)
    blocks = -(-size // block)
    tiles = -(-blocks // most)
    return -(-blocks // tiles)
