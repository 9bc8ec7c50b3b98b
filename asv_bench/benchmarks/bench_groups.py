"""Separate arrays through handles, against the same batch in one array."""

from .tracks import Results, _SectionTracks


class Groups(_SectionTracks, section="groups"):
    """The section groups."""

    def setup_cache(self) -> Results:
        """Measure all cases."""
        return self._measure()
