"""Arguments that are written and overlap others: a warning, once for a kernel."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tl_dpnp
from tests.runtime.support import on_device, random
from tl_dpnp import OverlapWarning
from tl_dpnp.errors import TLBindingError, TLWarning
from tl_dpnp.runtime.call.overlap import Footprint
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt

COPY = """
func @copy(%A: memref<f32x?x?,strided<?,?>>, %B: memref<f32x?x?,strided<?,?>>) {
  axpby.n 1.0, %A, 0.0, %B : f32, memref<f32x?x?,strided<?,?>>, f32, memref<f32x?x?,strided<?,?>>
}"""
#: Every element of a group becomes x.
FILL = """
func @fill(%x: memref<f32x4>, %G: group<memref<f32x4>>) {
  %g = group_id
  %y = load %G[%g] : group<memref<f32x4>>
  axpby.n 1.0, %x, 0.0, %y : f32, memref<f32x4>, f32, memref<f32x4>
}"""
#: Adds up the elements of a group in x.
ADD = FILL.replace("%x, 0.0, %y", "%y, 1.0, %x").replace("@fill", "@add").replace("axpby.n", "axpby.n.atomic")

NUMPY = np.ones((4, 4), "float32", order="F")


def silent(call) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        call()


@pytest.fixture
def kernel():
    return tl_dpnp.compile(COPY)


def test_it_is_given_once_for_a_kernel_at_the_line_of_the_call(kernel):
    base = on_device(random(8, 8))
    with pytest.warns(OverlapWarning, match="argument 2 of @copy: the argument for %B is written and overlaps the one "
                                            "for %A") as caught:
        kernel(base, base)
    assert [warning.filename for warning in caught] == [__file__]
    silent(lambda: kernel(base, base))
    silent(lambda: kernel(base[:5, :], base[3:, :]))
    with pytest.warns(OverlapWarning):
        tl_dpnp.compile(COPY)(base, base)
    assert issubclass(OverlapWarning, TLWarning)


def test_it_is_given_at_the_first_call_with_such_arrays(kernel):
    base = on_device(random(8, 8))
    other = on_device(random(8, 8))
    silent(lambda: kernel(base[:4, :], other[:4, :]))
    silent(lambda: kernel(base[::2, :], base[1::2, :]))  # interleaved, but apart
    silent(lambda: kernel(base[:4, :], base[4:, :]))
    with pytest.warns(OverlapWarning):
        kernel(base[:4, :], base[3:7, :])  # laid out as those before


@pytest.mark.parametrize("act", [
    lambda kernel, a, b: kernel.submit(a, b).wait(),
    lambda kernel, a, b: record(kernel, a, b),
    lambda kernel, a, b: tl_dpnp.compile(COPY, target="reference")(a, b),
    lambda kernel, a, b: tl_dpnp.compile(COPY, target="reference")(NUMPY, NUMPY),
], ids=["submit", "record", "reference", "numpy"])
def test_all_ways_to_call_give_it(kernel, act):
    base = on_device(random(8, 8))
    with pytest.warns(OverlapWarning) as caught:
        act(kernel, base, base)
    assert [warning.filename for warning in caught] == [__file__]


def record(kernel, *arrays):
    with tl_dpnp.record():
        kernel(*arrays)


def test_groups():
    fill, add = tl_dpnp.compile(FILL), tl_dpnp.compile(ADD)
    base = dpt.zeros(64, dtype="float32")
    parts = [base[8 * i : 8 * i + 4] for i in range(4)]
    group = tl_dpnp.group(parts)
    x = dpt.ones(4, dtype="float32")
    for each in (parts, group):
        silent(lambda each=each: fill(x, each))
        silent(lambda each=each: fill(base[4:8], each))  # between two elements
        silent(lambda each=each: add(x, each))
        silent(lambda: add(base[60:], group))
    with pytest.warns(OverlapWarning, match="%G is written and overlaps the one for %x"):
        fill(base[5:9], group)
    with pytest.warns(OverlapWarning, match="%x is written and overlaps the one for %G"):
        add(base[22:26], group)
    with pytest.warns(OverlapWarning):
        tl_dpnp.compile(FILL)(parts[0], parts)


MOVE = """
func @move(%A: group<memref<f32x4>, offset: ?>, %B: group<memref<f32x4>, offset: 8>) {
  %g = group_id
  %a = load %A[%g] : group<memref<f32x4>, offset: ?>
  %b = load %B[%g] : group<memref<f32x4>, offset: 8>
  axpby.n 1.0, %a, 0.0, %b : f32, memref<f32x4>, f32, memref<f32x4>
}"""


def test_groups_are_where_their_offsets_move_them():
    base = dpt.zeros(128, dtype="float32")
    parts = [base[32 * i : 32 * i + 4] for i in range(4)]
    for offset in (0, 4, 12, -4):
        silent(lambda offset=offset: tl_dpnp.compile(MOVE)(tl_dpnp.group(parts[1:], offset=offset), parts[1:]))
    behind = [base[32 * i + 8 : 32 * i + 12] for i in range(4)]
    for offset, given in ((8, parts), (5, parts), (0, behind), (-2, behind)):
        with pytest.warns(OverlapWarning, match="%B is written and overlaps the one for %A"):
            tl_dpnp.compile(MOVE)(tl_dpnp.group(given, offset=offset), parts)
        with pytest.raises(TLBindingError, match="overlaps"):
            tl_dpnp.compile(MOVE, debug=True)(tl_dpnp.group(given, offset=offset), parts)


def test_a_memref_beside_a_group_with_an_offset():
    """Of the repeated call, whose group is remembered."""
    source = FILL.replace("group<memref<f32x4>>", "group<memref<f32x4>, offset: ?>")
    base, x = dpt.zeros(64, dtype="float32"), dpt.ones(4, dtype="float32")
    group = tl_dpnp.group([base[8 * i : 8 * i + 4] for i in range(4)], offset=4)
    fill = tl_dpnp.compile(source)
    for given in (x, base[:4], base[8:12], x):
        silent(lambda given=given: fill(given, group))
    with pytest.warns(OverlapWarning):
        fill(base[4:8], group)


def test_as_an_error_it_stops_every_call(kernel):
    base = on_device(random(8, 8))
    before = base.asnumpy()
    for _ in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(OverlapWarning):
                kernel(base[:5, :], base[3:, :])
    assert (base.asnumpy() == before).all()


def test_debug_refuses_instead(kernel):
    base = on_device(random(8, 8))

    def refused():
        with pytest.raises(TLBindingError, match="overlaps"):
            tl_dpnp.compile(COPY, debug=True)(base, base)

    silent(refused)


def test_arrays_that_are_remembered_are_not_looked_at_again(kernel, monkeypatch):
    looked = []
    monkeypatch.setattr(Footprint, "may_overlap", lambda self, addresses, _arrays: bool(looked.append(addresses)))
    a, b = on_device(random(8, 8)), on_device(random(8, 8))
    for _ in range(5):
        kernel(a, b)
    assert len(looked) == 1


def test_what_is_read_only_may_overlap():
    kernel = tl_dpnp.compile(
        "func @f(%x: memref<f32x4>, %y: memref<f32x4>, %z: memref<f32x4>) {"
        " hadamard 1.0, %x, %y, 0.0, %z : f32, memref<f32x4>, memref<f32x4>, f32, memref<f32x4> }")
    x, z = dpt.ones(4, dtype="float32"), dpt.zeros(4, dtype="float32")
    silent(lambda: kernel(x, x, z))
    silent(lambda: kernel(x[:], x, z))
    with pytest.warns(OverlapWarning, match="%z is written"):
        kernel(x, z, z)
