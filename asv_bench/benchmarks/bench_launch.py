"""What a call costs when there is next to nothing to compute."""

from __future__ import annotations

from .common import BatchedGemm, medians


class Launch:
    """One 32×32×32 product, arguments already on the device."""

    timeout = 120

    def setup(self) -> None:
        """Make the arrays and check the kernel against NumPy."""
        self.gemm = BatchedGemm(32, 32, 32, batch=1)

    def time_call(self) -> None:
        """A blocking call."""
        self.gemm.tl_dpnp()

    def track_ratio_to_dpnp(self) -> float:
        """Time of a call over that of dpnp.matmul on the same arrays."""
        own, dpnp = medians([self.gemm.tl_dpnp, self.gemm.dpnp])
        return own / dpnp

    track_ratio_to_dpnp.unit = "x"  # type: ignore[attr-defined]
