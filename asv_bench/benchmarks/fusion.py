"""dpnp code that is fused, against the same code in plain dpnp and NumPy on the same data."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

from .contests import Contest, parse_case
from .tables import ELEMENTS, QUICK, Shape
from .timing import Contestant, interleave

__all__ = ["BEYOND", "CALLS", "CASES", "KERNELS", "PRODUCTS", "alone", "calls", "fused"]

#: Facts of measurements: launches of a call, and the microseconds of a call beyond its kernel.
KERNELS, BEYOND = "kernels", "µs beyond the kernel"

_TOLERANCE = {"f32": 1e-4, "f64": 1e-11}


class Case(NamedTuple):
    """A function of `xp` and of operands: the shapes of arrays, or floats."""

    function: Callable[..., Any]
    operands: tuple[Any, ...]


def _chain(xp: Any, alpha: float, a: Any, b: Any, c: Any, d: Any) -> Any:
    """The chain of the language's reference."""
    return alpha * (a @ b.T @ c) + d


def _volume(xp: Any, q: Any, i: Any, k0: Any, k1: Any, k2: Any, s0: Any, s1: Any, s2: Any) -> Any:
    """SeisSol's volume update (``codegen/kernels/aderdg.py``)."""
    return q + k0 @ (i @ s0) + k1 @ (i @ s1) + k2 @ (i @ s2)


def _tensor_product(xp: Any, u: Any, d: Any) -> Any:
    """A matrix along each axis of elements of 8 x 8 x 8 points, as products of matrices: nekRS, order 7."""
    u = d @ (u @ d.T)
    return (d @ u.reshape(len(u), 8, 64)).reshape(u.shape)


def _attention(xp: Any, q: Any, k: Any, v: Any) -> Any:
    """Attention for short sequences."""
    scores = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    weights = xp.exp(scores - scores.max(axis=-1, keepdims=True))
    return (weights @ v) / weights.sum(axis=-1, keepdims=True)


def _volume_case(order: int) -> Case:
    basis, cells = order * (order + 1) * (order + 2) // 6, 200 if QUICK else 10_000
    dofs, stars = (cells, basis, 9), (cells, 9, 9)
    return Case(_volume, (dofs, dofs, *[(basis, basis)] * 3, *[stars] * 3))


def _cases() -> dict[str, Case]:
    cases = {"f32 chain": Case(_chain, (0.5, (10_000, 16, 8), (8, 8), (8, 16), (10_000, 16, 16)))}
    cases |= {f"{element} volume {order}": _volume_case(order) for order in (4, 5, 6) for element in _TOLERANCE}
    cases |= {f"{element} tensor product": Case(_tensor_product, ((4096, 8, 8, 8), (8, 8))) for element in _TOLERANCE}
    return cases | {f"f32 attention {length}": Case(_attention, ((64, length, 64),) * 3) for length in (32, 64, 128)}


CASES = _cases()


def fused(case: str) -> Contest:
    """All cores; a blocking call of the same Python function, fused, in dpnp, and in NumPy.  Each makes a new result.
    A batch of 10 000 for the chain 0.5 (A · Bᵀ · C) + D with 16 × 8, 8 × 8 and 8 × 16 matrices and for the volume
    update, 4096 elements of 8 × 8 × 8, and 64 heads of attention with 64 features."""
    import dpnp
    import numpy as np

    import tl_dpnp

    function, operands = CASES[case]
    element, rng = case.split()[0], np.random.default_rng(0)
    host = [operand if isinstance(operand, float) else rng.standard_normal(operand).astype(f"f{int(element[1:]) // 8}")
            for operand in operands]
    device = [dpnp.asarray(array) if isinstance(array, np.ndarray) else array for array in host]
    own = tl_dpnp.fuse(lambda *arrays: function(tl_dpnp.xp, *arrays))
    expected = function(np, *host)
    error = np.abs(own(*device).asnumpy() - expected).max() / np.abs(expected).max()
    if error > _TOLERANCE[element]:
        raise AssertionError(f"{case}: the result is wrong, its relative error is {error}")

    def plain() -> None:
        function(dpnp, *device).sycl_queue.wait()

    contestants = {"tl_dpnp": Contestant(lambda: own(*device)), "dpnp": Contestant(plain),
                   "numpy": Contestant(lambda: function(np, *host))}
    return Contest(contestants, facts={KERNELS: own.explain(*device).launches})


