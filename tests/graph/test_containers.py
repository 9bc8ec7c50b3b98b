# ruff: noqa: C416, C417, E741, RUF015, SIM300, UP031 (the programs are written as users write them)
"""Containers from outside: what a function takes out of them, changes in them, and what a kept plan has to see.

Each program runs plain and fused, three calls with a change between: results and state have to be equal.
"""

from __future__ import annotations

import collections
import copy
import enum
import functools
import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import dpnp
import pytest

import tl_dpnp


class State:
    """What a program finds outside of itself."""


class OwnList(list):
    """A list of a class of its own."""


class OwnDict(dict):
    """A dict of a class of its own."""

    def __missing__(self, key: Any) -> float:
        return 5.0


Pair = collections.namedtuple("Pair", "one other")
S: Any = State()


@tl_dpnp.fuse
def rows_of(a: Any, held: list[float]) -> Any:
    """Append lists to a list, one of them from outside, and to each of them after that."""
    rows: list[Any] = []
    row = [a * 2]
    rows.append(row)
    row.append(a)
    rows.insert(0, held)
    return rows[1] is row, rows[0] is held, rows[1][1] is a, len(rows[1]), rows[0][0] * a


def test_lists_that_are_stored_in_others_stay_the_same_lists() -> None:
    array = dpnp.ones(3)
    for number in (2.0, 3.0, 2.0):
        *same, scaled = rows_of(array, [number])
        assert same == [True, True, True, 2]
        assert float(scaled[0]) == number


def three_calls(program: Callable[..., Any], make: Callable[[], dict[str, Any]], change: Any) -> list[Any]:
    """Return the results or errors of three calls, with the state after each."""
    S.__dict__.clear()
    S.__dict__.update(make())
    a = dpnp.full((3, 4, 4), 2.0, dtype="float32")
    seen: list[Any] = []
    for _ in range(3):
        try:
            result = program(a)
            seen.append((result.shape, str(result.dtype), float(result.sum())))
        except Exception as error:
            seen.append((type(error), str(error)))
        seen.append({name: _described(value) for name, value in vars(S).items()})
        if change is not None:
            change()
    return seen


def _described(value: Any) -> str:
    if isinstance(value, list) and any(isinstance(part, dpnp.ndarray) for part in value):
        return str([float(part.sum()) for part in value])
    return repr(value)


def same_as_plain(program: Callable[..., Any], make: Callable[[], dict[str, Any]], change: Any = None) -> None:
    expected = three_calls(program, make, change)
    assert three_calls(tl_dpnp.fuse(program), make, change) == expected


def works(program: Callable[..., Any], make: Callable[[], dict[str, Any]]) -> bool:
    """Return whether plain Python can run a program on such a container."""
    return not isinstance(three_calls(program, make, None)[0][0], type)


# --- containers that change while they are gone through --------------------------------------------------------------


def zipped(a):
    count = 0
    for _, i in zip(S.A, [1, 2, 3, 4], strict=False):
        S.A.append(i)
        count += 1
    return a @ a * count


def enumerated(a):
    count = 0
    for i, _ in enumerate(S.A):
        if i < 5:
            S.A.append(i)
            count += 1
    return a @ a * count


def backwards(a):
    total = 0
    for x in reversed(S.A):
        total = total * 3 + x
        S.A[0] += 5
    return a @ a * total


def mapped(a):
    total = 0
    for x in map(lambda x: x + 1, S.A):
        total += x
        if len(S.A) < 6:
            S.A.append(x)
    return a @ a * total


def filtered(a):
    total = 0.0
    for x in filter(None, S.A):
        total += x
        if len(S.A) < 6:
            S.A.append(x)
    return a @ a * total


def iterated(a):
    values = iter(S.A)
    S.A.append(3)
    return a @ a * sum(values)


def plain_for(a):
    total = 0
    for x in S.A:
        if len(S.A) < 7:
            S.A.append(x + 1)
        total += x
    return a @ a * total


def items_grow(a):
    for key, _ in S.D.items():
        S.D["x" + key] = 1
    return a @ a


def zipped_dict_grows(a):
    for key, i in zip(S.D, range(10), strict=False):
        S.D["y" + key] = i
    return a @ a


def view_before(a):
    values, items, keys = S.D.values(), S.D.items(), S.D.keys()
    before = len(values)
    S.D["new"] = 7
    return a @ a * sum(values) * (before + 10 * len(items)) * (3 if "new" in keys else 2)


def reduced_into(a):
    def collect(into, x):
        into.append(x)
        return into

    return a @ a * len(functools.reduce(collect, [1, 2], S.A))


