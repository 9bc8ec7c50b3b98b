"""dpnp's functions, fused: ``import tl_dpnp.xp as dpnp``.

Inside a function that `tl_dpnp.fuse` has decorated, and inside `tl_dpnp.fusing`, the functions of this module are
recorded.  Anywhere else a call runs at once: as one kernel where that is possible, so that an einsum of many operands
is one launch, and in dpnp otherwise.  Whatever dpnp has is here under its name; results are plain `dpnp.ndarray`
objects.

Without dpnp the module can be imported; what is taken from it raises `UnsupportedError`, which says what to install.
"""

from __future__ import annotations

from typing import Any

from tl_dpnp.errors import UnsupportedError
from tl_dpnp.runtime.missing import needed

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    try:
        value = _calling().function_of(name)
    except UnsupportedError:
        if name.startswith("__"):  # what Python asks of any module
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
        raise
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(_calling().public_names())


def _calling() -> Any:
    return needed("tl_dpnp.graph.calling", "tl_dpnp.xp")
