"""Why a call had to be traced again: what differs from the calls that were traced before, in the user's names."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tl_dpnp.graph.guards import Guards, Path
from tl_dpnp.graph.keys import BY_IDENTITY, BY_VALUE, CallKey
from tl_dpnp.graph.purity import dpnp_name
from tl_dpnp.graph.traced_scalars import ScalarTape
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.array_package import LAST_FACT, Content, array_facts, content_of, xp
from tl_dpnp.runtime.array_package import describe as describe_device
from tl_dpnp.runtime.package_name import NAME

__all__ = [
    "HINTS_OF_KINDS", "LOOKED_AT", "CallKind", "Change", "Origin", "ParameterNames", "array_names", "between",
    "changed_guard", "changed_number",
]

#: What to do about an array that keeps changing, by what changes of it.
_ARRAY_HINTS = {
    "shape": "pad axes to few sizes where the function looks at the size or kernels have to know it",
    "dtype": "convert it to one dtype before",
    "strides": f"pass arrays of one memory layout, as {NAME}.ascontiguousarray gives them",
}
_VALUE_HINT = "keep to few values"
LOOKED_AT = f"the function looks at its value: keep to few values, or use {NAME}.where"
_IDENTITY_HINT = "define it once, not for each call"
_OBJECT_HINT = "pass objects of one type"
_CONTAINER_HINT = "pass containers of one length, with the same keys and values of the same kinds"
#: What is said where each call has another value, function, or container: nothing is compiled, and all of it traced.
HINTS_OF_KINDS = frozenset((_VALUE_HINT, _IDENTITY_HINT, _OBJECT_HINT, _CONTAINER_HINT))


@dataclass(frozen=True)
class Change:
    """Something that is not what it was: what it is called, both values, and how to keep it from changing."""

    what: str
    before: str
    after: str
    hint: str = ""

    def __str__(self) -> str:
        now = self.after if self.after != self.before else "another one"
        return f"{self.what} was {self.before} and is {now}"


class ParameterNames:
    """The names of the parameters of a function, by the places of arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.names: list[str] = []
        self.others = ""
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):
            return
        for parameter in parameters:
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                self.names.append(parameter.name)
            elif parameter.kind is parameter.VAR_POSITIONAL:
                self.others = parameter.name

    def at(self, place: int) -> str:
        """Return the name of a positional argument; those behind the last have one with a number."""
        if place < len(self.names):
            return self.names[place]
        return f"{self.others}[{place - len(self.names)}]" if self.others else str(place + 1)


@dataclass(frozen=True)
class _Argument:
    """What the key of a call has of an argument, the argument in words, and how many numbers are in it.

    For an array the text is empty: `facts` has what is in the key (`keys.array_facts`).
    """

    parts: tuple[Any, ...]
    text: str
    numbers: int = 0
    facts: Any = None

    def __str__(self) -> str:
        return self.text or f"{_dtype_name(self.facts[2])} {self.facts[0]}"


