"""From source to first result, and imports, in processes of their own."""

from .processes import cold_and_warm, import_seconds
from .tracks import Results, _SectionTracks


class ColdCompile(_SectionTracks, section="compile"):
    """The section compile."""

    def setup_cache(self) -> Results:
        """Measure all cases."""
        return self._measure()


class FirstResult:
    """The reference's fused sample, cold with an empty disk cache and warm with the cache that this left."""

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


class Import:
    """``import`` in a fresh process: tl_dpnp alone, and dpnp, which its users import anyway."""

    params = (["tl_dpnp", "dpnp"],)
    param_names = ("module",)

    def track_seconds(self, module: str) -> float:
        """Time of the import."""
        return min(import_seconds(module)["seconds"] for _ in range(5))

    def track_bytes(self, module: str) -> float:
        """Memory that the import takes."""
        return import_seconds(module)["bytes"]

    track_seconds.unit = "s"  # type: ignore[attr-defined]
    track_bytes.unit = "bytes"  # type: ignore[attr-defined]
