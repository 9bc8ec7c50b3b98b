"""What a call costs when there is next to nothing to compute, and what it asks of the runtime."""

from .processes import calls_of_a_launch
from .tracks import Results, _SectionTracks


class Launch(_SectionTracks, section="launch"):
    """The section launch."""

    def setup_cache(self) -> Results:
        """Measure all cases."""
        return self._measure()


class Call:
    """A call for a batch of 100 products, without noise: counts of the runtime's own trace, and bytes."""

    def setup_cache(self) -> dict[str, float]:
        """Count in processes of their own."""
        return calls_of_a_launch()

    def track_kernels_launched(self, counts: dict[str, float]) -> float:
        """Launches of kernels."""
        return counts["launches"]

    def track_allocations(self, counts: dict[str, float]) -> float:
        """Allocations of device memory."""
        return counts["allocations"]

    def track_python_bytes(self, counts: dict[str, float]) -> float:
        """Memory of Python objects at its peak."""
        return counts["bytes"]

    track_kernels_launched.unit = "launches"  # type: ignore[attr-defined]
    track_allocations.unit = "allocations"  # type: ignore[attr-defined]
    track_python_bytes.unit = "bytes"  # type: ignore[attr-defined]
