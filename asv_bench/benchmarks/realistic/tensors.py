"""Tensor networks and decompositions."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from . import Draw, program, xp


def absorb(environment: Any, site: Any, physical: Any) -> Any:
    """Take one more site of a chain into its environment."""
    return xp.einsum("bi,ipj,bp->bj", environment, site, physical)


def amplitude(sites: list[Any], spins: list[Any], start: Any) -> Any:
    environment = start
    for site, physical in zip(sites, spins, strict=True):
        environment = absorb(environment, site, physical)
    return environment.sum(axis=-1)


@program
def matrix_product_state(draw: Draw, batch: int) -> Any:
    bond, length = draw.size(4, 10), draw.size(3, 5)
    sites = [draw.normal(bond, 2, bond, scale=bond**-0.5) for _ in range(length)]
    return amplitude, (sites, [draw.units(batch, 2) for _ in sites], draw.normal(batch, bond))


def transfer(environment: Any, ket: Any, operator: Any, bra: Any) -> Any:
    """Take one more site into an environment, bond by bond."""
    upper = xp.einsum("bij,ipk->bjpk", environment, xp.einsum("iqk,qp->ipk", ket, operator))
    return xp.einsum("bjpk,jpl->bkl", upper, bra)


def expectation(environment: Any, tensors: list[Any], operators: list[Any]) -> Any:
    for tensor, operator in zip(tensors, operators, strict=True):
        environment = transfer(environment, tensor, operator, tensor)
    return environment


@program
def mps_expectation(draw: Draw, batch: int) -> Any:
    bond = draw.size(3, 6)
    tensors = [draw.normal(bond, 2, bond, scale=bond**-0.5) for _ in range(2)]
    return expectation, (draw.normal(batch, bond, bond), tensors, [draw.definite(2) for _ in range(2)])


@dataclass(frozen=True)
class ClebschGordan:
    """Coefficients of the product of two representations, `(out, left, right)`, and weights of the channels."""

    coefficients: Any
    weights: Any

    def __call__(self, left: Any, right: Any) -> Any:
        coupled = xp.einsum("kij,bci,bcj->bck", self.coefficients, left, right)
        return xp.einsum("bck,cd->bdk", coupled, self.weights)


def couple(first: ClebschGordan, second: ClebschGordan, x: Any, y: Any) -> Any:
    return second(first(x, y), y)


@program
def clebsch_gordan(draw: Draw, batch: int) -> Any:
    channels = draw.size(3, 6)
    first = ClebschGordan(draw.normal(5, 3, 3, scale=0.4), draw.weights(channels, channels))
    second = ClebschGordan(draw.normal(3, 5, 3, scale=0.4), draw.weights(channels, channels))
    return couple, (first, second, draw.normal(batch, channels, 3), draw.normal(batch, channels, 3))


def tucker(core: Any, factors: tuple[Any, Any, Any]) -> Any:
    def along(tensor: Any, mode: int) -> Any:
        moved = xp.moveaxis(tensor, mode, -1)
        return xp.moveaxis(moved @ factors[mode - 1], -1, mode)

    return functools.reduce(along, (1, 2, 3), core)


@program
def tucker_reconstruction(draw: Draw, batch: int) -> Any:
    ranks = [draw.size(2, 4) for _ in range(3)]
    factors = tuple(draw.weights(rank, draw.size(4, 8)) for rank in ranks)
    return tucker, (draw.normal(batch, *ranks), factors)


def plaquette(a: Any, b: Any, c: Any, d: Any) -> Any:
    return xp.einsum("bij,bjk,bkl,bli->b", a, b, c, d)


@program
def plaquette_trace(draw: Draw, batch: int) -> Any:
    n = draw.size(3, 6)
    return plaquette, tuple(draw.normal(batch, n, n, scale=n**-0.5) for _ in range(4))


def lower(metric: Any, vector: Any) -> Any:
    return xp.einsum("bij,bj->bi", metric, vector)


def christoffel(inverse: Any, derivative: Any) -> Any:
    first = derivative + xp.swapaxes(derivative, 2, 3) - xp.moveaxis(derivative, 1, 3)
    return 0.5 * xp.einsum("bij,bjkl->bikl", inverse, first)


def geodesic(metric: Any, inverse: Any, derivative: Any, velocity: Any) -> tuple[Any, Any]:
    gamma = christoffel(inverse, derivative)
    return -xp.einsum("bikl,bk,bl->bi", gamma, velocity, velocity), lower(metric, velocity)


@program
def geodesic_acceleration(draw: Draw, batch: int) -> Any:
    return geodesic, (draw.definite(batch, 4), draw.definite(batch, 4), draw.normal(batch, 4, 4, 4, scale=0.3),
                      draw.normal(batch, 4))


def contract_core(vectors: list[Any], cores: list[Any]) -> Any:
    """Evaluate a tensor train with polynomials of each coordinate."""
    value = xp.einsum("bp,pr->br", vectors[0], cores[0])
    for vector, core in zip(vectors[1:-1], cores[1:-1], strict=True):
        value = xp.einsum("br,bp,rps->bs", value, vector, core)
    return xp.einsum("br,bp,rp->b", value, vectors[-1], cores[-1])


def powers(x: Any, count: int) -> Any:
    columns = [xp.ones_like(x)]
    for _ in range(count - 1):
        columns.append(columns[-1] * x)
    return xp.stack(columns, axis=-1)


def tensor_train(points: Any, cores: list[Any], degree: int) -> Any:
    return contract_core([powers(points[:, k], degree) for k in range(points.shape[1])], cores)


@program
def tensor_train_values(draw: Draw, batch: int) -> Any:
    degree, rank = draw.size(3, 5), draw.size(3, 6)
    cores = [draw.normal(degree, rank, scale=0.5), draw.normal(rank, degree, rank, scale=0.3),
             draw.normal(rank, degree, scale=0.5)]
    return tensor_train, (draw.uniform(-1.0, 1.0, batch, 3), cores, degree)
