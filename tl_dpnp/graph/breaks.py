"""Places where fusion ends, in words: what was done, why it is not in a kernel, and what could be written instead."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

from tl_dpnp.errors import UnsupportedError
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.package_name import NAME

__all__ = ["Break", "HINTS", "NotFused", "break_here", "listing", "reader", "refusal", "user_frame"]

_SPEC = importlib.util.find_spec(NAME)  # there need not be one, and then there is no code of it to leave out
_PACKAGE = str(Path(_SPEC.origin).parent) if _SPEC is not None and _SPEC.origin else str(Path(__file__).parent)
_FOLDERS = (str(Path(__file__).parent), _PACKAGE)

_BEFORE_OR_AFTER = "do it before or after the function"
_PLAIN_OBJECTS = "use plain numbers, arrays, tuples, lists, dicts and data classes"

#: What to write instead, by the reason, where the place that found it knows nothing better.
HINTS: dict[str, str] = {
    # what changes something
    "it is changed, and was there before": "return the new value instead",
    "a variable of an outer scope is assigned": "return the value instead",
    "how it is changed is not followed": _PLAIN_OBJECTS,
    "how it is assigned is not followed": _PLAIN_OBJECTS,
    "it was there before, and may be used up": "pass a list or tuple",
    "it changes while the function runs": "take it as an argument",
    # what may be another thing at the next call
    "it may do anything, or give something else at each call": _BEFORE_OR_AFTER + ", and pass what it returns",
    "it may be another one at each call": "compare with `is`",
    "what it holds may change without being seen": f"pass a tuple or a {NAME} array",
    "its value is read": "compute with the array itself, or read the value after the function",
    "its value is used as an index": "index with an array, or with a number that is an argument",
    "the data is given away": _BEFORE_OR_AFTER,
    "what it returns is no array, and may depend on values": _BEFORE_OR_AFTER,
    # objects that do more than hold values
    **dict.fromkeys((
        "it is not followed", "its class has a class of its own", "how it is found is not followed",
        "how the attribute is found is not followed", "how it becomes one is not followed",
        "how it is iterated over is not followed", "how it is unpacked is not followed",
        "what it does is not followed", "how it is compared is not followed",
        "its truth value or text is asked for, and how it is found not followed",
        "how an object of the class is made is not followed", "its keys are no simple values",
    ), _PLAIN_OBJECTS),
    # statements
    "what follows depends on an exception": "test before, or catch the exception outside of the function",
    "entering and leaving a context has effects": "enter it outside of the function",
    "an import has effects": "import at the top of the module",
    "a class is defined": "define it outside of the function",
    "patterns read what cannot be followed": "use if and elif",
    "what is after it is unpacked again": "unpack it in a line of its own",
    "the rest runs later": "return a list",
    "it waits for something": _BEFORE_OR_AFTER,
}
#: The same by a part of the reason; the first that fits.
_PARTS = {
    "the argument ": "leave it out where it changes nothing",
    "kernels do not compute with": "use float32 or float64",
    "out= ": "assign the result, or give an array of its shape and dtype in C order",
    "different queues": "put the arrays on one queue",
    "depends on values": f"use {NAME}.where with three arguments",
    " in code that is not followed": _BEFORE_OR_AFTER,
    " is not fused": "call it first or last, so that the rest is one kernel",
}


class NotFused(Exception):
    """An operation that is left to dpnp; the arguments are the reason and a hint."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason, hint)
        self.reason = reason
        self.hint = hint


@dataclass(frozen=True)
class Break:
    """A place where fusion ends: what was done in dpnp or on the host, why, and what could be written instead.

    `file` and `line` are the user's, in the function with the name `function`.  With `again`, the fused function is
    traced at each call, because what it does may depend on values.
    """

    what: str
    reason: str
    file: str
    line: int
    hint: str = ""
    again: bool = False
    function: str = ""

    def __post_init__(self) -> None:
        if not self.hint:
            general = next((hint for part, hint in _PARTS.items() if part in self.reason), "")
            object.__setattr__(self, "hint", HINTS.get(self.reason, general))

    def __str__(self) -> str:
        return self.text(1)

    def text(self, times: int) -> str:
        """Return the break as one line, with how often it came if that is more than once."""
        where = f" in {self.function}" if self.function else ""
        often = f", {times} times" if times > 1 else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.file}:{self.line}: {self.what}{where}: {self.reason}{often}{hint}"


def listing(breaks: Iterable[Break]) -> list[str]:
    """Return breaks as lines of text, those that are alike as one line with their number."""
    return [each.text(times) for each, times in Counter(breaks).items()]


def refusal(name: str, breaks: Iterable[Break]) -> UnsupportedError:
    """Return the error for a function that has to be fused as a whole and is not."""
    return UnsupportedError("\n  ".join([f"{name} is not fused as a whole:", *listing(breaks)]))


def break_here(what: str, reason: str, hint: str = "", again: bool = False) -> Break:
    """Return a break at the line of the user's code that is running."""
    frame = user_frame()
    name = frame.f_code.co_name
    return Break(what, reason, frame.f_code.co_filename, frame.f_lineno, hint, again,
                 "" if name.startswith("<") else name)  # <lambda>, <listcomp>, <module>


def user_frame() -> FrameType:
    """Return the frame of the code outside this package and dpnp that is running."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_FOLDERS):
        frame = frame.f_back
    return frame


def reader() -> str | None:
    """Return the function of dpnp that the user's code, or a library, has called, as it is written there."""
    frame, name = sys._getframe(1), None
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_FOLDERS):
        if frame.f_code.co_filename.startswith(_PACKAGE):
            name = f"{NAME}.{frame.f_code.co_name}"
        frame = frame.f_back
    return name
