"""Benchmarks of tl_dpnp, for asv and for the commands of `asv_bench`.

Rivals are measured at their best.  The variables that hold OpenBLAS, and so NumPy, to kernels for another processor
are removed here, before anything can load NumPy.  What somebody's tuning left in the disk cache is not used.

OpenBLAS's threads look for work after a product, for 2^28 cycles of the time stamp counter in NumPy 1.26 by itself:
100 ms at 2.6 GHz, in which they would have a core to themselves that the next contestant needs.  With 2^25 they sleep
after 13 ms, which is longer than any pause between products in one turn (OpenBLAS, ``driver/others/blas_server.c``).
"""

import os

for _variable in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(_variable, None)
os.environ["OPENBLAS_THREAD_TIMEOUT"] = "25"
os.environ["TL_DPNP_TUNED"] = "0"
