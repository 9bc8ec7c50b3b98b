"""The devices that are there, described for the compiler."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import dpctl

from tl_dpnp.errors import UnsupportedError
from tl_dpnp.runtime.bootstrap import CPU_VECTOR_BYTES, processor
from tl_dpnp.runtime.sycl import amx
from tl_dpnp.target.catalog import GPU, core_of
from tl_dpnp.target.device import Device

__all__ = ["describe", "devices", "queue_of"]

#: Execution size of DPAS by a part of the device's name; dpctl 0.17 does not tell the architecture.
_DPAS_LANES = {"Data Center GPU Max": 16, "Data Center GPU Flex": 8, "Arc(TM) A": 8}
#: Bytes of a vector of AVX-512, which all processors with AMX have.
_AVX512 = 64
#: Linux's units of cache sizes.
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def devices() -> list[Device]:
    """Return a description of every SYCL device that dpctl finds; empty if it finds none."""
    return [describe(device) for device in dpctl.get_devices()]


def queue_of(selector: str) -> Any:
    """Return a new `dpctl.SyclQueue` of the device that a filter selects, such as ``cpu`` or ``opencl:cpu:0``.

    Raises `UnsupportedError` where there is no such device.
    """
    try:
        return dpctl.SyclQueue(selector)
    except (dpctl.SyclQueueCreationError, dpctl.SyclDeviceCreationError, ValueError):
        if selector != selector.lower():
            raise UnsupportedError(f"there is no SYCL device {selector!r}: filters are in small letters, "
                                   f"{selector.lower()}") from None
        there = ", ".join(f"{device.filter_string} ({device.name})" for device in dpctl.get_devices())
        raise UnsupportedError(f"there is no SYCL device {selector!r}; there are {there or 'none'}: "
                               "python -m tl_dpnp -s says more") from None


@functools.lru_cache(maxsize=64)
def describe(device: Any) -> Device:
    """Return the description of a `dpctl.SyclDevice`."""
    is_cpu = bool(device.is_cpu)
    vector_bytes = _cpu_vector_bytes(4 * device.native_vector_width_float) if is_cpu else 16
    return Device(
        name=device.name,
        vendor=device.vendor,
        driver=device.driver_version,
        backend=device.backend.name,
        is_cpu=is_cpu,
        subgroup_sizes=tuple(device.sub_group_sizes),
        max_work_group_size=device.max_work_group_size,
        local_memory=device.local_mem_size,
        compute_units=device.max_compute_units,
        core=core_of(processor(), vector_bytes) if is_cpu else GPU,
        has_fp64=bool(device.has_aspect_fp64),
        has_fp16=bool(device.has_aspect_fp16),
        has_atomic64=bool(device.has_aspect_atomic64),
        caches=_cpu_caches() if is_cpu else (device.global_mem_cache_size,),
        last_cache=_last_cache() if is_cpu else device.global_mem_cache_size,
        dpas_lanes=next((lanes for part, lanes in _DPAS_LANES.items() if part in device.name), 0),
        amx=_tile_products(vector_bytes) if is_cpu else (),
    )


def _cpu_vector_bytes(native: int) -> int:
    """Return the bytes of the vectors that the CPU runtime compiles for: those of the processor (`native`) or fewer.

    It reports those of the processor even where it is told to compile for less.
    """
    told = CPU_VECTOR_BYTES.get(os.environ.get("CL_CONFIG_CPU_TARGET_ARCH", ""), 64)
    return min(told, max(16, native))


def _tile_products(vector_bytes: int) -> tuple[str, ...]:
    """Return which products the tiles of the processor compute, none where the runtime compiles for an older one."""
    return amx.features() if vector_bytes == _AVX512 else ()


def _cpu_caches() -> tuple[int, ...]:
    """Return the sizes of the data caches of the first core in bytes, or nothing where Linux does not tell."""
    sizes: dict[int, int] = {}
    try:
        for cache in _data_caches(0):
            sizes[int(_read(cache, "level"))] = _bytes(cache)
    except (OSError, ValueError):
        return ()
    return tuple(sizes[level] for level in sorted(sizes))


def _last_cache() -> int:
    """Return the bytes of the last-level caches of the cores that this process may use, or 0 where Linux does not tell.

    Cores that share one are counted once.
    """
    sizes: dict[str, int] = {}
    try:
        for core in os.sched_getaffinity(0):
            last = max(_data_caches(core), key=lambda cache: int(_read(cache, "level")))
            sizes[_read(last, "shared_cpu_list")] = _bytes(last)
    except (OSError, ValueError):
        return 0
    return sum(sizes.values())


def _data_caches(core: int) -> list[Path]:
    """Return Linux's folders about the caches of a core, but that for instructions."""
    folders = sorted(Path(f"/sys/devices/system/cpu/cpu{core}/cache").glob("index*"))
    return [folder for folder in folders if _read(folder, "type") != "Instruction"]


def _bytes(cache: Path) -> int:
    size = _read(cache, "size")
    if size[-1:] not in _UNITS:
        raise ValueError(f"{size!r} is no size of a cache")
    return int(size[:-1]) * _UNITS[size[-1]]


def _read(cache: Path, name: str) -> str:
    return (cache / name).read_text(encoding="ascii").strip()
