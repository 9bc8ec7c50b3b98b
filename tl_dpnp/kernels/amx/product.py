"""The product of two matrices by a work-item, on tiles."""

from __future__ import annotations

from llvmlite import ir

from tl_dpnp.kernels.amx.emitter import Emitter, Finish
from tl_dpnp.kernels.amx.fetching import Fetching
from tl_dpnp.kernels.amx.micro_kernel import TileKernel
from tl_dpnp.kernels.amx.overlapped import Overlapped
from tl_dpnp.kernels.amx.packing import Packer
from tl_dpnp.kernels.amx.tiles import EmulatedTiles, HardwareTiles, Tiles
from tl_dpnp.kernels.dpas.fragments import Matrix
from tl_dpnp.kernels.dpas.gemm import Product

__all__ = ["Finish", "emit_tile_product"]


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
    emitter = (Overlapped if kernel.overlaps(n, k) else Emitter)(
        builder, kernel, tiles, a, b, result, sums, finish, keeps_a, fetching)
    emitter.emit()
