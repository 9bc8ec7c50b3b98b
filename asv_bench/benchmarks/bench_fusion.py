"""Fused dpnp code against plain dpnp and NumPy: the same function on the same data, in turns.

``python -m asv_bench.benchmarks.bench_fusion`` prints the table: medians, ratios, and the spread of the fused times.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

__all__ = ["CASES", "Fused", "Retrace", "measure"]

_ROUNDS = 9


class Case(NamedTuple):
    """A function of `xp` and arrays, the shapes of these, and their dtype; a float stands for itself."""

    function: Callable[..., Any]
    operands: tuple[Any, ...]
    dtype: str


def chain(xp: Any, alpha: float, a: Any, b: Any, c: Any, d: Any) -> Any:
    """The chain of the language's reference."""
    return alpha * (a @ b.T @ c) + d


def volume(xp: Any, q: Any, i: Any, k0: Any, k1: Any, k2: Any, s0: Any, s1: Any, s2: Any) -> Any:
    """SeisSol's volume update."""
    return q + k0 @ (i @ s0) + k1 @ (i @ s1) + k2 @ (i @ s2)


def tensor_product(xp: Any, u: Any, d: Any) -> Any:
    """An 8x8 matrix along each axis of elements of 8x8x8 points, as products of matrices."""
    u = d @ (u @ d.T)
    return (d @ u.reshape(len(u), 8, 64)).reshape(u.shape)


def attention(xp: Any, q: Any, k: Any, v: Any) -> Any:
    """Attention for short sequences."""
    scores = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    weights = xp.exp(scores - scores.max(axis=-1, keepdims=True))
    return (weights @ v) / weights.sum(axis=-1, keepdims=True)


def _volume_case(order: int, dtype: str) -> Case:
    basis, cells = order * (order + 1) * (order + 2) // 6, 2000
    dofs, stars = (cells, basis, 9), (cells, 9, 9)
    return Case(volume, (dofs, dofs, *[(basis, basis)] * 3, *[stars] * 3), dtype)


CASES = {
    "chain f4": Case(chain, (0.5, (10_000, 16, 8), (8, 8), (8, 16), (10_000, 16, 16)), "f4"),
    **{f"volume {order} {dtype}": _volume_case(order, dtype) for order in (4, 5, 6) for dtype in ("f4", "f8")},
    **{f"tensor product {dtype}": Case(tensor_product, ((4096, 8, 8, 8), (8, 8)), dtype) for dtype in ("f4", "f8")},
    **{f"attention {length} f4": Case(attention, ((64, length, 64),) * 3, "f4") for length in (32, 64, 128)},
}


def _arrays(case: Case) -> list[Any]:
    import numpy as np

    rng = np.random.default_rng(0)
    return [operand if isinstance(operand, float) else rng.standard_normal(operand).astype(case.dtype)
            for operand in case.operands]


def measure(name: str, rounds: int = _ROUNDS) -> dict[str, list[float]]:
    """Return the times of a case in seconds, of fused code, dpnp and NumPy, taken in turns; checks the results."""
    import dpnp
    import numpy as np

    import tl_dpnp

    case = CASES[name]
    host = _arrays(case)
    device = [dpnp.asarray(array) if isinstance(array, np.ndarray) else array for array in host]
    fused = tl_dpnp.fuse(lambda *arrays: case.function(tl_dpnp.xp, *arrays))
    calls = {
        "fused": lambda: fused(*device),
        "dpnp": lambda: case.function(dpnp, *device),
        "numpy": lambda: case.function(np, *host),
    }
    expected = calls["numpy"]()
    error = np.abs(calls["fused"]().asnumpy() - expected).max() / np.abs(expected).max()
    assert error < (1e-4 if case.dtype == "f4" else 1e-11), f"{name}: relative error {error}"
    times: dict[str, list[float]] = {who: [] for who in calls}
    for _ in range(rounds):
        for who, call in calls.items():
            start = time.perf_counter()
            call()
            times[who].append(time.perf_counter() - start)
    return {who: values[2:] for who, values in times.items()}


class Fused:
    """How many times as fast as dpnp and NumPy fused code is."""

    params = (list(CASES), ["dpnp", "numpy"])
    param_names = ("case", "peer")
    timeout = 300
    unit = "x"

    def track_speedup(self, name: str, peer: str) -> float:
        """Ratio of the medians of one interleaved run."""
        times = measure(name)
        return statistics.median(times[peer]) / statistics.median(times["fused"])

    def track_kernels(self, name: str, peer: str) -> int:
        """How many kernels and calls of dpnp the function became."""
        import dpnp

        import tl_dpnp

        case = CASES[name]
        device = [array if isinstance(array, float) else dpnp.asarray(array) for array in _arrays(case)]
        return tl_dpnp.explain(lambda *arrays: case.function(tl_dpnp.xp, *arrays))(*device).launches


class Retrace:
    """What a call costs besides its kernel: in steady state, and when only the batch is new."""

    unit = "us"

    def setup(self) -> None:
        """Trace a function of three small arrays."""
        import dpnp

        import tl_dpnp

        self.arrays = [dpnp.ones(shape, dtype="f4") for shape in ((4, 8, 8), (8, 8), (4, 8, 8))]
        self.fused = tl_dpnp.fuse(lambda a, b, c: a @ b + c)
        self.fused(*self.arrays)
        self.step = next(iter(self.fused._specializations.values()))[0].plan.steps[0]

    def track_overhead(self) -> float:
        """Median time of a call less that of the launch of its kernel."""
        import dpnp

        out = dpnp.empty((4, 8, 8), dtype="f4")
        addresses = [array.get_array()._pointer for array in (*self.arrays, out)]
        call = _median_of(lambda: self.fused(*self.arrays), 500)
        return 1e6 * (call - _median_of(lambda: self.step.launch.run([], addresses), 500))

    def track_retrace(self) -> float:
        """Median time of a call with a batch size that was not seen before."""
        import dpnp

        batches = iter([[dpnp.ones((n, 8, 8), dtype="f4"), self.arrays[1], dpnp.ones((n, 8, 8), dtype="f4")]
                        for n in range(5, 105)])
        return 1e6 * _median_of(lambda: self.fused(*next(batches)), 100)


def _median_of(call: Callable[[], Any], count: int) -> float:
    times = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def _rows() -> Iterator[str]:
    yield f"{'case':20}{'fused ms':>10}{'dpnp ms':>10}{'numpy ms':>10}{'/dpnp':>8}{'/numpy':>8}{'spread':>8}"
    for name in CASES:
        times = measure(name)
        fused, plain, host = (1e3 * statistics.median(times[who]) for who in ("fused", "dpnp", "numpy"))
        quartiles = statistics.quantiles(times["fused"], n=4)
        spread = (quartiles[2] - quartiles[0]) * 1e3 / fused
        yield (f"{name:20}{fused:10.3f}{plain:10.2f}{host:10.2f}{plain / fused:8.1f}{host / fused:8.1f}{spread:8.2f}")
    retrace = Retrace()
    retrace.setup()
    yield f"overhead of a call: {retrace.track_overhead():.1f} us; a new batch size: {retrace.track_retrace():.0f} us"


if __name__ == "__main__":
    for row in _rows():
        print(row, flush=True)
