"""Attention for short sequences: two products with a softmax between them, in one kernel.

Each work-group computes some rows of one head; the scores never leave it.
With the path of an SVG file behind the command, the graph and its kernel are drawn there.
"""

import sys
from pathlib import Path

import dpnp
import numpy as np

import tl_dpnp

HEADS, LENGTH, DIMENSION = 24, 64, 64


@tl_dpnp.fuse
def attention(q, k, v):
    """Return softmax(q kᵀ / √d) v for each head."""
    scores = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    weights = dpnp.exp(scores - dpnp.max(scores, axis=-1, keepdims=True))
    return (weights @ v) / weights.sum(axis=-1, keepdims=True)


def main():
    """Run it on random heads and compare with NumPy."""
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal((HEADS, LENGTH, DIMENSION), dtype=np.float32) for _ in range(3))
    scores = q.astype("f8") @ k.swapaxes(-1, -2) / np.sqrt(DIMENSION)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    expected = (weights @ v) / weights.sum(axis=-1, keepdims=True)

    arrays = [dpnp.asarray(array) for array in (q, k, v)]
    error = np.abs(attention(*arrays).asnumpy() - expected).max()
    assert error < 1e-5, f"the result is wrong: error {error}"
    explanation = tl_dpnp.explain(attention)(*arrays)
    assert len(explanation.kernels) == 1
    print(f"{explanation.launches_before} operations in one kernel of {explanation.kernels[0].groups} work-groups; "
          f"checked against NumPy, " + (f"largest error {error:.1e}" if error else "all bits agree"))
    if sys.argv[1:]:
        Path(sys.argv[1]).write_text(explanation.svg())


if __name__ == "__main__":
    main()
