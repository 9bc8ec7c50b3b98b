"""The threads that help with short calls: one for each core but the first.

They run machine code only and know nothing of Python.  After a call they look for another for a moment, then they
sleep.  They end with the process, before Python does.  A process that was forked has none, and uses no device either.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import threading

from tl_dpnp import config
from tl_dpnp.runtime.native_calls import machine_code
from tl_dpnp.runtime.sycl.helper_code import HELPER, STATE, ranges_for
from tl_dpnp.runtime.sycl.host_call_code import HostEmitter

__all__ = ["start", "stop"]

_SYS_FUTEX, _WAKE = 202, 129
_EVERYONE = (1 << 31) - 1
#: Signals that tell a thread of what it did itself, and the one that ends the process where an error is noticed.
_FAULTS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}
_lock = threading.Lock()
_threads: list[ctypes.c_ulong] = []
_process: list[int] = []
_keep: list[object] = []


def start(cores: int) -> None:
    """Start a thread for each core but one, of those that this process may use; the same when called again."""
    with _lock:
        if _process:
            return
        _process.append(os.getpid())
        atexit.register(stop)
        spin = config.get("SPIN_US")
        count = min(cores, len(os.sched_getaffinity(0))) - 1 if spin else 0
        STATE.spin = 1000 * spin
        ranges = ranges_for(count + 1)
        STATE.ranges = ctypes.addressof(ranges)
        # Where two threads make the machine code at the same time, this one's need not be the one that is kept.
        engine, _ = machine_code(HostEmitter)
        _keep.extend((engine, ranges))
        entry = ctypes.c_void_p(engine.get_function_address(HELPER))
        create = ctypes.CDLL(None).pthread_create
        # Signals are Python's: a helper that took one would not wake the thread that waits for it.  Those of faults are
        # the thread's own: where they are blocked, the process ends without a word.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - _FAULTS)
        try:
            for number in range(count):
                thread = ctypes.c_ulong()
                if create(ctypes.byref(thread), None, entry, ctypes.c_void_p(number + 1)):
                    break  # no more threads for this user: what there is will do
                _threads.append(thread)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        STATE.helpers, STATE.started = len(_threads), 1


def stop() -> None:
    """End the threads, and wait until they have ended."""
    with _lock:
        STATE.helpers = 0
        if _process != [os.getpid()]:
            return
        system = ctypes.CDLL(None)
        STATE.quit = 1
        STATE.bell += 1
        system.syscall(_SYS_FUTEX, ctypes.byref(STATE, type(STATE).bell.offset), _WAKE, _EVERYONE, None, None, 0)
        while _threads:
            system.pthread_join(_threads.pop(), None)