@dataclass(frozen=True)
class CallKind:
    """The arguments of a call that was traced as the key of a plan has them, by their names, and in words."""

    arguments: dict[str, _Argument]
    same: str

    @classmethod
    def of(cls, names: ParameterNames, arguments: Sequence[Any], keywords: dict[str, Any]) -> CallKind:
        """Return the kind of a call."""
        named = {names.at(place): value for place, value in enumerate(arguments)}
        named.update(keywords)
        first: dict[int, str] = {}
        for name, value in named.items():
            first.setdefault(id(value), name)
        same = ", ".join(f"{name} is {first[id(value)]}" for name, value in named.items()
                         if type(value) is xp.ndarray and first[id(value)] != name)
        return cls({name: _argument(value) for name, value in named.items()}, same or "no two")

    def number_names(self) -> list[str]:
        """Return the argument that each number of the key comes from."""
        return [f"argument {name}" for name, argument in self.arguments.items() for _ in range(argument.numbers)]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the arguments that are arrays."""
        return {f"argument {name}": argument.facts[0] for name, argument in self.arguments.items()
                if argument.facts is not None}

    def differing(self, other: CallKind) -> list[str]:
        """Return the names of arguments that are of another kind."""
        names = dict.fromkeys([*self.arguments, *other.arguments])
        return [name for name in names
                if self.arguments.get(name, _NOTHING).parts != other.arguments.get(name, _NOTHING).parts]


def array_names(names: ParameterNames, arguments: Sequence[Any], keywords: dict[str, Any]) -> Iterator[str]:
    """Yield the names of the arrays of a call, in the order of its key; those in containers have that of it."""
    named = [(names.at(place), value) for place, value in enumerate(arguments)]
    for name, value in [*named, *keywords.items()]:
        key = CallKey()
        key.add(value)
        yield from [f"argument {name}"] * len(key.arrays)


@dataclass(frozen=True)
class Origin:
    """The call that a plan comes from, and the guards on what it read from outside."""

    kind: CallKind
    guards: Guards


_NOTHING = _Argument((), "not given")


def _argument(value: Any) -> _Argument:
    key = CallKey()
    key.add(value)
    parts = tuple(key.parts)
    if type(value) is xp.ndarray:
        return _Argument(parts, "", 0, parts[0])
    return _Argument(parts, describe(value), len(key.scalars))


def between(old: CallKind, new: CallKind) -> list[Change]:
    """Return what differs between the arguments of two calls."""
    changes = [_between(f"argument {name}", old.arguments.get(name), new.arguments.get(name))
               for name in old.differing(new)]
    if not changes and old.same != new.same:
        changes.append(Change("which arguments are the same array", old.same, new.same))
    if not changes and list(old.arguments) != list(new.arguments):
        changes.append(Change("the order of the arguments", ", ".join(old.arguments), ", ".join(new.arguments)))
    return changes


def _between(what: str, old: _Argument | None, new: _Argument | None) -> Change:
    if old is None or new is None:
        return Change(what, str(old or _NOTHING), str(new or _NOTHING))
    if old.facts is not None and new.facts is not None:
        return _between_arrays(what, old.facts, new.facts)
    first = old.parts[0]
    by_value = isinstance(first, tuple) and first[0] in BY_VALUE
    by_identity = isinstance(first, tuple) and first[0] == "is"
    contains = all(isinstance(each.parts[0], tuple) and each.parts[0][0] in (list, tuple, dict) for each in (old, new))
    hint = (_VALUE_HINT if by_value else _IDENTITY_HINT if by_identity
            else _CONTAINER_HINT if contains else _OBJECT_HINT)
    return Change(what, str(old), str(new), hint)


def _between_arrays(what: str, old: Any, new: Any) -> Change:
    """Return what differs between two arrays, of which there is what `keys.array_facts` gives."""
    differing = [name for name, one, other in zip(_FACTS, old, new, strict=True) if one != other]
    if "shape" in differing and "strides" in differing:
        differing.remove("strides")
    hint = next((_ARRAY_HINTS[name] for name in differing if name in _ARRAY_HINTS), "")
    before, after = (
        ", ".join(f"{name} {_FACTS[name](facts)}" for name in differing) or "an array" for facts in (old, new)
    )
    return Change(what, before, after, hint)


def _dtype_name(number: int) -> str:
    return next(str(np.dtype(code)) for code in np.typecodes["All"] if np.dtype(code).num == number)


#: What `keys.array_facts` gives, in its order, by names, and how it is written.
_FACTS: dict[str, Callable[[Any], Any]] = {
    "shape": lambda facts: facts[0], "strides": lambda facts: facts[1], "dtype": lambda facts: _dtype_name(facts[2]),
    "USM type": lambda facts: facts[3], "device": lambda facts: describe_device(facts[4]).name,
    LAST_FACT: lambda facts: facts[5],
}


def describe(value: Any, depth: int = 2) -> str:
    """Return a value in a few words; no code of the user's runs."""
    kind = type(value)
    if kind is xp.ndarray or kind is Content:
        return f"{value.dtype} {value.shape}"
    if kind in (*BY_VALUE, float, complex, range) or issubclass(kind, np.generic | np.dtype):
        text = repr(value)
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    if kind in (list, tuple, dict):
        parts = list(value.values() if kind is dict else value)
        inner = ", ".join(describe(part, depth - 1) for part in parts[:_MOST]) if depth else "…"
        return f"{kind.__name__} of {len(parts)}: {inner}{', …' if len(parts) > _MOST else ''}"
    if isinstance(value, BY_IDENTITY):
        return f"{kind.__name__} {_name_of(value)}".rstrip()
    return f"a {kind.__qualname__}"


