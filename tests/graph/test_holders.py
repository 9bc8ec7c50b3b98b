"""What a function has kept of its arguments is found near what it changed, and among all objects where that fails."""

from __future__ import annotations

import collections
import contextlib
import gc
import sys
import weakref
from collections.abc import Iterator
from typing import Any
from unittest import mock

import dpnp
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tl_dpnp
from tests.graph.support import compare, needs_weak_references
from tl_dpnp.graph import release
from tl_dpnp.graph.holders import holders_of, near_holders_of
from tl_dpnp.graph.traced_scalars import ScalarTape

A = dpnp.ones((3, 4, 4), dtype="f4")
Pair = collections.namedtuple("Pair", "x k")


class Model:
    def __init__(self) -> None:
        self.log: list[Any] = []
        self.named: dict[str, Any] = {}
        self.last: Any = None


def _append(model: Model, x: Any, k: Any) -> Any:
    model.log.append((x, k))
    return x @ x * k


def _assign(model: Model, x: Any, k: Any) -> Any:
    model.last = Pair(x, k)
    return x @ x * k


def _nest(model: Model, x: Any, k: Any) -> Any:
    model.named["now"] = {"x": x, "all": [(k, x)]}
    return x @ x * k


def _enclose(model: Model, x: Any, k: Any) -> Any:
    model.log.append(lambda: (x, k))
    return x @ x * k


def _fail(model: Model, x: Any, k: Any) -> Any:
    model.log.append((x, k))
    return x @ x[:, :3] * k


@contextlib.contextmanager
def _counting() -> Iterator[list[int]]:
    """Count how often all objects are gone through."""
    scans: list[int] = []

    def counting(values: Any) -> list[Any]:
        scans.append(len(values))
        return holders_of(values)

    with mock.patch.object(release, "holders_of", counting):
        yield scans


def _kept(model: Model) -> tuple[Any, Any]:
    """Return the array and the number that a function has left in a model."""
    if model.named:
        ((k, x),) = model.named["now"]["all"]
        assert model.named["now"]["x"] is x
        return x, k
    last = model.log[-1] if model.log else model.last
    found: tuple[Any, Any] = last() if callable(last) else last
    return found


@pytest.mark.parametrize("function", [_append, _assign, _nest, _enclose, _fail])
def test_arguments_that_are_kept_are_found_without_going_through_all_objects(function: Any) -> None:
    model, fused = Model(), tl_dpnp.fuse(function)
    with _counting() as scans:
        for k in (1.5, 2.5, 3.5):
            if function is _fail:
                with pytest.raises(ValueError, match="mismatch"):
                    fused(model, A, k)
            else:
                compare("a result", fused(model, A, k), A @ A * k)
            assert _kept(model)[0] is A
            assert (type(_kept(model)[1]), _kept(model)[1]) == (float, k)
    assert not scans


def test_what_is_kept_far_away_is_found_among_all_objects() -> None:
    model = Model()
    model.log = [[[number]] for number in range(5000)]

    @tl_dpnp.fuse
    def f(model: Model, x: Any, k: Any) -> Any:
        model.log[0][0].append((x, k))
        model.log[1].append(0)
        del model.log[1][-1]
        model.log.extend([[[k, x]] * 2])
        return x @ x * k

    for k in (2.5, 3.5):
        compare("a result", f(model, A, k), A @ A * k)
        x, number = model.log[0][0][-1]
        assert x is A
        assert (type(number), number) == (float, k)
        assert model.log[-1][0][1] is A
        assert type(model.log[-1][1][0]) is float


def test_what_a_tape_holds_is_no_reference_of_the_function() -> None:
    """The tape of a trace, to which frames of an error lead, was counted instead of a list that was further away."""
    tape = ScalarTape()
    number = tape.given(3)
    assert tape.left()
    assert tape.left()[0] is number
    deep = [[[number]]]
    near = near_holders_of([(number, 1)], [tape, deep])
    assert near is not None
    assert [holder is deep[0][0] for holder in near] == [True]


def _columns(x: Any) -> Any:
    columns = [x]
    for _ in range(3):
        columns.append(columns[-1] * x)
    return columns[-1] @ columns[-2]


def _pairs(x: Any) -> Any:
    pairs: list[Any] = []
    named: dict[str, Any] = {}
    pairs.append((x * 2, x + 1))
    named["sums"] = {"pairs": pairs, "all": [(x - 1, 2.0)]}
    return pairs[0][0] @ named["sums"]["all"][0][0]


