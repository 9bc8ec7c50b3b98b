"""What is fused: helper functions, methods and objects become part of the graph, and what cannot be is refused."""

import copy
import dataclasses
import functools
import pickle
from types import SimpleNamespace
from typing import NamedTuple

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.graph.support import compare
from tl_dpnp.errors import UnsupportedError
from tl_dpnp.graph import source
from tl_dpnp.graph.kernels import clear_kernels

fuse = tl_dpnp.fuse


def _random(*shape, seed=0):
    return dpnp.asarray(np.random.default_rng(seed).normal(size=shape).astype("f4"))


A, B, C = _random(3, 4, 4), _random(3, 4, 4, seed=1), _random(3, 4, 4, seed=2)


class Scale:
    def __init__(self, k):
        self.k = k

    def __call__(self, x):
        return x * self.k


def _kept(function):
    return list(function._plans)


# --- through helpers -------------------------------------------------------------------------------------------------


def norm(x):
    return dpnp.sqrt((x * x).sum(-1, keepdims=True))


class Block:
    def __init__(self):
        self.weight, self.scale = B, 0.5
        self.inner = SimpleNamespace(activate=dpnp.tanh)

    def normalized(self, x):
        return x / (norm(x) + self.scale)

    def __call__(self, x):
        return self.inner.activate(self.normalized(x) @ self.weight)


BLOCK = Block()


@pytest.mark.parametrize(
    "function",
    [
        lambda a: norm(a @ a) * 2,
        lambda a: [dpnp.exp(x) for x in (a, a @ a)],
        lambda a: functools.reduce(dpnp.matmul, [a, B, C]),
        lambda a: sum(map(dpnp.square, [a, B])),
        lambda a: (lambda f: f(a) + f(B))(lambda x: dpnp.tanh(x)),
        lambda a: Block()(a),
        lambda a, block=BLOCK: block(block(a)),
        lambda a: {k: f(a) for k, f in {"e": dpnp.exp, "n": norm}.items()}["n"],
        lambda a: dpnp.where(a > 0, a, 0.0) @ B,
        lambda a: (a if a.shape[0] > 2 else -a) @ B,
    ],
)
def test_helpers_are_part_of_the_graph(function):
    fused = fuse(function)
    explanation = fused.explain(A)
    assert explanation.again == ()
    assert len(explanation.kernels) <= 2
    for _ in range(2):
        result, expected = fused(A), function(A)
        compare("value", result, expected)
    assert len(_kept(fused)) >= 1


def test_a_function_without_source_says_so():
    variables = {"dpnp": dpnp}
    exec("def f(x):\n    return dpnp.exp(x @ x)", variables)
    function = fuse(variables["f"])
    with pytest.warns(tl_dpnp.errors.FusionWarning, match="source"):
        compare("value", function(A), dpnp.exp(A @ A))


# --- what can be fused, and how it is refused ------------------------------------------------------------------------


@fuse
def module_level(x, *, k=2):
    return x @ x * k


def test_whatever_runs_python_can_be_fused():
    class Layer:
        def __init__(self, k):
            self.k = k

        def scaled(self, x):
            return x * self.k

        @fuse
        @staticmethod
        def static(x):
            return x + 1

        @fuse
        @classmethod
        def made(cls, x):
            return cls(3).scaled(x)

    layer = Layer(2)
    method, partial, called = fuse(layer.scaled), fuse(functools.partial(norm, x=A)), fuse(Scale(4))
    for k in (2, 5):
        layer.k = k
        compare("method", method(A), A * k)
    compare("partial", partial(), norm(A))
    compare("object", called(A), A * 4)
    called.function.k = 6
    compare("object", called(A), A * 6)
    compare("static", Layer.static(A) + layer.static(A), (A + 1) * 2)
    compare("class", Layer.made(A), A * 3)
    for value in (3, dpnp.matmul, Layer):
        with pytest.raises(tl_dpnp.errors.TLTypeError, match="fuse takes a Python function"):
            fuse(value)


def test_fused_functions_are_copied_and_pickled_as_functions_are():
    assert pickle.loads(pickle.dumps(module_level)) is module_level
    assert copy.deepcopy([module_level])[0] is module_level
    other = pickle.loads(pickle.dumps(fuse(norm, on_break="warn")))
    compare("by function", other(A), norm(A))
    assert other.on_break == "warn"


def test_a_copy_of_a_fused_object_is_one_of_the_copied_object():
    of_object = fuse(Scale(2), dynamic=True)
    compare("before", of_object(A), A * 2)
    copied = copy.deepcopy(of_object)
    copied.function.k = 3
    compare("the copy", copied(A), A * 3)
    compare("as before", of_object(A), A * 2)
    assert copied.dynamic is True


def test_a_break_is_refused_at_every_call_and_before_it_is_done():
    kept = []

    @fuse(fullgraph=True)
    def f(q, x):
        q += x @ x
        kept.append(q)
        return q

    @fuse(fullgraph=True)
    def g(q, x):
        q += x @ x
        return dpnp.sort(q)

    for _ in range(3):
        for function in (f, g):
            q = A.copy()
            with pytest.raises(UnsupportedError, match=r"not fused as a whole(.|\n)*test_followed_calls"):
                function(q, B)
            compare("as before", q, A)
    assert kept == []


