"""Steps of integrators for equations of matrices and vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import Draw, program, xp


def rk4(rate: Callable[[Any], Any], y: Any, dt: float) -> Any:
    k1 = rate(y)
    k2 = rate(y + 0.5 * dt * k1)
    k3 = rate(y + 0.5 * dt * k2)
    k4 = rate(y + dt * k3)
    return y + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


def lyapunov_step(A: Any, Q: Any, X: Any, dt: float) -> Any:
    def rate(X: Any) -> Any:
        return A @ X + X @ A.T + Q

    return rk4(rate, X, dt)


@program
def rk4_lyapunov(draw: Draw, batch: int) -> Any:
    n = draw.size(4, 10)
    return lyapunov_step, (draw.weights(n, n), draw.definite(n), draw.definite(batch, n), 0.02)


class Reaction:
    """Reactions among species: linear decay and products of pairs."""

    def __init__(self, decay: Any, left: Any, right: Any, yields: Any) -> None:
        self.decay, self.left, self.right, self.yields = decay, left, right, yields

    def __call__(self, c: Any) -> Any:
        return ((c @ self.left) * (c @ self.right)) @ self.yields - self.decay * c


def heun_step(rate: Reaction, c: Any, dt: float) -> Any:
    first = rate(c)
    second = rate(c + dt * first)
    return xp.maximum(c + 0.5 * dt * (first + second), 0.0)


@program
def heun_reactions(draw: Draw, batch: int) -> Any:
    species, reactions = draw.size(6, 16), draw.size(4, 12)
    rate = Reaction(draw.uniform(0.1, 1.0, species), draw.weights(species, reactions),
                    draw.weights(species, reactions), draw.weights(reactions, species))
    return heun_step, (rate, draw.uniform(0.0, 1.0, batch, species), 0.01)


@dataclass
class History:
    y: Any
    rates: list[Any]


def adams_bashforth(A: Any, history: History, dt: float) -> History:
    now = xp.sin(history.y) @ A
    before, earlier = history.rates
    y = history.y + dt / 12.0 * (23.0 * now - 16.0 * before + 5.0 * earlier)
    return History(y, [now, before])


@program
def adams_bashforth3(draw: Draw, batch: int) -> Any:
    n = draw.size(8, 24)
    history = History(draw.normal(batch, n), [draw.normal(batch, n), draw.normal(batch, n)])
    return adams_bashforth, (draw.weights(n, n), history, 0.01)


def exponential_action(A: Any, v: Any, t: float, order: int = 6) -> Any:
    """Return exp(t A) v by its Taylor polynomial, in Horner's form."""
    result = v
    for k in range(order, 0, -1):
        result = v + t / k * (A @ result)
    return result


@program
def taylor_exponential(draw: Draw, batch: int) -> Any:
    n, columns = draw.size(4, 12), draw.size(1, 4)
    return exponential_action, (draw.normal(batch, n, n, scale=n**-0.5), draw.normal(batch, n, columns), 0.1)


def implicit_midpoint(L: Any, u: Any, source: Any, dt: float, sweeps: int) -> Any:
    """Solve for the middle by fixed-point iterations."""
    middle = u
    for _ in range(sweeps):
        middle = u + 0.5 * dt * (middle @ L + source)
    return 2.0 * middle - u


@program
def midpoint_diffusion(draw: Draw, batch: int) -> Any:
    n = draw.size(8, 20)
    return implicit_midpoint, (draw.weights(n, n), draw.normal(batch, n), draw.normal(batch, n), 0.05, 4)


def commutator(a: Any, b: Any) -> Any:
    return a @ b - b @ a


def lindblad_rate(H: Any, jumps: list[Any], rho: Any) -> Any:
    rate = commutator(H, rho)
    for L in jumps:
        LtL = L.T @ L
        rate = rate + L @ rho @ L.T - 0.5 * (LtL @ rho + rho @ LtL)
    return rate


def lindblad_step(H: Any, jumps: list[Any], rho: Any, dt: float) -> Any:
    first = lindblad_rate(H, jumps, rho)
    return rho + dt * lindblad_rate(H, jumps, rho + 0.5 * dt * first)


@program
def open_system(draw: Draw, batch: int) -> Any:
    """Density matrices under an antisymmetric generator, in real form."""
    n = draw.size(3, 6)
    return lindblad_step, (draw.weights(n, n), [draw.normal(n, n, scale=0.3) for _ in range(2)],
                           draw.definite(batch, n), 0.01)


class Neurons:
    """FitzHugh and Nagumo's model on a network."""

    def __init__(self, coupling: Any, recovery: float) -> None:
        self.coupling = coupling
        self.recovery = recovery

    def rates(self, v: Any, w: Any, current: Any) -> tuple[Any, Any]:
        return v - v**3 / 3.0 - w + current + v @ self.coupling, self.recovery * (v + 0.7 - 0.8 * w)


def neuron_step(neurons: Neurons, v: Any, w: Any, current: Any, dt: float) -> tuple[Any, Any]:
    dv, dw = neurons.rates(v, w, current)
    ev, ew = neurons.rates(v + dt * dv, w + dt * dw, current)
    return v + 0.5 * dt * (dv + ev), w + 0.5 * dt * (dw + ew)


@program
def neuron_network(draw: Draw, batch: int) -> Any:
    n = draw.size(8, 24)
    return neuron_step, (Neurons(draw.weights(n, n), 0.08), draw.normal(batch, n), draw.normal(batch, n),
                         draw.uniform(0.0, 1.0, batch, n), 0.02)
