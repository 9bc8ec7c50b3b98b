"""Cooperative matrices: what a sub-group computes with them together."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interpreter.test_work_items import run
from tl_dpnp.errors import TLError

LANES = "attributes{subgroup_size=4}"
SHAPES = [(1, 1), (2, 3), (4, 4), (8, 3), (16, 5), (4, 1), (1, 7)]


def whole(seed, *shape, dtype="float32"):
    """Return small whole numbers in the language's packed layout."""
    return np.array(np.random.default_rng(seed).integers(-4, 5, shape), dtype, order="F")


def memref(array, element="f32"):
    return f"memref<{element}x{'x'.join(map(str, array.shape))}>"


def matrix(rows, columns, use="matrix_acc", component="f32"):
    return f"coopmatrix<{component}x{rows}x{columns},{use}>"


def compute(body, *arrays, element="f32", attributes=LANES):
    """Run a body in `parallel` on arrays that it calls %x, %y and so on."""
    parameters = ", ".join(f"%{name}: {memref(array, element)}" for name, array in zip("xyzw", arrays, strict=False))
    return run(f"parallel {{ {body} }}", *arrays, parameters=parameters, attributes=attributes)


@pytest.mark.parametrize("transpose", ["", ".n", ".t"])
@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_parts_of_memrefs_are_loaded_and_stored(rows, columns, transpose):
    turned = transpose == ".t"
    extents = (columns, rows) if turned else (rows, columns)
    x, y = whole(1, extents[0] + 2, extents[1] + 1), whole(2, rows + 1, columns + 3)
    type = matrix(rows, columns)
    _, found = compute(f"%A = cooperative_matrix_load{transpose} %x[2, 1] : {type} "
                       "cooperative_matrix_store %A, %y[1, 3]", x, y)
    y[1:, 3:] = x[2:, 1:].T if turned else x[2:, 1:]
    np.testing.assert_array_equal(found, y)


@pytest.mark.parametrize("check", ["rows", "cols", "both"])
@pytest.mark.parametrize("transpose", ["", ".t"])
@pytest.mark.parametrize(("row", "column"), [(0, 0), (3, 2), (-2, -1), (9, 0), (-9, 9)])
def test_components_outside_are_0_and_not_stored(check, transpose, row, column):
    """The rows of the matrix run along the second mode of what is transposed."""
    row, column = row if check != "cols" else 1, column if check != "rows" else 1
    padded = np.zeros((40, 40), "f4")
    x = whole(1, 5, 6)
    padded[20:25, 20:26] = x
    first = (column, row) if transpose else (row, column)
    source = x.copy(order="F") if not transpose else np.asfortranarray(x.T)
    body = (f"%A = cooperative_matrix_load{transpose}.{check}_checked %x[{first[0]}, {first[1]}] : {matrix(4, 5)} "
            "cooperative_matrix_store %A, %y[0, 0] "
            f"cooperative_matrix_store{transpose}.{check}_checked %A, %z[{first[0]}, {first[1]}]")
    _, loaded, stored = compute(body, source, whole(2, 4, 5), np.full_like(source, 7))
    np.testing.assert_array_equal(loaded, padded[20 + row : 24 + row, 20 + column : 25 + column])
    expected = np.full((40, 40), 7, "f4")
    expected[20 + row : 24 + row, 20 + column : 25 + column] = loaded
    np.testing.assert_array_equal(stored.T if transpose else stored, expected[20:25, 20:26])


@pytest.mark.parametrize(("rows", "inner", "columns"), [(1, 1, 1), (4, 2, 3), (16, 8, 5), (2, 16, 9)])
def test_products_are_added(rows, inner, columns):
    a, b, c = whole(1, rows, inner), whole(2, inner, columns), whole(3, rows, columns)
    body = (f"%A = cooperative_matrix_load %x[0, 0] : {matrix(rows, inner, 'matrix_a')} "
            f"%B = cooperative_matrix_load %y[0, 0] : {matrix(inner, columns, 'matrix_b')} "
            f"%C = cooperative_matrix_load %z[0, 0] : {matrix(rows, columns)} "
            f"%D = cooperative_matrix_mul_add %A, %B, %C : {matrix(rows, columns)} "
            "cooperative_matrix_store %D, %z[0, 0]")
    *_, found = compute(body, a, b, c)
    np.testing.assert_array_equal(found, a @ b + c)


