"""Products of 16-bit elements whose factors are packed in shared memory: which have the form, and their results."""

from __future__ import annotations

import contextlib
import random

import pytest

import tl_dpnp
from tests.cuda.test_spread import check, on_device
from tests.cuda.test_tiled import TRANSPOSES, source
from tests.cuda.test_variants import bound, compilations  # noqa: F401
from tl_dpnp.lowering.device import H200
from tl_dpnp.runtime.cuda.arrays import cuda_device

TYPES = [("bf16", "f32"), ("bf16", "bf16"), ("f16", "f16"), ("f16", "f32")]


def packed(types, transposes, sizes, beta="0.0", form="packed"):
    text = source(*types, transposes, "1.0", beta, sizes=sizes, batched="ABC")
    return tl_dpnp.compile(text, target="cuda", form=form, cache=False)


@pytest.mark.parametrize("transposes", TRANSPOSES)
@pytest.mark.parametrize("types", TYPES, ids="-".join)
def test_products_that_have_no_room_as_a_whole_are_divided(types, transposes):
    """Parts have 16 columns or more, all as many but for the last one."""
    draw = random.Random(f"{types} {transposes}")
    found = 0
    while found < 2:
        m, n, k = (draw.randint(65, 200) for _ in "mnk")
        try:
            lowered = packed(types, transposes, (m, n, k), draw.choice(("0.0", "1.0"))).lower(H200)
        except tl_dpnp.LoweringError:
            continue  # what all parts need has no room either
        assert lowered.plan.local_memory <= H200.local_memory
        assert lowered.plan.form == "packed"
        if lowered.plan.parts > 1:
            found += 1
            assert -(-n // lowered.plan.parts) >= 16


@pytest.mark.parametrize(("transposes", "sizes"), [
    ("n.n", (240, 173, 206)), ("t.n", (186, 165, 233)), ("n.t", (248, 238, 150)), ("t.t", (172, 238, 213)),
])
def test_stages_are_filled_again_where_sums_are_added_to_16_bits(transposes, sizes):
    """What has room with pieces of the factors only, or has fewer parts so."""
    lowered = packed(("f16", "f16"), transposes, sizes, "1.0").lower(H200)
    assert "fills of a stage" in lowered.mapping
    assert lowered.plan.local_memory <= H200.local_memory
    for types, beta in ((("f16", "f32"), "1.0"), (("f16", "f16"), "0.0")):
        with contextlib.suppress(tl_dpnp.LoweringError):  # there may be no room
            assert "fills of a stage" not in packed(types, transposes, sizes, beta).lower(H200).mapping


@pytest.mark.parametrize("sizes", [(8, 8, 8), (30, 30, 30), (64, 64, 64), (3, 200, 5)])
def test_what_memory_bounds_is_not_packed(sizes):
    assert packed(("bf16", "bf16"), "n.n", sizes, form=None).lower(H200).plan.form == "staged"


@pytest.mark.parametrize(("sizes", "transposes", "form"), [
    ((120, 246, 182), "n.t", "blocked"), ((72, 66, 216), "n.n", "tiled"), ((157, 171, 107), "n.n", "packed"),
    ((64, 64, 64), "n.n", "staged"), ((150, 130, 166), "n.t", "packed"),
])
def test_batches_have_the_form_with_the_fewest_cycles(compilations, sizes, transposes, form):  # noqa: F811
    """Of what was measured in all forms, each of these is the fastest in this one, or by less than a tenth slower."""
    m, n, k = sizes
    kernel = packed(("bf16", "bf16"), transposes, sizes, "1.0", form=None)
    none = dict.fromkeys("ABC", 0)
    b = (n, k) if transposes == "n.t" else (k, n)
    call = bound(kernel, {"A": (m, k), "B": b, "C": (m, n)}, none, none, 5000)
    assert kernel.prepare(call, cuda_device(0)).form == form


@pytest.mark.parametrize(("types", "transposes", "sizes"), [
    (("bf16", "bf16"), "t.n", (95, 126, 240)), (("bf16", "f32"), "n.t", (139, 82, 231)),
    *((TYPES[seed % 4], TRANSPOSES[seed // 4], tuple(random.Random(f"{seed} large").randint(65, 256) for _ in "mnk"))
      for seed in range(16)),
])
def test_large_products_run_on_tensor_cores(types, transposes, sizes):
    """Also those of which two stages have room, but not beside results."""
    lowered = packed(types, transposes, sizes, form=None).lower(H200)
    assert "m16n8k16" in lowered.mapping or "m64n" in lowered.mapping


def test_columns_that_tensor_maps_do_not_take_have_no_tiles():
    """What is known of the distances of columns rules the tiled form out before there is a call."""
    lowered = packed(("bf16", "bf16"), "n.n", (193, 231, 255), form=None).lower(H200)
    assert lowered.plan.form != "tiled"
    with pytest.raises(tl_dpnp.LoweringError, match="cannot run in the tiled form"):
        packed(("bf16", "bf16"), "n.n", (193, 231, 255), form="tiled").lower(H200)


@pytest.mark.parametrize(("types", "batched"), [(("bf16", "bf16"), "BC"), (("f32", "f32"), "ABC")])
def test_other_products_are_refused(types, batched):
    """One factor that all work-groups read, and other types."""
    text = source(*types, sizes=(90, 100, 80), batched=batched)
    with pytest.raises(tl_dpnp.LoweringError, match="cannot run in the packed form on NVIDIA H200"):
        tl_dpnp.compile(text, target="cuda", form="packed").lower(H200)


def test_a_matrix_times_itself_is_not_packed():
    """The zeros behind the end of the sum would be needed behind rows and behind columns of one copy."""
    matrix = "bf16x97x97"
    text = f"""func @square(%A: memref<{matrix}x?>, %C: memref<{matrix}x?>) {{
      %g = group_id
      %a = subview %A[:,:,%g] : memref<{matrix}x?>
      %c = subview %C[:,:,%g] : memref<{matrix}x?>
      gemm.n.n 1.0, %a, %a, 0.0, %c : bf16, memref<{matrix}>, memref<{matrix}>, bf16, memref<{matrix}>
    }}"""
    assert tl_dpnp.compile(text, target="cuda", cache=False).lower(H200).plan.form != "packed"
    with pytest.raises(tl_dpnp.LoweringError, match="cannot run in the packed form"):
        tl_dpnp.compile(text, target="cuda", form="packed").lower(H200)


@pytest.mark.parametrize(("types", "groups", "form"), [
    (("f16", "f16"), 132, "blocked"), (("f16", "f16"), 133, "packed"), (("bf16", "f32"), 1, "blocked"),
    (("bf16", "f32"), 5000, "packed"), (("f32", "f32"), 133, "blocked"),
])
def test_few_products_are_those_of_blocks(compilations, types, groups, form):  # noqa: F811
    """Of products that would be divided, where each multiprocessor has one at most, clusters share the sums."""
    sizes = 157, 171, 107
    kernel = packed(types, "n.n", sizes, form=None)
    m, n, k = sizes
    none = dict.fromkeys("ABC", 0)
    call = bound(kernel, {"A": (m, k), "B": (k, n), "C": (m, n)}, none, none, groups)
    assert kernel.prepare(call, cuda_device(0)).form == form


# --- on a device -----------------------------------------------------------------------------------------------------


@on_device
@pytest.mark.parametrize("transposes", TRANSPOSES)
@pytest.mark.parametrize("types", TYPES, ids="-".join)
def test_products_of_all_sizes(types, transposes):
    """Whole ones and parts, of odd and even sizes, from addresses that the copy engine takes and others."""
    draw = random.Random(f"{types} {transposes} sizes")
    counts = set()
    for number in range(8):
        sizes = tuple(draw.randint(50, 220) for _ in "mnk")
        beta = draw.choice((0.0, 1.0, -0.5))
        try:
            kernel = packed(types, transposes, sizes, str(beta))
            counts.add(kernel.lower(H200).plan.parts)
        except tl_dpnp.LoweringError:
            continue
        for groups, displaced in ((draw.randint(1, 40), draw.randint(0, 9)), (draw.randint(133, 160), 0)):
            check(kernel, types, transposes, sizes, beta, groups, displaced, number)
    assert len(counts) > 1


@on_device
@pytest.mark.parametrize("transposes", TRANSPOSES)
@pytest.mark.parametrize("remainder", range(1, 17))
def test_all_remainders_of_tiles(transposes, remainder):
    """Sums end anywhere in a tile, and so do rows and columns."""
    sizes = 128 + remainder, 128 + (5 * remainder) % 16, 160 + (3 * remainder) % 16
    kernel = packed(("f16", "f16"), transposes, sizes, "1.0")
    for displaced in (0, 1, 2, 4, 7):
        check(kernel, ("f16", "f16"), transposes, sizes, 1.0, 150, displaced, remainder)


@on_device
@pytest.mark.parametrize("transposes", TRANSPOSES)
def test_stages_that_are_filled_again(transposes):
    draw = random.Random(f"{transposes} twice")
    found = 0
    while found < 4:
        sizes = draw.randint(170, 240), draw.randint(60, 200), draw.randint(170, 240)
        try:
            kernel = packed(("bf16", "bf16"), transposes, sizes, "1.0")
            found += "fills" in kernel.lower(H200).mapping
        except tl_dpnp.LoweringError:
            continue
        for groups, displaced in ((3, 0), (5, 1), (150, 0), (140, 3)):
            check(kernel, ("bf16", "bf16"), transposes, sizes, 1.0, groups, displaced, found)


@on_device
def test_few_and_many():
    sizes = 161, 163, 167
    kernel = packed(("bf16", "bf16"), "t.n", sizes, "1.0", form=None)
    for groups in (1, 40, 300, 1, 132, 133, 300):
        for seed in range(2):
            check(kernel, ("bf16", "bf16"), "t.n", sizes, 1.0, groups, 0, seed)
    assert {signature.form for signature in kernel.signatures} == {"blocked", "packed"}
