"""``abs``, ``exp`` and ``exp2`` of complex numbers, on each target."""

from __future__ import annotations

import numpy as np
import pytest

from tests.semantics import complex_points
from tests.semantics.complex_points import TYPES, drawn
from tests.semantics.support import TARGETS, fortran

_TARGETS = [target for target in TARGETS if target.name in ("reference", "vector", "one_subgroup")]


@pytest.mark.parametrize("target", _TARGETS, ids=str)
@pytest.mark.parametrize(("element", "dtype", "part", "storage"), TYPES, ids=["c32", "c64"])
def test_the_modulus(target, element, dtype, part, storage):
    complex_points.check_the_modulus(target, element, dtype, part, storage)


@pytest.mark.parametrize("target", _TARGETS, ids=str)
@pytest.mark.parametrize(("element", "dtype", "part", "storage"), TYPES, ids=["c32", "c64"])
@pytest.mark.parametrize("function", ["exp", "exp2", "native_exp2"])
def test_powers(target, element, dtype, part, storage, function):
    complex_points.check_powers(target, element, dtype, part, storage, function)


@pytest.mark.parametrize("target", _TARGETS, ids=str)
@pytest.mark.parametrize(("element", "dtype", "part", "storage"), TYPES, ids=["c32", "c64"])
def test_a_power_is_finite_where_its_modulus_alone_is_not(target, element, dtype, part, storage):
    complex_points.check_a_power_is_finite_where_its_modulus_alone_is_not(target, element, dtype, part, storage)


@pytest.mark.parametrize("target", _TARGETS, ids=str)
@pytest.mark.parametrize(("element", "dtype", "part", "storage"), TYPES, ids=["c32", "c64"])
@pytest.mark.parametrize("function", ["exp", "exp2"])
def test_special_values(target, element, dtype, part, storage, function):
    complex_points.check_special_values(target, element, dtype, part, storage, function)


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
