"""Write the pages of benchmarks in ``docs`` and their figures from reports: ``python -m asv_bench.plots``."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from . import drawn as drawn_shapes
from . import render
from .axes import plain_ticks, save
from .benchmarks.contests import parse_case
from .benchmarks.results import Measurement, Report
from .benchmarks.sections import SECTIONS
from .must_show import DRAWN, RESULTS

_DOCS = Path(__file__).parents[1] / "docs"
_ELEMENTS = ("f32", "f64")
_STYLES = {
    "tl_dpnp": ("#0055aa", "o"), "numpy": ("#cc6600", "s"), "dpnp": ("#228833", "^"), "torch": ("#aa3377", "D"),
    "jax.jit": ("#cc6600", "s"), "torch.compile": ("#228833", "^"),
}
#: The most peers that a figure has beside tl_dpnp.
_MOST_PEERS = 3


class Page(NamedTuple):
    """A page of the documents: its file, its title, and the sections that it has reports of, in their order."""

    file: str
    title: str
    sections: tuple[str, ...]


_PROGRAMS = ("fusion-programs", "fusion-peers", "fusion-steps")
PAGES = (
    Page("benchmarks.md", "Benchmarks", tuple(name for name in SECTIONS if name not in _PROGRAMS)),
    Page("realistic-programs.md", "Benchmarks of realistic programs", _PROGRAMS),
)
_OPENING = """
What is won and what is lost; the sections below have every case, the limits of the machine, and how it was measured."""
#: What drawn shapes are, and where those that are named begin.
_DRAWN = """
Shapes are drawn at random, 60 for each seed: sizes of 3 to 24, 16 to 64 and 48 to 130, mixed in one shape. So this is
what a shape of yours may expect; the ones that are named further below have been looked at one by one."""
_NAMED = "## Named shapes"
_KEPT = "drawn-shapes.json"
_INTRODUCTION = """
## How it was measured

This page was written by `python -m asv_bench.plots` from runs of `python -m asv_bench.must_show`;
[asv_bench](../asv_bench/README.md) says how to repeat them. Kernels are still being improved: the page
shows the commits named below, and is to be written anew by the same commands.

Ratios are times of the peer over those of tl_dpnp in the same rounds, so above 1 tl_dpnp is faster. They are medians
with their quartiles, `median [low, high]`. A speed by itself belongs to this machine on this day. Where a section says
that other programs took part of the cores, its comparisons are harsher for what uses all cores, as tl_dpnp does, than
for what uses one, and its limits were disturbed too, which can show as a part of the limit above 1.
"""


def _values(report: Report, peer: str) -> dict[str, float]:
    """Return the speed of tl_dpnp or of a peer by case."""
    if peer == "tl_dpnp":
        return {m.case: m.value.median for m in report.measurements}
    return {m.case: m.value.median / m.ratios[peer].median for m in report.measurements if peer in m.ratios}


def _of_element(report: Report, element: str) -> list[Measurement]:
    return [m for m in report.measurements if m.case.startswith(element)]


def _best(measurements: list[Measurement], name: str) -> float:
    """Return a limit as the best that the run has seen: a limit that was disturbed is none."""
    return max(m.facts[name] for m in measurements)


def _axes(title: str, rows: int = 2, height: float = 8.0) -> tuple[Any, Any]:
    """Return a figure with axes below one another: as wide as the text of a page, so that labels keep their size."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(rows, 1, figsize=(8, height), layout="constrained")
    figure.suptitle(title)
    return figure, axes


def _legend(figure: Any, *axes: Any) -> None:
    """Say what the markers are below the axes, where that hides none."""
    known = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(known.values(), known.keys(), loc="outside lower center", ncols=1 + _MOST_PEERS)


def overview(rows: list[render.Won]) -> Any:
    """Draw how many times as fast as libraries each section is, on a logarithmic axis."""
    figure, axis = _axes("Times as fast as a library, geometric means", 1, 1.6 + 0.3 * len(rows))
    for peer, (colour, marker) in _STYLES.items():
        known = [(won.means[peer], number) for number, won in enumerate(rows) if peer in won.means]
        if known:
            axis.plot(*zip(*known, strict=True), marker, color=colour, label=f"as {peer}", markersize=7)
    axis.axvline(1, color="black", linewidth=1)
    axis.set_yticks(range(len(rows)), [won.title for won in rows])
    axis.set(xscale="log", xlabel="times as fast")
    axis.invert_yaxis()
    plain_ticks(axis.xaxis)
    axis.grid(True, alpha=0.25)
    _legend(figure, axis)
    return figure


