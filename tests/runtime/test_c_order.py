"""Kernels for arrays in C order."""

from __future__ import annotations

import pickle
import re

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


PRODUCT = """
func @f(%A: memref<f32x?x?>, %B: memref<f32x?x?>, %C: memref<f32x?x?>) {
  gemm.n.n 1.0, %A, %B, 0.0, %C : f32, memref<f32x?x?>, memref<f32x?x?>, f32, memref<f32x?x?>
}
"""


@pytest.mark.parametrize("name", ["A", "B", "C"])
@pytest.mark.parametrize("turned", [lambda x: dpnp.asarray(x, order="F"), lambda x: dpnp.asarray(x)[::-1]])
@pytest.mark.parametrize("way", ["call", "submit"])
def test_advice_is_for_the_arrays_that_are_passed(name, turned, way):
    """What the hint says first, done to the letter, gives the right numbers."""
    random = np.random.default_rng(3)
    host = {name: random.integers(-3, 4, shape).astype("f4") for name, shape in
            (("A", (3, 4)), ("B", (5, 3)), ("C", (5, 4)))}
    given = {key: turned(x) if key == name else dpnp.asarray(x) for key, x in host.items()}
    values = {key: x.asnumpy() for key, x in given.items()}
    ordered = tl_dpnp.compile(PRODUCT).in_c_order
    call = ordered if way == "call" else lambda **given: ordered.submit(**given).wait()
    with pytest.raises(tl_dpnp.LayoutError) as caught:
        call(**given)
    [diagnostic] = caught.value.diagnostics
    advice = re.search(r"(?:pass|array =) (dpnp\.asarray\(.*?\))", diagnostic.hint)[1]
    given[name] = eval(advice, {"dpnp": dpnp, "array": given[name]})
    call(**given)
    np.testing.assert_array_equal(given["C"].asnumpy(), values["B"] @ values["A"])


def test_advice_for_batches_is_for_the_arrays_that_are_passed():
    """A batch along the last axis is moved to the front, and copied."""
    source = """
    func @f(%A: memref<f32x4x3x?>, %C: memref<f32x4x3x?>) {
      %g = group_id
      %a = subview %A[:,:,%g] : memref<f32x4x3x?>
      %c = subview %C[:,:,%g] : memref<f32x4x3x?>
      axpby.n 2.0, %a, 0.0, %c : f32, memref<f32x4x3>, f32, memref<f32x4x3>
    }
    """
    a, c = np.arange(60, dtype="f4").reshape(3, 4, 5), dpnp.zeros((5, 3, 4), dtype="f4")
    kernel = tl_dpnp.compile(source)
    with pytest.raises(tl_dpnp.TLBindingError) as caught:
        kernel.in_c_order(dpnp.asarray(a), c)
    advice = re.search(r"pass (.*), a copy in C order", caught.value.diagnostics[0].hint)[1]
    kernel.in_c_order(eval(advice, {"dpnp": dpnp, "array": dpnp.asarray(a)}), c)
    np.testing.assert_array_equal(c.asnumpy(), 2 * np.moveaxis(a, -1, 0))
