"""Where versions of dpnp differ, fused functions do what the installed one does."""

from __future__ import annotations

from typing import Any

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.graph.support import compare

RNG = np.random.default_rng(0)


def _array(*shape: int, dtype: str = "f4") -> Any:
    return dpnp.asarray(RNG.random(shape).astype(dtype))


def _outcome(function: Any, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except (ValueError, TypeError, RuntimeError, dpnp.linalg.LinAlgError) as error:
        return type(error)


def _alike(function: Any, *arguments: Any) -> None:
    fused = tl_dpnp.fuse(function)
    for _ in range(3):
        compare("alike", _outcome(fused, *arguments), _outcome(function, *arguments))


@pytest.mark.parametrize("shapes", [
    ((3, 3, 3), (3, 3)), ((3, 2, 2), (3, 2)), ((3, 3, 3), (3, 3, 3)), ((2, 3, 3), (3,)), ((2, 3, 3), (3, 1)),
    ((2, 3, 3), (2, 3)), ((2, 3, 3), (2, 3, 4)), ((1, 3, 3), (2, 3, 4)), ((3, 3), (3,)), ((3, 4, 4), (3, 4, 4, 2)),
])
def test_right_hand_sides_are_vectors_or_matrices(shapes):
    a, b = (_array(*shape) for shape in shapes)
    _alike(lambda a, b: dpnp.linalg.solve(a + 3 * dpnp.eye(a.shape[-1], dtype="f4"), b) * 2, a, b)


@pytest.mark.parametrize("name", ["inv", "solve"])
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("matrix", [[[0, 0], [0, 0]], [[1, 2], [2, 4]], [[0, 1], [1, 0]]])
def test_singular_matrices_are_errors_or_not(matrix, place, name):
    function = getattr(dpnp.linalg, name)
    matrices = np.stack([np.eye(2)] * 3)
    matrices[place] = matrix
    a, b = dpnp.asarray(matrices), _array(3, 2, 1, dtype="f8")
    _alike((lambda a, b: function(a * 1, b) + 1) if name == "solve" else lambda a, b: function(a * 1) + 1, a, b)


@pytest.mark.parametrize("number", [2, 2.5, 1j, np.float32(2), np.int8(2), True])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "c8"])
def test_kronecker_products_with_numbers(dtype, number):
    _alike(lambda x: dpnp.kron(x, number), _array(3, 4, dtype=dtype))
    _alike(lambda x: dpnp.kron(number, x), _array(3, 4, dtype=dtype))
    _alike(lambda x, y: dpnp.kron(x, y), _array(3, 4, dtype=dtype), number)


@pytest.mark.parametrize("name", ["nansum", "nanprod"])
def test_nan_in_one_part_of_a_complex_number(name):
    parts = [0, 1, np.nan]
    x = dpnp.asarray(np.array([complex(a, b) for a in parts for b in parts]))
    _alike(lambda x: getattr(dpnp, name)(x * 1), x)


def test_strides_are_in_the_unit_of_dpnp():
    _alike(lambda x: [y.strides for y in (x * 2, (x + 1).T, x[:, ::2], (x * 1)[1:].reshape(-1), x.T, x)], _array(3, 4))


def test_a_result_in_c_order_is_written_by_a_kernel():
    a, b, out = _array(3, 4), _array(4, 5), dpnp.empty((3, 5), dtype="f4")
    assert not tl_dpnp.explain(lambda a, b, out: dpnp.dot(a, b, out=out))(a, b, out).breaks
    np.testing.assert_allclose(out.asnumpy(), a.asnumpy() @ b.asnumpy(), rtol=1e-5)
