"""Kernels as SeisSol's generator writes them, run over a mesh: a file of functions, groups of separate arrays, offsets.

The file `seissol_kernels.tl` beside this one has the kernels of one time step of an ADER-DG solver for the elastic wave
equation, in the spellings that the generator mixes.  Each element of the mesh has arrays of its own, wherever they were
allocated: the degrees of freedom, their derivatives in time one behind the other, three star matrices, four solvers.
A group is a list of such arrays, and its offset picks one of those that lie in an array.  The flux over a face takes
the matrices of this face of the element and of the neighbour's: elements that have the same of both are one call.
"""

import math
import time
import timeit
from pathlib import Path

import dpnp
import numpy as np

import tl_dpnp

KERNELS = Path(__file__).with_name("seissol_kernels.tl")
ELEMENTS, ORDER, BASIS, FACE, QUANTITIES, FACES = 100, 4, 20, 10, 9, 4
TIME_STEP = 0.1
#: The factors of the derivatives in the sum over the time step.
FACTORS = [TIME_STEP ** (k + 1) / math.factorial(k + 1) for k in range(ORDER)]


class Mesh:
    """Elements with faces that are joined at random, and what elements have of their own and what they share."""

    def __init__(self, random):
        joined = random.permutation(ELEMENTS * FACES).reshape(-1, 2)
        other = np.empty(ELEMENTS * FACES, int)
        other[joined] = joined[:, ::-1]
        self.neighbour, self.neighbour_face = np.divmod(other.reshape(ELEMENTS, FACES), FACES)

        def matrices(*shape):
            return random.uniform(-1, 1, shape) / shape[-1]

        self.dofs = matrices(ELEMENTS, BASIS, QUANTITIES)
        self.stars = matrices(3, ELEMENTS, QUANTITIES, QUANTITIES)
        self.inner, self.outer = (matrices(FACES, ELEMENTS, QUANTITIES, QUANTITIES) for _ in range(2))
        self.areas = random.uniform(1, 2, (FACES, ELEMENTS, 1, 1))
        self.in_time, self.in_space = matrices(3, FACE, BASIS), matrices(3, BASIS, FACE)
        self.back, self.forth, self.across = (matrices(FACES, *shape) for shape in (
            (BASIS, FACE), (FACE, BASIS), (FACE, BASIS)))
        self.turn = matrices(FACE, FACE)


def integrated(dofs, stars, in_time, zeros):
    """Return the integral over the time step by a Taylor series, of one element or of many along the first axes."""
    total, derivative = FACTORS[0] * dofs, dofs
    for factor in FACTORS[1:]:
        rows = -sum(k @ (derivative @ star) for k, star in zip(in_time, stars, strict=True))
        derivative = zeros(dofs.shape)
        derivative[..., :FACE, :] = rows
        total = total + factor * derivative
    return total


def updated(dofs, own, stars, inner, shared, faces):
    """Return the degrees of freedom after the time step; `faces` has what comes over each: area, matrices, integral."""
    in_space, back, forth, turn = shared
    for k, star in zip(in_space, stars, strict=True):
        dofs = dofs + k @ (own[..., :FACE, :] @ star)
    for r, f, solver in zip(back, forth, inner, strict=True):
        dofs = dofs + r @ (f @ own @ solver)
    for r, (area, trace, other, solver) in zip(back, faces, strict=True):
        dofs = dofs + 0.5 * area * (r @ (turn @ (trace @ other) @ solver))
    return dofs


def by_numpy(mesh):
    """Return the degrees of freedom after a step, by products of stacked matrices."""
    own = integrated(mesh.dofs, mesh.stars, mesh.in_time, np.zeros)
    faces = [(mesh.areas[f], mesh.across[mesh.neighbour_face[:, f]], own[mesh.neighbour[:, f]], mesh.outer[f])
             for f in range(FACES)]
    return updated(mesh.dofs, own, mesh.stars, mesh.inner, (mesh.in_space, mesh.back, mesh.forth, mesh.turn), faces)


def by_dpnp(mesh):
    """Return a call that computes the same by loops over elements, as dpnp code without batches is written."""
    names = ("dofs", "stars", "inner", "outer", "in_time", "in_space", "back", "forth", "across", "turn")
    on = {name: dpnp.asarray(getattr(mesh, name)) for name in names}
    shared = on["in_space"], on["back"], on["forth"], on["turn"]

    def call():
        def of(name, e):
            return [on[name][i, e] for i in range(len(on[name]))]

        own = [integrated(on["dofs"][e], of("stars", e), on["in_time"], dpnp.zeros) for e in range(ELEMENTS)]
        return [updated(on["dofs"][e], own[e], of("stars", e), of("inner", e), shared, [
            (float(mesh.areas[f, e, 0, 0]), on["across"][mesh.neighbour_face[e, f]], own[mesh.neighbour[e, f]],
             on["outer"][f, e]) for f in range(FACES)]) for e in range(ELEMENTS)]

    return call


