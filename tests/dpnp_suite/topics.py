"""The files of dpnp's tests that are run, and the tests that are lost on purpose."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["DIFFERENCES", "TOPICS", "Difference", "difference"]

#: Patterns of files, relative to the folder of the tests, by topic.
_CUPY = "third_party/cupy"
TOPICS: dict[str, tuple[str, ...]] = {
    "matmul": (f"{_CUPY}/math_tests/test_matmul.py",),
    "product": ("test_product.py", "test_outer.py", f"{_CUPY}/linalg_tests/test_product.py"),
    "einsum": (f"{_CUPY}/linalg_tests/test_einsum.py",),
    "linalg": ("test_linalg.py", f"{_CUPY}/linalg_tests/test_[dnes]*.py"),
    "umath": ("test_umath.py", "test_mathematical.py", "test_absolute.py", f"{_CUPY}/math_tests/test_[efhrstw]*.py",
              f"{_CUPY}/math_tests/test_misc.py", f"{_CUPY}/core_tests/test_ndarray_unary_op.py"),
    "sums": ("test_sum.py", "test_amin_amax.py", "test_statistics.py", f"{_CUPY}/core_tests/test_ndarray_reduction.py",
             f"{_CUPY}/statistics_tests/test_meanvar.py"),
    "manipulation": ("test_manipulation.py", "test_arraymanipulation.py", "test_flipping.py",
                     f"{_CUPY}/manipulation_tests/test_*.py"),
    "indexing": ("test_indexing.py", "test_search.py", f"{_CUPY}/indexing_tests/test_*.py",
                 f"{_CUPY}/core_tests/test_ndarray_*indexing.py"),
    "arithmetic": ("test_arithmetic.py", "test_binary_ufuncs.py", "test_bitwise.py", "test_logic.py",
                   f"{_CUPY}/math_tests/test_arithmetic.py", f"{_CUPY}/core_tests/test_ndarray_elementwise_op.py",
                   f"{_CUPY}/core_tests/test_ndarray_math.py", f"{_CUPY}/logic_tests/test_*.py",
                   f"{_CUPY}/binary_tests/test_elementwise.py"),
    "arrays": ("test_ndarray.py", f"{_CUPY}/core_tests/test_ndarray_copy_and_view.py",
               f"{_CUPY}/core_tests/test_ndarray_conversion.py"),
}


@dataclass(frozen=True)
class Difference:
    """Tests that fail in some ways and are to do so: a pattern of their names, the ways, and why."""

    tests: str
    ways: tuple[str, ...]
    why: str


DIFFERENCES: tuple[Difference, ...] = (
    Difference(r"TestArrayAsType::test_astype_strides_swapped", ("fusing",),
               "what kernels compute is in C order (docs/fusion.md, Limits)"),
    Difference(r"TestCond::test_strided\[\(-1, 3, 3, -3\)", ("fuse",),
               "1.2e-13 where 1e-13 is asked for: inverses in kernels are as exact as LAPACK's, not the same "
               "(tests/graph/test_elimination.py)"),
)


def difference(name: str, way: str) -> Difference | None:
    """Return why a test may be lost in a way, None if it may not."""
    return next((entry for entry in DIFFERENCES if way in entry.ways and re.search(entry.tests, name)), None)
