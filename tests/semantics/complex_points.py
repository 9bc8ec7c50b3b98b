"""What ``abs``, ``exp`` and ``exp2`` of complex numbers are on any target: NumPy's numbers and C's special values."""

from __future__ import annotations

import itertools
import math

import numpy as np

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
    }}""", values, out)
    return out


def drawn(seed, count, spread, dtype):
    rng = np.random.default_rng(seed)
    return (rng.uniform(-spread, spread, count) + 1j * rng.uniform(-spread, spread, count)).astype(dtype)


def two_to_the(z):
    wide = np.clongdouble(z)
    ln2 = np.log(np.longdouble(2))
    return np.exp(wide.real * ln2) * (np.cos(wide.imag * ln2) + 1j * np.sin(wide.imag * ln2))


def check_the_modulus(target, element, dtype, part, storage):
    largest, least = np.finfo(storage).max, np.finfo(storage).tiny
    values = np.concatenate([drawn(0, 61, 10, dtype), np.array(
        [3 + 4j, largest * 0.5 * (1 + 1j), least * 4 * (3 + 4j), 0, complex(math.inf, math.nan),
         complex(math.nan, -math.inf), complex(math.nan, 1)], dtype)])
    found = computed(target, "abs", values, element, part)
    np.testing.assert_allclose(found, np.abs(values.astype(np.clongdouble)).astype(storage), atol=0,
                               rtol=4 * np.finfo(storage).eps)


def check_powers(target, element, dtype, part, storage, function):
    """The error is at most 8 units in the last place of the absolute value."""
    values = np.concatenate([drawn(1, 101, 3, dtype), drawn(2, 100, 60, dtype)])
    exact = np.exp(values.astype(np.clongdouble)) if function == "exp" else two_to_the(values)
    found = computed(target, function, values, element, element)
    error = np.abs(found - exact) / np.abs(exact)
    assert error.max() <= 8 * np.finfo(storage).eps, values[error.argmax()]


def check_a_power_is_finite_where_its_modulus_alone_is_not(target, element, dtype, part, storage):
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


def check_special_values(target, element, dtype, part, storage, function):
    cases = list(special(1.0 if function == "exp" else math.log(2)))
    found = computed(target, function, np.array([operand for operand, _, _ in cases], dtype), element, element)
    for (operand, real, imaginary), number in zip(cases, found, strict=True):
        for expected, value in ((real, number.real), (imaginary, number.imag)):
            if isinstance(expected, str):
                assert math.isinf(value) if expected == "infinite" else value == 0, (operand, number)
            else:
                np.testing.assert_equal(float(value), expected, err_msg=str((operand, number)))
