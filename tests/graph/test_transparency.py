"""A fused function cannot be told apart from a plain one, whatever of Python it uses.

Each case is a program that is given a decorator and yields what it sees; it is run with `tl_dpnp.fuse` and without.
"""

import collections
import dataclasses
import functools
import gc
import inspect
import logging
import math
import sys
import warnings
from types import SimpleNamespace

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.graph.support import compare


def _array(seed, size=3):
    return dpnp.asarray((np.random.default_rng(seed).integers(-6, 7, (size, 4, 4)) / 2).astype("f4"))


A, B = _array(0), _array(1)
GLOBAL = 2


def attributes_by_getattribute(fuse):
    class Odd:
        def __getattribute__(self, name):
            return state["k"]

    state, odd = {"k": 2}, Odd()
    f = fuse(lambda x: x * odd.k)
    yield f(A)
    state["k"] = 3
    yield f(A)


def a_class_gets_special_methods_later(fuse):
    class Own:
        k = 2

    def f(x):
        made = Own()
        made.q = 2
        return x * made.q * made.k

    f = fuse(f)
    yield f(A)
    Own.__setattr__ = lambda self, name, value: object.__setattr__(self, name, value * 3)
    yield f(A)
    Own.__getattribute__ = lambda self, name: 7
    yield f(A)


def numbers_and_texts_of_own_classes(fuse):
    class Number(float):
        def __mul__(self, other):
            return other * state["k"]

        __rmul__ = __mul__

    class Whole(int):
        def __add__(self, other):
            return state["k"]

    class Text(str):
        def __eq__(self, other):
            return state["k"] == 2

        __hash__ = str.__hash__

    state, number, whole, text = {"k": 2}, Number(2.0), Whole(2), Text("a")
    functions = [fuse(lambda x: number * x), fuse(lambda x, v=number: v * x), fuse(lambda x: x * (whole + 1)),
                 fuse(lambda x: x * 2 if text == "b" else x)]
    for k in (2, 3):
        state["k"] = k
        yield [f(A) for f in functions]
    f = fuse(lambda x, v: x * 2.0 if v == "a" else x)
    for k in (2, 3):
        state["k"] = k
        yield f(A, text)


def identity_of_arrays(fuse):
    def f(x, kept):
        held = [x]
        held.append(x)
        kept.w = x
        same = held[0] is x, held.pop() is x, kept.w is x, x is A, x is not B
        return same, x.__class__ is dpnp.ndarray, id(x) == id(A)

    f, kept = fuse(f), SimpleNamespace()
    for x in (A, B, A):
        yield f(x, kept)
        yield kept.w is x


def what_sees_variables(fuse):
    def f(x):
        return x * globals()["GLOBAL"]

    def g(x):
        k = 3
        return x * eval("k"), sorted(locals())

    yield fuse(f)(A)
    yield fuse(g)(A)


def super_finds_another_method(fuse):
    class Base:
        def go(self, x):
            return x * 2

        @classmethod
        def of_class(cls, x):
            return x - 1

    class Middle(Base):
        pass

    class Derived(Middle):
        def go(self, x):
            return super().go(x)

        @classmethod
        def of_class(cls, x):
            return super().of_class(x)

    derived = Derived()
    f = fuse(lambda x: derived.go(x) + derived.of_class(x))
    yield f(A)
    Middle.go = lambda self, x: x * 7
    yield f(A)
    Middle.of_class = classmethod(lambda cls, x: x * 5)
    yield f(A)


def data_classes_get_other_defaults(fuse):
    @dataclasses.dataclass
    class Data:
        w: object
        k: int = 2

    f = fuse(lambda x: Data(x).k * x)
    yield f(A)
    Data.__init__.__defaults__ = (5,)
    yield f(A)


def order_of_keywords(fuse):
    @fuse
    def f(*arrays, **named):
        return *named, arrays[0] * named.get("t", 1)

    yield f(A, t=2.0, u=B)
    yield f(A, u=B, t=3.0)
    yield f(A, b=1, a=2)


def objects_that_are_compared(fuse):
    class Ordered:
        def __init__(self, k):
            self.k = k

        def __lt__(self, other):
            return self.k < other.k

        def __eq__(self, other):
            return self.k == other.k

        def __index__(self):
            return self.k

    items = [Ordered(3), Ordered(1)]
    functions = [
        fuse(lambda x: x * sorted(items)[0].k), fuse(lambda x: x * min(items).k), fuse(lambda x: x[items[1]]),
        fuse(lambda x: x * (2 if items[0] in [items[1]] else 3)), fuse(lambda x: x[items[1] :].shape[0] * x),
    ]
    for k in (3, 0, 1):
        items[0].k, items[1].k = 2 - k, k - 1 if k else 2
        yield [f(A) for f in functions]


def read_only_arrays(fuse):
    def f(x):
        x += 1
        return x * 2

    def g(x):
        x[...] = 1
        return x * 2

    for function in (fuse(f), fuse(g)):
        writable, fixed = _array(3), _array(3)
        fixed.flags.writable = False
        yield function(writable)
        with pytest.raises(ValueError, match="read-only"):
            function(fixed)
        yield fixed


