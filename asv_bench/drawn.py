"""What was found for drawn shapes, on each processor that they were measured on: kept as data, shown as distributions.

A processor's latest report of a section takes the place of an earlier one; those of other processors stay.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .axes import plain_ticks
from .benchmarks.results import Report
from .benchmarks.timing import geometric_mean

__all__ = ["Drawn", "figure", "load", "merged", "save", "tables"]

#: The peers that have columns and lines, with the colour and the marker of a line.
_PEERS = {"libxsmm": "#0055aa", "MKL's JIT": "#aa3377", "numpy": "#cc6600", "dpnp": "#228833"}
_NAMES = {"numpy": "NumPy"}
#: What titles of drawn shapes end in, in front of the seed.
_WITH_SEED = ", shapes drawn with seed "
#: Lines of the processors in a figure, in the order of their names.
_DASHES = ("-", "--", ":", "-.")


@dataclass(frozen=True)
class Drawn:
    """The medians of a section on a processor: by peer and case how many times as fast, by case the part of the limit.

    `missed` are the targets that were missed, with what was found.
    """

    section: str
    title: str
    processor: str
    cores: str
    commit: str
    date: str
    ratios: dict[str, dict[str, float]]
    limit: str
    reached: dict[str, float]
    missed: list[str]

    @classmethod
    def of(cls, report: Report) -> Drawn:
        """Return what is kept of a report."""
        peers = dict.fromkeys(peer for m in report.measurements for peer in m.ratios)
        ratios = {peer: {m.case: round(m.ratios[peer].median, 3) for m in report.measurements if peer in m.ratios}
                  for peer in peers}
        reached = {m.case: round(m.limit.median, 3) for m in report.measurements if m.limit is not None}
        missed = [f"{v.what}: {v.target}, found {v.value:.3g}" for v in report.verdicts if not v.met]
        return cls(report.section, report.title, report.machine["processor"], report.machine["cores"],
                   report.machine["commit"], report.machine["date"], ratios, report.limit, reached, missed)

    @property
    def key(self) -> tuple[str, str]:
        """What there is one of: a section on a processor."""
        return self.section, self.processor


def load(path: Path) -> list[Drawn]:
    """Read what `save` wrote; nothing where there is no file."""
    return [Drawn(**each) for each in json.loads(path.read_text(encoding="utf-8"))] if path.exists() else []


def save(path: Path, found: Sequence[Drawn]) -> None:
    """Write all that is known, a line for each peer of a section."""
    lines = [json.dumps(asdict(each), ensure_ascii=False).replace('": {"', '": {\n  "', 1).replace("}, \"", "},\n  \"")
             for each in found]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def merged(before: Iterable[Drawn], latest: Iterable[Drawn], order: Sequence[str]) -> list[Drawn]:
    """Return what is known, by sections in their order and then by processors."""
    known = {each.key: each for each in (*before, *latest)}
    return sorted(known.values(), key=lambda each: (order.index(each.section), each.processor))


def tables(found: Sequence[Drawn]) -> str:
    """Return a table for each processor in Markdown, geometric means and the least by section, and what was missed."""
    return "\n\n".join(_table([each for each in found if each.processor == processor])
                       for processor in sorted({each.processor for each in found}))


def _table(found: Sequence[Drawn]) -> str:
    """Return the table of a processor."""
    peers = [peer for peer in _PEERS if any(peer in each.ratios for each in found)]
    rows = [["geometric mean (least)", *(f"over {_NAMES.get(peer, peer)}" for peer in peers), "over itself",
             "of the limit", "seed"]]
    rows.append(["---", *["---:"] * (len(rows[0]) - 1)])
    for each in found:
        title, _, seed = each.title.partition(_WITH_SEED)
        own = [f"{_cell(ratios)} {peer}" for peer, ratios in each.ratios.items() if peer not in _PEERS]
        rows.append([title, *(_cell(each.ratios.get(peer, {})) for peer in peers), "; ".join(own),
                     f"{_cell(each.reached)} {each.limit}".strip(), seed])
    text = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    which = found[0]
    head = f"**{which.processor}**, {which.cores} cores, commits {_all(found, 'commit')}, {_all(found, 'date')}:"
    missed = [f"- {each.title.partition(_WITH_SEED)[0]}: {'; '.join(each.missed)}." for each in found if each.missed]
    return "\n\n".join([head, text, "\n".join(["Targets that were missed:", "", *missed]) if missed else
                        "All targets were met."])


def _all(found: Sequence[Drawn], name: str) -> str:
    return ", ".join(dict.fromkeys(getattr(each, name) for each in found))


def _cell(values: dict[str, float]) -> str:
    return f"{geometric_mean(values.values()):.2f} ({min(values.values()):.2f})" if values else ""


def figure(found: Sequence[Drawn]) -> Any:
    """Draw for each section the ratios of all its shapes, sorted, a line for each peer and processor."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = [each for each in found if any(peer in _PEERS for peer in each.ratios)]
    sections = list(dict.fromkeys(each.section for each in shown))
    processors = sorted({each.processor for each in shown})
    plot, axes = pyplot.subplots(len(sections), 1, figsize=(8, 1 + 2.8 * len(sections)), layout="constrained",
                                 squeeze=False)
    plot.suptitle("Times as fast as a peer, over all drawn shapes from the least to the most")
    for axis, section in zip(axes[:, 0], sections, strict=True):
        for each in (one for one in shown if one.section == section):
            dashes = _DASHES[processors.index(each.processor) % len(_DASHES)]
            for peer, colour in _PEERS.items():
                ratios = sorted(each.ratios.get(peer, {}).values())
                places = [(number + 0.5) / len(ratios) for number in range(len(ratios))]
                axis.plot(places, ratios, dashes, color=colour, label=f"{_NAMES.get(peer, peer)}, {each.processor}")
        axis.axhline(1, color="black", linewidth=1)
        title = next(one.title for one in shown if one.section == section).partition(_WITH_SEED)[0]
        axis.set(yscale="log", xlim=(0, 1), ylabel="times as fast", title=title)
        plain_ticks(axis.yaxis)
        axis.grid(True, which="both", alpha=0.25)
    axes[-1, 0].set(xlabel="part of the shapes")
    known = {label: handle for axis in axes[:, 0] for handle, label in zip(*axis.get_legend_handles_labels(),
                                                                             strict=True)}
    plot.legend(known.values(), known.keys(), loc="outside lower center", ncols=2, fontsize=8)
    return plot
