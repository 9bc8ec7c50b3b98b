"""Cooperative matrices in the registers of sub-groups with DPAS, emulated on the CPU, against the interpreter."""

from __future__ import annotations

import copy
import functools
import os
import re
from dataclasses import replace

import numpy as np
import pytest

import tl_dpnp
from tests.runtime.test_dpas_blocks import placed
from tests.strategies.dpas_fragments import DpasFragmentProgram
from tl_dpnp.errors import UnsupportedError
from tl_dpnp.kernels.dpas import factor_loads
from tl_dpnp.language import ops, parse
from tl_dpnp.language.interpreter import interpret
from tl_dpnp.lowering import coalescing
from tl_dpnp.lowering.body import dpas_fragments
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt

#: How many random programs.
COUNT = int(os.environ.get("TL_DPNP_TEST_DPAS_FRAGMENTS", "4"))
#: The sizes of work-groups, with sub-groups of 16 and of 8 work-items.
LAYOUTS = {16: (48, 2), 8: (24, 2)}

#: Products with the place of their operands as parameters; what lies outside is 0, or not stored.
MOVED = """
func @f(%x: memref<bf16x?x?,strided<1,?>>, %y: memref<bf16x?x?,strided<1,?>>, %z: memref<f32x?x?,strided<1,?>>,
        %i: index, %j: index, %k: index) {
  %e = constant 2 : index  %row = mul %i, %e : index  %first = mul %k, %e : index
  parallel {
    %Z = cooperative_matrix_load.both_checked %z[%i, %j] : coopmatrix<f32x32x8,matrix_acc>
    %A = cooperative_matrix_load.both_checked %x[%row, %k] : coopmatrix<bf16x32x32,matrix_a>
    %B = cooperative_matrix_load.both_checked %y[%first, %j] : coopmatrix<bf16x32x8,matrix_b>
    %C = cooperative_matrix_mul_add %A, %B, %Z : coopmatrix<f32x32x8,matrix_acc>
    %D = cooperative_matrix_mul_add %A, %B, %C : coopmatrix<f32x32x8,matrix_acc>
    %E = sub %D, %Z : coopmatrix<f32x32x8,matrix_acc>
    %F = add %E, %C : coopmatrix<f32x32x8,matrix_acc>
    cooperative_matrix_store.both_checked %F, %z[%i, %j]
  }
}
"""


#: The same, where matrices are transposed in memory.
TURNED = MOVED.replace("load.", "load.t.").replace("store.", "store.t.").replace(
    "%x[%row, %k]", "%x[%first, %i]").replace("%y[%first, %j]", "%y[%row, %k]")


def sized(source, lanes):
    (function,) = parse(source)
    # Where sub-groups do not differ, there is one.
    layout = LAYOUTS[lanes] if "subgroup" in source else (lanes, 1)
    return replace(function, work_group_size=layout, subgroup_size=lanes)


def compiled(source, lanes):
    return tl_dpnp.compile(ops.Module((sized(source, lanes),)), emulate_dpas=lanes, cache=False)


def disagreements(program, lanes):
    """Return which arrays are computed otherwise than by the interpreter, with the same work-items.

    None where the matrices are not in registers, which have no room for all programs, nor has local memory.
    """
    kernel, arguments = compiled(program.source, lanes), program.arguments()
    expected, found = copy.deepcopy(arguments), [dpt.asarray(array) for array in arguments]
    interpret(sized(program.source, lanes), expected, (1, 1, 1), order_seed=0)
    try:
        kernel(*found)
    except UnsupportedError as error:
        if "bytes of local memory" not in str(error):
            raise
        return None
    wrong = [place for place, pair in enumerate(zip(map(dpt.to_numpy, found), expected, strict=True))
             if not np.array_equal(*pair)]
    return wrong if "are in registers" in kernel.diagnostics(2) else wrong or None


@pytest.mark.drawn(count=2)
@pytest.mark.parametrize("seed", range(COUNT))
def test_random_programs_agree_with_the_interpreter(seed):
    assert disagreements(DpasFragmentProgram(seed), 16) in ([], None)


def test_second_factors_that_are_computed_agree_with_the_interpreter():
    program = DpasFragmentProgram(167)
    (factor,) = re.findall(r"(%\w+) = cast .*f16x\w+,matrix_b>", program.source)
    assert re.search(rf"mul_add %\w+, {factor},", program.source)
    assert disagreements(program, 16) == []


def test_sub_groups_without_messages_of_blocks_agree_with_the_interpreter():
    assert disagreements(DpasFragmentProgram(6), 8) is None


@pytest.fixture(scope="module", params=[MOVED, TURNED], ids=["moved", "turned"])
def moved(request):
    kernel = compiled(request.param, 16)
    assert "are in registers" in kernel.diagnostics(2)
    return kernel, request.param


def operands():
    numbers = np.random.default_rng(2)
    x, y = ((numbers.integers(-3, 4, shape).astype("f4").view("u4") >> 16).astype("u2")
            for shape in ((72, 60), (64, 40)))
    return x, y, numbers.integers(-9, 10, (68, 40)).astype("f4")


@functools.cache
def interpreted(source, place):
    """Return what the interpreter leaves in the result, which no stride and no address changes."""
    expected = [np.asfortranarray(array) for array in operands()]
    interpret(sized(source, 16), [*expected, *place], (1, 1, 1), order_seed=0)
    return expected[2]


def check(kernel, place, gaps=(0, 0, 0), by=0, source=MOVED):
    """Compare what a kernel computes with the interpreter, and that nothing else has changed."""
    x, y, z = operands()
    (a, _), (b, _), (c, whole) = (placed(array, gap, by) for array, gap in zip((x, y, z), gaps, strict=True))
    kernel(a, b, c, *place)
    np.testing.assert_array_equal(dpt.to_numpy(c), interpreted(source, place), str(place))
    around = np.ones(whole.size, bool)
    around[by : by + 40 * (68 + gaps[2])].reshape(40, 68 + gaps[2])[:, :68] = False
    assert (dpt.to_numpy(whole)[around] == 77).all()


@pytest.mark.parametrize(("gaps", "by"), [((0, 0, 0), 0), ((16, 4, 6), 2), ((3, 16, 16), 0), ((16, 16, 16), 1)])
def test_places_strides_and_addresses_known_at_the_call(moved, gaps, by):
    """Messages take some of them; for others, and for places that are negative, there are other loops."""
    for place in ((0, 0, 0), (16, 30, 4), (40, 39, 31), (-6, 4, 8), (4, -7, 6), (0, 8, -20), (2**40, 3, 0),
                  (2, 2**33, 0), (8, 8, 2**33)):
        check(moved[0], place, gaps, by, moved[1])


@pytest.mark.parametrize(("module", "name", "planted"), [
    # Sums share registers while both live; parts of a factor are loaded from its first element on; a fragment is
    # another one's.
    (coalescing, "_meet", lambda one, other: False),
    (factor_loads, "_header", lambda messages, surface, block, place, moved, *moving: messages.header(
        surface, block, *place)),
    (dpas_fragments, "unbroadcast", lambda fragments: dict.fromkeys(fragments, fragments[min(fragments)])),
])
def test_planted_errors_are_seen(module, name, planted, monkeypatch):
    monkeypatch.setattr(module, name, planted)
    with pytest.raises(AssertionError, match="Arrays are not equal"):
        check(compiled(MOVED, 16), (0, 4, 4))
