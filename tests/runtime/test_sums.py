"""Sums along the mode that is consecutive in memory, whose lanes are summed apart."""

from __future__ import annotations

import dpnp
import numpy as np
import pytest

import tl_dpnp

DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "u8": np.uint8}


def run(source: str, *host: np.ndarray) -> np.ndarray:
    arrays = [dpnp.asarray(array, order="F") for array in host]
    tl_dpnp.compile(source)(*arrays, group_size=1)
    return arrays[-1].asnumpy()


def integers(element: str, *shape: int) -> np.ndarray:
    return np.asarray(np.random.default_rng(len(shape)).integers(0, 4, shape)).astype(DTYPES[element], order="F")


@pytest.mark.parametrize("element", DTYPES)
@pytest.mark.parametrize("size", [1, 5, 16, 67, 300])
def test_sum_of_a_vector(element, size):
    x, total = integers(element, size), integers(element)
    memref = f"memref<{element}x{size}>"
    result = run(f"""
        func @total(%x: {memref}, %t: memref<{element}>) {{
          sum.n 2, %x, 3, %t : {element}, {memref}, {element}, memref<{element}>
        }}""", x, total)
    np.testing.assert_array_equal(result, (2 * x.sum() + 3 * total).astype(DTYPES[element]))


def test_sum_of_a_vector_of_unknown_length():
    x = integers("f32", 77)
    result = run("""
        func @total(%x: memref<f32x?>, %t: memref<f32>) {
          sum.n 1, %x, 0, %t : f32, memref<f32x?>, f32, memref<f32>
        }""", x, np.zeros((), np.float32))
    assert result == x.sum()


@pytest.mark.parametrize(("rows", "columns"), [(16, 3), (64, 64), (70, 9), (19, 33)])
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_product_of_a_transposed_matrix_and_a_vector(element, rows, columns):
    a, x, y = integers(element, rows, columns), integers(element, rows), integers(element, columns)
    types = [f"memref<{element}x{rows}x{columns}>", f"memref<{element}x{rows}>", f"memref<{element}x{columns}>"]
    result = run(f"""
        func @product(%a: {types[0]}, %x: {types[1]}, %y: {types[2]}) {{
          gemv.t 2, %a, %x, 1, %y : {element}, {types[0]}, {types[1]}, {element}, {types[2]}
        }}""", a, x, y)
    np.testing.assert_array_equal(result, 2 * a.T @ x + y)
