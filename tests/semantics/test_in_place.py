"""Instructions whose output is one of their inputs read all of that before they write."""

from __future__ import annotations

import numpy as np
import pytest

import tl_dpnp
from tests.semantics.support import TARGETS, whole
from tl_dpnp.errors import LoweringError

#: An instruction on a matrix A, its vectors v and w and a matrix B, with what A or v is then.
INSTRUCTIONS = {
    "gemm.n.n 2, %A, %B, 0, %A": lambda A, B, v: (2 * A @ B, v),
    "gemm.n.n 1, %B, %A, 3, %A": lambda A, B, v: (B @ A + 3 * A, v),
    "gemm.t.t 1, %A, %A, 1, %A": lambda A, B, v: (A.T @ A.T + A, v),
    "gemm.t.n 1, %A, %A, 0, %A": lambda A, B, v: (A.T @ A, v),
    "axpby.t 1, %A, 1, %A": lambda A, B, v: (A.T + A, v),
    "axpby.n 1, %A, 1, %A": lambda A, B, v: (2 * A, v),
    "hadamard 1, %A, %A, 1, %A": lambda A, B, v: (A * A + A, v),
    "gemv.t 1, %A, %v, 1, %v": lambda A, B, v: (A, A.T @ v + v),
    "cumsum 1, %v, 0, 1, %v": lambda A, B, v: (A, v.cumsum() + v),
}


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("instruction", INSTRUCTIONS)
@pytest.mark.parametrize("size", [1, 3, 17])
def test_an_output_that_is_an_input(target, instruction, size):
    """Loops read what they had written, and gave other numbers in each form."""
    A, B, v = whole(1, size, size), whole(2, size, size), whole(3, size)
    expected_A, expected_v = INSTRUCTIONS[instruction](A.copy(), B, v.copy())
    shape = f"x{size}"
    target.run(f"func @f(%A: memref<f32{shape}{shape}>, %B: memref<f32{shape}{shape}>, %v: memref<f32{shape}>) "
               f"{{ {instruction} }}", A, B, v, group_size=1)
    np.testing.assert_array_equal(A, expected_A)
    np.testing.assert_array_equal(v, expected_v)


def test_what_has_no_known_sizes_is_not_copied():
    kernel = tl_dpnp.compile("func @f(%A: memref<f32x?x?>) {\n  gemm 1, %A, %A, 0, %A\n}")
    with pytest.raises(LoweringError, match="gemm writes %A while it reads other elements of it") as caught:
        kernel.inspect_ir()
    assert caught.value.diagnostics[0].span.line == 2
