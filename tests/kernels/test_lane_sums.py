"""Sums of the lanes of several vectors, run on any machine."""

from __future__ import annotations

import ctypes

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir

from tl_dpnp.kernels.llvm import I64, lanes
from tl_dpnp.kernels.simd import totals_of_lanes
from tl_dpnp.scalars import F64

_DOUBLE = ir.DoubleType()


@pytest.mark.parametrize(("vectors", "width", "parts"), [
    *((vectors, width, 1) for vectors in (1, 2, 4, 8, 16) for width in (1, 2, 4, 8, 16)),
    *((vectors, width, parts) for parts in (2, 4, 8) for width in (2, 4, 8, 16) for vectors in (1, 2, 4, 8)
      if parts * vectors <= width),
])
def test_each_vector_has_a_lane_with_its_sum(vectors: int, width: int, parts: int) -> None:
    """In each part, where parts of vectors are added up apart."""
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [_DOUBLE.as_pointer()] * 2), "run")
    builder = ir.IRBuilder(function.append_basic_block())
    source, target = function.args

    def place(start: ir.Value, number: int, count: int) -> ir.Value:
        type_ = _DOUBLE if count == 1 else ir.VectorType(_DOUBLE, count)
        return builder.bitcast(builder.gep(start, [ir.Constant(I64, number)]), type_.as_pointer())

    total = totals_of_lanes(builder, F64, [
        builder.load(place(source, number * width, width), align=8) for number in range(vectors)], parts)
    assert lanes(total.type) == parts * vectors
    builder.store(total, place(target, 0, parts * vectors), align=8)
    builder.ret_void()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(str(module)), machine)
    engine.finalize_object()
    values = 2.0 ** np.arange(width) + 100 * np.arange(vectors)[:, None]
    result = np.zeros(parts * vectors)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(engine.get_function_address("run"))(
        values.ctypes.data, result.ctypes.data)
    np.testing.assert_array_equal(result.reshape(parts, vectors), values.reshape(vectors, parts, -1).sum(axis=2).T)
