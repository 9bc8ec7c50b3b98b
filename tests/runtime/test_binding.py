"""How arrays are bound to parameters: dtypes, sizes, strides, queues, the number of work-groups, overlap."""

from __future__ import annotations

import dpctl
import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.runtime.support import AXPY, COUNT, FUSED, RAGGED, on_device, random
from tl_dpnp import LayoutError, TLBindingError, TLTypeError
from tl_dpnp.runtime.sycl.tensor_adapter import ExecutionPlacementError
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt

TARGETS = pytest.mark.parametrize("target", ["sycl", "reference"])

#: B := A for a matrix of any layout.
COPY = """
func @copy(%A: memref<f32x?x?,strided<?,?>>, %B: memref<f32x?x?,strided<?,?>>) {
  axpby.n 1.0, %A, 0.0, %B : f32, memref<f32x?x?,strided<?,?>>, f32, memref<f32x?x?,strided<?,?>>
}
"""
COPY_16X8 = """
func @copy(%A: memref<f32x16x8>, %B: memref<f32x16x8>) {
  axpby.n 1.0, %A, 0.0, %B : f32, memref<f32x16x8>, f32, memref<f32x16x8>
}
"""


def expect(error, text):
    """Expect an error whose text, spaces aside, contains `text`."""
    return pytest.raises(error, match=text)


@TARGETS
def test_dpnp_and_dpctl_arrays_mix(target):
    kernel = tl_dpnp.compile(AXPY, target=target)
    x, y = dpnp.arange(5, dtype="float32"), dpt.ones(5, dtype="float32")
    assert kernel(2.0, x, y) is None
    assert dpt.to_numpy(y).tolist() == [1, 3, 5, 7, 9]
    assert x.asnumpy().tolist() == [0, 1, 2, 3, 4]


@TARGETS
def test_views_are_used_in_place(target):
    kernel = tl_dpnp.compile(COPY, target=target)
    base = on_device(random(20, 30))
    before = base.asnumpy()
    out = dpnp.zeros((20, 30), dtype="float32", order="F")
    kernel(base[2:17:3, 1:30:4], out[5:10, 3:11])
    expected = np.zeros((20, 30), "f4")
    expected[5:10, 3:11] = before[2:17:3, 1:30:4]
    assert (out.asnumpy() == expected).all()
    assert (base.asnumpy() == before).all()


@TARGETS
def test_reversed_c_order_arrays_fit(target):
    kernel = tl_dpnp.compile(COPY_16X8, target=target)
    source, out = dpnp.asarray(random(8, 16), order="C"), dpnp.zeros((8, 16), dtype="float32")
    assert source.flags.c_contiguous
    kernel(tl_dpnp.rev(source), tl_dpnp.rev(out))
    assert (out.asnumpy() == source.asnumpy()).all()


@TARGETS
def test_sizes_of_one_and_zero(target):
    kernel = tl_dpnp.compile(COPY, target=target)
    for shape in [(1, 5), (5, 1), (1, 1), (0, 3), (3, 0), (0, 0)]:
        source, out = dpnp.asarray(random(*shape), order="C"), dpnp.zeros(shape, dtype="float32", order="C")
        kernel(source, out)  # in both orders at once
        assert (out.asnumpy() == random(*shape)).all()


@pytest.mark.parametrize(("arguments", "error", "text"), [
    (lambda a: (a, a.asnumpy()), TLTypeError,
     r"argument 2 of @copy: %B takes an array of float32, it was given a NumPy array.*(.|\n)*dpnp\.asarray\(array\)"),
    (lambda a: (a, [a]), TLTypeError, r"%B takes an array of float32, it was given a list; only a group takes several"),
    (lambda a: (a, 1.0), TLTypeError, r"%B takes an array of float32, it was given a float, no array"),
    (lambda a: (a, None), TLTypeError, r"it was given None, no array"),
    (lambda a: (a, a.astype("float64")), TLTypeError, r"one of float64(.|\n)*hint: convert it before the call: "
     r"array = dpnp\.asarray\(array, dtype=\"float32\"\), or declare another type"),
    (lambda a: (a, a[:, :7]), TLBindingError, r"%B: memref<f32x16x8> takes an array of shape \(16, 8\), .* \(16, 7\)"),
    (lambda a: (a, a[:, 0]), TLBindingError, r"takes an array of shape \(16, 8\), it was given \(16,\)"),
    (lambda a: (a, a.T), LayoutError, r"\(8, 16\)(.|\n)*tl_dpnp\.rev\(array\)"),
    (lambda a: (a, dpnp.zeros((16, 8), dtype="float32")), LayoutError,
     r"%B: memref<f32x16x8> does not fit an array of shape \(16, 8\) and strides \(8, 1\)(.|\n)*"
     r"hint: make the array column-major before the call: array = dpnp.asarray\(array, order=\"F\"\)"),
    (lambda a: (a, dpnp.zeros((32, 8), dtype="float32", order="F")[:16]), LayoutError,
     r"the stride of axis 1 is 32, the layout asks for 16(.|\n)*strided<\?,\?>"),
    (lambda a: (a,), TLTypeError, r"copy\(\) missing 1 required positional argument: 'B'"),
    (lambda a: (a, a, a), TLTypeError, r"copy\(\) takes 2 positional arguments but 3 were given"),
])  # fmt: skip
@TARGETS
def test_unfit_arguments_are_refused(target, arguments, error, text):
    a = dpnp.zeros((16, 8), dtype="float32", order="F")
    with expect(error, text) as caught:
        tl_dpnp.compile(COPY_16X8, target=target)(*arguments(a))
    assert type(caught.value) is error
    assert "<string>:2:" in str(caught.value)  # the parameter in the source, or the function


