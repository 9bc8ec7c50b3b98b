"""Rules that versions of dpnp differ in: the installed one is asked, once.  Tested with dpnp 0.15.0 and 0.20.0."""

from __future__ import annotations

import functools
from typing import Any

import dpnp
import numpy as np

__all__ = [
    "einsum_sees_diagonals", "nansum_takes_whole_elements", "raise_singular", "singular_inverse_is_an_error",
    "solves_stacks_of_vectors",
]


@functools.cache
def singular_inverse_is_an_error() -> bool:
    """Return whether `dpnp.linalg.inv` raises an error for a singular matrix in a batch: dpnp 0.15 gives infinities."""
    try:
        raise_singular("inv", np.array([False, True]))
    except dpnp.linalg.LinAlgError:
        return True
    return False


def raise_singular(name: str, singular: np.ndarray[Any, Any]) -> None:
    """Raise the error of a function of `dpnp.linalg` for a batch of which these matrices are singular.

    In dpnp 0.20 it depends on their places: `solve` has one for the first matrix, and one of MKL's for others.
    """
    matrices = dpnp.asarray(np.where(singular.reshape(-1, 1, 1), 0, np.eye(2)))
    getattr(dpnp.linalg, name)(*((matrices, matrices) if name == "solve" else (matrices,)))


@functools.cache
def solves_stacks_of_vectors() -> bool:
    """Return whether right-hand sides with one axis less than the matrices are vectors, as in dpnp 0.15.

    In dpnp 0.20 they are matrices, as in NumPy 2 (`numpy.linalg.solve`, changed in version 2.0).
    """
    matrices = dpnp.asarray(np.stack([np.eye(2, dtype="f4")] * 2))
    return bool(dpnp.linalg.solve(matrices, dpnp.asarray(np.eye(2, dtype="f4"))).ndim == 2)


@functools.cache
def nansum_takes_whole_elements() -> bool:
    """Return whether a complex number with NaN in one part counts as 0 in `dpnp.nansum`: in dpnp 0.20 the part does."""
    return bool(dpnp.nansum(dpnp.asarray([complex(1, np.nan)])).asnumpy().real == 0)


@functools.cache
def einsum_sees_diagonals() -> bool:
    """Return whether the diagonal that `dpnp.einsum` gives is a view, as in NumPy: dpnp 0.15 copies it."""
    matrix = dpnp.zeros((2, 2), dtype="f4")
    dpnp.einsum("ii->i", matrix)[...] = 1
    return bool(matrix[0, 0] == 1)
