"""warmup compiles for calls that have not been made, and does nothing else."""

import random
from types import SimpleNamespace

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.graph.support import compare
from tl_dpnp import config
from tl_dpnp.errors import TLTypeError, UnsupportedError
from tl_dpnp.graph.kernels import clear_kernels
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt

fuse, spec = tl_dpnp.fuse, tl_dpnp.spec


def _array(*shape, seed=0):
    return dpnp.asarray(np.random.default_rng(seed).normal(size=shape).astype("f4"))


A, B = _array(3, 4, 4), _array(4, 4, seed=1)
WEIGHT = _array(4, 4, seed=2)


def _warm(function, *arguments, **keywords):
    """Return how the function is called after it was warmed up: traces, kernels compiled, calls of a plan."""
    clear_kernels()
    f = fuse(function)
    f.warmup(*arguments, **keywords)
    return f


@pytest.mark.parametrize(("arguments", "call"), [
    ((spec((3, 4, 4), "f4"), spec((4, 4), np.float32), 0.5), (A, B, 2.0)),
    ((A.copy(), spec((4, 4), "f4"), 0.5), (A, B, 2.0)),
    ((spec((3, 4, 4), "f4", usm_type="device"), spec((4, 4), "f4", order="F"), 0.5), (A, B.T, 0.25)),
    ((A.swapaxes(1, 2), B[::-1], 1.0), (A.swapaxes(1, 2), B[::-1], 3.0)),
])
def test_the_first_call_runs_the_plan(arguments, call):
    def product(a, b, s):
        return a @ b * s + WEIGHT

    f = _warm(product, *arguments)
    assert (f.stats.calls, f.stats.traces, f.stats.plans, f.stats.compilations) == (0, 1, 1, 1)
    compare("call", f(*call), product(*call))
    assert (f.stats.calls, f.stats.plan_hits, f.stats.traces) == (1, 1, 1)


def test_a_broadcast_array_stays_one():
    f = _warm(lambda a, b: a * b, A, dpnp.broadcast_to(B[0], (4, 4)))
    compare("call", f(A, dpnp.broadcast_to(B[1], (4, 4))), A * B[1])
    assert f.stats.plan_hits == 1


def test_specs_stand_in_containers_and_keywords():
    def f(pair, *, named):
        return pair[0] @ pair[1] + named["c"]

    warm = _warm(f, (spec((3, 4, 4), "f4"), B), named={"c": spec(4, "f4")})
    given = (A, B), {"c": B[0].copy()}
    compare("call", warm(given[0], named=given[1]), f(given[0], named=given[1]))
    assert warm.stats.plan_hits == 1


def test_the_same_array_twice_is_the_same_array():
    f = _warm(lambda a, b: a @ b, A, A)
    f(B, B.copy())
    other = _array(3, 4, 4, seed=5)
    f(other, other)
    assert (f.stats.plan_hits, f.stats.traces) == (1, 2)


def test_no_array_of_the_users_is_read_or_written():
    def update(q, model):
        q += q @ model.k
        k = model.k
        k *= 2
        WEIGHT[...] = 0
        dpnp.add(q, 1, out=model.out)
        model.part[1:] = 7
        return q

    model = SimpleNamespace(k=_array(4, 4), out=_array(3, 4, 4), part=_array(3))
    q = A.copy()
    before = [x.copy() for x in (q, model.k, model.out, model.part, WEIGHT)]
    f = _warm(update, q, model)
    for one, other in zip((q, model.k, model.out, model.part, WEIGHT), before, strict=True):
        compare("untouched", one, other)
    assert f.stats.plans == 1
    plain = SimpleNamespace(k=model.k.copy(), out=model.out.copy(), part=model.part.copy())
    kept, expected = WEIGHT.copy(), q.copy()
    f(q, model)
    assert f.stats.plan_hits == 1
    assert (WEIGHT == 0).all()
    WEIGHT[...] = kept
    update(expected, plain)
    WEIGHT[...] = kept
    compare("q", q, expected)
    for name in ("k", "out", "part"):
        compare(name, getattr(model, name), getattr(plain, name))


def test_arrays_that_overlap_are_no_danger():
    memory = _array(6, 4)

    def shift(a):
        a[...] = a + memory[:3]

    f = _warm(shift, spec((3, 4), "f4"))
    plain = memory.copy()
    plain[1:4] = plain[1:4] + plain[:3]
    f(memory[1:4])
    compare("overlapping", memory, plain)


def prints(a, log):
    print("here")
    return a * 2


def appends(a, log):
    log.append(1)
    return a * 2


def branches(a, log):
    if (a > 0).all():
        log.append(1)
    return a * 2


def draws(a, log):
    return a * random.random()


def draws_in_dpnp(a, log):
    return a * dpnp.random.rand(4)


def runs_a_function(a, log):
    return a + dpnp.fromfunction(lambda i: log.append(1) or i * 1.0, (4,))


def catches(a, log):
    try:
        return a @ a
    finally:
        log.append(1)


