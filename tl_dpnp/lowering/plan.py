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
number of products, and whether D is read; alpha and beta, of the type that sums, or their parts, have, and behind both
the imaginary parts if matrices are complex; for L, R and D three distances in bytes each, between neighbours along the
side of the result and the sum, of D along rows and columns, and between products; and the addresses of all memrefs in
order (`tl_dpnp.lowering.product_plans.BlockPlan`).

Kernels of the tiled form take other arguments, 64-bit integers and f32: which of its shapes a tile has, the numbers of
tiles along the rows and along the columns of a result, the number of panels along k, the number of products, and how
many tiles below one another the blocks of a cluster compute, of which the number of tiles along the rows counts one;
alpha and beta; and the tensor maps of the operands and the result, 128 bytes each, by value (`TilePlan`).  Clusters of
more blocks share the sums of a tile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, field, replace
from typing import TYPE_CHECKING, Any

from tl_dpnp.lowering.mappings.frames import FRAMES, Form, Frame
from tl_dpnp.records import dataclass

if TYPE_CHECKING:
    from tl_dpnp.lowering.product_plans import BlockPlan, TilePlan

__all__ = ["CHECK_FIELDS", "EXCEEDS_ALL", "EXCEEDS_ONE", "BoundsCheck", "LaunchPlan"]

#: Which caches the arrays of a call exceed.
EXCEEDS_ONE, EXCEEDS_ALL = 1, 2
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
class LaunchPlan:
    """How to launch one compiled kernel.

    `entry` names the kernel in its SPIR-V module.  In the divided, the packed and the spread form `parts` work-groups
    of the device do one of the language.  Blocks of threads of CUDA devices have `subgroup_size` · `subgroups` ·
    `teams` of them, and do `teams` work-groups at a time, in the spread form so many parts of one, at most; in the
    tiled and the blocked form a tile of a result is a work-group, or a part of its sum.
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

    @property
    def is_raised(self) -> bool:
        """Whether the kernel is one product in place of the tiles of the program (`tl_dpnp.lowering.raising`)."""
        product = self.tiles or self.blocks
        return product is not None and product.is_raised

    def ranges(self, groups: int, chunk: int) -> tuple[list[int], list[int]]:
        """Return the global and the local range of SYCL for a number of work-groups of the device."""
        if self.frame.is_alone:
            return [-(-groups // chunk)], [1]
        return [groups * self.subgroups, self.subgroup_size], [self.subgroups, self.subgroup_size]

    def thread_blocks(self, groups: int, running: Callable[[], int]) -> int:
        """Return the number of CUDA's thread blocks, of which so many are `running` at the same time."""
        blocks = -(-groups // self.teams)
        return min(running(), blocks) if self.frame.is_persistent else blocks

    def shared_out(self, groups: int, units: int) -> LaunchPlan:
        """Return the plan for work-groups whose parts so many multiprocessors share, with few teams in a block."""
        counts = [teams for teams in range(1, self.teams) if self.parts % teams == 0]
        return replace(self, teams=next((teams for teams in counts if groups * self.parts <= units * teams),
                                        self.teams)) if self.parts > 1 else self

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
        plan = cls(**data, measured=measured, checks=checks)
        if tiles is None and blocks is None:
            return plan
        from tl_dpnp.lowering.product_plans import BlockPlan, TilePlan  # which CUDA devices need

        return replace(plan, tiles=None if tiles is None else TilePlan.from_json(tiles),
                       blocks=None if blocks is None else BlockPlan.from_json(blocks))
