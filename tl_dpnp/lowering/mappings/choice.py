"""Which mappings a program has on a device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tl_dpnp.language.printer import headline
from tl_dpnp.lowering.analysis import Analysis
from tl_dpnp.lowering.homes import class_at
from tl_dpnp.lowering.mappings.frames import FRAMES
from tl_dpnp.lowering.mappings.mapping import Mapping, OfProduct
from tl_dpnp.lowering.mappings.work_item import WorkItem

if TYPE_CHECKING:
    from tl_dpnp.lowering.mappings.sub_group import SubGroups

__all__ = ["base_mapping", "default_mapping", "mappings_of", "raising_remarks"]


def base_mapping(analysis: Analysis) -> WorkItem | SubGroups:
    """Return the mapping that a program of any kind has on a device, or that the one which is asked for is over.

    A work-item of a CPU computes a work-group, unless there are products for a matrix engine, or the function has
    attributes, which only sub-groups can honour.  Raises LoweringError where attributes and device, or attributes and
    what is asked for, disagree.
    """
    if analysis.options.form is None:
        is_alone = analysis.device.is_cpu and not (
            analysis.parsed.has_attributes or analysis.products or analysis.fragments.kept)
    else:
        is_alone = FRAMES[analysis.options.form].is_alone
    if is_alone:
        return WorkItem.of(analysis)
    from tl_dpnp.lowering.mappings.sub_group import SubGroups  # which CPUs seldom need

    return SubGroups.of(analysis)


def mappings_of(analysis: Analysis) -> tuple[Mapping, ...]:
    """Return the mappings that a program has for calls on a device, the first best; the last is for all the calls.

    There is but one where the options ask for it.  Calls that may be one product, though it is written tile by tile,
    come first.  Raises LoweringError where they ask for one that is not for the
    program, and what `base_mapping` raises.
    """
    base, options = base_mapping(analysis), analysis.options
    raised = tuple(_raised(analysis))
    if raised and options.form is not None:
        return raised
    is_open = options.form is None and not (base.is_given or options.schedules or options.debug)
    found: tuple[Mapping, ...] = (base,)
    for form, frame in FRAMES.items():
        is_possible = is_open and (analysis.device.has_persistent_blocks or not (
            frame.is_persistent or frame.needs_blocks))
        if frame.home and (is_possible or options.form == form):
            kind: type[Mapping] = class_at("mappings", frame.home)
            mapping = None if base.is_given else kind.over(found[-1], analysis)
            if mapping is not None and is_open and _is_slower(mapping, found):
                continue
            if mapping is not None:
                is_for_all = not mapping.awaits_call and mapping.frame.takes_every_call
                found = (mapping, *(() if is_for_all or not is_open else found))
            elif not is_open:
                raise analysis.refusal(
                    f"@{analysis.parsed.name} cannot run in the {kind.form} form on {analysis.device.name}: that is "
                    f"for {kind.purpose} attributes and debug=True", "leave form= away")
    return (*raised, *found)


def _raised(analysis: Analysis) -> Iterator[Mapping]:
    """Yield the mappings for calls that are the product which a function was raised to, the first best."""
    form = analysis.options.form
    if form is not None and FRAMES[form].takes_every_call:
        return
    found = analysis.raised
    if isinstance(found, Analysis):
        yield from (each.of_raised(found) for each in mappings_of(found) if isinstance(each, OfProduct))


def raising_remarks(analysis: Analysis) -> Iterator[str]:
    """Yield what a user should know of calls of a program that is written tile by tile."""
    found = analysis.raised
    if isinstance(found, str):
        yield f"the tiles are not raised to one gemm: {found}"
    elif found is not None and analysis.options.form is None:
        forms = " or ".join(each.form for each in _raised(analysis))
        gemm = "; ".join(headline(operation) for operation in found.parsed.body)
        yield f"calls whose tiles are the whole of {gemm}, each once, run as that in the {forms} form" if forms else (
            f"{gemm}, which the tiles may be the whole of, has no form of its own")


def _is_slower(mapping: Mapping, others: Sequence[Mapping]) -> bool:
    """Whether a mapping takes as long as one of others, by the estimates that there are."""
    known = [other.cycles for other in others if other.cycles is not None]
    return mapping.cycles is not None and bool(known) and mapping.cycles >= min(known)


def default_mapping(mappings: Sequence[Mapping]) -> Mapping:
    """Return which of the mappings of a program a kernel has that is made before there is a call."""
    return next((mapping for mapping in mappings if not mapping.awaits_call), mappings[-1])
