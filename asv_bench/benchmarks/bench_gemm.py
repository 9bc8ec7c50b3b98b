"""Batches of small products in f32 that do not fit the cache, in turns with dpnp and NumPy."""

from __future__ import annotations

from .common import BatchedGemm, medians


class BatchedGemmF32:
    """C := A · B for 64 MB of matrices."""

    params = ([(32, 32, 32), (16, 16, 16), (8, 8, 8), (56, 9, 56)],)
    param_names = ("m_n_k",)
    timeout = 120

    def setup(self, shape: tuple[int, int, int]) -> None:
        """Make the batch and check the kernel against NumPy."""
        self.gemm = BatchedGemm(*shape)

    def track_gflops(self, shape: tuple[int, int, int]) -> float:
        """Speed of the compiled kernel."""
        (own,) = medians([self.gemm.tl_dpnp])
        return self.gemm.flops / own / 1e9

    def track_speedup(self, shape: tuple[int, int, int]) -> float:
        """Speed over that of the better of dpnp.matmul and numpy.matmul."""
        own, dpnp, numpy = medians([self.gemm.tl_dpnp, self.gemm.dpnp, self.gemm.numpy])
        return min(dpnp, numpy) / own

    track_gflops.unit = "GF/s"  # type: ignore[attr-defined]
    track_speedup.unit = "x"  # type: ignore[attr-defined]