def test_a_wrong_argument_after_a_right_one_is_not_taken_for_it():
    """The quick way from one call to the next must see every difference that the thorough way sees."""
    kernel = tl_dpnp.compile(COPY_16X8)
    a, b = on_device(random(16, 8)), dpnp.zeros((16, 8), dtype="float32", order="F")
    kernel(a, b)
    integers = dpt.usm_ndarray((16, 8), dtype="int32", buffer=b.get_array().usm_data, order="F")
    wrong = dpt.usm_ndarray((8, 16), dtype="float32", buffer=b.get_array().usm_data, order="F")
    c_order = dpt.usm_ndarray((16, 8), dtype="float32", buffer=b.get_array().usm_data, order="C")
    for argument, error in [(integers, TLTypeError), (wrong, TLBindingError), (c_order, LayoutError),
                            ([b], TLTypeError), (3, TLTypeError)]:
        with pytest.raises(error):
            kernel(a, argument)
    b.get_array().flags.writable = False
    with expect(TLBindingError, "%B is written, but the array is read-only"):
        kernel(a, b)


def test_read_only_arrays_may_be_read():
    kernel = tl_dpnp.compile(COPY_16X8)
    a, b = on_device(random(16, 8)), dpnp.zeros((16, 8), dtype="float32", order="F")
    a.get_array().flags.writable = False
    kernel(a, b)
    assert (a.asnumpy() == b.asnumpy()).all()


@TARGETS
def test_all_arrays_share_one_queue(target):
    kernel = tl_dpnp.compile(AXPY, target=target)
    other = dpctl.SyclQueue()
    x, y = dpnp.ones(4, dtype="float32"), dpt.ones(4, dtype="float32", sycl_queue=other)
    with expect(ExecutionPlacementError, "the array for %x and the array for %y are on different queues"):
        kernel(1.0, x, y)
    z = dpt.ones(4, dtype="float32", sycl_queue=other)
    kernel(1.0, z, y)
    assert dpt.to_numpy(y).tolist() == [2, 2, 2, 2]


