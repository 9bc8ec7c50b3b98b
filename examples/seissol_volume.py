"""The volume kernel of an ADER-DG seismic solver: Q[g] += Σ_d  kDivM[d] · I[g] · star[d][g]  over three dimensions.

Order 6 for the elastic wave equation: 56 basis functions and 9 quantities.  The stiffness matrices are shared; the
degrees of freedom and the star matrices of each cell are separate arrays, passed as groups.
"""

import dpnp
import numpy as np

import tl_dpnp

BASIS, QUANTITIES, CELLS = 56, 9, 500

DOFS = f"memref<f64x{BASIS}x{QUANTITIES}>"
STAR = f"memref<f64x{QUANTITIES}x{QUANTITIES}>"
STIFFNESS = f"memref<f64x{BASIS}x{BASIS}>"


def dimension(d):
    """Return the two products of one dimension: the small one first, so that the large one runs once."""
    return f"""
  %star{d} = load %S{d}[%g] : group<{STAR}>
  gemm.n.n 1.0, %i, %star{d}, 0.0, %tmp : f64, {DOFS}, {STAR}, f64, {DOFS}
  gemm.n.n 1.0, %K{d}, %tmp, 1.0, %q : f64, {STIFFNESS}, {DOFS}, f64, {DOFS}"""


SOURCE = f"""
func @volume(%I: group<{DOFS}>,
             %S0: group<{STAR}>, %S1: group<{STAR}>, %S2: group<{STAR}>,
             %K0: {STIFFNESS}, %K1: {STIFFNESS}, %K2: {STIFFNESS},
             %Q: group<{DOFS}>) {{
  %g = group_id
  %i = load %I[%g] : group<{DOFS}>
  %q = load %Q[%g] : group<{DOFS}>
  %tmp = alloca -> {DOFS}
{dimension(0)}
{dimension(1)}
{dimension(2)}
}}
"""


def main():
    """Run one time step on a batch of cells and compare with NumPy."""
    random = np.random.default_rng(2)
    dofs = random.standard_normal((CELLS, BASIS, QUANTITIES))
    stars = random.standard_normal((3, CELLS, QUANTITIES, QUANTITIES))
    stiffness = random.standard_normal((3, BASIS, BASIS))
    result = random.standard_normal((CELLS, BASIS, QUANTITIES))
    expected = result + sum(stiffness[d] @ (dofs @ stars[d]) for d in range(3))

    def cells(batch):
        return tl_dpnp.group([dpnp.asarray(matrix, order="F") for matrix in batch])

    Q = [dpnp.asarray(matrix, order="F") for matrix in result]
    kernel = tl_dpnp.compile(SOURCE)
    kernel(cells(dofs), *map(cells, stars), *(dpnp.asarray(k, order="F") for k in stiffness), Q)

    computed = np.stack([dpnp.asnumpy(matrix) for matrix in Q])
    error = np.abs(computed - expected).max() / np.abs(expected).max()
    assert error < 1e-13, f"the result is wrong: relative error {error}"
    print(f"checked {CELLS} cells of {BASIS} x {QUANTITIES} against NumPy: "
          + (f"largest relative error {error:.1e}" if error else "all bits agree"))


if __name__ == "__main__":
    main()
