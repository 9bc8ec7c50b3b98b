"""What the compiler tells the runtime about a kernel: the contract between `lowering` and `runtime`.

A `LaunchPlan` is plain data that survives a round trip through JSON, so that a kernel from the disk cache can be
launched without importing the compiler.

Calling convention.  The kernel's arguments are, for each parameter of the function in order:

- scalar: its value; every integer and i1 as a 64-bit integer, f32 and f64 as they are, f16 and bf16 as f32, a complex
  number as two arguments, its real and its imaginary part;
- memref: the address of its first element (a 64-bit integer), then each dynamic size in mode order, then each
  dynamic stride in mode order, 64-bit integers, in elements;
- group: the address of a table of 64-bit addresses, one for each element of the group; then, if its offset is
  dynamic, the offset in elements; then, if its memref type has dynamic sizes or strides, the address of a table
  of 64-bit integers with one row for each element: the dynamic sizes, then the dynamic strides; then, if its position
  is among those `measured`, the number of its elements;

and after them, always, the number of work-groups, the chunk (work-groups of the language for each work-item of the
vector form; 1 in the sub-group form), and what the arrays of the call exceed: nothing (0), the caches of one core
(`EXCEEDS_ONE`), so that it pays to fetch operands ahead, or the last ones (`EXCEEDS_ALL`), so that it also pays to
store results past them.  If `checks` is not empty there follow the address of the check record
and, for each group parameter in order, its number of elements.  The record is int64[2 · `CHECK_FIELDS`], zero before
the launch: claimed (0 or 1), number of the failed check, group id, the value that was checked, its bound; what fails
later is written to the other half, and means nothing.

Kernels of the blocked form take other arguments: six 64-bit integers, which of its shapes a tile has, m, n and k, the
number of products, and whether D is read; alpha and beta, of the type that sums have; for L, R and D three distances in
bytes each, between neighbours along the side of the result and the sum, of D along rows and columns, and between
products; and the addresses of all memrefs in order (`BlockPlan`).

Kernels of the tiled form take other arguments, 64-bit integers and f32: which of its shapes a tile has, the numbers of
tiles along the rows and along the columns of a result, the number of panels along k, the number of products; alpha and
beta; and the tensor maps of the operands and the result, 128 bytes each, by value (`TilePlan`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tl_dpnp.lowering.mappings.frames import FRAMES, Form, Frame

__all__ = [
    "EXCEEDS_ALL", "EXCEEDS_ONE", "CHECK_FIELDS", "LARGE", "PARTS", "BlockPlan", "BlockShape", "BoundsCheck",
    "LaunchPlan", "MatrixMap", "MatrixSides", "TilePlan", "TileShape",
]

#: Which caches the arrays of a call exceed.
EXCEEDS_ONE, EXCEEDS_ALL = 1, 2
#: How many blocks may share the sums of a tile: what clusters may have on all devices that have them.
PARTS = (1, 2, 3, 4, 5, 6, 7, 8)
#: Multiplications from which a product of known sizes does not run in the staged form.
LARGE = 1 << 21
#: What the record of a failed check says.
CHECK_FIELDS = 5


@dataclass(frozen=True)
class BoundsCheck:
    """A check that ``debug=True`` compiled into the kernel; its number is its position in `LaunchPlan.checks`.

    Its message has places for ``{value}`` and ``{bound}``.
    """

    message: str
    file: str
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True)
class MatrixMap:
    """What the tensor map of a matrix is made of.

    `parameter` is the position of the memref; its elements follow one another along mode 0, and mode 2 is the batch if
    it `is_batched`.  Those that are `rounded` are f32, which copies round to tf32.
    """

    parameter: int
    is_batched: bool
    rounded: bool = False


@dataclass(frozen=True)
class TileShape:
    """Rows and columns of a tile, and what a block takes for it: warps, and bytes of local memory.

    Copies of the left and the right operand and of the result move `boxes` elements, along modes 0 and 1.
    """

    rows: int
    columns: int
    boxes: tuple[tuple[int, int], ...]
    warps: int
    local_memory: int

    def tiles(self, m: int, n: int) -> int:
        """Return the number of tiles of an m x n matrix."""
        return -(-m // self.rows) * -(-n // self.columns)


@dataclass(frozen=True)
class TilePlan:
    """How a kernel of the tiled form is launched for D := alpha L R + beta D.

    D is the transpose of the result, so that its rows lie along memory, and L and R are the transposes of op(B) and of
    op(A).  `left`, `right` and `result` are the maps of L (m x k), R (k x n) and D (m x n); a tile has one of `shapes`,
    a panel `depth` of k, which is mode `depth_mode` of B.  `alpha` and `beta` are constants, or positions of
    parameters, which are integers here.  Products of fewer than `least` multiplications, with more than `most_depth` of
    k for each tile unless that is 0, and arguments that tensor maps do not take, run in another form.
    """

    left: MatrixMap
    right: MatrixMap
    result: MatrixMap
    shapes: tuple[TileShape, ...]
    depth: int
    depth_mode: int
    alpha: float | int
    beta: float | int
    least: int
    most_depth: int = 0

    def is_for_any_sizes(self, shapes: Sequence[Any]) -> bool:
        """Return whether the kernel is as good as one that knows the sizes, from the shapes of a call's arguments.

        Small products of a batch may run in the staged form where sizes are known.
        """
        (n, m), left = shapes[self.result.parameter][:2], shapes[self.left.parameter]
        return not self.result.is_batched or m * n * left[self.depth_mode] >= LARGE

    def shape_for(self, m: int, n: int, products: int, units: int) -> int:
        """Return which of the shapes leaves the fewest of a GPU's multiprocessors idle, for m x n matrices.

        A tile takes the time of its columns and of 64 more (measured on an H200).
        """
        def time(number: int) -> int:
            shape = self.shapes[number]
            return -(-shape.tiles(m, n) * products // units) * (shape.columns + 64)

        return min(range(len(self.shapes)), key=time)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TilePlan:
        """Rebuild the plan from JSON-serialisable data."""
        maps = {name: MatrixMap(**data[name]) for name in ("left", "right", "result")}
        shapes = tuple(TileShape(**{**shape, "boxes": tuple(map(tuple, shape["boxes"]))}) for shape in data["shapes"])
        return cls(**{**data, **maps, "shapes": shapes})


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
    `beta` are constants, or positions of parameters, which are integers here.  Products of fewer than `least`
    multiplications run in another form, and, where it `is_for_few`, more of them than there are multiprocessors.  Up to
    `most_parts` blocks share the sums of a tile, where that gains more than the factor `worth_sharing`.
    """

    left: MatrixSides
    right: MatrixSides
    result: MatrixSides
    shapes: tuple[BlockShape, ...]
    alpha: float | int
    beta: float | int
    least: int
    most_parts: int
    worth_sharing: float
    is_for_few: bool = False

    def is_for_any_sizes(self, shapes: Sequence[Any]) -> bool:
        """Return whether the kernel is as good as one that knows the sizes; see `TilePlan.is_for_any_sizes`."""
        (n, m), left = shapes[self.result.parameter][:2], shapes[self.left.parameter]
        return not self.result.is_batched or m * n * left[1 - self.left.side_mode] >= LARGE

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
        sides = {name: MatrixSides(**data[name]) for name in ("left", "right", "result")}
        return cls(**{**data, **sides, "shapes": tuple(
            BlockShape(**{**shape, "sharing": tuple(shape["sharing"])}) for shape in data["shapes"])})


