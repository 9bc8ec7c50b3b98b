"""What is unpacked into variables: elements of elements, by several targets at once, and variables that defaults bind.

Each program runs plain and fused, with changes of what it reads in between: results and errors have to be equal.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import dpnp
import pytest

import tl_dpnp
from tests.graph.support import compare

S = SimpleNamespace()
factor = 7.0


def for_pairs(a):
    for k, m in S.pairs:
        a = a * k + m
    return a


def for_pairs_with_a_star(a):
    for k, *m in S.pairs:
        a = a * k + sum(m)
    return a


def list_of_pairs(a):
    return [a * k + m for k, m in S.pairs]


def dict_of_pairs(a):
    return {k: a * m for k, m in S.pairs}[S.pairs[0][0]]


def numbered_pairs(a):
    for i, (k, m) in enumerate(S.pairs):
        a = a * k + m * i
    return a


def zipped_pairs(a):
    return sum(a * k * m[0] for (k, _), m in zip(S.pairs, S.pairs, strict=True))


def items_of_pairs(a):
    for _, (k, m) in {"a": S.pairs[0], "b": S.pairs[1]}.items():
        a = a * k + m
    return a


def nested(a):
    (k, m), [*_, n] = S.pairs
    return a * k + m * n


def nested_after_a_star(a):
    *_, (k, m) = S.pairs
    return a * k + m


def in_a_star(a):
    *((k, m), _), n = [*S.pairs, 5]
    return a * k + m * n


def several_targets(a):
    pairs = one, (k, m) = S.pairs
    return a * k * one[0] + m, pairs is S.pairs, one is S.pairs[0]


def several_patterns(a):
    (k, _), one = _, (m, n) = S.pairs
    return a * k + m * n, one is S.pairs[1]


def several_patterns_of_an_iterator(a):
    k, m = n, o = iter(S.pairs * 2)
    return a * k[0] + m[1] - n[0] + o[1]


def arrays_of_pairs(a):
    return [one * 2 - other for one, other in [(a, a[:1]), (a * 3, 1)]]


CHANGES: list[Callable[[], Any]] = [
    lambda: S.pairs.__setitem__(0, (7.5, 2.0)), lambda: None, lambda: S.pairs[1].__setitem__(1, 5.0),
    lambda: S.pairs.__setitem__(0, (7.5, 3)), lambda: S.pairs.append([1.0, 2.0]), lambda: S.pairs.append((0.5,)),
    lambda: S.pairs.__setitem__(0, 4), lambda: setattr(S, "pairs", [2]), lambda: setattr(S, "pairs", 2),
]


@pytest.mark.parametrize("program", [
    for_pairs, for_pairs_with_a_star, list_of_pairs, dict_of_pairs, numbered_pairs, zipped_pairs, items_of_pairs,
    nested, nested_after_a_star, in_a_star, several_targets, several_patterns, several_patterns_of_an_iterator,
    arrays_of_pairs,
])
def test_elements_of_elements_are_looked_at_again(program):
    a = dpnp.asarray([[1.0, 2.0], [3.0, 5.0]], dtype="float32")

    def seen(function):
        S.pairs = [(1.5, 2.0), [2.5, 1.0]]
        for change in (lambda: None, *CHANGES):
            change()
            try:
                yield function(a)
            except (TypeError, ValueError, IndexError) as error:
                yield type(error), str(error)

    compare(program.__name__, list(seen(tl_dpnp.fuse(program))), list(seen(program)))


def test_pairs_leave_a_plan():
    S.pairs = [(1.5, 2.0), [2.5, 1.0]]
    for program in (for_pairs, numbered_pairs, zipped_pairs, nested, several_targets):
        f = tl_dpnp.fuse(program)
        for _ in range(3):
            f(dpnp.ones((2, 2), dtype="float32"))
        assert f.stats.plan_hits == 2, program.__name__


def bound_by_a_default(a):
    double = lambda x, k=(factor := 0.5): x * k  # noqa: E731
    return double(a) + factor


def bound_by_a_default_of_a_function(a):
    def scaled(x, *, k=(factor := 0.5)):
        return x * k

    return scaled(a) + factor


def bound_in_a_lambda_of_a_list(a):
    return a * factor + sum((lambda: (factor := 2.0))() for _ in range(2))  # noqa: F841


@pytest.mark.parametrize("program", [
    bound_by_a_default, bound_by_a_default_of_a_function, bound_in_a_lambda_of_a_list,
])
def test_variables_that_defaults_bind_are_none_of_the_module(program, monkeypatch):
    f, a = tl_dpnp.fuse(program), dpnp.ones((2, 2), dtype="float32")
    for value in (7.0, 7.0, 9.0, 2):
        monkeypatch.setitem(globals(), "factor", value)
        compare(f"{value}", f(a), program(a))
