"""Writing a program from Python: the products of a whole chain of matrices, its length and sizes given by a list.

y[g] := M[n] · … · M[1] · x[g] for every work-group g, with each intermediate vector in temporary memory.
"""

import itertools

import dpnp
import numpy as np

import tl_dpnp
from tl_dpnp.language import FunctionBuilder, memref
from tl_dpnp.language.builder import ALL
from tl_dpnp.scalars import F64


def chain(sizes):
    """Return the function that multiplies a vector of sizes[0] elements by matrices of sizes[i + 1] × sizes[i]."""
    matrices = {f"M{i}": memref(F64, rows, columns) for i, (columns, rows) in enumerate(itertools.pairwise(sizes))}
    b = FunctionBuilder("chain", {"x": memref(F64, sizes[0], None), **matrices, "y": memref(F64, sizes[-1], None)})
    x, *factors, y = b.parameters
    g = b.group_id()
    vector = b.subview(x, ALL, g)
    for i, factor in enumerate(factors):
        last = i == len(factors) - 1
        result = b.subview(y, ALL, g) if last else b.alloca(memref(F64, sizes[i + 1]))
        b.gemv(1.0, factor, vector, 0.0, result)
        vector = result
    return b.build()


def main():
    """Build, show, run, and compare with NumPy."""
    sizes, batch = [5, 33, 8, 21, 3], 1000
    random = np.random.default_rng(4)
    x = random.standard_normal((sizes[0], batch))
    matrices = [random.standard_normal((rows, columns)) for columns, rows in itertools.pairwise(sizes)]
    expected = np.linalg.multi_dot([*reversed(matrices), x])

    kernel = tl_dpnp.compile(chain(sizes))
    print(kernel.source_text)
    y = dpnp.empty((sizes[-1], batch), dtype=dpnp.float64, order="F")
    kernel(dpnp.asarray(x, order="F"), *(dpnp.asarray(matrix, order="F") for matrix in matrices), y)

    np.testing.assert_allclose(dpnp.asnumpy(y), expected, rtol=1e-10, atol=1e-10)
    print(f"checked {batch} chains of {len(matrices)} products against NumPy")


if __name__ == "__main__":
    main()
