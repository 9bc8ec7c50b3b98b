"""Sparse forms, ``mma.sp.sync``: two non-zero elements in each four along k, and where they are.

A is held without its zeros, m x k/2.  The places of the others are 2-bit numbers: for each four elements along k, those
of the first and of the second that is kept, in ascending order.  A word of metadata holds sixteen numbers, the first in
the low bits.  Which lanes give them, the selector says.
Source: PTX ISA 9.0, section 9.7.14.6, "Matrix multiply-accumulate operation using mma.sp instruction with sparse matrix
A", "Sparse matrix storage".

Here are the forms for f16 and bf16; those of other types are not in the table.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tl_dpnp.kernels.mma.rows import ELEMENTS, LANES, MmaRow

__all__ = ["SPARSE_ROWS", "metadata_words", "pack", "selectors", "unpack"]

SPARSE_ROWS = {
    row.name: row
    for row in (
        MmaRow(16, 8, k, ELEMENTS[name], ELEMENTS[name], ELEMENTS[c], sparse=True)
        for k in (16, 32) for name, c in (("f16", "f16"), ("f16", "f32"), ("bf16", "f32"))
    )
}
_GROUP, _KEPT = 4, 2


def pack(matrix: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Split a matrix of shape (m, k) into the elements that are kept (m, k/2) and their places among four (m, k/2).

    Raises ValueError if four neighbours, from a multiple of four on, hold more than two elements that are not zero.
    """
    rows, columns = matrix.shape
    fours = matrix.reshape(rows, columns // _GROUP, _GROUP)
    if int((fours != 0).sum(axis=2).max(initial=0)) > _KEPT:
        raise ValueError("more than two of four neighbours along k are not zero")
    # Elements that are not zero come first, and both parts stay in order; the first zeros fill up.
    order = np.argsort(fours == 0, axis=2, kind="stable")[:, :, :_KEPT]
    places = np.sort(order, axis=2)
    kept = np.take_along_axis(fours, places, axis=2)
    return kept.reshape(rows, -1), places.reshape(rows, -1)


def unpack(kept: np.ndarray[Any, Any], places: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the matrix that `pack` has split."""
    rows, columns = kept.shape
    fours = np.zeros((rows, columns // _KEPT, _GROUP), kept.dtype)
    shape = rows, columns // _KEPT, _KEPT
    np.put_along_axis(fours, places.reshape(shape), kept.reshape(shape), axis=2)
    return fours.reshape(rows, -1)


def selectors(row: MmaRow) -> int:
    """Return the number of selectors: how many sets of lanes could give the metadata."""
    return 4 if row.k == 16 else 2


def metadata_words(row: MmaRow, places: np.ndarray[Any, Any], selector: int) -> np.ndarray[Any, Any]:
    """Return the metadata of each lane as uint32, for the `places` (m, k/2) that `pack` gives.

    For k = 16 the lanes with t = selector give it; for k = 32 those with t = 2 · selector for the first half of k and
    those with t = 2 · selector + 1 for the second.  A word is for row g, in the low bits, and for row g + 8.
    """
    words = np.zeros(LANES, np.uint32)
    halves = row.k // 16
    for lane in range(LANES):
        g, t = divmod(lane, 4)
        chosen, half = divmod(t, halves)
        if chosen == selector:
            part = slice(8 * half, 8 * half + 8)
            for position, number in enumerate([*places[g, part], *places[g + 8, part]]):
                words[lane] |= np.uint32(int(number) << 2 * position)
    return words
