"""Products of the sizes that other codes use."""

from .tracks import Results, _SectionTracks


class InCache(_SectionTracks, section="codes-cache"):
    """The section codes-cache."""

    def setup_cache(self) -> Results:
        """Measure all cases."""
        return self._measure()


class FromMemory(_SectionTracks, section="codes-memory"):
    """The section codes-memory."""

    def setup_cache(self) -> Results:
        """Measure all cases."""
        return self._measure()
