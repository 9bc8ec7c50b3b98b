"""What a target says of itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from llvmlite import ir

from tl_dpnp.scalars import ScalarType

__all__ = ["Dimension", "Target"]

#: Dimension of a work-group's indices: 0 runs over the lanes of a sub-group, 1 over sub-groups.
Dimension = Literal[0, 1]


class Target(Protocol):
    """One target; the methods append to the builder's block.

    `triple` and `data_layout` are those of its modules, `calling_convention` that of its functions other than kernels;
    `backends` are those of the devices that it is for.  Where it `threads_jumps`, compilers do not know that work-items
    run apart, and copy what decides a branch.  Where it `aligns_pairs`, complex numbers are at multiples of their size,
    for others of that of their parts.
    """

    triple: str
    data_layout: str
    calling_convention: str
    backends: tuple[str, ...]
    threads_jumps: bool
    aligns_pairs: bool

    def group_index(self, builder: ir.IRBuilder, dimension: Dimension) -> ir.Value:
        """Return the index of the work-group as i64."""

    def item_index(self, builder: ir.IRBuilder, dimension: Dimension) -> ir.Value:
        """Return the index of the work-item in its work-group as i64."""

    def barrier(self, builder: ir.IRBuilder) -> None:
        """Order local and global memory within the work-group, which waits for all its work-items."""

    def local_memory(self, builder: ir.IRBuilder, size: int) -> ir.Value:
        """Return a pointer to the array of `size` bytes that the work-group shares."""

    def prefetch_line(self, builder: ir.IRBuilder, pointer: ir.Value, once: bool = False, offset: int = 0) -> None:
        """Ask for the cache line at an address of global memory and so many bytes more, which need not be valid.

        A line that is needed `once`, and soon, need not stay in the caches after that.
        """

    def stream_line(self, builder: ir.IRBuilder, value: ir.Value, pointer: ir.Value) -> None:
        """Store a vector of one cache line, at an address that is a multiple of it, past the caches."""

    def kept(self, builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
        """Return a vector of one register, or a part of one, that the compiler does not make again from its parts."""

    def hold(self, builder: ir.IRBuilder, value: ir.Value) -> None:
        """Have the compiler leave a vector of one register where it is up to here."""

    def opaque(self, builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
        """Return an integer or an address, held in an integer register, of which the compiler knows no source."""

    def extend(self, builder: ir.IRBuilder, value: ir.Value, type_: ir.Type, is_signed: bool) -> ir.Value:
        """Return an integer, or a vector of them, with more bits."""

    def widen_half(self, builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
        """Return a half or a vector of halves as f32."""

    def narrow_half(self, builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
        """Return f32, or a vector of that, rounded to halves, ties to even."""

    def negate(self, builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
        """Return −value for a float or a vector of floats."""

    def mathematics(
        self, builder: ir.IRBuilder, kind: str, scalar: ScalarType, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        """Return a function of floats: those of ``math``, ``fma`` also of vectors, and ``rem``, C's fmod."""

    def atomic_add(self, builder: ir.IRBuilder, scalar: ScalarType, pointer: ir.Value, value: ir.Value) -> None:
        """Add to a 32- or 64-bit element in global or local memory, in device scope, relaxed."""

    def fetch_add(
        self, builder: ir.IRBuilder, scalar: ScalarType, pointer: ir.Value, value: ir.Value
    ) -> ir.Value:
        """Do the same as `atomic_add`, and return what was there before."""

    def atomic_load(self, builder: ir.IRBuilder, pointer: ir.Value) -> ir.Value:
        """Load a 32- or 64-bit integer; otherwise as `atomic_add`."""

    def fence(self, builder: ir.IRBuilder) -> None:
        """Order all accesses to global and local memory before it and after it, for the device."""

    def atomic_exchange(self, builder: ir.IRBuilder, pointer: ir.Value, word: ir.Value) -> None:
        """Replace a 32- or 64-bit integer; otherwise as `atomic_add`."""

    def compare_exchange(
        self, builder: ir.IRBuilder, pointer: ir.Value, expected: ir.Value, new: ir.Value
    ) -> ir.Value:
        """Replace a 32- or 64-bit integer if it is `expected`, and return what it was; otherwise as `atomic_add`."""
