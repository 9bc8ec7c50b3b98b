"""A batch divided over several queues of one host: of one device, or of several.

Each queue gets a share of the batch, in memory of its own; all kernels run at the same time, and the results are put
together again.  Prints the efficiency: the time on one queue over the time on n, times the number of devices.
"""

import argparse
import itertools
import time

import dpctl
import dpnp
import numpy as np

import tl_dpnp

SOURCE = """
func @products(%A: memref<f32x16x16x?>, %B: memref<f32x16x16>, %C: memref<f32x16x16x?>) {
  %g = group_id
  %a = subview %A[:,:,%g] : memref<f32x16x16x?>
  %c = subview %C[:,:,%g] : memref<f32x16x16x?>
  gemm.n.n 1.0, %a, %B, 1.0, %c : f32, memref<f32x16x16>, memref<f32x16x16>, f32, memref<f32x16x16>
}
"""


def shares(batch, count):
    """Return slices of about the same length that make up the batch."""
    ends = [batch * number // count for number in range(count + 1)]
    return [slice(*pair) for pair in itertools.pairwise(ends)]


def placed(A, B, C, queues):
    """Return the arguments for each queue: a share of the batch, and B, which all read, once for each."""
    return [
        [dpnp.asarray(array, order="F", sycl_queue=queue) for array in (A[:, :, part], B, C[:, :, part])]
        for queue, part in zip(queues, shares(A.shape[2], len(queues)), strict=True)
    ]


def run(kernel, arguments):
    """Start the kernel on all queues, and wait for all."""
    tl_dpnp.wait(*[kernel.submit(*each) for each in arguments])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=2, help="queues for each device")
    parser.add_argument("--batch", type=int, default=4_000)
    options = parser.parse_args()
    devices = [device for device in dpctl.get_devices() if device.backend == dpctl.backend_type.opencl] \
        or dpctl.get_devices()
    queues = [dpctl.SyclQueue(device) for device in devices for _ in range(options.queues)]
    random = np.random.default_rng(0)
    # Small integers, whose sums f32 has exactly: the results are the same in any order.
    A, C = (random.integers(-4, 5, (16, 16, options.batch)).astype("f4") for _ in range(2))
    B = random.integers(-4, 5, (16, 16)).astype("f4")
    kernel = tl_dpnp.compile(SOURCE)
    one, many = placed(A, B, C, queues[:1]), placed(A, B, C, queues)
    run(kernel, one)
    run(kernel, many)
    results = [np.concatenate([dpnp.asnumpy(each[2]) for each in arguments], axis=2) for arguments in (one, many)]
    assert (results[0] == np.einsum("ijg,jk->ikg", A, B) + C).all()
    assert (results[0] == results[1]).all()
    best = [float("inf")] * 2
    for _ in range(10):
        for place, arguments in enumerate((one, many)):
            start = time.perf_counter()
            run(kernel, arguments)
            best[place] = min(best[place], time.perf_counter() - start)
    efficiency = best[0] / (best[1] * len(devices))
    print(f"checked: {len(queues)} queues, of devices: {len(devices)}; all bits agree with one queue")
    print(f"one queue {best[0] * 1e3:.2f} ms, all {best[1] * 1e3:.2f} ms: efficiency {efficiency:.2f}")


if __name__ == "__main__":
    main()
