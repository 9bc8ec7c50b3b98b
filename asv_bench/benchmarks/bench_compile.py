"""From source to first result, in processes of their own: cold with an empty disk cache, warm with a filled one."""

from __future__ import annotations

from .common import cold_and_warm


class FirstResult:
    """The reference's fused sample."""

    timeout = 120

    def track_cold_compile_cpu(self) -> float:
        """Processor seconds of compilation and first call, after the imports."""
        return float(cold_and_warm(import_first=True)[0]["cpu"])

    def track_cold_start(self) -> float:
        """Seconds from process start to first result with an empty cache."""
        return float(cold_and_warm()[0]["wall"])

    def track_warm_start(self) -> float:
        """Seconds from process start to first result with a filled cache."""
        return float(cold_and_warm()[1]["wall"])

    track_cold_compile_cpu.unit = "s"  # type: ignore[attr-defined]
    track_cold_start.unit = "s"  # type: ignore[attr-defined]
    track_warm_start.unit = "s"  # type: ignore[attr-defined]
