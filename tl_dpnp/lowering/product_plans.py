"""How kernels that are one product are launched on CUDA devices: part of the contract of `tl_dpnp.lowering.plan`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from tl_dpnp.records import dataclass
from tl_dpnp.target.multiprocessor import TileTime

__all__ = ["LARGE", "LARGE_OF_NARROW", "PARTS", "BlockPlan", "BlockShape", "Factor", "MatrixMap", "MatrixSides",
           "TileChoice", "TilePlan", "TileShape"]

#: alpha or beta: a constant, the parts of a complex one, or the position of a parameter, an integer.
Factor: TypeAlias = "float | tuple[float, float] | int"
#: How many blocks may share the sums of a tile: what clusters may have on all devices that have them.
PARTS = (1, 2, 3, 4, 5, 6, 7, 8)
#: Multiplications from which a product of known sizes does not run in the staged form, and those where its operands
#: have 16 bits, which threads of the blocked form load one by one or in pairs.
LARGE, LARGE_OF_NARROW = 1 << 21, 1 << 24


@dataclass(frozen=True)
class MatrixMap:
    """What the tensor map of a matrix is made of.

    `parameter` is the position of the memref; its elements follow one another along mode 0, and mode 2 is the batch if
    it `is_batched`.  Those that are `rounded` are f32, which copies round to tf32.
    """

    parameter: int
    is_batched: bool
    rounded: bool = False


class TileChoice(NamedTuple):
    """How tiles are computed: the number of their shape, and what the blocks of a cluster have in common.

    So many `parts` of the sums of a tile are computed by a block each, or so many tiles below one another `together`.
    """

    shape: int
    parts: int = 1
    together: int = 1

    @property
    def cluster(self) -> int:
        """Blocks of a cluster."""
        return self.parts * self.together


@dataclass(frozen=True)
class TileShape:
    """Rows and columns of a tile, what a block takes for it, warps and bytes of local memory, and its time.

    Copies of the left and the right operand and of the result move `boxes` elements, along modes 0 and 1; sums leave a
    block by `box_columns` of D.  A multiprocessor has room for `resident` blocks.  So many as `parts` has may share the
    sums of a tile, and so many as `together` has may compute tiles below one another.
    """

    rows: int
    columns: int
    boxes: tuple[tuple[int, int], ...]
    box_columns: int
    warps: int
    local_memory: int
    resident: int
    parts: tuple[int, ...]
    together: tuple[int, ...]
    time: TileTime

    def tiles(self, m: int, n: int, together: int = 1) -> int:
        """Return the number of tiles of an m x n matrix, or of so many together."""
        return -(-m // (self.rows * together)) * -(-n // self.columns)

    def cycles(self, m: int, n: int, panels: int, products: int, choice: TileChoice, units: int) -> float:
        """Return the cycles that products take on so many multiprocessors, about, but for those of any launch."""
        time, parts = self.time, choice.parts
        start = time.start
        if parts > 1:
            boxes = -(-self.columns // self.box_columns)
            start += time.sharing[0] + time.sharing[1] * -(-boxes // parts) * (parts - 1)
        crowded = (time.crowded_together if choice.together > 1 else time.crowded) - 1
        whole, rest = divmod(self.tiles(m, n, choice.together) * products * choice.cluster, units * self.resident)
        copies = -(-panels // parts) * time.panel
        last = start + -(-rest // units) * copies * (1 + crowded * min(1.0, rest / units)) if rest else 0.0
        return whole * (start + self.resident * copies * (1 + crowded)) + last

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TileShape:
        """Rebuild the shape from JSON-serialisable data."""
        tuples = {name: tuple(data[name]) for name in ("parts", "together")}
        time = TileTime(**{**data["time"], "sharing": tuple(data["time"]["sharing"])})
        return cls(**{**data, **tuples, "boxes": tuple(map(tuple, data["boxes"])), "time": time})


@dataclass(frozen=True)
class TilePlan:
    """How a kernel of the tiled form is launched for D := alpha L R + beta D.

    D is C, and L and R are op(A) and op(B), or their transposes: then L is that of op(B).  `left`, `right` and `result`
    are the maps of L (m x k), R (k x n) and D (m x n); a tile has one of `shapes`, a panel `depth` of k.  That is mode
    `depth_mode` of what L is of, and the rows of D are mode `rows_mode` of C.  `alpha` and `beta` are constants, or
    positions of parameters, which are integers here.  Products of fewer than `least` multiplications, and arguments
    that tensor maps do not take, run in another form, and calls of a function that `is_raised` (`raising`) whose tiles
    are not the product.
    """

    left: MatrixMap
    right: MatrixMap
    result: MatrixMap
    shapes: tuple[TileShape, ...]
    depth: int
    depth_mode: int
    rows_mode: int
    alpha: float | int
    beta: float | int
    least: int
    is_raised: bool = False

    def products(self, groups: int, shapes: Sequence[Any]) -> int:
        """Return how many products the work-groups of a call compute, from the shapes of its arguments."""
        return (shapes[self.result.parameter][2] if self.result.is_batched else 1) if self.is_raised else groups

    def is_for_any_sizes(self, shapes: Sequence[Any]) -> bool:
        """Return whether the kernel is as good as one that knows the sizes, from the shapes of a call's arguments.

        Small products of a batch may run in the staged form where sizes are known.
        """
        (n, m), left = shapes[self.result.parameter][:2], shapes[self.left.parameter]
        return not self.result.is_batched or m * n * left[self.depth_mode] >= LARGE

    def choice(self, m: int, n: int, k: int, products: int, units: Callable[[int, int], int]) -> TileChoice:
        """Return how the tiles of m x n matrices are computed the fastest.

        `units` gives the multiprocessors that blocks of a shape find, with so many of them in a cluster.
        """
        panels = -(-k // self.depth)
        choices = [choice for number, shape in enumerate(self.shapes)
                   for choice in (*(TileChoice(number, parts) for parts in shape.parts if parts <= panels),
                                  *(TileChoice(number, 1, together) for together in shape.together))
                   if units(number, choice.cluster) > 0]
        return min(choices, key=lambda choice: self.shapes[choice.shape].cycles(
            m, n, panels, products, choice, units(choice.shape, choice.cluster)))

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TilePlan:
        """Rebuild the plan from JSON-serialisable data."""
        maps = {name: MatrixMap(**data[name]) for name in ("left", "right", "result")}
        return cls(**{**data, **maps, "shapes": tuple(map(TileShape.from_json, data["shapes"]))})


@dataclass(frozen=True)
class MatrixSides:
    """A matrix of a product: the position of its memref, and the mode along its side of the result.

    That of the result itself is the one along the rows.  Mode 2 is the batch if it `is_batched`.
    """

    parameter: int
    side_mode: int
    is_batched: bool


@dataclass(frozen=True)
class BlockShape:
    """Rows and columns of a tile, what a block takes for it, panels of how much of a sum it reads, and its time.

    A multiprocessor has room for `resident` blocks, which compute `speed` multiplications a cycle together, and a block
    `alone` that share of them.  A tile takes `start` cycles besides; if blocks share its sums, `sharing` more: to
    begin, and for all sums, of which each block adds its part of the others'.
    """

    rows: int
    columns: int
    warps: int
    local_memory: int
    depth: int
    speed: float
    resident: int
    alone: float
    start: float
    sharing: tuple[float, float]

    def tiles(self, m: int, n: int) -> int:
        """Return the number of tiles of an m x n matrix."""
        return -(-m // self.rows) * -(-n // self.columns)

    def time(self, m: int, n: int, k: int, products: int, parts: int, units: int) -> float:
        """Return the cycles that products take on so many multiprocessors, with sums in parts, about."""
        whole, rest = divmod(self.tiles(m, n) * products * parts, units * self.resident)
        count = -(-rest // units)
        share = self.alone + (1 - self.alone) * (count - 1) / max(1, self.resident - 1)
        start = self.start + (self.sharing[0] + self.sharing[1] * (parts - 1) / parts if parts > 1 else 0.0)
        one = self.rows * self.columns * -(-k // (parts * self.depth)) * self.depth / self.speed + start
        return one * self.resident * whole + one * count / share


@dataclass(frozen=True)
class BlockPlan:
    """How a kernel of the blocked form is launched for D := alpha L R + beta D, matrices of any strides.

    `left`, `right` and `result` are L (m x k), R (k x n) and D (m x n), which is C or its transpose.  `alpha` and
    `beta` are constants, or positions of parameters, which are integers here; complex constants are their parts.  If
    the matrices are complex, so are the factors that the kernel takes.  Products of fewer than `least`
    multiplications run in another form, and, where it `is_for_few`, more of them than there are multiprocessors.  Up to
    `most_parts` blocks share the sums of a tile, where that gains more than the factor `worth_sharing`.  Products of a
    batch have other forms where sizes are known, those of fewer than `large` multiplications.  `is_raised` is as in
    `TilePlan`.
    """

    left: MatrixSides
    right: MatrixSides
    result: MatrixSides
    shapes: tuple[BlockShape, ...]
    alpha: Factor
    beta: Factor
    least: int
    most_parts: int
    worth_sharing: float
    is_for_few: bool = False
    large: int = LARGE
    is_complex: bool = False
    is_raised: bool = False

    @property
    def keeps(self) -> bool:
        """Whether D is read, unless beta is zero in a call."""
        return self.beta not in (0.0, (0.0, 0.0)) or isinstance(self.beta, int)

    def products(self, groups: int, shapes: Sequence[Any]) -> int:
        """Return how many products the work-groups of a call compute; see `TilePlan.products`."""
        return (shapes[self.result.parameter][2] if self.result.is_batched else 1) if self.is_raised else groups

    def is_for_any_sizes(self, shapes: Sequence[Any]) -> bool:
        """Return whether the kernel is as good as one that knows the sizes; see `TilePlan.is_for_any_sizes`."""
        (n, m), left = shapes[self.result.parameter][:2], shapes[self.left.parameter]
        return not self.result.is_batched or m * n * left[1 - self.left.side_mode] >= self.large

    def choice(self, m: int, n: int, k: int, products: int, units: Callable[[int, int], int]) -> tuple[int, int]:
        """Return which of the shapes is the fastest for m x n matrices, and how many blocks share a sum.

        `units` gives the multiprocessors that blocks of a shape find, with so many of them in a cluster.
        """
        choices = [(number, parts) for number, shape in enumerate(self.shapes)
                   for parts in PARTS[: self.most_parts]
                   if (parts == 1 or parts * shape.depth <= k) and units(number, parts) > 0]
        def time(number: int, parts: int) -> float:
            found = self.shapes[number].time(m, n, k, products, parts, units(number, parts))
            return found * (1 if parts == 1 else self.worth_sharing)

        return min(choices, key=lambda each: time(*each))

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> BlockPlan:
        """Rebuild the plan from JSON-serialisable data."""
        sides: dict[str, Any] = {name: MatrixSides(**data[name]) for name in ("left", "right", "result")}
        for name in ("alpha", "beta"):
            sides[name] = tuple(data[name]) if isinstance(data[name], list) else data[name]
        return cls(**{**data, **sides, "shapes": tuple(
            BlockShape(**{**shape, "sharing": tuple(shape["sharing"])}) for shape in data["shapes"])})
