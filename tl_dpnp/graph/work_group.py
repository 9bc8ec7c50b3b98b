"""What a work-group has of the arguments of a kernel: its index on the grid, and its parts of arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tl_dpnp.graph.memrefs import Bound, Mode
from tl_dpnp.graph.placement import GridAxis
from tl_dpnp.graph.symbols import DynamicSize, PartSize
from tl_dpnp.language import FunctionBuilder
from tl_dpnp.language.builder import ALL
from tl_dpnp.language.ops import Value
from tl_dpnp.records import dataclass

__all__ = ["Buffer", "Index", "WorkGroup", "is_long"]

Index = Value | int


@dataclass(frozen=True)
class Buffer:
    """Memory of a work-group: a memref, and for each of its modes the axis of the node that it is.

    With `steps`, the memref has one mode; the elements of the node start at `start` and are so far apart on its axes.
    """

    memref: Value
    axes: tuple[int, ...]
    flipped: frozenset[int] = frozenset()
    steps: tuple[int, ...] = ()
    start: Index = 0

    @property
    def is_plain(self) -> bool:
        """Whether the modes are the axes, in their direction."""
        return not self.flipped and not self.steps


def is_long(size: Index) -> bool:
    """Return whether an axis has more than one element; dynamic sizes begin at 2."""
    return not isinstance(size, int) or size > 1


class WorkGroup:
    """The index of a work-group on the grid, and the given `sizes` as values.

    `index` has the index on the axes that are `counted`, by their runs; `output` is a result, which has all of the grid
    but for ragged axes, and `grid_sizes` are of the runs of axes that are counted through together.
    """

    def __init__(
        self, b: FunctionBuilder, grid: Sequence[GridAxis], sizes: Mapping[int, Value],
        output: tuple[Value, Bound], grid_sizes: Sequence[int], counted: Mapping[int, int],
    ) -> None:
        self.b, self.grid = b, grid
        self.sizes: dict[int, Index] = dict(sizes)
        ragged = {run: grid[axis] for axis, run in counted.items() if grid[axis].is_ragged}
        self.groups = self._indices(output, grid_sizes, ragged) if grid_sizes else []
        self.index = {axis: self.groups[run] for axis, run in counted.items()}
        self.starts = {axis: self._begin_part(grid[axis], self.groups[run])
                       for axis, run in counted.items() if run in ragged}

    def _chunk(self, axis: int) -> Index:
        """Return how much a work-group has of a ragged axis."""
        chunk = self.grid[axis].chunk
        assert isinstance(chunk, PartSize)
        return self.sizes[chunk]

    def _begin_part(self, axis: GridAxis, group: Value) -> Value:
        """Return where the part of a ragged axis begins that a work-group has, and note how long it is."""
        assert isinstance(axis.chunk, PartSize)
        start = self.b.mul(group, int(axis.chunk))
        if axis.overlapping:
            self.sizes[axis.chunk] = int(axis.chunk)
            return self.b.math("min", start, self.b.sub(self.sizes[axis.chunk.whole], int(axis.chunk)))
        rest = self.b.sub(self.sizes[axis.chunk.whole], start)
        self.sizes[axis.chunk] = self.b.math("min", rest, int(axis.chunk))
        return start

    def _start(self, mode: Mode) -> Value:
        """Return where the part of a mode begins that a work-group has, in memory."""
        assert mode.part is not None
        chunk = self.grid[mode.part].chunk
        start = self.starts[mode.part]
        if mode.flipped and isinstance(chunk, PartSize):
            return self.b.sub(self.b.sub(self.sizes[chunk.whole], start), self.sizes[chunk])
        return start

    def _indices(
        self, output: tuple[Value, Bound], sizes: Sequence[int], ragged: Mapping[int, GridAxis]
    ) -> list[Value]:
        """Return the index of this work-group on each grid axis; the last axis runs fastest."""
        b = self.b
        rest = b.group_id()
        indices: list[Value] = []
        value, bound = output
        for axis in range(len(sizes) - 1, 0, -1):
            if axis in ragged and isinstance(chunk := ragged[axis].chunk, PartSize):
                size = b.div(b.add(self.sizes[chunk.whole], int(chunk) - 1), int(chunk))
            else:
                mode = next(i for i, mode in enumerate(bound.modes) if mode.is_grid and mode.axis == axis)
                size = b.size(value, mode)
            indices.append(b.arith("rem", rest, size))
            rest = b.arith("div", rest, size)
        return [rest, *reversed(indices)]

    def part_of(self, value: Value, bound: Bound) -> Buffer:
        """Return the part of an argument that this work-group works on."""
        if bound.flat:
            return self._flat(value, bound)
        entries: list[Index | slice | tuple[Index, Index]] = []
        for number, mode in enumerate(bound.modes):
            if mode.part is not None:
                entries.append((self._start(mode), self._chunk(mode.part)))
            elif not mode.is_grid:
                entries.append(ALL)
            elif mode.flipped:
                last = self.b.sub(self.b.size(value, number), 1)
                entries.append(self.b.sub(last, self.groups[mode.axis]))
            else:
                entries.append(self.groups[mode.axis])
        modes = [mode for mode in bound.modes if not mode.is_grid]
        memref = value if all(entry is ALL for entry in entries) else self.b.subview(value, *entries)
        return Buffer(memref, tuple(mode.axis for mode in modes), frozenset(m.axis for m in modes if m.flipped))

    def _flat(self, value: Value, bound: Bound) -> Buffer:
        """Return the part of an argument that this work-group works on, where that is no memref of its own."""
        start: Index = 0
        for mode in bound.modes:
            if mode.is_grid:
                group = self.groups[mode.axis]
                group = self.b.sub(mode.size - 1, group) if mode.flipped else group
                start = self.plus(start, self.b.mul(group, mode.stride))
            elif mode.part is not None:
                start = self.plus(start, self.b.mul(self._start(mode), mode.stride))
        modes = [mode for mode in bound.modes if not mode.is_grid]
        return Buffer(value, tuple(mode.axis for mode in modes), frozenset(m.axis for m in modes if m.flipped),
                      tuple(mode.stride for mode in modes), start)

    def plus(self, left: Index, right: Index) -> Index:
        """Return a sum of which parts may be known."""
        if isinstance(left, int) and isinstance(right, int):
            return left + right
        return self.b.add(left, right) if left != 0 and right != 0 else left if right == 0 else right

    def held(self, shape: Sequence[int]) -> tuple[Index, ...]:
        """Return sizes as they are in a call: those of dynamic ones are parameters."""
        return tuple(self.sizes[size] if isinstance(size, DynamicSize) else size for size in shape)

    def minus(self, left: Index, right: Index) -> Index:
        """Return a difference of which parts may be known."""
        return left - right if isinstance(left, int) and isinstance(right, int) else self.b.sub(left, right)
