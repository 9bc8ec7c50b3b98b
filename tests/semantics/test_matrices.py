"""Cooperative matrices: devices compute what the interpreter does, whatever sizes sub-groups have."""

from __future__ import annotations

import numpy as np
import pytest

from tests.semantics.support import DTYPES, TARGETS, fortran, memref, whole
from tests.semantics.test_work_items import check

#: Components, and shapes with fewer rows than work-items, more of them, and columns that end in a work-item.
SHAPES = [(1, 3), (2, 5), (8, 4), (16, 7), (32, 3), (64, 2)]
SUBGROUPS = 9  # of the target that has the most


def matrix(rows, columns, use="acc", component="f32"):
    return f"coopmatrix<{component}x{rows}x{columns},matrix_{use}>"


def fitting(target, rows):
    """Return fewer rows where the matrices of all sub-groups would take more local memory than there is."""
    return min(rows, 8) if target.name == "many_subgroups" else rows


def offset(columns):
    """Return instructions that make %o the first column of the sub-group's own part of a matrix."""
    return (f"%s = subgroup_linear_id : i32 %n = cast %s : index %w = constant {columns} : index "
            "%o = mul %n, %w : index ")


@pytest.mark.drawn(2)
@pytest.mark.parametrize("target", TARGETS[1:], ids=str)
@pytest.mark.parametrize("type", ["f32", "f64", "i8", "i32", "u16"])
def test_arithmetic_of_components(target, type):
    rows, columns = SHAPES[list(DTYPES).index(type) % len(SHAPES)]
    rows = fitting(target, rows)
    t, dtype = matrix(rows, columns, component=type), DTYPES[type]
    x, y = (whole(seed, rows, SUBGROUPS * columns, dtype=dtype) for seed in (1, 2))
    body = (f"{offset(columns)} %A = cooperative_matrix_load %x[0, %o] : {t} "
            f"%B = cooperative_matrix_load %y[0, %o] : {t} %z = constant 3 : {t} "
            f"%C = add %A, %B : {t} %D = mul %C, %A : {t} %E = sub %D, %z : {t} %F = max %E, %B : {t} "
            f"%G = cooperative_matrix_scale 2, %F : {t} %H = min %G, %A : {t} %I = rem %H, %z : {t} "
            f"%J = cast %I : {matrix(rows, columns, component='f32')} %K = cast %J : {t} %L = neg %K : {t} "
            "cooperative_matrix_store %L, %x[0, %o]")
    parameters = f"%x: {memref(type, *x.shape)}, %y: {memref(type, *y.shape)}"
    check(target, f"func @f({parameters}) {{ parallel {{ {body} }} }}", x, y)


@pytest.mark.parametrize("target", TARGETS[1:], ids=str)
@pytest.mark.parametrize("type", ["f32", "i8", "c32"])
@pytest.mark.parametrize("given", ["load %x[%n] : {type}", "cast %s : {type}"])
def test_matrices_filled_with_a_number_of_their_sub_group(target, type, given):
    dtype = DTYPES.get(type, "complex64")
    x, z = whole(1, SUBGROUPS, dtype=dtype), fortran(np.zeros((4, SUBGROUPS * 3)), dtype)
    check(target, f"""func @f(%x: {memref(type, *x.shape)}, %z: {memref(type, *z.shape)}) {{ parallel {{
        {offset(3)} %v = {given.format(type=type)}
        %c = cooperative_matrix_construct %v : {matrix(4, 3, component=type)}
        %d = add %c, %c : {matrix(4, 3, component=type)}
        cooperative_matrix_store %d, %z[0, %o]
    }} }}""", x, z)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("target", TARGETS[1:], ids=str)
