"""Sums, products of vectors, norms and the like of arrays of any shape, fused: the ends of most programs."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from .contests import Contest
from .fusion import KERNELS
from .timing import Contestant

__all__ = ["drawn", "reduced"]

#: What is computed, of one array or two of the same shape, by names; `axis` is drawn.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sum": lambda xp, x, y, axis: x.sum(axis),
    "mean": lambda xp, x, y, axis: x.mean(axis),
    "max": lambda xp, x, y, axis: x.max(axis),
    "norm": lambda xp, x, y, axis: xp.sqrt((x * x).sum(axis)),
    "loss": lambda xp, x, y, axis: ((x - y) ** 2).mean(axis),
    "normalized": lambda xp, x, y, axis: x / xp.abs(x).sum(axis, keepdims=True),
    "dot": lambda xp, x, y, axis: x.reshape(-1) @ y.reshape(-1),
    "rows": lambda xp, x, y, axis: xp.einsum("ij,ij->i", x.reshape(len(x), -1), y.reshape(len(y), -1)),
}
#: How many cases are drawn, and between which numbers of elements their arrays have, as powers of 10.
_CASES, _ELEMENTS = 60, (2.0, 6.5)
_TOLERANCE = {"f32": 2e-5, "f64": 1e-12}


def drawn(seed: int) -> tuple[str, ...]:
    """Return cases: an element type, a function, the axis or ``all``, and a shape of one to three axes."""
    draw = random.Random(seed)
    cases: dict[str, None] = {}
    while len(cases) < _CASES:
        elements = 10 ** draw.uniform(*_ELEMENTS)
        shape: list[int] = []
        for left in range(draw.randint(1, 3), 0, -1):
            size = elements if left == 1 else min(elements, 10 ** draw.uniform(0.3, 4.0))
            shape.append(max(2, round(size)))
            elements /= size
        name = draw.choice([*_FUNCTIONS])
        axis = "all" if name in ("dot", "rows") else draw.choice(["all", *map(str, range(len(shape)))])
        cases[f"{draw.choice(['f32', 'f64'])} {name} {axis} {'x'.join(map(str, shape))}"] = None
    return tuple(cases)


def reduced(case: str) -> Contest:
    """All cores; a blocking call of a function of one array or two with values between 0.5 and 1.5, fused, and of the
    same function in plain dpnp and in NumPy.  The column counts kernels."""
    import dpnp
    import numpy as np

    import tl_dpnp

    element, name, word, sizes = case.split()
    shape = [int(size) for size in sizes.split("x")]
    axis = None if word == "all" else int(word)
    function = _FUNCTIONS[name]
    rng = np.random.default_rng(len(case))
    x, y = (rng.uniform(0.5, 1.5, shape).astype(f"f{int(element[1:]) // 8}") for _ in range(2))
    arrays = dpnp.asarray(x), dpnp.asarray(y)
    own = tl_dpnp.fuse(lambda x, y: function(dpnp, x, y, axis))
    np.testing.assert_allclose(own(*arrays).asnumpy(), function(np, x.astype("f8"), y.astype("f8"), axis),
                               rtol=_TOLERANCE[element], err_msg=case)
    contestants = {
        "tl_dpnp": Contestant(lambda: own(*arrays)),
        "dpnp": Contestant(lambda: function(dpnp, *arrays, axis).sycl_queue.wait()),
        "numpy": Contestant(lambda: function(np, x, y, axis)),
    }
    return Contest(contestants, facts={KERNELS: len(own.explain(*arrays).kernels)})
