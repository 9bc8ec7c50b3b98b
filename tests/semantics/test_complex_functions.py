"""``abs``, ``exp`` and ``exp2`` of complex numbers, against NumPy and C's special values, on each target."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tests.semantics.support import TARGETS, fortran

_TARGETS = [target for target in TARGETS if target.name in ("reference", "vector", "one_subgroup")]
TYPES = [("c32", "complex64", "f32", "float32"), ("c64", "complex128", "f64", "float64")]


def computed(target, instruction, values, element, result):
    """Return what an instruction gives for each value, `%a`."""
    storage = {"c32": "complex64", "c64": "complex128", "f32": "float32", "f64": "float64"}[result]
    out = np.zeros(len(values), storage)
    target.run(f"""func @f(%x: memref<{element}x{len(values)}>, %y: memref<{result}x{len(values)}>) {{
        foreach (%i) = (0), ({len(values)}) {{
            %a = load %x[%i] : {element}
            %r = {instruction} %a : {result}
            store %r, %y[%i]
        }}
    }}""", fortran(values), out)
    return out


def drawn(seed, count, spread, dtype):
    rng = np.random.default_rng(seed)
    return (rng.uniform(-spread, spread, count) + 1j * rng.uniform(-spread, spread, count)).astype(dtype)


def two_to_the(z):
    wide = np.clongdouble(z)
    ln2 = np.log(np.longdouble(2))
    return np.exp(wide.real * ln2) * (np.cos(wide.imag * ln2) + 1j * np.sin(wide.imag * ln2))


@pytest.mark.parametrize("target", _TARGETS, ids=str)
@pytest.mark.parametrize(("element", "dtype", "part", "storage"), TYPES, ids=["c32", "c64"])
def test_the_modulus(target, element, dtype, part, storage):
    largest, least = np.finfo(storage).max, np.finfo(storage).tiny
    values = np.concatenate([drawn(0, 61, 10, dtype), np.array(
        [3 + 4j, largest * 0.5 * (1 + 1j), least * 4 * (3 + 4j), 0, complex(math.inf, math.nan),
         complex(math.nan, -math.inf), complex(math.nan, 1)], dtype)])
    found = computed(target, "abs", values, element, part)
    np.testing.assert_allclose(found, np.abs(values.astype(np.clongdouble)).astype(storage), atol=0,
                               rtol=4 * np.finfo(storage).eps)


@pytest.mark.parametrize("target", _TARGETS, ids=str)
@pytest.mark.parametrize(("element", "dtype", "part", "storage"), TYPES, ids=["c32", "c64"])
@pytest.mark.parametrize("function", ["exp", "exp2", "native_exp2"])
def test_powers(target, element, dtype, part, storage, function):
    """The error is at most 8 units in the last place of the absolute value."""
    values = np.concatenate([drawn(1, 101, 3, dtype), drawn(2, 100, 60, dtype)])
    exact = np.exp(values.astype(np.clongdouble)) if function == "exp" else two_to_the(values)
    found = computed(target, function, values, element, element)
    error = np.abs(found - exact) / np.abs(exact)
    assert error.max() <= 8 * np.finfo(storage).eps, values[error.argmax()]


@pytest.mark.parametrize("target", _TARGETS, ids=str)
@pytest.mark.parametrize(("element", "dtype", "part", "storage"), TYPES, ids=["c32", "c64"])
def test_a_power_is_finite_where_its_modulus_alone_is_not(target, element, dtype, part, storage):
    """Also where the modulus has lost digits as a subnormal number."""
    limit = math.log(np.finfo(storage).max)
    values = np.array([complex(limit + 1, 1.57), complex(-limit - 1, 0.5)], dtype)
    found = computed(target, "exp", values, element, element)
    exact = np.exp(values.astype(np.clongdouble))
    assert math.isfinite(found[0].real)
    np.testing.assert_allclose(found.real, exact.real.astype(storage), rtol=1e-4)


def special(scale):
    """Yield (operand, real part, imaginary part) of ISO C, annex G.6.3.1; angles are imaginary parts × `scale`.

    A word stands for a number of any sign.
    """
    inf, nan = math.inf, math.nan

    def turned(modulus, angle):
        return tuple(math.copysign(modulus, function(angle * scale)) for function in (math.cos, math.sin))

    yield from ((complex(a, b), 1.0, b) for a, b in itertools.product((0.0, -0.0), (0.0, -0.0)))
    yield from ((complex(1.0, b), nan, nan) for b in (inf, -inf, nan))
    yield from ((complex(inf, b), inf, b) for b in (0.0, -0.0))
    yield from ((complex(-inf, b), *turned(0.0, b)) for b in (1.0, 2.0, -4.0))
    yield from ((complex(inf, b), *turned(inf, b)) for b in (1.0, 2.0, -4.0))
    yield from ((complex(-inf, b), "zero", "zero") for b in (inf, -inf, nan))
    yield from ((complex(inf, b), "infinite", nan) for b in (inf, -inf, nan))
    yield from ((complex(nan, b), nan, b) for b in (0.0, -0.0))
    yield from ((complex(nan, b), nan, nan) for b in (1.0, inf, nan))


@pytest.mark.parametrize("target", _TARGETS, ids=str)
@pytest.mark.parametrize(("element", "dtype", "part", "storage"), TYPES, ids=["c32", "c64"])
@pytest.mark.parametrize("function", ["exp", "exp2"])
def test_special_values(target, element, dtype, part, storage, function):
    cases = list(special(1.0 if function == "exp" else math.log(2)))
    found = computed(target, function, np.array([operand for operand, _, _ in cases], dtype), element, element)
    for (operand, real, imaginary), number in zip(cases, found, strict=True):
        for expected, value in ((real, number.real), (imaginary, number.imag)):
            if isinstance(expected, str):
                assert math.isinf(value) if expected == "infinite" else value == 0, (operand, number)
            else:
                np.testing.assert_equal(float(value), expected, err_msg=str((operand, number)))


@pytest.mark.parametrize("target", [target for target in _TARGETS if target.name != "one_subgroup"], ids=str)
def test_the_modulus_of_matrices(target):
    values = fortran(drawn(3, 64, 5, "complex64").reshape(8, 8))
    out = np.zeros((8, 8), np.float32, order="F")
    target.run("""func @f(%x: memref<c32x8x8>, %y: memref<f32x8x8>) {
        parallel {
            %a = cooperative_matrix_load %x[0, 0] : coopmatrix<c32x8x8,matrix_acc>
            %b = abs %a : coopmatrix<f32x8x8,matrix_acc>
            cooperative_matrix_store %b, %y[0, 0]
        }
    }""", values, out)
    np.testing.assert_allclose(out, np.abs(values), rtol=1e-6)


@pytest.mark.parametrize("target", _TARGETS, ids=str)
def test_functions_of_constants_and_outside_of_loops(target):
    out = np.zeros(3, np.complex128)
    target.run("""func @f(%a: c64, %y: memref<c64x3>) {
        %c = constant [3.0, -4.0] : c64
        %m = abs %c : f64
        %n = cast %m : c64
        store %n, %y[0]
        %e = exp %a : c64
        store %e, %y[1]
        %z = constant 0.0 : c64
        %o = exp2 %z : c64
        store %o, %y[2]
    }""", 0.5 + 2j, out)
    np.testing.assert_allclose(out, [5, np.exp(0.5 + 2j), 1], rtol=1e-15)
