"""Sizes that an instruction requires to be equal, and that only the call knows.

Without this check a kernel would read and write outside its arrays where the sizes do not match: what is static was
checked by the verifier, and "a dynamic size matches any size and is checked at the call" (docs/language.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tl_dpnp.errors import Span
from tl_dpnp.language.ir import Value

__all__ = ["GROUP_ID", "UNKNOWN", "Element", "Extent", "Relation", "Shapes"]

GROUP_ID = "group_id"
UNKNOWN = "unknown"
#: Which element of a group: the one at a constant index, the one that belongs to each work-group, or some other; None
#: where the parameter is no group.
Element = int | str | None

#: For each parameter the shape of its array, for a group those of its elements, for a scalar nothing.
Shapes = Sequence[Sequence[int] | Sequence[Sequence[int]]]


@dataclass(frozen=True)
class Extent:
    """The size of one mode of a parameter, or of an element of a group parameter."""

    parameter: int
    mode: int
    element: Element = None

    def sizes(self, shapes: Shapes, groups: int) -> list[int]:
        """Return the size: one number, or one for each work-group."""
        shape = shapes[self.parameter]
        match self.element:
            case None:
                return [shape[self.mode]]  # type: ignore[list-item]
            case int():
                return [element[self.mode] for element in shape[self.element : self.element + 1]]  # type: ignore[index]
            case _:
                return [element[self.mode] for element in shape[:groups]]  # type: ignore[index]


@dataclass(frozen=True)
class Relation:
    """Two sizes of one instruction that must be equal; `second` is dynamic, `first` may be a constant.

    `letter` names the size in the instruction's formula, `first_memref` and `second_memref` are the operands, `span` is
    the instruction's place.
    """

    letter: str
    first: Extent | int
    first_memref: Value = field(compare=False)
    second: Extent | int
    second_memref: Value = field(compare=False)
    span: Span = field(compare=False)

    def violation(self, shapes: Shapes, groups: int) -> str | None:
        """Return what is wrong with the sizes of a call, or None."""
        first, second = self._sizes(self.first, shapes, groups), self._sizes(self.second, shapes, groups)
        by_group = max(len(first), len(second)) > 1
        if len(first) == 1:
            first = first * len(second)
        if len(second) == 1:
            second = second * len(first)
        for group, (one, other) in enumerate(zip(first, second, strict=False)):
            if one != other:
                where = f" in work-group {group}" if by_group else ""
                return (f"the sizes do not fit{where}: {self.letter} is {one} in {self.first_memref} but {other} in "
                        f"{self.second_memref}")
        return None

    @staticmethod
    def _sizes(size: Extent | int, shapes: Shapes, groups: int) -> list[int]:
        return [size] if isinstance(size, int) else size.sizes(shapes, groups)
