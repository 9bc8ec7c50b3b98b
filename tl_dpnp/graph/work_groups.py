"""What work-groups of a device have and do best, as far as graphs are cut and written for it."""

from __future__ import annotations

from tl_dpnp.records import dataclass
from tl_dpnp.target.device import Device

__all__ = ["WorkGroups", "of_device", "of_warps"]


#: Bytes of shared memory that leave room for several blocks.
_SHARED = 64 << 10


@dataclass(frozen=True)
class WorkGroups:
    """The work-groups of a device; what is not given is for processors, where one work-item does a work-group.

    `local_memory` is in bytes.  A work-group does `most_rows` of a tall matrix, and at most `longest_chunk` of an axis
    whose temporaries do not fit otherwise.  Rows are done by `lanes` that are work-items, if there are any, and so many
    matrices side by side as are `interleaved`, if not as many as on processors.  Element-wise functions are computed
    for about `elements` of them, by `work_items` that share the loops over all axes.  Of `longest_reduction` elements
    and fewer to one, a single work-group is faster than two kernels are: on a Zen 3, up to some 200 000 of f32.
    Where they would be fewer than `least_groups`, lanes have pieces of what they reduce.
    """

    local_memory: int
    most_rows: int = 128
    longest_chunk: int = 2048
    lanes: int = 0
    interleaved: int | None = None
    elements: int = 4096
    work_items: int = 1
    longest_reduction: int = 1 << 17
    least_groups: int = 0


def of_device(device: Device) -> WorkGroups:
    """Return the work-groups of a SYCL device.

    Local memory of a CPU is memory like any other: what does not fit into the cache nearest to a core is no faster
    there, and many matrices in one work-group leave the other cores idle.  Runtimes differ in how much they grant.
    """
    memory = device.local_memory
    return WorkGroups(min(memory, *device.caches[:1]) if device.is_cpu and device.caches else memory)


def of_warps(local_memory: int) -> WorkGroups:
    """Return work-groups of CUDA devices: warps do a row in each lane, and functions have blocks of eight warps.

    Several blocks share the `local_memory` of a multiprocessor.
    """
    return WorkGroups(min(local_memory, _SHARED), most_rows=32, longest_chunk=32, lanes=32, interleaved=32,
                      elements=1024, work_items=256, longest_reduction=1 << 14, least_groups=512)
