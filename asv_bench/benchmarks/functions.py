"""Mathematical functions of arrays in the cache of one core: speed beside NumPy's, and errors."""

from __future__ import annotations

from typing import Any

from .contests import Contest
from .timing import Contestant

__all__ = ["CASES", "ERRORS", "Function", "functions"]

#: Functions, and the range that arguments are drawn from.
_RANGES = {"exp": (-20.0, 20.0), "log": (1e-3, 1e3), "sin": (-10.0, 10.0), "cos": (-10.0, 10.0),
           "tanh": (-4.0, 4.0), "sqrt": (0.0, 1e3)}
_DTYPES = {"f32": "float32", "f64": "float64"}
CASES = tuple(f"{element} {name}" for element in _DTYPES for name in _RANGES)
#: Facts: the largest errors in units in the last place, ours and NumPy's.
ERRORS = ("ulp", "ulp of numpy")
#: Passes over the array in a launch, which then takes some milliseconds.
_PASSES = 400

_SOURCE = """
func @apply(%passes: index, %x: memref<{element}x?>, %y: memref<{element}x?>) {{
  %n = size %x[0] : memref<{element}x?>
  for %pass = 0, %passes {{
    foreach %i = 0, %n {{
      %v = load %x[%i] : memref<{element}x?>
      %w = math.{name} %v : {element}
      store %w, %y[%i] : memref<{element}x?>
    }}
  }}
}}"""


class Function:
    """One function of an array of some 4 000 elements, the arguments drawn from its range."""

    def __init__(self, element: str, name: str, seed: int = 0) -> None:
        import dpnp
        import numpy as np

        import tl_dpnp

        rng = np.random.default_rng(seed)
        self.function = getattr(np, name)
        self.kernel = tl_dpnp.compile(_SOURCE.format(element=element, name=name))
        self.x = rng.uniform(*_RANGES[name], int(rng.integers(3900, 4100))).astype(_DTYPES[element])
        self.y = np.empty_like(self.x)
        self.arguments = dpnp.asarray(self.x), dpnp.empty_like(dpnp.asarray(self.x))

    def tl_dpnp(self) -> None:
        """Compute all passes in one launch."""
        self.kernel(_PASSES, *self.arguments, group_size=1)

    def numpy(self) -> None:
        """Compute one pass."""
        self.function(self.x, out=self.y)

    def errors(self) -> dict[str, float]:
        """Return the largest errors of both, in units in the last place of the right result."""
        import numpy as np

        self.tl_dpnp()
        self.numpy()
        right = self.function(self.x.astype(np.longdouble))
        unit = np.spacing(np.abs(right).astype(self.x.dtype))
        results: tuple[Any, ...] = self.arguments[1].asnumpy(), self.y
        return {fact: float(np.max(np.abs(result - right) / unit))
                for fact, result in zip(ERRORS, results, strict=True)}


def functions(case: str) -> Contest:
    """One core; a function of some 4 000 elements in its first-level cache, again and again in one launch, so that the
    launch does not count.  NumPy writes to an array that is there already."""
    function = Function(*case.split())
    contestants = {"tl_dpnp": Contestant(function.tl_dpnp, _PASSES), "numpy": Contestant(function.numpy)}
    return Contest(contestants, facts=function.errors())
