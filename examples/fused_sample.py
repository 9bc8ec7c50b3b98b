"""The language reference's sample on a batch: D[:,:,g] += alpha (A[g] Bᵀ) C, one work-group for each g.

Checks the result against NumPy and prints the speed beside that of the same work in plain dpnp.
"""

import statistics
import time

import dpnp
import numpy as np

import tl_dpnp

SOURCE = """
func @fused_kernel(%alpha: f32,
                   %A: group<memref<f32x16x8>>,
                   %B: memref<f32x8x8>,
                   %C: memref<f32x8x16>,
                   %D: memref<f32x16x16x?>) {
  %0 = group_id
  %1 = load %A[%0] : group<memref<f32x16x8>>
  %2 = subview %D[:,:,%0] : memref<f32x16x16x?>
  %tmp0 = alloca -> memref<f32x16x8>
  gemm.n.t 1.0, %1, %B, 0.0, %tmp0
      : f32, memref<f32x16x8>, memref<f32x8x8>, f32, memref<f32x16x8>
  gemm.n.n %alpha, %tmp0, %C, 1.0, %2
      : f32, memref<f32x16x8>, memref<f32x8x16>, f32, memref<f32x16x16>
}
"""

BATCH = 20_000
FLOPS = BATCH * (2 * 16 * 8 * 8 + 2 * 16 * 8 * 16)


def median_times(functions, repeats=15):
    """Return the median time of each function in seconds; they take turns, so that noise meets all alike."""
    times = [[] for _ in functions]
    for function in functions:
        function()
    for _ in range(repeats):
        for function, measured in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            measured.append(time.perf_counter() - start)
    return [statistics.median(measured) for measured in times]


def main():
    """Run, check, measure."""
    random = np.random.default_rng(1)
    a, b, c, d = (
        random.standard_normal(shape, dtype=np.float32) for shape in [(BATCH, 16, 8), (8, 8), (8, 16), (BATCH, 16, 16)]
    )
    alpha = 0.5
    expected = d + np.float32(alpha) * (a @ b.T @ c)

    # The language is column-major: the matrices of the batch are stored transposed, and rev() views them.
    a_rows = dpnp.asarray(a.transpose(0, 2, 1).copy())
    A = tl_dpnp.group([tl_dpnp.rev(a_rows[g]) for g in range(BATCH)])
    B, C = dpnp.asarray(b, order="F"), dpnp.asarray(c, order="F")
    D = tl_dpnp.rev(dpnp.asarray(d.transpose(0, 2, 1).copy()))

    kernel = tl_dpnp.compile(SOURCE)
    kernel(alpha, A, B, C, D)
    error = np.abs(dpnp.asnumpy(D).transpose(2, 0, 1) - expected).max() / np.abs(expected).max()
    assert error < 1e-5, f"the result is wrong: relative error {error}"
    assert np.abs(expected - d).max() > 1, "the product leaves D as it was: the check would not see a kernel that does"
    print(f"checked {BATCH} work-groups against NumPy: largest relative error {error:.1e}")
    if error == 0:
        print("  (all bits agree: both add the eight products of an element in one order, and halving them is exact)")

    # Plain dpnp gets the layout that it likes best: everything in C order.
    a_plain, b_plain, c_plain, d_plain = (dpnp.asarray(x) for x in (a, b.T.copy(), c, d))
    queue = d_plain.sycl_queue

    def plain():
        d_plain[...] += alpha * dpnp.matmul(dpnp.matmul(a_plain, b_plain), c_plain)
        queue.wait()

    fused_time, plain_time = median_times([lambda: kernel(alpha, A, B, C, D), plain])
    print(f"tl_dpnp, one kernel  {FLOPS / fused_time / 1e9:8.2f} GF/s")
    print(f"plain dpnp           {FLOPS / plain_time / 1e9:8.2f} GF/s")
    print(f"tl_dpnp is {plain_time / fused_time:.1f} times as fast, on {queue.sycl_device.name.strip()}")


if __name__ == "__main__":
    main()