@pytest.mark.parametrize(("types", "shape"), [
    (("f32", "f32", "f32"), (16, 8, 8)), (("i8", "i8", "i32"), (8, 16, 5)), (("f32", "f64", "f64"), (4, 2, 7)),
    (("i32", "i32", "f32"), (1, 4, 2)),
], ids=str)
def test_products_in_a_loop_over_tiles(target, types, shape):
    """A product of matrices whose last tiles are cut off, by any number of sub-groups."""
    (m, k, n), (a, b, result) = shape, types
    kept = result if types != ("i32", "i32", "f32") else "i32"
    rows, inner, columns = 2 * m + m // 2, 3 * k - 1, 2 * n + 1
    x, y = whole(1, rows, inner, dtype=DTYPES[a]), whole(2, columns, inner, dtype=DTYPES[b])
    z = fortran(np.zeros((rows, columns), DTYPES[result]))
    acc, out = matrix(m, n, component=kept), matrix(m, n, component=result)
    body = f"""
        %c0 = constant 0 : index  %rows = size %z[0] : index  %columns = size %z[1] : index  %inner = size %x[1] : index
        %tm = constant {m} : index  %tn = constant {n} : index  %tk = constant {k} : index
        %zero = constant 0 : {acc}
        parallel {{
            %s = subgroup_linear_id : i32  %first = cast %s : index
            %px = num_subgroups.x : i32 %py = num_subgroups.y : i32 %p = mul %px, %py : i32 %step0 = cast %p : index
            %i0 = mul %first, %tm : index  %step = mul %step0, %tm : index
            for %i = %i0, %rows, %step {{ for %j = %c0, %columns, %tn {{
                %C = for %l = %c0, %inner, %tk init(%c=%zero) -> ({acc}) {{
                    %A = cooperative_matrix_load.both_checked %x[%i, %l] : {matrix(m, k, 'a', a)}
                    %B = cooperative_matrix_load.t.both_checked %y[%j, %l] : {matrix(k, n, 'b', b)}
                    %d = cooperative_matrix_mul_add %A, %B, %c : {acc}
                    yield (%d)
                }}
                %D = cast %C : {out}
                cooperative_matrix_store.both_checked %D, %z[%i, %j]
            }} }}
        }}"""
    parameters = f"%x: {memref(a, '?', '?')}, %y: {memref(b, *y.shape)}, %z: {memref(result, *z.shape)}"
    *_, found = check(target, f"func @f({parameters}) {{ {body} }}", x, y, z)
    np.testing.assert_array_equal(found, x.astype(DTYPES[result]) @ y.T.astype(DTYPES[result]))


@pytest.mark.drawn(2, by=lambda target, rows, columns: (target, (rows, columns)))
@pytest.mark.parametrize("target", TARGETS[1:], ids=str)
@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_components_of_work_items_and_regions(target, rows, columns):
    """A body that uses a value of the work-item runs in that which holds the component."""
    t = matrix(rows, columns)
    x = whole(1, rows, SUBGROUPS * columns)
    body = (f"{offset(columns)} %l = subgroup_local_id : i32 %f = cast %l : f32 "
            f"%A = cooperative_matrix_load %x[0, %o] : {t} %e = cooperative_matrix_extract %A[0] : f32 "
            f"%g = add %e, %f : f32 %B = cooperative_matrix_insert %g, %A[0] : {t} "
            f"%C = cooperative_matrix_apply (%i, %j, %v, %u)=%A,%B -> {t} {{ %k = sub %j, %i : i32 %h = cast %k : f32 "
            "%m = mul %h, %v : f32 %n1 = add %m, %u : f32 yield (%n1) } "
            f"%D = cooperative_matrix_apply (%i, %j, %v)=%C -> {t} {{ %m = mul %v, %f : f32 yield (%m) }} "
            "cooperative_matrix_store %D, %x[0, %o]")
    check(target, f"func @f(%x: {memref('f32', *x.shape)}) {{ parallel {{ {body} }} }}", x)


@pytest.mark.parametrize("target", TARGETS[1:], ids=str)
def test_reductions_loops_and_branches(target):
    """Sub-groups take branches of their own, and loops pass matrices on in another order."""
    rows, columns = fitting(target, 16), 6
    t, row, column = matrix(rows, columns), matrix(rows, 1), matrix(1, columns)
    x, y = whole(1, rows, SUBGROUPS * columns), fortran(np.zeros((rows + 3, SUBGROUPS * columns), "f4"))
    body = (f"{offset(columns)} %two = constant 2 : i32 %zero = constant 0 : i32 %q = rem %s, %two : i32 "
            f"%c = equal %q, %zero : bool %A = cooperative_matrix_load %x[0, %o] : {t} %N = neg %A : {t} "
            f"%P, %Q, %k = for %i = %zero, %s init(%a=%A, %b=%N, %m=%q) -> ({t}, {t}, i32) {{ "
            f"%d = add %a, %A : {t} %m1 = add %m, %i : i32 yield (%b, %d, %m1) }} "
            f"%R = if %c -> ({t}) {{ %d = add %P, %Q : {t} yield (%d) }} else {{ yield (%P) }} "
            f"%f = cast %k : f32 %S = cooperative_matrix_scale %f, %R : {t} cooperative_matrix_store %S, %y[3, %o] "
            + "".join(f"%r{kind} = cooperative_matrix_reduce_{kind}.row %S : {row} "
                      f"cooperative_matrix_store %r{kind}, %x[0, %o] "
                      f"%c{kind} = cooperative_matrix_reduce_{kind}.column %S : {column} "
                      f"%p{kind} = constant {place} : index cooperative_matrix_store %c{kind}, %y[%p{kind}, %o] "
                      for place, kind in enumerate(("add", "max", "min"))))
    check(target, f"func @f(%x: {memref('f32', *x.shape)}, %y: {memref('f32', *y.shape)}) {{ parallel {{ {body} }} }}",
          x, y)


