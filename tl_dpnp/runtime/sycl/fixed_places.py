"""Places outside of its arguments that a call depends on, as machine code looks at them."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Fixed"]


class Fixed(NamedTuple):
    """An object that has to be found in a place: the attribute of an object, or the entry of a dict, with a name."""

    owner: Any
    name: str
    expected: Any
    is_attribute: bool
