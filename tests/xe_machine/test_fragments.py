"""Cooperative matrices in registers as machine code of the offline compiler: executed, and compared with NumPy."""

from __future__ import annotations

import functools
import math
import re
import runpy
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tl_dpnp
from tests.runtime.support import needs_tools
from tests.strategies.dpas_fragments import DpasFragmentProgram
from tests.xe_machine.errors import MachineError
from tests.xe_machine.fragments import wrong_arrays
from tests.xe_machine.launch import Binary, global_memory, run
from tests.xe_machine.products import binary_of
from tests.xe_machine.test_products import _changed, _places, _shifted, _spread
from tests.xe_machine.types import bf16_of, f32_of_bf16
from tl_dpnp.runtime.offline import assembly
from tl_dpnp.runtime.offline.assembly import inner_loop

#: Tiles of C := 2 (A B + C), which sub-groups share; A may be transposed in memory.
SOURCE = """
$C = coopmatrix<$sum x $rows x $columns, matrix_acc>
func @product(%A: memref<$first x?x?>, %B: memref<$second x?x?>, %C: memref<$sum x?x?>) attributes{{
        subgroup_size=16, work_group_size=[32, 1]}} {{
  %0 = constant 0 : index  %depth = constant $depth : index  %rows = constant $rows : index
  %columns = constant $columns : index  %2 = constant 2 : index  %step = mul %rows, %2 : index
  %m = size %C[0] : index  %n = size %C[1] : index  %terms = size %B[0] : index
  parallel {{
    %s = subgroup_linear_id : i32  %p = cast %s : index  %first = mul %p, %rows : index
    for %i = %first, %m, %step {{ for %j = %0, %n, %columns {{
      %Z = cooperative_matrix_load.both_checked %C[%i, %j] : $C
      %sum = for %k = %0, %terms, %depth init(%c=%Z) -> ($C) {{
        %a = cooperative_matrix_load{letter}.both_checked %A[{place}] : coopmatrix<$first x $rows x $depth, matrix_a>
        %b = cooperative_matrix_load.both_checked %B[%k, %j] : coopmatrix<$second x $depth x $columns, matrix_b>
        %d = cooperative_matrix_mul_add %a, %b, %c : $C
        yield (%d)
      }}
      %twice = cooperative_matrix_scale 2, %sum : $C
      cooperative_matrix_store.both_checked %twice, %C[%i, %j]
    }} }}
  }}
}}
"""


@dataclass(frozen=True)
class Case:
    """Types, the tile, and whether A is transposed; sizes of the product, elements behind and in front of columns."""

    first: str = "bf16"
    second: str = "bf16"
    sum: str = "f32"
    tile: tuple[int, int, int] = (32, 16, 32)
    transposed: bool = False
    sizes: tuple[int, int, int] = (72, 36, 208)  # an iteration of four steps, and three of one
    padding: tuple[int, int, int] = (0, 0, 0)
    offset: int = 0


GEMM, TRANSPOSED = Case(), Case("f16", "f16", transposed=True, tile=(32, 16, 16))
BYTES = Case("u8", "i8", "i32", (16, 24, 64), sizes=(64, 30, 128))


@functools.cache
def built(case: Case) -> tuple[Any, Binary]:
    """Return the kernel of a case, and its machine code."""
    rows, columns, depth = case.tile
    letter, place = (".t", "%k, %i") if case.transposed else ("", "%i, %k")
    kernel = tl_dpnp.compile(SOURCE.format(letter=letter, place=place), cache=False, define={
        "first": case.first, "second": case.second, "sum": case.sum, "rows": rows, "columns": columns, "depth": depth})
    program = kernel.compile_offline("pvc")
    assert "are in registers" in program.remarks[0]
    return kernel, binary_of(program)


def stored(numbers: np.ndarray, type: str) -> np.ndarray:
    names = {"f16": "f2", "f32": "f4", "i8": "i1", "u8": "u1", "i32": "i4"}
    return bf16_of(numbers.astype("f4")) if type == "bf16" else numbers.astype(names[type])


