"""What tuning gains: ``python -m asv_bench.tuning`` tunes batched products and times them against the default.

The two kernels are timed in turns after tuning, so that what tuning measured itself does not count.  Arguments are the
megabytes of a batch and the seconds for tuning and for timing.  Exits with 1 if a tuned kernel has less than 0.97 of
the default's speed.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

#: Element type, and rows, columns and depth of the products.
CASES = (
    ("f32", 16, 16, 16), ("f32", 20, 20, 20), ("f32", 24, 24, 24), ("f32", 32, 32, 32), ("f32", 48, 48, 48),
    ("f32", 64, 64, 64), ("f32", 56, 9, 56), ("f32", 56, 56, 9), ("f32", 35, 9, 35), ("f32", 128, 4, 128),
    ("f64", 16, 16, 16), ("f64", 32, 32, 32), ("f64", 35, 9, 35),
)
_LEAST_SPEED = 0.97


def _source(element: str, m: int, n: int, k: int, dynamic: bool) -> str:
    """Return a program that multiplies a batch of matrices; with `dynamic` it does not know their sizes."""
    shapes = [("?x?" if dynamic else f"{rows}x{columns}") for rows, columns in ((m, k), (k, n), (m, n))]
    a, b, c = (f"memref<{element}x{shape}>" for shape in shapes)
    batches = [f"memref<{element}x{shape}x?>" for shape in shapes]
    views = "\n".join(f"  %{name.lower()} = subview %{name}[:,:,%g] : {type_}"
                      for name, type_ in zip("ABC", batches, strict=True))
    parameters = ", ".join(f"%{name}: {type_}" for name, type_ in zip("ABC", batches, strict=True))
    return f"""
func @products({parameters}) {{
  %g = group_id
{views}
  gemm.n.n 1.0, %a, %b, 0.0, %c : {element}, {a}, {b}, {element}, {c}
}}"""


def _arrays(element: str, m: int, n: int, k: int, megabytes: float) -> list[Any]:
    import dpnp
    import numpy as np

    kind = np.dtype(f"f{int(element[1:]) // 8}")
    batch = max(1, int(megabytes * 2**20 / (kind.itemsize * (m * n + m * k + k * n))))
    random = np.random.default_rng(0)
    return [dpnp.asarray(random.uniform(-1, 1, (*shape, batch)).astype(kind), order="F")
            for shape in ((m, k), (k, n), (m, n))]


def _ratios(default: Callable[[], object], tuned: Callable[[], object], seconds: float) -> list[float]:
    """Return the default's time divided by the other's, in rounds that turn, each of at least a millisecond."""
    start = time.perf_counter()
    default()
    calls = max(1, int(1e-3 / (time.perf_counter() - start)))
    ratios: list[float] = []
    players = [default, tuned]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(ratios) < 5:
        times = {}
        for player in players:
            start = time.perf_counter()
            for _ in range(calls):
                player()
            times[player] = time.perf_counter() - start
        players.reverse()
        ratios.append(times[default] / times[tuned])
    return ratios


def _tune(case: tuple[str, int, int, int], dynamic: bool, megabytes: float, budget: float, seconds: float) -> float:
    """Tune one product, print its line of the table and return the median of the measured ratios."""
    import tl_dpnp

    (element, m, n, k), source = case, _source(*case, dynamic)
    arrays = _arrays(*case, megabytes)
    kernel, plain = tl_dpnp.compile(source), tl_dpnp.compile(source, tuned=False)
    report = kernel.tune(*arrays, budget=budget)
    ratios = _ratios(lambda: plain(*arrays), lambda: kernel(*arrays), seconds)
    low, median, high = statistics.quantiles(ratios, n=4)
    change = "default" if report.best is report.tried[0] else f"{report.tried[0]} → {report.best}"
    sizes = "dynamic" if dynamic else "static"
    print(f"| {element} {m}×{n}×{k}, {sizes} | {change.replace('gemm_0: ', '')} | {report.gain:.2f} | {median:.2f} | "
          f"{low:.2f} … {high:.2f} |", flush=True)
    return median


def main(megabytes: float = 2.0, budget: float = 10.0, seconds: float = 2.0) -> bool:
    """Print a table and return whether no case is slower than the default."""
    from tl_dpnp import config

    print(f"batches of {megabytes} MB, {budget} s of tuning each; speed of the tuned kernel, that of the default = 1\n")
    print("| product, sizes | tilings | gain as reported | measured afterwards | quartiles |\n|---|---|---|---|---|")
    measured = []
    for dynamic in (False, True):
        for case in CASES:
            # A result is for a program, not for the sizes of its arrays: each case begins with an empty cache.
            with tempfile.TemporaryDirectory() as folder, config.scope(CACHE_DIR=folder):
                measured.append(_tune(case, dynamic, megabytes, budget, seconds))
    print(f"\ngeometric mean {statistics.geometric_mean(measured):.3f}, least {min(measured):.2f}")
    return min(measured) >= _LEAST_SPEED


if __name__ == "__main__":
    sys.exit(not main(*map(float, sys.argv[1:])))
