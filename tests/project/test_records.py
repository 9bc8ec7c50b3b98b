"""The package's dataclasses are the library's, but for when their methods are written."""

import ast
import copy
import dataclasses
import inspect
import pathlib
import pickle
import threading

import pytest

from tl_dpnp import records

KINDS = {"library": dataclasses.dataclass, "package": records.dataclass}


def family(dataclass):
    """Return classes that use what the package uses, made by one of the two."""
    @dataclass(frozen=True)
    class Point:
        x: int
        y: int = 2
        note: str = dataclasses.field(default="", compare=False, repr=False)
        seen: list = dataclasses.field(default_factory=list, compare=False)

    @dataclass(frozen=True)
    class Named(Point):
        """Has a name."""

        name: str = "n"

    @dataclass(frozen=True, kw_only=True)
    class Last(Named):
        z: int
        w: int = 4

    @dataclass
    class Open:
        a: int
        parts: dict = dataclasses.field(default_factory=dict)
        total: int = dataclasses.field(init=False)
        kept: list = dataclasses.field(init=False, default_factory=list)
        known: int = dataclasses.field(init=False, default=7)

        def __post_init__(self):
            self.total = self.a + len(self.parts)

    @dataclass(frozen=True, eq=False)
    class Itself:
        a: int

    @dataclass(frozen=True)
    class Own:
        a: int

        def __init__(self):
            object.__setattr__(self, "a", 5)

        def __eq__(self, other):
            return True

        def __hash__(self):
            return 3

        def __repr__(self):
            return "own"

    @dataclass(frozen=True)
    class OwnEq:
        a: int

        def __eq__(self, other):
            return self.a % 2 == other.a % 2

    @dataclass(frozen=True)
    class Empty:
        pass

    class Plain(Point):
        pass

    return locals()


@pytest.fixture(scope="module")
def both():
    return [family(dataclass) for dataclass in KINDS.values()]


#: What is asked of the classes of a family: the answers must be the same.
QUESTIONS = [
    "repr(Point(1))", "repr(Point(1, y=5, note='n', seen=[3]))", "Point(1) == Point(1, note='other', seen=[1])",
    "Point(1) == Point(2)", "Point(1) != Point(1)", "Point(1) == Named(1)", "Point(1).__eq__(1)",
    "Plain(1) == Point(1)",
    "Plain(1) == Plain(1)", "repr(Plain(1))", "hash(Point(1)) == hash(Point(1, note='other'))", "hash(Point(1, 7))",
    "hash(Named(1, name='x')) == hash((1, 2, 'x'))", "Point(1).seen is Point(1).seen", "repr(Named(3, name='k'))",
    "repr(Last(1, z=2))", "Last(1, 2, 3, [], 'n', z=5) == Last(1, z=5)", "Last.__match_args__", "Named.__match_args__",
    "Open(3).total, Open(3).kept, Open(3).known, repr(Open(1, {1: 2}))", "Open(1) == Open(1)", "Open.__hash__",
    "Itself.__hash__ is object.__hash__", "Itself(1) == Itself(1)", "repr(Own()), Own() == 3, hash(Own())",
    "OwnEq(1) == OwnEq(3)", "hash(OwnEq(1)) == hash((1,))", "Empty() == Empty()", "hash(Empty())", "repr(Empty())",
    "dataclasses.replace(Named(1, 5), name='z') == Named(1, 5, name='z')", "dataclasses.asdict(Named(1))",
    "dataclasses.astuple(Last(1, z=2))", "[f.name for f in dataclasses.fields(Last)]", "Named.__doc__",
    "vars(copy.deepcopy(Named(1)))", "copy.copy(Point(4)) == Point(4)", "Point.__init__.__name__", "Point.y",
    "hasattr(Point, 'seen')",
]
#: What is refused, and with which error.
REFUSED = [
    ("Point()", TypeError), ("Point(1, 2, '', [], 5)", TypeError), ("Point(1, nothing=2)", TypeError),
    ("Last(1, 2, '', [], 'n', 5)", TypeError), ("hash(Open(1))", TypeError), ("Open(1, total=2)", TypeError),
    ("setattr(Point(1), 'x', 2)", dataclasses.FrozenInstanceError),
    ("delattr(Point(1), 'x')", dataclasses.FrozenInstanceError),
    ("dataclasses.replace(Open(1), total=2)", (TypeError, ValueError)),
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_answers_are_those_of_the_library(both, question):
    names = {"copy": copy, "dataclasses": dataclasses}
    library, package = (eval(question, {**names, **classes}) for classes in both)
    assert package == library


@pytest.mark.parametrize(("call", "error"), REFUSED)
def test_errors_are_those_of_the_library(both, call, error):
    texts = []
    for classes in both:
        with pytest.raises(error) as raised:
            eval(call, {"dataclasses": dataclasses, **classes})
        texts.append(str(raised.value))
    assert texts[1] == texts[0]


@records.dataclass(frozen=True)
class Stored:
    value: int


def test_records_pickle():
    assert pickle.loads(pickle.dumps(Stored(3))) == Stored(3)


def test_a_record_in_itself_prints():
    item = family(records.dataclass)["Open"](1)
    item.parts[0] = item
    assert "..." in repr(item)


def test_methods_are_written_when_they_are_called():
    point = family(records.dataclass)["Point"]
    before = point.__init__
    assert point(1) == point(1)
    assert point.__init__ is not before
    assert [*inspect.signature(point).parameters] == ["x", "y", "note", "seen"]
    other = object.__new__(point)
    before(other, 5)  # who has it from before may still call it
    assert other == point(5)


def test_the_library_makes_only_those_with_slots():
    package = pathlib.Path(records.__file__).parent
    made = [(path.relative_to(package).as_posix(), ast.unparse(decorator))
            for path in package.rglob("*.py") if "from dataclasses import dataclass" in (text := path.read_text())
            for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)
            for decorator in node.decorator_list]
    assert [each for each in made if "dataclass" in each[1] and "slots=True" not in each[1]] == []


def test_threads_may_make_the_first_together():
    for _ in range(20):
        point, made = family(records.dataclass)["Point"], []
        start = threading.Barrier(4)

        def make(point=point, made=made, start=start):
            start.wait()
            made.append((point(1), hash(point(1))))

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(made)) == 1
        assert len(made) == 4
