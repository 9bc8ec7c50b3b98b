"""What tuning found for a program on a device, kept in the disk cache beside the compiled kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tl_dpnp.lowering.device import LoweringOptions
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.call.program import Program
from tl_dpnp.runtime.compiler import cache_key
from tl_dpnp.runtime.store.cache import DiskCache, Entry, key_of
from tl_dpnp.target.device import Device

__all__ = ["Tuned", "load_tuned", "store_tuned"]


@dataclass(frozen=True)
class Tuned:
    """The schedules that replace the default ones, by instruction, as JSON; none where the default is best.

    `summary` says in one line what they are; `gain` is the default's time divided by theirs, as it was measured.
    """

    schedules: tuple[tuple[str, str], ...]
    summary: str
    gain: float

    def applied_to(self, options: LoweringOptions) -> LoweringOptions:
        """Return the user's options with the schedules; those that the user gave stay."""
        return replace(options, schedules=tuple(sorted({**dict(self.schedules), **dict(options.schedules)}.items())))


def _key(program: Program, device: Device, options: LoweringOptions) -> str:
    """Return the key: what the kernel without tuning depends on, so that a new driver or compiler is tuned anew."""
    return key_of(["tuned", cache_key(program, device, options)])


def load_tuned(
    cache: DiskCache, program: Program, device: Device, options: LoweringOptions
) -> Tuned | None:
    """Return what was found for a program with the user's options, or None; damage is treated as by the cache."""
    entry = cache.load(_key(program, device, options))
    return None if entry is None else _from_facts(entry.facts)


def store_tuned(
    cache: DiskCache, program: Program, device: Device, options: LoweringOptions, tuned: Tuned
) -> None:
    """Keep what was found, in place of what was found before."""
    facts = {"schedules": [list(pair) for pair in tuned.schedules], "summary": tuned.summary, "gain": tuned.gain}
    cache.store(_key(program, device, options), Entry(facts))


def _from_facts(facts: dict[str, Any]) -> Tuned | None:
    match facts:
        case {"schedules": list(pairs), "summary": str(summary), "gain": int() | float() as gain}:
            if all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
                return Tuned(tuple((str(name), str(schedule)) for name, schedule in pairs), summary, gain)
    return None  # written by something else under the same key: as good as missing
