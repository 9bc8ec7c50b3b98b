"""Instructions whose speed is that of the memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from . import programs
from .tables import ITEMSIZE
from .workloads import Workload

__all__ = ["Stream"]

#: Instructions that are bound by memory: types of the operands with the output last, text, output read, operations
#: for one element of the batch, the same in NumPy.  ``{t}`` is the element type.
_STREAMS: dict[str, tuple[dict[str, str], str, bool, int, Callable[[Any, dict[str, Any]], object]]] = {
    "gemv": (
        {"A": "{t}x64x64", "X": "{t}x64", "Y": "{t}x64"},
        "gemv.n 1.0, %a, %x, 0.0, %y : {t}, memref<{t}x64x64>, memref<{t}x64>, {t}, memref<{t}x64>",
        False, 2 * 64 * 64, lambda xp, v: xp.matmul(v["X"][:, None, :], v["A"], out=v["Y"][:, None, :]),
    ),
    "ger": (
        {"X": "{t}x64", "Y": "{t}x64", "C": "{t}x64x64"},
        "ger 1.0, %x, %y, 0.0, %c : {t}, memref<{t}x64>, memref<{t}x64>, {t}, memref<{t}x64x64>",
        False, 64 * 64, lambda xp, v: xp.multiply(v["Y"][:, :, None], v["X"][:, None, :], out=v["C"]),
    ),
    "axpby": (
        {"X": "{t}x4096", "Y": "{t}x4096"},
        "axpby.n 2.0, %x, 0.5, %y : {t}, memref<{t}x4096>, {t}, memref<{t}x4096>",
        True, 3 * 4096,
        lambda xp, v: xp.add(xp.multiply(v["Y"], 0.5, out=v["Y"]), xp.multiply(v["X"], 2.0), out=v["Y"]),
    ),
    "sum": (
        {"A": "{t}x64x64", "Y": "{t}x64"},
        "sum.n 1.0, %a, 0.0, %y : {t}, memref<{t}x64x64>, {t}, memref<{t}x64>",
        False, 64 * 64, lambda xp, v: xp.sum(v["A"], axis=1, out=v["Y"]),
    ),
    "hadamard": (
        {"X": "{t}x4096", "Z": "{t}x4096", "Y": "{t}x4096"},
        "hadamard 1.0, %x, %z, 0.0, %y : {t}, memref<{t}x4096>, memref<{t}x4096>, {t}, memref<{t}x4096>",
        False, 4096, lambda xp, v: xp.multiply(v["X"], v["Z"], out=v["Y"]),
    ),
}


class Stream(Workload):
    """An instruction whose speed is that of the memory."""

    NAMES = tuple(_STREAMS)

    def __init__(self, instruction: str, element: str, megabytes: float) -> None:
        types, text, reads, flops, self._numpy_form = _STREAMS[instruction]
        types = {name: kind.format(t=element) for name, kind in types.items()}
        shapes = {name: tuple(map(int, kind.split("x")[1:])) for name, kind in types.items()}
        output = list(types)[-1]
        batch = int(megabytes * 1e6) // (ITEMSIZE[element] * sum(map(math.prod, shapes.values())))
        super().__init__(programs.batched(types, text.format(t=element)), shapes, output, element, batch,
                         reads_output=reads)
        self.flops = flops * batch
        self.check()

    def compute(self, xp: Any, arrays: dict[str, Any]) -> None:
        """The instruction with the package's functions, without temporaries where it has ``out=``."""
        self._numpy_form(xp, arrays)
