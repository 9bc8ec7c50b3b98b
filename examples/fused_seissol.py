"""The volume and flux updates of an ADER-DG seismic solver as plain dpnp code, fused.

Order 6 for the elastic wave equation: 56 basis functions, 21 on a face, 9 quantities.  Each update is a sum of chains
of products, and becomes one kernel; `examples/seissol_volume.py` writes the first one in the tensor language.
"""

import dpnp
import numpy as np

import tl_dpnp

BASIS, FACE, QUANTITIES, CELLS = 56, 21, 9, 500


@tl_dpnp.fuse
def volume(dofs, integrated, stiffness, stars):
    """Return Q + Σ_d K[d] (I star[d]) over three dimensions."""
    for k, star in zip(stiffness, stars, strict=True):
        dofs = dofs + k @ (integrated @ star)
    return dofs


@tl_dpnp.fuse
def local_flux(dofs, integrated, back, forth, solvers):
    """Return Q + Σ_f R[f] (F[f] I A[f]) over four faces: to the face, through the solver, and back."""
    for r, f, solver in zip(back, forth, solvers, strict=True):
        dofs = dofs + r @ (f @ integrated @ solver)
    return dofs


def main():
    """Run both updates on a batch of cells and compare with NumPy."""
    random = np.random.default_rng(2)

    def matrices(*shape):
        return random.standard_normal(shape)

    dofs, integrated = matrices(CELLS, BASIS, QUANTITIES), matrices(CELLS, BASIS, QUANTITIES)
    stiffness, stars = matrices(3, BASIS, BASIS), matrices(3, CELLS, QUANTITIES, QUANTITIES)
    back, forth = matrices(4, BASIS, FACE), matrices(4, FACE, BASIS)
    solvers = matrices(4, CELLS, QUANTITIES, QUANTITIES)
    for function, operands in ((volume, (stiffness, stars)), (local_flux, (back, forth, solvers))):
        arrays = [[dpnp.asarray(matrix) for matrix in operand] for operand in operands]
        q, i = dpnp.asarray(dofs), dpnp.asarray(integrated)
        result = function(q, i, *arrays)
        expected = function.function(dofs, integrated, *operands)  # the function that is decorated, on NumPy arrays
        error = np.abs(result.asnumpy() - expected).max() / np.abs(expected).max()
        assert error < 1e-13, f"the result is wrong: relative error {error}"
        explanation = tl_dpnp.explain(function)(q, i, *arrays)
        assert len(explanation.kernels) == 1
        print(f"{function.__name__}: {explanation.launches_before} operations in one kernel, "
              f"{explanation.bytes_before / explanation.bytes:.1f} times less memory traffic; "
              f"checked against NumPy, " + (f"largest relative error {error:.1e}" if error else "all bits agree"))


if __name__ == "__main__":
    main()
