"""CUDA devices through their driver, the arrays of CUDA packages, and numba-cuda, which compiles for them."""
