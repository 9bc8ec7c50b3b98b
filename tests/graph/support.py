"""Comparing fused code with plain dpnp."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import dpnp
import numpy as np
import pytest

from tests.graph.source_text import with_source

__all__ = [
    "IS_CURRENT", "compare", "interleaved_wherever_possible", "known_after", "memory_of", "needs_weak_references",
    "shares", "short_calls_after", "with_source",
]

#: Whether this is the stack of current Pythons: dpnp 0.20, NumPy 2, and the CPU runtime of 2026.
IS_CURRENT = np.lib.NumpyVersion(np.__version__) >= "2.0.0"
needs_weak_references = pytest.mark.skipif(
    not hasattr(dpnp.ndarray, "__weakref__"), reason="arrays of dpnp 0.20 have no weak references")

_TOLERANCES = {"float16": 2e-2, "float32": 2e-5, "float64": 1e-12, "complex64": 2e-5, "complex128": 1e-12}


def memory_of(array: Any) -> tuple[int, int]:
    """Return the first and the last byte that an array may touch."""
    usm = array.get_array()
    spans = [(size - 1) * stride * array.itemsize for size, stride in zip(array.shape, usm.strides, strict=True)]
    first = usm._pointer
    low, high = sum(s for s in spans if s < 0), sum(s for s in spans if s > 0)
    return first + low, first + high + array.itemsize


def shares(a: Any, b: Any) -> bool:
    """Return whether two arrays overlap in memory."""
    if a.size == 0 or b.size == 0:
        return False
    (low, high), (other_low, other_high) = memory_of(a), memory_of(b)
    return low < other_high and other_low < high


def compare(name: str, fused: Any, plain: Any) -> None:
    """Fail unless a fused result is what plain dpnp gives, but for rounding."""
    if isinstance(plain, list | tuple):
        assert type(fused) is type(plain), name
        assert len(fused) == len(plain), name
        for one, other in zip(fused, plain, strict=True):
            compare(name, one, other)
        return
    assert type(fused) is type(plain), f"{name}: {type(fused)} for {type(plain)}"
    if not isinstance(plain, dpnp.ndarray):
        assert fused == plain, name
        return
    assert fused.dtype == plain.dtype, f"{name}: {fused.dtype} for {plain.dtype}"
    assert fused.shape == plain.shape, f"{name}: {fused.shape} for {plain.shape}"
    assert fused.usm_type == plain.usm_type, name
    assert fused.sycl_queue == plain.sycl_queue, name
    tolerance = _TOLERANCES.get(plain.dtype.name, 0)
    scale = 1 + np.max(np.abs(plain.asnumpy()[np.isfinite(plain.asnumpy())]), initial=0)
    np.testing.assert_allclose(fused.asnumpy(), plain.asnumpy(), rtol=tolerance, atol=tolerance * scale,
                               err_msg=name)


@contextlib.contextmanager
def interleaved_wherever_possible() -> Iterator[None]:
    """Compute batches of two matrices and more in the interleaved layout, two in each work-group, whatever it costs."""
    from tl_dpnp.graph import grids, interleaving

    with mock.patch.object(interleaving, "LEAST_MATRICES", 2), mock.patch.object(interleaving, "LANES", 2), \
            mock.patch.object(grids, "is_better_interleaved", return_value=True):
        yield


@contextlib.contextmanager
def known_after(calls: int) -> Iterator[None]:
    """Know calls by what machine code compares after so many of one kind."""
    from tl_dpnp.graph import fused, recent

    with mock.patch.object(recent, "CALLS_BEFORE", calls), mock.patch.object(fused, "CALLS_BEFORE", calls):
        yield


@contextlib.contextmanager
def short_calls_after(calls: int) -> Iterator[None]:
    """Run calls by machine code after so many of one kind, and take the time of a busy machine for short."""
    from tl_dpnp.runtime.sycl import host_calls

    with known_after(calls), mock.patch.object(host_calls, "CALLS_BEFORE", 1), \
            mock.patch.object(host_calls, "NUMBERS", replace(host_calls.NUMBERS, longest=1e3, longest_step=1e3)):
        yield