def wrong(case: Case, binary: Binary) -> str:
    """Return what is wrong with a result, whichever way it is seen; nothing if it is right."""
    (m, n, k), memory, flat = case.sizes, global_memory(), []
    random = np.random.default_rng(5)
    shapes = [(k, m) if case.transposed else (m, k), (k, n), (m, n)]
    numbers, places = [], []
    for shape, gap, type in zip(shapes, case.padding, (case.first, case.second, case.sum), strict=True):
        whole = random.integers(0 if type.startswith("u") else -3, 4, (shape[1], shape[0] + gap))
        raw = stored(whole, type)
        places.append((memory.place(type, raw, offset=case.offset * raw.itemsize), raw))
        flat += [places[-1][0], *shape, shape[0] + gap]
        numbers.append(whole[:, : shape[0]].T.astype(np.int64))
    a, b, c = numbers
    address, before = places[2]
    try:
        run(binary, [*flat, 1, 1, 0], memory, (1, 1, 1), 3)
    except MachineError as error:
        return str(error)
    found = memory.content(address, before.nbytes).view(before.dtype).reshape(before.shape)
    expected = before.copy()
    expected[:, :m] = stored(2 * ((a.T if case.transposed else a) @ b + c).T, case.sum)
    return "" if np.array_equal(found, expected) else f"{int((found != expected).sum())} elements differ"


@needs_tools
@pytest.mark.parametrize("case", [GEMM, TRANSPOSED, BYTES], ids=str)
def test_matrices_in_registers_are_right(case: Case) -> None:
    _, binary = built(case)
    assert binary.scratch == 0
    assert wrong(case, binary) == ""


@needs_tools
@pytest.mark.parametrize("seed", [0, 105, 115, 167, 46, 296])
def test_random_programs_are_right(seed: int) -> None:
    """Products, loops, branches, components, reductions, columns that are spread, and matrices that are transposed.

    The fourth one has a second factor that is computed, the last ones have columns in another order in registers.
    """
    assert wrong_arrays(DpasFragmentProgram(seed)) == []


#: Two loops, one after the other, that run if one condition holds.
TWO_LOOPS = """
%v1 = cooperative_matrix_construct 1 : $C
%v2 = for %k = %first, %inner, 16 init(%c=%v1) -> ($C) { %a = cooperative_matrix_load.both_checked %xf16[12, %k] : $A
  %b = cooperative_matrix_load.both_checked %xf16[%k, 35] : $B %d = cooperative_matrix_mul_add %a, %b, %c : $C
  %e = max %d, %c : $C yield (%e) }
%v3 = for %k = %first, %inner, 16 init(%c=%v1) -> ($C) { %a = cooperative_matrix_load.both_checked %xf16[40, %k] : $A
  %b = cooperative_matrix_load.both_checked %xf16[%k, 44] : $B %d = cooperative_matrix_mul_add %a, %b, %c : $C
  %e = max %d, %c : $C yield (%d) }
cooperative_matrix_store.both_checked %v3, %zf32[0, %o]
%v8 = cast %v2 : coopmatrix<f16x16x8,matrix_acc>
cooperative_matrix_store %v8, %zf16[32, %o]
""".replace("$A", "coopmatrix<f16x16x16,matrix_a>").replace("$B", "coopmatrix<f16x16x8,matrix_b>").replace(
    "$C", "coopmatrix<f32x16x8,matrix_acc>")


#: Components of matrices that are computed by instructions on two registers: of sums where they are, columns, numbers
#: of the sub-group and known ones, known ones first and last, and with all operands known or equal.
COMPONENTS = """
%t = cast %s : $t  %u = constant 3 : $t
%v1 = cooperative_matrix_construct 1 : $C
%a = cooperative_matrix_load %x$f[12, 8] : $A
%b = cooperative_matrix_load %x$f[16, 35] : $B
%v2 = cooperative_matrix_mul_add %a, %b, %v1 : $C
%v3 = cooperative_matrix_apply (%i, %j, %x)=%v2 -> $C {
  %x1 = sub 5, %x : $t %x2 = sub %x1, 7 : $t %x3 = sub %x2, %t : $t %x4 = sub %u, %x3 : $t yield (%x4) }
%v4 = cooperative_matrix_reduce_max.row %v2 : $column
%v5 = cast %v4 : $spread
%to = constant 1 : $row
%v6 = cooperative_matrix_mul_add %v5, %to, %v1 : $C
%v7 = sub %v6, %v2 : $C
%v8 = cooperative_matrix_apply (%i, %j, %x, %y, %z)=%v7,%v6,%v1 -> $C {
  %y1 = min %x, %x : $t %y2 = max %y1, %y : $t %y3 = add %z, %z : $t $more yield (%y4) }
%v9 = max %v1, %v2 : $C
%v10 = cooperative_matrix_reduce_add.row %v9 : $column
%v11 = cooperative_matrix_reduce_min.row %v6 : $column
%v12 = sub %v1, %v1 : $C
cooperative_matrix_store %v3, %z$t[0, %o]
cooperative_matrix_store %v8, %z$t[32, %o]
cooperative_matrix_store %v7, %z$t[64, %o]
"""
COLUMNS = """
cooperative_matrix_store %v10, %z$t[0, %o]
cooperative_matrix_store %v11, %z$t[32, %o]
cooperative_matrix_store %v12, %z$t[64, %o]
"""


