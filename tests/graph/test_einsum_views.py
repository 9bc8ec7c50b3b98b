"""What `einsum` of one array shares memory with: that of its operand where dpnp gives a view, else none."""

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.graph.support import compare, shares


def _array():
    return dpnp.asarray(np.arange(12.0).reshape(2, 2, 3))


def sums_of_their_own(x):
    y, z = dpnp.einsum("ijk->ji", x), dpnp.einsum("ijk->ji", x)
    y += 1
    return x, y, z


def of_a_computed_scalar(x):
    v = x.mean()
    w = dpnp.einsum("->", v)
    w += 5
    return v, w


def of_a_computed_array(x):
    v = x * 2
    w = dpnp.einsum("ijk->ijk", v)
    w += 5
    return v, w


def of_an_array_that_was_written(x):
    x += 1
    w = dpnp.einsum("ijk->kji", x)
    w += 5
    return x, w


def diagonal(x):
    v = dpnp.einsum("iij->ij", x)
    v += 5
    return x, v


def diagonal_transposed(x):
    v, w = dpnp.einsum("iij->ji", x), dpnp.einsum("iij->ji", x * 2)
    v += 5
    return x, v, w


@pytest.mark.parametrize("function", [
    sums_of_their_own, of_a_computed_scalar, of_a_computed_array, of_an_array_that_was_written, diagonal,
    diagonal_transposed,
], ids=lambda function: function.__name__)
def test_what_is_written_to_a_result_is_seen_where_dpnp_has_a_view(function):
    fused = tl_dpnp.fuse(function)
    for _ in range(3):
        plain, found = function(_array()), fused(_array())
        compare(function.__name__, found, plain)
        for number, array in enumerate(plain):
            for other in range(number):
                assert shares(found[number], found[other]) == shares(array, plain[other]), (number, other)