def test_products_of_narrow_numbers_are_summed_up_in_wider_ones():
    """2048 + 1 is no f16: each sum in f16 would lose the ones."""
    a, b = np.ones((1, 8), "f2"), np.ones((8, 1), "f2")
    body = (f"%A = cooperative_matrix_load %x[0, 0] : {matrix(1, 8, 'matrix_a', 'f16')} "
            f"%B = cooperative_matrix_load %y[0, 0] : {matrix(8, 1, 'matrix_b', 'f16')} "
            f"%v = constant 2048 : f16 %C = cooperative_matrix_construct %v : {matrix(1, 1, component='f16')} "
            f"%D = cooperative_matrix_mul_add %A, %B, %C : {matrix(1, 1, component='f32')} "
            f"%E = cast %D : {matrix(1, 1, component='f16')} cooperative_matrix_store %E, %z[0, 0]")
    *_, found = compute(body, a, b, np.zeros((1, 1), "f2"), element="f16")
    assert found[0, 0] == 2056


def test_arithmetic_is_done_by_component():
    x, y = whole(1, 4, 6), whole(2, 4, 6)
    type, steps, expected = matrix(4, 6), [], x
    for number, (kind, meaning) in enumerate([("add", np.add), ("sub", np.subtract), ("mul", np.multiply),
                                              ("min", np.minimum), ("max", np.maximum)]):
        steps.append(f"%{number} = {kind} {f'%{number - 1}' if number else '%A'}, %B : {type}")
        expected = meaning(expected, y)
    body = (f"%A = cooperative_matrix_load %x[0, 0] : {type} %B = cooperative_matrix_load %y[0, 0] : {type} "
            + " ".join(steps)
            + f" %n = neg %4 : {type} %v = abs %n : {type} %s = cooperative_matrix_scale 3.0, %v : {type} "
            "cooperative_matrix_store %s, %x[0, 0]")
    found, _ = compute(body, x, y)
    np.testing.assert_array_equal(found, 3 * abs(-expected))


def test_sub_groups_compute_matrices_of_their_own():
    x = whole(1, 4, 6)
    body = ("%s = subgroup_linear_id : i32 %i = cast %s : index %w = constant 3 : index %o = mul %i, %w : index "
            f"%A = cooperative_matrix_load %x[0, %o] : {matrix(4, 3)} %B = add %A, %A : {matrix(4, 3)} "
            "cooperative_matrix_store %B, %x[0, %o]")
    (found,) = compute(body, x, attributes="attributes{work_group_size=[4, 2], subgroup_size=4}")
    np.testing.assert_array_equal(found, 2 * x)


def test_parts_and_casts_of_components():
    z = np.asfortranarray(whole(1, 2, 3) + 1j * whole(2, 2, 3)).astype("c8", order="F")
    body = (f"%A = cooperative_matrix_load %x[0, 0] : {matrix(2, 3, component='c32')} "
            f"%r = re %A : {matrix(2, 3)} %i = im %A : {matrix(2, 3)} %s = add %r, %i : {matrix(2, 3)} "
            f"%c = conj %A : {matrix(2, 3, component='c32')} %d = cast %s : {matrix(2, 3, component='c32')} "
            f"%e = add %c, %d : {matrix(2, 3, component='c32')} cooperative_matrix_store %e, %x[0, 0]")
    (found,) = compute(body, z, element="c32")
    np.testing.assert_array_equal(found, z.conj() + z.real + z.imag)