def test_parts_of_a_device_are_named_in_messages():
    """They have no filters of dpctl's."""
    device = dpctl.SyclDevice()
    if device.max_compute_units < 2:
        pytest.skip("the device has no parts")
    kernel = tl_dpnp.compile(AXPY)
    x, y = (dpt.ones(4, dtype="float32", sycl_queue=dpctl.SyclQueue(part))
            for part in device.create_sub_devices(partition=device.max_compute_units // 2)[:2])
    with expect(ExecutionPlacementError, f"are on different queues .a part of {device.filter_string} at"):
        kernel(1.0, x, y)
    with expect(ExecutionPlacementError, f"a part of {device.filter_string} at"):
        kernel(1.0, x, dpt.ones(4, dtype="float32"))
    kernel(1.0, x, x + 1)


def test_the_queue_of_compile_binds():
    queue = dpctl.SyclQueue(property="in_order")
    kernel = tl_dpnp.compile(AXPY, queue=queue)
    assert len(kernel.signatures) == 1
    x, y = (dpt.ones(4, dtype="float32", sycl_queue=queue) for _ in range(2))
    kernel(1.0, x, y)
    assert dpt.to_numpy(y).tolist() == [2, 2, 2, 2]
    with expect(ExecutionPlacementError, "the queue given to compile and the arguments are on different queues"):
        kernel(1.0, dpnp.ones(4, dtype="float32"), dpnp.ones(4, dtype="float32"))


@TARGETS
def test_dynamic_sizes_must_match(target):
    kernel = tl_dpnp.compile(AXPY, target=target)
    with expect(TLBindingError, r"<string>:3:3: error: the sizes do not fit: M is 4 in %x but 5 in %y"):
        kernel(1.0, dpnp.ones(4, dtype="float32"), dpnp.ones(5, dtype="float32"))
    ragged = tl_dpnp.compile(RAGGED, target=target)
    a, b, c = (on_device(random(2, 2)) for _ in range(3))
    with expect(TLBindingError, r"the sizes do not fit in work-group 1: K is 2 in %a but 3 in %b"):
        ragged([a, a], [b, on_device(random(3, 2))], [c, c])


# --- the number of work-groups ---------------------------------------------------------------------------------------


def test_batch_sizes_must_agree():
    kernel = tl_dpnp.compile(FUSED)
    A = [dpnp.zeros((16, 8), dtype="float32", order="F")] * 3
    B, C = dpnp.zeros((8, 8), dtype="float32", order="F"), dpnp.zeros((8, 16), dtype="float32", order="F")
    D = dpnp.zeros((16, 16, 4), dtype="float32", order="F")
    with expect(TLBindingError, r"ambiguous: %A has 3 elements, mode 2 of %D has size 4(.|\n)*group_size="):
        kernel(1.0, A, B, C, D)
    with expect(TLBindingError, r"group_size=4 is too large for @fused: %A has 3 elements"):
        kernel(1.0, A, B, C, D, group_size=4)
    kernel(1.0, A, B, C, D, group_size=2)
    for wrong in (-1, 1.0, True, "2"):
        with pytest.raises((TLBindingError, TLTypeError), match="group_size"):
            kernel(1.0, A, B, C, D, group_size=wrong)


@TARGETS
def test_group_size_by_hand(target):
    kernel = tl_dpnp.compile(COUNT, target=target)
    x = dpnp.zeros(5, dtype="int64")
    kernel(x, 1)
    kernel(x, 10, group_size=3)
    kernel(x, 100, group_size=np.int64(1))
    kernel(x, 1000, group_size=0)
    assert x.asnumpy().tolist() == [111, 11, 11, 1, 1]


INDIRECT = """
func @indirect(%x: memref<i64x?>, %n: memref<i64>) {
  %0 = group_id
  %1 = arith.mul %0, 2 : index
  %2 = cast %0 : index -> i64
  store %2, %x[%1] : memref<i64x?>
  %3 = group_size
  %4 = cast %3 : index -> i64
  store %4, %n[] : memref<i64>
}
"""


@TARGETS
def test_what_cannot_be_inferred_is_asked_for(target):
    kernel = tl_dpnp.compile(INDIRECT, target=target)
    x, n = dpnp.full(6, -1, dtype="int64"), dpnp.zeros((), dtype="int64")
    with expect(TLBindingError, r"cannot be inferred(.|\n)*group_size=n"):
        kernel(x, n)
    kernel(x, n, group_size=3)
    assert x.asnumpy().tolist() == [0, -1, 1, -1, 2, -1]
    assert int(n) == 3


@TARGETS
def test_guarded_accesses_allow_more_work_groups(target):
    kernel = tl_dpnp.compile("""
    func @guarded(%x: memref<i64x?>) {
      %0 = group_id
      %1 = size %x[0] : memref<i64x?>
      %2 = cmp.lt %0, %1 : index
      if %2 { store 7, %x[%0] : memref<i64x?> }
    }""", target=target)
    x = dpnp.zeros(4, dtype="int64")
    kernel(x[:3], group_size=50)
    assert x.asnumpy().tolist() == [7, 7, 7, 0]


@TARGETS
def test_a_program_without_group_id_runs_once(target):
    kernel = tl_dpnp.compile("func @f(%x: memref<i32>) { %0 = load %x[] : memref<i32>"
                             " %1 = arith.add %0, 1 : i32 store %1, %x[] : memref<i32> }", target=target)
    x = dpnp.zeros((), dtype="int32")
    kernel(x)
    assert int(x) == 1


def test_a_program_without_arrays():
    assert tl_dpnp.compile("func @f(%x: i32) { }")(1) is None


# --- overlap ---------------------------------------------------------------------------------------------------------


def test_written_arguments_may_not_overlap_under_debug():
    kernel = tl_dpnp.compile(COPY, debug=True)
    base = on_device(random(8, 8))
    with expect(TLBindingError, "the argument for %B is written and overlaps the one for %A"):
        kernel(base, base)
    with pytest.raises(TLBindingError):
        kernel(base[:5, :], base[3:, :])  # rows 3 and 4 are in both
    kernel(base[::2, :], base[1::2, :])  # interleaved, but apart
    kernel(base[:4, :], base[4:, :])
    assert (base.asnumpy()[:4] == base.asnumpy()[4:]).all()
    with pytest.warns(tl_dpnp.OverlapWarning):
        tl_dpnp.compile(COPY)(base, base)  # at the user's own risk


def test_unwritten_arguments_may_overlap():
    kernel = tl_dpnp.compile(
        "func @f(%x: memref<f32x4>, %y: memref<f32x4>, %z: memref<f32x4>) {"
        " hadamard 1.0, %x, %y, 0.0, %z : f32, memref<f32x4>, memref<f32x4>, f32, memref<f32x4> }", debug=True)
    x, z = dpnp.arange(4, dtype="float32"), dpnp.zeros(4, dtype="float32")
    kernel(x, x, z)
    assert z.asnumpy().tolist() == [0, 1, 4, 9]
    with expect(TLBindingError, "%z is written and overlaps the one for %[xy]"):
        kernel(x, x, x)


def test_overlap_is_found_among_the_elements_of_groups():
    kernel = tl_dpnp.compile(RAGGED, debug=True)
    a, b, c = ([on_device(random(2, 2, seed=i)) for i in range(4)] for _ in range(3))
    kernel(a, b, c)
    with expect(TLBindingError, "%C is written and overlaps the one for %B"):
        kernel(a, b, [*c[:3], b[1]])
