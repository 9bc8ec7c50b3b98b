"""Which kernel a call takes, decided before any is compiled."""

from __future__ import annotations

from collections.abc import Sequence

from tl_dpnp.errors import TLBindingError
from tl_dpnp.lowering.device import LoweringOptions
from tl_dpnp.lowering.mappings.frames import Form
from tl_dpnp.lowering.variants import Variant, only_variant, variants_from_json, variants_to_json
from tl_dpnp.runtime.call.arguments import BoundCall
from tl_dpnp.runtime.call.binding import Binding
from tl_dpnp.runtime.call.program import Program
from tl_dpnp.runtime.compiler import cache_key, faults_in
from tl_dpnp.runtime.fresh_stack import on_fresh_stack
from tl_dpnp.runtime.platforms import Platform
from tl_dpnp.runtime.store.cache import DiskCache, Entry, key_of
from tl_dpnp.target.device import Device

__all__ = ["form_for", "variant_for", "variants_of"]


def variants_of(
    program: Program, device: Device, options: LoweringOptions, cache: DiskCache | None,
    refresh: bool = False,
) -> tuple[Variant, ...]:
    """Return the kernels that there can be of a program, from the cache unless it is None, not there, or `refresh`.

    Raises what compiling the program raises, but for schedules that do not fit.
    """
    usage = program.usage
    has_products = usage.has_matrix_product or (usage.has_tiles and device.has_persistent_blocks)
    only = only_variant(has_products, options)
    if only is not None:
        return (only,)
    if cache is None:
        return on_fresh_stack(_find, program, device, options)
    key = key_of(["variants", cache_key(program, device, options)])
    entry = None if refresh else cache.load(key)
    if entry is not None:
        try:
            return variants_from_json(entry.facts["variants"])
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            cache.warn_of(key, problem)
    found = on_fresh_stack(_find, program, device, options)
    cache.store(key, Entry({"variants": variants_to_json(found)}))
    return found


def _find(program: Program, device: Device, options: LoweringOptions) -> tuple[Variant, ...]:
    from tl_dpnp import lowering

    with faults_in(program):
        return lowering.find_variants(program.function, device, options)


def form_for(
    variants: Sequence[Variant], platform: Platform, binding: Binding, call: BoundCall, device: Device
) -> Form | None:
    """Return what the compiler is to be asked for: the form of the variant for a call; raises as `variant_for`."""
    return variant_for(variants, platform, binding, call, device).form


def variant_for(
    variants: Sequence[Variant], platform: Platform, binding: Binding, call: BoundCall, device: Device
) -> Variant:
    """Return the first variant that a call can take.

    Raises `TLBindingError` where it can take none, which happens only to a form that the user asked for.
    """
    problem = None
    for variant in variants:
        problem = None if variant.condition is None else platform.misfit(variant.condition, binding, call, device)
        if problem is None:
            return variant
    message = f"the form that was asked for cannot run @{binding.program.name}: {problem}"
    raise binding.program.error(TLBindingError, message, "leave form= away")
