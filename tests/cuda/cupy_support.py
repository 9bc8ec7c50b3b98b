"""CuPy for the tests, or the stand-in for it where there is no GPU, and what compares results with its own."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tests.cuda import cupy_stand_in

__all__ = ["STANDS_IN", "compare", "cupy", "fuse", "here", "shares"]

STANDS_IN = cupy_stand_in.is_needed()
_TOLERANCES = {"float16": 2e-2, "float32": 2e-5, "float64": 1e-12, "complex64": 2e-5, "complex128": 1e-12}


def here(patch):
    """Have the package find CuPy, or what stands for it, and run kernels in the interpreter then."""
    if STANDS_IN:
        patch.setitem(sys.modules, "cupy", cupy_stand_in.module)
        patch.setitem(sys.modules, "cupy.linalg", cupy_stand_in.module.linalg)
        patch.setenv("TL_DPNP_TARGET", "reference")


with pytest.MonkeyPatch.context() as _patch:
    here(_patch)
    import cupy

    import tl_dpnp.graph.fused  # noqa: F401  # which takes the package that is there now
    from tl_dpnp.graph.without_dpnp import fuse


def _span(array):
    ways = [(size - 1) * step for size, step in zip(array.shape, array.strides, strict=True)]
    first = array.data.ptr
    return first + sum(w for w in ways if w < 0), first + sum(w for w in ways if w > 0) + array.itemsize


def shares(a, b):
    """Return whether two arrays overlap in memory."""
    if not a.size or not b.size:
        return False
    (low, high), (other_low, other_high) = _span(a), _span(b)
    return low < other_high and other_low < high


def compare(name, fused, plain):
    """Fail unless a result is what CuPy gives, but for rounding: where it is in memory, too."""
    assert type(fused) is type(plain), f"{name}: {type(fused)} for {type(plain)}"
    if isinstance(plain, list | tuple):
        assert len(fused) == len(plain), name
        for one, other in zip(fused, plain, strict=True):
            compare(name, one, other)
        return
    if not isinstance(plain, cupy.ndarray):
        assert fused == plain or (fused != fused and plain != plain), name
        return
    assert (fused.dtype, fused.shape) == (plain.dtype, plain.shape), f"{name}: {fused.dtype}{fused.shape}"
    tolerance = _TOLERANCES.get(plain.dtype.name, 0)
    own, expected = fused.get(), plain.get()
    scale = 1 + np.max(np.abs(expected[np.isfinite(expected)]), initial=0)
    np.testing.assert_allclose(own, expected, rtol=tolerance, atol=tolerance * scale, err_msg=name)
