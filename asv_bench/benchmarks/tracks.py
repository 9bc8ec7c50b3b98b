"""The sections as benchmarks for asv: a section is measured once, and each track reads one number of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, ClassVar

from .measure import cases_of, run_in_child
from .sections import SECTIONS, Section
from .tables import QUICK

#: Seconds for each case.
_SECONDS = 0.1 if QUICK else 1.0

Results = dict[str, dict[str, Any]]


class _SectionTracks:
    """Base of the benchmarks of a section, named in the class statement; asv passes over the underscore.

    ``track_value`` is in the section's unit, ``track_of_limit`` the part of the limit, and ``track_over_…`` the time of
    a peer over that of tl_dpnp.  A subclass must define ``setup_cache``: asv tells caches apart by their line.
    """

    section: ClassVar[Section]
    params: ClassVar[list[tuple[str, ...]]]
    param_names = ("case",)

    def __init_subclass__(cls, section: str) -> None:
        cls.section = SECTIONS[section]
        cls.params = [cases_of(cls.section)]
        tracks: dict[str, tuple[str, Callable[[dict[str, Any]], float]]] = {
            "track_value": (cls.section.unit, lambda found: found["value"]["median"])
        }
        if cls.section.limits:
            tracks["track_of_limit"] = ("of the limit", lambda found: found["limit"]["median"])
        for peer in cls.section.peers:
            tracks[f"track_over_{re.sub('[^a-z0-9]+', '_', peer)}"] = ("x", _ratio(peer))
        for name, (unit, read) in tracks.items():
            setattr(cls, name, _track(name, unit, read))

    def _measure(self) -> Results:
        report = run_in_child(self.section.name, _SECONDS)
        return {measurement.case: asdict(measurement) for measurement in report.measurements}


def _ratio(peer: str) -> Callable[[dict[str, Any]], float]:
    """Return what reads a ratio; asv shows the NaN of a peer that is not there as n/a."""
    return lambda found: found["ratios"].get(peer, {"median": float("nan")})["median"]


def _track(name: str, unit: str, read: Callable[[dict[str, Any]], float]) -> Any:
    def track(self: _SectionTracks, results: Results, case: str) -> float:
        return float(read(results[case]))

    track.__name__ = name
    track.unit = unit  # type: ignore[attr-defined]
    return track
