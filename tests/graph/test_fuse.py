"""The decorator: what a user may rely on besides the values."""

import dataclasses
import operator
import random
import subprocess
import sys
import warnings

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.graph.support import compare, shares
from tl_dpnp.errors import FusionWarning, TLTypeError, UnsupportedError
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt

SCALE = 2.0
WEIGHTS = dpnp.ones((4, 4), dtype="f4")


def _random(*shape, dtype="f4", seed=0):
    return dpnp.asarray(np.random.default_rng(seed).normal(size=shape).astype(dtype))


A, B, C = _random(3, 4, 4), _random(4, 4, seed=1), _random(3, 4, 4, seed=2)


def _plans(function):
    return list(function._plans)


def test_a_chain_is_one_kernel_and_later_calls_run_its_plan():
    traced = []

    @tl_dpnp.fuse
    def chain(alpha, a, b, c):
        traced.append(1) if False else None
        return alpha * (a @ b.T @ c) + a

    explanation = chain.explain(0.5, A, B, C)
    assert (len(explanation.kernels), explanation.calls, explanation.breaks) == (1, (), ())
    compare("chain", chain(0.5, A, B, C), 0.5 * (A @ B.T @ C) + A)
    compare("chain", chain(-3.0, A, B, C), -3.0 * (A @ B.T @ C) + A)  # the scalar is no part of the key
    assert len(_plans(chain)) == 1
    assert _plans(chain)[0].plan.calls == 2


def test_dpnp_is_unchanged():
    before = {name: getattr(dpnp, name) for name in dir(dpnp)}
    methods = dict(vars(dpnp.ndarray))
    tl_dpnp.fuse(lambda a, b: dpnp.matmul(a, b) + dpnp.exp(a))(A, B)
    assert all(getattr(dpnp, name) is value for name, value in before.items())
    assert dict(vars(dpnp.ndarray)) == methods


