"""How the kernels of each mapping are launched, as plain data that takes no compiler."""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["FRAMES", "Form", "Frame"]

#: What users call the mappings.
Form = Literal["vector", "divided", "subgroup", "staged", "packed", "spread", "tiled", "blocked"]


class Frame(NamedTuple):
    """What the runtime has to know of a mapping.

    With `is_alone`, a work-item computes work-groups by itself, one after another, without barriers and local memory;
    with `is_persistent`, as many blocks of threads as run at the same time compute all work-groups.  Else each
    work-group is one of the device.  What `needs_blocks` is for devices with such blocks all the same.  `is_tunable` is
    whether schedules can be searched, `takes_every_call` whether any arguments will do.  `words` say what computes a
    work-group, with parts of the launch plan in braces.

    `home` is the class of the mapping, by its module in this folder, where the mapping is for some programs only.
    """

    words: str = "{subgroups} sub-groups of {subgroup_size} work-items compute a work-group"
    is_alone: bool = False
    is_persistent: bool = False
    needs_blocks: bool = False
    is_tunable: bool = True
    takes_every_call: bool = True
    home: str = ""


#: The frames of the mappings: those that a program of any kind can have, of the modules work_item and sub_group, and
#: those for some, a later one of which comes before an earlier one where a program has both.
FRAMES: dict[Form, Frame] = {
    "vector": Frame("one work-item computes a work-group, with vectors", is_alone=True),
    "subgroup": Frame(),
    "divided": Frame("{parts} work-items share a work-group, with vectors", is_alone=True, is_tunable=False,
                     home="divided.Divided"),
    "staged": Frame(is_persistent=True, is_tunable=False, home="persistent.staging.Persistent"),
    "packed": Frame(is_persistent=True, is_tunable=False, home="persistent.packed.Packed"),
    "spread": Frame("{parts} teams of {subgroup_size} x {subgroups} work-items share a work-group",
                    needs_blocks=True, is_tunable=False, takes_every_call=False, home="persistent.spreading.Spread"),
    "blocked": Frame(is_persistent=True, is_tunable=False, takes_every_call=False, home="blocked.Blocked"),
    "tiled": Frame(is_persistent=True, is_tunable=False, takes_every_call=False, home="persistent_gemm.PersistentGemm"),
}
