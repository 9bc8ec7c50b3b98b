"""Each linear-algebra instruction against NumPy formulas in exact or wider arithmetic."""

import itertools

import numpy as np
import pytest

from tests.interpreter.support import fortran, run
from tl_dpnp.errors import TLBoundsError

ELEMENTS = {
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "index": "int64", "u8": "uint8", "u16": "uint16",
    "u32": "uint32", "u64": "uint64", "f16": "float16", "f32": "float32", "f64": "float64", "c32": "complex64",
    "c64": "complex128",
}


def values(rng, storage, *shape):
    """Return whole numbers, complex where the dtype is, whose sums of products stay exact."""
    kind = np.dtype(storage).kind
    array = rng.integers(0 if kind == "u" else -4, 5, shape)
    return fortran(array + 1j * rng.integers(-4, 5, shape) if kind == "c" else array, storage)


def exact(array):
    """Return the array in Python's own numbers, which neither wrap nor round here."""
    return array.astype(object)


def type_of(element, array):
    return f"memref<{element}{''.join(f'x{n}' for n in array.shape)}>"


def check(instruction, formula, inputs, output, element, alpha=1, beta=1):
    """Run one instruction on arrays of one element type and compare with the formula over Python numbers."""
    old = exact(output)
    names = [f"%a{position}" for position in range(len(inputs))]
    types = [type_of(element, array) for array in inputs]
    float_text = "" if ELEMENTS[element].startswith(("int", "uint")) else ".0"
    parameters = ", ".join(f"{n}: {t}" for n, t in zip([*names, "%out"], [*types, type_of(element, output)],
                                                       strict=True))
    text = (f"{instruction} {alpha}{float_text}, {', '.join(names)}, {beta}{float_text}, %out : {element}, "
            f"{', '.join(types)}, {element}, {type_of(element, output)}")
    run(parameters, text, *inputs, output)
    expected = alpha * formula(*map(exact, inputs)) + (beta * old if beta else 0)
    np.testing.assert_array_equal(output, wrapped(expected, output.dtype))


def wrapped(expected, dtype):
    if dtype.kind in "iu":
        low = int(np.iinfo(dtype).min)
        expected = np.vectorize(lambda v: (int(v) - low) % (1 << 8 * dtype.itemsize) + low, otypes=[object])(expected)
    return np.asarray(expected).astype(dtype)


@pytest.mark.parametrize(("alpha", "beta"), [(1, 0), (1, 1), (3, 2), (0, 1)])
@pytest.mark.parametrize("element", ELEMENTS)
class TestEveryElementType:
    def arrays(self, element, *shapes):
        rng = np.random.default_rng(0)
        return [values(rng, ELEMENTS[element], *shape) for shape in shapes]

    def test_gemm(self, element, alpha, beta):
        for ta, tb in itertools.product("nt", "nt"):
            a, b, c = self.arrays(element, (3, 5) if ta == "n" else (5, 3), (5, 4) if tb == "n" else (4, 5), (3, 4))
            check(f"gemm.{ta}.{tb}", lambda a, b, ta=ta, tb=tb: (a.T if ta == "t" else a) @ (b.T if tb == "t" else b),
                  [a, b], c, element, alpha, beta)

    def test_gemv(self, element, alpha, beta):
        for t in "nt":
            a, b, c = self.arrays(element, (3, 5) if t == "n" else (5, 3), (5,), (3,))
            check(f"gemv.{t}", lambda a, b, t=t: (a.T if t == "t" else a) @ b, [a, b], c, element, alpha, beta)

    def test_ger(self, element, alpha, beta):
        a, b, c = self.arrays(element, (3,), (5,), (3, 5))
        check("ger", np.multiply.outer, [a, b], c, element, alpha, beta)

    def test_hadamard(self, element, alpha, beta):
        a, b, c = self.arrays(element, (7,), (7,), (7,))
        check("hadamard", lambda a, b: a * b, [a, b], c, element, alpha, beta)

    def test_axpby(self, element, alpha, beta):
        for t, shape in itertools.product("nt", [(), (6,), (3, 4)]):
            a, b = self.arrays(element, shape[::-1] if t == "t" else shape, shape)
            check(f"axpby.{t}", lambda a, t=t: a.T if t == "t" else a, [a], b, element, alpha, beta)

    def test_sum(self, element, alpha, beta):
        for t in "nt":
            a, b = self.arrays(element, (3, 5) if t == "n" else (5, 3), (3,))
            check(f"sum.{t}", lambda a, t=t: (a.T if t == "t" else a).sum(axis=1), [a], b, element, alpha, beta)
            a, b = self.arrays(element, (9,), ())
            check(f"sum.{t}", lambda a: a.sum(), [a], b, element, alpha, beta)