def reduced_in_place(a):
    functools.reduce(operator.iadd, [[1], [2]], S.A)
    return a @ a * len(S.A)


def mapped_method(a):
    list(map(S.A.append, [1, 2]))
    return a @ a * len(S.A)


def sorted_by(a):
    sorted([3, 1], key=lambda x: S.A.append(x) or x)
    return a @ a * len(S.A)


def added_in_place(a):
    return a @ a * len(operator.iadd(S.A, [4]))


def greatest_changed(a):
    max(S.A, S.B).append(9)
    min(S.A, S.B, key=len).append(5)
    return a @ a * len(S.A) * len(S.B)


def same_object(a):
    return a @ a * (2 if operator.is_(S.A, S.A) else 3)


@pytest.mark.parametrize("program", [
    zipped, enumerated, backwards, mapped, filtered, iterated, plain_for, items_grow, zipped_dict_grows, view_before,
    reduced_into, reduced_in_place, mapped_method, sorted_by, added_in_place, greatest_changed, same_object,
])
def test_changed_on_the_way(program):
    same_as_plain(program, lambda: {"A": [1, 2], "B": [2, 1, 1], "D": {"a": 1, "b": 2}})


# --- what is taken out of them, which a kept plan has to look at again -----------------------------------------------

SEQUENCE_PROGRAMS = {
    "sum": lambda a: a @ a * sum(S.A),
    "max": lambda a: a @ a * max(S.A),
    "zip": lambda a: a @ a * [x * y for x, y in zip(S.A, [1, 2], strict=True)][0],
    "for": lambda a: a @ a * [x for x in S.A][0],
    "enumerate": lambda a: a @ a * dict(enumerate(S.A))[0],
    "map": lambda a: a @ a * list(map(lambda x: x * 2, S.A))[0],
    "fsum": lambda a: a @ a * math.fsum(S.A),
    "sorted": lambda a: a @ a * sorted(S.A)[-1],
    "star": lambda a: a @ a * (lambda x, y: x + y)(*S.A),
    "min of a star": lambda a: a @ a * min(*S.A),
    "tuple": lambda a: a @ a * tuple(S.A)[0],
    "equal": lambda a: a @ a * (2 if S.A == type(S.A)([1.0, 2.0]) else 3),
    "equal to a pair": lambda a: a @ a * (2 if S.A == Pair(1.0, 2.0) else 3),
    "less": lambda a: a @ a * (2 if S.A < type(S.A)([1.5, 0.0]) else 3),
    "in": lambda a: a @ a * (2 if 1.0 in S.A else 3),
    "len": lambda a: a @ a * len(S.A),
    "reduce": lambda a: a @ a * functools.reduce(operator.add, S.A, 1.0),
    "chain": lambda a: a @ a * sum(itertools.chain(S.A, [1.0])),
    "accumulate": lambda a: a @ a * list(itertools.accumulate(S.A))[-1],
    "reversed": lambda a: a @ a * list(reversed(S.A))[-1],
    "getitem": lambda a: a @ a * operator.getitem(S.A, 0),
    "itemgetter": lambda a: a @ a * operator.itemgetter(0)(S.A),
    "copy": lambda a: a @ a * copy.copy(S.A)[0],
    "text": lambda a: a @ a * float(f"{S.A[0]}"),
    "concatenated": lambda a: a @ a * (S.A + type(S.A)([3.0]))[0],
    "repeated": lambda a: a @ a * (S.A * 2)[2],
    "concat": lambda a: a @ a * operator.concat(S.A, type(S.A)([1.0]))[0],
    "count": lambda a: a @ a * (S.A.count(1.0) + 1),
    "index": lambda a: a @ a * (S.A.index(2.0) + 1),
    "set": lambda a: a @ a * len(set(S.A) | {2.0}),
    "fromkeys": lambda a: a @ a * list(dict.fromkeys(S.A))[0],
    "any": lambda a: a @ a * (2 if any(x > 1.5 for x in S.A if x != 2.0) else 3),
    "array": lambda a: a @ dpnp.asarray(list(S.A) * 2, dtype="float32"),
}
SEQUENCES: dict[str, Callable[..., Any]] = {
    "list": list, "tuple": tuple, "own list": OwnList, "deque": collections.deque, "named tuple": lambda v: Pair(*v),
}


