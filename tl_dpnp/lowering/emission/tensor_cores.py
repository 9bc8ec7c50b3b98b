"""Products by ``mma.sync`` in a scheduled nest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from llvmlite import ir

from tl_dpnp.kernels.llvm import I32, index
from tl_dpnp.kernels.mma.emit import mma
from tl_dpnp.kernels.mma.operands import lane_place, terms
from tl_dpnp.kernels.mma.rows import MmaRow, Operand
from tl_dpnp.kernels.targets.nvvm import asm
from tl_dpnp.lowering.emission.memory import Memory
from tl_dpnp.lowering.emission.variables import PerLane
from tl_dpnp.lowering.instructions import instruction_of
from tl_dpnp.lowering.nest import Access, Expression, Loop, map_accesses
from tl_dpnp.lowering.warp_tile import WarpTile, warp_tile_of
from tl_dpnp.records import dataclass

__all__ = ["TensorCores"]


@dataclass
class TensorCores:
    """Emits instructions on words that lanes read by the layout of the form.

    `row` is the lane's g there, and `places` are its first elements along the sum, by the elements of a word.
    """

    memory: Memory
    row: PerLane
    places: dict[int, PerLane]

    @classmethod
    def start(cls, memory: Memory, rows: set[MmaRow]) -> TensorCores:
        """Find the place of this lane, for the forms that a nest uses."""
        b = memory.builder
        g, t = lane_place(b)
        return cls(memory, PerLane(g), {
            row.parts("a"): PerLane(b.mul(t, index(row.parts("a")))) for row in rows})

    def product(
        self, loop: Loop, expression: Callable[[Expression], ir.Value], put: Callable[[Access, ir.Value], None],
        only_loads: bool,
    ) -> None:
        """Emit an instruction; with `only_loads`, only what it reads from memory."""
        row = instruction_of(loop, MmaRow)
        assert row is not None
        tile = warp_tile_of(loop, row)
        assert tile is not None
        left = [self._word(tile, row, "a", number, expression) for number in range(row.words("a"))]
        right = [self._word(tile, row, "b", number, expression) for number in range(row.words("b"))]
        if only_loads:
            return
        values = self.memory.variables.values
        sums = []
        places = [row.place("c", 0, number, 0) for number in range(row.words("c"))]
        for place in places:
            self._at(tile, *place)
            sums.append(expression(tile.product.target))
        for place, total in zip(places, mma(self.memory.builder, row, left, right, sums), strict=True):
            self._at(tile, *place)
            put(tile.product.target, total)
        for entry in (tile.blocks, tile.pair):
            if entry is not None:
                del values[entry.variable]

    def _at(self, tile: WarpTile, row: int, column: int) -> None:
        """Set the variables of the tile to one of the lane's elements."""
        values = self.memory.variables.values
        values[tile.pair.variable] = column
        if tile.blocks is not None:
            values[tile.blocks.variable] = row

    def _word(
        self, tile: WarpTile, row: MmaRow, operand: Operand, number: int, expression: Callable[[Expression], ir.Value]
    ) -> ir.Value:
        """Load the elements of a word."""
        values = self.memory.variables.values
        product = tile.product
        factor, access, mode = (product.left, product.a, tile.a_mode) if operand == "a" else (
            product.right, product.b, tile.b_mode)
        place = f"{tile.depth.variable} of the lane"

        def spread(read: Access) -> Access:
            return replace(read, indices=tuple((*entry, place) if tile.depth.variable in entry else entry
                                               for entry in read.indices))

        outside = dict(values)
        values[place] = self.places[row.parts(operand)]
        if operand == "b":  # a lane reads column g, where it has columns 2 t and 2 t + 1 of the result
            (lanes,) = (name for name in access.indices[mode] if isinstance(values.get(name), PerLane))
            values[lanes] = self.row
        parts = []
        for part in range(row.parts(operand)):
            along = row.place(operand, 0, number, part)
            down, depth = along if operand == "a" else (0, along[0])
            self._at(tile, down, 0)
            values[tile.depth.variable] = depth
            parts.append(expression(map_accesses(factor, spread)))
        values.clear()
        values.update(outside)
        return self._packed(row, parts)

    def _packed(self, row: MmaRow, parts: list[ir.Value]) -> ir.Value:
        """Return a word of elements, which are f32 in registers where they have 16 bits."""
        words, key = self.memory.words, (row.a.name, *map(id, parts))
        if key not in words:
            match row.a.name:
                case "f64" | "tf32":
                    (words[key],) = terms(self.memory.builder, row, parts[0], is_split=False)
                case name:
                    text = f"cvt.rn.{name}x2.f32 $0, $2, $1;"
                    words[key] = asm(self.memory.builder, text, "=r,f,f", I32, parts, side_effect=False)
        return words[key]
