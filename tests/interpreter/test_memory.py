"""Loads, stores, temporaries and views: what they see, that they alias, and what they refuse."""

import numpy as np
import pytest

from tests.interpreter.support import fortran, run
from tl_dpnp.errors import TLBoundsError, TLError
from tl_dpnp.language import ops


class Group:
    """What the runtime passes for ``tl_dpnp.group(arrays, offset=...)``."""

    def __init__(self, arrays, offset):
        self.arrays, self.offset = arrays, offset


def collect(view, order, declaration, array, *rest, parameters=""):
    """Return the elements that a view of %x shows, found by loading them one by one."""
    shape = [int(n) for n in declaration.split("x") if n]
    out = np.zeros(shape, array.dtype, order="F")
    names = [f"%i{k}" for k in range(order)]
    loops = "".join(f"for {name} = 0, {size} {{\n" for name, size in zip(names, shape, strict=True))
    index = ", ".join(names)
    head, view_type = view
    out_type = f"memref<f32{''.join(f'x{n}' for n in shape)}>"
    run(f"%x: {parameters or 'memref<f32x4x6x5>'}, %out: {out_type}",
        f"%v = {head}\n{loops}%e = load %v[{index}] : {view_type}\nstore %e, %out[{index}] : {out_type}\n{'}' * order}",
        array, *rest, out)
    return out


@pytest.fixture
def x():
    return fortran(np.arange(120, dtype=np.float32).reshape(4, 6, 5))


def test_load_and_store_reach_the_element(x):
    run("%x: memref<f32x4x6x5>, %i: index",
        "%a = load %x[1, %i, 3] : memref<f32x4x6x5>\nstore %a, %x[%i, 0, 0] : memref<f32x4x6x5>", x, 2)
    assert x[2, 0, 0] == x[1, 2, 3]


def test_store_takes_a_constant_and_order_0():
    out = np.zeros((), np.int16)
    run("%x: memref<i16>", "store -7, %x[] : memref<i16>", out)
    assert out == -7


@pytest.mark.parametrize(("slices", "expected", "result"), [
    ("1:2, 3:?, :", lambda x: x[1:3, 3:, :], "memref<f32x2x3x5,strided<1,4,24>>"),
    ("3, :, 0:1", lambda x: x[3, :, 0:1], "memref<f32x6x1,strided<4,24>>"),
    (":, 5, 4", lambda x: x[:, 5, 4], "memref<f32x4>"),
])
def test_subview_shows_what_slicing_shows(x, slices, expected, result):
    wanted = expected(x)
    shape = "x".join(map(str, wanted.shape))
    seen = collect((f"subview %x[{slices}] : memref<f32x4x6x5>", result), wanted.ndim, shape, x)
    np.testing.assert_array_equal(seen, wanted)


def test_expand_and_fuse_show_what_reshape_shows(x):
    seen = collect(("expand %x[1 -> 2 x ?] : memref<f32x4x6x5>", "memref<f32x4x2x3x5>"), 4, "4x2x3x5", x)
    np.testing.assert_array_equal(seen, x.reshape(4, 2, 3, 5, order="F"))
    seen = collect(("fuse %x[0, 1] : memref<f32x4x6x5>", "memref<f32x24x5>"), 2, "24x5", x)
    np.testing.assert_array_equal(seen, x.reshape(24, 5, order="F"))
    seen = collect(("fuse %x[0, 2] : memref<f32x4x6x5>", "memref<f32x120>"), 1, "120", x)
    np.testing.assert_array_equal(seen, x.reshape(-1, order="F"))


def test_views_of_views_write_the_same_memory(x):
    expected = x.copy(order="F")
    expected.reshape(4, 2, 3, 5, order="F")[2, 1, 0, 4] = -1
    run("%x: memref<f32x4x6x5>",
        """%a = subview %x[2, :, :] : memref<f32x4x6x5>
        %b = expand %a[0 -> 2 x 3] : memref<f32x6x5,strided<4,24>>
        %c = subview %b[1, 0:2, 4:1] : memref<f32x2x3x5,strided<4,8,24>>
        store -1.0, %c[0, 0] : memref<f32x2x1,strided<8,24>>""", x)
    np.testing.assert_array_equal(x, expected)