@pytest.mark.parametrize("kind", SEQUENCES)
@pytest.mark.parametrize("program", SEQUENCE_PROGRAMS)
def test_sequence_is_looked_at_again(program, kind):
    make = SEQUENCES[kind]

    def change():
        S.A = make([S.A[0] + 1, S.A[1]])

    def change_in_place():
        S.A[0] += 1

    runs = SEQUENCE_PROGRAMS[program]
    if not works(runs, lambda: {"A": make([1.0, 2.0])}):
        pytest.skip("plain Python cannot do that with this container")
    for one, other in ((1.0, 2.0), (1, 2), (1, 2.5)):
        same_as_plain(runs, lambda: {"A": make([one, other])}, change)  # noqa: B023
        if kind not in ("tuple", "named tuple"):
            same_as_plain(runs, lambda: {"A": make([one, other])}, change_in_place)  # noqa: B023


DICT_PROGRAMS = {
    "item": lambda a: a @ a * S.D["a"],
    "get": lambda a: a @ a * S.D.get("a"),
    "missing": lambda a: a @ a * S.D["zz"],
    "sum": lambda a: a @ a * sum(S.D.values()),
    "len": lambda a: a @ a * len(S.D),
    "keywords": lambda a: a @ a * (lambda a, b: a + b)(**S.D),
    "merged": lambda a: a @ a * {**S.D}["a"],
    "or": lambda a: a @ a * (S.D | {"c": 1.0})["a"],
    "items": lambda a: a @ a * list(S.D.items())[0][1],
    "greatest key": lambda a: a @ a * S.D[max(S.D, key=S.D.get)],
    "greatest item": lambda a: a @ a * max(S.D.items(), key=lambda item: item[1])[1],
    "equal": lambda a: a @ a * (2 if S.D == {"a": 1.0, "b": 2.0} else 3),
    "dict": lambda a: a @ a * dict(S.D)["a"],
    "dict of items": lambda a: a @ a * dict(S.D.items())["a"],
    "sorted": lambda a: a @ a * sorted(S.D.items())[0][1],
    "percent": lambda a: a @ a * float("%(a)s" % S.D),
    "format": lambda a: a @ a * float("{a}".format(**S.D)),
    "format_map": lambda a: a @ a * float("{a}".format_map(S.D)),
    "reversed": lambda a: a @ a * list(reversed(S.D.values()))[-1],
    "getitem": lambda a: a @ a * operator.getitem(S.D, "a"),
    "next": lambda a: a @ a * next(iter(S.D.values())),
    "star": lambda a: a @ a * [*S.D.values()][0],
    "tuple": lambda a: a @ a * tuple(S.D.values())[0],
    "in values": lambda a: a @ a * (2 if 1.0 in S.D.values() else 3),
    "in items": lambda a: a @ a * (2 if ("a", 1.0) in S.D.items() else 3),
    "a view": lambda a: (lambda view: a @ a * sum(view) * len(view))(S.D.values()),
    "zipped views": lambda a: a @ a * [v + w for (_, v), w in zip(S.D.items(), S.D.values(), strict=True)][0],
    "setdefault": lambda a: a @ a * S.D.setdefault("a", 9.0),
}
DICTS: dict[str, Callable[..., Any]] = {
    "dict": dict, "own dict": OwnDict, "OrderedDict": collections.OrderedDict, "Counter": collections.Counter,
    "defaultdict": functools.partial(collections.defaultdict, float),
}


@pytest.mark.parametrize("kind", DICTS)
@pytest.mark.parametrize("program", DICT_PROGRAMS)
def test_dict_is_looked_at_again(program, kind):
    def change():
        S.D["a"] += 1

    runs, state = DICT_PROGRAMS[program], lambda: {"D": DICTS[kind]({"a": 1.0, "b": 2.0})}
    if not works(runs, state):
        pytest.skip("plain Python cannot do that with this container")
    same_as_plain(runs, state, change)


NESTED_PROGRAMS = {
    "element of a field": lambda a: a @ a * S.P.one[0] * S.P.other["k"],
    "sum of a field": lambda a: a @ a * sum(S.P.one) * sum(x[0] for x in [S.P[0]]),
    "greatest of fields": lambda a: a @ a * max([S.P.one])[0],
    "fields of elements": lambda a: a @ a * sum(p.one for p in S.L) * max(S.L)[0] * sorted(S.L)[0].one,
    "smallest by a field": lambda a: a @ a * min(S.L, key=lambda p: p.one).one,
    "transposed": lambda a: a @ a * sum(k * l for k, l in zip(*S.L, strict=True)) * sum(x for p in S.L for x in p),
}