def _name_of(value: Any) -> str:
    """Return the name of a function, a module or a class, empty if it has none."""
    return str(getattr(value, "__qualname__", None) or getattr(value, "__name__", None) or dpnp_name(value) or "")


_LONGEST, _MOST = 40, 4


# --- guards ----------------------------------------------------------------------------------------------------------


def changed_guard(path: Path, names: ParameterNames, arguments: Sequence[Any], keywords: dict[str, Any]) -> Change:
    """Return what a call finds at the end of a path, and what it would have to find."""
    what = path_name(path, names)
    kind, expected = path.guard or ("", None)
    try:
        found = path.evaluate(arguments, keywords)
    except Exception:
        return Change(what, "there", "not there")
    match kind:
        case "array" if type(found) is xp.ndarray:
            return _between_arrays(what, expected, array_facts(content_of(found)))
        case "value":
            return Change(what, describe(expected), describe(found), _VALUE_HINT)
        case "is":
            return Change(what, describe(expected), describe(found), _IDENTITY_HINT)
        case "missing" | "lacks":
            return Change(f"{what}.{expected}", "not there", "there")
        case "subclass":
            is_one, isnt = f"a subclass of {expected[0].__qualname__}", f"no subclass of {expected[0].__qualname__}"
            return Change(what, *((is_one, isnt) if expected[1] else (isnt, is_one)))
        case "alias":
            return Change(what, path_name(expected, names), "another object")
        case "same":
            return Change(what, "one of the arrays of the call", "another array")
        case "bare":
            return Change(f"{expected[1]} of an array", "not there", "there")
        case "other":
            return Change(what, "an array of its own", "one of the arrays of the call")
    before = {"scalar": "a number", "array": "an array"}.get(kind, "")
    if kind == "type":
        before = f"a {expected.__qualname__}"
    elif kind == "length":
        before = f"{expected[0].__name__} of {expected[1]}"
    elif kind == "keys":
        before = f"a dict with the keys {', '.join(map(describe, expected))}"
    after = f"a dict with the keys {', '.join(map(describe, found))}" if type(found) is dict else describe(found)
    contains = kind in ("length", "keys") and isinstance(found, list | tuple | dict)
    return Change(what, before, after, _CONTAINER_HINT if contains else _OBJECT_HINT)


def changed_number(
    place: int, tape: ScalarTape | None, origin: Origin, names: ParameterNames, before: str, after: float, hint: str
) -> Change:
    """Return what became of a number at a place on the tape of a plan."""
    sources = [*origin.kind.number_names(), *(path_name(path, names) for path in origin.guards.scalars())]
    if tape is None:
        return Change(sources[place], before, repr(after), hint)
    given = [place for place, entry in enumerate(tape.entries) if entry is None]
    by_place = dict(zip(given, sources, strict=False))
    found = list(dict.fromkeys(_sources(place, tape, by_place)))
    what = by_place.get(place) or f"a number computed from {' and '.join(found) or 'others'}"
    return Change(what, before, repr(after), hint)


def _sources(place: int, tape: ScalarTape, by_place: dict[int, str]) -> Iterator[str]:
    entry = tape.entries[place]
    if entry is None:
        yield by_place.get(place, "a number")
    for is_place, operand in () if entry is None else entry[1]:
        if is_place:
            yield from _sources(operand, tape, by_place)


def path_name(path: Path, names: ParameterNames) -> str:
    """Return a path as the user would write it."""
    if path.parent is None:
        if path.kind == "constant":
            named = isinstance(path.key, BY_IDENTITY) and not isinstance(path.key, enum.Enum)
            return _name_of(path.key) if named else describe(path.key)
        return f"argument {names.at(path.key) if path.kind == 'argument' else path.key}"
    if path.kind == "global":
        return f"global {path.key}"
    if path.kind == "cell":
        return f"closure variable {path.key}"
    owner = path_name(path.parent, names)
    return owner + {"attribute": f".{path.key}", "item": f"[{path.key!r}]", "function": ".__func__",
                    "self": ".__self__"}.get(path.kind, "")
