"""Whether this process may use the tiles (AMX) of the processor: by its flags, and by a permission that Linux gives.

Without the permission the first tile instruction ends the process (SIGILL).  It is asked for once, holds for all
threads, those that run already included, and for processes that are forked; a program that is started anew asks anew.
Source: Linux, Documentation/arch/x86/xstate.rst ("Using XSTATE features in user space applications").
"""

from __future__ import annotations

import ctypes
import functools
import os

from tl_dpnp.runtime.bootstrap import processor

__all__ = ["features", "refusal"]

#: The system call, what to ask it for, and the number of the state that the tiles' contents are.
_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18
_TILES = "amx_tile"


@functools.cache
def features() -> tuple[str, ...]:
    """Return the flags of the processor for products of tiles, none for a processor without tiles."""
    flags = processor().get("flags", "").split()
    if _TILES not in flags:
        return ()
    from tl_dpnp.kernels.amx.rows import ROWS

    products = dict.fromkeys(row.flag for row in ROWS)
    return tuple(flag for flag in products if flag in flags)


@functools.cache
def refusal() -> str | None:
    """Return why this process may not use tiles, None where it may; asks Linux for the permission, once."""
    if not features():
        return "the processor has no AMX"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(ctypes.c_long(_ARCH_PRCTL), ctypes.c_long(_REQUEST_PERMISSION), ctypes.c_long(_TILE_DATA)) == 0:
        return None
    return f"Linux gives no permission to use its tiles: {os.strerror(ctypes.get_errno())}"