class Solver:
    """A time step by the generated kernels."""

    def __init__(self, mesh):
        self.kernels, self.mesh = tl_dpnp.compile(KERNELS), mesh
        self.dofs = [dpnp.asarray(matrix, order="F") for matrix in mesh.dofs]
        # Arrays in the order of the language, the last axis slowest: a derivative is in one piece, and so is a matrix.
        derivatives = [dpnp.zeros((BASIS, QUANTITIES, ORDER - 1), order="F") for _ in range(ELEMENTS)]
        self.integrals = dpnp.empty((BASIS, QUANTITIES, ELEMENTS), order="F")
        stars, inner, outer, areas = (
            [dpnp.asarray(np.moveaxis(given[:, e], 0, -1), order="F") for e in range(ELEMENTS)]
            for given in (mesh.stars, mesh.inner, mesh.outer, mesh.areas))
        size, square = BASIS * QUANTITIES, QUANTITIES**2

        def groups(arrays, distance, count):
            """Return a group for each matrix in the arrays, whose first is at offset 0."""
            return [tl_dpnp.group([array[..., 0] for array in arrays], offset=distance * i) for i in range(count)]

        self.stars, self.inner = groups(stars, square, 3), groups(inner, square, FACES)
        self.own = tl_dpnp.group(self.dofs)
        self.derivatives = [self.own, *groups(derivatives, size, ORDER - 1)]

        def shared(matrices):
            return [dpnp.asarray(matrix, order="F") for matrix in matrices]

        self.in_time, self.in_space = shared(mesh.in_time), shared(mesh.in_space)
        self.back, self.forth, self.across = shared(mesh.back), shared(mesh.forth), shared(mesh.across)
        (self.turn,) = shared([mesh.turn])
        self.fluxes = []
        for f in range(FACES):
            for h in range(FACES):
                elements = [e for e in range(ELEMENTS) if mesh.neighbour_face[e, f] == h]
                self.fluxes.append((
                    tl_dpnp.group([areas[e][0, :1, 0] for e in elements], offset=f), self.across[h],
                    tl_dpnp.group([self.integrals[:, :, mesh.neighbour[e, f]] for e in elements]), self.turn,
                    tl_dpnp.group([outer[e][..., 0] for e in elements], offset=square * f), self.back[f],
                    tl_dpnp.group([self.dofs[e] for e in elements])))

    def __call__(self):
        run, by_dimension = self.kernels, [*zip(self.stars, self.in_time, strict=True)]
        for k in range(ORDER):
            if k:
                run.derivative(self.derivatives[k - 1], *sum(by_dimension, ()), self.derivatives[k])
            run.taylor(FACTORS[k], self.derivatives[k], float(k > 0), self.integrals)
        run.volume(self.integrals, *sum(zip(self.stars, self.in_space, strict=True), ()), self.own)
        for f in range(FACES):
            run.localFlux(self.forth[f], self.integrals, self.inner[f], self.back[f], self.own)
        for arguments in self.fluxes:
            run.neighbourFlux(*arguments)


def main():
    """Run a time step, compare it with NumPy, and time it beside dpnp's products, element by element."""
    mesh = Mesh(np.random.default_rng(3))
    expected, solver = by_numpy(mesh), Solver(mesh)
    solver()
    loops = by_dpnp(mesh)
    start = time.perf_counter()
    results = {"the kernels": solver.dofs, "dpnp": loops()}
    by_loops = time.perf_counter() - start
    for name, result in results.items():
        error = np.abs(np.stack([dpnp.asnumpy(matrix) for matrix in result]) - expected).max() / np.abs(expected).max()
        assert error < 1e-14, f"{name}: the result is wrong: relative error {error}"
    own, batched = (min(timeit.repeat(call, number=1, repeat=7)) for call in (solver, lambda: by_numpy(mesh)))
    calls = ORDER - 1 + ORDER + 1 + FACES + len(solver.fluxes)
    print(f"a time step of {ELEMENTS} elements: {calls} calls of {len(solver.kernels)} kernels, each on many elements")
    print(f"{by_loops / own:.0f} times the speed of dpnp by loops over elements, "
          f"{batched / own:.1f} times that of NumPy's products of stacked matrices")
    print("checked against NumPy, " + (f"largest relative error {error:.1e}" if error else "all bits agree"))


if __name__ == "__main__":
    main()
