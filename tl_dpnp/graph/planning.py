"""From the graph of some results to requests for kernels: with known sizes, or with those given that vary."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tl_dpnp.graph.coalescing import coalesced
from tl_dpnp.graph.kernel_summary import KernelReport
from tl_dpnp.graph.kernels import KernelRequest, request_kernel
from tl_dpnp.graph.nodes import Array, Node
from tl_dpnp.graph.partition import Region, partition
from tl_dpnp.graph.plan import Allocation, KernelStep
from tl_dpnp.graph.repartition import Partitioning
from tl_dpnp.graph.storage import temporaries
from tl_dpnp.graph.symbols import actual_shape
from tl_dpnp.graph.varying import Choice, Varying
from tl_dpnp.graph.work_groups import WorkGroups, of_device, of_warps
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.array_package import TARGET, describe, prepare, runs_in_warps

__all__ = ["Planned", "allocation", "kernel_steps", "requests_for", "work_groups_on"]

Renamed = Callable[[Node, Node], None]


@dataclass(frozen=True)
class Planned:
    """The graph of `roots`, which are written to arrays of a USM type on a queue, and the requests for its kernels.

    `coalesced` are the roots of the graph that was partitioned, and `registers` counts those of the arrays that there
    were before.
    """

    roots: Mapping[Node, Array]
    coalesced: Mapping[Node, Array]
    requests: Sequence[KernelRequest]
    device: WorkGroups
    usm_type: str
    queue: Any
    registers: int


def work_groups_on(queue: Any) -> WorkGroups:
    """Return the work-groups of kernels on a queue."""
    device = describe(queue)
    return of_warps(device.local_memory) if runs_in_warps else of_device(device)


def requests_for(
    roots: Mapping[Node, Array], new_array: Callable[[Node], Array], device: WorkGroups, renamed: Renamed,
    varying: Varying | None,
) -> tuple[list[KernelRequest], Choice | None, Mapping[Node, Array]]:
    """Return requests for the kernels that compute `roots`, in order, what they are given because it varies, and the
    roots of the graph that was partitioned.

    Kernels that know all sizes are preferred where they are there already, unless they were not for a graph like this;
    a graph is partitioned as the last one like it was, if there are all kernels for that.
    """
    choice = None if varying is None else varying.choose(roots)
    known = None if choice is None else choice.partitionings.get(device)
    if choice is not None and known is not None:
        applied = coalesced(choice.applied(renamed), renamed)
        regions = known.applied(applied, new_array, renamed)
        requests = [request_kernel(region, device) for region in regions]
        if all(request.is_known(TARGET) for request in requests):
            return requests, choice, applied
    static = coalesced(roots, renamed)
    known = None if choice is None else choice.alike.get(device)
    if known is not None:
        requests = [request_kernel(region, device) for region in known.applied(static, new_array, renamed)]
        if all(request.is_known(TARGET) for request in requests):
            return requests, None, static
    regions = partition(static, new_array, device, renamed)
    if choice is not None:
        choice.alike[device] = Partitioning.of(static, regions)
    requests = [request_kernel(region, device) for region in regions]
    if choice is None or all(request.is_known(TARGET) for request in requests):
        return requests, None, static
    if choice.is_static:
        return requests, choice, static
    applied = coalesced(choice.applied(renamed), renamed)
    regions = partition(applied, new_array, device, renamed)
    if not all(_has_room(region, device) for region in regions):
        return requests, choice.refused("what a work-group keeps in memory depends on it"), static
    choice.partitionings[device] = Partitioning.of(applied, regions)
    return [request_kernel(region, device) for region in regions], choice, applied


def _has_room(region: Region, device: WorkGroups) -> bool:
    return temporaries(region.placement, region.roots) <= device.local_memory


def allocation(array: Array, usm_type: str) -> Allocation:
    """Return what allocates an array, with the sizes of the call."""
    return Allocation(array.slot, actual_shape(array.shape), array.dtype, usm_type)


def kernel_steps(
    requests: Sequence[KernelRequest], whole: Mapping[int, Array], usm_type: str, queue: Any,
    is_there: Callable[[int], bool],
) -> Iterator[KernelStep]:
    """Yield the steps that run the kernels that are asked for, each once the one before was taken.

    `whole` has the arrays of results by their registers; each is allocated by the first step that writes to it, unless
    it `is_there`.
    """
    for request in requests:
        prepared, region = request.prepared(TARGET, functools.partial(prepare, queue=queue)), request.region
        fresh = [whole[slot] for slot in dict.fromkeys(array.slot for array in region.outputs) if not is_there(slot)]
        yield KernelStep(
            prepared.launch, tuple(allocation(array, usm_type) for array in fresh), prepared.operands,
            prepared.scalars, queue, prepared.fixed, KernelReport(region, prepared.kernel, prepared.compiled),
        )
