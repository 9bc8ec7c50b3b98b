"""Constants of vectors are written in a word, and mean what they do lane by lane."""

from __future__ import annotations

import llvmlite.binding as llvm
import pytest
from llvmlite import ir

from tl_dpnp.kernels.llvm import I32, PairsType, constant, undefined

FLOAT = ir.FloatType()


def parsed(value: ir.Constant) -> str:
    """Return a constant as LLVM writes it."""
    module = ir.Module("constants")
    ir.GlobalVariable(module, value.type, "value").initializer = value
    (variable,) = llvm.parse_assembly(str(module)).global_variables
    return str(variable).partition("= global ")[2]


@pytest.mark.parametrize("type_", [ir.VectorType(FLOAT, 16), ir.VectorType(I32, 4), ir.VectorType(ir.IntType(1), 8)])
def test_zeros_are_a_word(type_):
    by_lane = ir.Constant(type_, [ir.Constant(type_.element, 0)] * type_.count)
    assert str(constant(type_, 0)) == f"{type_} zeroinitializer"
    assert parsed(constant(type_, 0)) == parsed(by_lane)


@pytest.mark.parametrize("type_", [ir.VectorType(FLOAT, 16), PairsType(FLOAT, 4), I32])
def test_undefined_values_are_a_word(type_):
    assert str(undefined(type_)) == f"{type_} undef"
    assert parsed(undefined(type_)) == f"{type_} undef"


def test_other_constants_are_written_lane_by_lane():
    type_ = ir.VectorType(FLOAT, 2)
    assert parsed(constant(type_, -0.0)) == "<2 x float> <float -0.000000e+00, float -0.000000e+00>"
    assert parsed(constant(type_, 1.5)) == "<2 x float> <float 1.500000e+00, float 1.500000e+00>"
    assert parsed(constant(PairsType(FLOAT, 1), 0)) == "<2 x float> zeroinitializer"
    assert parsed(constant(PairsType(FLOAT, 1), 2 - 1j)) == "<2 x float> <float 2.000000e+00, float -1.000000e+00>"


def test_types_of_complex_and_of_real_numbers_have_constants_of_their_own():
    assert isinstance(undefined(PairsType(FLOAT, 4)).type, PairsType)
    assert not isinstance(undefined(ir.VectorType(FLOAT, 8)).type, PairsType)
    assert isinstance(constant(PairsType(FLOAT, 4), 0).type, PairsType)
    assert not isinstance(constant(ir.VectorType(FLOAT, 8), 0).type, PairsType)
