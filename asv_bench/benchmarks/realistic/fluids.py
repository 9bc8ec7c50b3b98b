"""Fluxes, collisions and stencils."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from . import Draw, program, xp


class Conserved(NamedTuple):
    density: Any
    momentum: Any
    energy: Any


class Gas:
    gamma = 1.4

    def pressure(self, u: Conserved) -> Any:
        kinetic = 0.5 * (u.momentum * u.momentum).sum(axis=-1) / u.density
        return (self.gamma - 1.0) * (u.energy - kinetic)

    def sound(self, u: Conserved) -> Any:
        return xp.sqrt(self.gamma * self.pressure(u) / u.density)


def flux(gas: Gas, u: Conserved, normal: Any) -> Conserved:
    speed = (u.momentum * normal).sum(axis=-1) / u.density
    p = gas.pressure(u)
    return Conserved(u.density * speed, u.momentum * speed[:, None] + p[:, None] * normal, (u.energy + p) * speed)


def gas_state(draw: Draw, batch: int) -> Conserved:
    return Conserved(draw.uniform(1.0, 2.0, batch), draw.normal(batch, 2, scale=0.3), draw.uniform(2.0, 3.0, batch))


@program
def euler_flux(draw: Draw, batch: int) -> Any:
    return flux, (Gas(), gas_state(draw, batch), draw.units(batch, 2))


def signal_speed(gas: Gas, u: Conserved, normal: Any) -> Any:
    return abs((u.momentum * normal).sum(axis=-1) / u.density) + gas.sound(u)


def rusanov(gas: Gas, left: Conserved, right: Conserved, normal: Any) -> Conserved:
    speed = xp.maximum(signal_speed(gas, left, normal), signal_speed(gas, right, normal))
    f, g = flux(gas, left, normal), flux(gas, right, normal)
    return Conserved(
        0.5 * (f.density + g.density - speed * (right.density - left.density)),
        0.5 * (f.momentum + g.momentum - speed[:, None] * (right.momentum - left.momentum)),
        0.5 * (f.energy + g.energy - speed * (right.energy - left.energy)),
    )


@program
def rusanov_flux(draw: Draw, batch: int) -> Any:
    return rusanov, (Gas(), gas_state(draw, batch), gas_state(draw, batch), draw.units(batch, 2))


@dataclass
class Lattice:
    """Velocities `(directions, dimensions)` and weights of a lattice Boltzmann method."""

    velocities: Any
    weights: Any

    def equilibrium(self, density: Any, velocity: Any) -> Any:
        cu = 3.0 * (velocity @ self.velocities.T)
        uu = 1.5 * (velocity * velocity).sum(axis=-1, keepdims=True)
        return self.weights * density[:, None] * (1.0 + cu + 0.5 * cu * cu - uu)


def collide(lattice: Lattice, f: Any, omega: float) -> Any:
    density = f.sum(axis=-1)
    velocity = f @ lattice.velocities / density[:, None]
    return f + omega * (lattice.equilibrium(density, velocity) - f)


@program
def lattice_boltzmann(draw: Draw, batch: int) -> Any:
    velocities = [[x, y] for x in (-1.0, 0.0, 1.0) for y in (-1.0, 0.0, 1.0)]
    weights = [[4 / 9, 1 / 9, 1 / 36][int(abs(x) + abs(y))] for x, y in velocities]
    return collide, (Lattice(draw.array(velocities), draw.array(weights)), draw.uniform(0.5, 1.5, batch, 9), 1.2)


def minmod(a: Any, b: Any) -> Any:
    return xp.where(abs(a) < abs(b), a, b) * (a * b > 0.0)


def reconstruct(u: Any) -> tuple[Any, Any]:
    difference = u[:, 1:] - u[:, :-1]
    slope = 0.5 * minmod(difference[:, :-1], difference[:, 1:])
    return u[:, 1:-1] + slope, u[:, 1:-1] - slope


def limited(u: Any, courant: float) -> Any:
    right, left = reconstruct(u)
    mean = 0.5 * (right[:, :-1] + left[:, 1:])
    faces = 0.5 * mean * mean - 0.25 * abs(mean) * (left[:, 1:] - right[:, :-1])
    return u[:, 2:-2] - courant * (faces[:, 1:] - faces[:, :-1])


@program
def limited_burgers(draw: Draw, batch: int) -> Any:
    return limited, (draw.normal(batch, draw.size(16, 40)), 0.2)


def upwind(left: Any, right: Any, A: Any, absolute: Any) -> Any:
    """Godunov's flux of a linear system."""
    return 0.5 * ((left + right) @ A - (right - left) @ absolute)


def cell_update(q: Any, neighbours: list[Any], matrices: list[tuple[Any, Any]], scale: Any, dt: float) -> Any:
    total = 0.0
    for other, (A, absolute) in zip(neighbours, matrices, strict=True):
        total = total + upwind(q, other, A, absolute)
    return q - dt * scale[:, None] * total


@program
def godunov_cells(draw: Draw, batch: int) -> Any:
    n, sides = draw.size(3, 9), draw.size(2, 4)
    matrices = [(draw.weights(n, n), draw.definite(n)) for _ in range(sides)]
    return cell_update, (draw.normal(batch, n), [draw.normal(batch, n) for _ in matrices], matrices,
                         draw.uniform(0.5, 1.5, batch), 0.02)


def laplacian(u: Any) -> Any:
    return u[:, 2:, 1:-1] + u[:, :-2, 1:-1] + u[:, 1:-1, 2:] + u[:, 1:-1, :-2] - 4.0 * u[:, 1:-1, 1:-1]


def reaction_diffusion(u: Any, v: Any, feed: float, kill: float) -> tuple[Any, Any]:
    """One step of Gray and Scott's model on tiles with halos."""
    inner_u, inner_v = u[:, 1:-1, 1:-1], v[:, 1:-1, 1:-1]
    reaction = inner_u * inner_v * inner_v
    return (inner_u + 0.16 * laplacian(u) - reaction + feed * (1.0 - inner_u),
            inner_v + 0.08 * laplacian(v) + reaction - (feed + kill) * inner_v)


@program
def gray_scott_tiles(draw: Draw, batch: int) -> Any:
    n = draw.size(8, 14)
    return reaction_diffusion, (draw.uniform(0.0, 1.0, batch, n, n), draw.uniform(0.0, 1.0, batch, n, n), 0.035, 0.06)


def anisotropic(sigma: Any, gradients: Any) -> Any:
    flow = xp.einsum("bij,bpj->bpi", sigma, gradients)
    return -flow, (flow * gradients).sum(axis=-1).mean(axis=-1)


@program
def darcy_flow(draw: Draw, batch: int) -> Any:
    return anisotropic, (draw.definite(batch, 3), draw.normal(batch, draw.size(4, 12), 3))


def symmetric_gradient(G: Any) -> Any:
    return 0.5 * (G + xp.swapaxes(G, -1, -2))


def eddy_viscosity(G: Any, constant: float, identity: Any) -> Any:
    """Smagorinsky's stress from gradients of the velocity."""
    S = symmetric_gradient(G)
    magnitude = xp.sqrt(2.0 * (S * S).sum(axis=(-1, -2)))
    trace = xp.einsum("bii->b", S)
    return 2.0 * (constant * magnitude)[:, None, None] * (S - (trace / 3.0)[:, None, None] * identity)


@program
def smagorinsky(draw: Draw, batch: int) -> Any:
    identity = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    return eddy_viscosity, (draw.normal(batch, 3, 3), 0.17, draw.array(identity))