def iterators_over_memory(fuse):
    def f(x):
        y = x * 1
        places = y.flat
        z = y + 1
        places[0] = 9
        return y, z

    f = fuse(f)
    yield f(A)
    yield f(A)


def lists_with_arrays_from_outside(fuse):
    kept = [A, B]
    functions = [fuse(lambda x: len(kept) * x), fuse(lambda x: (len(kept[:]), kept.count(3)) if False else x),
                 fuse(lambda x: (lambda held: (held.append(x), len(held))[1])(kept[:]))]
    for _ in range(2):
        yield [f(A) for f in functions]
        yield kept
        kept.append(A)


def numbers_that_become_complex(fuse):
    f, g = fuse(lambda x, t: x * t ** 0.5), fuse(lambda x, t: x * math.log(t))
    yield f(A, 4.0), f(A, -4.0), f(A, 9.0)
    for t in (2.0, -1.0, 3.0):
        try:
            yield g(A, t)
        except ValueError as error:
            yield str(error)


def values_that_change_while_they_are_read(fuse):
    state, items, table = SimpleNamespace(k=1.0, w=A), [1.0, 2.0], {"k": 1.0}

    def f(x):
        state.k = state.k * 2
        first = x * state.k
        state.k += 1
        items[0] = items[0] + 1.0
        table["k"] += items[0]
        state.w = state.w + 1
        return first, state.k, items[0], table["k"], state.w * 1

    f = fuse(f)
    for _ in range(3):
        yield f(A)
        yield state.k, items, table, state.w


def names_that_are_missing(fuse):
    class Own:
        pass

    own = Own()
    functions = [fuse(lambda x: x * getattr(Own(), "q", 4)), fuse(lambda x: x * getattr(Own, "q", 4)),
                 fuse(lambda x: x * (2 if hasattr(own, "q") else 3))]
    yield [f(A) for f in functions]
    Own.q = 2
    yield [f(A) for f in functions]
    own.q = 5
    del Own.q
    yield [f(A) for f in functions]


def what_a_function_leaves_behind(fuse):
    state = {}

    def f(x, k):
        y = x * k

        def inner(z):
            return z + y * k + state["w"]

        state.update(inner=inner, x=(x, [x, k]), numbers={k}, deep=collections.deque([x]))
        state.update(later=(v * k for v in (x, y)), partial=functools.partial(inner, x))
        return y

    f = fuse(f)
    for k, w in ((2.0, A), (3.0, B)):
        state["w"] = w
        yield f(A, k)
        inner, given, held = state["inner"], state["x"], state["deep"]
        yield given[0] is A, given[1][0] is A, held[0] is A, state["partial"].args[0] is A
        yield given, state["numbers"], list(state["later"]), [type(n) is float for n in state["numbers"]]
        state["w"] = A
        yield inner(B)
        yield fuse(lambda x, inner=inner: inner(x))(A)


def globals_of_a_number(fuse):
    global GLOBAL

    @fuse
    def f(x, k):
        global GLOBAL
        GLOBAL = k * 2
        return x * GLOBAL

    for k in (1.5, 2.5):
        yield f(A, k)
        yield type(GLOBAL) is float, GLOBAL
    GLOBAL = 2


def errors_after_changes(fuse):
    def f(x, kept, k):
        x += 1
        kept.append(x)
        kept.append((x * 2, k * 2))
        if k > 1:
            raise ValueError("large")
        return x * 2

    f = fuse(f)
    for k in (0.5, 1.5, 2.5):
        x, kept = _array(5), []
        try:
            yield f(x, kept, k)
        except ValueError as error:
            yield str(error)
        yield x
        yield kept, kept[0] is x, type(kept[1][1]) is float


def writes_that_wait_for_each_other(fuse):
    def swap(a, b):
        for _ in range(5):
            b += a
            a, b = b, a

    def mixed(a, b):
        a += 1
        c = b + a
        a *= 2
        b += a
        d = c * b
        a -= d
        c += a
        return c, d

    for function in (fuse(swap), fuse(mixed)):
        for _ in range(2):
            a, b = _array(2), _array(3)
            yield function(a, b)
            yield a, b


def writes_to_reversed_views(fuse):
    def f(x, o):
        y = x * 2
        y[..., ::-1][...] = y - y.max(-1, keepdims=True)
        dpnp.matmul(x, x, out=o[..., ::-1])
        return y

    f = fuse(f)
    for _ in range(2):
        o = _array(4)
        yield f(A, o)
        yield o


def results_that_a_path_leads_to(fuse):
    state = SimpleNamespace(items=[1, 2], table={"a": SimpleNamespace(k=1)})
    f = fuse(lambda x: (state.items, state.table["a"], x * 1))
    for _ in range(2):
        items, inner, product = f(A)
        yield items is state.items, inner is state.table["a"]
        yield product
        state.items = [5]


