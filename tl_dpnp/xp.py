"""dpnp's functions, fused: ``import tl_dpnp.xp as dpnp``.

Inside a function that `tl_dpnp.fuse` has decorated, and inside `tl_dpnp.fusing`, the functions of this module are
recorded.  Anywhere else a call runs at once: as one kernel where that is possible, so that an einsum of many operands
is one launch, and in dpnp otherwise.  Whatever dpnp has is here under its name; results are plain `dpnp.ndarray`
objects.
"""

from __future__ import annotations

from typing import Any

from tl_dpnp.graph.calling import function_of, public_names

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    value = function_of(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return public_names()
