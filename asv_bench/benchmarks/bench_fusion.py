"""dpnp code that is fused."""

from .tracks import Results, _SectionTracks


class Fused(_SectionTracks, section="fusion"):
    """The section fusion."""

    def setup_cache(self) -> Results:
        """Measure all cases."""
        return self._measure()


class Alone(_SectionTracks, section="fusion-alone"):
    """The section fusion-alone."""

    def setup_cache(self) -> Results:
        """Measure all cases."""
        return self._measure()


class Calls(_SectionTracks, section="fusion-calls"):
    """The section fusion-calls."""

    def setup_cache(self) -> Results:
        """Measure all cases."""
        return self._measure()


class Steps(_SectionTracks, section="fusion-steps"):
    """The section fusion-steps."""

    def setup_cache(self) -> Results:
        """Measure all cases."""
        return self._measure()


class Traces(_SectionTracks, section="fusion-traces"):
    """The section fusion-traces."""

    def setup_cache(self) -> Results:
        """Measure all cases."""
        return self._measure()
