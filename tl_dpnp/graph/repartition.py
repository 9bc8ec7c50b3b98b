"""To partition a graph as one of the same structure was: what `partition` decided, by the positions of nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tl_dpnp.graph.nodes import Array, Node, topological
from tl_dpnp.graph.partition import Region, region_of
from tl_dpnp.graph.placement import GridAxis
from tl_dpnp.records import dataclass

__all__ = ["Partitioning"]


@dataclass(frozen=True)
class _Part:
    """A region: its roots, what others compute for it with the reasons, and the chunks of its grid."""

    roots: tuple[int, ...]
    cuts: tuple[int, ...]
    reasons: tuple[str, ...]
    chunks: tuple[tuple[int, bool], ...]


@dataclass(frozen=True)
class Partitioning:
    """The regions of a graph, in an order in which they can run."""

    parts: tuple[_Part, ...]

    @classmethod
    def of(cls, roots: Mapping[Node, Array], regions: Sequence[Region]) -> Partitioning | None:
        """Return how the graph of `roots` was partitioned; None if that made nodes which it did not have."""
        position = {node: number for number, node in enumerate(topological(tuple(roots)))}
        if any(node not in position for region in regions for node in (*region.originals, *region.cuts)):
            return None
        return cls(tuple(
            _Part(tuple(position[node] for node in region.originals), tuple(position[node] for node in region.cuts),
                  region.reasons, tuple((int(axis.chunk), axis.interleaved) for axis in region.placement.grid))
            for region in regions))

    def applied(
        self, roots: Mapping[Node, Array], new_array: Callable[[Node], Array], renamed: Callable[[Node, Node], None]
    ) -> list[Region]:
        """Return the regions of a graph that has the same structure, and the same room for sizes."""
        nodes = topological(tuple(roots))
        arrays = dict(roots)
        for part in self.parts:
            for number in (*part.roots, *part.cuts):
                if nodes[number] not in arrays:
                    arrays[nodes[number]] = new_array(nodes[number])
        regions = []
        for part in self.parts:
            originals = [nodes[number] for number in part.roots]
            grid = tuple(GridAxis(size) if chunk == 1 else GridAxis.divided(size, chunk, interleaved)
                         for size, (chunk, interleaved) in zip(originals[0].shape, part.chunks, strict=False))
            cuts = {nodes[number]: reason for number, reason in zip(part.cuts, part.reasons, strict=True)}
            regions.append(region_of(originals, grid, cuts, arrays, renamed))
        return regions
