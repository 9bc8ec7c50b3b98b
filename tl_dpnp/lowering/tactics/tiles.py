"""Steps that tactics with tiles in registers have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace

from tl_dpnp.lowering.contraction import JAM, Contraction
from tl_dpnp.lowering.nest import Bound
from tl_dpnp.lowering.schedule import Schedule
from tl_dpnp.records import dataclass

__all__ = ["SMALL_TILE", "Part", "decreasing", "tile_columns", "unroll_reduction"]

#: Rows and columns of the smallest tiles of a size that is unknown; what they leave over is done one by one.
SMALL_TILE = 4


@dataclass(frozen=True)
class Part:
    """One part of a nest that was tiled: its loops, None where the part has none.

    `outer` is the loop over the tiles: of rows, or of columns where the rows are not tiled; `jam` that over
    work-groups.
    """

    rows: str
    columns: str | None
    reduction: str | None
    outer: str
    jam: str | None = None

    def renamed(self, names: Mapping[str, str], **split: str) -> Part:
        """Return what a split leaves over: the loops inside the one that was `split` have new names there."""
        copied = {field.name: names.get(loop, loop) for field in fields(self) if (loop := getattr(self, field.name))}
        return replace(self, **(copied | split))


def tile_columns(
    schedule: Schedule, contraction: Contraction, tile: int, deal: bool = False, least: int = SMALL_TILE,
    part: Part | None = None,
) -> list[Part]:
    """Tile the columns; where their number is unknown, the rest runs in smaller tiles and then one by one.

    The smallest tiles have the `least` columns.  With `deal`, the tiles are dealt out to the sub-groups, which would
    share few small ones badly.  What is tiled is the `part` with the columns as its outer loop, by default all.
    """
    columns = contraction.columns
    if isinstance(columns, int):
        tile = min(tile, columns)
        factors = [tile, columns % tile]
    else:
        factors = [tile] if deal or tile % SMALL_TILE else decreasing(tile, SMALL_TILE, least)
    rest = part or Part("m.1" if deal else "m", None, None if contraction.depth is None else "k", "n",
                        JAM if contraction.jam > 1 else None)
    parts = []
    for factor in factors:
        split = schedule.split(rest.outer, factor)
        parts.append(replace(rest, columns=split.inner, outer=split.outer))
        if split.remainder is None:
            break
        rest = rest.renamed(split.renamed, outer=split.remainder)
    else:
        parts.append(rest)
    if deal:
        for part in parts:
            schedule.bind(part.outer, "columns")
    return parts


def unroll_reduction(schedule: Schedule, reduction: str, depth: Bound | None, factor: int) -> str | None:
    """Unroll a reduction by `factor`, and return the loop that is left, if any."""
    if isinstance(depth, int) and depth <= factor:
        schedule.unroll(reduction)
        return None
    if factor == 1:
        return reduction
    split = schedule.split(reduction, factor)
    schedule.unroll(split.inner)
    if split.remainder is not None and schedule.range_of(split.remainder) is not None:
        schedule.unroll(split.remainder)
    return split.outer


def decreasing(*factors: int) -> list[int]:
    """Return the factors that are smaller than all before them."""
    return [factor for i, factor in enumerate(factors) if all(factor < before for before in factors[:i])]
