"""Functions that are written for calls like one: their text, in which names stand for all that is the user's."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from types import CodeType
from typing import Any

__all__ = ["add_named", "listed", "written"]


def listed(names: Iterable[str]) -> str:
    """Return names as the elements of a tuple."""
    return "".join(f"{name}, " for name in names)


def add_named(names: dict[str, Any], kind: str, values: Iterable[Any]) -> list[str]:
    """Give names of a kind to values, which are constants of a function, and return them."""
    found = {f"{kind}{number}": value for number, value in enumerate(values)}
    names.update(found)
    return [*found]


def written(lines: Sequence[str], names: dict[str, Any]) -> Callable[[tuple[Any, ...]], Any]:
    """Return the function of the tuple ``arguments`` whose body has such lines; `names` are its global variables."""
    exec(_code("\n".join(["def run(arguments):", *[f"    {line}" for line in lines]])), names)
    run: Callable[[tuple[Any, ...]], Any] = names["run"]
    return run


@functools.lru_cache(maxsize=512)
def _code(text: str) -> CodeType:
    """Return the code of a text: functions for other sizes have the same, with other constants."""
    return compile(text, "<call>", "exec")