def test_integers_are_exact_modulo_their_range():
    rng = np.random.default_rng(1)
    a, b = fortran(rng.integers(-128, 128, (6, 9)), np.int8), fortran(rng.integers(-128, 128, (9, 5)), np.int8)
    check("gemm.n.n", lambda a, b: a @ b, [a, b], np.zeros((6, 5), np.int8, order="F"), "i8", 7, 1)
    a = fortran(rng.integers(-(2**63), 2**63, (4, 9)), np.int64)
    check("sum.n", lambda a: a.sum(axis=1), [a], np.zeros(4, np.int64), "i64", 5, 1)


def bf16(array):
    """Return whole numbers as bf16 storage."""
    return fortran((np.asarray(array, np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16))


def test_bf16_computes_wide_and_rounds_once():
    ones, out = bf16(np.ones((1, 300))), bf16(np.zeros((1, 1)))
    run("%a: memref<bf16x1x300>, %c: memref<bf16x1x1>",
        "gemm.n.t 1.0, %a, %a, 0.0, %c : bf16, memref<bf16x1x300>, memref<bf16x1x300>, bf16, memref<bf16x1x1>",
        ones, out)
    assert out[0, 0] == bf16(300.0)  # a running sum in bf16 would stop at 256


def test_f32_accumulates_in_more_than_f32():
    a = np.full(1000, 0.1, np.float32)
    a[0] = 1e8
    out = np.zeros((), np.float32)
    run("%a: memref<f32x1000>, %b: memref<f32>", "sum.n 1.0, %a, 0.0, %b : f32, memref<f32x1000>, f32, memref<f32>",
        a, out)
    assert out == np.float32(np.sum(a.astype(np.float64)))


@pytest.mark.parametrize(("source", "target"), [("i8", "i32"), ("u8", "i32"), ("f32", "f64"), ("f16", "f32"),
                                                ("f32", "c32")])
def test_mixed_types_convert_to_the_output(source, target):
    rng = np.random.default_rng(2)
    a, b = values(rng, ELEMENTS[source], 3, 5), values(rng, ELEMENTS[source], 5, 4)
    if source == "i8":
        a[...], b[...] = -128, 127
    c = np.zeros((3, 4), ELEMENTS[target], order="F")
    one = "1" if source[0] in "iu" else "1.0"
    run(f"%a: memref<{source}x3x5>, %b: memref<{source}x5x4>, %c: memref<{target}x3x4>",
        f"gemm.n.n {one}, %a, %b, {one}, %c : {source}, memref<{source}x3x5>, memref<{source}x5x4>, {source}, "
        f"memref<{target}x3x4>", a, b, c)
    np.testing.assert_array_equal(c, a.astype(ELEMENTS[target]) @ b.astype(ELEMENTS[target]))


def test_alpha_and_beta_as_values():
    a, b = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    run("%alpha: f32, %beta: f32, %a: memref<f32x4>, %b: memref<f32x4>",
        "axpby.n %alpha, %a, %beta, %b : f32, memref<f32x4>, f32, memref<f32x4>", 2.0, -3.0, a, b)
    np.testing.assert_array_equal(b, 2 * np.arange(4) - 3)


def test_a_beta_of_value_0_reads_the_output():
    a, b = np.ones(2, np.float32), np.array([np.nan, 1], np.float32)
    run("%beta: f32, %a: memref<f32x2>, %b: memref<f32x2>",
        "axpby.n 1.0, %a, %beta, %b : f32, memref<f32x2>, f32, memref<f32x2>", 0.0, a, b)
    assert np.isnan(b[0])
    assert b[1] == 1


def test_atomic_gives_the_same_result():
    a = np.arange(4, dtype=np.int32)
    for beta, expected in ((0, 2 * a), (1, 10 + 2 * a), (3, 30 + 2 * a)):
        b = np.full(4, 10, np.int32)
        run("%a: memref<i32x4>, %b: memref<i32x4>",
            f"axpby.n.atomic 2, %a, {beta}, %b : i32, memref<i32x4>, i32, memref<i32x4>", a, b)
        np.testing.assert_array_equal(b, expected)


def test_strided_operands_and_outputs():
    rng = np.random.default_rng(3)
    a, c = values(rng, "float64", 10, 5)[::2, :], np.zeros((9, 4), order="F")
    b = values(rng, "float64", 8, 4)[:5, :]
    run("%a: memref<f64x5x5,strided<2,10>>, %b: memref<f64x5x4,strided<1,8>>, %c: memref<f64x5x4,strided<1,9>>",
        "gemm.n.n 1.0, %a, %b, 1.0, %c : f64, memref<f64x5x5,strided<2,10>>, memref<f64x5x4,strided<1,8>>, f64, "
        "memref<f64x5x4,strided<1,9>>", a, b, c[2:7])
    np.testing.assert_array_equal(c[2:7], a @ b)
    assert not c[:2].any()
    assert not c[7:].any()


@pytest.mark.parametrize("alpha", ["1.0", "nan"])
def test_empty_sums_scale_the_output_only(alpha):
    for instruction, shapes, types in [
        ("gemm.n.n", [(3, 0), (0, 2), (3, 2)], ["x?x?", "x?x?", "x?x?"]),
        ("gemv.n", [(3, 0), (0,), (3,)], ["x?x?", "x?", "x?"]),
        ("sum.n", [(3, 0), (3,)], ["x?x?", "x?"]),
        ("sum.n", [(0,), ()], ["x?", ""]),
    ]:
        *inputs, out = [np.zeros(shape, np.float32, order="F") for shape in shapes]
        for beta, old, expected in (("2.0", 3.0, 6.0), ("0.0", np.nan, 0.0)):
            out[...] = old
            names = [f"%a{k}" for k in range(len(inputs))]
            memrefs = [f"memref<f32{t}>" for t in types]
            parameters = ", ".join(f"{n}: {t}" for n, t in zip([*names, "%o"], memrefs, strict=True))
            run(parameters, f"{instruction} {alpha}, {', '.join(names)}, {beta}, %o : f32, "
                            f"{', '.join(memrefs[:-1])}, f32, {memrefs[-1]}", *inputs, out)
            np.testing.assert_array_equal(out, np.full(out.shape, expected, np.float32))


def test_empty_outputs_write_nothing():
    c = np.zeros((0, 3), np.float32, order="F")
    run("%a: memref<f32x?x?>, %b: memref<f32x?x?>, %c: memref<f32x?x?>",
        "gemm.n.n 1.0, %a, %b, 1.0, %c : f32, memref<f32x?x?>, memref<f32x?x?>, f32, memref<f32x?x?>",
        np.zeros((0, 4), np.float32, order="F"), np.zeros((4, 3), np.float32, order="F"), c)


@pytest.mark.parametrize(("instruction", "shapes", "orders"), [
    ("gemm.n.n", [(3, 4), (5, 2), (3, 2)], [2, 2, 2]), ("gemm.n.t", [(3, 4), (4, 2), (3, 2)], [2, 2, 2]),
    ("gemm.n.n", [(3, 4), (4, 2), (2, 3)], [2, 2, 2]), ("gemv.t", [(3, 4), (4,), (3,)], [2, 1, 1]),
    ("ger", [(3,), (4,), (4, 3)], [1, 1, 2]), ("hadamard", [(3,), (4,), (3,)], [1, 1, 1]),
    ("sum.n", [(3, 4), (4,)], [2, 1]), ("axpby.t", [(3, 4), (3, 4)], [2, 2]),
])
def test_sizes_that_do_not_fit_are_refused(instruction, shapes, orders):
    arrays = [np.zeros(shape, np.float32, order="F") for shape in shapes]
    names = [f"%a{k}" for k in range(len(arrays))]
    types = [f"memref<f32{'x?' * order}>" for order in orders]
    parameters = ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))
    with pytest.raises(TLBoundsError, match=f"{instruction.split('.')[0]}: sizes"):
        run(parameters, f"{instruction} 1.0, {', '.join(names[:-1])}, 1.0, {names[-1]} : f32, "
                        f"{', '.join(types[:-1])}, f32, {types[-1]}", *arrays)