_ALONE = (Shape(64, 64, 64), Shape(256, 256, 256), Shape(1024, 1024, 1024), Shape(1400, 1400, 1400),
          Shape(2048, 2048, 2048), Shape(20_000, 64, 64), Shape(100_000, 16, 16), Shape(64, 20_000, 64))
#: Single products, square, tall and wide.
PRODUCTS = tuple(f"{element} {shape}" for shape in _ALONE for element in ELEMENTS)


def alone(case: str) -> Contest:
    """All cores; a blocking call of a fused function of one product of two matrices in C order, and dpnp.matmul.  The
    column tells whether it became a kernel; otherwise it is left to dpnp."""
    import dpnp

    import tl_dpnp

    element, (m, n, k), _ = parse_case(case)
    a, b = (dpnp.ones(shape, dtype=f"f{int(element[1:]) // 8}") for shape in ((m, k), (k, n)))
    own = tl_dpnp.fuse(lambda a, b: a @ b)
    contestants = {"tl_dpnp": Contestant(lambda: own(a, b)),
                   "dpnp": Contestant(lambda: dpnp.matmul(a, b).sycl_queue.wait())}
    return Contest(contestants, facts={KERNELS: len(own.explain(a, b).kernels)})


#: Calls of a fused function: with kinds of arrays that it knows, and with a batch size that is new.
CALLS = ("same batch", "new batch")


def calls(case: str) -> Contest:
    """A blocking call of a fused A · B + C with 8 × 8 matrices: for a batch of 4 again and again, and for a batch of
    another size each time.  Peers are the launch of the kernel alone, and plain dpnp.  The column is the difference of
    the call's and the launch's medians, of calls in turns."""
    import dpnp

    import tl_dpnp

    def function(a: Any, b: Any, c: Any) -> Any:
        return a @ b + c

    own = tl_dpnp.fuse(function)
    weights = dpnp.ones((8, 8), dtype="f4")

    def arrays(batch: int) -> list[Any]:
        return [dpnp.ones((batch, 8, 8), dtype="f4"), weights, dpnp.ones((batch, 8, 8), dtype="f4")]

    same = arrays(4)
    if case == "same batch":
        call = Contestant(lambda: own(*same))
    else:  # more sizes than a fused function remembers
        others = itertools.cycle([arrays(batch) for batch in range(5, 605)])
        call = Contestant(lambda: own(*next(others)))
    kernel = Contestant(_launch(own, same))
    times = interleave({"call": call, "kernel": kernel}, 0.1 if QUICK else 1.0)
    beyond = statistics.median(times["call"]) - statistics.median(times["kernel"])
    contestants = {"tl_dpnp": call, "kernel": kernel, "dpnp": Contestant(lambda: function(*same).sycl_queue.wait())}
    return Contest(contestants, facts={BEYOND: 1e6 * beyond})


def _launch(own: Any, arrays: list[Any]) -> Callable[[], None]:
    """Return a launch of the kernel of a fused function into memory that is there."""
    from tl_dpnp.runtime.sycl.dpctl_adapter import address_of

    result = own(*arrays)
    (specialization,) = own._plans
    (step,) = specialization.plan.steps
    memory = [array.get_array() for array in (*arrays, result)]
    addresses = [address_of(memory[slot]) + offset for slot, offset in step.operands]
    return lambda: step.launch.run([], addresses)
