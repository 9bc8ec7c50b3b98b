"""How the kernels of each mapping are launched, as plain data that takes no compiler."""

from __future__ import annotations

from typing import Literal

from tl_dpnp.records import dataclass

__all__ = ["FRAMES", "Form", "Frame"]

#: What users call the mappings.
Form = Literal["vector", "divided", "subgroup", "staged", "tiled", "blocked"]


@dataclass(frozen=True)
class Frame:
    """What the runtime has to know of a mapping.

    With `is_alone`, a work-item computes work-groups by itself, one after another, without barriers and local memory;
    with `is_persistent`, as many blocks of threads as run at the same time compute all work-groups.  Else each
    work-group is one of the device.  `is_tunable` is whether schedules can be searched, `takes_every_call` whether any
    arguments will do.  `words` say what computes a work-group, with parts of the launch plan in braces.
    """

    words: str = "{subgroups} sub-groups of {subgroup_size} work-items compute a work-group"
    is_alone: bool = False
    is_persistent: bool = False
    is_tunable: bool = True
    takes_every_call: bool = True


#: The frames of the mappings: those of the modules work_item, divided, sub_group, persistent, blocked, persistent_gemm.
FRAMES: dict[Form, Frame] = {
    "vector": Frame("one work-item computes a work-group, with vectors", is_alone=True),
    "divided": Frame("{parts} work-items share a work-group, with vectors", is_alone=True, is_tunable=False),
    "subgroup": Frame(),
    "staged": Frame(is_persistent=True, is_tunable=False),
    "tiled": Frame(is_persistent=True, is_tunable=False, takes_every_call=False),
    "blocked": Frame(is_persistent=True, is_tunable=False, takes_every_call=False),
}
