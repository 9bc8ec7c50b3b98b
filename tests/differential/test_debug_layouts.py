"""``debug=True`` with several sub-groups on a CPU, in processes of their own: what fails there may end the process.

The vectorizer of the OpenCL CPU runtime used to drop loads beside the exits of checks, and kernels read address 3.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.lowering.support import CPU
from tl_dpnp.language import parse
from tl_dpnp.lowering import LoweringOptions, lower

_SOURCE = """func @f(%n: index, %x: memref<i64x1x19>, %p: group<memref<i64x19x4,strided<1,23>>>, %D: memref<i64x19x4>)
    work_group_size(SIZE) {
  %t = alloca -> memref<i64x4x1>
  %u = subview %x[0,:] : memref<i64x1x19>
  %v = subview %t[:,0] : memref<i64x4x1>
  gemv.t 1, %D, %u, 0, %v : u32, memref<i64x19x4>, memref<i64x19>, i64, memref<i64x4>
  %g = group_id
  %q = load %p[%g] : group<memref<i64x19x4,strided<1,23>>>
  axpby.n 3, %D, 1, %q : i64, memref<i64x19x4>, i64, memref<i64x19x4,strided<1,23>>
  %a = subview %t[2:1,0:%n] : memref<i64x4x1>
  %b = subview %q[9:1,0:%n] : memref<i64x19x4,strided<1,23>>
  axpby.n 1, %a, 1, %b : i64, memref<i64x1x?,strided<1,4>>, i64, memref<i64x1x?,strided<1,23>>
}"""
_CALL = f"""
import dpnp
import numpy as np
import tl_dpnp
SOURCE = '''{_SOURCE}'''
for size in ("64,2", "64,1", "48,3", "80,1"):
    print(size, flush=True)
    x = np.arange(19).reshape(1, 19)
    D = np.asfortranarray(np.arange(76).reshape(19, 4) % 11)
    base = dpnp.zeros((4, 23), dtype="int64")
    kernel = tl_dpnp.compile(SOURCE.replace("SIZE", size), debug=True)
    kernel(1, dpnp.asarray(x, order="F"), [base.T[:19]], dpnp.asarray(D, order="F"))
    expected = 3 * D
    expected[9, 0] += x[0] @ D[:, 2]
    np.testing.assert_array_equal(dpnp.asnumpy(base.T[:19]), expected)
"""


def run(*arguments: str) -> None:
    """Run Python in a process of its own, which must end well."""
    run = subprocess.run([sys.executable, *arguments], cwd=Path(__file__).parents[2], capture_output=True, text=True,
                         timeout=600, check=False)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]


def test_a_product_a_group_and_dynamic_views() -> None:
    run("-c", _CALL)


def test_random_checked_programs(differential_programs: int) -> None:
    run("-m", "tests.differential.checked_programs", "0", str(3 * differential_programs // 2))


@pytest.mark.parametrize(("form", "debug", "expected"), [
    ("subgroup", True, "always"), ("subgroup", False, "with private arrays"), ("vector", True, "never")])
def test_only_some_work_items_run_one_by_one(form: str, debug: bool, expected: str) -> None:
    (function,) = parse("func @f(%x: memref<f32x?>, %i: index) {\n store 1.0, %x[%i] : memref<f32x?>\n}")
    assert lower(function, CPU, LoweringOptions(form=form, debug=debug)).one_item_at_a_time == expected
