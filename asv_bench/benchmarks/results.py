"""What a run finds: measurements of cases, verdicts on the project's targets, and both as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .timing import Quartiles, geometric_mean

__all__ = ["Measurement", "Report", "Target", "Verdict", "judge"]


@dataclass(frozen=True)
class Measurement:
    """One case: `value` in the section's unit, and ratios of one run, round by round.

    ``ratios[peer]`` is the peer's time over that of tl_dpnp: above 1, tl_dpnp is faster.  `limit` is the part that was
    reached of what the machine can do, where the section has such a limit.
    """

    case: str
    value: Quartiles
    seconds: float
    ratios: dict[str, Quartiles] = field(default_factory=dict)
    limit: Quartiles | None = None
    facts: dict[str, float] = field(default_factory=dict)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Measurement:
        """Rebuild what ``asdict`` made."""
        limit = data["limit"]
        return cls(
            data["case"], Quartiles(**data["value"]), data["seconds"],
            {peer: Quartiles(**ratio) for peer, ratio in data["ratios"].items()},
            None if limit is None else Quartiles(**limit), data["facts"],
        )


_STATISTICS: dict[str, Callable[[list[float]], float]] = {
    "geometric mean": geometric_mean,
    "least": min,
    "most": max,
    "median": lambda values: sorted(values)[len(values) // 2],
}


@dataclass(frozen=True)
class Target:
    """A number that the project holds itself to.

    `of` is the name of a peer (its ratio) or of a fact, ``limit``, or ``value``; `statistic` is over the cases that
    `cases` keeps.
    """

    statistic: str
    of: str
    bound: float
    at_least: bool = True
    cases: Callable[[str], bool] = lambda case: True
    which: str = "all"

    def __str__(self) -> str:
        return f"{'at least' if self.at_least else 'at most'} {self.bound:g}"


@dataclass(frozen=True)
class Verdict:
    """Whether a target was met, and the case that decided it where there is one."""

    what: str
    value: float
    target: str
    met: bool
    case: str = ""


def judge(targets: tuple[Target, ...], measurements: list[Measurement]) -> list[Verdict]:
    """Compare medians of the measurements with the targets; those that no measurement belongs to are left out."""
    verdicts = []
    for target in targets:
        found = {m.case: _of(m, target.of) for m in measurements if target.cases(m.case)}
        values = {case: value for case, value in found.items() if value is not None}
        if not values:
            continue
        value = _STATISTICS[target.statistic](list(values.values()))
        met = value >= target.bound if target.at_least else value <= target.bound
        peer = any(target.of in m.ratios for m in measurements)
        subject = "part of the limit" if target.of == "limit" else f"speed over {target.of}" if peer else target.of
        case = next((c for c, v in values.items() if v == value), "") if target.statistic in ("least", "most") else ""
        what = f"{target.statistic}, {subject}, {target.which} ({len(values)} cases)"
        verdicts.append(Verdict(what, value, str(target), met, case))
    return verdicts


def _of(measurement: Measurement, what: str) -> float | None:
    if what == "value":
        return measurement.value.median
    found = measurement.limit if what == "limit" else measurement.ratios.get(what)
    return measurement.facts.get(what) if found is None else found.median


@dataclass(frozen=True)
class Report:
    """A section that was run: its measurements and verdicts, and the machine and time that they belong to."""

    section: str
    title: str
    method: str
    unit: str
    limit: str
    measurements: list[Measurement]
    verdicts: list[Verdict]
    machine: dict[str, str]
    columns: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def met(self) -> bool:
        """Whether all targets were met."""
        return all(verdict.met for verdict in self.verdicts)

    def save(self, path: Path) -> None:
        """Write the report as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Report:
        """Read what `save` wrote."""
        data = json.loads(path.read_text(encoding="utf-8"))
        data["measurements"] = [Measurement.from_json(m) for m in data["measurements"]]
        data["verdicts"] = [Verdict(**v) for v in data["verdicts"]]
        return cls(**data)
