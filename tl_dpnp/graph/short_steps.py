"""Steps that machine code runs as a whole: it looks at the arrays, runs the kernel, and returns new arrays.

In Python, to allocate the results of a step and to launch its kernel takes longer than many a kernel does.  This is for
kernels on a CPU whose arrays were all there before or are new, wherever the step is run: in a plan of several steps or
of a call that machine code does not run as a whole (`short_plans`), and where a function is traced again.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tl_dpnp.records import dataclass
from tl_dpnp.runtime.sycl.host_calls import ShortCalls
from tl_dpnp.runtime.sycl.memory_pool import MemoryPool
from tl_dpnp.runtime.sycl.result_arrays import NewArray
from tl_dpnp.runtime.sycl.result_calls import CallWithResults, ResultFunction
from tl_dpnp.runtime.watching import MACHINE_CODE, door

__all__ = ["ShortStep", "short_step"]


class Step(Protocol):
    """What is needed of a `tl_dpnp.graph.plan.KernelStep`."""

    launch: Any
    allocations: Any
    operands: tuple[tuple[int, int], ...]
    scalars: tuple[tuple[int, Callable[[float], float]], ...]
    fixed: tuple[float, ...]
    short: ShortStep | None

    def launched(self, registers: list[Any], scalars: Sequence[float]) -> None:
        """Allocate the results and launch the kernel."""


@dataclass(frozen=True)
class ShortStep:
    """Machine code for a step: it is given the arrays in some registers and `numbers` of the call, each rounded, and
    makes those of other registers."""

    step: Step
    given: tuple[int, ...]
    numbers: tuple[tuple[int, Callable[[float], float]], ...]
    made: tuple[int, ...]
    function: ResultFunction

    def run(self, registers: list[Any], scalars: Sequence[float]) -> None:
        """Run the step, as `Step.launched` does where machine code does not."""
        values = [registers[slot] for slot in self.given]
        if self.numbers:
            values += [round(scalars[place]) for place, round in self.numbers]
        made = self.function.run(tuple(values))
        if made is False:
            self._refused(registers, scalars)
        elif len(self.made) == 1:
            registers[self.made[0]] = made
        else:
            for slot, array in zip(self.made, made, strict=True):
                registers[slot] = array

    def _refused(self, registers: list[Any], scalars: Sequence[float]) -> None:
        """Launch the kernel; nothing is refused once more but for results that were all held."""
        if self.function.record.misses:
            self.function.renew()
        else:
            self.step.short = None
        self.step.launched(registers, scalars)


door(ShortStep, "run", lambda short: (f"@{short.step.launch.binding.program.name}", MACHINE_CODE,
                                      {"extent": short.step.launch.extent}))


def short_step(
    step: Step, calls: ShortCalls, registers: list[Any], scalars: Sequence[float], pool: MemoryPool
) -> ShortStep | None:
    """Return what runs a step that has just been run with these registers and numbers, or None.

    Results are in memory of a pool.
    """
    made = tuple(result.slot for result in step.allocations)
    given = tuple(dict.fromkeys(slot for slot, _ in step.operands if slot not in made))
    arguments = (*[registers[slot] for slot in given], *[round(scalars[place]) for place, round in step.scalars])
    sources = {slot: place for place, slot in enumerate(given)}
    sources |= {slot: len(arguments) + number for number, slot in enumerate(made)}
    call = CallWithResults(
        arguments, tuple((sources[slot], more) for slot, more in step.operands),
        (*((False, value) for value in step.fixed), *((True, place) for place in range(len(given), len(arguments)))),
        tuple(NewArray(result.shape, result.dtype, result.usm_type) for result in step.allocations),
        None if len(made) == 1 else len(made), (), ctypes.c_int64(), are_dpnp=False,
    )
    function = calls.function_with_results(step.launch, call, pool)
    return None if function is None else ShortStep(step, given, step.scalars, made, function)
