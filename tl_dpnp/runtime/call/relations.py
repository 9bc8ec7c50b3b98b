"""Sizes that an instruction requires to be equal, and that only the call knows.

Without this check a kernel would read and write outside its arrays where the sizes do not match: what is static was
checked by the verifier, and "a dynamic size matches any size and is checked at the call" (docs/language.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from itertools import product

from tl_dpnp.errors import Span
from tl_dpnp.language.extents import AXES, Extents, place_name
from tl_dpnp.language.ir import Value
from tl_dpnp.records import dataclass

__all__ = ["UNKNOWN", "Element", "Extent", "Relation", "Shapes"]

UNKNOWN = "unknown"
#: Which element of a group: the one at a constant index, the one at each work-group's place along an axis, or some
#: other; None where the parameter is no group.
Element = int | str | None

#: For each parameter the shape of its array, for a group those of its elements, for a scalar nothing.
Shapes = Sequence[Sequence[int] | Sequence[Sequence[int]]]


@dataclass(frozen=True)
class Extent:
    """The size of one mode of a parameter, or of an element of a group parameter."""

    parameter: int
    mode: int
    element: Element = None

    def sizes(self, shapes: Shapes, extents: Extents) -> list[int]:
        """Return the size: one number, or one for each place along an axis."""
        shape = shapes[self.parameter]
        match self.element:
            case None:
                return [shape[self.mode]]  # type: ignore[list-item]
            case int():
                return [element[self.mode] for element in shape[self.element : self.element + 1]]  # type: ignore[index]
            case axis:
                return [element[self.mode] for element in shape[:extents[AXES.index(axis)]]]  # type: ignore[index]


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

    def violation(self, shapes: Shapes, extents: Extents) -> str | None:
        """Return what is wrong with the sizes of a call, or None."""
        first, second = ([*enumerate(self._sizes(size, shapes, extents))] for size in (self.first, self.second))
        axes = [_axis_of(self.first), _axis_of(self.second)]
        met = zip(first, second, strict=False) if axes[0] is not None and axes[0] == axes[1] else product(first, second)
        for (one_place, one), (other_place, other) in met:
            if one != other:
                place = {axes[0]: one_place, axes[1]: other_place}
                named = place_name((place.get("x", 0), place.get("y", 0), place.get("z", 0)), extents)
                where = f" in work-group {named}" if max(len(first), len(second)) > 1 else ""
                return (f"the sizes do not fit{where}: {self.letter} is {one} in {self.first_memref} but {other} in "
                        f"{self.second_memref}")
        return None

    @staticmethod
    def _sizes(size: Extent | int, shapes: Shapes, extents: Extents) -> list[int]:
        return [size] if isinstance(size, int) else size.sizes(shapes, extents)


def _axis_of(size: Extent | int) -> str | None:
    """Return the axis along which a size may be another one in each work-group."""
    return size.element if isinstance(size, Extent) and isinstance(size.element, str) else None
