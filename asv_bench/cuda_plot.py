"""The table and the figure of docs/cuda.md: ``python -m asv_bench.cuda_plot TABLE...``.

Tables are what ``python -m asv_bench.cuda_report sweep --table TABLE`` wrote; several of them are one sample.  Prints
the Markdown table, and draws all cases into ``docs/images``.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from .axes import plain_ticks, save

_IMAGES = Path(__file__).parents[1] / "docs" / "images"
_RANGES = ((3, 16), (17, 32), (33, 48), (49, 64))
_NAMES = {"f32": "f32", "f64": "f64", "bf16": "bf16 -> f32", "bf16-bf16": "bf16", "f16": "f16", "c32": "c32",
          "c64": "c64"}
_COLORS = {"f32": "#0055aa", "f64": "#cc6600", "bf16": "#228833", "bf16-bf16": "#aa3377", "f16": "#888888",
           "c32": "#44aacc", "c64": "#bbaa33"}
_QUANTITIES, _SMALL = 9, 64


class _Point(NamedTuple):
    """A case: its types, sizes, whether it was drawn, and its speed as a share of the copy's and of torch.bmm's."""

    types: str
    sizes: tuple[int, int, int]
    is_drawn: bool
    copy: float
    bmm: float

    @property
    def mean(self) -> float:
        """The size of the cube of as many multiplications."""
        return float(statistics.geometric_mean(self.sizes))

    @property
    def is_cube(self) -> bool:
        """Whether it is one of the cubes that are not drawn."""
        return not self.is_drawn and len({*self.sizes}) == 1

    @property
    def is_small(self) -> bool:
        """Whether no size is beyond 64, and it is no product of few quantities."""
        return max(self.sizes) <= _SMALL and (self.is_drawn or self.is_cube)


def points_of(lines: Iterable[str]) -> list[_Point]:
    """Return the cases of a table: the cubes and products with 9 quantities that all sweeps have, and drawn ones."""
    found: list[_Point] = []
    for line in lines:
        row = json.loads(line)
        case = row["case"]
        sizes = case["m"], case["n"], case["k"]
        is_named = (len({*sizes}) == 1 and sizes[0] <= _SMALL) or (sizes[0] == sizes[2] and sizes[1] == _QUANTITIES)
        is_plain = case["transposes"] == "n.n" and case["beta"] == 0
        found.append(_Point(case["types"], sizes, not (is_named and is_plain), row["copy"], row["bmm"]))
    return found


def table(points: Sequence[_Point]) -> str:
    """Return the Markdown table: geometric means, and the least in brackets."""
    columns: list[tuple[str, Callable[[_Point], bool], str]] = [
        *((f"cubes {first} to {last}", lambda p, first=first, last=last: p.is_cube and first <= p.sizes[0] <= last,
           "copy") for first, last in _RANGES),
        ("drawn, 3 to 64", lambda p: p.is_drawn and p.is_small, "copy"),
        ("M x 9 x M", lambda p: not p.is_drawn and not p.is_cube, "copy"),
        ("of bmm", lambda p: p.is_small, "bmm"),
        ("drawn, 65 to 256", lambda p: p.is_drawn and not p.is_small, "copy"),
        ("of bmm", lambda p: p.is_drawn and not p.is_small, "bmm"),
    ]
    lines = ["| | " + " | ".join(title for title, _, _ in columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for types in dict.fromkeys(point.types for point in points):
        cells = [_cell([getattr(point, name) for point in points if point.types == types and is_there(point)])
                 for _, is_there, name in columns]
        lines.append(f"| {_NAMES[types]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(values: Sequence[float]) -> str:
    return f"{statistics.geometric_mean(values):.2f} ({min(values):.2f})" if values else ""


def figure(points: Sequence[_Point]) -> Any:
    """Return the figure: shares of the copy and multiples of torch.bmm by size."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    drawing, both = pyplot.subplots(2, 1, figsize=(10, 9), layout="constrained", sharex=True)
    for axes, name, label in zip(both, ("copy", "bmm"), ("share of the bandwidth of a copy", "multiple of torch.bmm"),
                                 strict=True):
        for types in dict.fromkeys(point.types for point in points):
            own = [point for point in points if point.types == types]
            axes.scatter([point.mean for point in own], [getattr(point, name) for point in own], s=9, alpha=0.7,
                         color=_COLORS[types], label=_NAMES[types])
        axes.axhline(1.0, color="black", linewidth=0.8)
        axes.set_xscale("log")
        axes.set_yscale("log")
        plain_ticks(axes.xaxis)
        plain_ticks(axes.yaxis)
        axes.set_ylabel(label)
        axes.grid(True, alpha=0.3)
    both[1].set_xlabel("size of the cube with as many multiplications")
    both[0].legend(ncols=len(_NAMES), fontsize="small", loc="lower left")
    return drawing


@click.command(help=__doc__)
@click.argument("tables", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--output", default=_IMAGES, show_default=False, type=click.Path(file_okay=False, path_type=Path),
              help="Folder of the figure, by default that of the documents.")
def main(tables: tuple[Path, ...], output: Path) -> None:
    """Print the table, and write the figure as PNG and SVG."""
    points = [point for path in tables for point in points_of(path.read_text(encoding="utf-8").splitlines())]
    click.echo(table(points))
    output.mkdir(parents=True, exist_ok=True)
    save("cuda-sweep", lambda: figure(points), output)


if __name__ == "__main__":
    main()
