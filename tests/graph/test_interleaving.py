"""Matrices of a batch side by side in the lanes of vectors: results are those of dpnp, whatever the batch."""

from __future__ import annotations

import dpnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tl_dpnp
from tests.graph import test_random_graphs as random_graphs
from tests.graph.support import compare, interleaved_wherever_possible
from tl_dpnp.graph import interleaving
from tl_dpnp.graph.kernels import clear_kernels


def _random(seed, *shape, dtype="f4", order="C"):
    values = np.random.default_rng(seed).uniform(0.2, 1.0, size=shape).astype(dtype)
    return dpnp.asarray(values, order=order)


def _times(A, x):
    return (A @ x[..., None])[..., 0]


def _scaling(A, x, y, W):
    for _ in range(3):
        x = 1.0 / _times(A, y)
        y = 1.0 / _times(dpnp.swapaxes(A, -1, -2), x)
    return x[:, :, None] * A * y[:, None, :]


def _descent(A, x, y, W):
    r, steps = x - _times(A, y), y
    for _ in range(2):
        length = (r * r).sum(axis=-1, keepdims=True)
        steps = steps + 0.1 * length * r
        r = x - _times(A, steps)
    return steps, (r * r).sum(axis=-1)


def _orthogonal(A, x, y, W):
    """Gram-Schmidt: sums, and no product that contracts."""
    columns = []
    for place in range(A.shape[-1]):
        column = A[..., place]
        for other in columns:
            column = column - other * (column * other).sum(axis=-1, keepdims=True)
        columns.append(column / dpnp.sqrt((column * column).sum(axis=-1, keepdims=True) + 1e-3))
    return dpnp.stack(columns, axis=-1)


def _shared(A, x, y, W):
    B = dpnp.tanh(W @ A)
    for _ in range(3):
        B = dpnp.tanh(W @ B @ W + A)
    return B


def _parts(A, x, y, W):
    first = _times(A, x)[:, 1:] * x[:, :-1]
    second = _times(A[:, 1:, ::-1], dpnp.exp(x)) + first
    both = dpnp.stack([first, second], axis=1)
    return dpnp.where(both > 1.0, both, -both), dpnp.concatenate([second, y], axis=1) @ dpnp.ones(
        (2 * x.shape[1] - 1,), dtype=x.dtype)


def _tensors(A, x, y, W):
    T = dpnp.einsum("bij,bk->bijk", A, x)
    T = dpnp.tanh(dpnp.einsum("li,bijk->bljk", W, T))
    T = dpnp.tanh(dpnp.einsum("lj,bijk->bilk", W, T))
    return dpnp.einsum("bijk,bij->bk", dpnp.tanh(T) * 0.5, A)


def _in_place(A, x, y, W):
    for _ in range(3):
        A[...] = dpnp.tanh(A @ A * 0.1) + dpnp.max(A, axis=-1, keepdims=True)
        x[...] = _times(A, x) * 0.3
    return A


def _mixed(A, x, y, W):
    counted = dpnp.arange(A.shape[0])[:, None] % 3
    x = _times(A, x * counted)
    x = _times(A, dpnp.where(x > 1, x, x.astype("f8")).astype(A.dtype))
    return dpnp.sqrt(_times(A, x) + x), dpnp.argmax(x, axis=1) + counted[:, 0]


def _short_rows(x, y):
    total = x
    for _ in range(4):
        a, b, c = (total[:, k] for k in range(3))
        p, q, r = (y[:, k] for k in range(3))
        total = dpnp.stack([b * r - c * q + a, c * p - a * r + b, a * q - b * p + c], axis=-1)
    return total / dpnp.sqrt((total * total).sum(axis=-1, keepdims=True))


_PROGRAMS = [_scaling, _descent, _orthogonal, _shared, _parts, _tensors, _in_place, _mixed]
_ARRANGEMENTS = {
    "C": lambda array: array,
    "batch backwards": lambda array: array[::-1],
    "every second": lambda array: dpnp.repeat(array, 2, axis=0)[::2],
    "batch fastest": lambda array: dpnp.asarray(dpnp.moveaxis(array, 0, -1), order="C").transpose(
        array.ndim - 1, *range(array.ndim - 1)),
    "Fortran": lambda array: dpnp.asarray(array, order="F"),
    "the same for all": lambda array: dpnp.broadcast_to(array[:1], array.shape),
}


def _arguments(batch, n, dtype, arrangement="C"):
    arrange = _ARRANGEMENTS[arrangement]
    A, x, y = _random(1, batch, n, n, dtype=dtype), _random(2, batch, n, dtype=dtype), _random(3, batch, n, dtype=dtype)
    return arrange(A), arrange(x), y, _random(4, n, n, dtype=dtype)


def _check(function, arguments, fused=None, copied=True):
    fused = fused or tl_dpnp.fuse(function)
    for _ in range(2):
        one, other = ([dpnp.copy(a) if copied else a for a in arguments] for _ in range(2))
        compare(function.__name__, fused(*one), function(*other))
        for left, right in zip(one, other, strict=True):
            compare("an argument", left, right)
    return fused


