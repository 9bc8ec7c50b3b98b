"""Rarer searches for cycles while much is imported or compiled, and objects that are kept out of them.

Python looks for cycles among its new objects after each 700 of them, and now and then among all.  In a first
compilation it did so 158 times, once among all that numba keeps, in 42 ms; where searches begin after more new objects,
there are four, in 24 ms.  Until then cycles take a few MB.  A text of 1 MB becomes a million objects, which would be
looked at once more when half of them are there, in a tenth of the time that parsing takes.

Thresholds belong to the process.  No lock guards them, which a fork could leave locked: where two threads come and go
at once, one of them compiles with the usual thresholds, and who leaves last puts those back in any case.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["rarely_collected", "unfreeze"]

#: New objects after which cycles are looked for.
_OBJECTS = 50_000
#: Searches among new objects after which those that were new before are looked at again.
_SEARCHES = 100
#: An entry for each thread, and each nested use, that is inside.
_inside: list[None] = []
#: The thresholds from before.
_usual: list[int] = []


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Have cycles looked for rarely; where that is so already or nobody looks for them, nothing changes."""
    first, *others = gc.get_threshold()
    if 0 < first < _OBJECTS:
        _usual[:] = first, *others
        gc.set_threshold(_OBJECTS, _SEARCHES, *others[1:])
    _inside.append(None)
    try:
        yield
    finally:
        del _inside[-1:]  # a child that was forked inside has none
        if not _inside:
            _restore()


def unfreeze() -> bool:
    """Undo ``gc.freeze()``, so that all objects can be looked at; return whether anybody had called it.

    The collector of Python 3.12 freezes objects that are never freed by itself, a few hundred.
    """
    frozen = gc.get_freeze_count()
    if frozen:
        gc.unfreeze()
    return frozen > 0 and frozen > _immortal_objects()


def _immortal_objects() -> int:
    """Return how many of the collector's objects are never freed (PEP 683)."""
    if sys.version_info < (3, 12):
        return 0
    never = sys.getrefcount(None)
    return sum(sys.getrefcount(thing) >= never for thing in gc.get_objects())


def _restore() -> None:
    if _usual and gc.get_threshold()[0] == _OBJECTS:  # else somebody else has set them since
        gc.set_threshold(*_usual)


def _forget() -> None:
    """Restore the thresholds in the child of a fork, where threads that were inside are no more."""
    _inside.clear()
    _restore()


os.register_at_fork(after_in_child=_forget)
