"""A contraction as in MACE's symmetric products, by einsum: features, weights of species, and one-hot species.

opt_einsum chooses the order of the products; together they are one kernel for each atom.  With the path of an SVG file
behind the command, the graph and its kernel are drawn there.
"""

import sys
from pathlib import Path

import dpnp
import numpy as np

import tl_dpnp

ATOMS, CHANNELS, COMPONENTS, PATHS, SPECIES = 300, 16, 9, 4, 5


@tl_dpnp.fuse
def contract(coupling, weights, features, species):
    """Return Σ U[w,i,k] W[e,k,c] x[b,c,i] y[b,e] for each atom b, channel c and component w."""
    return dpnp.einsum("wik,ekc,bci,be->bcw", coupling, weights, features, species)


def main():
    """Run it on random atoms and compare with NumPy."""
    random = np.random.default_rng(0)
    coupling = random.standard_normal((COMPONENTS, COMPONENTS, PATHS))
    weights = random.standard_normal((SPECIES, PATHS, CHANNELS))
    features = random.standard_normal((ATOMS, CHANNELS, COMPONENTS))
    species = np.eye(SPECIES)[random.integers(0, SPECIES, ATOMS)]
    operands = coupling, weights, features, species
    expected = np.einsum("wik,ekc,bci,be->bcw", *operands, optimize=True)

    arrays = [dpnp.asarray(operand) for operand in operands]
    error = np.abs(contract(*arrays).asnumpy() - expected).max() / np.abs(expected).max()
    assert error < 1e-13, f"the result is wrong: relative error {error}"
    explanation = tl_dpnp.explain(contract)(*arrays)
    print(f"{explanation.launches_before} products in {len(explanation.kernels)} kernels; "
          f"checked against NumPy, " + (f"largest relative error {error:.1e}" if error else "all bits agree"))
    if sys.argv[1:]:
        Path(sys.argv[1]).write_text(explanation.svg())


if __name__ == "__main__":
    main()
