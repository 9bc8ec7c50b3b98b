"""Work-items that run one region, each for itself: they go on until they wait, and meet there.

All of a sub-group have to come to the same sub-group instruction, all of the work-group to the same barrier, in the
same iteration of the loops around it (tensor language reference 0.4, section "Execution model").  What the reference
leaves undefined, work-items that meet different ones, is an error here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tl_dpnp.language.interpreter.fault import Fault

if TYPE_CHECKING:
    from tl_dpnp.language.interpreter.machine import Meeting, Steps

__all__ = ["run_together"]

#: A work-item: its number in its sub-group, and the number of the sub-group.
Place = tuple[int, int]
_HINT = "put it where all of them come to it, in the same iterations"


def run_together(items: Mapping[Place, Steps], ordered: Callable[[range], Iterable[int]]) -> None:
    """Run work-items to their ends; `ordered` gives numbers in the order in which work-items take turns.

    Raises the error for a `Fault`, at the place where some of them wait for what others do not come to.
    """
    places = list(items)
    answers: dict[Place, list[Any] | None] = dict.fromkeys(places)
    waiting: dict[Place, Meeting] = {}
    while answers:
        for place in [places[number] for number in ordered(range(len(places)))]:
            if place in answers:
                try:
                    answer = answers[place]
                    waiting[place] = next(items[place]) if answer is None else items[place].send(answer)
                except StopIteration:
                    pass
        answers = _met(items, waiting)
        waiting = {place: meeting for place, meeting in waiting.items() if place not in answers}


def _met(items: Mapping[Place, Steps], waiting: Mapping[Place, Meeting]) -> dict[Place, list[Any] | None]:
    """Return who goes on with which values: sub-groups that met, else, where nobody did, the whole work-group."""
    going: dict[Place, list[Any] | None] = {}
    for subgroup in dict.fromkeys(subgroup for _, subgroup in waiting):
        members = [place for place in items if place[1] == subgroup]
        if any(waiting[place].operation.done_among == "sub-group" for place in members if place in waiting):
            going.update(dict.fromkeys(members, _values(members, items, waiting)))
    if not going and waiting:
        going.update(dict.fromkeys(items, _values(list(items), items, waiting)))
    return going


def _values(members: list[Place], items: Mapping[Place, Steps], waiting: Mapping[Place, Meeting]) -> list[Any]:
    """Return the values that work-items give where they meet.  Raises the error for a `Fault` where they do not."""
    at = next(place for place in members if place in waiting)
    first = waiting[at]
    for lane, subgroup in members:
        meeting = waiting.get((lane, subgroup))
        if meeting is None:
            what = "ends without it"
        elif meeting.operation is not first.operation:
            what = f"waits at {'another' if meeting.operation.mnemonic == first.operation.mnemonic else 'a'} " \
                   f"{meeting.operation.mnemonic}"
        elif meeting.iterations != first.iterations:
            what = "is in another iteration"
        else:
            continue
        items[at].throw(Fault(f"not all work-items come to this {first.operation.mnemonic}: work-item {lane} of "
                              f"sub-group {subgroup} {what}", _HINT))
    values = [waiting[place].value for place in members]
    if first.together is None:
        return values
    try:
        return first.together(values)
    except Fault as fault:
        items[at].throw(fault)
        raise
