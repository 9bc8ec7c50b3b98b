"""Batches of products, in the cache of a core, from memory, and in a single call."""

from .tracks import Results, _SectionTracks


class CacheResident(_SectionTracks, section="cache-resident"):
    """The section cache-resident."""

    def setup_cache(self) -> Results:
        """Measure all cases."""
        return self._measure()


class FromMemory(_SectionTracks, section="memory"):
    """The section memory."""

    def setup_cache(self) -> Results:
        """Measure all cases."""
        return self._measure()


class OneCall100us(_SectionTracks, section="one-call-100us"):
    """The section one-call-100us."""

    def setup_cache(self) -> Results:
        """Measure all cases."""
        return self._measure()


class OneCall30us(_SectionTracks, section="one-call-30us"):
    """The section one-call-30us."""

    def setup_cache(self) -> Results:
        """Measure all cases."""
        return self._measure()


class Transposes(_SectionTracks, section="transposes"):
    """The section transposes."""

    def setup_cache(self) -> Results:
        """Measure all cases."""
        return self._measure()


class Accumulating(_SectionTracks, section="beta"):
    """The section beta."""

    def setup_cache(self) -> Results:
        """Measure all cases."""
        return self._measure()


class SizesOfTheCall(_SectionTracks, section="specialized"):
    """The section specialized."""

    def setup_cache(self) -> Results:
        """Measure all cases."""
        return self._measure()


class UnknownSizes(_SectionTracks, section="dynamic"):
    """The section dynamic."""

    def setup_cache(self) -> Results:
        """Measure all cases."""
        return self._measure()
