"""Products of every transposition, of sizes that fill no vectors: tails share vectors, operands are transposed."""

from __future__ import annotations

import dpnp
import numpy as np
import pytest

import tl_dpnp

SIZES = [(16, 16, 16), (20, 9, 35), (35, 20, 9), (4, 4, 4), (9, 9, 9), (33, 17, 18), (3, 5, 40), (130, 3, 19)]
TYPES = ["f32", "f64", "i32", "f32", "i16", "i8", "f64", "f32"]
#: Rows whose last vector reaches back over others, or over whole vectors of another tile.
REACHING = [(15, 4, 7, "f32"), (13, 3, 20, "f32"), (7, 7, 7, "f64"), (31, 5, 9, "f32"), (23, 18, 3, "f64"),
            (63, 2, 5, "f32"), (15, 15, 15, "i16"), (29, 1, 8, "f32")]
#: A row more than a vector has lanes, whose elements are read one by one.
LEFT_OVER = [(9, 9, 9, "f64"), (17, 5, 6, "f32"), (9, 20, 3, "f32"), (9, 11, 1, "f64")]
#: Complex numbers: one row left over, or two, is a vector of two numbers.
OF_PAIRS = [(17, 5, 6, "c32"), (1, 9, 3, "c32"), (33, 4, 7, "c32"), (18, 3, 5, "c32"), (9, 9, 9, "c64")]
CASES = [*((*size, element) for size, element in zip(SIZES, TYPES, strict=True)), *REACHING, *LEFT_OVER, *OF_PAIRS]
DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i16": np.int16, "i8": np.int8, "c32": np.complex64,
          "c64": np.complex128}


#: Results that are computed transposed, where they are not read as well.
NARROW = [(64, 16, 64, "f32"), (48, 8, 40, "f64"), (32, 16, 64, "i32")]


@pytest.mark.drawn(by=lambda transposes, **case: (transposes, tuple(case.values())))
@pytest.mark.parametrize("transposes", ["n.n", "t.n", "t.t"])
@pytest.mark.parametrize(("m", "n", "k", "element"), CASES)
def test_product(m, n, k, element, transposes):
    check(m, n, k, element, transposes, beta=3)


@pytest.mark.parametrize("transposes", ["t.n", "t.t"])
@pytest.mark.parametrize(("m", "n", "k", "element"), NARROW)
def test_narrow_product(m, n, k, element, transposes):
    check(m, n, k, element, transposes, beta=0)


def test_a_copy_that_is_too_large_once_its_columns_are_aligned_is_not_made():
    """449 x 36 elements take less than 128 KB, 456 x 36 take more."""
    check(449, 2, 36, "f64", "t.t", beta=0)


def check(m, n, k, element, transposes, beta):
    shapes = [(k, m) if transposes[0] == "t" else (m, k), (n, k) if transposes[2] == "t" else (k, n), (m, n)]
    a, b, c = (f"memref<{element}x{rows}x{columns}>" for rows, columns in shapes)
    kernel = tl_dpnp.compile(f"""
        func @product(%a: {a}, %b: {b}, %c: {c}) {{
          gemm.{transposes} 2, %a, %b, {beta}, %c : {element}, {a}, {b}, {element}, {c}
        }}""")
    generator = np.random.default_rng(m * n * k)
    host = [np.asfortranarray(generator.integers(-3, 4, shape).astype(DTYPES[element])) for shape in shapes]
    if element in ("c32", "c64"):
        host = [array + DTYPES[element](1j) * generator.integers(-3, 4, array.shape) for array in host]
        host = [np.asfortranarray(array.astype(DTYPES[element])) for array in host]
    arrays = [dpnp.asarray(array, order="F") for array in host]
    kernel(*arrays, group_size=1)
    left, right, old = host
    left, right = (left.T if transposes[0] == "t" else left), (right.T if transposes[2] == "t" else right)
    expected = 2 * left @ right + beta * old
    np.testing.assert_array_equal(arrays[2].asnumpy(), expected.astype(DTYPES[element]))
