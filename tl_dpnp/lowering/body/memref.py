"""What the body of a kernel knows of a memref."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tl_dpnp.kernels.llvm import GLOBAL
from tl_dpnp.language.types import MemrefType, Size
from tl_dpnp.lowering.body.tree import Expression

__all__ = ["MemrefDescriptor", "prefer_static"]


class MemrefDescriptor(NamedTuple):
    """A memref in the body: where it lives, its address or its offset in temporary memory, its sizes and strides.

    `ahead` is the distance in bytes to the same memref of the next work-group, or None where the body does not know
    it, or where it is the same memory.  `step` is the distance in elements to that of the second work-group where two
    run at once, and None where they share it.  Its address is a multiple of `alignment` bytes.  Where the program says
    more than its types, strides are multiples of `multiples`, in elements, and the alignment of views is looked for.
    """

    type: MemrefType
    space: int
    address: Expression
    sizes: tuple[Expression, ...]
    strides: tuple[Expression, ...]
    ahead: Expression | None = None
    alignment: int = 1
    step: Expression | None = None
    multiples: tuple[int, ...] = ()

    @property
    def can_be_fetched(self) -> bool:
        """Whether the operand of the next work-group can be prefetched: it is known where it is and how large."""
        return self.ahead is not None and self.type.is_static and self.space == GLOBAL


def prefer_static(types: tuple[Size, ...], known: Sequence[Expression]) -> tuple[Expression, ...]:
    """Take each entry from the type where it is constant there, else what the body knows."""
    return tuple(other if entry is None else entry for entry, other in zip(types, known, strict=True))
