"""Loops, branches, the launch and its options, the binding of arguments."""

import itertools

import numpy as np
import pytest

from tests.interpreter.support import fortran, run
from tl_dpnp.errors import LayoutError, TLBindingError, TLError, TLTypeError
from tl_dpnp.language import ops


def visited(header, count=16):
    """Return how often a loop runs its body for each value of its variable."""
    out = np.zeros(count, np.int32)
    variable_type = header.split(":")[1].strip() if ":" in header else "index"
    cast = "" if variable_type == "index" else f"%k = cast %i : {variable_type} -> index\n"
    index = "%i" if variable_type == "index" else "%k"
    run(f"%out: memref<i32x{count}>",
        f"{header} {{\n{cast}%o = load %out[{index}] : memref<i32x{count}>\n%n = arith.add %o, 1 : i32\n"
        f"store %n, %out[{index}] : memref<i32x{count}>\n}}", out)
    return {int(place): int(out[place]) for place in np.flatnonzero(out)}


@pytest.mark.parametrize(("start", "stop", "step"), [(0, 5, 1), (2, 11, 3), (3, 3, 1), (5, 2, 1), (0, 1, 7)])
@pytest.mark.parametrize("variable_type", ["", " : i32", " : i8", " : u64"])
def test_for_visits_its_range(start, stop, step, variable_type):
    assert visited(f"for %i = {start}, {stop}, {step}{variable_type}") == dict.fromkeys(range(start, stop, step), 1)


@pytest.mark.parametrize(("start", "stop"), [(0, 16), (3, 10), (4, 4), (9, 2)])
@pytest.mark.parametrize("variable_type", ["", " : i16"])
def test_foreach_visits_its_range_once(start, stop, variable_type):
    assert visited(f"foreach %i = {start}, {stop}{variable_type}") == dict.fromkeys(range(start, stop), 1)


def test_for_is_in_order_and_sees_what_it_wrote():
    x = np.zeros(10, np.int64)
    x[1] = 1
    run("%x: memref<i64x10>",
        """for %i = 2, 10 {
            %a = arith.sub %i, 1 : index
            %b = arith.sub %i, 2 : index
            %u = load %x[%a] : memref<i64x10>
            %v = load %x[%b] : memref<i64x10>
            %w = arith.add %u, %v : i64
            store %w, %x[%i] : memref<i64x10>
        }""", x)
    assert x.tolist() == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]


def test_a_step_of_zero_is_refused_instead_of_hanging():
    with pytest.raises(TLError, match="step of the loop is 0"):
        run("%s: index", "for %i = 0, 4, %s {\n}", 0)


@pytest.mark.parametrize(("condition", "expected"), [(True, [10, 1]), (False, [20, 2])])
def test_if_yields_values(condition, expected):
    out = np.zeros(2, np.int32)
    run("%c: i1, %a: i32, %out: memref<i32x2>",
        """%x, %y = if %c -> (i32, i32) {
            yield %a, 1 : i32, i32
        } else {
            %b = arith.mul %a, 2 : i32
            yield %b, 2 : i32, i32
        }
        store %x, %out[0] : memref<i32x2>
        store %y, %out[1] : memref<i32x2>""", condition, 10, out)
    assert out.tolist() == expected


@pytest.mark.parametrize("condition", [True, False])
def test_if_without_else(condition):
    out = np.zeros((), np.int32)
    run("%c: i1, %out: memref<i32>", "if %c {\nstore 1, %out[] : memref<i32>\n}", condition, out)
    assert out == int(condition)


def test_work_groups_run_in_order_and_empty_launch_does_nothing():
    out = np.zeros((), np.int64)
    body = "%g = group_id\nstore %g, %out[] : memref<index>"
    run("%out: memref<index>", body, out, group_size=0)
    assert out == 0
    run("%out: memref<index>", body, out, group_size=7)
    assert out == 6


def test_order_seed_shuffles_work_groups_and_iterations():
    def last(order_seed):
        out = np.zeros(2, np.int64)
        run("%out: memref<indexx2>",
            """%g = group_id
            store %g, %out[0] : memref<indexx2>
            foreach %i = 0, 50 {
                store %i, %out[1] : memref<indexx2>
            }""", out, group_size=50, order_seed=order_seed)
        return out.tolist()

    assert last(None) == [49, 49]
    assert last(1) == last(1) != [49, 49]
    assert len({tuple(last(seed)) for seed in range(5)}) > 1


def test_max_steps_ends_a_long_run():
    body = "for %i = 0, 1000000000 {\n%x = arith.add %i, 1 : index\n}"
    with pytest.raises(TLError, match="limit on the number of executed operations"):
        run("", body, max_steps=1000)
    run("", "for %i = 0, 10 {\n%x = arith.add %i, 1 : index\n}", max_steps=11)


