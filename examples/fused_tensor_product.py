"""A tensor-product operator of a spectral-element code: an 8x8 matrix along each axis of elements of 8x8x8 points.

As in nekRS at polynomial order 7.  Written with einsum over four operands and with matrix products; both become one
kernel, whose intermediate results stay on the device's registers and local memory.  With the path of an SVG file behind
the command, the graph of the products and its kernel are drawn there.
"""

import sys
from pathlib import Path

import dpnp
import numpy as np

import tl_dpnp

POINTS, ELEMENTS = 8, 1000


@tl_dpnp.fuse
def with_einsum(u, d):
    """Return D applied along the three axes of each element."""
    return dpnp.einsum("eijk,ai,bj,ck->eabc", u, d, d, d)


@tl_dpnp.fuse
def with_products(u, d):
    """The same with products of matrices: the last axis, the one before, and the first."""
    elements, n = u.shape[:2]
    u = d @ (u @ d.T)
    return (d @ u.reshape(elements, n, n * n)).reshape(u.shape)


def main():
    """Run both on a batch of elements and compare with NumPy."""
    random = np.random.default_rng(0)
    u, d = random.standard_normal((ELEMENTS, POINTS, POINTS, POINTS)), random.standard_normal((POINTS, POINTS))
    expected = np.einsum("eijk,ai,bj,ck->eabc", u, d, d, d, optimize=True)
    for function in (with_einsum, with_products):
        arrays = dpnp.asarray(u), dpnp.asarray(d)
        error = np.abs(function(*arrays).asnumpy() - expected).max() / np.abs(expected).max()
        assert error < 1e-13, f"the result is wrong: relative error {error}"
        explanation = tl_dpnp.explain(function)(*arrays)
        kernels = explanation.kernels
        assert len(kernels) == 1
        print(f"{function.__name__}: {len(kernels[0].operations)} operations in one kernel; "
              f"checked against NumPy, " + (f"largest relative error {error:.1e}" if error else "all bits agree"))
    if sys.argv[1:]:
        Path(sys.argv[1]).write_text(explanation.svg())


if __name__ == "__main__":
    main()
