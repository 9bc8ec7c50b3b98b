"""The tutorial's schedules, each against the one before."""

from .tracks import Results, _SectionTracks


class Stages(_SectionTracks, section="stages"):
    """The section stages."""

    def setup_cache(self) -> Results:
        """Measure all cases."""
        return self._measure()