def test_fusion_can_be_turned_off():
    with tl_dpnp.config.scope(FUSE=False):
        function = fuse(norm)
    compare("plain", function(A), norm(A))
    assert not _kept(function)


def test_the_warning_about_too_many_kinds_names_the_argument():
    @fuse(recompile_limit=2)
    def f(x, n, y):
        return x ** n + y

    clear_kernels()
    for n in (2, 3):
        compare(f"{n}", f(A, n, 1.0), A ** n + 1.0)
    with pytest.warns(tl_dpnp.errors.FusionWarning, match="argument n was of 2 kinds"):
        compare("4", f(A, 4, 1.0), A ** 4 + 1.0)


# --- changed copies --------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class State:
    x: object
    v: object
    steps: int = 0


class Pair(NamedTuple):
    x: object
    v: object


def moved(state):
    return dataclasses.replace(state, x=state.x + state.v, steps=state.steps + 1)


def test_replacing_in_a_data_class_keeps_a_plan():
    f = fuse(moved)
    for x, v, steps in ((A, B, 0), (B, C, 0), (C, A, 5)):
        found, plain = f(State(x, v, steps)), moved(State(x, v, steps))
        compare("replaced", found.x, plain.x)
        assert found.v is v
        assert found.steps == plain.steps
    assert _kept(f)
    with pytest.raises(TypeError, match="unexpected keyword argument 'y'"):
        fuse(lambda state: dataclasses.replace(state, y=state.x))(State(A, B))
    with pytest.raises(TypeError, match="dataclass instances"):
        fuse(lambda state: dataclasses.replace(state, y=1))(A)


def test_replacing_sees_what_a_data_class_does_besides():
    @dataclasses.dataclass
    class Counted:
        x: object
        total: object = dataclasses.field(init=False, default=None)

        def __post_init__(self):
            self.total = self.x.sum(axis=-1)

    f = fuse(lambda state: dataclasses.replace(state, x=state.x @ B).total)
    for x in (A, B, C):
        compare("a field that is made", f(Counted(x)), (x @ B).sum(axis=-1))


def test_replacing_in_a_named_tuple_keeps_a_plan():
    f = fuse(lambda pair: pair._replace(v=pair.x @ pair.v))
    for x, v in ((A, B), (B, C), (C, A)):
        found = f(Pair(x, v))
        assert type(found) is Pair
        assert found.x is x
        compare("replaced", found.v, x @ v)
    assert _kept(f)
    with pytest.raises((TypeError, ValueError), match="unexpected field names"):
        fuse(lambda pair: pair._replace(w=pair.x))(Pair(A, B))


# --- results in objects ----------------------------------------------------------------------------------------------


class Plain:
    def __init__(self, x, v):
        self.x, self.v = x, v


@pytest.mark.parametrize("kind", [State, Pair, Plain, SimpleNamespace])
@pytest.mark.parametrize("counting", [False, True])
def test_results_in_an_object_share_a_kernel(kind, counting):
    """`counting` is an effect, with which the function is traced at each call."""
    calls = []

    def step(x, v):
        if counting:
            calls.append(1)
        hidden = dpnp.tanh(x @ v)
        return kind(x=hidden + x, v=hidden @ v)

    f = fuse(step)
    for x, v in ((A, B), (B, C), (C, A)):
        found, plain = f(x, v), step(x, v)
        compare("x", found.x, plain.x)
        compare("v", found.v, plain.v)
    assert len(f.explain(A, B).kernels) == 1
    assert len(calls) == 7 * counting


def test_results_have_the_usm_types_of_their_operands():
    shared = dpnp.asarray(C, usm_type="shared")
    f = fuse(lambda a, b: (a @ a, b @ b, a @ b, [b + b]))
    for _ in range(3):
        (*found, (last,)) = f(A, shared)
        for one, plain in zip([*found, last], [A @ A, shared @ shared, A @ shared, shared + shared], strict=True):
            compare("a result", one, plain)
    assert last.usm_type == "shared"
    assert found[0].usm_type == "device"


def _generator(x):
    yield x


async def _coroutine(x):
    return x


async def _asynchronous_generator(x):
    yield x


@pytest.mark.parametrize("function", [_generator, _coroutine, _asynchronous_generator])
def test_functions_whose_code_runs_later_are_refused(function):
    with pytest.raises(tl_dpnp.UnsupportedError, match="generator or coroutine"):
        tl_dpnp.fuse(function)


def _decorated_by(*functions):
    return lambda function: functions


@_decorated_by(lambda a: (lambda b: b)(a))
def _kept_by_the_decorator(f=lambda a: a):
    return f


def test_what_is_evaluated_where_a_function_is_defined_stands_outside_of_it():
    """Python 3.10 has the qualified names of functions inside among the constants of a function."""
    (decorator,) = _kept_by_the_decorator
    assert source.definition_of(decorator).qualified == decorator.__qualname__ == "<lambda>"