@pytest.mark.parametrize(("kind", "meaning"), [("add", np.sum), ("max", np.max), ("min", np.min)])
@pytest.mark.parametrize(("direction", "axis"), [("row", 1), ("column", 0)])
def test_rows_and_columns_are_reduced(kind, meaning, direction, axis):
    x = whole(1, 8, 3)
    shape = (8, 1) if axis else (1, 3)
    body = (f"%A = cooperative_matrix_load %x[0, 0] : {matrix(8, 3, 'matrix_b')} "
            f"%r = cooperative_matrix_reduce_{kind}.{direction} %A : {matrix(*shape, 'matrix_b')} "
            "cooperative_matrix_store %r, %y[0, 0]")
    _, found = compute(body, x, np.zeros(shape, "f4", order="F"))
    np.testing.assert_array_equal(found, meaning(x, axis=axis, keepdims=True))


@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_each_component_is_computed_once(rows, columns):
    """Padding of the last work-items has no components."""
    x, count = whole(1, rows, columns), np.zeros((rows, columns), "f4", order="F")
    type = matrix(rows, columns)
    body = (f"%A = cooperative_matrix_load %x[0, 0] : {type} "
            f"%B = cooperative_matrix_apply (%i, %j, %v)=%A -> {type} {{ "
            "  %p = cast %i : index %q = cast %j : index %one = constant 1.0 : f32 "
            "  %old = atomic_add %one, %y[%p, %q] : f32 "
            "  %s = cast %j : f32 %w = mul %v, %s : f32 yield (%w) } "
            "cooperative_matrix_store %B, %x[0, 0]")
    found, count = compute(body, x, count)
    np.testing.assert_array_equal(found, x * np.arange(columns))
    np.testing.assert_array_equal(count, 1)


def test_several_matrices_are_applied_to():
    x, y = whole(1, 4, 4), whole(2, 4, 4)
    body = (f"%A = cooperative_matrix_load %x[0, 0] : {matrix(4, 4)} "
            f"%B = cooperative_matrix_load %y[0, 0] : {matrix(4, 4, 'matrix_a')} "
            f"%C = cooperative_matrix_apply (%i, %j, %v, %w)=%A,%B -> {matrix(4, 4, 'matrix_a')} {{ "
            "%c = less_than %v, %w : bool %r = if %c -> (f32) { yield (%v) } else { yield (%w) } yield (%r) } "
            "cooperative_matrix_store %C, %x[0, 0]")
    found, _ = compute(body, x, y)
    np.testing.assert_array_equal(found, np.minimum(x, y))


