"""Sizes that change are given to kernels; where they have to be known, it is said why."""

import copy
import logging
import math
import pickle

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.graph.support import compare
from tl_dpnp.errors import FusionWarning, TLTypeError
from tl_dpnp.graph.kernels import clear_kernels

fuse = tl_dpnp.fuse


def _array(*shape, seed=0, dtype="f4"):
    return dpnp.asarray((np.random.default_rng(seed).integers(-4, 5, shape) / 4).astype(dtype))


def attention(q, k, v):
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    weights = dpnp.exp(scores - scores.max(axis=-1, keepdims=True))
    return (weights / weights.sum(axis=-1, keepdims=True)) @ v


def perceptron(x, first, bias, second):
    hidden = dpnp.maximum(x @ first + bias, 0)
    return (hidden - hidden.mean(axis=-1, keepdims=True)) @ second


def chain(a, b, c):
    return (a @ b @ c) * 2 + 1


def heads(x, w):
    batch, tokens, width = x.shape
    q = (x @ w).reshape(batch, tokens, 4, width // 4).transpose(0, 2, 1, 3)
    return q @ q.swapaxes(-1, -2)


def joined(a, b):
    return dpnp.concatenate([a @ a.T, b @ a.T], axis=0) * 2


def reversed_rows(a):
    return (a @ a.T)[::-1, 1:] + 1


def diagonal(a):
    return a @ a.T * dpnp.eye(a.shape[0], dtype="f4") + dpnp.cumsum(a, axis=0) @ a.T


CASES = [
    (attention, lambda n: tuple(_array(3, n, 8, seed=s) for s in range(3))),
    (perceptron, lambda n: (_array(6, 8), _array(8, n), _array(n), _array(n, 5))),
    (chain, lambda n: (_array(3, n, 8), _array(8, n), _array(n, n))),
    (heads, lambda n: (_array(3, n, 16), _array(16, 16))),
    (joined, lambda n: (_array(n, 6), _array(n - 1, 6))),
    (reversed_rows, lambda n: (_array(n, 6),)),
    (diagonal, lambda n: (_array(n, 6),)),
]


@pytest.mark.parametrize(("function", "arguments"), CASES)
def test_two_compilations_serve_all_sizes_that_kernels_have_room_for(function, arguments):
    f = fuse(function, fullgraph=True)
    clear_kernels()
    for n in (12, 20, 7, 31, 5, 32, 9, 12):
        compare(f"{n}", f(*arguments(n)), function(*arguments(n)))
    assert f.stats.compilations == 2
    assert f.stats.dynamic
    assert f.stats.dpnp_calls == 0


def neighbours(a):
    return a[:, 1:-1, 1:-1] * 4 - a[:, 2:, 1:-1] - a[:, :-2, 1:-1] - a[:, 1:-1, ::-1][:, :, 2:]


def test_short_inner_axes_of_functions_of_elements_are_known_until_they_change():
    f = fuse(neighbours, fullgraph=True)
    clear_kernels()
    for batch in (7, 300, 1, 64):
        compare(f"batch {batch}", f(_array(batch, 9, 6)), neighbours(_array(batch, 9, 6)))
    (kernel,) = f.explain(_array(7, 9, 6)).kernels
    assert "memref<f32x4x7x?" in str(kernel.source)
    for shape in [(7, 9, 7), (7, 40, 6), (7, 6, 40), (7, 3, 3), (2, 30, 30), (7, 9, 6)]:
        compare(f"{shape}", f(_array(*shape)), neighbours(_array(*shape)))
    assert f.stats.compilations <= 4  # a batch of one, and axes of one element, are left out


@pytest.mark.parametrize(("function", "arguments"), CASES)
def test_true_gives_all_sizes_from_the_first_call_on(function, arguments):
    f = fuse(function, dynamic=True)
    clear_kernels()
    for n in (12, 20, 7, 31):
        compare(f"{n}", f(*arguments(n)), function(*arguments(n)))
    assert f.stats.compilations == 1


def test_false_compiles_for_each_size():
    f = fuse(chain, dynamic=False)
    clear_kernels()
    for n in (3, 4, 5):
        f(*CASES[2][1](n))
    assert (f.stats.compilations, f.stats.dynamic) == (3, ())


@pytest.mark.parametrize("function", [attention, chain])
def test_larger_sizes_need_few_kernels(function):
    arguments = dict(CASES)[function]
    f = fuse(function)
    for n in (5, 9, 40, 100, 300, 700, 64, 33, 600, 17):
        compare(f"{n}", f(*arguments(n)), function(*arguments(n)))
    assert f.stats.compilations <= 6
    assert f.stats.dpnp_calls == 0


@pytest.mark.parametrize("rows", [(300, 1009), (257, 100_003), (2000, 513)])
def test_many_rows_are_cut_into_chunks_whatever_their_number(rows):
    f = fuse(lambda x, w: dpnp.maximum(x @ w, 0) @ w)
    w = _array(9, 9, seed=1)
    for n in (10, *rows, 130, 2, 127, 128, 129):
        compare(f"{n}", f(_array(n, 9), w), dpnp.maximum(_array(n, 9) @ w, 0) @ w)
    flipped = _array(1009, 9)[::-1]
    compare("reversed", f(flipped, w), dpnp.maximum(flipped @ w, 0) @ w)


def test_sizes_that_are_equal_by_chance_are_given_apart():
    f = fuse(lambda x, y: (x @ x.T, y @ y.T))
    clear_kernels()
    for n, m in ((5, 5), (8, 8), (8, 9), (30, 4)):
        x, y = _array(n, 6), _array(m, 6, seed=1)
        compare(f"{n}, {m}", f(x, y), (x @ x.T, y @ y.T))
    assert f.stats.compilations == 2


def test_what_would_broadcast_or_fail_is_dpnps():
    def f(x, y):
        return x @ x.T + y

    fused = fuse(f)
    for n, m in ((5, 5), (8, 8), (8, 1), (1, 8), (1, 1)):
        compare(f"{n}, {m}", fused(_array(n, 6), _array(m)), f(_array(n, 6), _array(m)))
    with pytest.raises(ValueError, match="broadcast"):
        fused(_array(7, 6), _array(6))
    compare("after", fused(_array(9, 6), _array(9)), f(_array(9, 6), _array(9)))


def test_a_value_from_outside_may_change_its_size():
    class Model:
        pass

    model = Model()

    def f(x):
        return dpnp.tanh(x @ model.w) @ model.w.T

    fused = fuse(f)
    clear_kernels()
    for n in (4, 7, 9, 11):
        model.w = _array(6, n)
        compare(f"{n}", fused(_array(5, 6)), f(_array(5, 6)))
    assert fused.stats.compilations == 2


def test_a_function_with_effects_shares_kernels_between_sizes():
    seen = []

    @fuse
    def f(x):
        seen.append(x.shape)
        return x @ x.T + x.shape[0]

    clear_kernels()
    for n in (4, 7, 9, 11, 7, 9):
        x = _array(n, 6)
        compare(f"{n}", f(x), x @ x.T + n)
    assert len(seen) == 6
    assert f.stats.compilations == 2


def test_diagonals_end_with_the_shorter_axis():
    fused = tl_dpnp.fuse(lambda a: dpnp.trace(a, axis1=1, axis2=2) * 2, dynamic=True)
    for shape in ((5, 2, 4), (3, 4, 2), (7, 3, 3), (2, 6, 5)):
        a = _array(*shape)
        compare(str(shape), fused(a), dpnp.trace(a, axis1=1, axis2=2) * 2)


def test_in_place_results_lie_where_they_should():
    def f(x, w):
        x += dpnp.tanh(x @ w)
        return x

    fused = fuse(f)
    for n in (4, 7, 300, 9):
        mine, other = _array(n, 5), _array(n, 5)
        assert fused(mine, _array(5, 5)) is mine
        compare(f"{n}", mine, f(other, _array(5, 5)))


def test_a_list_that_the_function_appends_to_has_the_names_of_its_arrays_before():
    def f(x, kept):
        kept.append(x @ x.T)
        return kept[0]

    fused = fuse(f)
    for n in (3, 5, 7):
        compare(f"{n}", fused(_array(n, 4), []), _array(n, 4) @ _array(n, 4).T)


# --- what is said ----------------------------------------------------------------------------------------------------


def test_explain_and_the_log_name_the_axes(caplog):
    caplog.set_level(logging.INFO, "tl_dpnp.recompiles")
    f = fuse(lambda x, w: x @ w + 1)
    clear_kernels()
    f(_array(4, 6), _array(6, 3))
    f(_array(4, 6), _array(6, 5))
    explanation = tl_dpnp.explain(f)(_array(4, 6), _array(6, 7))
    assert explanation.dynamic == ("axis 1 of argument w",)
    assert explanation.to_dict()["dynamic"] == ["axis 1 of argument w"]
    assert "sizes that kernels are given: axis 1 of argument w" in str(explanation)
    assert "%n0: index" in str(explanation)
    assert any("kernels are given: axis 1 of argument w" in r.getMessage() for r in caplog.records)


def test_sizes_of_small_linear_algebra_are_known_and_it_is_said_why(caplog):
    caplog.set_level(logging.INFO, "tl_dpnp.recompiles")

    def f(x):
        return dpnp.linalg.inv(x + 3 * dpnp.eye(x.shape[-1], dtype="f4")) @ x

    fused = fuse(f)
    clear_kernels()
    for n in (2, 3, 4):
        compare(f"{n}", fused(_array(5, n, n)), f(_array(5, n, n)))
    assert fused.stats.compilations == 3
    reason = "axis 2 of argument x is known to kernels: linalg.inv is written out for matrices of one size"
    assert any(reason in r.getMessage() for r in caplog.records)


def powers(x):
    for _ in range(x.shape[0]):
        x = x @ x * 0.1
    return x


def test_at_the_limit_the_axis_that_keeps_changing_is_named():
    f = fuse(powers, recompile_limit=2)
    clear_kernels()
    for n in (2, 3):
        f(_array(n, n))
    with pytest.warns(FusionWarning, match=r"axis 0 of argument x had the sizes 2, 3, .* is known to kernels because "
                                           r"the function does something else for it.*pad axes to few sizes"):
        compare("4", f(_array(4, 4)), powers(_array(4, 4)))
    text = str(tl_dpnp.explain(f)(_array(5, 5)))
    assert "axis 0 of argument x had the sizes 2, 3" in text


def test_the_limit_does_not_end_what_kernels_serve():
    f = fuse(lambda x: x @ x.T, recompile_limit=2)
    clear_kernels()
    for n in (4, 5, 6, 7, 40, 8):
        compare(f"{n}", f(_array(n, 3)), _array(n, 3) @ _array(n, 3).T)
    assert f.stats.dpnp_calls == 0


def test_options():
    with pytest.raises(TLTypeError, match="dynamic=2 is not understood"):
        fuse(dynamic=2)
    f = fuse(chain, dynamic=True)
    assert pickle.loads(pickle.dumps(f)).dynamic is True
    assert copy.copy(f) is f
    f(*CASES[2][1](3))
    f.clear()
    assert f.stats.dynamic == ()


def test_warming_up_with_two_sizes_is_enough():
    f = fuse(lambda x: x @ x.T + 1)
    clear_kernels()
    for n in (5, 8):
        f.warmup(tl_dpnp.spec((n, 6), "float32"))
    before = f.stats.compilations
    for n in (20, 31, 2):
        compare(f"{n}", f(_array(n, 6)), _array(n, 6) @ _array(n, 6).T + 1)
    assert f.stats.compilations == before
