"""Assignments to parts of arrays: of arguments, of arrays that are made inside, and of their views."""

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.graph.support import compare


def _random(*shape, dtype="f4", seed=0):
    return dpnp.asarray((np.random.default_rng(seed).normal(size=shape) * 3).astype(dtype))


def _columns(c, x):
    c[:, 0] = x[:, 1] * 2
    c[:, 1:3] = c[:, 0][:, None] + 1
    c[..., -1] = 7
    return c


def _rows(c, x):
    c[0] = x[1]
    c[1:] = c[:-1] * 1
    c[::-1] = c
    c[2, 1] = 5
    return c.sum(axis=0)


def _steps(c, x):
    c[::2, ::-2] = x[::2, ::2] - c[::2, 1::2]
    c[:, None, 1] = x[:, None, 2]
    c[1:1] = 9
    c[...] = c * 2
    c[:] = 1 - c
    return c


def _added(c, x):
    c[:, 1] += x[:, 0]
    c[2:4] *= 2
    view = c[1:]
    view[:, 0] = -1
    c[1:, 1] -= view[:, 0]
    return view, c


def _masked(c, x):
    c[c < 0] = 0
    c[x > 1] = c.max()
    c[c[:, 0] > 1] = -3 if c.dtype.kind != "u" else 3
    c[x[:, 1] < 0] = True
    return c


def _made(c, x):
    d = c + x
    d[:, 0] = 1
    d[:, ::-2] = x[:, ::-2]
    e = d @ d.T
    e[:, 1:3] = d[:, 0:2]
    e[d[:, 0] > 0] = 0
    e[1] = 2
    keep = e[:, 0]
    e[:, 0] = 4
    return d, e, keep


def _zeros(c, x):
    result = dpnp.zeros((6, 4), dtype=c.dtype)
    for column in range(4):
        result[:, column] = c[:, column] * column
    result[2:4, 1:3] = x[2:4, 1:3] @ c[:2, :2]
    return result


@pytest.mark.drawn(2)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "u1"])
@pytest.mark.parametrize("function", [_columns, _rows, _steps, _added, _masked, _made, _zeros])
def test_a_part_is_assigned_as_in_dpnp(function, dtype):
    values = np.random.default_rng(1).integers(0 if dtype == "u1" else -3, 4, (2, 6, 4)).astype(dtype)
    plain = [dpnp.asarray(array) for array in values]
    expected = function(*plain)
    fused = tl_dpnp.fuse(function)
    for _ in range(2):
        arrays = [dpnp.asarray(array) for array in values]
        compare(function.__name__, fused(*arrays), expected)
        compare("arguments", arrays, plain)


def _batch(a, b, c):
    d = a @ b
    d[:, :, 0] = c
    d[:, 1] = d[:, 0] * 2
    d[:, 2:, 2:] = 0
    return d @ b


def test_parts_of_matrices_in_a_batch_are_assigned_in_one_kernel():
    a, b, c = _random(50, 4, 4), _random(50, 4, 4, seed=1), _random(50, 4, seed=2)
    explanation = tl_dpnp.explain(_batch)(a, b, c)
    assert explanation.launches == 1
    assert not explanation.breaks
    compare("batch", tl_dpnp.fuse(_batch)(a, b, c), _batch(a, b, c))


@pytest.mark.parametrize("function", [_columns, _masked, _zeros])
def test_assignments_of_slices_and_masks_are_no_breaks(function):
    explanation = tl_dpnp.explain(function)(_random(6, 4), _random(6, 4, seed=1))
    assert "assignment" not in [b.what for b in explanation.breaks]


def _set(a, key, value):
    a[key] = value
    return a


@pytest.mark.parametrize(("key", "value"), [
    (0, [1, 2, 3, 4]), ((0, 9), 1), (slice(1, 3), np.ones((2, 4))), ((slice(None), 0), 2.5), (7, 1), ("x", 1),
    ((0, 0, 0), 1), (slice(0, 2), dpnp.ones((3, 4))), (dpnp.asarray([0, 2]), 1), (dpnp.ones((2, 4), dtype=bool), 1),
    (dpnp.ones((6, 4), dtype=bool), dpnp.arange(24)), ((slice(None), dpnp.ones(4, dtype=bool)), 3), (0, None), (0, 300),
    ((Ellipsis, 0), dpnp.ones(6, dtype="f8") * 1.5), ((0, Ellipsis, Ellipsis), 1), (True, 5), (0, 1 + 2j),
])
@pytest.mark.parametrize("dtype", ["u1", "f4"])
def test_other_assignments_do_what_dpnp_does(key, value, dtype):
    def outcome(function):
        array = dpnp.ones((6, 4), dtype=dtype)
        try:
            return function(array, key, value).asnumpy().tolist()
        except Exception as error:
            return type(error), array.asnumpy().tolist()

    assert outcome(tl_dpnp.fuse(_set)) == outcome(_set)


def _interleaved(a, b):
    rows = a.swapaxes(-1, -2)
    rows[..., ::2] = (b.var(0) + b)[..., 1::2]
    a[..., 0] -= 1.0
    rows[:, 1::2, ::2] += b[:, ::2, 1::2] @ dpnp.ones((2, 2), dtype="f4")
    return b * 1


@pytest.mark.parametrize("dynamic", [None, True, False])
def test_parts_whose_axes_interleave_in_memory(dynamic):
    fused = tl_dpnp.fuse(_interleaved, dynamic=dynamic)
    for batch, rows in [(3, 4), (3, 3), (2, 3), (1, 3), (1, 4), (5, 3)]:
        plain, own = (_random(batch, rows, 4, seed=rows) for _ in range(2))
        values = _random(batch, 4, 4, seed=batch)
        compare("result", fused(own, values), _interleaved(plain, values))
        compare(f"{batch} {rows}", own, plain)


@pytest.mark.parametrize("key", [
    ..., slice(None), (slice(None), slice(None, None, 2)), (slice(None), 0), 0, (slice(0, 1), 1),
])
@pytest.mark.parametrize("value", [3, "one", "whole", "mask"])
@pytest.mark.parametrize("is_computed", [False, True])
def test_what_is_written_to_broadcast_arrays_is_what_dpnp_writes(key, value, is_computed):
    """dpnp refuses to write to places that are several elements of an array, and takes a part in which they are one."""
    def write(row, numbers):
        row = row * 1 if is_computed else row
        array = dpnp.broadcast_to(row, (4, 3))
        if value == "mask":
            array[array > numbers] = 5
        else:
            array[key] = {"one": numbers[0, 0], "whole": array[key] + 1}.get(value, value)
        return array * 2, row

    def outcome(function):
        row = dpnp.asarray(np.arange(3, dtype="f4")[None])
        try:
            given = [x.asnumpy().tolist() for x in function(row, dpnp.ones((4, 3), dtype="f4"))]
        except ValueError as error:
            given = str(error)
        return given, row.asnumpy().tolist()

    fused = tl_dpnp.fuse(write)
    for _ in range(2):
        assert outcome(fused) == outcome(write)
