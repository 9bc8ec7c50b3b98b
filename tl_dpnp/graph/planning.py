"""From the graph of some results to requests for kernels: with known sizes, or with those given that vary."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tl_dpnp.graph.coalescing import coalesced
from tl_dpnp.graph.kernels import KernelRequest, request_kernel
from tl_dpnp.graph.nodes import Array, Node
from tl_dpnp.graph.partition import Region, partition
from tl_dpnp.graph.repartition import Partitioning
from tl_dpnp.graph.storage import temporaries
from tl_dpnp.graph.varying import Choice, Varying
from tl_dpnp.graph.work_groups import WorkGroups

__all__ = ["requests_for"]

Renamed = Callable[[Node, Node], None]


def requests_for(
    roots: Mapping[Node, Array], new_array: Callable[[Node], Array], device: WorkGroups, renamed: Renamed,
    varying: Varying | None,
) -> tuple[list[KernelRequest], Choice | None]:
    """Return requests for the kernels that compute `roots`, in order, and what they are given because it varies.

    Kernels that know all sizes are preferred where they are there already, unless they were not for a graph like this.
    """
    choice = None if varying is None else varying.choose(roots)
    known = None if choice is None else choice.partitionings.get(device)
    if choice is not None and known is not None:
        regions = known.applied(coalesced(choice.applied(renamed), renamed), new_array, renamed)
        requests = [request_kernel(region, device) for region in regions]
        if all(request.is_known for request in requests):
            return requests, choice
    regions = partition(coalesced(roots, renamed), new_array, device, renamed)
    requests = [request_kernel(region, device) for region in regions]
    if choice is None or all(request.is_known for request in requests):
        return requests, None
    if choice.is_static:
        return requests, choice
    applied = coalesced(choice.applied(renamed), renamed)
    regions = partition(applied, new_array, device, renamed)
    if not all(_has_room(region, device) for region in regions):
        return requests, choice.refused("what a work-group keeps in memory depends on it")
    choice.partitionings[device] = Partitioning.of(applied, regions)
    return [request_kernel(region, device) for region in regions], choice


def _has_room(region: Region, device: WorkGroups) -> bool:
    return temporaries(region.placement, region.roots) <= device.local_memory
