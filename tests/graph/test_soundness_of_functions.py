"""Which function it is that a fused function calls: one that is given, of a module, of a class or of a variable.

Functions of dpnp and NumPy, and methods written in C, are objects of classes of their own; so are queues and unions.
"""

import collections
import math
import types
from types import SimpleNamespace

import dpctl
import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.graph.support import compare

fuse = tl_dpnp.fuse
A = dpnp.asarray(np.random.default_rng(0).normal(size=(3, 4, 4)).astype("f4"))


class Made:
    k = 2

    def __init__(self, w):
        self.w = w

    @classmethod
    def of_class(cls, x):
        return x * cls.k

    @staticmethod
    def plain(x):
        return x + 1

    def all(self, x):
        return self.of_class(x) - self.plain(x) * self.w


class MadeToo(Made):
    pass


def test_methods_of_classes_whose_objects_are_made_inside(monkeypatch):
    def function(x):
        made = MadeToo(x)
        return made.all(x), made.of_class(x), MadeToo.of_class(x)

    f = fuse(function)
    for kind, name, value in (
        (Made, "k", 2), (Made, "of_class", classmethod(lambda cls, x: x - cls.k)), (MadeToo, "k", 5),
        (MadeToo, "of_class", classmethod(lambda cls, x: x / cls.k)), (Made, "plain", staticmethod(lambda x: x * 3)),
        (MadeToo, "plain", lambda self, x: x * self.k), (MadeToo, "all", lambda self, x: x),
    ):
        monkeypatch.setattr(kind, name, value, raising=False)
        for _ in range(2):
            compare(name, f(A), function(A))


def test_functions_in_modules_are_looked_at_again():
    module, inner = types.ModuleType("of_the_user"), types.ModuleType("of_the_user.inner")
    module.inner, inner.scale, inner.activation, module.K = inner, lambda x: x * module.K, dpnp.tanh, 2.0

    def function(x):
        return module.inner.activation(inner.scale(x)) + module.K

    f = fuse(function)
    for owner, name, value in (
        (module, "K", 2.0), (module, "K", 3.0), (inner, "scale", lambda x: x - 1), (inner, "activation", dpnp.sin),
        (inner, "activation", dpnp.negative), (module, "inner", SimpleNamespace(activation=abs)),
    ):
        setattr(owner, name, value)
        for _ in range(2):
            compare(name, f(A), function(A))
    assert f.stats.plan_hits


@tl_dpnp.fuse
def twice(x):
    return x * 2


@tl_dpnp.fuse
def thrice(x):
    return x * 3


FUNCTIONS = {
    "dpnp": (lambda x, g: g(x), (dpnp.sin, dpnp.cos, dpnp.tanh)),
    "dpnp, of two": (lambda x, g: g(x, x), (dpnp.add, dpnp.multiply)),
    "NumPy": (lambda x, g: x * g(0.5), (np.sin, np.cos, math.sin, math.cos)),
    "fused": (lambda x, g: g(x), (twice, thrice)),
    "methods of texts": (lambda x, g: x * "aB".count(g("a")) + "aB".find(g("B")), (str.lower, str.upper)),
    "methods of numbers": (lambda x, g: x * g(1.5), (*map(float.__mul__.__get__, (2.0, 3.0)), (2.0).__add__)),
    "slots": (lambda x, g: x * g(1.5, 2.5), (float.__mul__, float.__add__)),
    "methods of classes": (lambda x, g: x * len(g("ab")), (dict.fromkeys, collections.OrderedDict.fromkeys)),
}


@pytest.mark.parametrize(("function", "functions"), FUNCTIONS.values(), ids=FUNCTIONS)
def test_functions_that_are_not_of_python_count_by_what_they_are(function, functions):
    state = SimpleNamespace(g=None)
    given, in_a_list = fuse(function), fuse(lambda x, items: function(x, items[0]))
    read, named = fuse(lambda x: function(x, state.g)), fuse(lambda x, **names: function(x, names["g"]))
    for _ in range(2):
        for state.g in functions:
            expected = function(A, state.g)
            for result in (given(A, state.g), in_a_list(A, [state.g]), read(A), named(A, g=state.g)):
                compare(f"{state.g}", result, expected)


def test_unions_of_classes_count_by_their_classes():
    state = SimpleNamespace(kind=int)
    given = fuse(lambda x, value, kind: x * (2 if isinstance(value, kind) else 3))
    read = fuse(lambda x, value: x * (2 if isinstance(value, state.kind) else 3))
    for state.kind in (int | str, int | float, (int, str), (int, float), int | str):
        expected = A * (2 if isinstance("text", state.kind) else 3)
        compare("argument", given(A, "text", state.kind), expected)
        compare("attribute", read(A, "text"), expected)


def test_queues_and_devices_count_by_what_they_are():
    queues = A.sycl_queue, dpctl.SyclQueue(property="in_order"), dpctl.SyclQueue()
    state = SimpleNamespace(queue=None)
    given = fuse(lambda x, queue: (x * 2, dpnp.ones(3, sycl_queue=queue) + 1, dpnp.zeros(2, device=queue)))
    read = fuse(lambda x: (x * 2, dpnp.ones(3, sycl_queue=state.queue) + 1))
    of = fuse(lambda x: dpnp.full(3, 2.0, device=state.queue))
    for state.queue in (*queues, *queues):
        for _, *made in (given(A, state.queue), read(A)):
            assert all(array.sycl_queue == state.queue for array in made)
            compare("ones", made[0], dpnp.ones(3, sycl_queue=state.queue) + 1)
    for state.queue in (*[dpnp.ones(1, sycl_queue=queue).device for queue in queues], A.sycl_device):
        compare("device", of(A), dpnp.full(3, 2.0, device=state.queue))
