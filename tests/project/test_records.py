"""The package's frozen dataclasses behave as those of the standard library."""

import copy
import dataclasses
import inspect
import itertools
import pickle
from dataclasses import field

import pytest

from tl_dpnp import records


def _family(dataclass):
    """Return classes that use what the package uses of dataclasses."""

    @dataclass(frozen=True)
    class Empty:
        pass

    @dataclass(frozen=True)
    class One:
        only: object

    @dataclass(frozen=True)
    class Several:
        first: int
        second: str = "two"
        third: list = field(default_factory=list)
        fourth: object = field(default=None, compare=False, repr=False)

    @dataclass(frozen=True)
    class Child(Several):
        fifth: float = 0.5

        def __post_init__(self):
            assert self.first >= 0

        def __repr__(self):
            return "a child"

    @dataclass(frozen=True, kw_only=True)
    class Named(One):
        name: str
        size: int = 3

    @dataclass(frozen=True, eq=False)
    class Itself:
        value: int

    @dataclass(frozen=True, eq=False, slots=True, repr=False)
    class Slots:
        value: int

    return Empty, One, Several, Child, Named, Itself, Slots


def _outcome(function, *arguments, **keywords):
    """Return what a call returns as text, or what it raises."""
    try:
        return repr(function(*arguments, **keywords)).split(" at 0x")[0]
    except Exception as error:
        return type(error), str(error)


OURS, THEIRS = _family(records.dataclass), _family(dataclasses.dataclass)
ARGUMENTS = [((), {}), ((1,), {}), ((2, "x"), {}), ((1, "two", []), {}), ((1,), {"name": "n"}), ((1,), {"size": 4}),
             ((-1,), {}), ((), {"first": 3, "fourth": 4}), ((1, 2, 3, 4, 5, 6), {}), ((1,), {"nothing": 1})]


@pytest.mark.parametrize("number", range(len(OURS)), ids=lambda number: OURS[number].__name__)
def test_instances(number):
    ours, theirs = OURS[number], THEIRS[number]
    assert [entry.name for entry in dataclasses.fields(ours)] == [entry.name for entry in dataclasses.fields(theirs)]
    assert ours.__match_args__ == theirs.__match_args__
    assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters)
    made = []
    for places, keywords in ARGUMENTS:
        said = _outcome(ours, *places, **keywords)
        assert said == _outcome(theirs, *places, **keywords)
        if not isinstance(said, tuple):
            made.append((ours(*places, **keywords), theirs(*places, **keywords)))
    for (our, their), (our_other, their_other) in itertools.product(made, repeat=2):
        assert (our == our_other) is (their == their_other)
        assert our != their
    for our, their in made:
        assert isinstance(_outcome(hash, our), tuple) is isinstance(_outcome(hash, their), tuple)
        for change in (lambda value: setattr(value, "only", 1), lambda value: delattr(value, "first"),
                       lambda value: setattr(value, "value", 1)):
            with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):
                change(our)
        assert _outcome(dataclasses.replace, our) == _outcome(dataclasses.replace, their)
        assert _outcome(dataclasses.asdict, our) == _outcome(dataclasses.asdict, their)
        if ours.__eq__ is not object.__eq__:
            assert copy.copy(our) == our == copy.deepcopy(our)


def test_equal_ones_have_one_hash():
    assert hash(OURS[1](1)) == hash(OURS[1](1)) != hash(OURS[1](2))
    assert hash(OURS[3](1, third=())) == hash(OURS[3](1, third=(), fourth=[]))


def test_deep_ones_are_compared_once_at_each_depth():
    """Twice at each would take longer than anybody waits."""
    first, second = None, None
    for _ in range(100):
        first, second = OURS[1](first), OURS[1](second)
    assert first == second
    assert hash(first) == hash(second)


@records.dataclass(frozen=True)
class Chain:
    """One that may hold itself, and that pickles."""

    value: int
    rest: object = None


def test_pickles_and_prints_what_holds_itself():
    whole = Chain(1, Chain(2))
    assert pickle.loads(pickle.dumps(whole)) == whole
    held = []
    held.append(Chain(1, held))
    assert "..." in repr(held[0])
    match whole:
        case Chain(1, Chain(value)):
            assert value == 2
