"""Calls that differ from traced ones in sizes alone: plans that are made without a trace give dpnp's results."""

import random
import warnings

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.graph.changing_sizes import random_program
from tests.graph.support import compare, with_source
from tests.graph.test_changing_sizes import check, outcome
from tl_dpnp.errors import FusionWarning
from tl_dpnp.graph.resized_plans import ResizedPlans

fuse = tl_dpnp.fuse
_numbers = np.random.default_rng(5)


def array(*shape, dtype="f4"):
    """Return whole numbers."""
    return dpnp.asarray(_numbers.integers(-4, 5, shape).astype(dtype))


@pytest.fixture
def resized(monkeypatch):
    """Return a list that grows by each plan that is made without a trace."""
    made = []

    def plan(self, key):
        found = original(self, key)
        if found is not None:
            made.append(found)
        return found

    original = ResizedPlans.plan
    monkeypatch.setattr(ResizedPlans, "plan", plan)
    return made


def calls(function, *arguments):
    """Call a function fused and plain for each of some tuples of arguments, and compare."""
    fused = fuse(function)
    for given in arguments:
        one, other = outcome(lambda *a: [fused(*a)], given), outcome(lambda *a: [function(*a)], given)
        if isinstance(other, Exception):
            assert type(one) is type(other)
        else:
            compare(function.__name__, one, other)
    return fused


def test_a_batch_of_another_size_needs_no_trace(resized):
    def step(A, K, Q):
        return K @ (Q @ A) * 2.0 + Q

    fused = calls(step, *[(array(n, 8, 8), array(8, 8), array(n, 8, 8)) for n in (9, 10, 11, 12, 15)])
    assert (fused.stats.traces, fused.stats.plans, len(resized)) == (2, 5, 3)
    assert fused.stats.plan_hits == 3
    calls(fused.function, (array(12, 8, 8), array(8, 8), array(12, 8, 8)))


def test_a_size_that_stays_may_be_looked_at(resized):
    def attention(Q, K, V):
        s = Q @ K.swapaxes(-1, -2) / Q.shape[-1] ** 0.5
        e = dpnp.exp(s - s.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True) @ V * V.shape[1]

    calls(attention, *[tuple(array(n, 6, 4) / 8 for _ in "QKV") for n in (8, 9, 10, 11, 14)])
    assert len(resized) == 3


@pytest.mark.parametrize("text", ["x.shape[0]", "x.shape[-2]", "len(x)", "(x + 1).shape[0]", "x.T.shape[1]",
                                  "(x @ x.T).shape[1]", "(x @ x.T).T.shape[0]", "x.sum(axis=1).shape[0]"])
def test_a_size_that_changes_and_was_looked_at_is_looked_at_again(text, resized):
    scope = {"dpnp": dpnp}
    exec(with_source(f"def f(x, y):\n    return (x + y) * {text}\n", f"<axis {text}>", "exec"), scope)
    calls(scope["f"], *[(array(n, 5), array(1, 5)) for n in (9, 10, 11, 12)])
    assert not resized


def test_an_axis_that_there_is_not(resized):
    def third(x):
        return x * x.shape[2]

    for n in (4, 5, 6):
        with pytest.raises(IndexError, match="tuple index out of range"):
            fuse(third)(array(n, 3))


def function_of(text):
    """Return the function of `x` and `y` that returns an expression."""
    scope = {"dpnp": dpnp}
    exec(with_source(f"def f(x, y):\n    return {text}\n", f"<{text}>", "exec"), scope)
    return scope["f"]


@pytest.mark.parametrize("text", [
    "x[..., 0] * y", "x[:, 1:3] + x[:, 2:]", "x[:, None, :] @ x[:, :, None]", "x[:, ::2] * x[:, :2]",
    "dpnp.stack([x[:, 0], x[:, 1] + y], axis=-1)", "dpnp.concatenate([x, x * 2], axis=1)", "dpnp.hstack([x, x])",
    "x[..., 3] * x[..., -1] + y[...]", "((x * 2)[:, 1:] * x[:, :-1]).sum(axis=1)",
    "dpnp.take(x, INDEX, axis=1) * 2",
    "x[:, 1:] * x[:, :-1] + x[:, :1]", "(x + 1)[:, 2] / y", "x[:, INDEX]", "x[:, 0][:, None] * x",
])
def test_parts_along_axes_whose_sizes_stay(text, resized):
    function = function_of(text)
    function.__globals__["INDEX"] = dpnp.asarray([1, 0, 3])
    calls(function, *[(array(n, 4), array(n)) for n in (9, 10, 11, 12, 15)])
    assert resized
    count = len(resized)
    others = (9, 4), (10, 4), (11, 4), (11, 5), (12, 6), (13, 4), (14, 5)
    calls(function, *[(array(n, m), array(n)) for n, m in others])
    assert len(resized) > count


