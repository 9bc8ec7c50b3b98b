"""Reports as tables: columns of text for a terminal, Markdown for the documents."""

from __future__ import annotations

from typing import NamedTuple

from .benchmarks.results import Measurement, Report
from .benchmarks.timing import geometric_mean

__all__ = ["Won", "header", "line", "markdown", "opening", "summary", "won"]

#: The libraries that sections compare with.
_LIBRARIES = {"numpy": "NumPy", "dpnp": "dpnp"}
#: Those that cases are named for that are slower.
_NAMED = (*_LIBRARIES, "torch", "torch.compile", "jax.jit")


def _columns(report: Report) -> list[str]:
    peers = list(dict.fromkeys(peer for m in report.measurements for peer in m.ratios))
    return ["case", report.unit, *(f"over {peer}" for peer in peers), *([f"of {report.limit}"] if report.limit else []),
            *report.columns]


def _cells(report: Report, measurement: Measurement) -> list[str]:
    peers = [column.removeprefix("over ") for column in _columns(report) if column.startswith("over ")]
    cells = [measurement.case, f"{measurement.value.median:.{2 if report.unit == 's' else 1}f}"]
    cells += [str(measurement.ratios[peer]) if peer in measurement.ratios else "" for peer in peers]
    cells += [str(measurement.limit)] if report.limit else []
    return cells + [f"{measurement.facts[column]:.3g}" for column in report.columns]


def _means(report: Report) -> list[str]:
    """Return the row of geometric means of the medians."""
    if len(report.measurements) < 2:
        return []
    cells = ["geometric mean", f"{geometric_mean(m.value.median for m in report.measurements):.2f}"]
    columns = _columns(report)
    for column in columns[2:len(columns) - len(report.columns)]:
        peer = column.removeprefix("over ")
        found = [m.ratios[peer] if column.startswith("over ") else m.limit for m in report.measurements
                 if peer in m.ratios or not column.startswith("over ")]
        cells.append(f"{geometric_mean(q.median for q in found if q is not None):.2f}")
    return cells + [""] * len(report.columns)


def line(measurement: Measurement) -> str:
    """Return a measurement as one line, to be printed as soon as it is there."""
    ratios = "".join(f"   x {peer} {ratio}" for peer, ratio in measurement.ratios.items())
    limit = f"   of limit {measurement.limit}" if measurement.limit else ""
    return f"{measurement.case:24}{measurement.value.median:10.2f}{ratios}{limit}"


def header(report: Report) -> str:
    """Return what the numbers of a report mean."""
    return (f"{report.title}\n{report.method}\n"
            "Ratios are times of the peer over those of tl_dpnp in the same rounds: median [quartiles].")


class Won(NamedTuple):
    """Of a section: geometric means of how many times as fast as libraries, and how many cases are slower than one."""

    title: str
    means: dict[str, float]
    slower: int
    cases: int


def won(reports: list[Report]) -> list[Won]:
    """Return what is won and what is lost in each section with a library beside us."""
    found = []
    for report in reports:
        ratios = {peer: [m.ratios[peer].median for m in report.measurements if peer in m.ratios] for peer in _LIBRARIES}
        cases = {m.case for m in report.measurements if any(peer in m.ratios for peer in ratios)}
        slower = {m.case for m in report.measurements for peer in ratios
                  if peer in m.ratios and m.ratios[peer].median < 1}
        if cases:
            means = {peer: geometric_mean(values) for peer, values in ratios.items() if values}
            found.append(Won(report.title, means, len(slower), len(cases)))
    return found


def opening(reports: list[Report]) -> str:
    """Return that on one screen, a line for each section, and the targets that were missed."""
    missed = [f"{report.title}: {v.what}: {v.target}, found {v.value:.3g}"
              for report in reports for v in report.verdicts if not v.met]
    rows = [[w.title, *(f"{w.means[peer]:.2f}" if peer in w.means else "" for peer in _LIBRARIES),
             f"{w.slower} of {w.cases}"] for w in won(reports)]
    if not rows:
        return ""
    rows = [["times as fast, geometric mean", *(f"as {name}" for name in _LIBRARIES.values()), "cases slower"],
            ["---", *("---:" for _ in _LIBRARIES), "---:"], *rows]
    lost = f"Targets that were missed: {'; '.join(missed)}." if missed else "All targets were met."
    return "\n".join([*(f"| {' | '.join(row)} |" for row in rows), "", lost])


def summary(report: Report) -> str:
    """Return a report as text: table, geometric means, verdicts."""
    rows = [_columns(report), *(_cells(report, m) for m in report.measurements)]
    if means := _means(report):
        rows.append(means)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*table, "", *_verdicts(report), *report.notes])


def _verdicts(report: Report) -> list[str]:
    return [
        f"{'met   ' if v.met else 'MISSED'}  {v.what}: {v.value:.3g}{f' ({v.case})' if v.case else ''}, {v.target}"
        for v in report.verdicts
    ]


def markdown(report: Report) -> str:
    """Return a report as a section of a Markdown document; where tl_dpnp loses, the cases are named."""
    columns = _columns(report)
    rows = [columns, ["---", *["---:"] * (len(columns) - 1)], *(_cells(report, m) for m in report.measurements)]
    if means := _means(report):
        rows.append([f"**{cell}**" for cell in means])
    parts = [f"## {report.title}", report.method]
    if report.verdicts:
        parts.append("\n".join([
            "| target | found | |", "|---|---:|---|",
            *(f"| {v.what}: {v.target} | {v.value:.3g}{f' ({v.case})' if v.case else ''} | "
              f"{'met' if v.met else '**missed**'} |" for v in report.verdicts),
        ]))
    losses = [f"{m.case} ({peer} {ratio.median:.2f})" for m in report.measurements
              for peer, ratio in m.ratios.items() if ratio.median < 1 and peer in _NAMED]
    if losses:
        parts.append(f"Slower than the peer: {', '.join(losses)}.")
    parts.append("\n".join(f"| {' | '.join(row)} |" for row in rows))
    parts += report.notes
    return "\n\n".join(parts)