def roofline(report: Report) -> Any:
    """Draw speed over arithmetic intensity on logarithmic axes, below the roof that was measured."""
    figure, axes = _axes(f"{report.title}: the measured roofline")
    for axis, element in zip(axes, _ELEMENTS, strict=True):
        measurements = _of_element(report, element)
        if not measurements:
            continue
        peak = _best(measurements, "FMA peak")
        bandwidth = max(_best(measurements, "triad plain"), _best(measurements, "triad streaming"))
        intensity = {m.case: m.facts["flops per byte"] for m in measurements}
        left, right = min(intensity.values()) / 1.5, max(intensity.values()) * 1.5
        knee = peak / bandwidth
        axis.plot([left, min(max(knee, left), right), right],
                  [min(peak, left * bandwidth), min(peak, right * bandwidth), min(peak, right * bandwidth)],
                  color="black", linewidth=1.5, label=f"{bandwidth:.0f} GB/s, {peak:.0f} GF/s")
        for peer, (colour, marker) in _STYLES.items():
            speeds = {case: v for case, v in _values(report, peer).items() if case in intensity}
            if speeds:
                axis.scatter([intensity[case] for case in speeds], list(speeds.values()), 28, color=colour,
                             marker=marker, label=peer, alpha=0.85, zorder=3)
        axis.set(xscale="log", yscale="log", title=element, xlabel="operations per byte", ylabel="GF/s")
        plain_ticks(axis.xaxis)
        plain_ticks(axis.yaxis)
        axis.grid(True, which="both", alpha=0.25)
        axis.legend(loc="lower right")
    return figure


def by_shape(report: Report) -> Any:
    """Draw the speed of tl_dpnp and its peers for each shape; of the limit where the FMA peak is the only one."""
    of_peak = report.limit == "FMA peak"
    figure, axes = _axes(report.title)
    for axis, element in zip(axes, _ELEMENTS, strict=True):
        measurements = _of_element(report, element)
        shapes = [str(parse_case(m.case)[1]) for m in measurements]
        scale = {m.case: m.limit.median / m.value.median if of_peak and m.limit else 1.0 for m in measurements}
        for peer, (colour, marker) in _STYLES.items():
            speeds = _values(report, peer)
            known = [(i, speeds[m.case] * scale[m.case]) for i, m in enumerate(measurements) if m.case in speeds]
            if known:
                axis.plot(*zip(*known, strict=True), marker, color=colour, label=peer, markersize=6)
        axis.set_xticks(range(len(shapes)), shapes, rotation=60, ha="right", fontsize=9)
        axis.set(title=element, ylabel="of the FMA peak" if of_peak else report.unit)
        axis.set_ylim(bottom=0, top=1.05 if of_peak else None)
        axis.grid(True, alpha=0.25)
    _legend(figure, *axes)
    return figure


def by_program(report: Report) -> Any:
    """Draw how many times as fast as each peer the programs are, from the least to the most, for each batch."""
    batches = sorted({int(m.case.split()[2]) for m in report.measurements})
    peers = list(dict.fromkeys(peer for m in report.measurements for peer in m.ratios))
    figure, axes = _axes(report.title, len(batches), 1 + 3.2 * len(batches))
    for axis, batch in zip(axes if len(batches) > 1 else [axes], batches, strict=True):
        for peer in peers:
            ratios = sorted(m.ratios[peer].median for m in report.measurements
                            if int(m.case.split()[2]) == batch and peer in m.ratios)
            colour, marker = _STYLES[peer]
            axis.plot(range(1, len(ratios) + 1), ratios, marker, color=colour, label=f"as {peer}", markersize=4)
        axis.axhline(1, color="black", linewidth=1)
        axis.set(yscale="log", title=f"batch {batch}", xlabel="programs, each line in its own order",
                 ylabel="times as fast")
        plain_ticks(axis.yaxis)
        axis.grid(True, alpha=0.25)
    _legend(figure, *figure.axes)
    return figure


def by_steps(report: Report) -> Any:
    """Draw the seconds of first calls over the number of steps, and those for each step."""
    figure, axes = _axes(report.title)
    steps = [int(m.case.split()[0]) for m in report.measurements]
    seconds = [m.value.median for m in report.measurements]
    axes[0].plot(steps, seconds, "o-", color=_STYLES["tl_dpnp"][0])
    axes[0].set(title="a call", xlabel="steps", ylabel="processor seconds")
    axes[1].plot(steps, [1e3 * s / n for n, s in zip(steps, seconds, strict=True)], "o-", color=_STYLES["tl_dpnp"][0])
    axes[1].set(title="a step", xlabel="steps", ylabel="processor milliseconds")
    for axis in axes:
        axis.set_ylim(bottom=0)
        axis.grid(True, alpha=0.25)
    return figure