@pytest.mark.parametrize("program", NESTED_PROGRAMS)
def test_nested_is_looked_at_again(program):
    def change():
        S.P.one[0] += 1
        S.P.other["k"] += 1
        S.L[0] = Pair(S.L[0].one + 1, 2.0)

    same_as_plain(
        NESTED_PROGRAMS[program],
        lambda: {"P": Pair([1.0, 2.0], {"k": 3.0}), "L": [Pair(1.0, 2.0), Pair(3.0, 4.0)]}, change,
    )


ARRAY_PROGRAMS = {
    "sum": lambda a: sum(S.X) @ a,
    "reduce": lambda a: functools.reduce(operator.matmul, S.X, a),
    "zip": lambda a: sum(x @ y for x, y in zip(S.X, S.X[1:], strict=False)),
    "max": lambda a: max(S.X, key=lambda x: float(x.sum())) @ a,
    "star": lambda a: (lambda x, y, z: x @ y @ z)(*S.X),
    "enumerate": lambda a: sum(i * x for i, x in enumerate(S.X)) @ a,
    "reversed": lambda a: functools.reduce(lambda p, q: p @ q, reversed(S.X)),
    "islice": lambda a: sum(itertools.islice(S.X, 1, None)) @ a,
    "sorted": lambda a: sorted(S.X, key=lambda x: -float(x[0, 0, 0]))[0] @ a,
    "map": lambda a: sum(map(lambda x: x @ a, S.X)),
    "add": lambda a: operator.add(S.X[0], a),
    "is": lambda a: a @ a * (2 if S.X[0] is operator.getitem(S.X, 0) else 3),
    "in": lambda a: a @ a * (2 if S.X[0] in S.X else 3),
    "in, of another": lambda a: a @ a * (2 if S.Y[0] in S.X else 3),
    "not in": lambda a: a @ a * (2 if S.X[1] not in (S.X[1], 5) else 3),
    "index": lambda a: a @ a * S.X.index(S.Y[0]),
    "index in a new list": lambda a: a @ a * [S.Y[0], a].index(S.X[0]),
    "count": lambda a: a @ a * (S.X[:1] * 2).count(S.Y[0]),
    "equal": lambda a: a @ a * (2 if S.X[:1] == S.Y else 3),
    "equal dicts": lambda a: a @ a * (2 if {"a": S.X[0]} == {"a": S.Y[0]} else 3),
    "values": lambda a: a @ a * (2 if S.X[0] in {"a": S.Y[0]}.values() else 3),
    "items": lambda a: a @ a * (2 if ("a", S.X[0]) in dict(a=S.Y[0]).items() else 3),  # noqa: C408
    "contains": lambda a: a @ a * (2 if operator.contains(S.Y, S.X[0]) else operator.indexOf(S.X, S.Y[0])),
    "default": lambda a: a @ a * (2 if {}.get("a", S.X) is S.X and max([], default=S.X) is S.X else 3),
    "appended to a default": lambda a: {}.get("a", S.Z).append(a) or a @ a * len(S.Z),
}


@pytest.mark.parametrize("program", ARRAY_PROGRAMS)
def test_arrays_in_lists(program):
    def change():
        S.X[0] = S.X[0] * 2

    def make():
        arrays = [dpnp.full((3, 4, 4), value, dtype="float32") for value in (1, 2, 3)]
        return {"X": arrays, "Y": arrays[:1], "Z": arrays[1:]}

    same_as_plain(ARRAY_PROGRAMS[program], make, change)


def test_arrays_are_compared_as_the_function_left_them():
    def program(a):
        written = S.X[0]
        written += a.sum()
        return S.X[0] in [S.X[1], S.X[0]], [S.X[0]] == [S.X[2]], [written] < [S.X[1]], a @ a

    seen = []
    for function in (program, tl_dpnp.fuse(program)):
        S.X = [dpnp.asarray(value, dtype="float32") for value in (1, 5, 3)]  # dpnp 0.20 takes truth of no others
        calls = [function(dpnp.asarray([step], dtype="float32")) for step in (1, 1, 2, 0)]
        seen.append([(*same, float(product)) for *same, product in calls])
    assert seen[0] == seen[1]


# --- which object a number is ----------------------------------------------------------------------------------------

IDENTITIES = {
    "small integers": lambda a: a @ a * (2 if S.n is int(1.5) else 3),
    "one float twice": lambda a: a @ a * (2 if S.x is S.y else 3),
    "a float and itself": lambda a: a @ a * (2 if S.x is S.x else 3) * S.x,
    "equal floats": lambda a: a @ a * (2 if S.x is S.z else 3),
    "none": lambda a: a @ a * (2 if S.x is None else S.x),
    "true": lambda a: a @ a * (2 if S.flag is True else 3),
    "one is true": lambda a: a @ a * (2 if S.n is True else 3),
    "as a function": lambda a: a @ a * (2 if operator.is_(S.x, S.y) else 3),
}


