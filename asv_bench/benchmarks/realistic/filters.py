"""Filters and control: Kalman, ensembles, sigma points, Riccati."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from . import Draw, program, xp


def transposed(matrices: Any) -> Any:
    return xp.swapaxes(matrices, -1, -2)


def inverse2(m: Any) -> Any:
    """Return the inverses of 2 x 2 matrices."""
    a, b, c, d = m[..., 0, 0], m[..., 0, 1], m[..., 1, 0], m[..., 1, 1]
    det = a * d - b * c
    adjugate = xp.stack([d, -b, -c, a], axis=-1)
    return (adjugate / det[..., None]).reshape(m.shape)


@dataclass(frozen=True)
class Model:
    F: Any
    Q: Any
    H: Any
    R: Any


@dataclass(frozen=True)
class Belief:
    x: Any
    P: Any


def predict(model: Model, belief: Belief) -> Belief:
    return Belief((model.F @ belief.x[..., None])[..., 0], model.F @ belief.P @ model.F.T + model.Q)


def update(model: Model, belief: Belief, z: Any) -> Belief:
    PHt = belief.P @ model.H.T
    gain = PHt @ inverse2(model.H @ PHt + model.R)
    innovation = z - (model.H @ belief.x[..., None])[..., 0]
    return replace(belief, x=belief.x + (gain @ innovation[..., None])[..., 0], P=belief.P - gain @ transposed(PHt))


def model_of(draw: Draw, n: int, measured: int) -> Model:
    return Model(draw.weights(n, n), draw.definite(n), draw.weights(measured, n), draw.definite(measured))


def belief_of(draw: Draw, batch: int, n: int) -> Belief:
    return Belief(draw.normal(batch, n), draw.definite(batch, n))


@program
def kalman_predict(draw: Draw, batch: int) -> Any:
    n = draw.size(4, 9)
    return predict, (model_of(draw, n, 2), belief_of(draw, batch, n))


@program
def kalman_update(draw: Draw, batch: int) -> Any:
    n = draw.size(4, 8)
    return update, (model_of(draw, n, 2), belief_of(draw, batch, n), draw.normal(batch, 2))


def filter_all(model: Model, belief: Belief, measurements: list[Any]) -> Belief:
    for z in measurements:
        belief = update(model, predict(model, belief), z)
    return belief


@program
def kalman_steps(draw: Draw, batch: int) -> Any:
    n = draw.size(4, 6)
    return filter_all, (model_of(draw, n, 2), belief_of(draw, batch, n), [draw.normal(batch, 2) for _ in range(3)])


def scalar_updates(x: Any, P: Any, rows: Any, z: Any, noise: float) -> tuple[Any, Any]:
    """Take in measurements one by one: no inverse is needed."""
    for k in range(rows.shape[0]):
        h = rows[k]
        Ph = P @ h
        s = (Ph * h).sum(axis=-1) + noise
        gain = Ph / s[:, None]
        x = x + gain * (z[:, k] - x @ h)[:, None]
        P = P - gain[:, :, None] * Ph[:, None, :]
    return x, P


@program
def sequential_kalman(draw: Draw, batch: int) -> Any:
    n = draw.size(4, 8)
    return scalar_updates, (draw.normal(batch, n), draw.definite(batch, n), draw.normal(3, n), draw.normal(batch, 3),
                            0.5)


class Smoothed(NamedTuple):
    x: Any
    P: Any


def smoother(now: Smoothed, predicted: Smoothed, later: Smoothed, gain: Any) -> Smoothed:
    return Smoothed(
        now.x + xp.einsum("bij,bj->bi", gain, later.x - predicted.x),
        now.P + gain @ (later.P - predicted.P) @ transposed(gain),
    )


@program
def rauch_smoother(draw: Draw, batch: int) -> Any:
    n = draw.size(4, 9)
    beliefs = [Smoothed(draw.normal(batch, n), draw.definite(batch, n)) for _ in range(3)]
    return smoother, (*beliefs, draw.normal(batch, n, n, scale=0.3))


def anomalies(ensemble: Any) -> tuple[Any, Any]:
    mean = ensemble.mean(axis=1, keepdims=True)
    return mean, ensemble - mean


def ensemble_update(ensemble: Any, H: Any, precision: Any, z: Any, inflation: float) -> Any:
    mean, deviation = anomalies(ensemble)
    deviation = inflation * deviation
    members = ensemble.shape[1]
    covariance = transposed(deviation) @ deviation / (members - 1)
    gain = covariance @ H.T @ precision
    return mean + deviation + (z[:, None, :] - (mean + deviation) @ H.T) @ transposed(gain)


@program
def ensemble_kalman(draw: Draw, batch: int) -> Any:
    members, n, m = draw.size(8, 16), draw.size(4, 8), draw.size(2, 4)
    return ensemble_update, (draw.normal(batch, members, n), draw.weights(m, n), draw.definite(m),
                             draw.normal(batch, m), 1.05)


def moments(points: Any, weights: Any) -> tuple[Any, Any]:
    mean = xp.einsum("p,bpi->bi", weights, points)
    deviation = points - mean[:, None]
    return mean, xp.einsum("p,bpi,bpj->bij", weights, deviation, deviation)


def sigma_points(x: Any, root: Any, weights: Any, turn: Any, spread: float) -> tuple[Any, Any]:
    points = xp.concatenate([x[:, None], x[:, None] + spread * root, x[:, None] - spread * root], axis=1)
    moved = points + 0.1 * xp.sin(points @ turn)
    return moments(moved, weights)


@program
def unscented_moments(draw: Draw, batch: int) -> Any:
    n = draw.size(3, 6)
    return sigma_points, (draw.normal(batch, n), draw.normal(batch, n, n, scale=0.5), draw.probabilities(2 * n + 1),
                          draw.weights(n, n), 1.5)


@dataclass
class Regulator:
    A: Any
    B: Any
    Q: Any
    R: Any

    def step(self, P: Any) -> Any:
        PB = P @ self.B
        S = inverse2(self.R + self.B.T @ PB)
        K = S @ transposed(PB) @ self.A
        return self.Q + self.A.T @ P @ self.A - self.A.T @ PB @ K


def riccati(regulator: Regulator, P: Any, steps: int) -> Any:
    for _ in range(steps):
        P = regulator.step(P)
    return P


@program
def riccati_steps(draw: Draw, batch: int) -> Any:
    n = draw.size(4, 8)
    regulator = Regulator(draw.weights(n, n), draw.weights(n, 2), draw.definite(n), draw.definite(2))
    return riccati, (regulator, draw.definite(batch, n), 2)