def test_dpnp_is_unchanged_by_the_import():
    program = (
        "import dpnp; before = dict(vars(dpnp)); methods = dict(vars(dpnp.ndarray)); import tl_dpnp, tl_dpnp.xp; "
        "tl_dpnp.fuse; tl_dpnp.xp.matmul; assert methods == dict(vars(dpnp.ndarray)); "
        "assert all(vars(dpnp)[name] is value for name, value in before.items())"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_results_are_plain_arrays():
    result = tl_dpnp.fuse(lambda a, b: {"x": a @ b, "y": [(a + 1).T, a]})(A, B)
    assert type(result["x"]) is dpnp.ndarray
    assert type(result["y"][0]) is dpnp.ndarray
    assert result["y"][1] is A


def test_a_new_batch_needs_no_new_kernel():
    @tl_dpnp.fuse
    def product(a, b):
        return (a @ b) * 2

    product(A, B)
    compiled = product._compilations
    for batch in (1, 2, 7, 50):
        a = _random(batch, 4, 4, seed=batch)
        compare(f"batch {batch}", product(a, B), (a @ B) * 2)
    assert product._compilations == compiled


def test_keyword_arguments_defaults_and_containers():
    @tl_dpnp.fuse
    def combine(pair, *, scale=2.0, named, count=3):
        a, b = pair
        return [scale * (a @ b) + named["c"]] * count

    results = combine((A, B), named={"c": C})
    assert len(results) == 3
    compare("default", results[0], 2.0 * (A @ B) + C)
    compare("keyword", combine([A, B], named={"c": C}, scale=3.0, count=1)[0], 3.0 * (A @ B) + C)


def test_globals_and_closures_are_read_at_each_call(monkeypatch):
    factor, matrix = 3, B

    @tl_dpnp.fuse
    def scaled(a):
        return SCALE * (a @ WEIGHTS) * factor + matrix

    compare("before", scaled(A), 2.0 * (A @ WEIGHTS) * 3 + B)
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    factor, matrix = 7, B + 1
    monkeypatch.setitem(globals(), "WEIGHTS", B.copy())
    compare("after", scaled(A), 5.0 * (A @ B) * 7 + matrix)
    WEIGHTS[...] = 4
    compare("contents", scaled(A), 5.0 * (A @ WEIGHTS) * 7 + matrix)
    assert all(s.plan for s in _plans(scaled))


class Layer:
    """An object with arrays and numbers as attributes."""

    def __init__(self):
        self.weight = B
        self.bias = 1.5
        self.calls = 0

    @tl_dpnp.fuse
    def __call__(self, x):
        return x @ self.weight + self.bias

    @tl_dpnp.fuse
    def counted(self, x):
        self.calls += 1
        return x @ self.weight


def test_methods_read_attributes_at_each_call():
    layer = Layer()
    compare("first", layer(A), A @ B + 1.5)
    layer.bias, layer.weight = 2.5, C
    compare("second", layer(A), A @ C + 2.5)
    compare("third", layer(C), C @ C + 2.5)


def test_what_has_to_happen_at_each_call_happens():
    layer = Layer()
    for _ in range(3):
        compare("counted", layer.counted(A), A @ B)
    assert layer.calls == 3


def test_random_numbers_are_drawn_at_each_call():
    @tl_dpnp.fuse
    def noisy(a):
        return a * random.random()

    assert not (noisy(A) == noisy(A)).all()


def test_nested_fused_functions_are_one_kernel():
    @tl_dpnp.fuse
    def inner(a, b):
        return a @ b

    @tl_dpnp.fuse
    def outer(a, b):
        return inner(a, b) @ b + 1

    explanation = tl_dpnp.explain(outer)(A, B)
    assert len(explanation.kernels) == 1
    assert not explanation.again
    compare("nested", outer(A, B), A @ B @ B + 1)


def test_helpers_that_are_not_fused_work_too():
    compare("helper", tl_dpnp.fuse(_calls_a_helper)(A, B), _calls_a_helper(A, B))


def _helper(x):
    return dpnp.exp(x) * 2


def _calls_a_helper(a, b):
    return _helper(a @ b) + 1


def test_a_value_that_decides_is_asked_at_each_call():
    @tl_dpnp.fuse
    def positive(a):
        total = (a * 2).sum(axis=(1, 2)).sum()
        if total > 0:
            return a * 2
        return -a

    a = abs(A)
    compare("positive", positive(a), a * 2)
    compare("negative", positive(-a), a)
    compare("positive", positive(a), a * 2)


def test_a_float_that_decides_belongs_to_the_key():
    @tl_dpnp.fuse
    def choose(a, x):
        return a * x if x > 0 else a - x

    for x in (1.0, -1.0, 2.0, -2.0, 1.0):
        compare(f"{x}", choose(A, x), A * x if x > 0 else A - x)


def test_a_float_in_other_arithmetic_belongs_to_the_key():
    import math

    @tl_dpnp.fuse
    def root(a, x):
        return a * math.sqrt(x) + 2 * x

    for x in (4.0, 9.0, 4.0):
        compare(f"{x}", root(A, x), A * math.sqrt(x) + 2 * x)


def test_in_place_updates_are_seen_by_the_caller_and_by_views():
    @tl_dpnp.fuse
    def update(q, a, b):
        view = q.T
        q += a @ b
        q *= 2
        return q, view + 0

    for _ in range(2):
        q = C.copy()
        result, transposed = update(q, A, B)
        expected = (C + A @ B) * 2
        assert result is q
        compare("in place", q, expected)
        compare("the view", transposed, expected.T)


def test_an_update_that_reads_what_it_writes():
    def shift(q):
        q[...] = q @ q
        q += q.swapaxes(1, 2)
        return q

    for _ in range(2):
        plain, fused = C.copy(), C.copy()
        shift(plain)
        tl_dpnp.fuse(shift)(fused)
        compare("update", fused, plain)


def test_values_from_before_an_update_are_kept():
    @tl_dpnp.fuse
    def before_and_after(q):
        before = q * 1
        q += 1
        return before, q * 1

    q = C.copy()
    before, after = before_and_after(q)
    compare("before", before, C)
    compare("after", after, C + 1)


def test_overlapping_operands_and_out():
    def overlapping(base):
        dpnp.add(base[1:], base[:-1], out=base[1:])
        return base

    for _ in range(2):
        plain, fused = C.copy(), C.copy()
        overlapping(plain)
        tl_dpnp.fuse(overlapping)(fused)
        compare("overlap", fused, plain)


def test_the_same_array_twice():
    @tl_dpnp.fuse
    def double(a, b):
        a += b
        return a @ b

    q = C.copy()
    compare("twice", double(q, q), (2 * C) @ (2 * C))
    compare("operand", q, 2 * C)
    a, b = C.copy(), C.copy()  # of the same kind, but not the same array
    compare("apart", double(a, b), (2 * C) @ C)
    compare("b", b, C)


def test_a_part_of_an_array_is_assigned():
    def assign(a, b):
        c = a @ b
        c[:, 0] = 7
        c[1] += 1
        return c * 2

    compare("assign", tl_dpnp.fuse(assign)(A, B), assign(A, B))


def test_returned_views_share_memory_as_in_dpnp():
    @tl_dpnp.fuse
    def views(a, b):
        c = a @ b
        return a.T, c, c.swapaxes(1, 2), a[1], c.reshape(-1), dpnp.expand_dims(a, 0)

    transposed, c, swapped, row, flat, expanded = views(A, B)
    assert shares(transposed, A)
    assert shares(row, A)
    assert shares(expanded, A)
    assert shares(swapped, c)
    assert shares(flat, c)
    c[...] = 5
    assert (swapped == 5).all()
    assert (flat == 5).all()


def test_what_dpnp_does_alone_is_part_of_the_plan():
    @tl_dpnp.fuse
    def mixed(a, b):
        return dpnp.sort(a @ b) * 2 + dpnp.ones(4, dtype="f4")

    compare("mixed", mixed(A, B), dpnp.sort(A @ B) * 2 + 1)
    compare("again", mixed(C, B), dpnp.sort(C @ B) * 2 + 1)
    assert _plans(mixed)[0].plan.calls == 1


def test_too_many_kinds_of_arguments_warn_once():
    @tl_dpnp.fuse(recompile_limit=2, dynamic=False)
    def product(a):
        return a @ a

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for size in (2, 3, 5, 6, 7):
            a = _random(size, size)
            compare(f"{size}", product(a), a @ a)
    assert [w.category for w in caught] == [FusionWarning]


def test_breaks_warn_or_raise_where_that_is_asked_for():
    def broken(a):
        return dpnp.sort(a @ a)

    with pytest.warns(FusionWarning, match="sort"):
        tl_dpnp.fuse(on_break="warn")(broken)(A)
    with pytest.raises(UnsupportedError, match=r"test_fuse\.py:\d+: sort"):
        tl_dpnp.fuse(fullgraph=True)(broken)(A)
    with pytest.raises(TLTypeError, match="on_break"):
        tl_dpnp.fuse(on_break="sometimes")
    with pytest.raises(UnsupportedError, match="generator"):
        tl_dpnp.fuse(lambda a: (yield a))


def test_calls_without_arrays_run_the_function():
    assert tl_dpnp.fuse(lambda x, y: x + y)(1, 2.5) == 3.5


def test_dpctl_arrays_behave_as_in_dpnp():
    a = dpt.ones((3, 3), dtype="f4")
    compare("dpctl", tl_dpnp.fuse(lambda a, b: dpnp.add(a, b))(a, B[:3, :3]), dpnp.add(a, B[:3, :3]))


def test_numpy_scalars_and_arrays_do_not_make_object_arrays():
    compare("scalar", tl_dpnp.fuse(lambda a: a * np.float64(2))(A), A * np.float64(2))
    with pytest.raises(TypeError):
        tl_dpnp.fuse(lambda a: np.ones(4) @ a)(A)


@dataclasses.dataclass
class Pair:
    first: object
    second: object


def test_arrays_in_other_objects_are_plain_and_new_at_each_call():
    @tl_dpnp.fuse
    def pair(a, b):
        return Pair(a @ b, a + b)

    one, other = pair(A, B), pair(C, B)
    assert type(one.first) is dpnp.ndarray
    compare("one", one.first, A @ B)
    compare("other", other.second, C + B)


def test_appending_to_a_list_outside_works_at_each_call():
    kept = []

    @tl_dpnp.fuse
    def keep(a, b):
        kept.append(a @ b)
        return a + b

    keep(A, B)
    keep(C, B)
    assert len(kept) == 2
    assert all(type(array) is dpnp.ndarray for array in kept)
    compare("second", kept[1], C @ B)


def test_an_error_leaves_what_was_done_before():
    @tl_dpnp.fuse
    def fails(q):
        q += 1
        raise KeyError("stop")

    q = C.copy()
    with pytest.raises(KeyError, match="stop"):
        fails(q)
    compare("before the error", q, C + 1)


@pytest.mark.parametrize("name", ["iadd", "isub", "imul", "itruediv"])
def test_operators_in_place_on_a_result(name):
    function = getattr(operator, name)

    def update(a, b):
        c = a @ b
        other = c
        c = function(c, 3)
        return c, other

    compare(name, tl_dpnp.fuse(update)(A, B), update(A, B))
