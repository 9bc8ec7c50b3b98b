"""What the precision of a product allows an engine to do with its operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from tl_dpnp.scalars import Precision

__all__ = ["Engine", "Rounding", "hint", "is_rounded", "rounding"]

#: What multiplies: DPAS of so many lanes, the tiles of a processor, and two instructions of CUDA devices.
Engine = Literal["dpas 8", "dpas 16", "amx", "mma.sync", "wgmma"]
_F32 = ("f32", "f32", "f32")


class Rounding(NamedTuple):
    """The types of A and B on an engine, and how many of these numbers stand for one: 0 where it is what it was."""

    a: str
    b: str
    terms: int = 0


#: What f32 becomes.  A sum of three bf16, or of two tf32, has as many digits; one of them is faster.
_ROUNDED: dict[Engine, dict[Precision, Rounding]] = {
    "dpas 8": {"high": Rounding("bf16", "bf16", 3), "default": Rounding("bf16", "bf16", 1)},
    "dpas 16": {"high": Rounding("bf16", "bf16", 3), "default": Rounding("tf32", "tf32", 1)},
    "amx": {"high": Rounding("bf16", "bf16", 3), "default": Rounding("bf16", "bf16", 1)},
    "mma.sync": {"high": Rounding("tf32", "tf32", 2), "default": Rounding("tf32", "tf32", 1)},
    "wgmma": {"default": Rounding("tf32", "tf32", 1)},
}


def rounding(types: Sequence[str], precision: Precision, engine: Engine) -> Rounding | None:
    """Return what an engine multiplies for a product of `types`, those of A, B and the sums in the language.

    None where products of f32 may not lose what the engine would take from them.  Other types are never rounded;
    whether the engine takes them is another question.
    """
    if is_rounded(types):
        return _ROUNDED[engine].get(precision)
    return Rounding(types[0], types[1])


def is_rounded(types: Sequence[str]) -> bool:
    """Return whether products of these types are ever rounded."""
    return tuple(types) == _F32


def hint(types: Sequence[str]) -> str:
    """Return what to add to a message that an engine does not compute a product of `types`."""
    return '; precision="high" or "default" would allow it' if is_rounded(types) else ""
