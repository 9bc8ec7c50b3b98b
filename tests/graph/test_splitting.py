"""Large graphs: cut into parts that share kernels, in time that is linear in their size."""

import sys

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.graph.support import compare
from tl_dpnp.graph.nodes import Array, Contract, Map
from tl_dpnp.graph.partition import partition
from tl_dpnp.graph.splitting import split
from tl_dpnp.graph.views import c_strides
from tl_dpnp.graph.work_groups import WorkGroups

F4 = np.dtype("f4")


def _random(*shape, seed=0):
    return dpnp.asarray((np.random.default_rng(seed).normal(size=shape) * 0.3).astype("f4"))


def _array(slot, *shape):
    return Array(shape, F4, slot, c_strides(shape))


def _recurrence(steps):
    """Return the last state of a recurrence whose steps read their state four times."""
    state, weight = _array(0, 100, 8), _array(1, 8, 8)
    for _ in range(steps):
        product = Contract((100, 8), F4, (state, weight), ("ab", "bc"), "ac")
        gate = Map((100, 8), F4, "exp", (product,), F4)
        mixed = Map((100, 8), F4, "multiply", (gate, state), F4)
        rest = Map((100, 8), F4, "subtract", (state, Map((100, 8), F4, "add", (mixed, state), F4)), F4)
        state = Map((100, 8), F4, "add", (mixed, rest), F4)
    return state


def _regions(root):
    slots = iter(range(10, 100_000))
    return partition({root: _array(2, 100, 8)}, lambda node: _array(next(slots), *node.shape), WorkGroups(1 << 16))


def test_small_graphs_stay_whole():
    assert not split((_recurrence(15),)).kept
    assert len(_regions(_recurrence(15))) == 1


def _calls(function):
    """Return what a function gives, and how many functions were called meanwhile: a measure of work without a clock."""
    counted = 0

    def count(frame, event, argument):
        nonlocal counted
        counted += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        return function(), counted
    finally:
        sys.setprofile(None)


def test_regions_and_work_grow_linearly_with_a_recurrence():
    work = {}
    for steps in (100, 400):
        root = _recurrence(steps)
        regions, work[steps] = _calls(lambda root=root: _regions(root))
        assert steps / 8 <= len(regions) <= steps / 3
        done = {array for region in regions for array in region.outputs}
        assert all(array in done for region in regions for array in region.inputs)
    assert work[400] < 5 * work[100]


def test_parts_end_where_the_state_alone_is_kept():
    parts = split((_recurrence(60),))
    assert all(node.kind == "add" and isinstance(node.operands[1], Map) for node in parts.kept)
    assert len(parts.kept) == max(parts.number.values())


def _gated(steps):
    def gru(x, h, wz, uz, wr, ur, wh, uh):
        for t in range(steps):
            z = 1 / (1 + dpnp.exp(-(x[:, t] @ wz + h @ uz)))
            r = 1 / (1 + dpnp.exp(-(x[:, t] @ wr + h @ ur)))
            h = (1 - z) * h + z * dpnp.tanh(x[:, t] @ wh + (r * h) @ uh)
        return h

    weights = [_random(size, 8, seed=seed) for seed, size in enumerate((6, 8, 6, 8, 6, 8))]
    return gru, [_random(50, steps, 6), _random(50, 8), *weights]


def test_the_steps_of_a_recurrent_unit_share_kernels():
    function, arguments = _gated(16)
    fused = tl_dpnp.fuse(function)
    explanation = fused.explain(*arguments)
    assert len({id(kernel.report.kernel) for kernel in explanation.kernels}) == 1
    assert len(explanation.kernels) == 16
    compare("state", fused(*arguments), function(*arguments))


def test_two_states_are_results_of_one_kernel():
    def lstm(x, h, c, w, u):
        for t in range(20):
            gates = x[:, t] @ w + h @ u
            i, f, o, g = (gates[:, k * 8 : (k + 1) * 8] for k in range(4))
            c = c / (1 + dpnp.exp(-f)) + dpnp.tanh(g) / (1 + dpnp.exp(-i))
            h = dpnp.tanh(c) / (1 + dpnp.exp(-o))
        return h, c

    arguments = [_random(50, 20, 6), _random(50, 8), _random(50, 8), _random(6, 32), _random(8, 32)]
    explanation = tl_dpnp.fuse(lstm).explain(*arguments)
    assert len(explanation.kernels) == 10
    compare("states", tl_dpnp.fuse(lstm)(*arguments), lstm(*arguments))


@pytest.mark.parametrize("steps", [30, 700])
def test_long_chains_of_element_wise_functions(steps):
    def chain(x, a):
        for _ in range(steps):
            x = x * a + 0.25
        return x

    x, a = _random(100, 4), _random(4)
    fused = tl_dpnp.fuse(chain)
    compare("chain", fused(x, a), chain(x, a))


def test_the_states_of_all_steps_are_results():
    def recurrence(x, h, w):
        states = []
        for t in range(20):
            h = dpnp.tanh(x[:, t] + h @ w)
            states.append(h)
        return states

    arguments = _random(50, 20, 8), _random(50, 8), _random(8, 8)
    compare("states", tl_dpnp.fuse(recurrence)(*arguments), recurrence(*arguments))
