"""What a fused function counts."""

from __future__ import annotations

from tl_dpnp.records import dataclass

__all__ = ["FusionStats"]


@dataclass(frozen=True)
class FusionStats:
    """The calls of one fused function so far, and what became of them.

    `calls` is the sum of `plan_hits`, which ran from a plan, `traced_calls`, and `dpnp_calls`, which ran in dpnp as
    they are.  `traces` has those of `warmup` as well.  `plans` are kept now.  `compilations` counts the traces that had
    to compile, of which there may be `recompile_limit`, `kernels` the kernels that they compiled, and
    `compile_seconds` the time that it took to make kernels ready.  Calls from inside other fused functions are part of
    those.  `dynamic` names the axes whose sizes kernels are given, because they changed: ``axis 1 of argument x``.
    """

    calls: int
    plan_hits: int
    traced_calls: int
    dpnp_calls: int
    traces: int
    plans: int
    compilations: int
    kernels: int
    compile_seconds: float
    dynamic: tuple[str, ...] = ()
