"""Benchmarks of tl_dpnp, for asv and for the commands of `asv_bench`.

Rivals are measured at their best.  The variables that hold OpenBLAS, and so NumPy, to kernels for another processor
are removed here, before anything can load NumPy.  What somebody's tuning left in the disk cache is not used.
"""

import os

for _variable in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(_variable, None)
os.environ["TL_DPNP_TUNED"] = "0"
