"""What a plan depends on besides the arguments of its key: values that the function read, by the paths that lead there.

A path starts at an argument or at an object that stays the same (the function's global variables, a closure cell, a
class) and goes on through attributes and elements.  A guard says what has to be found at its end.  `Guards.compiled`
makes one function of all of them, which a repeated call runs instead of the function itself.
"""

from __future__ import annotations

import builtins
import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from math import copysign
from types import CellType, CodeType, FunctionType, MappingProxyType
from typing import Any

import numpy as np

from tl_dpnp.records import dataclass
from tl_dpnp.runtime.array_package import array_facts, content_of, xp
from tl_dpnp.runtime.sycl.fixed_places import Fixed

__all__ = ["Check", "Guards", "Path", "same_value"]


@dataclass(eq=False)
class Path:
    """A way to a value: from `parent` by `kind`, one of `_STEPS`, and `key`; `covered` if the key of a call has it."""

    parent: Path | None
    kind: str
    key: Any
    covered: bool = False
    guard: tuple[Any, ...] | None = None
    children: dict[tuple[str, Any], Path] = field(default_factory=dict)

    def evaluate(self, arguments: Sequence[Any], keywords: dict[str, Any]) -> Any:
        """Return the value that the path leads to in another call."""
        if self.parent is None:
            return self.key if self.kind == "constant" else (
                arguments[self.key] if self.kind == "argument" else keywords[self.key]
            )
        return _STEPS[self.kind][1](self.parent.evaluate(arguments, keywords), self.key)


def _global(variables: dict[str, Any], name: str) -> Any:
    return variables[name] if name in variables else getattr(builtins, name)


#: The kinds of steps: how the generated function takes one, and a function that does.
_STEPS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "attribute": ("getattr({parent}, {key})", getattr),
    "item": ("{parent}[{key}]", lambda parent, key: parent[key]),
    "global": ("find_global({parent}, {key})", _global),
    "cell": ("{parent}.cell_contents", lambda parent, key: parent.cell_contents),
    "function": ("{parent}.__func__", lambda parent, key: parent.__func__),
    "identity": ("{parent}", lambda parent, key: parent),
    "without": ("{parent}", lambda parent, key: parent),
    "subclass": ("{parent}", lambda parent, key: parent),
    "self": ("{parent}.__self__", lambda parent, key: parent.__self__),
}
#: What each guard does with the value ``v``; ``e`` is what is expected.
_GUARDS = {
    "is": "if {v} is not {e}: return False",
    "value": "if type({v}) is not type({e}) or not same_value({v}, {e}): return False",
    "type": "if type({v}) is not {e}: return False",
    "length": "if type({v}) is not {e}[0] or len({v}) != {e}[1]: return False",
    "keys": "if type({v}) is not dict or tuple({v}) != {e}: return False\n"
            "    if any(map(is_not, map(type, {v}), map(type, {e}))): return False",
    "scalar": "if type({v}) is not {e}: return False\n    scalars.append({v})",
    "array": "if type({v}) is not array_type: return False\n    u = usm_array_of({v})\n"
             "    if array_facts(u) != {e}: return False\n    arrays.append(u); originals.append({v})",
    "same": "if {v} is not originals[{e}]: return False",
    "other": "if {v} is originals[{e}]: return False",
    "alias": "if {v} is not {e}: return False",
    "missing": "if hasattr({v}, {e}): return False",
    "bare": "if hasattr(originals[{e}[0]], {e}[1]): return False",
    "subclass": "if issubclass({v}, {e}[0]) is not {e}[1]: return False",
    "lacks": "if {e} in {v}: return False",
}

#: What the guard of an array does where machine code looks at that.
_FOUND = "if type({v}) is not array_type: return False\n    originals.append({v})"


#: What may compare equal though it differs, as zeros of different signs and ranges of the same numbers do.
_BY_TEXT = (complex, np.complexfloating, range)


def same_value(one: Any, other: Any) -> bool:
    """Return whether two simple values are the same: NaNs are, zeros of different sign are not."""
    if isinstance(one, float | np.floating):
        return (one == other and copysign(1, one) == copysign(1, other)) or (one != one and other != other)
    return repr(one) == repr(other) if isinstance(one, _BY_TEXT) else bool(one == other)


def _fixed(path: Path, expected: Any) -> Fixed | None:
    """Return that a path leads to an object, if it is that of a variable of a module or closure, or of an attribute of
    a function itself: reading these runs no code of Python's."""
    owner = path.parent.key if path.parent is not None and path.parent.kind == "constant" else None
    if type(path.key) is not str:
        return None
    if path.kind == "global" and type(owner) is dict and path.key in owner:
        return Fixed(owner, path.key, expected, False)
    if path.kind == "cell" and type(owner) is CellType:
        return Fixed(owner, _OF_A_CELL, expected, True)
    if path.kind == "attribute" and type(owner) is FunctionType and path.key in _FUNCTION_ATTRIBUTES:
        return Fixed(owner, path.key, expected, True)
    return None


#: Attributes that every function has, and what a variable of a closure has its value in.
_FUNCTION_ATTRIBUTES = ("__code__", "__defaults__", "__kwdefaults__")
_OF_A_CELL = "cell_contents"

Check = Callable[[Sequence[Any], dict[str, Any], list[Any], list[Any], list[float]], bool]