@pytest.mark.parametrize("text", [
    "x[:10]", "x[-1] + y[0]", "x[1:] - x[:-1]", "x[::-1]", "x[:, 1:][:10]", "(x * 2)[:9]", "x.T[:, 3]", "x[8] * 2",
    "dpnp.concatenate([x, x])", "dpnp.stack([x, x])[0]", "dpnp.vstack([x, x])", "(x + 1)[::2, 0]", "x[:15]",
    "x[:12] + 1", "(x * 2)[:, 1:] @ (x + 1).T[1:, :3]", "x[:, ::-1] * 2",
    "dpnp.take(x, dpnp.asarray([0, 8]), axis=0)", "x[dpnp.asarray([8, 11])]", "dpnp.roll(x, 1, axis=0)", "x[3:, 1:]",
    "dpnp.hstack([y, y])", "x[:10].T @ x[:10]", "dpnp.stack([x, x], axis=1)[:11]", "(x[:12] * 2)[:12]", "x[0:y.ndim]",
])
def test_parts_along_an_axis_whose_size_changes(text, resized):
    calls(function_of(text), *[(array(n, 4), array(n)) for n in (12, 11, 9, 10, 13, 15, 12, 14)])


def test_several_kernels_and_results(resized):
    def moments(x, y):
        s = (x @ y).sum(axis=-1)
        return s, dpnp.tanh(s), (x - x.mean(axis=-1, keepdims=True)).swapaxes(-1, -2) @ y

    arguments = [(array(n, 6, 6), array(n, 6, 6)) for n in (17, 18, 19, 30, 31)]
    fused = fuse(moments)
    for given in arguments:
        compare("moments", list(fused(*given)), list(moments(*given)))
    assert len(resized) == 3


def test_one_axis_that_two_views_have(resized):
    def gram(x):
        return x @ x.T + 1

    calls(gram, *[(array(n, 4),) for n in (8, 9, 10, 13)])


@pytest.mark.parametrize("text", [
    "x * x.shape[0]", "x * len(x)", "x * x.size", "x / x.nbytes", "sum(r for r in x)", "x * dpnp.shape(x)[0]",
    "x[:12]", "x[-1]", "x.reshape(x.shape[0], -1)", "x.mean(axis=0)", "x.sum()", "x + dpnp.arange(x.shape[0])[:, None]",
    "dpnp.concatenate([x, x])", "x * (2 if x.shape[0] > 10 else 3)", "x * (2 if x.strides[0] > 10 else 3)",
    "x * dpnp.zeros_like(x)", "x.std(axis=0)", "x.cumsum(axis=0)", "dpnp.einsum('ij,kj->ik', x, x)",
    "x + x.mean(axis=0, keepdims=True)", "x[::2]", "x[dpnp.asarray([0, 3])]", "dpnp.linalg.norm(x)", "x.var()",
    "x * float(x.sum())", "dpnp.where(x > 0, x, -x).T", "dpnp.expand_dims(x, 1) * x", "x.ravel()", "x.argmax(axis=0)",
    "x.squeeze()", "dpnp.dot(x.T, x)", "dpnp.tensordot(x, x, ([0], [0]))", "x.repeat(2, axis=0)", "dpnp.flip(x, 0)",
])
def test_functions_that_depend_on_a_size_in_any_way(text, resized):
    scope = {"dpnp": dpnp}
    exec(with_source(f"def f(x):\n    return {text}\n", f"<sized {text}>", "exec"), scope)
    calls(scope["f"], *[(array(n, 5),) for n in (9, 10, 11, 12, 14)])


def test_sizes_that_do_not_go_together_are_refused_as_dpnp_does(resized):
    def both(x, y):
        x @ y  # not a part of the result
        return x + 1

    fused = calls(both, *[(array(n, 4, 6), array(n, 6, 3)) for n in (9, 10, 11)])
    for one, other in ((12, 13), (11, 9)):
        with pytest.raises(ValueError, match=r"shapes|mismatch|broadcast|dimension"):
            both(array(one, 4, 6), array(other, 6, 3))
        with pytest.raises(ValueError, match=r"shapes|mismatch|broadcast|dimension"):
            fused(array(one, 4, 6), array(other, 6, 3))
    given = array(1, 4, 6), array(9, 6, 3)
    compare("broadcast", [fused(*given)], [both(*given)])


