"""Rules that dpnp, its versions and CuPy differ in: the installed one is asked, once.

Tested with dpnp 0.15.0 and 0.20.0 and CuPy 14.2.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tl_dpnp.runtime.array_package import xp

__all__ = [
    "diag_copies", "einsum_sees_diagonals", "indices_wrap", "kind_of_several", "nansum_takes_whole_elements",
    "quotients_by_zero_are_infinite", "raise_singular", "real_is_a_view", "shifts_keep_the_sign",
    "singular_is_an_error", "solves_stacks_of_vectors",
]


@functools.cache
def singular_is_an_error(name: str) -> bool:
    """Return whether a function of `linalg` raises an error for a singular matrix in a batch: `inv` of dpnp 0.15 gives
    infinities, and CuPy does not look.  `solve` of dpnp 0.20 raises MKL's.
    """
    try:
        raise_singular(name, np.array([False, True]))
    except (getattr(xp.linalg, "LinAlgError", np.linalg.LinAlgError), RuntimeError):
        return True
    return False


def raise_singular(name: str, singular: np.ndarray[Any, Any]) -> None:
    """Raise the error of a function of `dpnp.linalg` for a batch of which these matrices are singular.

    In dpnp 0.20 it depends on their places: `solve` has one for the first matrix, and one of MKL's for others.
    """
    matrices = xp.asarray(np.where(singular.reshape(-1, 1, 1), 0, np.eye(2)))
    getattr(xp.linalg, name)(*((matrices, matrices) if name == "solve" else (matrices,)))


@functools.cache
def solves_stacks_of_vectors() -> bool:
    """Return whether right-hand sides with one axis less than the matrices are vectors, as in dpnp 0.15.

    In dpnp 0.20 they are matrices, as in NumPy 2 (`numpy.linalg.solve`, changed in version 2.0).
    """
    matrices = xp.asarray(np.stack([np.eye(2, dtype="f4")] * 2))
    return bool(xp.linalg.solve(matrices, xp.asarray(np.eye(2, dtype="f4"))).ndim == 2)


@functools.cache
def nansum_takes_whole_elements() -> bool:
    """Return whether a complex number with NaN in one part counts as 0 in `dpnp.nansum`: in dpnp 0.20 the part does."""
    return bool(xp.asnumpy(xp.nansum(xp.asarray([complex(1, np.nan)]))).real == 0)


@functools.cache
def einsum_sees_diagonals() -> bool:
    """Return whether the diagonal that `dpnp.einsum` gives is a view, as in NumPy: dpnp 0.15 copies it."""
    matrix = xp.zeros((2, 2), dtype="f4")
    xp.einsum("ii->i", matrix)[...] = 1
    return bool(matrix[0, 0] == 1)


@functools.cache
def indices_wrap() -> bool:
    """Return whether an index beyond an axis counts from its other end again, as in CuPy; in dpnp it is moved to the
    end.
    """
    return bool(xp.asnumpy(xp.take(xp.arange(3), xp.asarray([4])))[0] == 1)


@functools.cache
def real_is_a_view() -> bool:
    """Return whether the function `real` shares memory with complex numbers, as in CuPy; dpnp copies."""
    numbers = xp.zeros(1, dtype="c8")
    xp.real(numbers)[...] = 1
    return bool(xp.asnumpy(numbers)[0] == 1)


@functools.cache
def shifts_keep_the_sign() -> bool:
    """Return whether a number below 0 is shifted to the right by a negative count to -1, as in CUDA; in dpnp to 0."""
    return bool(xp.asnumpy(xp.right_shift(xp.asarray([-2]), xp.asarray([-1])))[0] == -1)


@functools.cache
def diag_copies() -> bool:
    """Return whether `diag` of a matrix has memory of its own, as in CuPy; in dpnp it is a view."""
    matrix = xp.zeros((2, 2), dtype="f4")
    xp.diag(matrix)[...] = 1
    return bool(xp.asnumpy(matrix)[0, 0] == 0)


@functools.cache
def quotients_by_zero_are_infinite() -> bool:
    """Return whether a complex number divided by 0 is infinite, as in dpnp; in CuPy it is NaN."""
    one = xp.ones(1, dtype="c8")
    return bool(np.isinf(xp.asnumpy(one / xp.zeros(1, dtype="c8"))[0]))


@functools.cache
def kind_of_several(name: str) -> type:
    """Return what has the results of a function of several vectors: a list or a tuple."""
    vectors = [xp.ones(1, dtype="f4")] * 2
    return type(getattr(xp, name)(*vectors))
