"""Forks: a child of a process that used a device must not use one.

The runtimes of devices (OpenCL, SYCL, CUDA) have threads, and a fork leaves them behind.  A kernel that such a child
launches waits for ever for threads that are not there.  dpnp and dpctl do not notice; here it is an error.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import warnings

from tl_dpnp.errors import TLError
from tl_dpnp.garbage import unfreeze

__all__ = ["check_process", "cut_off_word", "install", "note_use", "process"]

#: Where the arrays of dpctl are, by its version, and what the names of the files have in common that SYCL loads for its
#: devices.
_TENSORS, _PLUGINS = ("dpctl.tensor", "dpnp.tensor"), ("/libpi_", "/libur_adapter_")


class _Process:
    """What is known of this process: whether it used a device, and whether it was forked from one that had."""

    __slots__ = ("cut_off", "used", "warned", "watched", "word")

    def __init__(self) -> None:
        #: 1 in a process that is cut off, for machine code.
        self.word = ctypes.c_int64(0)
        self.used = self.cut_off = self.warned = self.watched = False


#: The state of this process.  `check_process` reads one attribute of it: it is on the path of every call.
process = _Process()


def note_use() -> None:
    """Note that this process uses a device from now on."""
    process.used = True


def cut_off_word() -> int:
    """Return the address of a 64-bit integer that is not 0 where `check_process` raises."""
    return ctypes.addressof(process.word)


def check_process() -> None:
    """Raise `TLError` in a process that was forked from one that had used a device."""
    if process.cut_off:
        raise TLError("this process was forked from one that had used the device, whose runtime does not survive that: "
                      'start processes with multiprocessing.get_context("spawn"), or fork before the first array is '
                      "made (docs/calling.md)")


def install() -> None:
    """Watch forks; the same when called again."""
    if not process.watched:
        process.watched = True
        os.register_at_fork(before=_before_fork, after_in_child=_after_fork)


def _before_fork() -> None:
    if not process.used:
        process.used = _has_arrays()
    if process.used and not process.warned:
        process.warned = True
        warnings.warn("this process has used a device and is forked: if the child uses the device through dpnp or "
                      'dpctl, it hangs, and tl_dpnp raises an error there; multiprocessing.get_context("spawn") starts '
                      "processes that can use it", RuntimeWarning, stacklevel=2)


def _after_fork() -> None:
    process.cut_off = process.cut_off or process.used
    process.used = False
    process.word.value = process.cut_off


def _has_arrays() -> bool:
    """Return whether there are arrays of dpctl, and so of dpnp: making them was a use, though none of ours."""
    modules = [sys.modules[name] for name in _TENSORS if name in sys.modules]
    kinds = tuple(module.usm_ndarray for module in modules if hasattr(module, "usm_ndarray"))
    if not kinds or not _sycl_has_devices():
        return False
    # Not isinstance(), which asks objects for their __class__.
    return any(issubclass(type(thing), kinds) for thing in _all_objects())


def _all_objects() -> list[object]:
    """Return all objects that the garbage collector knows, those too that are frozen, as many are before forks."""
    was_frozen = unfreeze()
    try:
        return gc.get_objects()
    finally:
        if was_frozen:
            gc.freeze()


def _sycl_has_devices() -> bool:
    """Return whether SYCL has looked for devices, for which it loads its plugins; cheaper than going over objects."""
    try:
        with open("/proc/self/maps", errors="replace") as file:
            return any(name in line for line in file for name in _PLUGINS)
    except OSError:
        return True
