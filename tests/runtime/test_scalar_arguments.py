"""Which scalars a parameter takes."""

from __future__ import annotations

import math

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.runtime.support import COUNT
from tl_dpnp.runtime.call.scalar_arguments import scalar_value, usual_values
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt
from tl_dpnp.scalars import SCALAR_TYPES

ACCEPTED = [
    ("i8", 127, 127), ("i8", -128, -128), ("i8", np.int64(5), 5), ("u8", np.uint64(255), 255),
    ("index", 2**63 - 1, None), ("u64", 2**64 - 1, None), ("i64", np.uint8(3), 3), ("i1", True, True),
    ("i1", np.bool_(False), False), ("bool", np.True_, True), ("f32", 1, 1.0), ("f32", np.float64(0.1), 0.1),
    ("f32", np.int32(-3), -3.0), ("f32", math.inf, math.inf), ("f64", 2**100, 2.0**100), ("f64", np.float16(0.5), 0.5),
    ("f16", 65504, 65504.0), ("bf16", 1e38, 1e38), ("c32", 2, 2 + 0j), ("c64", np.complex64(1j), 1j),
]  # fmt: skip
WRONG_KIND = [
    ("i32", 1.0), ("i32", np.float32(1)), ("i32", True), ("i1", 1), ("i1", 0.0), ("f32", True), ("f32", "1"),
    ("f32", 1j), ("f64", None), ("c32", False), ("i64", np.array(3)), ("f32", np.ones(1, "f4")), ("u8", np.True_),
]  # fmt: skip
OUT_OF_RANGE = [
    ("i8", 128), ("i8", -129), ("u8", -1), ("u64", 2**64), ("u64", -1), ("index", 2**63), ("i32", np.int64(2**31)),
    ("f32", 3.5e38), ("f32", -1e300), ("f16", 65520), ("bf16", 3.4e38), ("f64", 2**1024), ("f32", -(10**30) ** 2),
]  # fmt: skip


@pytest.mark.parametrize(("name", "argument", "value"), ACCEPTED)
def test_accepted_scalars(name, argument, value):
    result = scalar_value(SCALAR_TYPES[name], argument)
    expected = argument if value is None else value
    assert result == expected
    assert type(result) is type(expected)


def test_nan_is_a_float():
    assert math.isnan(scalar_value(SCALAR_TYPES["f32"], math.nan))


@pytest.mark.parametrize(("name", "argument"), WRONG_KIND)
def test_wrong_kinds_are_refused(name, argument):
    with pytest.raises(TypeError, match=r"was given"):
        scalar_value(SCALAR_TYPES[name], argument)


@pytest.mark.parametrize(("name", "argument"), OUT_OF_RANGE)
def test_values_out_of_range_are_refused(name, argument):
    with pytest.raises(OverflowError, match=r"it was given|cannot hold"):
        scalar_value(SCALAR_TYPES[name], argument)


@pytest.mark.parametrize("name", ["f64", "i32"])
def test_integers_too_long_to_print_are_refused(name):
    with pytest.raises(OverflowError, match="an integer of 33220 bits"):
        scalar_value(SCALAR_TYPES[name], 10**10_000)


@pytest.mark.parametrize("name", SCALAR_TYPES)
def test_usual_values_need_no_conversion(name):
    scalar_type = SCALAR_TYPES[name]
    usual, lowest, highest = usual_values(scalar_type)
    if not scalar_type.is_complex:
        for value in (lowest, highest):
            assert type(value) is usual
            assert scalar_value(scalar_type, value) == value


@pytest.mark.parametrize("target", ["sycl", "reference"])
def test_errors_name_the_parameter_and_the_fix(target):
    kernel = tl_dpnp.compile(COUNT, target=target)
    x = dpnp.zeros(3, dtype="int64")
    with pytest.raises(tl_dpnp.TLTypeError, match=r"argument 2 of @count: %step: i64 takes an integer, it was "
                                                  r"given 1.5 of type float(.|\n)*hint: round it yourself: int"):
        kernel(x, 1.5)
    with pytest.raises(tl_dpnp.TLBindingError, match=r"%step: i64 takes values from -9223372036854775808 to"):
        kernel(x, 2**63)
    kernel(x, -7)
    kernel(x, np.int8(5))
    assert x.asnumpy().tolist() == [-2, -2, -2]


@pytest.mark.parametrize("target", ["sycl", "reference"])
@pytest.mark.parametrize(("name", "value"), [
    ("i8", -5), ("i16", -300), ("i32", -(2**31)), ("i64", 2**63 - 1), ("index", -1), ("u8", 200), ("u16", 65535),
    ("u32", 2**32 - 1), ("u64", 2**64 - 1), ("f32", -0.375), ("f64", 0.1), ("i1", True), ("i1", False),
])  # fmt: skip
def test_scalars_arrive_as_they_are(target, name, value):
    kernel = tl_dpnp.compile(
        f"func @put(%v: {name}, %x: memref<{name}>) {{ store %v, %x[] : memref<{name}> }}", target=target
    )
    x = dpt.zeros((), dtype=SCALAR_TYPES[name].storage)  # dpnp has no narrow and no unsigned integers
    kernel(value, x)
    assert dpt.to_numpy(x).item() == value
