"""Random programs whose arrays have symbolic sizes, to be run for sequences of drawn sizes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import dpnp
import numpy as np

from tests.graph.support import with_source

__all__ = ["Program", "random_program"]

_SIZES = (1, 2, 3, 5, 7, 8, 12, 16, 20, 31, 33, 40)
Shape = tuple[Any, ...]


class Program:
    """A function of some arrays, and the shapes of those as names of sizes; numbers are sizes that never change."""

    def __init__(self, text: str, shapes: dict[str, Shape], layouts: dict[str, int], names: list[str]) -> None:
        self.text, self.shapes, self.layouts, self.names = text, shapes, layouts, names

    def function(self, name: str) -> Callable[..., Any]:
        """Return the function, made anew."""
        scope: dict[str, Any] = {"dpnp": dpnp}
        exec(with_source(self.text, f"<{name}>", "exec"), scope)
        return scope["f"]

    def arrays(self, sizes: dict[str, int], seed: int, dtype: str) -> list[Any]:
        """Return arguments: whole numbers, in C order, with rows and columns exchanged in memory, or as slices."""
        rng = np.random.default_rng(seed)
        found = []
        for name, shape in self.shapes.items():
            actual = [sizes.get(size, size) for size in shape]
            values = (rng.integers(-3, 4, actual) / 4).astype(dtype)
            array = dpnp.asarray(values)
            if self.layouts[name] == 1:
                array = dpnp.asarray(np.ascontiguousarray(values.swapaxes(-1, -2))).swapaxes(-1, -2)
            elif self.layouts[name] == 2:
                array = dpnp.asarray(np.concatenate([values, values], axis=-1))[..., : actual[-1]]
            found.append(array)
        return found


class _Writer:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.shapes: dict[str, Shape] = {}
        self.sizes = ["n", "m", 4]

    def new(self, text: str, shape: Shape) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        self.shapes[name] = shape
        return name

    def any(self) -> str:
        names = list(self.shapes)
        return self.rng.choice(names[-4:] if self.rng.random() < 0.6 else names)

    def with_shape(self, fits: Callable[[Shape], bool]) -> str | None:
        found = [name for name, shape in self.shapes.items() if fits(shape)]
        return self.rng.choice(found) if found else None

    def product(self) -> None:
        x = self.any()
        shape = self.shapes[x]
        y = self.with_shape(lambda other: shape[-1] in other[-2:] and other[:-2] in ((), shape[:-2]))
        if y is None:
            return
        other = self.shapes[y]
        if other[-2] == shape[-1]:
            self.new(f"{x} @ {y}", (*shape[:-1], other[-1]))
        else:
            self.new(f"{x} @ {y}.swapaxes(-1, -2)", (*shape[:-1], other[-2]))

    def elementwise(self) -> None:
        x = self.any()
        shape = self.shapes[x]
        y = self.with_shape(lambda other: other == shape or other == shape[-len(other):])
        assert y is not None
        self.new(self.rng.choice([
            f"{x} + {y}", f"{x} * {y}", f"dpnp.maximum({x}, {y})", f"{x} - 2 * {y}", f"dpnp.where({x} > 0, {x}, {y})",
        ]), shape)

    def single(self) -> None:
        x = self.any()
        self.new(self.rng.choice([
            f"dpnp.tanh({x})", f"abs({x})", f"{x} / {x}.shape[-1]", f"{x} * 0.5 + 1", f"{x} / (1 + abs({x}))",
        ]), self.shapes[x])

    def reduction(self) -> None:
        x = self.any()
        shape = self.shapes[x]
        axis, kind = self.rng.choice([-1, -2]), self.rng.choice(["sum", "max", "mean", "min"])
        self.new(f"{x} - {x}.{kind}(axis={axis}, keepdims=True)", shape)

    def softmax(self) -> None:
        x = self.any()
        e = self.new(f"dpnp.exp(dpnp.tanh({x}))", self.shapes[x])
        self.new(f"{e} / {e}.sum(axis=-1, keepdims=True)", self.shapes[x])

    def view(self) -> None:
        x = self.any()
        *front, rows, columns = self.shapes[x]
        text, shape = self.rng.choice([
            (f"{x}.swapaxes(-1, -2)", (*front, columns, rows)),
            (f"{x}[..., ::-1]", (*front, rows, columns)),
            (f"{x}[..., ::-1, :]", (*front, rows, columns)),
            (f"dpnp.cumsum({x}, axis=-1)", (*front, rows, columns)),
            (f"{x}.reshape({x}.shape[0], -1).reshape({x}.shape)", (*front, rows, columns)),
            (f"{x}[..., 1:, :]", (*front, f"{rows}-1", columns)),
            (f"{x}[..., :1] * {x}", (*front, rows, columns)),
            (f"dpnp.concatenate([{x}, {x} * 2], axis=-1)", (*front, rows, f"2{columns}")),
            (f"{x} * dpnp.tril(dpnp.ones({x}.shape[-2:], dtype={x}.dtype))", (*front, rows, columns)),
        ])
        self.new(text, shape)

    def write(self) -> Program:
        inputs = {}
        for number in range(self.rng.choice([2, 3, 3, 4])):
            front = ("b",) if self.rng.random() < 0.6 else ()
            inputs[f"a{number}"] = (*front, self.rng.choice(self.sizes), self.rng.choice(self.sizes))
        self.shapes |= inputs
        layouts = {name: self.rng.choice([0, 0, 0, 0, 1, 2]) for name in inputs}
        steps = [self.product] * 4 + [self.elementwise] * 2 + [self.single, self.reduction, self.softmax, self.view]
        for _ in range(self.rng.randint(2, 7)):
            self.rng.choice(steps)()
        results = [name for name in self.shapes if name not in inputs][-2:] or ["a0"]
        if self.rng.random() < 0.3:
            target = self.rng.choice(list(inputs))
            same = [name for name in results if self.shapes[name] == inputs[target]]
            if same:
                self.lines.append(f"{target} += {same[0]}")
                results.append(target)
        body = "\n".join(f"    {line}" for line in (*self.lines, f"return {', '.join(results)},"))
        return Program(f"def f({', '.join(inputs)}):\n{body}\n", inputs, layouts, ["b", "n", "m"])


def random_program(seed: int) -> Program:
    """Return the program of a seed."""
    return _Writer(seed).write()


def random_sizes(rng: random.Random, least: int = 1) -> dict[str, int]:
    """Return sizes by their names."""
    return {name: rng.choice([size for size in _SIZES if size >= least]) for name in ("b", "n", "m")}
