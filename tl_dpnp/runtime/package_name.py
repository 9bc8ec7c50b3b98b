"""The name of the package whose arrays `tl_dpnp.fuse` follows in this process."""

from __future__ import annotations

from importlib.util import find_spec

__all__ = ["NAME"]

#: dpnp wherever it is installed: it and numba-cuda need environments of their own.
NAME = "dpnp" if find_spec("dpnp") is not None else "cupy"
