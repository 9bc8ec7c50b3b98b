"""Which tactic computes an instruction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tl_dpnp.lowering.contraction import Contraction
from tl_dpnp.lowering.homes import class_at
from tl_dpnp.lowering.schedule import Schedule
from tl_dpnp.lowering.tactics.amx import Amx
from tl_dpnp.lowering.tactics.dpas import Dpas
from tl_dpnp.lowering.tactics.tactic import EngineTactic, Place, Tactic, TiledTactic
from tl_dpnp.records import dataclass

__all__ = ["ENGINES", "TACTICS", "choose", "tunable"]


@dataclass(frozen=True)
class Given(Tactic):
    """The user's schedule, as JSON."""

    text: str

    @classmethod
    def of(cls, contraction: Contraction, place: Place) -> Given | None:
        text = place.given.get(contraction.nest.name)
        return None if text is None else cls(contraction, place, text)

    def schedule(self) -> Schedule:
        return Schedule.from_json(self.text, self.contraction.nest)


#: The matrix engines that compute whole nests.
ENGINES: tuple[type[EngineTactic[Any]], ...] = (Dpas, Amx)
#: All tactics, by their modules in this folder: the first that is for an instruction computes it, and those behind it
#: are not imported for that.
TACTICS = ("choice.Given", "dpas.Dpas", "amx.Amx", "vectors.Vectors", "threads.Threads", "blocks.Blocks",
           "warp_tiles.WarpTiles", "lanes.Lanes")


def _of(contraction: Contraction, place: Place) -> Iterator[Tactic]:
    """Yield the tactics that are for an instruction, the first best."""
    for home in TACTICS:
        kind: type[Tactic] = class_at("tactics", home)
        tactic = kind.of(contraction, place)
        if tactic is not None:
            yield tactic


def choose(contraction: Contraction, place: Place) -> Tactic:
    """Return the tactic that computes an instruction."""
    return next(_of(contraction, place))


def tunable(contraction: Contraction, place: Place) -> TiledTactic | None:
    """Return the tactic whose tiles tuning may choose for an instruction, None where there are none."""
    found = next(tactic for tactic in _of(contraction, place) if not tactic.leaves_tuning)
    return found if isinstance(found, TiledTactic) else None
