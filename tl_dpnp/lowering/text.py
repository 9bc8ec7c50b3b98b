"""Arithmetic on the text of the kernel shell: sizes, strides and offsets that are numbers or expressions.

What is known is computed here, so that the shell says ``group * 256`` and not ``group * 16 * 16 * 1 + 0``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tl_dpnp.errors import UnsupportedError
from tl_dpnp.kernels.llvm import GLOBAL
from tl_dpnp.language.types import MemrefType, Size
from tl_dpnp.scalars import ScalarType

__all__ = ["MemrefText", "Text", "add", "bytes_of", "literal", "multiply", "offset_of", "prefer_static"]

#: A size, stride or offset in the shell: a number or the text of an expression.
Text = int | str


@dataclass(frozen=True)
class MemrefText:
    """A memref in the shell: where it lives, its address or its offset in temporary memory, its sizes and strides.

    `ahead` is the distance in bytes to the same memref of the next work-group, or None where the shell does not know
    it, or where it is the same memory.  `step` is the distance in elements to that of the second work-group where two
    run at once, and None where they share it.  Its address is a multiple of `alignment` bytes.
    """

    type: MemrefType
    space: int
    address: Text
    sizes: tuple[Text, ...]
    strides: tuple[Text, ...]
    ahead: Text | None = None
    alignment: int = 1
    step: Text | None = None

    @property
    def can_be_fetched(self) -> bool:
        """Whether the operand of the next work-group can be prefetched: it is known where it is and how large."""
        return self.ahead is not None and self.type.is_static and self.space == GLOBAL


def literal(value: bool | int | float | complex) -> str:
    """Return a constant as Python text; the names ``inf`` and ``nan`` are bound where the shell is compiled."""
    if isinstance(value, complex):
        raise UnsupportedError("device targets do not compute with complex numbers yet; use target='reference'")
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return repr(value)


def add(a: Text, b: Text) -> Text:
    """Return a + b."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if a == 0:
        return b
    if b == 0:
        return a
    return f"{a} + {b}"


def multiply(a: Text, b: Text) -> Text:
    """Return a · b."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if a == 0 or b == 0:
        return 0
    if a == 1:
        return b
    if b == 1:
        return a
    return f"{_atom(a)} * {_atom(b)}"


def _atom(text: Text) -> Text:
    return text if isinstance(text, int) or text.isidentifier() else f"({text})"


def bytes_of(offset: Text, element: ScalarType) -> Text:
    """Return an offset in elements, which is at the start of a byte, in bytes."""
    if element.per_byte == 1:
        return multiply(offset, element.bytes)
    if isinstance(offset, int):
        return offset // element.per_byte
    return f"({_atom(offset)} >> {element.per_byte.bit_length() - 1})"


def offset_of(terms: Iterable[tuple[Text, Text]]) -> Text:
    """Return the sum of index · stride."""
    total: Text = 0
    for index, stride in terms:
        total = add(total, multiply(index, stride))
    return total


def prefer_static(types: tuple[Size, ...], texts: Sequence[Text]) -> tuple[Text, ...]:
    """Take each entry from the type where it is constant there, else from the shell."""
    return tuple(text if entry is None else entry for entry, text in zip(types, texts, strict=True))
