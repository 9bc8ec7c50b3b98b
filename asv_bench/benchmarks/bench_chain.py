"""The fused chain of products of the language's reference."""

from .tracks import Results, _SectionTracks


class InCache(_SectionTracks, section="chain"):
    """The section chain."""

    def setup_cache(self) -> Results:
        """Measure all cases."""
        return self._measure()


class FromMemory(_SectionTracks, section="chain-memory"):
    """The section chain-memory."""

    def setup_cache(self) -> Results:
        """Measure all cases."""
        return self._measure()