def test_fuse_then_expand_is_the_same_view(x):
    out = np.zeros(1, np.float32)
    run("%x: memref<f32x?x?x?>, %n: index, %out: memref<f32x1>",
        """%a = fuse %x[0, 2] : memref<f32x?x?x?>
        %b = expand %a[0 -> 4 x %n x ?] : memref<f32x?>
        %s = size %b[2] : memref<f32x4x?x?,strided<1,4,?>>
        %last = arith.sub %s, 1 : index
        %e = load %b[3, 5, %last] : memref<f32x4x?x?,strided<1,4,?>>
        store %e, %out[0] : memref<f32x1>""", x, 6, out)
    assert out[0] == x[3, 5, 4]


def test_size_is_the_actual_one():
    out = np.zeros(2, np.int64)
    run("%x: memref<f32x?x3>, %out: memref<indexx2>",
        """%a = size %x[0] : memref<f32x?x3>
        %b = size %x[1] : memref<f32x?x3>
        store %a, %out[0] : memref<indexx2>
        store %b, %out[1] : memref<indexx2>""", np.zeros((7, 3), np.float32, order="F"), out)
    assert out.tolist() == [7, 3]


@pytest.mark.parametrize(("element", "storage", "poison"), [
    ("f32", "float32", np.nan), ("f64", "float64", np.nan), ("c32", "complex64", np.nan), ("i8", "int8", -53),
    ("u16", "uint16", 0xCBCB), ("i1", "bool", True), ("bf16", "uint16", 0x7FC0),
])
def test_temporary_memory_is_poisoned_and_again_after_its_lifetime(element, storage, poison):
    out, temporaries = np.zeros((), storage), []

    def keep(group, operation, results):
        if isinstance(operation, ops.Alloca):
            temporaries.extend(results)

    run(f"%out: memref<{element}>, %v: {element}",
        f"""%t = alloca -> memref<{element}x3,strided<2>>
        %a = load %t[2] : memref<{element}x3,strided<2>>
        store %a, %out[] : memref<{element}>
        store %v, %t[2] : memref<{element}x3,strided<2>>
        lifetime_stop %t""", out, 0, trace=keep)
    np.testing.assert_array_equal(out, np.array(poison, storage))
    np.testing.assert_array_equal(temporaries, np.array([[poison] * 3], storage))


def test_each_iteration_has_its_own_temporary():
    out = np.zeros(3, np.float32)
    run("%out: memref<f32x3>",
        """for %i = 0, 3 {
            %t = alloca -> memref<f32>
            %a = load %t[] : memref<f32>
            store %a, %out[%i] : memref<f32x3>
            store 1.0, %t[] : memref<f32>
        }""", out)
    assert np.isnan(out).all()


@pytest.mark.parametrize("order", [32, 40, 64])
def test_memrefs_of_many_modes(order):
    """NumPy has arrays of 64 modes since version 2, and of 32 before."""
    x, zeros = np.zeros(1, np.float32), ", ".join("0" * order)
    memref = f"memref<f32{'x1' * order}>"
    body = f"""%t = alloca -> {memref}
               store 3.0, %t[{zeros}] : {memref}
               %e = load %t[{zeros}] : {memref}
               store %e, %x[0] : memref<f32x1>"""
    if order > 32 and np.__version__.startswith("1."):
        with pytest.raises(TLError, match=f"a memref of {order} modes(.|\n)*use fewer modes, or NumPy 2"):
            run("%x: memref<f32x1>", body, x)
    else:
        run("%x: memref<f32x1>", body, x)
        assert x[0] == 3


def test_each_element_of_a_group_has_its_own_size_and_stride():
    first, second = np.zeros((5, 2), np.float64, order="F"), np.zeros((9, 3), np.float64, order="F")[:7, :]
    run("%g: group<memref<f64x?x?>>",
        """%n = group_id
        %x = load %g[%n] : group<memref<f64x?x?>>
        %a = size %x[0] : memref<f64x?x?>
        %b = size %x[1] : memref<f64x?x?>
        %i = arith.sub %a, 1 : index
        %j = arith.sub %b, 1 : index
        %v = cast %a : index -> f64
        store %v, %x[%i, %j] : memref<f64x?x?>""", [first, second], group_size=2)
    assert first[4, 1] == 5.0
    assert second[6, 2] == 7.0
    assert np.count_nonzero(first) == np.count_nonzero(second) == 1