#: Sections with a figure.
_FIGURES = {
    "cache-resident": by_shape, "memory": roofline, "one-call-100us": by_shape, "one-call-30us": by_shape,
    "codes-cache": by_shape, "codes-memory": roofline, "fusion-programs": by_program, "fusion-peers": by_program,
    "fusion-steps": by_steps,
}


def _figure(name: str, title: str, draw: Callable[[], Any], images: Path) -> str:
    """Draw a figure as PNG and SVG; returns the Markdown that shows it."""
    save(name, draw, images)
    return f"![{title}](images/{name}.png)\n\nThe same as [SVG](images/{name}.svg)."


def _section_figure(report: Report, images: Path) -> str:
    return _figure(report.section, report.title, lambda: _FIGURES[report.section](report), images)


def _machine(reports: list[Report]) -> str:
    rows = []
    for name in reports[0].machine:
        values = list(dict.fromkeys(report.machine[name] for report in reports))
        rows.append(f"| {name} | {'; '.join(values)} |")
    return "\n".join(["| | |", "|---|---|", *rows])


def write(page: Page, reports: list[Report], folder: Path, drawn: Sequence[drawn_shapes.Drawn] = ()) -> Path:
    """Write a page and its figures below `folder`; returns the page's path.

    What was `drawn` comes first.  Without reports, what the page says of named shapes stays.
    """
    images = folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    path = folder / page.file
    parts = [f"# {page.title}\n{_OPENING}"]
    if drawn:
        picture = _figure("drawn-shapes", "Drawn shapes", lambda: drawn_shapes.figure(drawn), images)
        parts += [_DRAWN.strip(), picture, drawn_shapes.tables(drawn)]
    if reports:
        named = _wrapped([*([_NAMED] if drawn else []), *_named(reports, images)])
    else:
        _, heading, rest = path.read_text(encoding="utf-8").partition(f"\n{_NAMED}\n")
        named = f"{heading.lstrip()}{rest}"
    path.write_text(f"{_wrapped(parts)}\n{named}", encoding="utf-8")
    return path


def _named(reports: list[Report], images: Path) -> list[str]:
    """Return what a page says of the sections of its reports."""
    parts = []
    rows = render.won(reports)
    if len(rows) > 1:
        parts.append(_figure("overview", "Times as fast as a library", lambda: overview(rows), images))
    if rows:
        parts.append(render.opening(reports))
    parts += [_INTRODUCTION.strip(), _machine(reports)]
    for report in reports:
        text = render.markdown(report)
        if report.section in _FIGURES:
            head, _, table = text.rpartition("\n\n| case |")
            text = f"{head}\n\n{_section_figure(report, images)}\n\n| case |{table}"
        parts.append(text)
    return parts


def _wrapped(parts: Sequence[str]) -> str:
    """Return paragraphs as lines of text that are no longer than 120, with a line between."""
    lines = "\n\n".join(parts).splitlines()
    wrapped = [line if line.startswith(("|", "!", "#")) else textwrap.fill(line, 120, break_long_words=False,
                                                                             break_on_hyphens=False) for line in lines]
    return "\n".join(wrapped) + "\n"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-r", "--results", type=click.Path(path_type=Path, exists=True, file_okay=False), default=RESULTS,
              help="Folder with the reports that must_show wrote.")
@click.option("-o", "--output", type=click.Path(path_type=Path, file_okay=False), default=_DOCS,
              help="Folder for the pages and images/.")
def main(results: Path, output: Path) -> None:
    """Write the pages that there are reports for, with tables, verdicts, and figures as PNG and SVG.

    Reports of drawn shapes are kept beside the pages, in drawn-shapes.json, for each processor; they alone renew the
    first screen of a page that is there.  The extra "bench" brings matplotlib.
    """
    written = []
    latest = [drawn_shapes.Drawn.of(Report.load(path)) for path in sorted((results / DRAWN.name).glob("*.json"))]
    drawn = drawn_shapes.merged(drawn_shapes.load(output / _KEPT), latest, list(SECTIONS))
    for page in PAGES:
        found = [results / f"{name}.json" for name in page.sections if (results / f"{name}.json").exists()]
        its_own = [each for each in drawn if each.section in page.sections]
        if found or (latest and its_own and (output / page.file).exists()):
            written.append(write(page, [Report.load(path) for path in found], output, its_own))
    if latest and written:
        drawn_shapes.save(output / _KEPT, drawn)
    if not written:
        raise click.UsageError(f"{results} holds no reports: python -m asv_bench.must_show all writes them")
    for path in written:
        click.echo(f"wrote {path}")


if __name__ == "__main__":
    main()
