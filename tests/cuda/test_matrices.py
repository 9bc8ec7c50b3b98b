"""Cooperative matrices on a CUDA device, and without one what they are compiled to."""

from __future__ import annotations

import copy
import os
import random
from dataclasses import replace

import numpy as np
import pytest

import tl_dpnp
from tests.conformance.collective_pages import MATRIX_ENTRIES
from tests.conformance.known import refusal
from tests.conformance.mappings import Mapping
from tests.conformance.programs import STORAGE, cases
from tests.cuda.programs import LAYOUTS, called
from tests.strategies.matrices import MatrixProgram
from tl_dpnp.language import ops, parse
from tl_dpnp.language.interpreter import interpret
from tl_dpnp.runtime.cuda.driver_adapter import device_count

#: How many eights of random programs, and of two dozens of instructions.
PARTS = int(os.environ.get("TL_DPNP_TEST_CUDA_MATRICES", "3"))
on_device = pytest.mark.skipif(device_count() == 0, reason="there is no CUDA device")


#: Types of factors and sums, the precision that is asked for, and the rows and the depth of the smallest instruction of
#: tensor cores for them, 0 where there is none; and what the sum is a multiple of where matrices are in registers.
PRODUCTS = [("f64", "f64", None, 8, 4, 8), ("bf16", "f32", None, 16, 8, 8), ("f16", "f32", None, 16, 8, 8),
            ("f16", "f16", None, 16, 8, 8), ("f32", "f32", "default", 16, 4, 8), ("f32", "f32", "high", 0, 0, 8),
            ("f32", "f32", None, 0, 0, 0), ("i8", "i32", None, 0, 0, 16)]


class Product:
    """A drawn product of cooperative matrices, or by ``gemm`` of parameters.

    Sub-groups each have some columns, and the sum is cut off within its last matrices.
    """

    def __init__(self, seed, of_memrefs):
        rng = random.Random(seed)
        factor, result, self.precision, rows, depth, part = PRODUCTS[seed % len(PRODUCTS)]
        m, n, k = 4 << rng.randint(1, 4), rng.choice((5, 8, 16, 24)), 4 << rng.randint(0, 3)
        self.in_registers = not of_memrefs and part > 0 and m % 8 == n % 8 == k % part == 0
        self.on_tensor_cores = self.in_registers or (rows > 0 and m % rows == n % 8 == k % depth == 0)
        transposes = rng.choice("nt"), rng.choice("nt")
        inner, columns = (k, n) if of_memrefs else (3 * k - 1, 6 * n)
        shapes = [shape[::-1] if letter == "t" else shape
                  for shape, letter in zip([(m, inner), (inner, columns)], transposes, strict=True)]
        shapes, types = [*shapes, (m, columns)], [factor, factor, result]
        x, y, z = (f"memref<{type}x{shape[0]}x{shape[1]}>" for type, shape in zip(types, shapes, strict=True))
        a, b, c = (f"coopmatrix<{type}x{size[0]}x{size[1]},matrix_{use}>" for type, size, use in zip(
            types, [(m, k), (k, n), (m, n)], ("a", "b", "acc"), strict=True))
        body = f"gemm.{transposes[0]}.{transposes[1]} 2, %x, %y, -1, %z" if of_memrefs else f"""parallel {{
            %c0 = constant 0 : index  %inner = constant {inner} : index  %k = constant {k} : index
            %s = subgroup_linear_id : i32  %p = cast %s : index  %n = constant {n} : index  %j = mul %p, %n : index
            %Z = cooperative_matrix_load %z[0, %j] : {c}
            %C = for %l = %c0, %inner, %k init(%c=%Z) -> ({c}) {{
                %A = cooperative_matrix_load.{transposes[0]}.both_checked %x[{_place(transposes[0], "0", "%l")}] : {a}
                %B = cooperative_matrix_load.{transposes[1]}.both_checked %y[{_place(transposes[1], "%l", "%j")}] : {b}
                %d = cooperative_matrix_mul_add %A, %B, %c : {c}
                yield (%d)
            }}
            cooperative_matrix_store %C, %z[0, %j]
        }}"""
        self.source = f"func @f(%x: {x}, %y: {y}, %z: {z}) {{ {body} }}"
        numbers = np.random.default_rng(seed)
        self.arrays = [_stored(numbers.integers(-3, 4, shape), type)
                       for shape, type in zip(shapes, types, strict=True)]


