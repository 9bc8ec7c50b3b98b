"""The code of products in registers computes what it should, thread by thread, for sizes that no tile divides."""

from __future__ import annotations

import ctypes
import random
import re
from unittest import mock

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir

from tl_dpnp.kernels import register_product, scalar_ops
from tl_dpnp.kernels.llvm import I64, LOCAL, constant, value_type
from tl_dpnp.kernels.mma.operands import Matrix
from tl_dpnp.kernels.targets import new_module, target_for
from tl_dpnp.lowering.tactics.registers import Problem
from tl_dpnp.scalars import C32, C64, F32, F64

_DTYPES = {F32: np.float32, F64: np.float64, C32: np.complex64, C64: np.complex128}


def machine_code(product, problem):
    """Compile C := 2 A B - C of one thread for the processor that is here: a function of addresses and its place."""
    module = new_module("product", target_for("cuda"))
    element = product.elements[0]
    pointer = value_type(element).as_pointer(LOCAL)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointer] * 3 + [I64] * 2), "product")
    builder = ir.IRBuilder(function.append_basic_block())
    *pointers, x, y = function.args
    matrices = [Matrix(*each) for each in zip(pointers, problem.strides, problem.alignments, strict=True)]

    def finish(total, old):
        return builder.fsub(scalar_ops.arithmetic(builder, "mul", element, constant(total.type, 2.0), total), old())

    with mock.patch.object(register_product, "special_register", lambda _, name: {"tid.x": x, "tid.y": y}[name]):
        product.emit(builder, *matrices, finish)
    builder.ret_void()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    text = re.sub(r"(?m)^target (triple|datalayout) = .*$", "", str(module))
    parsed = llvm.parse_assembly(text)
    parsed.verify()
    engine = llvm.create_mcjit_compiler(parsed, llvm.Target.from_default_triple().create_target_machine(opt=1))
    engine.finalize_object()
    arguments = [ctypes.c_void_p] * 3 + [ctypes.c_int64] * 2
    return ctypes.CFUNCTYPE(None, *arguments)(engine.get_function_address("product")), engine


def placed(matrix, strides, count, misplaced):
    """Return memory that holds a matrix with its strides, and the address of its first element."""
    memory = np.full(count + 64, 1e6, matrix.dtype)
    start = -memory.ctypes.data // matrix.itemsize % 16 + misplaced
    inner = memory[start : start + count]
    np.lib.stride_tricks.as_strided(inner, matrix.shape, [stride * matrix.itemsize for stride in strides])[...] = matrix
    return memory, memory.ctypes.data + start * matrix.itemsize


@pytest.mark.drawn(count=6)
@pytest.mark.parametrize("seed", range(24))
def test_threads_compute_the_product(seed):
    check_drawn(seed, (F32, F32, F64))


@pytest.mark.drawn(count=3)
@pytest.mark.parametrize("seed", range(12))
def test_threads_compute_products_of_complex_numbers(seed):
    check_drawn(seed, (C32, C64))


def whole(numbers, shape, element):
    """Return a matrix of small whole numbers, in both parts of complex ones."""
    matrix = numbers.integers(-4, 5, shape)
    return (matrix + 1j * numbers.integers(-4, 5, shape) if element.is_complex else matrix).astype(_DTYPES[element])


def check_drawn(seed, elements):
    draw = random.Random(seed)
    m, n, k = (draw.randint(1, 40) for _ in range(3))
    k = draw.choice((k, k, 16, 32, 64))
    element = draw.choice(elements)
    left, right = draw.choice(((1, m), (k, 1))), draw.choice(((1, k), (1, k), (n, 1)))
    counts = m * k, k * n, m * n
    alignments = tuple(min(16, count * element.bytes & -(count * element.bytes)) for count in counts)
    problem = Problem((element,) * 3, (m, n, k), (left, right, (1, m)),
                      tuple(count * element.bytes for count in counts), alignments, 1, True)
    products = list(problem.products())
    chosen = draw.sample(products, min(3, len(products)))
    chosen += draw.sample([each for each in products if each.staggered or each.in_quads] or products, 1)
    chosen += draw.choices([each for each in products if any(each.rotated)] or products, k=2)
    numbers = np.random.default_rng(seed)
    for product in chosen:
        a, b, c = (whole(numbers, shape, element) for shape in ((m, k), (k, n), (m, n)))
        # Operands may begin at any multiple of their alignment.
        (_, at_a), (_, at_b), (memory, at_c) = found = [
            placed(matrix, strides, count, alignment // element.bytes)
            for matrix, strides, count, alignment in zip((a, b, c), problem.strides, counts, alignments, strict=True)]
        expected = placed(2 * a @ b - c, (1, m), m * n, alignments[2] // element.bytes)[0]
        run, engine = machine_code(product, problem)
        for y in range(product.across):
            for x in range(product.down):
                run(at_a, at_b, at_c, x, y)
        assert engine is not None
        assert len(found) == 3
        values = memory[memory != 1e6]
        np.testing.assert_array_equal(values, expected[expected != 1e6], str(product))
        assert (memory == 1e6).sum() == 64
