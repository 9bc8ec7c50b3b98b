"""Which kernels there can be of a program on a device, and which calls each of them is for.

A contract between `lowering` and `runtime`, as `tl_dpnp.lowering.plan` is: what a kernel is chosen by is known before
any is compiled, and survives a round trip through JSON, so that a kernel in the disk cache is chosen without importing
the compiler.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tl_dpnp.lowering.device import LoweringOptions
from tl_dpnp.lowering.mappings.frames import FRAMES, Form
from tl_dpnp.records import dataclass

if TYPE_CHECKING:
    from tl_dpnp.lowering.product_plans import BlockPlan, TilePlan

__all__ = ["Condition", "FewBlocks", "FewGroups", "Variant", "only_variant", "variants_from_json", "variants_to_json"]


@dataclass(frozen=True)
class FewGroups:
    """Calls of so few work-groups that cores of a CPU would be idle, if each is large enough to be shared.

    `work` is that of one work-group (`tl_dpnp.lowering.plan.LaunchPlan`).
    """

    work: int


@dataclass(frozen=True)
class FewBlocks:
    """Calls of so few work-groups that blocks of threads are few.

    A work-group has `parts`, of which each multiprocessor of a GPU does `most`.
    """

    parts: int
    most: int

    def holds(self, groups: int, units: int) -> bool:
        """Return whether so many work-groups are few for so many multiprocessors."""
        return groups * self.parts <= units * self.most


#: What a call must be like.  `TilePlan`: a product that is large enough, of arrays that tensor maps take; `BlockPlan`:
#: one that is large enough.
Condition: TypeAlias = "FewGroups | FewBlocks | TilePlan | BlockPlan"


class Variant(NamedTuple):
    """A kernel that a program can have on a device: what the compiler is asked for, and the calls that it is for.

    `form` is None for what the user's options ask for anyway; `condition` is None where any call will do.  A call takes
    the first variant that is for it.
    """

    form: Form | None
    condition: Condition | None = None

    @property
    def is_raised(self) -> bool:
        """Whether it is one product in place of the tiles of the program (`tl_dpnp.lowering.raising`)."""
        return getattr(self.condition, "is_raised", False)


def only_variant(has_products: bool, options: LoweringOptions) -> Variant | None:
    """Return the variant where a glance says that there is but one, None where it takes `tl_dpnp.lowering`.

    There is no choice where the options leave none, and other forms than the default one are for products of matrices,
    on CUDA devices also for those that are written tile by tile.
    """
    is_open = options.form is None or not FRAMES[options.form].takes_every_call
    return None if is_open and has_products and not (options.debug or options.schedules) else Variant(None)


def variants_to_json(variants: Sequence[Variant]) -> list[dict[str, Any]]:
    """Return variants as JSON-serialisable data."""
    return [{"form": variant.form, "condition": None if variant.condition is None else
             {type(variant.condition).__name__: asdict(variant.condition)}} for variant in variants]


def variants_from_json(data: list[dict[str, Any]]) -> tuple[Variant, ...]:
    """Rebuild the variants that `variants_to_json` returned; raises ValueError for anything else."""
    def condition(data: dict[str, Any] | None) -> Condition | None:
        match data:
            case None:
                return None
            case {"FewGroups": facts}:
                return FewGroups(**facts)
            case {"FewBlocks": facts}:
                return FewBlocks(**facts)
        from tl_dpnp.lowering.product_plans import BlockPlan, TilePlan  # which CUDA devices need

        match data:
            case {"TilePlan": facts}:
                return TilePlan.from_json(facts)
            case {"BlockPlan": facts}:
                return BlockPlan.from_json(facts)
        raise ValueError(f"{data} is no condition of a variant")

    return tuple(Variant(entry["form"], condition(entry["condition"])) for entry in data)
