"""Arrays that are put together: how many kernels that takes, and large ones, whose parts are written one by one."""

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.graph.support import compare


def _random(*shape, seed=0, dtype="f4"):
    return dpnp.asarray((np.random.default_rng(seed).normal(size=shape) * 3).astype(dtype))


A, B, C = _random(50, 4, 5), _random(50, 5, 3, seed=1), _random(50, 4, 3, seed=2)
LARGE, MORE = _random(700, 40), _random(300, 40, seed=1)


@pytest.mark.parametrize(("function", "launches"), [
    (lambda: dpnp.stack([A @ B, C], axis=1), 1),
    (lambda: dpnp.concatenate([A @ B, C], axis=2), 1),
    (lambda: dpnp.concatenate([A @ B, C], axis=1) @ dpnp.stack([B[:, :3], B[:, 2:]], axis=1)[:, 1], 1),
    (lambda: dpnp.stack([LARGE, LARGE * 2, LARGE + 1]), 1),
    (lambda: dpnp.stack([LARGE, LARGE * 2], axis=-1), 1),
    (lambda: dpnp.concatenate([LARGE, MORE * 2]), 2),
    (lambda: dpnp.concatenate([LARGE, MORE * 2]).sum(axis=1) + 1, 3),
    (lambda: (dpnp.concatenate([LARGE, MORE]), LARGE + 1), 3),
    (lambda: dpnp.stack([LARGE, LARGE]), 1),
    (lambda: dpnp.concatenate([A @ B, C]), 1),
])
def test_arrays_are_put_together_by_few_kernels(function, launches):
    explanation = tl_dpnp.explain(function)()
    assert not explanation.breaks
    assert explanation.launches == launches
    fused = tl_dpnp.fuse(function)
    for _ in range(2):
        compare("assembled", fused(), function())


def test_what_is_put_together_may_be_written_to_its_own_operand():
    def rolled(x):
        x[...] = dpnp.concatenate([x[-1:], x[:-1]])
        dpnp.concatenate([x[:, 1:], x[:, :1]], axis=1, out=x)
        return x

    for shape in ((5, 6), (600, 40)):
        plain, fused = _random(*shape), _random(*shape)
        rolled(plain)
        tl_dpnp.fuse(rolled)(fused)
        compare("rolled", fused, plain)


def test_a_state_that_is_put_together_step_by_step():
    def history(x, n):
        states = [x]
        for _ in range(n):
            x = dpnp.tanh(x @ C[0, :3, :3])
            states.append(x)
        return dpnp.stack(states, axis=1), dpnp.concatenate(states[::-1])

    x = _random(40, 3)
    fused = tl_dpnp.fuse(history)
    for _ in range(2):
        compare("history", fused(x, 30), history(x, 30))


def test_a_part_that_two_kernels_read_is_a_copy_of_a_part():
    """With sizes that kernels are given, no kernel has a part of what is put together: it is copied from memory."""
    def centred(*arrays):
        part = dpnp.stack(arrays)[1]
        return part - part.sum(axis=(-1, -2), keepdims=True)

    fused = tl_dpnp.fuse(centred, dynamic=True)
    for n, m in ((2, 4), (2, 5), (3, 6)):
        arrays = [_random(n, m, m, seed=seed) for seed in range(2)]
        compare("centred", fused(*arrays), centred(*arrays))
