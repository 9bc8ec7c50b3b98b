"""Iterations of linear algebra on batches of small matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import Draw, program, xp


def inner(a: Any, b: Any) -> Any:
    return (a * b).sum(axis=-1, keepdims=True)


def times(A: Any, x: Any) -> Any:
    return (A @ x[..., None])[..., 0]


def normalized(x: Any) -> Any:
    return x / xp.sqrt(inner(x, x))


def dominant(A: Any, x: Any, steps: int = 4) -> tuple[Any, Any]:
    for _ in range(steps):
        x = normalized(times(A, x))
    return inner(x, times(A, x))[:, 0], x


@program
def power_iteration(draw: Draw, batch: int) -> Any:
    n = draw.size(4, 12)
    return dominant, (draw.definite(batch, n), draw.normal(batch, n))


def orthogonalize(vectors: list[Any]) -> Any:
    basis: list[Any] = []
    for vector in vectors:
        for other in basis:
            vector = vector - inner(vector, other) * other
        basis.append(normalized(vector))
    return xp.stack(basis, axis=1)


@program
def gram_schmidt(draw: Draw, batch: int) -> Any:
    n = draw.size(4, 12)
    return orthogonalize, ([draw.normal(batch, n) for _ in range(3)],)


class ChebyshevFilter:
    """A polynomial of a matrix whose spectrum lies between `low` and `high`."""

    def __init__(self, coefficients: list[float], low: float, high: float) -> None:
        self.coefficients = coefficients
        self.centre, self.half = 0.5 * (high + low), 0.5 * (high - low)

    def scaled(self, A: Any, x: Any) -> Any:
        return (A @ x - self.centre * x) / self.half

    def __call__(self, A: Any, x: Any) -> Any:
        before, now = x, self.scaled(A, x)
        result = self.coefficients[0] * before + self.coefficients[1] * now
        for c in self.coefficients[2:]:
            before, now = now, 2.0 * self.scaled(A, now) - before
            result = result + c * now
        return result


def smooth(polynomial: ChebyshevFilter, A: Any, x: Any) -> Any:
    return polynomial(A, x)


@program
def chebyshev_filter(draw: Draw, batch: int) -> Any:
    n, columns = draw.size(6, 12), draw.size(2, 6)
    polynomial = ChebyshevFilter([0.5, 0.3, 0.1, 0.05, 0.02][: draw.size(3, 5)], 0.9, 5.0)
    return smooth, (polynomial, draw.definite(batch, n), draw.normal(batch, n, columns))


def newton_schulz(A: Any, X: Any, steps: int) -> Any:
    """Improve approximate inverses."""
    for _ in range(steps):
        X = 2.0 * X - X @ A @ X
    return X


def approximate_inverse(A: Any) -> Any:
    trace = xp.einsum("bii->b", A)
    X = xp.swapaxes(A, -1, -2) / (trace * trace)[:, None, None]
    return newton_schulz(A, X, 3)


@program
def newton_inverse(draw: Draw, batch: int) -> Any:
    return approximate_inverse, (draw.definite(batch, draw.size(4, 9)),)


@dataclass
class Conjugate:
    x: Any
    r: Any
    p: Any


def conjugate_step(A: Any, state: Conjugate) -> Conjugate:
    Ap = times(A, state.p)
    rr = inner(state.r, state.r)
    alpha = rr / inner(state.p, Ap)
    r = state.r - alpha * Ap
    return Conjugate(state.x + alpha * state.p, r, r + inner(r, r) / rr * state.p)


def conjugate_gradients(A: Any, b: Any, steps: int) -> Any:
    state = Conjugate(xp.zeros_like(b), b, b)
    for _ in range(steps):
        state = conjugate_step(A, state)
    return state.x


@program
def conjugate_gradient(draw: Draw, batch: int) -> Any:
    n = draw.size(5, 10)
    return conjugate_gradients, (draw.definite(batch, n), draw.normal(batch, n), 3)


def reflect(v: Any, A: Any) -> Any:
    """Reflect the columns of matrices at the plane normal to `v`."""
    return A - 2.0 * v[:, :, None] * (v[:, None, :] @ A) / inner(v, v)[:, :, None]


def reflections(vectors: list[Any], A: Any) -> Any:
    for v in vectors:
        A = reflect(v, A)
    return A


@program
def householder(draw: Draw, batch: int) -> Any:
    n = draw.size(4, 10)
    return reflections, ([draw.normal(batch, n) for _ in range(2)], draw.normal(batch, n, n))


def cholesky3(A: Any) -> tuple[Any, ...]:
    l00 = xp.sqrt(A[:, 0, 0])
    l10, l20 = A[:, 1, 0] / l00, A[:, 2, 0] / l00
    l11 = xp.sqrt(A[:, 1, 1] - l10 * l10)
    l21 = (A[:, 2, 1] - l20 * l10) / l11
    return l00, l10, l11, l20, l21, xp.sqrt(A[:, 2, 2] - l20 * l20 - l21 * l21)


def solve3(A: Any, b: Any) -> Any:
    l00, l10, l11, l20, l21, l22 = cholesky3(A)
    y0 = b[:, 0] / l00
    y1 = (b[:, 1] - l10 * y0) / l11
    y2 = (b[:, 2] - l20 * y0 - l21 * y1) / l22
    x2 = y2 / l22
    x1 = (y1 - l21 * x2) / l11
    return xp.stack([(y0 - l10 * x1 - l20 * x2) / l00, x1, x2], axis=-1)


@program
def cholesky_solve(draw: Draw, batch: int) -> Any:
    return solve3, (draw.definite(batch, 3), draw.normal(batch, 3))


def sinkhorn(cost: Any, rows: Any, columns: Any, temperature: float, sweeps: int = 3) -> Any:
    kernel = xp.exp(-cost / temperature)
    v = xp.ones_like(columns)
    u = rows / times(kernel, v)
    for _ in range(sweeps):
        v = columns / times(xp.swapaxes(kernel, -1, -2), u)
        u = rows / times(kernel, v)
    return u[:, :, None] * kernel * v[:, None, :]


@program
def optimal_transport(draw: Draw, batch: int) -> Any:
    n, m = draw.size(4, 8), draw.size(4, 8)
    return sinkhorn, (draw.uniform(0.0, 1.0, batch, n, m), draw.probabilities(batch, n), draw.probabilities(batch, m),
                      0.4)


def root_and_inverse(A: Any, steps: int = 2) -> tuple[Any, Any]:
    """Return square roots by the coupled iteration of Newton and Schulz."""
    scale = xp.einsum("bii->b", A)[:, None, None]
    identity = xp.eye(A.shape[-1], dtype=A.dtype)
    Y, Z = A / scale, identity + 0.0 * A
    for _ in range(steps):
        T = 0.5 * (3.0 * identity - Z @ Y)
        Y, Z = Y @ T, T @ Z
    return Y * xp.sqrt(scale), Z / xp.sqrt(scale)


@program
def matrix_square_root(draw: Draw, batch: int) -> Any:
    return root_and_inverse, (draw.definite(batch, draw.size(3, 8)),)
