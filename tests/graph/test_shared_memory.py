"""Arrays that share memory, in fused functions that write to them."""

import dpnp
import numpy as np
import pytest

import tl_dpnp


def _rewritten_from_a_view(a, view, part):
    a[...] = 1
    a[...] = view
    return a


def _added_and_rewritten(a, view, part):
    a += 1
    a[...] = view
    return a * 1


def _written_beside(a, view, part):
    a[...] = a * 2
    part[...] = 7
    a[...] = view + a
    return a, part * 1


@pytest.mark.parametrize("change", [_rewritten_from_a_view, _added_and_rewritten, _written_beside])
@pytest.mark.parametrize("where", ["arguments", "variables"])
def test_arrays_that_share_memory_are_read_after_writes(change, where):
    memory = dpnp.zeros(8, dtype="f4")
    view, part = memory[...], memory[2:6]

    def from_variables(a):
        return change(a, view, part)

    function, arguments = (change, (memory, view, part)) if where == "arguments" else (from_variables, (memory,))
    fused, results = tl_dpnp.fuse(function), []
    for call in (function, fused, fused, fused):
        memory[...] = dpnp.arange(8, dtype="f4")
        returned = call(*arguments)
        returned = returned if isinstance(returned, tuple) else (returned,)
        results.append([array.asnumpy() for array in (*returned, memory)])
    for result in results[1:]:
        for array, right in zip(result, results[0], strict=True):
            np.testing.assert_array_equal(array, right)


def _written_through_a_view(a, x):
    a[...] = a + 1
    b = a * 2
    view = b[..., ::-1]
    view += 1
    return b


def _written_through_a_view_of_a_part(a, x):
    a += x
    b = a * 2
    b[1:, ::-1][...] = b[:-1] + 1
    return b, a


@pytest.mark.parametrize("function", [_written_through_a_view, _written_through_a_view_of_a_part])
def test_views_stay_views_where_what_they_read_is_written(function):
    a, x = dpnp.zeros((4, 3), dtype="f4"), dpnp.ones((4, 3), dtype="f4")
    fused, results = tl_dpnp.fuse(function), []
    for call in (function, fused, fused, fused):
        a[...] = dpnp.reshape(dpnp.arange(12, dtype="f4"), (4, 3))
        returned = call(a, x)
        results.append([array.asnumpy() for array in (*(returned if isinstance(returned, tuple) else (returned,)), a)])
    for result in results[1:]:
        for array, right in zip(result, results[0], strict=True):
            np.testing.assert_array_equal(array, right)
