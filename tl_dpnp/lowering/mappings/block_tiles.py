"""Tiles of the blocked form whose operands come by ``cp.async``."""

from __future__ import annotations

from tl_dpnp.kernels.blocked.complex_tiles import ComplexMultiplyAdds, ComplexTensorCores
from tl_dpnp.kernels.blocked.copies import Consecutive
from tl_dpnp.kernels.blocked.multiply import MultiplyAdds, TensorCores, WarpTile
from tl_dpnp.kernels.blocked.multistage import MultistageProduct
from tl_dpnp.records import dataclass

__all__ = ["BATCHES", "FEW", "TILES", "Tile"]


@dataclass(frozen=True)
class Tile:
    """Rows and columns of a tile, how warps multiply, depth and number of stages, and the registers of a thread.

    As many as there are if these are 0.  Of what results are added to `old` elements are on their way to a thread at a
    time.
    """

    rows: int
    columns: int
    warp_tile: WarpTile
    depth: int = 16
    stages: int = 4
    registers: int = 0
    old: int = 32

    def product(
        self, consecutive: tuple[Consecutive, Consecutive], result: str, rows_consecutive: bool, has_clusters: bool,
        accumulates: bool, real_factors: bool = True
    ) -> MultistageProduct:
        """Return the kernel for operands and results that lie so, for D := L R + D if it `accumulates`.

        With `real_factors` alpha and beta have no imaginary parts.
        """
        return MultistageProduct(self.rows, self.columns, consecutive, result, rows_consecutive, has_clusters,
                                 self.warp_tile, self.depth, self.stages, self.old, accumulates, real_factors)


_F64 = "m16n8k4_f64_f64_f64"
#: For any sizes, by the type of the operands; the catalogue has the speed of each
#: (`tl_dpnp.target.multiprocessor.TileSpeed`).  Of tiles of f32 a multiprocessor has three blocks: with larger ones, of
#: 128 sums of a thread, a scheduler has two warps, and often waits for both.
TILES = {
    "f32": (
        Tile(128, 64, MultiplyAdds(64, 32, 8, 4), registers=168),
        Tile(64, 128, MultiplyAdds(64, 32, 8, 4), registers=168),
        Tile(64, 64, MultiplyAdds(32, 32, 4, 8), registers=168),
        Tile(16, 128, MultiplyAdds(16, 32, 4, 8), registers=168),
    ),
    "f64": (
        Tile(128, 128, TensorCores(64, 32, _F64)), Tile(128, 64, TensorCores(64, 32, _F64)),
        Tile(64, 64, TensorCores(32, 32, _F64)), Tile(16, 128, TensorCores(16, 32, _F64)),
    ),
    "c32": (
        Tile(64, 64, ComplexMultiplyAdds(32, 32, 8, 4), depth=8, stages=3, registers=168),
        Tile(32, 32, ComplexMultiplyAdds(16, 16, 8, 4), depth=8, stages=3, registers=168),
        Tile(16, 64, ComplexMultiplyAdds(16, 16, 8, 4), depth=8, stages=3, registers=168),
    ),
    "c64": (
        Tile(64, 48, ComplexTensorCores(16, 48, _F64), depth=8, stages=3),
        Tile(48, 64, ComplexTensorCores(48, 16, _F64), depth=8, stages=3),
        Tile(32, 32, ComplexTensorCores(16, 16, _F64), depth=8, stages=3),
        Tile(16, 64, ComplexTensorCores(16, 16, _F64), depth=8, stages=3),
    ),
}
#: For batches of products of known sizes, up to a few tiles a side: of smaller ones more blocks have room, and ragged
#: edges waste less.  The catalogue has their speeds, too.
BATCHES = {
    "f32": (
        Tile(128, 128, MultiplyAdds(64, 32, 8, 4), stages=3, registers=128),
        Tile(128, 64, MultiplyAdds(64, 32, 8, 4), stages=3, registers=168),
        Tile(96, 64, MultiplyAdds(48, 32, 4, 8), stages=3, registers=128),
        Tile(64, 128, MultiplyAdds(64, 32, 8, 4), stages=3, registers=168),
        Tile(64, 96, MultiplyAdds(32, 48, 8, 4), stages=3, registers=128, old=16),
        Tile(64, 64, MultiplyAdds(32, 32, 4, 8), stages=3, registers=128),
        Tile(96, 128, MultiplyAdds(48, 64, 4, 8), stages=3, registers=168),
        Tile(48, 128, MultiplyAdds(48, 32, 4, 8), stages=3, registers=128),
        Tile(80, 128, MultiplyAdds(80, 32, 4, 8), stages=3, registers=168),
        Tile(128, 80, MultiplyAdds(32, 80, 8, 4), stages=3, registers=168),
        Tile(80, 64, MultiplyAdds(80, 32, 4, 8), stages=3, registers=168),
        Tile(64, 80, MultiplyAdds(32, 80, 8, 4), stages=3, registers=168),
    ),
    "f64": (
        Tile(128, 64, TensorCores(64, 32, _F64), stages=3), Tile(96, 64, TensorCores(48, 32, _F64), stages=3),
        Tile(80, 64, TensorCores(80, 16, _F64), stages=3), Tile(64, 80, TensorCores(16, 80, _F64), stages=3),
        Tile(64, 64, TensorCores(32, 32, _F64)), Tile(64, 32, TensorCores(16, 32, _F64), stages=3, registers=128),
        Tile(32, 64, TensorCores(32, 16, _F64), stages=3, registers=128),
        Tile(32, 32, TensorCores(16, 16, _F64), stages=3, registers=96),
    ),
    "c32": (
        Tile(64, 64, ComplexMultiplyAdds(32, 32, 8, 4), depth=8, stages=3, registers=168),
        Tile(48, 64, ComplexMultiplyAdds(48, 16, 8, 4), depth=8, stages=3, registers=128),
        Tile(64, 48, ComplexMultiplyAdds(32, 24, 8, 4), depth=8, stages=3, registers=128),
        Tile(64, 32, ComplexMultiplyAdds(32, 16, 8, 4), depth=8, stages=3, registers=128),
        Tile(32, 64, ComplexMultiplyAdds(16, 32, 8, 4), depth=8, stages=3, registers=128),
        Tile(32, 32, ComplexMultiplyAdds(16, 16, 8, 4), depth=8, stages=3, registers=96),
    ),
    "c64": (
        Tile(48, 64, ComplexTensorCores(48, 16, _F64), depth=8, stages=3),
        Tile(64, 48, ComplexTensorCores(16, 48, _F64), depth=8, stages=3),
        Tile(64, 32, ComplexTensorCores(32, 16, _F64), depth=8, stages=3, registers=168),
        Tile(32, 64, ComplexTensorCores(32, 16, _F64), depth=8, stages=3, registers=168),
        Tile(48, 32, ComplexTensorCores(48, 16, _F64), depth=8, stages=3),
        Tile(32, 32, ComplexTensorCores(16, 16, _F64), depth=8, stages=3, registers=128),
    ),
}
#: For batches of fewer products than there are multiprocessors, which had better share each out.  Sums up to 64 have
#: room as a whole in the second one.
FEW = {
    "f64": (
        Tile(32, 32, TensorCores(16, 16, _F64), stages=3), Tile(32, 16, TensorCores(16, 8, _F64), stages=5),
    ),
}
