"""Waiting for a device, in turns with the calls of other threads."""

from __future__ import annotations

from typing import Any

from tl_dpnp.errors import TLTypeError
from tl_dpnp.runtime.call.arrays import NotAnArray
from tl_dpnp.runtime.call.group import Group
from tl_dpnp.runtime.forking import check_process
from tl_dpnp.runtime.platform_choice import is_event, platform_of, platform_of_event, platform_of_queue

__all__ = ["wait"]


def wait(*things: Any) -> None:
    """Wait for each of `things`: a queue, an array or `Group`, which stand for their queue, or an event.

    Queues are those of dpctl, arrays and events those of any device.  Of a queue this waits for all that was submitted
    to it, as ``queue.wait()`` does; but threads that wait here, or call kernels, take turns, because the OpenCL runtime
    for CPUs may crash where two wait for one queue that is out of order.

    Raises `TLTypeError` for anything else.
    """
    check_process()
    for thing in things:
        if hasattr(thing, "sycl_device") and hasattr(thing, "wait"):
            platform_of_queue(thing).wait(thing)
        elif is_event(thing):
            platform_of_event(thing).wait_for_event(thing)
        else:
            queue = _queue_of(thing)
            if queue is not None:  # that of an empty group
                platform_of_queue(queue).wait(queue)


def _queue_of(thing: Any) -> Any:
    if isinstance(thing, Group):
        return thing.queue
    try:
        return platform_of([thing]).arrays.view_of(thing).queue
    except NotAnArray as problem:
        message = f"wait takes a queue, an event, an array on a device or a group, not {problem.what}"
        raise TLTypeError(message) from None
