"""gemv, ger, axpby, sum and hadamard against the speed of memory."""

from .tracks import Results, _SectionTracks


class Instructions(_SectionTracks, section="bandwidth"):
    """The section bandwidth."""

    def setup_cache(self) -> Results:
        """Measure all cases."""
        return self._measure()