@pytest.mark.drawn(2)
@pytest.mark.parametrize("target", TARGETS[1:], ids=str)
@pytest.mark.parametrize(("type", "constant"), [("f32", "1.5"), ("f16", "1.5"), ("i8", "0")])
def test_constants_are_added_carried_and_returned(target, type, constant):
    """Sub-groups go round the loop different numbers of times, some of them never."""
    rows, columns, t = fitting(target, 16), 6, matrix(fitting(target, 16), 6, component=type)
    a, b = (matrix(*shape, use, type) for shape, use in (((rows, 8), "a"), ((8, columns), "b")))
    dtype = DTYPES.get(type, "float16")
    x, y = whole(1, rows, 8, dtype=dtype), whole(2, 8, SUBGROUPS * columns, dtype=dtype)
    z = fortran(np.zeros((3 * rows, SUBGROUPS * columns)), dtype)
    body = (f"%k = constant {constant} : {t} %two = constant 2 : {t} {offset(columns)} %zero = constant 0 : i32 "
            f"%A = cooperative_matrix_load %x[0, 0] : {a} %B = cooperative_matrix_load %y[0, %o] : {b} "
            f"%P, %Q = for %i = %zero, %s init(%p=%two, %q=%k) -> ({t}, {t}) {{ "
            f"%d = cooperative_matrix_mul_add %A, %B, %k : {t} yield (%q, %d) }} "
            "%u = constant 2 : i32 %h = rem %s, %u : i32 %c = equal %h, %zero : bool "
            f"%R = if %c -> ({t}) {{ yield (%two) }} else {{ yield (%P) }} "
            + "".join(f"%r{place} = constant {place} : index %w{place} = constant {rows} : index "
                      f"%f{place} = mul %r{place}, %w{place} : index "
                      f"cooperative_matrix_store %{name}, %z[%f{place}, %o] "
                      for place, name in enumerate("PQR")))
    parameters = ", ".join(f"%{n}: {memref(type, *array.shape)}" for n, array in zip("xyz", (x, y, z), strict=True))
    check(target, f"func @f({parameters}) {{ parallel {{ {body} }} }}", x, y, z)


@pytest.mark.parametrize("target", TARGETS[1:], ids=str)
@pytest.mark.parametrize("transpose", ["", ".t"])
def test_checked_accesses_at_all_edges(target, transpose):
    """In front of the matrix, behind it and wholly outside; what else is there stays."""
    t = matrix(8, 3, component="i32")
    x, y = (whole(seed, 9, 9, dtype="int32") for seed in (1, 2))
    body = (f"%A = cooperative_matrix_load{transpose}.both_checked %x[%i, %j] : {t} "
            f"cooperative_matrix_store %A, %y[0, 0] %n = neg %A : {t} "
            f"cooperative_matrix_store{transpose}.both_checked %n, %x[%i, %j]")
    source = (f"func @f(%x: {memref('i32', '?', '?')}, %y: {memref('i32', *y.shape)}, %i: index, %j: index) "
              f"{{ foreach_tile (%k) = (0), (1) as (%n0) <= (16) {{ {body} }} }}")
    kernel, reference = target.compile(source), TARGETS[0].compile(source)
    for start in [(-3, 2), (2, -1), (0, 0), (7, 5), (90, 2), (-90, -90), (2**62, -(2**62))]:
        expected, found = ([fortran(array, array.dtype) for array in (x, y)] for _ in range(2))
        TARGETS[0].call(reference, *expected, *start)
        target.call(kernel, *found, *start)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=str(start))


@pytest.mark.parametrize("target", TARGETS[1:], ids=str)
@pytest.mark.parametrize("transpose", ["", ".t"])
def test_atomic_accesses(target, transpose):
    """One sub-group has the only tile; elements outside of the matrices are left out."""
    t = matrix(8, 3, component="i32")
    x, y = (whole(seed, *((4, 9) if transpose else (9, 4)), dtype="int32") for seed in (1, 2))
    body = (f"%A = cooperative_matrix_atomic_load{transpose}.both_checked %x[2, 1] : {t} "
            f"%B = cooperative_matrix_atomic_add{transpose}.both_checked.device %A, %y[0, 1] : {t} "
            f"%C = cooperative_matrix_atomic_min{transpose}.both_checked %B, %x[3, 3] : {t} "
            f"cooperative_matrix_atomic_store{transpose}.both_checked %C, %x[0, 0]")
    parameters = f"%x: {memref('i32', *x.shape)}, %y: {memref('i32', *y.shape)}"
    check(target, f"func @f({parameters}) {{ foreach_tile (%i) = (0), (1) as (%n) <= (16) {{ {body} }} }}", x, y)
