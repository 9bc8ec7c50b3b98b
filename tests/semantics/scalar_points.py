"""Point 8: division, remainder and shifts."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.semantics.support import DTYPES, Target, memref
from tl_dpnp.errors import TLError


def check_division(target: Target, element: str) -> None:
    """Quotient and remainder truncate toward zero, for values and for constant divisors; unsigned stay unsigned."""
    dtype = np.dtype(DTYPES[element])
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    numerators = sorted({low, low + 1, high, 7, 6, 1, 0} | ({-7, -6, -1} if low else {high // 2 + 3}))
    divisors = [1, 2, 3, 7, high] + ([-2, -3, -7, low] if low else [high // 2 + 1])
    pairs = [(a, b) for a in numerators for b in divisors]
    a, b = (np.array(column, dtype) for column in zip(*pairs, strict=True))
    quotient, remainder, by_constant = np.zeros_like(a), np.zeros_like(a), np.zeros_like(a)
    divisor = -3 if low else 3
    v = memref(element, len(pairs))
    target.run(f"""func @f(%a: {v}, %b: {v}, %q: {v}, %r: {v}, %c: {v}) {{
        foreach %i = 0, {len(pairs)} {{
            %x = load %a[%i] : {v}
            %y = load %b[%i] : {v}
            %u = arith.div %x, %y : {element}
            %w = arith.rem %x, %y : {element}
            %d = arith.div %x, {divisor} : {element}
            store %u, %q[%i] : {v}
            store %w, %r[%i] : {v}
            store %d, %c[%i] : {v}
        }}
    }}""", a, b, quotient, remainder, by_constant, group_size=1)
    exact = [math.trunc(Fraction(x, y)) for x, y in pairs]
    np.testing.assert_array_equal(quotient, np.array(exact, dtype))
    np.testing.assert_array_equal(remainder, np.array([x - y * q for (x, y), q in zip(pairs, exact, strict=True)],
                                                      dtype))
    np.testing.assert_array_equal(by_constant, np.array([math.trunc(Fraction(x, divisor)) for x, _ in pairs], dtype))


def check_float_remainder(target: Target, element: str) -> None:
    """rem is C's fmod: the sign of the numerator, exact however large the quotient."""
    values = [0.0, -0.0, 1.0, -1.0, 5.5, -5.5, 1e6, -1e6, 1e30, 0.1, -7.25]
    pairs = [(x, y) for x in values for y in (1.0, -1.0, 2.0, -3.0, 0.3, 1e-3)]
    a, b = (np.array(column, DTYPES[element]) for column in zip(*pairs, strict=True))
    out = np.zeros_like(a)
    v = memref(element, len(pairs))
    target.run(f"""func @f(%a: {v}, %b: {v}, %out: {v}) {{
        foreach %i = 0, {len(pairs)} {{
            %x = load %a[%i] : {v}
            %y = load %b[%i] : {v}
            %r = arith.rem %x, %y : {element}
            store %r, %out[%i] : {v}
        }}
    }}""", a, b, out, group_size=1)
    expected = [math.fmod(float(x), float(y)) for x, y in zip(a, b, strict=True)]
    np.testing.assert_array_equal(out, np.array(expected, a.dtype))
    np.testing.assert_array_equal(np.signbit(out), np.signbit(expected))


def check_shifts(target: Target, element: str) -> None:
    """Right shifts keep the sign of signed types; all amounts below the width are right."""
    dtype = np.dtype(DTYPES[element])
    bits, low, high = 8 * dtype.itemsize, int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    pairs = [(a, n) for a in (low, low + 1, high, high // 3, 1, 5) for n in range(bits)]
    a, n = (np.array(column, dtype) for column in zip(*pairs, strict=True))
    left, right = np.zeros_like(a), np.zeros_like(a)
    v = memref(element, len(pairs))
    target.run(f"""func @f(%a: {v}, %n: {v}, %l: {v}, %r: {v}) {{
        foreach %i = 0, {len(pairs)} {{
            %x = load %a[%i] : {v}
            %y = load %n[%i] : {v}
            %p = arith.shl %x, %y : {element}
            %q = arith.shr %x, %y : {element}
            store %p, %l[%i] : {v}
            store %q, %r[%i] : {v}
        }}
    }}""", a, n, left, right, group_size=1)
    wrapped = [((x << m) - low) % (1 << bits) + low for x, m in pairs]
    np.testing.assert_array_equal(left, np.array(wrapped, dtype))
    np.testing.assert_array_equal(right, np.array([x >> m for x, m in pairs], dtype))


def check_wide_shifts_are_reported(target: Target, element: str) -> None:
    """Under debug a shift by the width, or by a negative amount, is an error with its line and group."""
    dtype = np.dtype(DTYPES[element])
    v = memref(element, 3)
    source = f"""func @f(%n: {v}, %out: {v}) {{
        %g = group_id
        %m = load %n[%g] : {v}
        %s = arith.SHIFT 1, %m : {element}
        store %s, %out[%g] : {v}
    }}"""
    for kind in ("shl", "shr"):
        for wide in [8 * dtype.itemsize] + [-1] * (dtype.kind == "i"):
            text = source.replace("SHIFT", kind)
            good = np.array([0, 1, 8 * dtype.itemsize - 1], dtype)
            target.run(text, good, np.zeros(3, dtype), group_size=3, debug=True)
            good[2] = wide
            with pytest.raises(TLError) as caught:
                target.run(text, good, np.zeros(3, dtype), group_size=3, debug=True)
            (diagnostic,) = caught.value.diagnostics
            assert diagnostic.span is not None
            assert diagnostic.span.line == 4
            assert "2" in diagnostic.message.split("group")[-1]
