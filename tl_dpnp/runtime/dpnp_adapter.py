"""Everything that the runtime asks of dpnp, without importing it.

This is the only module that touches private parts of dpnp.  Tested with dpnp 0.15.0.  Private is
``dpnp.ndarray._array_obj``, the `usm_ndarray` that holds the data; `dpnp.get_usm_ndarray` gives the same in ten times
the time, and subclasses may make it a property that computes the data when it is asked for.
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["is_dpnp_array", "usm_array_of"]


def is_dpnp_array(value: object) -> bool:
    """Return whether `value` is a dpnp array; none is while dpnp has not been imported."""
    dpnp = sys.modules.get("dpnp")
    return dpnp is not None and isinstance(value, dpnp.ndarray)


def usm_array_of(array: Any) -> Any:
    """Return the `usm_ndarray` of a dpnp array."""
    return array._array_obj