@needs_tools
@pytest.mark.parametrize("stored", [0, 1])
@pytest.mark.parametrize(("factor", "sum", "more"), [
    ("f16", "f32", "%w1 = math.fma 2, %y3, %t : f32 %w2 = math.fma %y2, %w1, 4 : f32 %w3 = mul %w2, %w2 : f32 "
                   "%w4 = min %z, 3 : f32 %w5 = exp2 %w4 : f32 %y4 = sub %w5, %w3 : f32"),
    ("i8", "i32", "%w1 = sub %y3, %y2 : i32 %w2 = max -4, %w1 : i32 %y4 = add %w2, %t : i32"),
])
def test_components_are_computed_two_registers_at_a_time(factor: str, sum: str, more: str, stored: int) -> None:
    program, k = DpasFragmentProgram(0), 32 if factor == "i8" else 16
    inner = next(place for place, line in enumerate(program.lines) if line.startswith("%first"))
    lines = COMPONENTS if not stored else COMPONENTS.partition("cooperative_matrix_store")[0] + COLUMNS
    for name, text in (("$column", f"coopmatrix<{sum}x16x1,matrix_acc>"), ("$more", more), ("$f", factor),
                       ("$spread", f"coopmatrix<{sum}x16x1,matrix_a>"),
                       ("$row", f"coopmatrix<{sum}x1x16,matrix_b>"), ("$t", sum),
                       ("$A", f"coopmatrix<{factor}x16x{k},matrix_a>"), ("$C", f"coopmatrix<{sum}x16x16,matrix_acc>"),
                       ("$B", f"coopmatrix<{factor}x{k}x16,matrix_b>")):
        lines = lines.replace(name, text)
    program.lines[inner + 1 :] = lines.splitlines()
    assert wrong_arrays(program) == []


#: Factors that do not fit in registers as wholes, each multiplied once.
LARGE = """
%v1 = cooperative_matrix_load %xf32[3, 5] : coopmatrix<f32x32x32,matrix_acc>
%a = cooperative_matrix_load.$A.both_checked %xbf16[4, 12] : coopmatrix<bf16x32x128,matrix_a>
%b = cooperative_matrix_load.$B.both_checked %xbf16[8, 4] : coopmatrix<bf16x128x32,matrix_b>
%v2 = cooperative_matrix_mul_add %a, %b, %v1 : coopmatrix<f32x32x32,matrix_acc>
cooperative_matrix_store.t %v2, %zf32[0, %o]
"""


@needs_tools
@pytest.mark.parametrize("letters", ["nn", "nt", "tn"])
def test_factors_that_are_loaded_by_parts_are_right(letters: str) -> None:
    program = DpasFragmentProgram(0)
    inner = next(place for place, line in enumerate(program.lines) if line.startswith("%first"))
    program.lines[inner + 1 :] = LARGE.replace("$A", letters[0]).replace("$B", letters[1]).splitlines()
    assert wrong_arrays(program) == []


#: What is done with random queries and keys.
SCORES: dict[str, Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]] = {
    "plain": lambda q, k: (q, k),
    "large": lambda q, k: (20 * q, 4 * k),
    "equal": lambda q, k: (0 * q + 1, 0 * k + 1),
    "negative": lambda q, k: (4 * np.abs(q), -8 * np.abs(k)),
    # Those of later blocks are larger by far.
    "rising": lambda q, k: (np.abs(q), 2 * np.abs(k) * (np.arange(k.shape[1])[:, None] - 12)),
}


