"""Kernels for arrays in C order."""

from __future__ import annotations

import pickle

import dpnp
import numpy as np
import pytest

import tl_dpnp

SOURCE = """
func @f(%alpha: f32, %A: memref<f32x?x?x?>, %B: group<memref<f32x?x?>>, %C: memref<f32x?x?x?>) {
  %g = group_id
  %a = subview %A[:,:,%g] : memref<f32x?x?x?>
  %b = load %B[%g] : group<memref<f32x?x?>>
  %c = subview %C[:,:,%g] : memref<f32x?x?x?>
  gemm.n.n %alpha, %a, %b, 1.0, %c : f32, memref<f32x?x?>, memref<f32x?x?>, f32, memref<f32x?x?>
}
"""


def arrays(m, n, k):
    random = np.random.default_rng(7)
    return [random.integers(-3, 4, shape).astype("float32") for shape in ((3, k, m), (3, n, k), (3, n, m))]


@pytest.mark.parametrize("target", ["sycl", "reference"])
@pytest.mark.parametrize("kind", ["list", "group"])
def test_arrays_are_taken_as_their_reverse(target, kind):
    kernel = tl_dpnp.compile(SOURCE, target=target)
    for sizes in ((4, 4, 4), (4, 5, 6)):
        host = arrays(*sizes)
        a, b, c = map(dpnp.asarray, host)
        listed = [b[i] for i in range(3)]
        arguments = (a, tl_dpnp.group(listed) if kind == "group" else listed, c)
        for _ in range(3):
            kernel.in_c_order(2.0, *arguments)
        kernel.in_c_order(alpha=2.0, A=a, B=arguments[1], C=c, group_size=3)
        kernel.in_c_order.submit(2.0, *arguments).wait()
        with tl_dpnp.record() as graph:
            kernel.in_c_order(2.0, *arguments)
        graph()
        np.testing.assert_array_equal(c.asnumpy(), host[2] + 12 * host[1] @ host[0])


def test_they_pickle_as_their_kernels():
    ordered = pickle.loads(pickle.dumps(tl_dpnp.compile(SOURCE, target="reference").in_c_order))
    a, b, c = arrays(4, 5, 6)
    expected = c + 2 * b @ a
    ordered(2.0, a, list(b), c)
    np.testing.assert_array_equal(c, expected)


def test_what_does_not_fit_is_refused_as_its_reverse_is():
    kernel = tl_dpnp.compile(SOURCE)
    a, b, c = map(dpnp.asarray, arrays(4, 5, 6))
    with pytest.raises(tl_dpnp.LayoutError, match=r"does not fit an array of shape \(4, 6, 3\)"):
        kernel.in_c_order(2.0, dpnp.asarray(a, order="F"), [b[0]] * 3, c)
    with pytest.raises(tl_dpnp.TLTypeError, match="rev takes an array or a list of arrays, not a int"):
        kernel.in_c_order(2.0, 3, [b[0]] * 3, c)
    with pytest.raises(tl_dpnp.TLTypeError, match="missing 1 required positional argument"):
        kernel.in_c_order(2.0, a, [b[0]] * 3)
