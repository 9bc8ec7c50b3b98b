"""What sub-groups compute with: parts of parameters, and sums of products of these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from tl_dpnp.language import ops
from tl_dpnp.language.extents import Extents
from tl_dpnp.lowering.raising.numbers import Number, Unraised
from tl_dpnp.records import dataclass

__all__ = ["Call", "Carried", "Factor", "Stored", "Term", "Tile", "TileSum", "Trace", "View", "added", "is_sum",
           "merged"]


class Call(NamedTuple):
    """What a call knows: the sizes of the arguments, the extents of the launch, and scalars that are extents, by name.
    """

    shapes: Mapping[str, tuple[int, ...]]
    extents: Extents
    scalars: Mapping[str, int]


class View(NamedTuple):
    """A parameter, or a part of it: where the modes of that begin and end, and which matrix of a batch it is of."""

    parameter: str
    ranges: tuple[tuple[Number, Number], ...]
    slice: Number = None
    is_slice: bool = False


@dataclass(frozen=True, eq=False)
class Tile:
    """A part of a view that an instruction accesses: the first element, as an index of the parameter.

    That is done by those in the `mask`, in each iteration of the `loops`, which are axes.
    """

    access: ops.MatrixAccess
    view: View
    indices: tuple[Number, Number]
    mask: Number
    loops: tuple[int, ...]

    @property
    def fact(self) -> tuple[str, bool, bool]:
        """What all tiles of a matrix have in common: its name, whether it is one of a batch, and transposition."""
        return self.view.parameter, self.view.is_slice, self.access.transpose


@dataclass(frozen=True, eq=False)
class Carried:
    """What one loop carries, seen from inside, until it is known what the loop yields."""

    name: str


Factor: TypeAlias = "Tile | Carried"


@dataclass(frozen=True, eq=False)
class Term:
    """The product of two parts, in the order in which such were computed."""

    number: int
    operation: ops.CooperativeMatrixMulAdd
    factors: tuple[Factor, Factor]
    mask: Number
    loops: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class TileSum:
    """alpha times the sum of the terms, plus beta times the base, which is 0 without one.

    alpha and beta are 1 where they are None.  What `is_rounded` has a type that terms are not added in.
    """

    terms: tuple[Term, ...] = ()
    base: Factor | None = None
    alpha: ops.Operand | None = None
    beta: ops.Operand | None = None
    is_rounded: bool = False


class Stored(NamedTuple):
    """A sum and where it is stored."""

    tile: Tile
    sum: TileSum


class Trace(NamedTuple):
    """What was loaded and stored, and the lengths of all axes, 1 where they are not known."""

    loaded: tuple[Tile, ...]
    stored: tuple[Stored, ...]
    lengths: tuple[int, ...]


def is_sum(value: ops.Operand) -> bool:
    return ops.matrix_type(value).use == "matrix_acc"


def added(one: TileSum, other: TileSum) -> TileSum:
    """Return the sum of two, of which one has all the terms, and one the base."""
    if (one.terms and other.terms) or (one.base is not None and other.base is not None):
        raise Unraised("sums of products are added to one another")
    terms, base = (one if one.terms else other), (one if one.base is not None else other)
    return TileSum(terms.terms, base.base, terms.alpha, base.beta)


def merged(one: TileSum, other: TileSum, before: int, between: int) -> TileSum:
    """Return the sum behind a branch, whose sides have added terms of their own to one sum.

    Those of the first side have numbers after `before`, those of the second one numbers after `between`.
    """
    common = [term for term in one.terms if term.number <= before]
    if common != [term for term in other.terms if term.number <= before] or (
        (one.base, one.alpha, one.beta, one.is_rounded) != (other.base, other.alpha, other.beta, other.is_rounded)
    ):
        raise Unraised("what is done with a sum depends on a branch")
    added = [term for term in one.terms if term.number > before]
    added += [term for term in other.terms if term.number > between]
    return replace(one, terms=(*common, *added))