@pytest.mark.parametrize("text", ["dpnp.einsum('ii->i', x) * 2", "dpnp.einsum('iij->j', y)", "dpnp.einsum('ii', x)"])
def test_diagonals_are_those_of_square_matrices(text, resized):
    function = function_of(text)
    calls(function, *[(array(n, n), array(n, n, 4)) for n in (9, 10, 11, 12)])
    fused = fuse(function)
    for n, m in ((12, 12), (13, 13), (14, 14), (11, 14), (15, 14), (13, 13)):
        given = array(n, m), array(n, m, 4)
        expected = outcome(function, given)
        found = outcome(fused, given)
        assert isinstance(found, Exception) == isinstance(expected, Exception), (n, m)


def test_arrays_from_outside_keep_their_size(resized):
    weights = array(11, 4)

    def weighted(x, k):
        return x * weights + k

    fused = calls(weighted, *[(array(11, 4), array(m, 1, 1)) for m in (4, 5, 6, 7)])
    assert len(resized) == 2
    for n in (9, 12, 13):
        with pytest.raises(ValueError, match=r"shapes|broadcast"):
            fused(array(n, 4), array(5, 1, 1))


def test_what_a_guard_says_holds_for_other_sizes_as_well(resized):
    factor = [2.0]

    def scaled(x):
        return x * factor[0] + x

    fused = fuse(scaled)
    for n, value in ((9, 2.0), (10, 2.0), (11, 2.0), (12, 3.0), (13, 3.0), (14, 2.0), (15, 5)):
        factor[0] = value
        given = array(n, 3)
        compare(f"{n}, {value}", [fused(given)], [scaled(given)])


def test_other_layouts_are_traced(resized):
    def product(x, y):
        return x @ y

    def arguments(n, order):
        y = array(n, 6, 4)
        return array(n, 4, 6), y if order == "C" else dpnp.asarray(y.swapaxes(-1, -2).copy()).swapaxes(-1, -2)

    calls(product, *[arguments(n, order) for n, order in zip(range(8, 16), "CCFCFFCC", strict=True)])


def test_arguments_that_are_one_object_are_another_kind_of_call(resized):
    def both(x, y):
        return x @ y.swapaxes(-1, -2)

    same = [array(n, 3, 5) for n in range(8, 15)]
    calls(both, *[(x, x) if n % 2 else (x, x + 1) for n, x in enumerate(same)])


def test_writing_to_an_argument_is_traced(resized):
    def doubled(x):
        x *= 2
        return x + 1

    fused = fuse(doubled)
    for n in (8, 9, 10, 11):
        one = array(n, 4)
        other = one.copy()
        compare("result", [fused(one), one], [doubled(other), other])
    assert not resized


def test_memory_of_results_is_their_own(resized):
    def twice(x):
        return x + 1, x + 1

    fused = fuse(twice)
    for n in (8, 9, 10, 11):
        one, other = fused(array(n, 4))
        before = other.asnumpy()
        one[...] = 7
        assert (other.asnumpy() == before).all()


@pytest.mark.drawn(count=6)
@pytest.mark.parametrize("seed", range(1000, 1060))
def test_random_programs_for_sizes_of_one_magnitude(seed):
    program, rng = random_program(seed), random.Random(seed)
    functions = {"fused": fuse(program.function(f"magnitude_{seed}"), recompile_limit=1000)}
    sizes = {name: rng.randint(9, 15) for name in ("b", "n", "m")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FusionWarning)
        for number in range(7):
            check(program, functions, sizes, seed + number, "f4", f"seed {seed}, call {number}")
            sizes["b"] = rng.choice([*range(9, 16), sizes["n"], sizes["m"]])
            if rng.random() < 0.15:
                sizes[rng.choice("nm")] = rng.randint(9, 15)


def test_random_programs_have_plans_that_need_no_trace(resized):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FusionWarning)
        for seed in range(2000, 2012):
            program = random_program(seed)
            fused = fuse(program.function(f"resized_{seed}"))
            for b in (9, 10, 11):
                outcome(fused, program.arrays({"b": b, "n": 5, "m": 6}, seed, "f4"))
    assert len(resized) >= 2
