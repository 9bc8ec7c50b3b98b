"""What tuning gains."""

from .tracks import Results, _SectionTracks


class Tune(_SectionTracks, section="tune"):
    """The section tune."""

    def setup_cache(self) -> Results:
        """Measure all cases."""
        return self._measure()
