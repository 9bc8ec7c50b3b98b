"""Programs as users write them, with CuPy: ``python -m asv_bench.cuda_cupy``.

Each program of `asv_bench/benchmarks/realistic` runs with CuPy as it is, and by `tl_dpnp.fuse`; results are compared.
Times on the device are those of calls of a large batch that were all made while the device was kept busy: CuPy has no
CUDA graphs of what calls cuBLAS.  Those of calls are until they return, of a small batch.  Medians of rounds in turns.
Needs CuPy and a GPU, and no dpnp.
"""

from __future__ import annotations

import functools
import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import click
import cupy
import numpy

import tl_dpnp
from asv_bench.benchmarks.namespaces import Call, arrays_of, make, names

_ROUNDS, _CALLS, _HOST_CALLS, _WARM_UP = 7, 3, 300, 6
#: Nanoseconds that the device is kept busy while calls are made, and how often twice as long where that did not do.
_BUSY, _ATTEMPTS = 8_000_000, 5
_FILES = "attention,elements,filters,tensors"


@functools.cache
def _spin() -> Any:
    """Return a kernel that keeps the device busy for so many nanoseconds."""
    return cupy.RawKernel(r"""extern "C" __global__ void spin(unsigned long long duration) {
        unsigned long long begin, now;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
        do { asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); } while (now - begin < duration);
    }""", "spin")


def _device_seconds(call: Callable[[], Any]) -> float:
    """Return the seconds that the device takes for a call, of some that wait there for one another."""
    stream = cupy.cuda.get_current_stream()
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    for attempt in range(_ATTEMPTS):
        stream.synchronize()
        _spin()((1,), (1,), (numpy.uint64(_BUSY << attempt),))
        begin.record()
        held = [call() for _ in range(_CALLS)]
        end.record()
        in_time = not begin.done
        end.synchronize()
        del held
        if in_time:
            return float(cupy.cuda.get_elapsed_time(begin, end)) / 1e3 / _CALLS
    raise RuntimeError("the calls wait for the device")


def _host_seconds(call: Callable[[], Any]) -> float:
    cupy.cuda.get_current_stream().synchronize()
    begin = time.perf_counter()
    for _ in range(_HOST_CALLS):
        call()
    return (time.perf_counter() - begin) / _HOST_CALLS


def _ways(call: Call) -> tuple[Callable[[], Any], Callable[[], Any], Any]:
    """Return a call as it is and fused, after some calls, and the fused function."""
    fused = tl_dpnp.fuse(call.function).of("cupy")

    def run() -> Any:
        return fused(*call.arguments)

    for _ in range(_WARM_UP):
        call()
        run()
    return call, run, fused


def _error(found: Any, expected: Any) -> float:
    """Return the largest difference of two results, relative to the largest element."""
    worst = 0.0
    for one, other in zip(arrays_of(found), arrays_of(expected), strict=True):
        one, other = cupy.asarray(one), cupy.asarray(other)
        assert (one.shape, one.dtype) == (other.shape, other.dtype), (one.shape, one.dtype, other.shape, other.dtype)
        if one.size:
            worst = max(worst, float(abs(one - other).max()) / max(float(abs(other).max()), 1e-30))
    return worst


def _medians(calls: Sequence[Any], seconds: Callable[[Any], float]) -> list[float]:
    rounds = [[seconds(call) for call in calls] for _ in range(_ROUNDS)]
    return [statistics.median(times) for times in zip(*rounds, strict=True)]


def _report(name: str, batch: int, small: int, element: str, seed: int) -> float:
    """Print a line for a program, and return how many times as fast as CuPy it is on the device."""
    plain, run, _ = _ways(make("cupy", name, batch, element, seed))
    error = _error(run(), plain())
    device = _medians([plain, run], _device_seconds)
    plain, run, fused = _ways(make("cupy", name, small, element, seed))
    host = _medians([plain, run], _host_seconds)
    explanation = fused.explain(*make("cupy", name, small, element, seed).arguments)
    left = ", ".join(explanation.calls) or "nothing"
    print(f"{name:<26} {device[1] * 1e6:9.1f} us, of CuPy {device[0] / device[1]:6.2f}; calls in us: CuPy "
          f"{host[0] * 1e6:.1f}, fused {host[1] * 1e6:.1f}; error {error:.0e}; {len(explanation.kernels)} kernels, "
          f"left {left}{'; traced at each call' if explanation.again else ''}", flush=True)
    return device[0] / device[1]


@click.command(help=__doc__)
@click.option("--batch", default=20000, show_default=True)
@click.option("--small", default=100, show_default=True, help="The batch of which the calls are timed.")
@click.option("--element", default="f32", show_default=True)
@click.option("--seed", default=0, show_default=True, help="It decides the sizes.")
@click.option("--only", default=_FILES, show_default=True, help="Names of programs, or files of them, apart by commas.")
def main(batch: int, small: int, element: str, seed: int, only: str) -> None:
    """Print a line for each program, and the geometric mean."""
    ratios = []
    for name, file in names().items():
        if {name, file} & set(only.split(",")):
            try:
                ratios.append(_report(name, batch, small, element, seed))
            except Exception as error:  # programs with functions that CuPy has not
                print(f"{name}: {type(error).__name__}: {str(error)[:200]}", flush=True)
    mean = math.exp(statistics.mean(map(math.log, ratios)))
    print(f"{len(ratios)} programs, of the speed of CuPy: geometric mean {mean:.2f}, least {min(ratios):.2f}, median "
          f"{statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
