"""The printer: parsing what was printed gives an equal IR in each dialect, whatever the types and constants."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tl_dpnp.language import (
    FunctionBuilder,
    memref,
    ops,
    parse,
    print_function,
    print_module,
    print_operation,
    print_region,
)
from tl_dpnp.language.constants import convert, format_constant, largest_float, parse_float, round_to
from tl_dpnp.language.ops import Constant, Function, Module, Region, Value
from tl_dpnp.language.types import GroupType, MemrefType, canonical_strides
from tl_dpnp.scalars import BF16, C32, C64, F16, F32, F64, I1, I32, SCALAR_TYPES, ScalarType

SCALARS = st.sampled_from(sorted({t for t in SCALAR_TYPES.values() if not t.is_subbyte}, key=str))
SIZES = st.none() | st.integers(1, 64)


@st.composite
def memref_types(draw: st.DrawFn) -> MemrefType:
    """Memref types of orders 0 to 4 with static and dynamic sizes and strides that obey the layout's restriction."""
    shape = tuple(draw(st.lists(SIZES, max_size=4)))
    strides: list[int | None] = []
    smallest = 1  # also behind a dynamic stride: `test_views` may drop the mode that has it
    for size in shape:
        stride = draw(st.none() | st.integers(smallest, 2 * smallest))
        strides.append(stride)
        smallest = (stride or smallest) * (size or 16)  # room for the slices of `test_views`
    packed = draw(st.booleans())
    return MemrefType(draw(SCALARS), shape, canonical_strides(shape) if packed else tuple(strides))


@st.composite
def constants(draw: st.DrawFn) -> Constant:
    """Constants of every type, from all of its values."""
    scalar: ScalarType = draw(SCALARS)
    floats = st.floats(allow_nan=True, allow_infinity=True).map(lambda value: round_to(value, scalar))
    if scalar.is_boolean:
        return Constant(draw(st.booleans()), scalar)
    if scalar.is_integer:
        limit = 2**63 - 1
        return Constant(draw(st.integers(max(scalar.minimum, -limit), min(scalar.maximum, limit))), scalar)
    if scalar.is_complex:
        return Constant(complex(draw(floats), draw(floats)), scalar)
    return Constant(draw(floats), scalar)


def round_trip(module: Module) -> None:
    for dialect in ("0.3", "0.4"):
        text = print_module(module, dialect)
        parsed = parse(text)
        assert parsed == module
        assert print_module(parsed, dialect) == text


@given(st.lists(SCALARS | memref_types() | st.builds(GroupType, memref_types(), st.none() | st.integers(-99, 99))))
def test_types(types: list[ScalarType | MemrefType | GroupType]) -> None:
    parameters = tuple(Value(f"p{number}", type) for number, type in enumerate(types))
    round_trip(Module((Function("f", parameters, Region()),)))


@given(constants())
def test_constants(constant: Constant) -> None:
    target = Value("m", MemrefType(constant.type))
    store = ops.Store(value=constant, target=target, indices=())
    round_trip(Module((Function("f", (target,), Region((store,))),)))


@given(st.floats(width=32))
def test_f32_text_gives_the_same_bits(value: float) -> None:
    read = convert(parse_float(format_constant(value, F32)), F32)
    assert isinstance(read, float)
    assert struct.pack("f", read) == struct.pack("f", value) or math.isnan(value)


@given(st.floats())
def test_rounding_is_that_of_the_machine(value: float) -> None:
    for scalar, code in ((F16, "e"), (F32, "f"), (F64, "d")):
        try:
            expected = struct.unpack(code, struct.pack(code, value))[0]
        except OverflowError:
            expected = math.copysign(math.inf, value)
        assert repr(round_to(value, scalar)) == repr(expected)


