"""Which family of devices a target, an array, a queue or an event belongs to.

`Platform` objects are made on demand, so that neither family's packages are needed for the other.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tl_dpnp.errors import UnsupportedError
from tl_dpnp.runtime.cuda.dlpack import is_on_cuda
from tl_dpnp.runtime.fresh_stack import on_fresh_stack
from tl_dpnp.runtime.missing import needed

if TYPE_CHECKING:
    from tl_dpnp.runtime.platforms import Platform

__all__ = ["default_platform", "is_event", "platform_for", "platform_of", "platform_of_event", "platform_of_queue"]


@functools.cache
def platform_for(target: str) -> Platform:
    """Return the platform of a target: "sycl" or "cuda"; raises `UnsupportedError` where its packages are missing."""
    return on_fresh_stack(_platform, target)


def _platform(target: str) -> Platform:
    if target == "cuda":
        try:
            from tl_dpnp.runtime.cuda.platform import CudaPlatform
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] != "cuda":
                raise
            raise UnsupportedError('target="cuda" needs numba-cuda and cuda-bindings, which are not installed here; '
                                   "docs/cuda.md says how to make an environment for it") from None
        return CudaPlatform()
    return needed("tl_dpnp.runtime.sycl.platform", 'target="sycl"').SyclPlatform()  # type: ignore[no-any-return]


def default_platform() -> Platform:
    """Return the platform of what has no arrays: SYCL's, unless its packages are missing."""
    return platform_for("cuda" if importlib.util.find_spec("dpctl") is None else "sycl")


def platform_of(arrays: Iterable[Any]) -> Platform:
    """Return the platform that arrays live on, the default one if there are none."""
    for array in arrays:
        if not hasattr(type(array), "__sycl_usm_array_interface__"):
            on_cuda = hasattr(type(array), "__cuda_array_interface__") or is_on_cuda(array)
            return platform_for("cuda" if on_cuda else "sycl")
        return platform_for("sycl")
    return default_platform()


def platform_of_queue(queue: Any) -> Platform:
    """Return the platform that a queue belongs to."""
    return platform_for("sycl" if hasattr(queue, "sycl_device") else "cuda")


def is_event(thing: Any) -> bool:
    """Whether something is an event of a device: those of SYCL have a status, and those of CUDA hold streams."""
    return hasattr(thing, "wait") and (hasattr(thing, "execution_status") or hasattr(thing, "hold"))


def platform_of_event(event: Any) -> Platform:
    """Return the platform that an event belongs to."""
    return platform_for("sycl" if hasattr(event, "execution_status") else "cuda")