class Guards:
    """The paths of one trace, and the guards on them in the order in which they were set."""

    def __init__(self) -> None:
        self._roots: dict[tuple[str, Any], Path] = {}
        self._guarded: list[Path] = []

    def argument(self, place: int | str) -> Path:
        """Return the path to an argument, which the key of the call covers as far as it can."""
        return self._root("argument" if isinstance(place, int) else "keyword", place, place)

    def constant(self, value: Any) -> Path:
        """Return the path to an object that is the same one for ever."""
        return self._root("constant", id(value), value)

    def _root(self, kind: str, identity: Any, key: Any) -> Path:
        if (kind, identity) not in self._roots:
            self._roots[kind, identity] = Path(None, kind, key)
        return self._roots[kind, identity]

    def child(self, parent: Path, kind: str, key: Any = None) -> Path:
        """Return the path one step further."""
        found = parent.children.get((kind, key))
        if found is None:
            found = parent.children[kind, key] = Path(parent, kind, key)
        return found

    def require(self, path: Path, kind: str, expected: Any = None) -> None:
        """Set the guard of a path that has none yet: a kind of `_GUARDS`, and what is expected."""
        path.guard = kind, expected
        self._guarded.append(path)

    def compiled(self) -> Check | None:
        """Return a function that says whether a call finds what this one found; None if there is nothing to check.

        It is given the call's arguments and keywords and three lists: it adds the arrays that it finds, as
        `usm_ndarray` and as dpnp arrays, and the numbers that may change from call to call.
        """
        return _Writer().written(self._guarded) if self._guarded else None

    def divided(self) -> tuple[list[Fixed], Check | None]:
        """Return the guards that machine code can check, and what `compiled` would be without them.

        It looks at arrays as well, so that these are only found: the list of `usm_ndarray` stays as it is.
        """
        fixed = {id(path): known for path in self._guarded if path.guard is not None and path.guard[0] == "is"
                 and (known := _fixed(path, path.guard[1])) is not None}
        others = [path for path in self._guarded if id(path) not in fixed]
        return [*fixed.values()], _Writer({"array": _FOUND}).written(others) if others else None

    def pinned(self) -> tuple[list[Fixed], list[float]] | None:
        """Return all guards as what machine code can check, and the numbers that they find: each has to be the very
        object that is there now.  None where there is a guard that is more than that."""
        fixed: list[Fixed] = []
        numbers: list[float] = []
        for path in self._guarded:
            kind, expected = path.guard or ("", None)
            if kind not in ("is", "value", "scalar") or (known := _fixed(path, None)) is None:
                return None
            found = path.evaluate((), {})
            if kind == "scalar":
                numbers.append(found)
            elif found is not expected and not (kind == "value" and same_value(found, expected)):
                return None
            fixed.append(known._replace(expected=found))
        return fixed, numbers

    def failing(self, *call: Any) -> Path | None:
        """Return the path where a call finds something else, None if there is none; takes what a `Check` takes."""
        reached: list[None] = []
        return None if _Writer().written(self._guarded, reached)(*call) else self._guarded[len(reached) - 1]

    def scalars(self) -> list[Path]:
        """Return the paths to numbers that may change from call to call."""
        return [path for path in self._guarded if path.guard is not None and path.guard[0] == "scalar"]


#: How the function begins and ends that checks guards: what raises is for the function itself to raise, where the user
#: can see it.
_HEAD = "def check(arguments, keywords, arrays, originals, scalars):\n    try:"
_END = "return True\n    except Exception:\n        return False"


@functools.lru_cache(maxsize=1024)
def _code(text: str) -> CodeType:
    """Return the code of a text: traces of a function for other sizes guard the same, with other constants."""
    return compile(text, "<guards>", "exec")


class _Writer:
    """Writes the function that checks guards, some of which do `other` things; objects and names of the user are
    constants of it."""

    def __init__(self, other: Mapping[str, str] = MappingProxyType({})) -> None:
        self.variables: dict[str, Any] = {
            "find_global": _global, "same_value": same_value, "array_type": xp.ndarray, "array_facts": array_facts,
            "usm_array_of": content_of, "is_not": operator.is_not,
        }
        self.texts = {**_GUARDS, **other}
        self.names: dict[Path, str] = {}
        self.lines: list[str] = []

    def constant(self, value: Any) -> str:
        name = f"c{len(self.variables)}"
        self.variables[name] = value
        return name

    def value(self, path: Path) -> str:
        """Return the variable of what a path leads to, after the lines that find it."""
        if path in self.names:
            return self.names[path]
        if path.kind == "constant":
            name = self.constant(path.key)
        else:
            if path.parent is None:
                found = f"{path.kind}s[{self.constant(path.key)}]"
            else:
                found = _STEPS[path.kind][0].format(parent=self.value(path.parent), key=self.constant(path.key))
            name = f"v{len(self.names)}"
            self.lines.append(f"{name} = {found}")
        self.names[path] = name
        return name

    def written(self, guarded: Sequence[Path], reached: list[None] | None = None) -> Check:
        """Return the function; it adds to `reached` at each guard."""
        self.variables["reached"] = reached
        for path in guarded:
            if reached is not None:
                self.lines.append("reached.append(None)")
            kind, expected = path.guard or ("", None)
            value = self.value(path)
            other = self.value(expected) if kind == "alias" else self.constant(expected)
            self.lines += self.texts[kind].format(v=value, e=other).split("\n    ")
        exec(_code("\n        ".join([_HEAD, *self.lines, _END])), self.variables)
        check: Check = self.variables["check"]
        return check
