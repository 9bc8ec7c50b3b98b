"""Which tactic computes an instruction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tl_dpnp.lowering.contraction import Contraction
from tl_dpnp.lowering.schedule import Schedule
from tl_dpnp.lowering.tactics.amx import Amx
from tl_dpnp.lowering.tactics.blocks import Blocks
from tl_dpnp.lowering.tactics.dpas import Dpas
from tl_dpnp.lowering.tactics.lanes import Lanes
from tl_dpnp.lowering.tactics.tactic import EngineTactic, Place, Tactic, TiledTactic
from tl_dpnp.lowering.tactics.threads import Threads
from tl_dpnp.lowering.tactics.vectors import Vectors
from tl_dpnp.lowering.tactics.warp_tiles import WarpTiles

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


#: The matrix engines that compute whole nests, and all tactics: the first that is for an instruction computes it.
ENGINES: tuple[type[EngineTactic[Any]], ...] = (Dpas, Amx)
TACTICS: tuple[type[Tactic], ...] = (Given, *ENGINES, Vectors, Threads, Blocks, WarpTiles, Lanes)


def choose(contraction: Contraction, place: Place) -> Tactic:
    """Return the tactic that computes an instruction."""
    return next(tactic for kind in TACTICS if (tactic := kind.of(contraction, place)) is not None)


def tunable(contraction: Contraction, place: Place) -> TiledTactic | None:
    """Return the tactic whose tiles tuning may choose for an instruction, None where there are none."""
    found = next(tactic for kind in TACTICS
                 if not kind.leaves_tuning and (tactic := kind.of(contraction, place)) is not None)
    return found if isinstance(found, TiledTactic) else None
