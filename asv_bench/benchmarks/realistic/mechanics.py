"""Mechanics: particles, rotations, rigid bodies, arms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from . import Draw, program, xp


class Phase(NamedTuple):
    q: Any
    p: Any


def leapfrog(K: Any, mass: Any, state: Phase, dt: float) -> Phase:
    p = state.p - 0.5 * dt * (state.q @ K)
    q = state.q + dt * p / mass
    return Phase(q, p - 0.5 * dt * (q @ K))


@program
def leapfrog_lattice(draw: Draw, batch: int) -> Any:
    """Coupled oscillators with a time step that changes."""
    n = draw.size(6, 24)
    return leapfrog, (draw.definite(n), draw.uniform(1.0, 2.0, n), Phase(draw.normal(batch, n), draw.normal(batch, n)),
                      0.02)


@dataclass
class Particles:
    """Positions and velocities, `(batch, particles, dimensions)`."""

    x: Any
    v: Any

    def drift(self, dt: float) -> Particles:
        return Particles(self.x + dt * self.v, self.v)

    def kick(self, force: Any, dt: float) -> Particles:
        return Particles(self.x, self.v + dt * force)


def spring_force(x: Any, laplacian: Any, stiffness: float) -> Any:
    return -stiffness * (laplacian @ x)


def verlet(particles: Particles, laplacian: Any, stiffness: float, damping: float, dt: float) -> Particles:
    for _ in range(2):
        half = particles.kick(spring_force(particles.x, laplacian, stiffness) - damping * particles.v, 0.5 * dt)
        moved = half.drift(dt)
        particles = moved.kick(spring_force(moved.x, laplacian, stiffness) - damping * moved.v, 0.5 * dt)
    return particles


@program
def spring_network(draw: Draw, batch: int) -> Any:
    n = draw.size(5, 12)
    particles = Particles(draw.normal(batch, n, 3), draw.normal(batch, n, 3))
    return verlet, (particles, draw.definite(n), 1.2, 0.1, 0.01)


def multiply(a: Any, b: Any) -> Any:
    """Return products of quaternions, whose first component is the scalar."""
    aw, ax, ay, az = a[..., 0], a[..., 1], a[..., 2], a[..., 3]
    bw, bx, by, bz = b[..., 0], b[..., 1], b[..., 2], b[..., 3]
    return xp.stack([
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    ], axis=-1)


def normalized(q: Any) -> Any:
    return q / xp.sqrt((q * q).sum(axis=-1, keepdims=True))


def chain(rotations: list[Any]) -> Any:
    total = rotations[0]
    for rotation in rotations[1:]:
        total = multiply(total, rotation)
    return normalized(total)


@program
def quaternion_chain(draw: Draw, batch: int) -> Any:
    return chain, ([draw.units(batch, 4) for _ in range(draw.size(3, 5))],)


def rotation_matrices(q: Any) -> Any:
    w, x, y, z = (q[:, k] for k in range(4))
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return xp.stack([xp.stack(row, axis=-1) for row in rows], axis=-2)


def rotate(q: Any, points: Any, offset: Any) -> Any:
    return points @ xp.swapaxes(rotation_matrices(q), -1, -2) + offset[:, None]


@program
def rotate_points(draw: Draw, batch: int) -> Any:
    return rotate, (draw.units(batch, 4), draw.normal(batch, draw.size(6, 20), 3), draw.normal(batch, 3))


def cross(a: Any, b: Any) -> Any:
    a0, a1, a2 = a[..., 0], a[..., 1], a[..., 2]
    b0, b1, b2 = b[..., 0], b[..., 1], b[..., 2]
    return xp.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], axis=-1)


@dataclass(frozen=True)
class RigidBody:
    inertia: Any
    inverse: Any

    def acceleration(self, omega: Any, torque: Any) -> Any:
        return (torque - cross(omega, omega @ self.inertia)) @ self.inverse


def turn_body(body: RigidBody, attitude: Any, omega: Any, torque: Any, dt: float) -> tuple[Any, Any]:
    middle = omega + 0.5 * dt * body.acceleration(omega, torque)
    omega = omega + dt * body.acceleration(middle, torque)
    scalar = xp.zeros_like(omega[:, :1])
    spin = xp.concatenate([scalar, middle], axis=-1)
    return normalized(attitude + 0.5 * dt * multiply(attitude, spin)), omega


@program
def rigid_body(draw: Draw, batch: int) -> Any:
    body = RigidBody(draw.definite(3), draw.definite(3))
    return turn_body, (body, draw.units(batch, 4), draw.normal(batch, 3), draw.normal(batch, 3), 0.01)


def exponential_map(axis: Any, angle: Any, generators: Any) -> Any:
    """Return Rodrigues' matrices."""
    skew = xp.einsum("bk,kij->bij", axis, generators)
    s, c = xp.sin(angle)[:, None, None], xp.cos(angle)[:, None, None]
    return s * skew + (1.0 - c) * (skew @ skew)