@given(st.integers(0, 2**16 - 1))
def test_bf16_is_the_upper_half_of_f32(bits: int) -> None:
    (value,) = struct.unpack("f", struct.pack("I", bits << 16))
    assert repr(round_to(value, BF16)) == repr(value)
    if math.isfinite(value):
        assert float(format_constant(value, BF16)) == pytest.approx(value, rel=2**-8)
        assert convert(parse_float(format_constant(value, BF16)), BF16) == value


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1.0 + 2**-8, 1.0), (1.0 + 3 * 2**-8, 1.0 + 2**-6), (1.0 + 2**-8 + 2**-40, 1.0 + 2**-7), (3.4e38, math.inf)],
)
def test_bf16_rounds_to_even(value: float, expected: float) -> None:
    assert round_to(value, BF16) == expected


@pytest.mark.parametrize(
    ("value", "scalar", "text"),
    [
        (0.1, F64, "0.1"),
        (0.10000000149011612, F32, "0.1"),
        (1.0, F32, "1.0"),
        (-0.0, F32, "-0.0"),
        (1e30, F64, "1e+30"),
        (5e-324, F64, "5e-324"),
        (2.0**-149, F32, "1e-45"),
        (65504.0, F16, "65504.0"),
        (math.inf, F32, "inf"),
        (-math.inf, F32, "-inf"),
        (math.nan, F32, "nan"),
        (1.5 - 2j, C32, "[1.5, -2.0]"),
        (0.1 + 0j, C64, "[0.1, 0.0]"),
        (True, I1, "true"),
        (-7, I32, "-7"),
    ],
)
def test_text_of_constants(value: complex, scalar: ScalarType, text: str) -> None:
    if scalar == F16:
        assert value == largest_float(F16)
        assert round_to(float(format_constant(value, scalar)), scalar) == value
    else:
        assert format_constant(value, scalar) == text


def test_negative_zero_is_kept() -> None:
    module = parse("func @f(%m: memref<f32>) { store -0.0, %m[] : memref<f32> }")
    assert "store -0.0" in print_module(module, "0.3")
    assert "= constant -0.0 : f32" in print_module(module)
    assert module != parse("func @f(%m: memref<f32>) { store 0.0, %m[] : memref<f32> }")


def test_layout_of_the_text() -> None:
    text = """\
func @f(%A: memref<f32x4x4,strided<1,8>>, %n: index, %p: i1) work_group_size(16, 2) subgroup_size(16) {
  %0 = alloca -> memref<f32x4>
  for %i = 0, %n, 2 {
    %r, %s = if %p -> (f32, i32) {
      %1 = load %A[%i, 0] : memref<f32x4x4,strided<1,8>>
      yield %1, 1 : f32, i32
    } else {
      yield 0.5, -1 : f32, i32
    }
  }
  foreach %i = 0, 4 : i32 {
  }
  sum.n.atomic 1.0, %A, 0.0, %0 : f32, memref<f32x4x4,strided<1,8>>, f32, memref<f32x4>
  lifetime_stop %0
}

func @g() {
  barrier
}
"""
    module = parse(text)
    assert print_module(module, "0.3") == text
    first, second = module
    assert print_function(first, "0.3") + "\n" + print_function(second, "0.3") == text
    assert print_region(second.body) == "barrier"
    assert print_operation(first.body.operations[0], 1) == "  %0 = alloca -> memref<f32x4>"


@settings(max_examples=50)
@given(st.data())
def test_views(data: st.DataObject) -> None:
    """Subviews of memrefs of any layout print and parse to the same, their inferred types included."""
    type = data.draw(memref_types().filter(lambda type: type.order > 0))
    builder = FunctionBuilder("f", A=type, i=SCALAR_TYPES["index"])
    entries = []
    for size in type.shape:
        offset = data.draw(st.integers(0, (size or 8) - 1))
        extent = data.draw(st.integers(1, (size or 16) - offset))
        choices = [offset, builder.i, (offset, None), (offset, extent), (builder.i, builder.i), slice(None)]
        entries.append(data.draw(st.sampled_from(choices)))
    builder.subview(builder.A, *entries)
    round_trip(builder.build())


def test_memref_helper() -> None:
    assert memref(F32, 4, None) == MemrefType(F32, (4, None))
    assert memref(F32, 4, 4, strides=[1, 8]) == MemrefType(F32, (4, 4), (1, 8))
