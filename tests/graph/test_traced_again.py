"""Functions that are traced at each call, by the branches that they take and what they leave behind."""

import gc
import math
import weakref
from time import perf_counter
from types import SimpleNamespace

import dpnp
import numpy as np

import tl_dpnp
from tests.graph.support import needs_weak_references

A = dpnp.asarray(np.random.default_rng(0).normal(size=(3, 4, 4)).astype("f4"))


def test_results_of_branches_have_usm_types_of_their_own():
    """What a branch computes into a register is no array of the other branch's USM type at a later call."""
    branch = [True]
    on_device, shared = (dpnp.ones((3, 4), dtype="f4", usm_type=usm_type) for usm_type in ("device", "shared"))

    @tl_dpnp.fuse
    def doubled(x, y):
        perf_counter()
        total = x + x if branch[0] else y + y
        total.asnumpy()  # it is in memory from here on
        return total + 1.0

    for _ in range(2):
        for branch[0] in (True, False):
            assert doubled(on_device, shared).usm_type == ("device" if branch[0] else "shared")


def test_results_of_traces_share_memory_as_in_the_branch_that_ran():
    """Results that are computed alike are one array, a view of it, or copies: as the function has it in each call."""
    others = {"itself": lambda x, one: one, "a view": lambda x, one: one[...], "a copy": lambda x, one: x + 1.0}
    chosen = ["itself"]

    def pair(x):
        perf_counter()
        one = x + 1.0
        return one, others[chosen[0]](x, one)

    fused = tl_dpnp.fuse(pair)
    for _ in range(3):
        for chosen[0] in others:
            for function in (pair, fused):
                one, other = function(A)
                assert (one is other) == (chosen[0] == "itself")
                one[...] = 0
                expected = (A + 1.0).asnumpy() if chosen[0] == "a copy" else np.zeros(A.shape)
                np.testing.assert_array_equal(other.asnumpy(), expected)
    assert fused.stats.traced_calls == 9


def test_functions_in_c_are_looked_up_at_each_call():
    state = SimpleNamespace(chosen=max)

    @tl_dpnp.fuse
    def scaled(x):
        perf_counter()
        return x * state.chosen(2.0, 3.0)

    for _ in range(3):
        for state.chosen, factor in ((max, 3.0), (min, 2.0), (math.pow, 8.0), (math.fmod, 2.0)):
            np.testing.assert_array_equal(scaled(A).asnumpy(), A.asnumpy() * np.float32(factor))


@needs_weak_references
def test_functions_that_each_call_makes_are_let_go_of():
    @tl_dpnp.fuse
    def shifted(x):
        perf_counter()

        def twice(y):
            return y + y + x

        return twice(x)

    x = dpnp.ones((3, 4), dtype="f4")
    for _ in range(3):
        shifted(x)
    alive = weakref.ref(x)
    del x
    gc.collect()
    assert alive() is None
