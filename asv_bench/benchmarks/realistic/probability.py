"""Gaussian processes, mixtures, hidden Markov models, regression."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from . import Draw, program, xp


def squared_distances(a: Any, b: Any) -> Any:
    return (a * a).sum(axis=-1)[:, None] + (b * b).sum(axis=-1)[None, :] - 2.0 * a @ b.T


class SquaredExponential:
    def __init__(self, variance: float, length: float) -> None:
        self.variance, self.length = variance, length

    def __call__(self, a: Any, b: Any) -> Any:
        return self.variance * xp.exp(-0.5 * squared_distances(a, b) / self.length**2)


@dataclass
class GaussianProcess:
    kernel: SquaredExponential
    points: Any
    weights: Any
    precision: Any

    def predict(self, x: Any) -> tuple[Any, Any]:
        k = self.kernel(x, self.points)
        return k @ self.weights, self.kernel.variance - ((k @ self.precision) * k).sum(axis=-1)


def predict(process: GaussianProcess, x: Any) -> tuple[Any, Any]:
    return process.predict(x)


@program
def gaussian_process(draw: Draw, batch: int) -> Any:
    points, n = draw.size(12, 32), draw.size(2, 6)
    process = GaussianProcess(SquaredExponential(1.5, 2.0), draw.normal(points, n), draw.normal(points),
                              draw.definite(points))
    return predict, (process, draw.normal(batch, n))


def matern(d2: Any, length: float) -> Any:
    r = xp.sqrt(d2 + 1e-6) * (math.sqrt(3.0) / length)
    return (1.0 + r) * xp.exp(-r)


def gram_matrices(x: Any, length: float, noise: float, identity: Any) -> Any:
    difference = x[:, :, None] - x[:, None, :]
    return matern((difference * difference).sum(axis=-1), length) + noise * identity


@program
def matern_matrices(draw: Draw, batch: int) -> Any:
    points, n = draw.size(4, 9), draw.size(2, 4)
    identity = [[float(i == j) for j in range(points)] for i in range(points)]
    return gram_matrices, (draw.normal(batch, points, n), 0.8, 0.05, draw.array(identity))


@dataclass(frozen=True)
class Mixture:
    log_weights: Any
    means: Any
    factors: Any
    log_determinants: Any

    def log_densities(self, x: Any) -> Any:
        difference = x[:, None] - self.means
        white = xp.einsum("kij,bkj->bki", self.factors, difference)
        return self.log_weights + self.log_determinants - 0.5 * (white * white).sum(axis=-1)


def responsibilities(mixture: Mixture, x: Any) -> tuple[Any, Any]:
    densities = mixture.log_densities(x)
    top = xp.max(densities, axis=-1, keepdims=True)
    e = xp.exp(densities - top)
    total = e.sum(axis=-1, keepdims=True)
    return e / total, (top + xp.log(total))[:, 0]


@program
def gaussian_mixture(draw: Draw, batch: int) -> Any:
    k, n = draw.size(3, 8), draw.size(2, 6)
    mixture = Mixture(draw.normal(k), draw.normal(k, n), draw.normal(k, n, n, scale=0.5), draw.normal(k))
    return responsibilities, (mixture, draw.normal(batch, n))


def mahalanobis(x: Any, mean: Any, precision: Any) -> Any:
    d = x - mean
    return xp.sqrt(xp.einsum("bi,ij,bj->b", d, precision, d))


def outliers(x: Any, mean: Any, precision: Any, limit: float) -> tuple[Any, Any]:
    distance = mahalanobis(x, mean, precision)
    return distance, xp.minimum(limit / distance, 1.0)[:, None] * x


@program
def mahalanobis_clip(draw: Draw, batch: int) -> Any:
    n = draw.size(4, 16)
    return outliers, (draw.normal(batch, n), draw.normal(n), draw.definite(n), 4.0)


def forward(alpha: Any, transition: Any, likelihoods: Any) -> tuple[Any, Any]:
    """The forward algorithm, scaled at each step."""
    evidence = 0.0
    for t in range(likelihoods.shape[1]):
        alpha = (alpha @ transition) * likelihoods[:, t]
        total = alpha.sum(axis=-1, keepdims=True)
        alpha = alpha / total
        evidence = evidence + xp.log(total[:, 0])
    return alpha, evidence


@program
def hidden_markov_forward(draw: Draw, batch: int) -> Any:
    n, steps = draw.size(4, 12), draw.size(3, 6)
    return forward, (draw.probabilities(batch, n), draw.probabilities(n, n), draw.uniform(0.1, 1.0, batch, steps, n))


def best_path(score: Any, transition: Any, emissions: list[Any]) -> Any:
    """The highest score of a path, by dynamic programming."""
    for emission in emissions:
        score = xp.max(score[:, :, None] + transition, axis=1) + emission
    return xp.max(score, axis=-1)


@program
def viterbi_scores(draw: Draw, batch: int) -> Any:
    n = draw.size(4, 10)
    return best_path, (draw.normal(batch, n), draw.normal(n, n), [draw.normal(batch, n) for _ in range(3)])


def softplus(x: Any) -> Any:
    return xp.maximum(x, 0.0) + xp.log(1.0 + xp.exp(-abs(x)))


def logistic(w: Any, X: Any, y: Any, ridge: float) -> tuple[Any, Any]:
    """Return losses and gradients of logistic regressions, one for each of the batch."""
    margin = xp.einsum("bij,bj->bi", X, w)
    p = 1.0 / (1.0 + xp.exp(-margin))
    gradient = xp.einsum("bij,bi->bj", X, p - y) + ridge * w
    return (softplus(margin) - y * margin).sum(axis=-1), gradient


@program
def logistic_gradients(draw: Draw, batch: int) -> Any:
    samples, n = draw.size(6, 16), draw.size(3, 10)
    return logistic, (draw.normal(batch, n), draw.normal(batch, samples, n), draw.uniform(0.0, 1.0, batch, samples),
                      0.1)


def gaussian_kl(mean: Any, log_variance: Any) -> Any:
    return 0.5 * (mean * mean + xp.exp(log_variance) - log_variance - 1.0).sum(axis=-1)


def bound(x: Any, noise: Any, parameters: dict[str, tuple[Any, Any]]) -> Any:
    """The evidence lower bound of a small variational autoencoder."""
    def linear(name: str, values: Any) -> Any:
        W, b = parameters[name]
        return values @ W + b

    hidden = xp.tanh(linear("hidden", x))
    mean, log_variance = linear("mean", hidden), linear("variance", hidden)
    code = mean + xp.exp(0.5 * log_variance) * noise
    error = linear("decoder", code) - x
    return gaussian_kl(mean, log_variance) + 0.5 * (error * error).sum(axis=-1)


@program
def evidence_bound(draw: Draw, batch: int) -> Any:
    n, m, k = draw.size(8, 20), draw.size(8, 20), draw.size(2, 5)
    parameters = {"hidden": (draw.weights(n, m), draw.normal(m)), "mean": (draw.weights(m, k), draw.normal(k)),
                  "variance": (draw.normal(m, k, scale=0.1), draw.normal(k, scale=0.1)),
                  "decoder": (draw.weights(k, n), draw.normal(n))}
    return bound, (draw.normal(batch, n), draw.normal(batch, k), parameters)
