"""What realistic programs are made of: sizes and data, drawn at random from a seed."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

__all__ = ["Draw", "program"]


class Draw:
    """Draws the sizes and the data of one program.

    Sizes depend on the seed and the name of the program only, so that they are the same for each batch; data depend on
    the batch and on `data` as well.  `asarray` makes an array of the namespace from a NumPy array; those of numbers
    have the dtype `element`, ``f32`` or ``f64``.
    """

    def __init__(
        self, name: str, seed: int, batch: int, element: str, asarray: Callable[[Any], Any], data: int = 0
    ) -> None:
        import numpy as np

        key = seed, zlib.crc32(name.encode())
        self._sizes = np.random.default_rng(key)
        self._data = np.random.default_rng((*key, batch, data))
        self._dtype = f"f{int(element[1:]) // 8}"
        self._asarray = asarray

    def size(self, low: int, high: int, step: int = 1) -> int:
        """Return a size from `low` to `high`."""
        return int(self._sizes.integers(low, high, endpoint=True)) // step * step

    def number(self, low: float, high: float) -> float:
        """Return a number."""
        return float(self._data.uniform(low, high))

    def array(self, values: Any) -> Any:
        """Return an array with these values, as numbers."""
        import numpy as np

        return self._asarray(np.ascontiguousarray(values, dtype=self._dtype))

    def integers(self, values: Any) -> Any:
        """Return an array with these values, as integers."""
        import numpy as np

        return self._asarray(np.asarray(values, dtype="i8"))

    def indices(self, count: int, bound: int) -> Any:
        """Return `count` indices below `bound`."""
        return self.integers(self._data.integers(0, bound, count))

    def normal(self, *shape: int, scale: float = 1.0, mean: float = 0.0) -> Any:
        """Return normal numbers."""
        return self.array(self._data.normal(mean, scale, shape))

    def uniform(self, low: float, high: float, *shape: int) -> Any:
        """Return numbers between `low` and `high`."""
        return self.array(self._data.uniform(low, high, shape))

    def weights(self, rows: int, columns: int) -> Any:
        """Return a matrix whose product with a vector is about as large as the vector."""
        return self.normal(rows, columns, scale=rows**-0.5)

    def definite(self, *shape: int) -> Any:
        """Return symmetric matrices with eigenvalues between 1 and about 5; the last size is theirs."""
        import numpy as np

        *batch, size = shape
        factor = self._data.normal(0, size**-0.5, (*batch, size, size))
        return self.array(factor @ np.swapaxes(factor, -1, -2) + np.eye(size))

    def units(self, *shape: int) -> Any:
        """Return vectors of length 1; the last size is theirs."""
        import numpy as np

        vectors = self._data.normal(size=shape)
        return self.array(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))

    def probabilities(self, *shape: int) -> Any:
        """Return positive numbers with sum 1 along the last axis."""
        values = self._data.uniform(0.1, 1.0, shape)
        return self.array(values / values.sum(axis=-1, keepdims=True))


def program(setup: Callable[[Draw, int], tuple[Callable[..., Any], tuple[Any, ...]]]) -> Any:
    """Mark a function as a program of the same name."""
    setup.is_program = True  # type: ignore[attr-defined]
    return setup
