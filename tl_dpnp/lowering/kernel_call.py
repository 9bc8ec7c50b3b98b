"""How the body of a kernel calls the micro-kernel of an instruction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tl_dpnp.kernels.llvm import Intrinsic
from tl_dpnp.language import ops
from tl_dpnp.lowering.body.memref import MemrefDescriptor

__all__ = ["KernelCall", "KernelMaker"]


class KernelCall(NamedTuple):
    """A micro-kernel and what it is called with: positions of memrefs, and run-time sizes, strides and scalars.

    `dimensions` lists (operand position, "size", "stride" or "step", mode) in the order of the parameters; `scalars`
    the operands of the instruction that are passed as values.  If it `prefetches`, its last arguments are which caches
    the call exceeds (`tl_dpnp.lowering.plan`) and the distances to the operands that can be fetched.
    """

    intrinsic: Intrinsic
    dimensions: tuple[tuple[int, str, int], ...]
    scalars: tuple[ops.Operand, ...]
    comment: str
    prefetches: bool = False


#: Makes the micro-kernel of an instruction, given its operands.
KernelMaker = Callable[[ops.LinearAlgebra, Sequence[MemrefDescriptor]], KernelCall]
