"""Results lie in memory as those of dpnp do, so that what is a view of them in dpnp is one here, and no more."""

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.graph.support import compare, shares

ORDERS = {
    "transposed": lambda x: x.transpose(), "reversed": lambda x: x[::-1], "backwards": lambda x: x[..., ::-1, ::-1],
    "permuted": lambda x: x.transpose(1, 2, 0), "with gaps": lambda x: x.transpose()[::2],
    "broadcast": lambda x: dpnp.broadcast_to(x[:, :1], (3, 4, 5)),
    "swapped": lambda x: x.swapaxes(1, 2), "C": lambda x: x, "of one row": lambda x: x[:1].transpose(),
}


def _array(*shape, dtype="f4"):
    return dpnp.asarray(np.random.default_rng(1).integers(1, 9, shape).astype(dtype))


def _steps(array):
    """Return what is known of an order: results do not run backwards, as those of dpnp do."""
    return [(size, abs(step)) for size, step in zip(array.shape, array.get_array().strides, strict=True) if size > 1]


def _alike(function, *arguments):
    """Fail unless results and what shares memory with what are alike, and the arrays given are left alike, too."""
    fused = tl_dpnp.fuse(function)
    for _ in range(3):
        plain = function(*arguments)
        found = fused(*arguments)
        compare("results", found, plain)
        assert [_steps(x) for x in found] == [_steps(x) for x in plain]
        for number, _ in enumerate(plain):
            for other in range(number):
                assert shares(found[number], found[other]) == shares(plain[number], plain[other]), (number, other)


@pytest.mark.parametrize("order", ORDERS)
def test_results_lie_as_those_of_dpnp(order):
    def compute(x, y):
        x = ORDERS[order](x)
        return [
            x + 1, x * x, -x, x + y, 2 - x, x > 3, dpnp.exp(x / 9), dpnp.where(x > 3, x, -x), dpnp.clip(x, 2, 5),
            x ** 2, x.astype("f8"), dpnp.copy(x), x.copy(), x.copy(order="F"), x.copy("K"), dpnp.round(x / 2),
            x.sum(axis=0), dpnp.add(x, x[..., :1]), dpnp.cumsum(x, axis=0), dpnp.diff(x, axis=0), dpnp.stack([x, x]),
            dpnp.tril(x), dpnp.concatenate([x, x]), x.max(axis=-1, keepdims=True), dpnp.roll(x, 1),
            (x * 2 + 1)[..., ::-1] * 2, dpnp.add(x, 1, order="C"), (x * 1) @ (x * 1).swapaxes(-1, -2),
            dpnp.maximum(x, x[0]),
        ]

    _alike(compute, _array(3, 4, 5), _array(1))


@pytest.mark.parametrize("order", ORDERS)
def test_what_is_written_to_a_flat_array_is_seen_where_it_is_a_view(order):
    def write(x):
        y = ORDERS[order](x) + 1
        z, w = y.ravel(), y.transpose().reshape(-1)
        z += 10
        w *= 3
        return y, z, w

    _alike(write, _array(3, 4, 5))


@pytest.mark.parametrize("order", ORDERS)
def test_an_operator_in_place_leaves_an_array_as_it_lies(order):
    def write(x):
        y = ORDERS[order](x) * 2
        y += x.sum()
        z = y.reshape(-1)
        z -= 1
        return y, z

    _alike(write, _array(3, 4, 5))


def test_strides_are_those_of_dpnp():
    def strides(x):
        y = x.transpose() * 2
        z = x[::-1] + 1
        return y.strides, z.strides, (z * z).strides, (y + y[::-1]).strides, z.max(axis=0).strides, z[1:].strides

    assert tl_dpnp.fuse(strides)(_array(3, 4)) == strides(_array(3, 4))


def test_functions_of_arrays_that_run_backwards_are_one_kernel():
    def normalized(x):
        x = x[::-1] * 2
        x = x - x.mean(axis=-1, keepdims=True)
        return x / dpnp.sqrt((x * x).mean(axis=-1, keepdims=True))

    assert tl_dpnp.explain(normalized)(_array(100, 8)).launches == 1


def test_flat_views_of_results_are_as_in_dpnp():
    """The returned array is in C order transposed, as that of dpnp, so that this is a view."""
    x = _array(3, 4)
    y = tl_dpnp.fuse(lambda x: x.transpose() + 1)(x)
    y.transpose().reshape(-1)[...] = 7
    assert (y == 7).all()


def test_an_array_that_is_still_to_be_written_lies_where_it_is():
    def write(x):
        y = x.transpose()
        y -= 1
        return y * 2, dpnp.where(y > 2, y, -y), y.strides

    fused, plain = tl_dpnp.fuse(write)(_array(3, 4)), write(_array(3, 4))
    compare("results", fused[:2], plain[:2])
    assert [_steps(x) for x in fused[:2]] == [_steps(x) for x in plain[:2]]
    assert fused[2] == plain[2]


def test_numbers_of_a_call_need_no_more_calls_of_dpnp():
    """Where an operation is recorded again for another number, what it makes lies as it did."""
    from tl_dpnp.graph import memory_order

    fused = tl_dpnp.fuse(lambda x, dt: x.transpose() * dt)
    fused(_array(3, 4), 0.5)
    known = len(memory_order._answers)
    for dt in (0.25, 2.0, np.float32(3)):
        fused.clear()
        fused(_array(3, 4), dt)
    assert len(memory_order._answers) <= known + 1


def test_arrays_in_fortran_order_stay_so_in_one_kernel():
    a = dpnp.asarray(np.ones((100, 8, 4)), order="F")

    def step(a, b):
        return (a * 2 + b) / (a + b)

    explanation = tl_dpnp.explain(step)(a, a)
    assert explanation.launches == 1
    assert not explanation.breaks
    assert _steps(tl_dpnp.fuse(step)(a, a)) == _steps(a)
