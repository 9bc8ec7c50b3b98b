"""What a fused recurrence costs in its first call, by the number of its steps."""

from __future__ import annotations

from . import processes
from .results import Measurement
from .tables import QUICK
from .timing import quartiles

__all__ = ["CASES", "KERNELS", "PER_STEP", "unrolled"]

#: Facts of measurements: processor milliseconds for each step, and the kernels that were compiled.
PER_STEP, KERNELS = "ms a step", "kernels"
CASES = tuple(f"{steps} steps" for steps in (4, 8, 16, 32, 64, 128))


def unrolled(case: str) -> Measurement:
    """The first call of a fused gated recurrent unit whose loop over the steps is a loop of Python, 64 sequences of f32
    with 8 inputs and 16 states, in a fresh process with an empty cache: the processor seconds, imports not counted.
    Wall-clock seconds are a column of their own."""
    steps = int(case.split()[0])
    runs = [processes.cold_recurrence(steps) for _ in range(1 if QUICK else 3)]
    cpu = quartiles([run["cpu"] for run in runs])
    return Measurement(case, cpu, cpu.median, facts={
        "wall s": quartiles([run["wall"] for run in runs]).median, PER_STEP: 1e3 * cpu.median / steps,
        KERNELS: runs[0]["kernels"]})
