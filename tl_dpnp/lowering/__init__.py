"""Lowering: passes over the IR, loop nests and their schedules, and the body of the kernel as LLVM IR.

Importing this package loads neither llvmlite nor Numba; `lower` does, when a kernel really has to be compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tl_dpnp.lowering.device import LoweringOptions
from tl_dpnp.lowering.plan import BoundsCheck, LaunchPlan

if TYPE_CHECKING:
    from tl_dpnp.lowering.pipeline import STAGES, LoweredKernel, find_variants, lower

__all__ = [
    "STAGES", "BoundsCheck", "LaunchPlan", "LoweredKernel", "LoweringOptions", "find_variants",
    "lower",
]

_LAZY = ("STAGES", "LoweredKernel", "find_variants", "lower")


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from tl_dpnp.lowering import pipeline

        return getattr(pipeline, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