def rodrigues(axis: Any, angle: Any, generators: Any, vectors: Any) -> Any:
    return vectors + vectors @ xp.swapaxes(exponential_map(axis, angle, generators), -1, -2)


@program
def rodrigues_rotation(draw: Draw, batch: int) -> Any:
    levi_civita = [[[0, 0, 0], [0, 0, -1], [0, 1, 0]], [[0, 0, 1], [0, 0, 0], [-1, 0, 0]],
                   [[0, -1, 0], [1, 0, 0], [0, 0, 0]]]
    return rodrigues, (draw.units(batch, 3), draw.uniform(-3.0, 3.0, batch), draw.array(levi_civita),
                       draw.normal(batch, draw.size(3, 8), 3))


class Joint:
    """A joint that turns about a fixed axis, by its two constant matrices and one constant part."""

    def __init__(self, fixed: Any, cosine: Any, sine: Any) -> None:
        self.fixed, self.cosine, self.sine = fixed, cosine, sine

    def transform(self, angle: Any) -> Any:
        angle = angle[:, None, None]
        return self.fixed + xp.cos(angle) * self.cosine + xp.sin(angle) * self.sine


class Arm:
    def __init__(self, joints: list[Joint]) -> None:
        self.joints = joints

    def pose(self, angles: Any) -> Any:
        pose = self.joints[0].transform(angles[:, 0])
        for k, joint in enumerate(self.joints[1:], start=1):
            pose = pose @ joint.transform(angles[:, k])
        return pose


def end_of_arm(arm: Arm, angles: Any, tool: Any) -> Any:
    return arm.pose(angles) @ tool


@program
def robot_arm(draw: Draw, batch: int) -> Any:
    joints = [Joint(*(draw.normal(4, 4, scale=0.4) for _ in range(3))) for _ in range(draw.size(3, 5))]
    return end_of_arm, (Arm(joints), draw.uniform(-math.pi, math.pi, batch, len(joints)), draw.normal(4))


def accelerations(theta: Any, omega: Any, gravity: float) -> Any:
    first, second = theta[:, 0], theta[:, 1]
    delta = first - second
    s, c = xp.sin(delta), xp.cos(delta)
    bottom = 2.0 - c * c
    fast, slow = omega[:, 0] ** 2, omega[:, 1] ** 2
    a = -s * (slow + fast * c) - gravity * (2 * xp.sin(first) - xp.sin(second) * c)
    b = s * (2 * fast + slow * c) + 2 * gravity * (xp.sin(first) * c - xp.sin(second))
    return xp.stack([a / bottom, b / bottom], axis=-1)


def swing(theta: Any, omega: Any, gravity: float, dt: float) -> tuple[Any, Any]:
    omega = omega + dt * accelerations(theta, omega, gravity)
    return theta + dt * omega, omega


@program
def double_pendulum(draw: Draw, batch: int) -> Any:
    return swing, (draw.uniform(-2.0, 2.0, batch, 2), draw.normal(batch, 2), 9.81, 0.005)
