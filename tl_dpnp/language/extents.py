"""How work-groups of a launch are numbered: those along x first, then along y, then along z."""

from __future__ import annotations

__all__ = ["AXES", "Axis", "Extents", "LaunchSize", "group_name", "place_name", "place_of"]

#: The axes of a launch and of a work-group.
AXES = ("x", "y", "z")
Axis = str

#: The number of work-groups of a launch along x, y and z; also the place of one of them.
Extents = tuple[int, int, int]
#: What a caller says of it: how many there are along x, or along all axes; None where that follows from the arguments.
LaunchSize = int | Extents | None


def place_of(number: int, extents: Extents) -> Extents:
    """Return the place of a work-group, given its number."""
    width, height, _ = extents
    return number % width, number // width % height, number // (width * height)


def group_name(number: int, extents: Extents) -> str:
    """Return what messages call a work-group: its number where there is one axis, else its place."""
    return place_name(place_of(number, extents), extents)


def place_name(place: Extents, extents: Extents) -> str:
    """Return what messages call the work-group at a place: its number where there is one axis."""
    return str(place[0]) if extents[1:] == (1, 1) else str(place)
