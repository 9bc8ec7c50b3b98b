"""Programs as users write them, each once, against an array namespace ``xp``.

The files of this folder are imported once for each namespace (`asv_bench.benchmarks.namespaces`), and then find
`program`, `Draw` and ``xp`` where they import them from here: ``xp`` is the module dpnp, ``jax.numpy`` and so on, as if
they said ``import dpnp as xp``.  Imported as they are, they run in NumPy.

A program is a function of a `Draw` and a batch size that is decorated with `program`.  It returns the function that is
fused or compiled, and its arguments.  Floats among those arguments change from call to call.
"""

import numpy as xp

from ..draw import Draw, program

__all__ = ["Draw", "program", "xp"]
