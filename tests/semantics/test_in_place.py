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


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_an_output_that_is_an_input_by_another_name(target):
    """A view that is made alike; one of another group, or of other rows, is another memref and is not copied."""
    A, B = whole(1, 12, 4, 3), whole(2, 4, 4)
    old = A.copy()
    target.run("""func @f(%A: memref<f32x12x4x?>, %B: memref<f32x4x4>) {
        %g = group_id
        %matrix = subview %A[:,:,%g] : memref<f32x12x4x?>
        %again = subview %A[:,:,%g] : memref<f32x12x4x?>
        %to = subview %matrix[0:4,:] : memref<f32x12x4>
        for %i = 0, 1 {
            %from = subview %again[0:4,:] : memref<f32x12x4>
            gemm.n.n 1.0, %from, %B, 0.0, %to
                : f32, memref<f32x4x4,strided<1,12>>, memref<f32x4x4>, f32, memref<f32x4x4,strided<1,12>>
        }
        %rest = subview %matrix[4:4,:] : memref<f32x12x4>
        %last = subview %matrix[8:4,:] : memref<f32x12x4>
        gemm.n.n 1.0, %rest, %B, 1.0, %last
            : f32, memref<f32x4x4,strided<1,12>>, memref<f32x4x4>, f32, memref<f32x4x4,strided<1,12>>
    }""", A, B)
    for group in range(3):
        np.testing.assert_array_equal(A[:4, :, group], old[:4, :, group] @ B)
        np.testing.assert_array_equal(A[4:8, :, group], old[4:8, :, group])
        np.testing.assert_array_equal(A[8:, :, group], old[8:, :, group] + old[4:8, :, group] @ B)


def test_what_has_no_known_sizes_is_not_copied():
    kernel = tl_dpnp.compile("func @f(%A: memref<f32x?x?>) {\n  gemm 1, %A, %A, 0, %A\n}")
    with pytest.raises(LoweringError, match="gemm writes %A while it reads other elements of it") as caught:
        kernel.inspect_ir()
    assert caught.value.diagnostics[0].span.line == 2
