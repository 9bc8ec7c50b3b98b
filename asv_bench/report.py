"""The numbers that the project holds itself to in short: ``python -m asv_bench.report``; exits with 1 if one is missed.

`asv_bench.must_show` measures more, by shape.
"""

from __future__ import annotations

import statistics
import sys

from .benchmarks.processes import cold_and_warm
from .benchmarks.tables import Shape
from .benchmarks.timing import medians
from .benchmarks.workloads import Gemm


def gemm() -> bool:
    """Batched GEMM from memory: at least 1.5 times the better of dpnp.matmul and numpy.matmul."""
    batch = Gemm(Shape(32, 32, 32), megabytes=64)
    own, dpnp, numpy = medians([batch.tl_dpnp, batch.dpnp, batch.numpy], seconds=6)
    times = {"tl_dpnp": own, "dpnp": dpnp, "numpy": numpy}
    speeds = ", ".join(f"{name} {batch.flops / seconds / 1e9:.1f}" for name, seconds in times.items())
    ratio = min(dpnp, numpy) / own
    print(f"batched f32 GEMM 32x32x32, {batch.batch} products, GF/s: {speeds}")
    return _line("times the better of dpnp and numpy", ratio, ratio >= 1.5, "at least 1.5")


def launch() -> bool:
    """Call of a compiled kernel: at most a quarter of dpnp.matmul's."""
    single = Gemm(Shape(32, 32, 32), batch=1)
    own, dpnp = medians([single.tl_dpnp, single.dpnp])
    print(f"one call with one 32x32x32 product: tl_dpnp {own * 1e6:.1f} µs, dpnp.matmul {dpnp * 1e6:.1f} µs")
    return _line("launch time over dpnp.matmul's", own / dpnp, own / dpnp <= 0.25, "at most 0.25")


def compilation(repeats: int = 5) -> bool:
    """Cold compile under 1.5 s of processor time; warm start at most half of the cold one."""
    cpu = statistics.median(cold_and_warm(import_first=True)[0]["cpu"] for _ in range(repeats))
    good = _line("cold compile and first call, processor seconds", cpu, cpu < 1.5, "under 1.5")
    cold_and_warm()  # writes byte code
    for arrays in ("dpctl.tensor", "dpnp"):
        runs = [cold_and_warm(arrays=arrays) for _ in range(repeats)]
        cold, warm = (statistics.median(run[which]["wall"] for run in runs) for which in (0, 1))
        numba = "with" if any(run[1]["numba"] for run in runs) else "without"
        print(f"process start to first result, {arrays}: cold {cold:.2f} s, warm {warm:.2f} s (warm {numba} numba)")
        good &= _line("warm start over cold start", warm / cold, warm / cold <= 0.5, "at most 0.5")
    return good


def _line(what: str, value: float, good: bool, target: str) -> bool:
    print(f"  {what}: {value:.2f}   ({'met' if good else 'MISSED'}: {target})", flush=True)
    return good


if __name__ == "__main__":
    results = [measurement() for measurement in (gemm, launch, compilation)]
    sys.exit(not all(results))