def attention(length: int, queries: int, keys: int, dimension: int, scores: str = "plain", again: bool = True) -> float:
    """Return the largest error of the flash attention of the examples on the machine, of a head of so many vectors.

    Work-groups are along one axis only: the machine does not know divisions of their numbers.  Sums that grow too large
    are made `again`, as they are in the example, or not.
    """
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "flash_attention.py"))
    source = example["SOURCE"].replace("%head = group_id.y", "%head = constant 1")
    if not again:
        source, whole = source.replace(f"less_than %most, {example['MOST']:.1f}", "greater_than %most, 0.0"), source
        assert source != whole
    kernel = tl_dpnp.compile(source, cache=False, define={
        "factor": "bf16", "queries": queries, "keys": keys, "dimension": dimension})
    program = kernel.compile_offline("pvc")
    assert "are in registers" in program.remarks[0]
    assert program.resources.scratch == 0
    random, heads, memory = np.random.default_rng(3), 2, global_memory()
    drawn = [random.standard_normal((heads, length, dimension), "f4") for _ in range(3)]
    factors = [bf16_of(array.astype("f4")) for array in (*SCORES[scores](*drawn[:2]), drawn[2])]
    result = np.full((heads, length, dimension), 7, "f4")
    places = [memory.place(str(number), array) for number, array in enumerate((*factors, result))]
    described = [number for place in places for number in (place, length, heads, length * dimension)]
    blocks = -(-length // queries)
    scale = math.log2(math.e) * dimension ** -0.5
    run(binary_of(program), [scale, *described, blocks, 1, 0], memory, (1, blocks, 1), 3)
    q, k, v = (f32_of_bf16(array).astype("f8") for array in factors)
    exponents = q @ k.swapaxes(1, 2) * dimension ** -0.5
    weights = np.exp(exponents - exponents.max(axis=2, keepdims=True))
    expected = weights @ v / weights.sum(axis=2, keepdims=True)
    found = memory.content(places[3], result.nbytes).view("f4").reshape(result.shape)
    assert (found[0] == 7).all()
    return float(np.abs(found[1] - expected[1]).max())


@needs_tools
@pytest.mark.parametrize(("sizes", "scores"), [
    ((40, 16, 32, 32), "plain"), ((33, 24, 16, 32), "large"), ((33, 16, 16, 64), "rising"),
    ((37, 16, 32, 64), "negative"), ((40, 16, 16, 128), "rising"),
])
def test_flash_attention_is_right(sizes: tuple[int, int, int, int], scores: str) -> None:
    """Sums are made again where scores of later blocks are larger by far, as random ones of large vectors are."""
    assert attention(*sizes, scores) < 2e-2


@needs_tools
def test_sums_that_overflow_are_seen() -> None:
    assert not attention(33, 16, 16, 64, "rising", again=False) < 1


@needs_tools
def test_what_registers_are_defined_by_is_not_copied() -> None:
    program = DpasFragmentProgram(0)
    inner = next(place for place, line in enumerate(program.lines) if line.startswith("%first"))
    program.lines[inner + 1 :] = TWO_LOOPS.splitlines()
    assert wrong_arrays(program) == []


@needs_tools
@pytest.mark.parametrize(("sizes", "padding", "offset"), [
    ((33, 9, 50), (3, 6, 2), 2), ((32, 16, 32), (0, 0, 0), 0),  # by messages
    ((33, 9, 50), (0, 1, 0), 0), ((40, 17, 40), (8, 8, 8), 1), ((8, 8, 8), (0, 0, 0), 0),  # which these do not take
])
def test_any_sizes_strides_and_addresses_are_right(sizes, padding, offset) -> None:
    _, binary = built(GEMM)
    assert wrong(replace(GEMM, sizes=sizes, padding=padding, offset=offset), binary) == ""


@needs_tools
def test_a_dpas_that_is_missing_or_takes_another_fragment_is_seen() -> None:
    _, binary = built(GEMM)
    assert wrong(GEMM, binary) == ""
    for place in _spread(_places(binary, r"^\(?.*dpas")):
        for change in (lambda _: "nop", *(_shifted(operand, 8) for operand in (2, 3))):
            assert wrong(GEMM, _changed(binary, place, change))


@needs_tools
def test_a_place_that_is_missing_in_a_header_is_seen() -> None:
    """Headers are made in front of the loop, in which each is moved on to the place of its block."""
    _, binary = built(GEMM)
    assert wrong(GEMM, binary) == ""
    places = [entry.place for entry in inner_loop(assembly.parse(binary.assembly))
              if entry.name == "add" and re.match(r"\(32\|M0\)\s.*<0;16,1>:d", entry.rest)]
    assert len(places) == 4  # each moves two headers
    for place in places:
        assert wrong(GEMM, _changed(binary, place, lambda _: "nop")), f"{place:04X}"