def classes_that_are_gone(fuse):
    f = fuse(lambda x, thing: x * thing.k)
    for k in range(1, 5):
        yield f(A, type("Thing", (), {"k": k})())
        gc.collect()


def where_messages_are_from(fuse):
    """Functions that look at the frame of their caller: its line and its name."""
    records, logger = [], logging.getLogger("tests.graph.user")
    handler = logging.Handler()
    handler.emit = lambda record: records.append((record.pathname, record.lineno, record.funcName, record.getMessage()))

    def helper(x):
        logger.info("of shape %s", x.shape)
        warnings.warn("in the helper", DeprecationWarning, stacklevel=1)
        warnings.warn("of the caller", UserWarning, stacklevel=2)
        return x @ x

    def function(x, dt):
        logging.LoggerAdapter(logger, {}).warning("dt is %s", dt)
        y = helper(x) * dt
        return y, inspect.currentframe().f_code.co_name, sys._getframe().f_lineno, inspect.stack()[0].function

    f = fuse(function)
    logger.addHandler(handler)
    logger.setLevel("INFO")
    try:
        for dt in (0.5, 0.25, 0.25):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                yield f(A, dt)
            yield [(str(w.message), w.category, w.filename, w.lineno) for w in caught]
            yield list(records)
    finally:
        logger.removeHandler(handler)


def names_of_functions(fuse):
    def outer(x, *, k=1):
        def inner(y):
            return y * k

        functions = inner, lambda: 0
        return inner(x), [function.__qualname__ for function in functions], (y for y in ()).__qualname__, inner

    class Owner:
        @fuse
        def method(self, x):
            return x * 1, (lambda: 0).__qualname__

    f = fuse(outer)
    for _ in range(2):
        *seen, inner = f(A)
        yield seen
        yield Owner().method(A)
        for wrong in (lambda: f(), lambda: f(A, 2), lambda: f(A, other=1), lambda inner=inner: inner()):
            try:
                wrong()
            except TypeError as error:
                yield str(error)


def attributes_of_arrays(fuse):
    """What the user's code has put on arrays, the caller's own and new ones, as gradients are."""
    def backward(x):
        y = x * 2
        y.source, x.grad = x, y
        y.name, x.name = "y", "x"
        del x.name
        x.count = getattr(x, "count", 0)
        x.count += 1
        return y

    def scaled(x, w):
        return x * getattr(x, "scale", 2), w * (getattr(state.w, "scale", 3) if hasattr(w, "scale") else 4)

    if not hasattr(A, "__dict__"):  # arrays of dpnp 0.20 have no room for any
        return
    backward, scaled = fuse(backward), fuse(scaled)
    x, w = _array(2), _array(3)
    state = SimpleNamespace(w=_array(5))
    for number in range(2):
        y = backward(x)
        yield y, y.source is x, x.grad is y, y.name, hasattr(x, "name"), x.count
        for changed in (x, w, state.w):
            yield scaled(x, w)
            changed.scale = 7 + number
        yield scaled(x, w)
        del x.scale
        yield scaled(x, w)


def what_arrays_are_and_have(fuse):
    """Lazy arrays have a method to be gone through, which dpnp 0.15 has none of, and leave NumPy's functions alone."""
    def f(x):
        y = x @ x
        return [(isinstance(a, collections.abc.Iterable), isinstance(a, (list, collections.abc.Sized)),
                 isinstance(a, collections.abc.Hashable), isinstance(a, dpnp.ndarray), hasattr(a, "__iter__"),
                 getattr(a, "__array_ufunc__", 3), getattr(a, "settle", 4), hasattr(a, "__getitem__"),
                 [row * 2 for row in a]) for a in (x, y)]

    f = fuse(f)
    for _ in range(3):
        yield f(A)


def arrays_of_dpctl(fuse):
    """They were taken for arrays of dpnp; what is written to one is seen in that whose memory it has."""
    def f(x, usm):
        y = x @ x
        of_y, given = dpnp.get_usm_ndarray(y), dpnp.get_usm_ndarray(a=usm)
        of_y[0] = 7
        others = dpnp.get_usm_ndarray_or_scalar(x), dpnp.get_usm_ndarray_or_scalar(3), given
        return y + 1, type(of_y).__name__, given is usm, given.shape, [type(other).__name__ for other in others]

    f = fuse(f)
    for _ in range(3):
        yield f(A, B.get_array())


PROGRAMS = [value for value in list(globals().values())
            if getattr(value, "__module__", "") == __name__ and getattr(value, "__code__", None)
            and value.__code__.co_varnames[:1] == ("fuse",)]


@pytest.mark.filterwarnings("ignore::tl_dpnp.errors.FusionWarning")
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_fused_as_plain(program):
    plain, fused = list(program(lambda function: function)), list(program(tl_dpnp.fuse))
    assert len(plain) == len(fused)
    for number, (one, other) in enumerate(zip(plain, fused, strict=True)):
        compare(f"{number}", other, one)
