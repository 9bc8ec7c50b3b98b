"""A batch divided over the processes of a Dask cluster: by `map_blocks`, and by `apply_gufunc`.

The kernel travels in the tasks, as its source and options; with a disk cache that the workers share, one of them
compiles it and the others read it.  Prints the efficiency: the time here over the time on n workers, times n.
"""

import argparse
import sys
import time

import numpy as np

try:
    import dask
    import dask.array as da
    from distributed import Client, LocalCluster
except ModuleNotFoundError as error:
    sys.exit(f"{error.name} is missing: pip install 'dask[array]' distributed")

import tl_dpnp

SOURCE = """
func @products(%A: memref<f32x16x16x?>, %B: memref<f32x16x16>, %C: memref<f32x16x16x?>) {
  %g = group_id
  %a = subview %A[:,:,%g] : memref<f32x16x16x?>
  %c = subview %C[:,:,%g] : memref<f32x16x16x?>
  gemm.n.n 1.0, %B, %a, 0.0, %c : f32, memref<f32x16x16>, memref<f32x16x16>, f32, memref<f32x16x16>
}
"""
WORKERS = 2


def products(A, B, kernel):
    """Return A[g] B for each g, computed on this process's device; arrays are NumPy's, in C order."""
    import dpnp

    a, b = dpnp.asarray(np.ascontiguousarray(A)), dpnp.asarray(np.ascontiguousarray(B))
    c = dpnp.empty_like(a)
    kernel.in_c_order(a, b, c)  # the reverse of a matrix is its transpose, hence B before A in the source
    return dpnp.asnumpy(c)


def timed(function):
    """Return the result of a function and the shortest of a few times, the first aside."""
    times = []
    for _ in range(4):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return result, min(times[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=4_000)
    batch = parser.parse_args().batch
    random = np.random.default_rng(0)
    # Small integers, whose sums f32 has exactly: the results are the same in any order.
    A = random.integers(-4, 5, (batch, 16, 16)).astype("f4")
    B = random.integers(-4, 5, (16, 16)).astype("f4")
    kernel = tl_dpnp.compile(SOURCE)
    here, alone = timed(lambda: products(A, B, kernel))
    assert (here == A @ B).all()
    # Processes are spawned: a fork of one that has used a device cannot use it.
    with dask.config.set({"distributed.worker.multiprocessing-method": "spawn"}), \
            LocalCluster(n_workers=WORKERS, threads_per_worker=1, processes=True, dashboard_address=None) as cluster, \
            Client(cluster) as client:
        chunked = client.persist(da.from_array(A, chunks=(-(-batch // WORKERS), 16, 16)))
        blocks = chunked.map_blocks(products, B, kernel, dtype="f4", meta=np.empty((0, 0, 0), "f4"))
        by_blocks, together = timed(lambda: client.persist(blocks).compute())
        gufunc = da.apply_gufunc(products, "(i,k),(k,j)->(i,j)", chunked, B, kernel=kernel, output_dtypes="f4")
        assert (by_blocks == here).all()
        assert (gufunc.compute() == here).all()
    print(f"checked: {batch} matrices on {WORKERS} workers, by map_blocks and apply_gufunc")
    print("all bits agree with one process")
    print(f"here {alone * 1e3:.1f} ms, workers {together * 1e3:.1f} ms, copies between processes included: efficiency "
          f"{alone / (together * WORKERS):.2f}")


if __name__ == "__main__":
    main()