@pytest.mark.parametrize(("declared", "given", "moved"), [("2", 0, 2), ("?", 3, 3), ("?", -4, -4), ("-1", None, -1)])
def test_group_offset_moves_each_pointer(declared, given, moved):
    buffers = [np.arange(20.0), np.arange(100.0, 120.0)]
    arrays = [buffer[5:8] for buffer in buffers]
    argument = arrays if given is None else Group(arrays, given)
    run(f"%g: group<memref<f64x3>, offset: {declared}>",
        f"""%n = group_id
        %x = load %g[%n] : group<memref<f64x3>, offset: {declared}>
        store -1.0, %x[2] : memref<f64x3>""", argument, group_size=2)
    for start, buffer in zip((0.0, 100.0), buffers, strict=True):
        expected = np.arange(start, start + 20)
        expected[5 + moved + 2] = -1.0
        np.testing.assert_array_equal(buffer, expected)


def test_group_offset_outside_the_buffer_is_refused():
    with pytest.raises(TLBoundsError, match="offset -6"):
        run("%g: group<memref<f64x3>, offset: ?>", "%x = load %g[0] : group<memref<f64x3>, offset: ?>",
            Group([np.arange(20.0)[5:8]], -6))


def test_group_offset_needs_a_dense_buffer():
    gaps = np.ndarray((3, 2), np.float64, bytearray(96), strides=(8, 48))
    with pytest.raises(TLError, match="dense"):
        run("%g: group<memref<f64x3x2,strided<1,6>>, offset: 1>",
            "%x = load %g[0] : group<memref<f64x3x2,strided<1,6>>, offset: 1>", [gaps])


OUTSIDE = {
    "%e = load %x[%i] : memref<f32x?>": "index 4 is outside mode 0, whose size is 4",
    "store 1.0, %x[%i] : memref<f32x?>": "index 4 is outside",
    "%s = subview %x[%i] : memref<f32x?>": "index 4 is outside",
    "%s = subview %x[%i:1] : memref<f32x?>": "slice 4:1 is outside mode 0, whose size is 4",
    "%s = subview %x[1:%i] : memref<f32x?>": "slice 1:4 is outside",
    "%s = expand %x[0 -> 3 x ?] : memref<f32x?>": "3 does not divide its size 4",
    "%s = expand %x[0 -> %i x 2] : memref<f32x?>": "product is not its size 4",
    "%s = fuse %m[0, 1] : memref<f32x?x?>": "stride 1 times size 2 of mode 0 is not the stride 3 of mode 1",
    "%e = load %g[%i] : group<memref<f32>>": "outside the group of 2 memrefs",
    "axpby.n 1.0, %x, 1.0, %y : f32, memref<f32x?>, f32, memref<f32x?>": "sizes 4 .* do not fit an output of 5",
}


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("instruction", OUTSIDE)
def test_outside_of_memory_is_refused_with_place_and_group(instruction, debug):
    x, y, m = np.zeros(4, np.float32), np.zeros(5, np.float32), np.zeros((3, 2), np.float32, order="F")[:2]
    group = [np.zeros((), np.float32)] * 2
    with pytest.raises(TLBoundsError, match=OUTSIDE[instruction]) as caught:
        run("%x: memref<f32x?>, %y: memref<f32x?>, %m: memref<f32x?x?>, %g: group<memref<f32>>, %i: index",
            f"\n{instruction}", x, y, m, group, 4, group_size=3, debug=debug)
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.span.line, diagnostic.source_line) == (3, instruction)
    assert "work-group 0" in diagnostic.message
    assert isinstance(caught.value, IndexError)


def test_negative_index_does_not_wrap_around():
    with pytest.raises(TLBoundsError, match="index -1"):
        run("%x: memref<f32x4>, %i: index", "%e = load %x[%i] : memref<f32x4>", np.zeros(4, np.float32), -1)
