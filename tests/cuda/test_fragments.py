"""Cooperative matrices in registers on a CUDA device, against the interpreter."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tests.cuda.programs import LAYOUTS
from tests.cuda.test_matrices import compiled, on_device, wrong_programs
from tests.strategies.fragments import FragmentProgram

#: How many eights of random programs, as in `test_matrices`.
PARTS = int(os.environ.get("TL_DPNP_TEST_CUDA_MATRICES", "3"))

#: Sub-groups copy what all of them multiply to local memory, and wait for one another there.
STAGED = """
func @f(%x: memref<{type}x?x?>, %y: memref<{type}x?x?>, %z: memref<{result}x64x48>)
    work_group_size(64, 3) subgroup_size(32) {{
  %0 = constant 0 : index  %16 = constant 16 : index  %32 = constant 32 : index  %192 = constant 192 : index
  %depth = size %x[1] : index  %n = constant 1024 : index  %m = constant 64 : index
  %a = alloca -> memref<{type}x64x16>
  parallel {{
    %l = subgroup_local_id : i32 %lane = cast %l : index
    %s = subgroup_linear_id : i32 %sub = cast %s : index
    %before = mul %sub, %32 : index %own = add %before, %lane : index
    %sx = subgroup_id.x : i32 %ix = cast %sx : index %i = mul %ix, %32 : index
    %sy = subgroup_id.y : i32 %iy = cast %sy : index %j = mul %iy, %16 : index
    %Z = cooperative_matrix_load %z[%i, %j] : coopmatrix<{result}x32x16,matrix_acc>
    %C = for %k = %0, %depth, %16 init(%c=%Z) -> (coopmatrix<{result}x32x16,matrix_acc>) {{
      for %e = %own, %n, %192 {{
        %row = rem %e, %m : index %column = div %e, %m : index %at = add %column, %k : index
        %v = load %x[%row, %at] : {type}
        store %v, %a[%row, %column]
      }}
      barrier
      %A = cooperative_matrix_load %a[%i, %0] : coopmatrix<{type}x32x16,matrix_a>
      %B = cooperative_matrix_load %y[%k, %j] : coopmatrix<{type}x16x16,matrix_b>
      %d = cooperative_matrix_mul_add %A, %B, %c : coopmatrix<{result}x32x16,matrix_acc>
      barrier
      yield (%d)
    }}
    cooperative_matrix_store %C, %z[%i, %j]
  }}
}}
"""

#: Tiles of a matrix, which are stored, and read again by the same sub-group the other way round.
TILES = """
func @f(%x: memref<f32x?x?>, %y: memref<f32x?x?>) {attributes} {{
  %0 = constant 0 : index %m = size %x[0] : index %n = size %x[1] : index
  foreach_tile (%i, %j) = (%0, %0), (%m, %n) as (%p, %q) <= (32, 16) {{
    %A = cooperative_matrix_load.both_checked %x[%i, %j] : coopmatrix<f32x32x16,matrix_acc>
    %B = cooperative_matrix_scale 2.0, %A : coopmatrix<f32x32x16,matrix_acc>
    cooperative_matrix_store.both_checked %B, %y[%i, %j]
    %C = cooperative_matrix_load.t.both_checked %y[%i, %j] : coopmatrix<f32x16x32,matrix_acc>
    %D = add %C, %C : coopmatrix<f32x16x32,matrix_acc>
    cooperative_matrix_store.t.both_checked %D, %y[%i, %j]
  }}
}}
"""


def arrays(*shapes):
    numbers = np.random.default_rng(1)
    return [np.asfortranarray(numbers.integers(-3, 4, shape).astype(type)) for type, *shape in shapes]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_random_programs_are_in_registers(layout):
    for seed in range(3):
        program = FragmentProgram(seed)
        kernel = compiled(program.source, layout, precision=program.precision)
        (ptx,) = kernel.inspect_ptx().values()
        assert ".shared" not in ptx
        assert "are in registers" in kernel.diagnostics(2)


@on_device
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_random_programs_agree_with_the_interpreter(layout, part):
    assert not wrong_programs(FragmentProgram, part, layout)


@on_device
@pytest.mark.parametrize(("type", "result"), [("float16", "float32"), ("float64", "float64"), ("int8", "int32")])
def test_factors_in_local_memory(type, result):
    names = {"float16": "f16", "float32": "f32", "float64": "f64", "int8": "i8", "int32": "i32"}
    given = arrays((type, 64, 80), (type, 80, 48), (result, 64, 48))
    source = STAGED.format(type=names[type], result=names[result])
    assert not disagreements_as_written(source, given)


@on_device
@pytest.mark.parametrize("attributes", ["", "work_group_size(64, 3)", "work_group_size(64, 3) subgroup_size(32)"])
def test_lanes_see_what_others_of_their_sub_group_stored(attributes):
    assert not disagreements_as_written(TILES.format(attributes=attributes), arrays(
        ("float32", 100, 45), ("float32", 100, 45)))


def disagreements_as_written(source, given):
    """Return which arrays a device computes differently from the interpreter, with the sizes of the source."""
    import copy

    import tl_dpnp
    from tests.cuda.programs import called
    from tl_dpnp.language import parse
    from tl_dpnp.language.interpreter import interpret

    expected, found = copy.deepcopy(given), copy.deepcopy(given)
    (function,) = parse(source)
    interpret(function, expected, (1, 1, 1), order_seed=0)
    kernel = tl_dpnp.compile(source, target="cuda", cache=False)
    called(kernel, found)
    assert "are in registers" in kernel.diagnostics(2)
    return [place for place, pair in enumerate(zip(expected, found, strict=True)) if not np.array_equal(*pair)]