def test_trace_sees_every_operation_with_its_results():
    seen = []
    run("%a: i32", "%b = arith.add %a, 1 : i32\nbarrier\n%c = cast %b : i32 -> f32", 4, group_size=2,
        trace=lambda group, operation, results: seen.append((group, type(operation), results)))
    expected = [(ops.Arith, (5,)), (ops.Barrier, ()), (ops.Cast, (5.0,))]
    assert seen == [(group, *entry) for group, entry in itertools.product(range(2), expected)]


def test_the_fused_sample_of_the_reference():
    rng = np.random.default_rng(0)
    a = [fortran(rng.standard_normal((16, 8)), np.float32) for _ in range(5)]
    b, c = fortran(rng.standard_normal((8, 8)), np.float32), fortran(rng.standard_normal((8, 16)), np.float32)
    d = fortran(rng.standard_normal((16, 16, 5)), np.float32)
    expected = d + 2.5 * np.stack([x @ b.T @ c for x in a], axis=2)
    run("%alpha: f32, %A: group<memref<f32x16x8>>, %B: memref<f32x8x8>, %C: memref<f32x8x16>, %D: memref<f32x16x16x?>",
        """%0 = group_id
        %1 = load %A[%0] : group<memref<f32x16x8>>
        %2 = subview %D[:,:,%0] : memref<f32x16x16x?>
        %tmp0 = alloca -> memref<f32x16x8>
        gemm.n.t 1.0, %1, %B, 0.0, %tmp0 : f32, memref<f32x16x8>, memref<f32x8x8>, f32, memref<f32x16x8>
        gemm.n.n %alpha, %tmp0, %C, 1.0, %2 : f32, memref<f32x16x8>, memref<f32x8x16>, f32, memref<f32x16x16>""",
        2.5, a, b, c, d, group_size=5)
    np.testing.assert_allclose(d, expected, rtol=2e-4, atol=2e-4)


BAD_ARGUMENTS = [
    ("i8", 300, TLBindingError, "outside -128 to 127"), ("u8", -1, TLBindingError, "outside 0 to 255"),
    ("i32", 1.5, TLTypeError, "no i32"), ("i32", True, TLTypeError, "no i32"),
    ("i1", 2, TLBindingError, "outside 0 to 1"),
    ("f32", 1j, TLTypeError, "no f32"), ("f32", "x", TLTypeError, "no f32"),
    ("f32", np.zeros(2, np.float32), TLTypeError, "no f32"),
    ("memref<f32x4>", [1.0] * 4, TLTypeError, "list is no NumPy array"),
    ("memref<f32x4>", np.zeros(4), TLTypeError, "dtype is float64, not float32"),
    ("memref<f32x4>", np.zeros(5, np.float32), TLBindingError, r"shape is \(5,\)"),
    ("memref<f32x4>", np.zeros((4, 1), np.float32), TLBindingError, r"shape is \(4, 1\)"),
    ("memref<f32x4x3>", np.zeros((4, 3), np.float32), LayoutError, r"strides, in elements, are \(3, 1\)"),
    ("memref<f32x4>", np.zeros(8, np.float32)[::2], LayoutError, "strides"),
    ("memref<f32x?,strided<?>>", np.zeros(4, [("x", "f4"), ("y", "i1")])["x"], LayoutError, "no multiples"),
    ("group<memref<f32>>", 3, TLTypeError, "no list of arrays"),
    ("group<memref<f32x2>>", [np.zeros(3, np.float32)], TLBindingError, "shape"),
]


@pytest.mark.parametrize(("parameter", "argument", "error", "message"), BAD_ARGUMENTS)
def test_unfit_arguments_are_refused_by_name(parameter, argument, error, message):
    with pytest.raises(error, match=message) as caught:
        run(f"%p: {parameter}", "barrier", argument)
    assert f"argument for %p : {parameter}" in str(caught.value)


def test_the_number_of_arguments_is_checked():
    with pytest.raises(TLBindingError, match="takes 1 arguments, 2 were given"):
        run("%p: i32", "barrier", 1, 2)


def test_a_mode_of_one_element_may_have_any_stride():
    x = np.zeros((4, 6), np.float32, order="F")[:, :1]
    run("%x: memref<f32x4x1>", "%y = fuse %x[0, 1] : memref<f32x4x1>\nstore 1.0, %y[3] : memref<f32x4>", x)
    assert x[3, 0] == 1
    y = np.zeros((1, 5), np.float32)  # C order: any stride of the first mode
    run("%x: memref<f32x1x5>", "store 1.0, %x[0, 4] : memref<f32x1x5>", y)
    assert y[0, 4] == 1