@pytest.mark.parametrize("function", [_columns, _pairs])
def test_containers_of_the_function_itself_are_no_results(function: Any) -> None:
    fused = tl_dpnp.fuse(function)
    compare("a result", fused(A), function(A))
    explanation = fused.explain(A)
    assert explanation.launches == 1
    assert explanation.kernels[0].bytes == 2 * A.nbytes


def _logging(x: Any, log: list[int]) -> Any:
    log.append(1)
    return x @ x


@pytest.mark.parametrize("function", [_logging, lambda x, log: x @ x, lambda x, log: (log, x[0])])
def test_arguments_are_let_go_after_a_trace(function: Any) -> None:
    """Nor does a cycle of the trace and its hooks keep them."""
    f = tl_dpnp.fuse(function)
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            x = A + 1
            memory = x.get_array()
            before = sys.getrefcount(x), sys.getrefcount(memory)
            f(x, [])
            assert (sys.getrefcount(x), sys.getrefcount(memory)) == before
    finally:
        gc.enable()


@needs_weak_references
def test_weak_references_are_to_the_arrays_of_the_caller() -> None:
    gone: list[str] = []
    seen: list[Any] = []
    table: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()

    @tl_dpnp.fuse
    def f(x: Any) -> Any:
        y = x @ x
        seen[:] = weakref.ref(x), weakref.ref(y)
        table["x"] = x
        weakref.finalize(x, gone.append, "x")
        return y, seen[0]() is x, table["x"] is x

    for number in range(2):
        x = A + number
        y, *same = f(x)
        assert same == [True, True]
        assert seen[0]() is x
        assert seen[1]() is y
        assert table["x"] is x
        assert gone == ["x"] * number
        del x
        assert gone == ["x"] * (number + 1)


class _Problem(Exception):
    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.parts = parts


@pytest.mark.parametrize("kind", [ValueError, _Problem])
def test_errors_have_the_arrays_of_the_caller(kind: Any) -> None:
    @tl_dpnp.fuse
    def f(x: Any, kind: Any) -> Any:
        x[0] = 2
        raise kind("text", x, [x @ x, (x,)])

    x = A + 1
    for _ in range(3):
        with pytest.raises(kind) as caught:
            f(x, kind)
        text, one, (product, (other,)) = caught.value.args
        assert (text, one is x, other is x, type(product)) == ("text", True, True, dpnp.ndarray)
        assert kind is ValueError or caught.value.parts[1] is x


def test_arguments_are_let_go_after_an_error() -> None:
    """No cycle of frames keeps them: a solver that catches errors would run out of memory before a collection."""

    @tl_dpnp.fuse
    def f(x: Any) -> Any:
        return x @ x[:, :3]

    gc.collect()
    gc.disable()
    try:
        x = A + 1
        before = sys.getrefcount(x)
        for _ in range(3):
            with contextlib.suppress(ValueError):
                f(x)
        assert sys.getrefcount(x) == before
    finally:
        gc.enable()


_CONTAINERS = st.recursive(
    st.sampled_from(["value", "other"]),
    lambda inside: st.one_of(st.lists(inside, max_size=3), st.dictionaries(st.integers(0, 3), inside, max_size=3),
                             st.lists(inside, max_size=3).map(tuple)),
    max_leaves=12)


def _built(shape: Any, leaves: dict[str, Any]) -> Any:
    if isinstance(shape, str):
        return leaves[shape]
    if isinstance(shape, dict):
        return {key: _built(part, leaves) for key, part in shape.items()}
    return type(shape)([_built(part, leaves) for part in shape])


@given(_CONTAINERS, st.integers(0, 2))
def test_near_holders_are_those_of_the_collector_or_none(shape: Any, hidden: int) -> None:
    leaves: dict[str, Any] = {"value": Model(), "other": Model()}
    value = leaves.pop("value")
    own = sys.getrefcount(value)
    root = [_built(shape, {**leaves, "value": value})]
    far = [[value] for _ in range(hidden)]
    count = sys.getrefcount(value) - own
    if not count:
        return
    near = near_holders_of([(value, count)], [root])
    if hidden:
        assert near is None
    else:
        assert near is not None
        expected = [holder for holder in gc.get_referrers(value) if holder is not leaves]
        assert {id(holder) for holder in near} <= {id(holder) for holder in expected}
        found = sum(part is value for holder in near for part in gc.get_referents(holder))
        assert found == count
    assert len(far) == hidden
