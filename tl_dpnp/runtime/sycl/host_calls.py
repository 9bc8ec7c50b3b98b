"""Short calls on CPUs: those whose machine code the calling thread runs itself, without OpenCL.

Which calls are short is measured: those of a launch go to OpenCL at first, and once it has been fast often enough, its
machine code is loaded and called from then on, until that takes too long.  Launches that differ in the size of their
batch alone count as one.  What that needs of LLVM is imported then, with `tl_dpnp.runtime.sycl.host_functions`.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from tl_dpnp import config
from tl_dpnp.lowering.plan import LaunchPlan
from tl_dpnp.runtime.call.binding import Binding
from tl_dpnp.runtime.sycl.batches import Batch
from tl_dpnp.runtime.sycl.dpctl_adapter import KernelHandle
from tl_dpnp.target.catalog import SHORT_CALLS

if TYPE_CHECKING:
    from tl_dpnp.runtime.sycl.host_functions import HostFunctions
    from tl_dpnp.runtime.sycl.memory_pool import MemoryPool
    from tl_dpnp.runtime.sycl.result_calls import CallWithResults, ResultFunction

__all__ = ["CALLS_BEFORE", "NUMBERS", "HostCalls", "ShortCalls", "call_remarks", "short_calls"]

#: Calls of a launch by OpenCL before its machine code is loaded: that takes 2 ms, the first time
#: in a process 0.1 to 0.2 s.
CALLS_BEFORE = 24
#: Which calls are short, and which are helped with.
NUMBERS = SHORT_CALLS
#: Mixtures of classes of arguments that have functions of their own.
_MOST_MIXTURES = 4
_TOO_LONG = "they take too long"

Function = Callable[[tuple[Any, ...]], bool]


#: What became of the launches of a kernel: how many have a function (None), and how many have none for a reason.
_outcomes: weakref.WeakKeyDictionary[KernelHandle, Counter[str | None]] = weakref.WeakKeyDictionary()


def call_remarks(handle: KernelHandle) -> list[str]:
    """Return lines about the launches of a kernel that were called often enough: how many are called here, and why not.
    """
    outcomes = _outcomes.get(handle, Counter())
    return [f"short calls: for {count} {'kind' if count == 1 else 'kinds'} of arguments " +
            ("the machine code is called without OpenCL" if problem is None else f"OpenCL runs them, because {problem}")
            for problem, count in outcomes.items() if count]


class ShortCalls:
    """What is known of how long the calls of one launch take, and the function that runs them if they are short.

    The function takes a tuple, of the addresses of the arrays for memrefs, then the scalars, and the size of the batch
    where that may be another one, and returns False for those that it does not take.  Times of calls with a batch are
    compared by what a work-group of theirs takes.
    """

    def __init__(self, handle: KernelHandle, plan: LaunchPlan) -> None:
        self._handle, self._plan = handle, plan
        self._calls, self._shortest_of_group = 0, float("inf")
        self._fewest = self._most = 0
        self._made: HostFunctions | None = None
        self._lock = threading.Lock()
        #: The function, None where there is none yet, or none any more.
        self.function: Function | None = None
        #: Why there is no function and will be none.
        self.problem: str | None = None
        #: What was made for the classes of arguments, and for those that are given as they are passed on.
        self._functions_of_calls: dict[tuple[Any, ...], Function | None] = {}
        if not config.get("SHORT_CALLS"):
            self.problem = "TL_DPNP_SHORT_CALLS is 0"
        elif not plan.frame.is_alone:
            self.problem = f"the {plan.form} form may use barriers and local memory"
        if self.problem is not None:
            _outcomes.setdefault(handle, Counter())[self.problem] += 1

    def note(self, launch: Any, seconds: float) -> None:
        """Note that OpenCL has run the launch in so much time."""
        groups = launch.groups
        self._shortest_of_group = min(self._shortest_of_group, seconds / groups)
        self._fewest, self._most = min(self._fewest or groups, groups), max(self._most, groups)
        self._calls += 1
        if self._made is None and self._calls < CALLS_BEFORE:
            return
        with self._lock:
            if self.problem is not None:
                return
            outcomes = _outcomes.setdefault(self._handle, Counter())
            if self._made is None:
                self.problem = self._refusal(launch)
                outcomes[self.problem] += 1
            elif self._made.are_slow or self._made.take_too_long(self._fewest):
                self.problem, self.function = _TOO_LONG, None
                outcomes.update({None: -1, self.problem: 1})
            elif self._made.are_worth_sharing(groups):
                self._ask_for_help(launch)

    def _refusal(self, launch: Any) -> str | None:
        """Make the function, or return why there is none."""
        if self._shortest_of_group * self._fewest > NUMBERS.longest:
            return _TOO_LONG
        from tl_dpnp.runtime.sycl import host_functions

        made = host_functions.functions_of(launch, self._handle, self._plan, NUMBERS.longest)
        if isinstance(made, str):
            return made
        self._made, self.function = made, made.of_addresses
        if self._shortest_of_group * self._most > NUMBERS.worth_help:
            self._ask_for_help(launch)
        return None

    @staticmethod
    def _ask_for_help(launch: Any) -> None:
        """Start helpers."""
        from tl_dpnp.runtime.sycl import helpers

        helpers.start(launch.queue.sycl_device.max_compute_units)

    def function_of_call(
        self, binding: Binding, launch: Any, arguments: Sequence[Any], looks: Sequence[Any]
    ) -> Function | None:
        """Return a function that checks the arguments of calls like this one and runs them; None without any.

        They are given like `looks`, and passed on like `arguments`.  There are few for a launch: calls with more
        mixtures of classes take another way.
        """
        if self._made is None:
            return None
        key = (looks is arguments, *map(type, looks))
        if key not in self._functions_of_calls and len(self._functions_of_calls) < _MOST_MIXTURES:
            self._functions_of_calls[key] = self._made.of_arguments(binding, launch, arguments, looks)
        return self._functions_of_calls.get(key)

    @property
    def are_worth_results(self) -> bool:
        """Whether to make results takes long beside the kernel, so that arrays are kept for them."""
        return self._shortest_of_group * self._fewest <= NUMBERS.longest_step

    def function_with_results(self, launch: Any, call: CallWithResults, pool: MemoryPool) -> ResultFunction | None:
        """Return a function for calls of a launch that make their results in memory of a pool; None without any."""
        made = self._made
        if made is None or self.function is None:
            return None
        from tl_dpnp.runtime.sycl import result_calls

        return result_calls.result_function(launch, made.code, made.longest, call, pool)


#: What is known of launches with a batch of any size, for as long as there is one.
_likes: weakref.WeakValueDictionary[Hashable, ShortCalls] = weakref.WeakValueDictionary()
_likes_lock = threading.Lock()


def short_calls(handle: KernelHandle, plan: LaunchPlan, queue: Any, batch: Batch | None) -> ShortCalls:
    """Return what is known of how long a launch takes: what was known of those that differ in their batch alone."""
    if batch is None:
        return ShortCalls(handle, plan)
    # A kernel has no other's identity as long as there is something known of it, which refers to it.
    key = (id(handle), queue, config.get("SHORT_CALLS"), batch.likeness)
    with _likes_lock:
        known = _likes.get(key)
        if known is None:
            known = _likes[key] = ShortCalls(handle, plan)
        return known


class HostCalls:
    """The functions for the short calls that a kernel repeated last."""

    MOST_FUNCTIONS = 8

    def __init__(self) -> None:
        #: Each returns False for arguments of another form.
        self.functions: tuple[Function, ...] = ()

    def notice(
        self, binding: Binding, launch: Any, arguments: Sequence[Any], looks: tuple[Any, ...]
    ) -> None:
        """Note that a launch was run with `arguments`, for a call with `looks`, which no function took."""
        short = launch.short
        if short is None or short.function is None:
            return
        function = short.function_of_call(binding, launch, arguments, looks)
        if function is not None and function not in self.functions:
            self.functions = (function, *self.functions[: self.MOST_FUNCTIONS - 1])

    def clear(self) -> None:
        """Forget all functions."""
        self.functions = ()
