"""Spectral and finite elements, with einsum in helpers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import Draw, program, xp


def along_x(D: Any, u: Any) -> Any:
    return xp.einsum("il,eljk->eijk", D, u)


def along_y(D: Any, u: Any) -> Any:
    return xp.einsum("jl,eilk->eijk", D, u)


def along_z(D: Any, u: Any) -> Any:
    return xp.einsum("kl,eijl->eijk", D, u)


def gradient(D: Any, u: Any) -> tuple[Any, Any, Any]:
    return along_x(D, u), along_y(D, u), along_z(D, u)


@program
def hexahedral_gradient(draw: Draw, batch: int) -> Any:
    n = draw.size(4, 6)
    return gradient, (draw.weights(n, n), draw.normal(batch, n, n, n))


@dataclass
class Geometry:
    """Diagonal metric factors of each element, and the matrix of derivatives."""

    D: Any
    gx: Any
    gy: Any
    gz: Any
    mass: Any


def helmholtz_apply(geometry: Geometry, u: Any, shift: float) -> Any:
    D = geometry.D
    ux, uy, uz = gradient(D, u)
    stiffness = along_x(D.T, geometry.gx * ux) + along_y(D.T, geometry.gy * uy) + along_z(D.T, geometry.gz * uz)
    return stiffness + shift * geometry.mass * u


@program
def helmholtz(draw: Draw, batch: int) -> Any:
    n = draw.size(3, 5)
    factors = [draw.uniform(0.5, 1.5, batch, n, n, n) for _ in range(4)]
    return helmholtz_apply, (Geometry(draw.weights(n, n), *factors), draw.normal(batch, n, n, n), 0.7)


def to_quadrature(B: Any, u: Any) -> Any:
    return xp.einsum("qi,rj,eij->eqr", B, B, u)


def from_quadrature(B: Any, v: Any) -> Any:
    return xp.einsum("qi,rj,eqr->eij", B, B, v)


def weighted_mass(B: Any, weights: Any, u: Any) -> Any:
    return from_quadrature(B, weights * to_quadrature(B, u))


@program
def quadrilateral_mass(draw: Draw, batch: int) -> Any:
    p = draw.size(3, 8)
    q = p + draw.size(1, 2)
    return weighted_mass, (draw.weights(q, p), draw.uniform(0.5, 1.5, q, q), draw.normal(batch, p, p))


class DiscontinuousGalerkin:
    """Advection in one dimension on periodic elements, with upwind fluxes."""

    def __init__(self, D: Any, lift: Any) -> None:
        self.D, self.lift = D, lift

    def jumps(self, u: Any, left: Any) -> Any:
        return u[:, :1] - left

    def rate(self, u: Any, left: Any, speed: float) -> Any:
        return -speed * (u @ self.D.T + self.jumps(u, left) @ self.lift)


def advect(scheme: DiscontinuousGalerkin, u: Any, left: Any, speed: float, dt: float) -> Any:
    half = u + 0.5 * dt * scheme.rate(u, left, speed)
    return u + dt * scheme.rate(half, left, speed)


@program
def galerkin_advection(draw: Draw, batch: int) -> Any:
    n = draw.size(4, 12)
    scheme = DiscontinuousGalerkin(draw.weights(n, n), draw.normal(1, n))
    return advect, (scheme, draw.normal(batch, n), draw.normal(batch, 1), 1.5, 0.01)


def strain(B: Any, u: Any) -> Any:
    return xp.einsum("qsi,ei->eqs", B, u)


def internal_force(B: Any, C: Any, volume: Any, u: Any) -> Any:
    stress = strain(B, u) @ C
    return xp.einsum("qsi,eqs,eq->ei", B, stress, volume)


@program
def linear_elasticity(draw: Draw, batch: int) -> Any:
    nodes, points = draw.size(4, 8), 4
    return internal_force, (draw.normal(points, 6, 3 * nodes, scale=0.3), draw.definite(6),
                            draw.uniform(0.5, 1.5, batch, points), draw.normal(batch, 3 * nodes))


@dataclass
class Maxwell:
    Dx: Any
    Dy: Any

    def curl(self, E: Any) -> Any:
        return E[:, 1] @ self.Dx.T - self.Dy @ E[:, 0]


def curl_curl(operator: Maxwell, E: Any, permeability: Any) -> Any:
    H = operator.curl(E) / permeability
    return xp.stack([operator.Dy.T @ H, -(H @ operator.Dx)], axis=1)


@program
def maxwell_curl(draw: Draw, batch: int) -> Any:
    n = draw.size(4, 8)
    return curl_curl, (Maxwell(draw.weights(n, n), draw.weights(n, n)), draw.normal(batch, 2, n, n),
                       draw.uniform(1.0, 2.0, batch, n, n))


def jacobians(coordinates: Any, derivatives: Any) -> Any:
    return xp.einsum("enx,qnd->eqxd", coordinates, derivatives)


def determinants(J: Any) -> Any:
    return J[..., 0, 0] * J[..., 1, 1] - J[..., 0, 1] * J[..., 1, 0]


def areas(coordinates: Any, derivatives: Any, weights: Any) -> Any:
    return abs(determinants(jacobians(coordinates, derivatives))) @ weights


@program
def element_areas(draw: Draw, batch: int) -> Any:
    nodes, points = draw.size(4, 9), draw.size(4, 9)
    return areas, (draw.normal(batch, nodes, 2), draw.normal(points, nodes, 2), draw.uniform(0.1, 1.0, points))