@dataclass(frozen=True)
class LaunchPlan:
    """How to launch one compiled kernel.

    `entry` names the kernel in its SPIR-V module.  In the divided form `parts` work-groups of the device do one of the
    language.  Blocks of threads of CUDA devices have `subgroup_size` · `subgroups` · `teams` of them, and do `teams`
    work-groups at a time; in the tiled and the blocked form a tile of a result is a work-group, or a part of its sum.
    `work` estimates the arithmetic of one work-group in fused multiply-adds of one vector, for choosing the chunk.
    `registers` is the size of a GPU thread's register file that the kernel was made for, or the most that a thread may
    have on CUDA devices; 0 leaves it to the driver.  `measured` are the positions of the groups whose length it takes.
    """

    entry: str
    form: Form
    subgroup_size: int = 1
    subgroups: int = 1
    local_memory: int = 0
    work: int = 0
    teams: int = 1
    checks: tuple[BoundsCheck, ...] = field(default=())
    registers: int = 0
    tiles: TilePlan | None = None
    blocks: BlockPlan | None = None
    parts: int = 1
    measured: tuple[int, ...] = ()

    @property
    def frame(self) -> Frame:
        """What the kernel's mapping asks of a launch."""
        return FRAMES[self.form]

    def ranges(self, groups: int, chunk: int) -> tuple[list[int], list[int]]:
        """Return the global and the local range of SYCL for a number of work-groups of the device."""
        if self.frame.is_alone:
            return [-(-groups // chunk)], [1]
        return [groups * self.subgroups, self.subgroup_size], [self.subgroups, self.subgroup_size]

    def thread_blocks(self, groups: int, running: Callable[[], int]) -> int:
        """Return the number of CUDA's thread blocks, of which so many are `running` at the same time."""
        return min(running(), -(-groups // self.teams)) if self.frame.is_persistent else groups

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON-serialisable data."""
        data = asdict(self)
        if not self.measured:  # which most plans are, among them those that were written before there was the field
            del data["measured"]
        return data

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> LaunchPlan:
        """Rebuild the plan that `to_json` returned."""
        checks = tuple(BoundsCheck(**check) for check in data.pop("checks", ()))
        tiles, blocks, measured = data.pop("tiles", None), data.pop("blocks", None), tuple(data.pop("measured", ()))
        return cls(**data, measured=measured, checks=checks, tiles=None if tiles is None else TilePlan.from_json(tiles),
                   blocks=None if blocks is None else BlockPlan.from_json(blocks))
