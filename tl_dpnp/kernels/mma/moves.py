"""What brings operands to the tensor cores: asynchronous copies and matrices of shared memory, as data.

Sources: PTX ISA 9.0, sections 9.7.9.25.3 (cp.async) and 9.7.14.5.15 (ldmatrix); MLIR's nvgpu dialect,
``device_async_copy`` and ``ldmatrix``.
"""

from __future__ import annotations

from typing import NamedTuple

from tl_dpnp.records import dataclass

__all__ = ["COPIES", "MATRIX_LOADS", "AsyncCopy", "MatrixLoad"]


class AsyncCopy(NamedTuple):
    """A copy of `bytes` from global to shared memory; with `bypass_l1` it leaves no trace in the first cache.

    With `partial` only a number of bytes that is given at run time is read, and the rest is filled with zeros.
    """

    bytes: int
    bypass_l1: bool = False
    partial: bool = False

    @property
    def name(self) -> str:
        """Size, and what is special."""
        return f"copy_{self.bytes}{'_bypass' * self.bypass_l1}{'_partial' * self.partial}"

    @property
    def instruction(self) -> str:
        """The instruction as in PTX; only copies of 16 bytes can bypass the first cache."""
        return f"cp.async.{'cg' if self.bypass_l1 else 'ca'}.shared.global"


@dataclass(frozen=True)
class MatrixLoad:
    """A load of `count` matrices of 8 x 8 elements of 16 bits by a warp, each lane getting a word of each.

    Lane 8i + r gives the address of row r of matrix i, whose elements are consecutive.  Word i of a lane holds
    the elements 2t and 2t + 1 of row g, or with `transposed` of column g, where g = lane / 4 and t = lane mod 4.
    """

    count: int
    transposed: bool = False

    @property
    def name(self) -> str:
        """Count, and whether transposed."""
        return f"ldmatrix_x{self.count}{'_trans' * self.transposed}"

    @property
    def instruction(self) -> str:
        """The instruction as in PTX."""
        return f"ldmatrix.sync.aligned.m8n8.x{self.count}{'.trans' * self.transposed}.shared.b16"

    def place(self, lane: int, part: int) -> tuple[int, int]:
        """Return row and column of an element of a matrix that a lane gets."""
        g, t = divmod(lane, 4)
        return (2 * t + part, g) if self.transposed else (g, 2 * t + part)


COPIES = {copy.name: copy for copy in (
    *(AsyncCopy(size, partial=partial) for size in (4, 8, 16) for partial in (False, True)),
    *(AsyncCopy(16, True, partial) for partial in (False, True)),
)}
MATRIX_LOADS = {load.name: load for load in (
    MatrixLoad(count, transposed) for count in (1, 2, 4) for transposed in (False, True)
)}
