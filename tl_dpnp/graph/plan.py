"""What a fused function does once it has been traced: a list of steps on registers.

Registers hold `usm_ndarray` objects; the first ones are the arrays of the call.  A step launches a kernel or calls
dpnp.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from dpctl.tensor import usm_ndarray

from tl_dpnp.runtime.dpctl_adapter import address_of, element_offset
from tl_dpnp.runtime.memory_pool import MemoryPool
from tl_dpnp.runtime.platforms import Launch

__all__ = [
    "AllocateStep", "Allocation", "CallStep", "KernelStep", "Place", "Plan", "Registers", "Step", "array_at",
]

_POOL = MemoryPool()


@dataclass(frozen=True)
class Place:
    """An array as a view of a register; `whole` where it is the register itself."""

    slot: int
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    offset: int = 0
    whole: bool = True


Registers = list[Any]


def allocate(shape: tuple[int, ...], dtype: np.dtype[Any], usm_type: str, queue: Any) -> Any:
    """Return an uninitialised `usm_ndarray` in C order."""
    nbytes = dtype.itemsize * max(prod(shape), 1)
    return usm_ndarray(shape, dtype=dtype, buffer=_POOL.take(nbytes, usm_type, queue))


def array_at(place: Place, registers: Registers) -> Any:
    """Return the `usm_ndarray` of a place."""
    array = registers[place.slot]
    if place.whole:
        return array
    first = element_offset(array) + place.offset if prod(place.shape) else 0  # what is empty may begin anywhere
    return usm_ndarray(place.shape, dtype=array.dtype, buffer=array, strides=place.strides or None, offset=first)


@dataclass(frozen=True)
class Allocation:
    """A result that a step makes, in C order."""

    slot: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    usm_type: str


@dataclass
class KernelStep:
    """A launch of a kernel; `operands` are (slot, bytes behind its first element) for each array parameter.

    The kernel's scalars are `fixed`, then those of the call that `scalars` names.
    """

    launch: Launch
    allocations: tuple[Allocation, ...]
    operands: tuple[tuple[int, int], ...]
    scalars: tuple[int, ...]
    queue: Any
    fixed: tuple[int, ...] = ()
    report: Any = None

    def run(self, registers: Registers, scalars: Sequence[float]) -> None:
        """Allocate the results and run the kernel."""
        for result in self.allocations:
            registers[result.slot] = allocate(result.shape, result.dtype, result.usm_type, self.queue)
        addresses = [address_of(registers[slot]) + offset for slot, offset in self.operands]
        self.launch.run([*self.fixed, *[scalars[i] for i in self.scalars]], addresses)


@dataclass
class AllocateStep:
    """Results without elements: they are allocated, and there is nothing to compute."""

    allocations: tuple[Allocation, ...]
    queue: Any
    report: Any = None

    def run(self, registers: Registers, scalars: Sequence[float]) -> None:
        """Allocate the results."""
        for result in self.allocations:
            registers[result.slot] = allocate(result.shape, result.dtype, result.usm_type, self.queue)


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


Step = KernelStep | AllocateStep | CallStep


@dataclass
class Plan:
    """The steps of a traced function, and how its result is made of registers."""

    slots: int
    steps: list[Step]
    result: Callable[[Registers, Sequence[Any], Sequence[float]], Any]
    calls: int = 0

    def run(self, arrays: Sequence[Any], originals: Sequence[Any], scalars: Sequence[float]) -> Any:
        """Run the steps for the arrays of a call and return the function's result."""
        registers: Registers = [*arrays, *[None] * (self.slots - len(arrays))]
        for step in self.steps:
            step.run(registers, scalars)
        return self.result(registers, originals, scalars)
