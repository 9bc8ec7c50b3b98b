"""One compiled kernel for matrices of many sizes: c[g] := A[g] · x[g], and each A[g] has its own number of rows."""

import dpnp
import numpy as np

import tl_dpnp

SOURCE = """
func @products(%A: group<memref<f64x?x?,strided<1,?>>>, %x: group<memref<f64x?>>, %c: group<memref<f64x?>>) {
  %g = group_id
  %a = load %A[%g] : group<memref<f64x?x?,strided<1,?>>>
  %b = load %x[%g] : group<memref<f64x?>>
  %d = load %c[%g] : group<memref<f64x?>>
  gemv.n 1.0, %a, %b, 0.0, %d : f64, memref<f64x?x?,strided<1,?>>, memref<f64x?>, f64, memref<f64x?>
}
"""

SIZES = [(3, 5), (17, 4), (64, 64), (1, 1), (0, 3), (33, 2)]


def main():
    """Run every size in one launch, the third matrix as a view into a larger one, and compare with NumPy."""
    random = np.random.default_rng(3)
    matrices = [random.standard_normal(shape) for shape in SIZES]
    vectors = [random.standard_normal(columns) for _, columns in SIZES]

    A = [dpnp.asarray(matrix, order="F") for matrix in matrices]
    frame = dpnp.zeros((80, 70), dtype=dpnp.float64, order="F")
    frame[8:72, 3:67] = A[2]
    A[2] = frame[8:72, 3:67]
    c = [dpnp.full(rows, float("nan")) for rows, _ in SIZES]  # beta is 0: what is there is not read

    kernel = tl_dpnp.compile(SOURCE)
    kernel(A, [dpnp.asarray(vector) for vector in vectors], c)

    for shape, matrix, vector, result in zip(SIZES, matrices, vectors, c, strict=True):
        np.testing.assert_allclose(dpnp.asnumpy(result), matrix @ vector, rtol=1e-12, err_msg=str(shape))
    print(f"checked {len(SIZES)} products of different sizes against NumPy, in one launch")


if __name__ == "__main__":
    main()
