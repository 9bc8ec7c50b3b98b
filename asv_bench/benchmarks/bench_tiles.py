"""Products of narrow types on the tiles of Intel's processors."""

from .tracks import Results, _SectionTracks


class Tiles(_SectionTracks, section="tiles"):
    """The section tiles."""

    def setup_cache(self) -> Results:
        """Measure all cases."""
        return self._measure()


class TilePrograms(_SectionTracks, section="tile-programs"):
    """The section tile-programs."""

    def setup_cache(self) -> Results:
        """Measure all cases."""
        return self._measure()