@pytest.mark.parametrize("program", IDENTITIES)
def test_identity_of_numbers(program):
    def change():
        S.n, S.y, S.flag = S.n + 1, float(str(S.x)), not S.flag

    def make():
        x = float("1.5")
        return {"n": 1, "x": x, "y": x, "z": float("1.5"), "flag": True}

    same_as_plain(IDENTITIES[program], make, change)


# --- containers that are in themselves -------------------------------------------------------------------------------

OWN_ELEMENTS = {
    "len": lambda x, a: a @ a * len(x),
    "elements": lambda x, a: a @ a * x[-1][-1][0],
    "an array in it": lambda x, a: x[1] @ a,
    "changed": lambda x, a: x.__setitem__(0, x[0] + 1) or a @ a * x[-1][0],
    "stored": lambda x, a: x[-1].__setitem__(1, a @ a) or x[1],
    "returned": lambda x, a: (x, a @ a),
}


@pytest.mark.parametrize("program", OWN_ELEMENTS)
@pytest.mark.parametrize("kind", [list, dict])
def test_containers_that_are_in_themselves(program, kind):
    """An argument that holds itself is like no other: the function is traced at each call."""
    def three_of(function):
        values = [1.0, dpnp.full((2, 4, 4), 2, dtype="float32"), None]
        x = kind(enumerate(values)) if kind is dict else values
        last = 2 if kind is dict else -1
        x[last] = x
        if kind is dict:
            x[-1] = x
        a = dpnp.ones((2, 4, 4), dtype="float32")
        seen = []
        for number in range(3):
            result = function(x, a)
            if isinstance(result, tuple):
                assert result[0] is x
                result = result[1]
            seen.append((dpnp.asnumpy(result).tolist(), x[0], dpnp.asnumpy(x[1]).tolist(), x[last] is x))
            x[0], a = x[0] + number, a + 1
        return seen

    function = OWN_ELEMENTS[program]
    assert three_of(tl_dpnp.fuse(function)) == three_of(function)


@pytest.mark.parametrize("argument", ["in itself", "keys", "keys inside"])
def test_arguments_that_are_like_no_others(argument):
    """There is no plan that could be found again for them, and none is kept."""
    held: Any = [1.0]
    held.append(held)
    value = {"in itself": held, "keys": {State(): 1.0}, "keys inside": [{(1, State()): 2.0}]}[argument]

    @tl_dpnp.fuse
    def function(value, a):
        return a @ a * len(value)

    a = dpnp.ones((2, 4, 4), dtype="float32")
    for number in range(5):
        assert (function(value, a * number) == 4 * number**2 * len(value)).all()
    assert (function.stats.traced_calls, function.stats.plans) == (5, 0)
    reasons = {each.reason for each in function.explain(value, a).again}
    assert reasons == {"it is in itself" if argument == "in itself" else "its keys are not simple values"}


class Field(enum.Enum):
    """Keys of users."""

    P = 1
    Q = 2


Field.P.scale = 1.0


def test_keys_that_are_simple_or_the_same():
    """Tuples of simple values and members of enumerations are keys that a plan depends on."""

    def scaled(values, a):
        total = a
        for key, value in values.items():
            total = total + a @ a * value * (3.0 if key is Field.P else 2.0 if key is Field.Q else key[0])
        return total

    fused = tl_dpnp.fuse(scaled, fullgraph=True)
    a = dpnp.full((2, 4, 4), 2, dtype="float32")
    for first, second in ((Field.P, 1), (Field.Q, 1), (Field.P, 4), (Field.P, 1)):
        for _ in range(2):
            values = {first: 2.0, (second, "x"): 3.0}
            assert (fused(values, a) == scaled(values, a)).all()
    assert (fused.stats.traces, fused.stats.plan_hits) == (3, 5)


def test_what_keys_have_may_change():
    def scaled(values, a):
        return a @ a * sum(key.scale * value for key, value in values.items())

    fused = tl_dpnp.fuse(scaled)
    a = dpnp.full((2, 4, 4), 2, dtype="float32")
    for scale in (1.0, 3.0, 5.0):
        Field.P.scale = scale
        assert (fused({Field.P: 2.0}, a) == a @ a * 2 * scale).all()
