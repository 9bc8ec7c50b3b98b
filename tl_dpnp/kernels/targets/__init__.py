"""What differs between the targets that LLVM IR is emitted for: one object for each, found by the module's triple.

Everything else in a kernel, the address spaces 1 (global) and 3 (local) included, is the same for all of them.
"""

from __future__ import annotations

from llvmlite import ir

from tl_dpnp.errors import LoweringError
from tl_dpnp.kernels.targets.nvvm import Nvvm
from tl_dpnp.kernels.targets.protocol import Target
from tl_dpnp.kernels.targets.spirv import Spirv

__all__ = ["TARGETS", "Target", "new_module", "target_for", "target_of"]

#: The targets, by the triple of their modules.
TARGETS: dict[str, Target] = {target.triple: target for target in (Spirv(), Nvvm())}


def new_module(name: str, target: Target) -> ir.Module:
    """Return an empty module for a target."""
    module = ir.Module(name)
    module.triple, module.data_layout = target.triple, target.data_layout
    return module


def target_of(builder: ir.IRBuilder) -> Target:
    """Return the target of the module that `builder` writes to; raises `LoweringError` for a triple of no target."""
    triple = str(builder.module.triple)
    if triple not in TARGETS:
        raise LoweringError(f"no target has modules of triple {triple!r}; there are {', '.join(TARGETS)}")
    return TARGETS[triple]


def target_for(backend: str) -> Target:
    """Return the target for devices of a backend ("opencl", "level_zero" or "cuda")."""
    return next(target for target in TARGETS.values() if backend in target.backends)