def _interleaved(fused, arguments):
    return [kernel.interleaved for kernel in fused.explain(*map(dpnp.copy, arguments)).kernels]


@pytest.mark.drawn
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("function", _PROGRAMS)
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_programs_of_many_steps_are_those_of_dpnp(function, dtype, data):
    batch, n = data.draw(st.sampled_from([256, 257]) | st.integers(256, 1500)), data.draw(st.integers(2, 6))
    fused = _check(function, _arguments(batch, n, dtype))
    _check(function, _arguments(data.draw(st.integers(1, 600)), n, dtype), fused)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("arrangement", _ARRANGEMENTS)
@pytest.mark.parametrize("function", [function for function in _PROGRAMS if function is not _in_place])
def test_arrays_lie_in_any_way(function, arrangement):
    _check(function, _arguments(300, 4, "f4", arrangement), copied=False)


@pytest.mark.parametrize("function", [_scaling, _descent, _orthogonal, _shared])
def test_a_work_group_has_several_matrices(function):
    arguments = _arguments(1000, 3, "f4")
    fused = tl_dpnp.fuse(function)
    assert _interleaved(fused, arguments) == [interleaving.LANES]
    assert "63 work-groups of 16 interleaved matrices" in str(fused.explain(*arguments))


@pytest.mark.parametrize(("dtype", "arrangement"), [("f4", "C"), ("f8", "C"), ("f4", "batch fastest"),
                                                    ("f8", "batch backwards")])
def test_functions_of_short_rows_are_computed_side_by_side(dtype, arrangement):
    """Each component alone is a vector with one lane."""
    arrange = _ARRANGEMENTS[arrangement]
    for batch in (1000, 263):
        x, y = (arrange(_random(seed, batch, 3, dtype=dtype)) for seed in (1, 2))
        fused = tl_dpnp.fuse(_short_rows)
        assert _interleaved(fused, (x, y)) == [interleaving.LANES]
        _check(_short_rows, (x, y), fused, copied=False)


def test_long_rows_are_not():
    """They fill vectors as they are."""
    def polynomial(x, y):
        for _ in range(4):
            x = x * y + 0.5
        return x / dpnp.sqrt((x * x).sum(axis=-1, keepdims=True))

    arguments = _random(1, 300, 32), _random(2, 300, 32)
    assert not any(_interleaved(tl_dpnp.fuse(polynomial), arguments))
    _check(polynomial, arguments)


def test_one_kernel_serves_every_batch():
    clear_kernels()
    fused = tl_dpnp.fuse(_scaling)
    for batch in (300, 1000, 1024, 1031):
        _check(_scaling, _arguments(batch, 4, "f4"), fused)
    assert fused.stats.compilations == 1


@pytest.mark.parametrize("batch", [256, 257, 511])
def test_rows_are_counted_from_the_first_of_a_work_group(batch):
    """The last work-group of 257 begins at 241, not at 256."""
    def lower(A, x):
        for _ in range(4):
            x = dpnp.tanh(_times(A, x)) + x
        return dpnp.tril(x, k=4 - batch)

    _check(lower, (_random(1, batch, 3, 3), _random(2, batch, 3)))


def test_what_is_written_over_is_computed_once():
    """The last work-group of 257 does not begin early: it would read what others have written."""
    def step(A, x):
        for _ in range(4):
            x[...] = _times(A, x) + 1.0
        return x

    for batch in (257, 1000, 1009):
        A, x = _random(1, batch, 3, 3), _random(2, batch, 3)
        for _ in range(3):
            _check(step, (A, x))


def _product(A, x, y, W):
    return A @ A


def _large(A, x, y, W):
    for _ in range(4):
        A = dpnp.tanh(A @ A)
    return A


def _inverse(A, x, y, W):
    for _ in range(4):  # each of whose kernels ends with an inverse where a singular matrix is an error
        A = dpnp.linalg.inv(A + dpnp.eye(3, dtype=A.dtype) * 3)
    return A


def _rows(A, x, y, W):
    for _ in range(4):
        x = dpnp.tanh(x @ W + y)
    return x


@pytest.mark.parametrize(("function", "n"), [(_product, 3), (_large, 40), (_inverse, 3), (_rows, 16)])
def test_other_programs_have_a_matrix_in_each_work_group(function, n):
    arguments = _arguments(300, n, "f4")
    assert not any(_interleaved(tl_dpnp.fuse(function), arguments))
    _check(function, arguments)


def test_sizes_that_change_are_given_to_kernels():
    fused = tl_dpnp.fuse(_descent)
    for batch, n in ((300, 3), (400, 4), (257, 5), (30, 6), (600, 3)):
        _check(_descent, _arguments(batch, n, "f4"), fused)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(random_graphs.graphs(), st.integers(0, 1000))
def test_random_graphs_are_those_of_numpy(steps, seed):
    with interleaved_wherever_possible():
        random_graphs.check(steps, seed)