@pytest.mark.parametrize("function", [
    prints, appends, branches, draws, draws_in_dpnp, runs_a_function, catches,
])
def test_effects_are_refused_before_they_happen(function, capsys):
    log, state = [], random.getstate()
    numbers = dpnp.random.get_state() if hasattr(dpnp.random, "get_state") else None
    f = fuse(function)
    with pytest.raises(UnsupportedError, match=f"{function.__name__} cannot be warmed up, because") as e:
        f.warmup(spec((4, 4), "f4"), log)
    assert f"{__file__}:" in str(e.value)
    assert (log, capsys.readouterr().out) == ([], "")
    assert random.getstate() == state
    assert numbers is None or dpnp.random.get_state() == numbers
    assert f.stats.plans == 0


def test_a_function_that_cannot_be_fused_is_refused():
    f = fuse(lambda a: a * eval("2"))
    with pytest.raises(UnsupportedError, match="cannot be warmed up: it uses eval"):
        f.warmup(spec((4, 4), "f4"))
    g = fuse(recompile_limit=1)(lambda a: a @ a)
    clear_kernels()
    g.warmup(spec((4, 4), "f4"))
    with pytest.raises(UnsupportedError, match="cannot be warmed up: it has been compiled 1 times"):
        g.warmup(spec((5, 5), "f4"))
    with pytest.raises(UnsupportedError, match=r"not fused as a whole(.|\n)*sort"):
        fuse(fullgraph=True)(lambda a: dpnp.sort(a, axis=0)).warmup(A)


def test_containers_that_occur_twice_and_in_themselves():
    pair = [A, B]
    f = fuse(lambda one, other: one[0] @ other[1] if one is other else one[0] + 1)
    f.warmup(pair, pair)
    assert dpnp.allclose(f(pair, pair), A @ B)
    assert dpnp.allclose(f(pair, [A, B]), A + 1)
    assert dpnp.allclose(f(pair, pair), A @ B)
    endless = [A]
    endless.append(endless)
    g = fuse(lambda values: values[0] @ values[1][0])
    with pytest.raises(UnsupportedError, match="it is in itself"):
        g.warmup(endless)
    assert dpnp.allclose(g(endless), A @ A)


def test_what_has_a_plan_is_left_alone():
    f = fuse(lambda a: a @ a)
    for _ in range(3):
        f.warmup(spec((4, 4), "f4"))
    f(B)
    f.warmup(B)
    assert (f.stats.traces, f.stats.plans, f.stats.plan_hits) == (1, 1, 1)
    with config.scope(FUSE=False):
        off = fuse(lambda a: a @ a)
    off.warmup(spec((4, 4), "f4"))
    assert off.stats.traces == 0


def test_methods_take_their_object():
    class Layer:
        def __init__(self):
            self.weight = B

        @fuse
        def forward(self, x):
            return x @ self.weight

    layer = Layer()
    Layer.forward.warmup(layer, spec((3, 4, 4), "f4"))
    compare("method", layer.forward(A), A @ B)
    assert Layer.forward.stats.plan_hits == 1


def test_what_runs_in_dpnp_gets_matrices_and_indices_that_it_takes():
    def f(a, i, mask):
        return dpnp.take(dpnp.linalg.inv(a), i, axis=0) + mask

    warm = _warm(f, spec((4, 4), "f4"), spec(2, "i8"), spec(4, "bool"))
    given = dpnp.eye(4, dtype="f4") * 2, dpnp.asarray([1, 3]), dpnp.asarray([True, False, True, True])
    compare("call", warm(*given), f(*given))
    assert warm.stats.plan_hits == 1


def test_read_only_and_dpctl_arrays():
    fixed = A.copy()
    fixed.flags.writable = False
    f = _warm(lambda a, b: dpnp.add(a, b), fixed, dpt.ones((4, 4), dtype="f4"))
    compare("call", f(fixed, dpt.ones((4, 4), dtype="f4")), fixed + 1)
    assert f.stats.plan_hits == 1


@pytest.mark.parametrize(("arguments", "keywords", "message"), [
    (((3, -1), "f4"), {}, r"shape=\(3, -1\) is no sequence of sizes"), (("ab", "f4"), {}, "shape='ab'"),
    ((1.5, "f4"), {}, "shape=1.5"), (((3,), "f5"), {}, "dtype='f5' is not understood"),
    (((3,), "f4"), {"order": "K"}, "order='K'"), (((3,), "f4"), {"usm": "host"}, "unexpected argument 'usm'"),
])
def test_what_describes_no_array_is_refused(arguments, keywords, message):
    with pytest.raises(TLTypeError, match=message):
        spec(*arguments, **keywords)


def test_a_spec_prints_as_it_is_written():
    text = "tl_dpnp.spec((3, 4), 'float32', order='F', usm_type='shared')"
    assert repr(spec((3, 4), "f4", order="F", usm_type="shared")) == text
    assert spec(3, "f4") == spec([3], np.float32)
