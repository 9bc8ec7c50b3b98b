"""Random graphs of products, element-wise functions, reductions and views, against NumPy in float64."""

from __future__ import annotations

import contextlib
from typing import Any

import dpnp
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tl_dpnp

#: Shapes from which values start; results of any operation join them.
_SHAPES = ((3, 2, 4), (3, 4, 2), (2, 4), (4, 4), (3, 1, 4), (4,), (1, 2, 1))
_UNARY = ("negative", "exp", "tanh", "square", "abs")
_BINARY = ("add", "subtract", "multiply", "maximum", "power")


@st.composite
def graphs(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    """Draw a list of operations, each a name, the numbers of its operands and its options."""
    shapes = list(_SHAPES)
    steps: list[tuple[Any, ...]] = []
    for _ in range(draw(st.integers(2, 7))):
        kinds = [step for step in _possible(shapes) if step is not None]
        step, shape = draw(st.sampled_from(kinds))
        steps.append(step)
        shapes.append(shape)
    return steps


def _possible(shapes: list[tuple[int, ...]]) -> list[tuple[tuple[Any, ...], tuple[int, ...]]]:
    """Return the operations that are possible, with the shapes of their results; later values come first."""
    found: list[tuple[tuple[Any, ...], tuple[int, ...]]] = []
    numbers = [*list(range(len(shapes)))[-6:], 0, 1, 3]
    for i in numbers:
        a = shapes[i]
        found.append((("stack", i), (2, *a)))
        if a:
            found.append((("concatenate", i, len(a) - 1), (*a[:-1], 2 * a[-1])))
            found.append((("concatenate", i, 0), (2 * a[0], *a[1:])))
        found += [((name, i), a) for name in _UNARY]
        if len(a) >= 2:
            found.append((("swap", i), (*a[:-2], a[-1], a[-2])))
            found += [((name, i, -1), a) for name in ("tril", "triu")]
            found.append((("slice", i), (*a[:-1], (a[-1] + 1) // 2)))
            found.append((("reshape", i), (int(np.prod(a)),)))
        for axis in range(len(a)):
            found.append((("cumsum", i, axis), a))
            found.append((("take", i, axis), (*a[:axis], 3, *a[axis + 1 :])))
            found.append((("sum", i, axis, False), (*a[:axis], *a[axis + 1 :])))
            found.append((("max", i, axis, True), (*a[:axis], 1, *a[axis + 1 :])))
            found.append((("std", i, axis, bool(axis)), (*a[:axis], *((1,) if axis else ()), *a[axis + 1 :])))
            found.append((("norm", i, axis, False), (*a[:axis], *a[axis + 1 :])))
        for j in numbers:
            b = shapes[j]
            with contextlib.suppress(ValueError):
                found += [((name, i, j), np.broadcast_shapes(a, b)) for name in _BINARY]
            if a and b and len(a) + len(b) > 2 and a[-1] == b[-2 if len(b) > 1 else 0]:
                with contextlib.suppress(ValueError):
                    found += [(("matmul", i, j), _product_shape(a, b))] * 8
    return found


def _product_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    return (np.zeros(a) @ np.zeros(b)).shape


def run(xp: Any, steps: list[tuple[Any, ...]], values: list[Any]) -> list[Any]:
    """Run a graph and return what its operations give."""
    values = list(values)
    for name, *operands in steps:
        a = values[operands[0]]
        match name:
            case "swap":
                value = xp.swapaxes(a, -1, -2)
            case "slice":
                value = a[..., ::2]
            case "reshape":
                value = xp.reshape(a, (a.size,))
            case "sum" | "max" | "std" | "norm":
                value = getattr(xp.linalg if name == "norm" else xp, name)(a, axis=operands[1], keepdims=operands[2])
            case "power":
                value = xp.power(1 + abs(a) / 4, xp.tanh(values[operands[1]]) * 3)
            case "tril" | "triu":
                value = getattr(xp, name)(a, k=operands[1])
            case "cumsum":
                value = xp.cumsum(a, axis=operands[1])
            case "take":
                value = xp.take(a, xp.asarray([0, a.shape[operands[1]] - 1, -1]), axis=operands[1])
            case "stack":
                value = xp.stack([a, -a])
            case "concatenate":
                value = xp.concatenate([a * 2, a], axis=operands[1])
            case "exp":
                value = xp.exp(-abs(a))
            case _:
                value = getattr(xp, name)(*(values[i] for i in operands))
        values.append(value)
    return values[-3:]


@given(graphs(), st.integers(0, 1000))
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_a_random_graph_computes_what_numpy_computes(steps, seed):
    check(steps, seed)


def check(steps: list[tuple[Any, ...]], seed: int) -> None:
    """Fail unless a graph gives what NumPy gives, at its first call and from its plan."""
    rng = np.random.default_rng(seed)
    inputs = [rng.normal(size=shape) for shape in _SHAPES]

    @tl_dpnp.fuse
    def graph(values):
        return run(dpnp, steps, values)

    expected = run(np, steps, inputs)
    arrays = [dpnp.asarray(array) for array in inputs]
    for results in (graph(arrays), graph(arrays)):
        for result, wanted in zip(results, expected, strict=True):
            assert result.shape == np.shape(wanted)
            scale = 1 + np.max(np.abs(wanted), initial=0)
            np.testing.assert_allclose(result.asnumpy(), wanted, rtol=1e-10, atol=1e-11 * scale)
