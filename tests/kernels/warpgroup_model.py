"""A NumPy model of products by warpgroups: from images of shared memory and the words of each thread to words."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.kernels.mma_model import decode, encode
from tl_dpnp.kernels.instructions import Element
from tl_dpnp.kernels.mma.warpgroup import SWIZZLE, THREADS, Panel, WarpgroupRow

__all__ = ["fragments", "image", "matrix", "model", "panels", "random_operands", "values"]

Array = np.ndarray[Any, Any]


def panels(row: WarpgroupRow, a_along_k: bool, b_along_k: bool) -> tuple[Panel, Panel]:
    """Return panels that hold A and the transpose of B, and more."""
    size = row.a.bits // 8
    depth = SWIZZLE // size
    rows = (row.m, row.n if b_along_k else -(-row.n // 64) * 64)
    return Panel(rows[0], depth, size, a_along_k), Panel(rows[1], depth, size, b_along_k)


def image(panel: Panel, element: Element, matrix: Array, start: int) -> Array:
    """Return a panel as bytes, with a matrix (rows, k) from element `start` along k on and 0xFF elsewhere."""
    memory = np.full(panel.bytes, 0xFF, np.uint8)
    kind = {1: np.uint8, 2: np.uint16, 4: np.uint32}[panel.size]
    codes = encode(element, matrix).astype(kind)
    for (row, k), code in np.ndenumerate(codes):
        place = panel.offset(row, start + k)
        memory[place : place + panel.size] = np.frombuffer(code.tobytes(), np.uint8)
    return memory


def values(panel: Panel, element: Element, memory: Array, rows: int, start: int, depth: int) -> Array:
    """Return the matrix (rows, depth) that `image` has put into a panel."""
    kind = {1: np.uint8, 2: np.uint16, 4: np.uint32}[panel.size]
    words = memory.view(kind)
    places = [[panel.offset(row, start + k) // panel.size for k in range(depth)] for row in range(rows)]
    return decode(element, words[np.array(places)].astype(np.uint64))


def fragments(row: WarpgroupRow, matrix: Array) -> Array:
    """Return the words of each thread (128, words) for a D."""
    codes = encode(row.c, matrix)
    words = np.zeros((THREADS, row.words), np.uint64)
    for thread, word in np.ndindex(*words.shape):
        for part in range(row.parts):
            words[thread, word] |= codes[row.place(thread, word, part)] << np.uint64(row.c.bits * part)
    return words


def matrix(row: WarpgroupRow, words: Array) -> Array:
    """Return the D that the words of the threads hold."""
    codes = np.zeros((row.m, row.n), np.uint64)
    mask = np.uint64((1 << row.c.bits) - 1)
    for thread, word in np.ndindex(*words.shape):
        for part in range(row.parts):
            codes[row.place(thread, word, part)] = words[thread, word] >> np.uint64(row.c.bits * part) & mask
    return decode(row.c, codes)


def model(row: WarpgroupRow, panels: tuple[Panel, Panel], images: list[Array], words: Array, start: int) -> Array:
    """Return the words of D after a product of the panels; exact for operands whose sums are exact."""
    a = values(panels[0], row.a, images[0], row.m, start, row.k)
    b = values(panels[1], row.b, images[1], row.n, start, row.k)
    return fragments(row, matrix(row, words) + a @ b.T)


def random_operands(row: WarpgroupRow, seed: int = 0) -> tuple[Array, Array, Array]:
    """Return A, B and D of small whole numbers, whose sums of products are exact in every type."""
    random = np.random.default_rng(seed)

    def draw(element: Element, shape: tuple[int, int]) -> Array:
        low, high = {"signed": (-4, 5), "unsigned": (0, 8), "float": (-2, 3)}[element.kind]
        return random.integers(low, high, shape).astype(np.float64)

    return draw(row.a, (row.m, row.k)), draw(row.b, (row.k, row.n)), draw(row.c, (row.m, row.n))