@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_work_items_hold_components(rows, columns):
    """Component k of work-item p: row p mod I + I·w, column ⌊p / I⌋ + u·S / I for k = u + w·J·I / S, and 0 behind."""
    lanes, type = 4, matrix(rows, columns)
    own = min(rows, lanes)
    padded = -(-own * columns // lanes) * lanes // own
    count = own * padded * (rows // own) // lanes
    x, y = whole(1, rows, columns), np.full((lanes, count), 9, "f4", order="F")
    body = (f"%l = subgroup_local_id : i32 %p = cast %l : index %A = cooperative_matrix_load %x[0, 0] : {type}"
            + "".join(f" %e{k} = cooperative_matrix_extract %A[{k}] : f32 store %e{k}, %y[%p, {k}]"
                      for k in range(count)))
    _, found = compute(body, x, y)
    for p in range(lanes):
        for k in range(count):
            w, u = divmod(k, padded * own // lanes)
            row, column = p % own + own * w, p // own + u * (lanes // own)
            assert found[p, k] == (x[row, column] if column < columns else 0)


def test_components_are_inserted():
    """Those behind the last column stay 0."""
    x = whole(1, 2, 3)
    body = (f"%l = subgroup_local_id : i32 %v = cast %l : f32 %A = cooperative_matrix_load %x[0, 0] : {matrix(2, 3)} "
            f"%B = cooperative_matrix_insert %v, %A[1] : {matrix(2, 3)} cooperative_matrix_store %B, %x[0, 0]"
            "%e = cooperative_matrix_extract %B[1] : f32 %p = cast %l : index store %e, %y[%p]")
    found, own = run(f"parallel {{ {body} }}", x, np.full(4, 9, "f4"), attributes=LANES,
                     parameters=f"%x: {memref(x)}, %y: memref<f32x4>")
    x[:, 2] = 0, 1
    np.testing.assert_array_equal(found, x)
    np.testing.assert_array_equal(own, [0, 1, 0, 0])


def test_loops_and_branches_carry_matrices():
    x = whole(1, 4, 4)
    type = matrix(4, 4)
    body = (f"%A = cooperative_matrix_load %x[0, 0] : {type} %z = constant 0.0 : {type} "
            f"%s = for %i = 0, 3 init(%c=%z) -> ({type}) {{ %d = add %c, %A : {type} yield (%d) }} "
            "%l = subgroup_linear_id : i32 %c0 = constant 0 : i32 %c = equal %l, %c0 : bool "
            f"%r = if %c -> ({type}) {{ yield (%s) }} else {{ yield (%A) }} "
            "%o = cast %l : index %k = constant 4 : index %f = mul %o, %k : index "
            "cooperative_matrix_store %r, %y[0, %f]")
    _, found = compute(body, x, np.zeros((4, 8), "f4", order="F"),
                       attributes="attributes{work_group_size=[4, 2], subgroup_size=4}")
    np.testing.assert_array_equal(found, np.hstack([3 * x, x]))


@pytest.mark.parametrize(("kind", "meaning"), [("add", np.add), ("max", np.maximum), ("min", np.minimum)])
def test_updates_are_atomic_for_each_component(kind, meaning):
    """Two sub-groups update the same elements: one of them gets what the other one left."""
    x, y = whole(1, 4, 2), whole(2, 3, 2)
    body = (f"%A = cooperative_matrix_load %x[0, 0] : {matrix(4, 2)} "
            f"%B = cooperative_matrix_atomic_{kind}.rows_checked.device.acquire_release %A, %y[0, 0] : {matrix(4, 2)} "
            f"%old = cooperative_matrix_atomic_add %B, %z[0, 0] : {matrix(4, 2)}")
    _, found, before = compute(body, x, y, np.zeros((4, 2), "f4", order="F"),
                               attributes="attributes{work_group_size=[4, 2], subgroup_size=4}")
    once = meaning(y, x[:3])
    np.testing.assert_array_equal(found, meaning(once, x[:3]))
    np.testing.assert_array_equal(before, [*(y + once), [0, 0]])


def test_atomic_loads_and_stores():
    x = whole(1, 4, 2)
    body = (f"cooperative_matrix_prefetch 1, %x[0, 0], 4, 2 %A = cooperative_matrix_atomic_load.t.device.acquire "
            f"%x[0, 0] : {matrix(2, 4)} cooperative_matrix_atomic_store.t.work_group.release %A, %y[0, 0]")
    _, found = compute(body, x, np.zeros((4, 2), "f4", order="F"))
    np.testing.assert_array_equal(found, x)


@pytest.mark.parametrize(("body", "message"), [
    ("%l = subgroup_local_id : i32 %i = cast %l : index %A = cooperative_matrix_load %x[%i, 0] : "
     + matrix(1, 1), "is not the same for all work-items"),
    ("%i = constant 3 : index %j = add %i, %i : index %A = cooperative_matrix_load %x[%j, 0] : " + matrix(1, 1),
     "outside mode 0"),
    ("%l = subgroup_local_id : i32 %z = constant 0 : i32 %c = equal %l, %z : bool "
     f"if %c {{ %A = cooperative_matrix_load %x[0, 0] : {matrix(1, 1)} }}", "not all work-items come to this"),
])
def test_what_is_undefined_is_an_error(body, message):
    with pytest.raises(TLError, match=message) as caught:
        compute(body, whole(1, 4, 4))
    assert caught.value.diagnostics[0].span.line == 1

