"""Whether a region computes several matrices of a batch side by side, one in each lane of vectors.

In programs of many steps with small matrices and vectors, each step waits for the one before, which writes few elements
that the next one reads at once, and vectors are not full.  In the *interleaved layout* the same elements of several
matrices lie beside one another: no lane is empty, and there is something to do while one result is waited for, at the
price of a transposition of what is read and written.  Source: the layout of compact BLAS (K. Kim et al., "Designing
vector-friendly compact BLAS and LAPACK kernels", SC17, section 3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tl_dpnp.graph.functions import FUNCTIONS
from tl_dpnp.graph.nodes import Array, Assemble, Contract, Map, Node, Reduce, View
from tl_dpnp.graph.placement import GridAxis, Placement, Places, local_shape, place
from tl_dpnp.graph.storage import staged_arrays, stored_nodes
from tl_dpnp.graph.sums import VECTOR_BYTES
from tl_dpnp.graph.symbols import PartSize, is_dynamic
from tl_dpnp.target.catalog import FUSION

__all__ = ["LANES", "LEAST_MATRICES", "can_be_interleaved", "interleaved_axis", "is_better_interleaved", "overlapped"]

#: The matrices that a work-group has: fewer of f64, as many as fill a vector, took up to twice as long.
LANES = 16
#: The matrices of a batch from which on there is work for all cores.
LEAST_MATRICES = 256
#: The most terms of a sum that is written without a loop.
_DEEPEST = 32


def interleaved_axis(root: Node, lanes: int | None) -> GridAxis | None:
    """Return the grid axis of a result in the interleaved layout, None if it has no axis of many matrices.

    A work-group has so many of them as there are `lanes`, by default `LANES`.
    """
    if not root.shape or root.shape[0] < LEAST_MATRICES:
        return None
    return GridAxis.divided(root.shape[0], lanes or LANES, interleaved=True)


def can_be_interleaved(placement: Placement) -> bool:
    """Return whether code for the interleaved layout can be written for a region: sums of few terms, whose number is
    known, and functions of floats and numbers.
    """
    if any(node.dtype.kind == "c" for node in placement.places):
        return False
    sums = [node for node in placement.places if isinstance(node, Contract | Reduce) and _is_wide(node)]
    return bool(sums) and all(
        isinstance(node, Map | Contract | Reduce | View | Assemble)
        and not any(map(is_dynamic, (size for size, axis in zip(node.shape, places, strict=True) if axis is None)))
        for node, places in placement.places.items()
    ) and all(_is_wide(node) and _depth(node) <= _DEEPEST for node in placement.places if isinstance(node, Contract))


def _is_wide(node: Node) -> bool:
    """Return whether a node has floats of at least 32 bits, of which vectors hold a power of two."""
    return node.dtype.kind == "f" and node.dtype.itemsize > 2


def is_better_interleaved(placement: Placement, roots: Sequence[Node], lanes: int) -> bool:
    """Return whether a region takes less time in the interleaved layout than with a matrix in each work-group.

    A region that has but rows of a tall matrix does chunks of them at once as it is, so that products have full
    vectors; there it depends on its functions of rows, unless rows are done by `lanes` that are work-items.
    """
    moved = [(root, placement.places[root]) for root in roots] + staged_arrays(placement)
    vectors = sum(_vectors(node, places, placement, node.dtype.itemsize) for node, places in moved)
    if any(_has_matrices(node, places) for node, places in [*placement.places.items(), *placement.leaves]):
        steps = len(stored_nodes(placement, roots))
        return steps >= max(FUSION.least_steps, FUSION.steps_of_a_vector * vectors)
    return not lanes and _saved_operations(placement) > FUSION.worth_transposing * FUSION.transposing * vectors


def _saved_operations(placement: Placement) -> float:
    """Return how many operations of vectors functions of the rows of one matrix take less where no lane is empty."""
    saved = 0.0
    for node, places in placement.places.items():
        if isinstance(node, Map) and 0 in places:
            vectors = _vectors(node, places, placement, node.compute.itemsize)
            saved += FUNCTIONS[node.kind].cost * (math.ceil(vectors) - vectors)
    return saved


def overlapped(placement: Placement, roots: Sequence[Node], outputs: Sequence[Array]) -> Placement:
    """Return the placement with the last chunk of an interleaved axis as long as the others, where the region may
    compute some matrices twice: none of its results is in the memory of what it reads.

    One kernel serves batches of all sizes then, and its loops know how long they are.
    """
    written = {array.slot for array in outputs}
    if not placement.is_interleaved or any(array.slot in written for array, _ in placement.leaves):
        return placement
    axis = placement.grid[0]
    if is_dynamic(axis.size):  # the batch may be smaller than a chunk
        return placement
    part = GridAxis(axis.size, PartSize(int(axis.chunk), axis.size), interleaved=True, overlapping=True)
    return place(roots, (part, *placement.grid[1:]))


def _depth(node: Contract) -> int:
    """Return how many terms each element of a product is the sum of."""
    return math.prod(size for letter, size in node.sizes.items() if letter not in node.letters)


def _has_matrices(node: Node, places: Places) -> bool:
    """Return whether a node has more than a row for each index of the interleaved axis."""
    return 0 in places and sum(size > 1 for size, place in zip(node.shape, places, strict=True) if place is None) > 1


def _vectors(node: Node, places: Places, placement: Placement, itemsize: int) -> float:
    """Return how many full vectors the elements of a node for each matrix make, with so many bytes each."""
    size = math.prod(local_shape(node.shape, places, placement.grid)) // int(placement.grid[0].chunk)
    return size * itemsize / VECTOR_BYTES
