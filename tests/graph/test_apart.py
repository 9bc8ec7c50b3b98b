"""Code of the user that Python runs by itself, as methods of operators are: it finds arrays as the function left them.

Each program records a product and writes to an array in place; then something runs `touch`, which nothing follows, and
reads and changes that array.  What it reads, what was recorded before and what comes after is as without fusion.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import threading
from types import SimpleNamespace
from typing import Any

import dpnp
import pytest

import tl_dpnp
from tests.graph.support import compare

S = SimpleNamespace()


def touch() -> Any:
    """Read the array and change it."""
    seen = S.w * 2
    S.seen.append(seen.asnumpy().tolist())
    S.w[...] = S.w + 5
    return seen


class Getter:
    """A descriptor."""

    def __get__(self, owner, kind=None):
        return touch()

    def __set__(self, owner, value):
        touch()


class Touching:
    """An object all of whose methods read the array and change it."""

    computed = Getter()
    cached = functools.cached_property(lambda self: touch())

    def __bool__(self, *_: Any) -> bool:
        touch()
        return True

    def __hash__(self):
        touch()
        return 3

    def __format__(self, spec):
        touch()
        return "text"

    def __call__(self, value):
        return touch()

    def __iter__(self):
        yield touch()
        yield touch()

    def __enter__(self):
        return touch()

    def __exit__(self, *error):
        touch()

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return touch()

    def __setattr__(self, name, value):
        touch()

    def _touch(self, *_: Any) -> Any:
        return touch()

    def _index(self, *_: Any) -> int:
        return touch().ndim

    @property
    def value(self):
        return touch()

    @value.setter
    def value(self, value):
        touch()

    __add__ = __radd__ = __iadd__ = __matmul__ = __neg__ = __getitem__ = __setitem__ = __delitem__ = _touch
    __index__ = __int__ = __abs__ = _index
    __eq__ = __lt__ = __gt__ = __contains__ = __bool__  # type: ignore[assignment]


class Sized:
    def __len__(self):
        return touch().size

    def __repr__(self):
        touch()
        return "sized"


class Checking(type):
    def __instancecheck__(cls, value):
        touch()
        return True


class Checked(metaclass=Checking):
    pass


class Made:
    def __new__(cls):
        touch()
        return object.__new__(cls)


class ByClass(type):
    def __call__(cls):
        touch()
        return super().__call__()


class MadeByClass(metaclass=ByClass):
    pass


@dataclasses.dataclass
class MadeAfterwards:
    k: int

    def __post_init__(self):
        touch()


@dataclasses.dataclass
class MadeByAssignments:
    k: int

    def __setattr__(self, name, value):
        touch()
        object.__setattr__(self, name, value)


class Problem(Exception):
    def __init__(self):
        touch()


class OfClass:
    computed = Getter()


@contextlib.contextmanager
def touching():
    yield touch()
    touch()


@functools.lru_cache
def cached(number):
    return touch()


def stepping():
    while True:
        yield touch()


def entered(v):
    with v as found:
        return found + S.w


def entered_by_a_generator(v):
    with touching() as found:
        return found + S.w


def entered_by_a_stack(v):
    with contextlib.ExitStack() as stack:
        before = S.w * 2
        return before, stack.enter_context(v), S.w * 1, stack.enter_context(touching())


def gone_through(v):
    total = 0
    for part in v:
        total = total + part * S.w
    return total


def gone_through_generator(v):
    for part in S.steps:
        return part * S.w
    return None


def changed_in_place(v):
    v += 1
    return v


def assigned(v):
    v.value = 1
    v.other = 2
    v[0] = 3


def assigned_at_once(v):
    v.value, v[0] = 1, 2


def deleted(v):
    del v[0]


def decided(v):
    return 1 if v else 2


def raised(v):
    try:
        raise Problem()
    except Problem:
        return S.w * 3


def matched(v):
    match v:
        case Touching(value=found):
            return found


def defined(v):
    class Defined:
        value = touch()

        def again(self):
            return touch()

    return Defined.value, Defined().again(), Defined.__name__, Defined.__qualname__


def in_another_thread(v):
    thread = threading.Thread(target=touch)
    thread.start()
    thread.join()


def behind_a_lock(v):
    with S.lock:
        S.w.__iadd__(1)


ACTS = {
    "add": lambda v: v + 1, "radd": lambda v: 1 + v, "matmul": lambda v: v @ v, "iadd": changed_in_place,
    "negative": lambda v: -v, "equal": lambda v: v == 1, "less": lambda v: 0 < v < 1, "in": lambda v: 1 in v,
    "in a list": lambda v: 1 in [v], "lists": lambda v: [v] == [1], "item": lambda v: v[0],
    "len": lambda v: len(S.sized), "not": lambda v: not v, "and": lambda v: 1 if v and v else 2, "if": decided,
    "text": lambda v: f"{v}", "text of a list": lambda v: len(f"{[S.shown]}"), "remove": lambda v: S.objects.remove(3),
    "sort": lambda v: S.objects.sort(), "of a metaclass": lambda v: isinstance(v, Checked),
    "format": lambda v: "{}".format(v),  # noqa: UP032
    "key": lambda v: len({v: 1}), "element": lambda v: len({v}), "hash": lambda v: hash(v),
    "index": lambda v: [1, 2][v], "index of a list from outside": lambda v: S.items[v],
    "range": lambda v: list(range(v)), "int": lambda v: int(v), "abs": lambda v: abs(v), "list": lambda v: list(v),
    "sum": lambda v: sum([v]), "max": lambda v: max([v, v]) is v, "sorted": lambda v: len(sorted([v, v])),
    "zip": lambda v: list(zip(v, [1], strict=False)), "enumerate": lambda v: list(enumerate(v)),
    "star": lambda v: [*v], "unpacked": lambda v: (lambda a, b: a + b)(*v), "for": gone_through,
    "generator": gone_through_generator, "next": lambda v: next(S.steps), "send": lambda v: S.steps.send(None),
    "generator as a list": lambda v: [part for part, _ in zip(S.steps, [1, 2], strict=False)],
    "property": lambda v: v.value, "descriptor": lambda v: v.computed, "cached property": lambda v: v.cached,
    "missing": lambda v: v.missing, "getattr": lambda v: getattr(v, "missing", 1),
    "of a class": lambda v: OfClass.computed,
    "assigned": assigned, "assigned at once": assigned_at_once, "setattr": lambda v: setattr(v, "value", 1),
    "deleted": deleted, "with": entered, "with a generator": entered_by_a_generator, "with a stack": entered_by_a_stack,
    "new": lambda v: Made() is None,
    "metaclass": lambda v: MadeByClass() is None, "post_init": lambda v: MadeAfterwards(2).k, "exception": raised,
    "setattr of a data class": lambda v: MadeByAssignments(2).k,
    "lru_cache": lambda v: cached(2), "map": lambda v: list(map(v, [1, 2])), "thread": in_another_thread,
    "lock": behind_a_lock, "match": matched, "class": defined, "partial": lambda v: functools.partial(cached, 3)(),
    "itertools": lambda v: len(list(itertools.filterfalse(lambda _: touch() is None, [1, 2]))),
    "itertools of objects": lambda v: list(itertools.starmap(v, [(1,), (2,)])),
    "itertools of generators": lambda v: list(itertools.islice(S.steps, 2)),
    "groups": lambda v: [key for key, _ in itertools.groupby([1, 2], key=lambda k: v(k).size)],
}


@pytest.mark.filterwarnings("ignore::tl_dpnp.errors.FusionWarning")
@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_code_that_is_not_followed_finds_and_leaves_arrays_as_they_are(act):
    def program(x, v):
        product, written = x * S.w, S.w
        written += x
        found = act(v)
        return product, found, x * S.w, written is S.w

    def seen(function):
        S.w = dpnp.asarray([1.0, 2.0, 3.0])
        S.seen, S.lock, S.steps, S.sized = [], threading.Lock(), stepping(), Sized()
        for number in range(3):
            cached.cache_clear()
            v = Touching()
            S.items, S.objects, S.shown = [number, 2 * number], [v, v, 3], S.sized
            yield function(dpnp.asarray([0.5, 1.0, number]), v)
            yield S.w * 1
            yield list(S.seen)

    compare("act", list(seen(tl_dpnp.fuse(program))), list(seen(program)))