def _place(letter, row, column):
    """Return the indices of the first element of a matrix that is stored as it is, or transposed."""
    return f"{column}, {row}" if letter == "t" else f"{row}, {column}"


def _stored(numbers, type):
    """Return an array of whole numbers as memrefs have it."""
    if type == "bf16":
        return np.asfortranarray((numbers.astype("f4").view("u4") >> 16).astype("u2"))
    return np.asfortranarray(numbers.astype(STORAGE.get(type, type.replace("i", "int"))))


def sized(source, layout):
    (function,) = parse(source)
    return replace(function, work_group_size=LAYOUTS[layout], subgroup_size=LAYOUTS[layout] and 32)


def compiled(source, layout, **options):
    return tl_dpnp.compile(ops.Module((sized(source, layout),)), target="cuda", cache=False, **options)


def disagreements(source, layout, arguments, **options):
    """Return which of the arrays a device computes differently from the interpreter, with the same sizes."""
    expected, found = copy.deepcopy(arguments), copy.deepcopy(arguments)
    interpret(sized(source, layout), expected, (1, 1, 1), order_seed=0)
    called(compiled(source, layout, **options), found)
    return [place for place, pair in enumerate(zip(expected, found, strict=True)) if not np.array_equal(*pair)]


def wrong_programs(kind, part, layout):
    """Return what a device computes differently for eight programs of a kind, by their seeds."""
    programs = map(kind, range(8 * part, 8 * part + 8))
    found = {program.seed: disagreements(program.source, layout, program.arguments(), precision=program.precision)
             for program in programs}
    return {seed: places for seed, places in found.items() if places}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_random_programs_compile(layout):
    """Sub-groups take their turns between barriers of the block."""
    for seed in range(4):
        (ptx,) = compiled(MatrixProgram(seed).source, layout).inspect_ptx().values()
        assert "bar.sync" in ptx


@on_device
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_random_programs_agree_with_the_interpreter(layout, part):
    assert not wrong_programs(MatrixProgram, part, layout)


#: Instructions on the component of a number that a work-item has; random programs have them, too.
COMPONENTS = ("cooperative_matrix_extract", "cooperative_matrix_insert")


@on_device
@pytest.mark.parametrize("part", range(PARTS))
def test_instructions_agree_with_the_interpreter(part):
    """Some of all spellings and types of the conformance run, in one sub-group."""
    def run(function, arguments):
        sized = replace(function, work_group_size=(32, 1), subgroup_size=32)
        called(tl_dpnp.compile(sized, target="cuda", cache=False), arguments)

    known = [case for case in cases(MATRIX_ENTRIES) if case.is_allowed and refusal(case, "cuda") is None
             and case.word not in COMPONENTS]  # which differ from the interpreter's, whose sub-groups are smaller
    drawn = random.Random(1).sample(known, len(known))[24 * part : 24 * part + 24]
    assert not Mapping("cuda", "CUDA", "numba_cuda", run).failures(drawn)


@pytest.mark.parametrize("of_memrefs", [False, True])
def test_products_are_on_tensor_cores_where_these_have_them(of_memrefs):
    found = set()
    for seed in range(2 * len(PRODUCTS)):
        product = Product(seed, of_memrefs)
        kernel = compiled(product.source, "one_warp", precision=product.precision)
        (ptx,) = kernel.inspect_ptx().values()
        assert ("mma.sync" in ptx) == product.on_tensor_cores
        assert ("are in registers" in kernel.diagnostics(2)) == product.in_registers
        assert not (product.in_registers and ".shared" in ptx)
        found.add(product.on_tensor_cores)
    assert found == {False, True}


@on_device
@pytest.mark.parametrize("of_memrefs", [False, True])
@pytest.mark.parametrize("layout", ["one_warp", "several_warps"])
@pytest.mark.parametrize("part", range(PARTS))
def test_products_agree_with_the_interpreter(layout, part, of_memrefs):
    products = [Product(seed, of_memrefs) for seed in range(16 * part, 16 * part + 16)]
    assert not [seed for seed, product in enumerate(products) if disagreements(
        product.source, layout, product.arrays, precision=product.precision)]
