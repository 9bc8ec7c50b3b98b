"""What a fused function does once it has been traced: a list of steps on registers.

Registers hold the contents of arrays (`tl_dpnp.runtime.array_package`); the first ones are those of the call.  A step
launches a kernel or calls the package itself.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from tl_dpnp.graph.traced_scalars import ScalarTape
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.array_package import POOL, base_of_addresses, maker, viewed
from tl_dpnp.runtime.package_name import NAME
from tl_dpnp.runtime.platforms import Launch
from tl_dpnp.runtime.watching import door

if TYPE_CHECKING:
    from tl_dpnp.graph.short_steps import ShortStep
    from tl_dpnp.runtime.sycl.host_calls import ShortCalls

__all__ = [
    "POOL", "AllocateStep", "Allocation", "Call", "CallStep", "KernelStep", "Make", "Place", "Plan", "Registers",
    "Step", "array_at",
]

#: Calls of a step as machine code of its kernel alone before more of it becomes machine code: plans whose calls are run
#: as a whole have few.
CALLS_OF_A_STEP = 4


@dataclass(frozen=True)
class Place:
    """An array as a view of a register, with strides and offset in its elements; `dtype` is None where it is the
    register itself.
    """

    slot: int
    dtype: np.dtype[Any] | None = None
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    offset: int = 0


Registers = list[Any]


def array_at(place: Place, registers: Registers) -> Any:
    """Return the content at a place."""
    array = registers[place.slot]
    if place.dtype is None:
        return array
    return viewed(array, place.shape, place.dtype, place.strides, place.offset)


@dataclass(frozen=True)
class Allocation:
    """A result that a step makes, in C order."""

    slot: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    usm_type: str

    @functools.cached_property
    def made(self) -> Callable[[Any], Any]:
        """What makes its content on a queue, which is not initialised."""
        return maker(self.shape, self.dtype, self.usm_type)


@dataclass
class KernelStep:
    """A launch of a kernel; `operands` are (slot, bytes behind its first element) for each array parameter.

    The kernel's scalars are `fixed`, then numbers of the call: `scalars` has the position and the rounding of each.
    """

    launch: Launch
    allocations: tuple[Allocation, ...]
    operands: tuple[tuple[int, int], ...]
    scalars: tuple[tuple[int, Callable[[float], float]], ...]
    queue: Any
    fixed: tuple[float, ...] = ()
    report: Any = None
    #: What runs the step in the place of `launched`, if there is something.
    short: ShortStep | None = field(default=None, init=False, repr=False, compare=False)
    _calls_before: int = field(default=CALLS_OF_A_STEP, init=False, repr=False, compare=False)

    def run(self, registers: Registers, scalars: Sequence[float]) -> None:
        """Allocate the results and run the kernel."""
        if self.short is not None:
            self.short.run(registers, scalars)
            return
        self.launched(registers, scalars)
        if self._calls_before:
            self._hasten(registers, scalars)

    def launched(self, registers: Registers, scalars: Sequence[float]) -> None:
        """Allocate the results and launch the kernel."""
        for result in self.allocations:
            registers[result.slot] = result.made(self.queue)
        addresses = [base_of_addresses(registers[slot]) + offset for slot, offset in self.operands]
        values = [*self.fixed, *[round(scalars[i]) for i, round in self.scalars]] if self.scalars else self.fixed
        self.launch.run(values, addresses)

    def _hasten(self, registers: Registers, scalars: Sequence[float]) -> None:
        """After some calls of a short kernel, find what runs the step as a whole."""
        calls: ShortCalls | None = getattr(self.launch, "short", None)
        if calls is None or calls.problem is not None or not self.allocations:
            self._calls_before = 0
        elif calls.function is not None:
            self._calls_before -= 1
            if not self._calls_before and calls.are_worth_results:
                from tl_dpnp.graph.short_steps import short_step  # brings LLVM

                self.short = short_step(self, calls, registers, scalars, POOL)


@dataclass
class AllocateStep:
    """Results without elements: they are allocated, and there is nothing to compute."""

    allocations: tuple[Allocation, ...]
    queue: Any
    report: Any = None

    def run(self, registers: Registers, scalars: Sequence[float]) -> None:
        """Allocate the results."""
        for result in self.allocations:
            registers[result.slot] = result.made(self.queue)


@dataclass
class CallStep:
    """A call of dpnp itself; `arguments` is what `build` makes the arguments of, from the registers and scalars."""

    function: Callable[..., Any]
    build: Callable[[Registers, Sequence[float]], tuple[list[Any], dict[str, Any]]]
    keep: Callable[[Any, Registers], None]
    report: Any = None

    def run(self, registers: Registers, scalars: Sequence[float]) -> None:
        """Call the function and put its results into registers."""
        arguments, keywords = self.build(registers, scalars)
        self.keep(self.function(*arguments, **keywords), registers)


door(CallStep, "run", lambda step: (f"{NAME}.{getattr(step.function, '__name__', '?')}", NAME, {}))

Step = KernelStep | AllocateStep | CallStep


@dataclass
class Call:
    """What the result of one call is made of; `made` are the objects of it that are there already."""

    registers: Registers
    originals: Sequence[Any]
    scalars: Sequence[float]
    arguments: Sequence[Any]
    keywords: dict[str, Any]
    made: dict[int, Any] = field(default_factory=dict)


Make = Callable[[Call], Any]


@dataclass
class Plan:
    """The steps of a traced function, and how its result is made of registers.

    `inputs` are the registers of the arrays of a call; `tape` computes its numbers, if there is something to compute.
    `counter` has the calls so far, where machine code can count as well.
    """

    slots: int
    steps: list[Step]
    make: Make
    inputs: tuple[int, ...]
    tape: ScalarTape | None
    counter: ctypes.c_int64 = field(default_factory=ctypes.c_int64)

    @property
    def calls(self) -> int:
        """How often the plan was run."""
        return self.counter.value

    @functools.cached_property
    def _inputs_come_first(self) -> bool:
        return self.inputs == tuple(range(len(self.inputs)))

    def run(
        self, arrays: Sequence[Any], originals: Sequence[Any], scalars: Sequence[float], arguments: Sequence[Any],
        keywords: dict[str, Any],
    ) -> Any:
        """Run the steps for the arrays of a call and return the function's result."""
        registers: Registers = [None] * self.slots
        if self._inputs_come_first:
            registers[: len(arrays)] = arrays
        else:
            for slot, array in zip(self.inputs, arrays, strict=True):
                registers[slot] = array
        for step in self.steps:
            step.run(registers, scalars)
        return self.make(Call(registers, originals, scalars, arguments, keywords))


door(Plan, "run", lambda plan: (f"plan of {len(plan.steps)} steps", "", {}))
