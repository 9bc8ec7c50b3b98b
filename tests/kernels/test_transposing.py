"""Squares that are transposed in registers, whole rows and rows in parts, run on any machine."""

from __future__ import annotations

import ctypes

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir

from tl_dpnp.kernels.llvm import I64
from tl_dpnp.kernels.simd import lanes_of_part, transpose, transpose_parts

_FLOAT = ir.FloatType()
_PART = lanes_of_part(_FLOAT)


def _vector(builder: ir.IRBuilder, start: ir.Value, place: int, width: int) -> ir.Value:
    address = builder.gep(start, [ir.Constant(I64, place)])
    return builder.bitcast(address, ir.VectorType(_FLOAT, width).as_pointer())


@pytest.mark.parametrize("side", [2, 4, 8, 16])
@pytest.mark.parametrize("in_parts", [False, True])
def test_columns_of_a_square_are_its_transpose(side: int, in_parts: bool) -> None:
    module = ir.Module()
    pointer = _FLOAT.as_pointer()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer] * 2), "run")
    builder = ir.IRBuilder(function.append_basic_block())
    source, target = function.args

    def load(row: int, column: int, width: int) -> ir.Value:
        return builder.load(_vector(builder, source, row * side + column, width), align=4)

    part = min(_PART, side)
    if in_parts:
        columns = [column for first in range(0, side, part) for column in transpose_parts(builder, [
            [load(row, first, part) for row in range(place, side, part)] for place in range(part)])]
    else:
        columns = transpose(builder, [load(row, 0, side) for row in range(side)])
    for number, column in enumerate(columns):
        builder.store(column, _vector(builder, target, number * side, side), align=4)
    builder.ret_void()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(str(module)), machine)
    engine.finalize_object()
    values = np.arange(side * side, dtype=np.float32).reshape(side, side)
    result = np.zeros_like(values)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(engine.get_function_address("run"))(
        values.ctypes.data, result.ctypes.data)
    np.testing.assert_array_equal(result, values.T)
