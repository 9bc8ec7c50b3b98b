"""What is chosen for the cores of the catalogue, whichever machine this is."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lowering.support import gemm
from tl_dpnp.lowering.contraction import Contraction
from tl_dpnp.lowering.nest import leaves
from tl_dpnp.lowering.tactics.strided import strided_tiling
from tl_dpnp.lowering.tactics.vectors import vector_schedule
from tl_dpnp.lowering.tile_cycles import TileCycles, most_columns, vector_width
from tl_dpnp.lowering.tiling import vector_tiling
from tl_dpnp.scalars import F32, F64
from tl_dpnp.target.catalog import AVX2, CORES, INTEL_CLIENT, INTEL_SERVER, SSE, ZEN4, ZEN5, core_of
from tl_dpnp.target.core import Core, Shared

size = st.integers(1, 140)
INTEL, AMD = {"vendor_id": "GenuineIntel"}, {"vendor_id": "AuthenticAMD"}


@pytest.mark.parametrize(("facts", "vector_bytes", "core"), [
    (INTEL | {"cpu family": "6", "model": "143", "flags": "fpu amx_tile"}, 64, INTEL_SERVER),
    # A hypervisor that tells the model of a client.
    (INTEL | {"cpu family": "6", "model": "167", "flags": "fpu amx_tile"}, 64, INTEL_SERVER),
    (INTEL | {"cpu family": "6", "model": "85", "flags": "fpu"}, 64, INTEL_SERVER),
    (INTEL | {"cpu family": "6", "model": "167", "flags": "fpu"}, 64, INTEL_CLIENT),
    (AMD | {"cpu family": "25", "model": "17"}, 64, ZEN4),
    (AMD | {"cpu family": "26", "model": "2"}, 64, ZEN5),
    (INTEL | {"cpu family": "6", "model": "143", "flags": "fpu amx_tile"}, 32, AVX2),
    (AMD | {"cpu family": "25"}, 16, SSE),
    ({}, 64, ZEN4),
])
def test_the_core_of_a_processor(facts, vector_bytes, core):
    assert core_of(facts, vector_bytes) is core


@given(st.sampled_from([*CORES.values()]), size, size, size, st.sampled_from([F32, F64]))
@settings(max_examples=300, deadline=None)
def test_tiles_fit_the_registers(core, m, n, k, element):
    contraction = gemm(m, n, k, element=element)
    tiling = vector_tiling(contraction, core)
    assert 1 <= tiling.vectors <= -(-m // vector_width(contraction, core))
    assert 1 <= tiling.columns <= n
    estimate = TileCycles.of(contraction, core)
    if estimate.across is not None and estimate.shares((tiling.vectors, tiling.columns)):
        assert core.registers_across(tiling.columns, estimate.across) <= core.registers
    else:
        assert tiling.vectors * tiling.columns <= core.registers
    assert 1 <= tiling.unroll <= max(4, k)


@given(st.sampled_from([*CORES.values()]), st.integers(1, 7))
def test_most_columns_leave_room_for_broadcasts(core, height):
    columns = most_columns(height, core)
    if height > 1:
        assert height * columns + min(height, columns) + 1 <= core.registers


@pytest.mark.parametrize(("core", "tiles"), [
    # What kernels of BLIS and libxsmm have: of 24 of 32 registers, and of 12 of 16.
    (INTEL_SERVER, [(2, 12), (3, 8), (4, 6)]), (ZEN5, [(2, 12), (3, 8), (4, 6)]), (AVX2, [(2, 6), (3, 3)]),
])
def test_sums_take_three_quarters_of_the_registers(core, tiles):
    assert [(height, most_columns(height, core)) for height, _ in tiles] == tiles


def test_a_tile_is_as_fast_as_what_it_waits_for():
    core = replace(ZEN4, multiply_adds=2, loads=2, load_bytes=64, load_share=1.0, latency=4)
    bound_by_products, bound_by_loads, bound_by_latency = core.cycles(4, 6), core.cycles(1, 16), core.cycles(1, 2)
    np.testing.assert_allclose([bound_by_products, bound_by_loads, bound_by_latency], [12.5, 9.35, 4.15])


@pytest.mark.parametrize(("core", "sizes", "element", "shares"), [
    # Beside whole vectors the rows of several columns fill what would be a vector for each.
    (ZEN5, (17, 48, 64), F32, True), (ZEN5, (67, 49, 69), F32, True), (ZEN5, (25, 48, 64), F64, True),
    # Alone they save loads, too, if those of B are for several steps of the sum.
    (ZEN5, (7, 13, 51), F32, True), (ZEN5, (4, 63, 22), F64, True), (AVX2, (4, 58, 64), F32, True),
    (ZEN5, (4, 4, 4), F32, True), (ZEN5, (8, 8, 8), F32, True), (INTEL_SERVER, (4, 60, 60), F32, True),
    # A short sum with a step left over, whose elements are put together one by one, saves little.
    (ZEN5, (3, 40, 5), F64, False),
    # A row that is higher than half a vector has one to itself.
    (ZEN5, (9, 48, 64), F32, False), (AVX2, (7, 48, 64), F32, False),
    # Two columns in a vector save as many multiply-adds as they take shuffles, where elements of B wait for nothing.
    (INTEL_SERVER, (8, 60, 60), F32, False),
    # A shuffle takes as long as the multiply-add that it saves, but a single row has a vector to itself.
    (INTEL_SERVER, (67, 49, 69), F32, False), (INTEL_SERVER, (17, 48, 64), F32, True),
])
def test_rows_that_are_left_over_share_vectors_where_that_is_faster(core, sizes, element, shares):
    contraction = gemm(*sizes, element=element)
    tiling = vector_tiling(contraction, core)
    assert TileCycles.of(contraction, core).shares((tiling.vectors, tiling.columns)) == shares


@given(st.sampled_from([*CORES.values()]), size, size, size, st.sampled_from([F32, F64]), st.booleans())
@settings(max_examples=300, deadline=None)
def test_the_tile_that_is_chosen_is_no_slower_than_a_smaller_one(core, m, n, k, element, transposed):
    contraction = gemm(m, n, k, element=element, transposes=(False, transposed))
    estimate, tiling = TileCycles.of(contraction, core), vector_tiling(contraction, core)

    if estimate.across is not None and estimate.shares((tiling.vectors, tiling.columns)):
        assert estimate.cycles_across(tiling.columns) <= estimate.cycles_of_columns(1)
        return

    def time(tile: tuple[int, int]) -> float:
        return estimate.cycles(tile, shares=estimate.shares(tile))

    if k >= core.tiles.deep_sum and n > 1:
        assert time((tiling.vectors, tiling.columns)) <= 1.03 * time((1, 1))


def test_vectors_that_are_shared_count_the_columns_that_begin_in_the_one_before():
    assert Shared(4, 16).counts(12) == (3, 9)
    assert Shared(3, 8).counts(8) == (3, 7)
    assert Shared(3, 8, together=True).counts(8) == (3, 3)
    assert (Shared(3, 8).period, Shared(4, 8).period, Shared(6, 16).period) == (3, 1, 3)


@pytest.mark.parametrize("core", CORES.values(), ids=CORES)
def test_choices_for_two_hundred_shapes(core, golden: Callable[[str, str], None], request) -> None:
    draw = random.Random(19)
    ranges = [(3, 24), (16, 64), (48, 130)]
    lines = []
    for _ in range(200):
        m, n, k = (draw.randint(*draw.choice(ranges)) for _ in range(3))
        element = draw.choice([F32, F64])
        contraction = gemm(m, n, k, element=element)
        width = vector_width(contraction, core)
        lines.append(f"{element} {m}x{n}x{k}: {vector_tiling(contraction, core)}, of {width} lanes\n")
    golden(f"tiles.{request.node.callspec.id}.txt", "".join(lines))


def _way(contraction: Contraction, core: Core) -> str:
    """Return how vectors run of a product whose first factor is transposed."""
    ways = {"rfactor": "along the sum", "cache_write": "along columns"}
    steps = {step.primitive for step in vector_schedule(contraction, core).trace}
    return next((way for name, way in ways.items() if name in steps), "along rows")


@pytest.mark.parametrize(("sizes", "element", "way"), [
    # A few columns that need 16 x 56 numbers to be transposed: 1.3 times as fast along the sum.
    ((56, 6, 16), F64, "along the sum"),
    # Lanes are added up 22 times, for four rows each time: 1.4 times as fast along the rows.
    ((4, 122, 61), F32, "along rows"),
])
def test_vectors_run_along_the_sum_where_that_takes_fewer_cycles(sizes, element, way):
    assert _way(gemm(*sizes, element=element, transposes=(True, False)), INTEL_SERVER) == way


@pytest.mark.parametrize("core", CORES.values(), ids=CORES)
def test_choices_for_transposed_factors(core, golden: Callable[[str, str], None], request) -> None:
    draw = random.Random(20)
    ranges = [(3, 24), (16, 64), (48, 130)]
    lines = []
    for _ in range(100):
        m, k = (draw.randint(*draw.choice(ranges)) for _ in range(2))
        n = draw.randint(*draw.choice([(2, 8), (2, 24), (16, 64)]))
        element, transposed = draw.choice([F32, F64]), draw.choice([False, True])
        way = _way(gemm(m, n, k, element=element, transposes=(True, transposed)), core)
        lines.append(f"{element} {m}x{n}x{k} t.{'nt'[transposed]}: vectors {way}\n")
    golden(f"transposed.{request.node.callspec.id}.txt", "".join(lines))


def test_loads_of_copies_meet_one_cache_line():
    """The columns of a copy begin at whole vectors, those of a matrix in memory anywhere."""
    splits = [TileCycles.of(gemm(50, 20, 30, element=F64, transposes=(transposed, False)), INTEL_SERVER).splits
              for transposed in (False, True)]
    assert splits == [True, False]


def test_few_loads_that_meet_two_lines_are_chosen():
    """On Intel's servers 5 columns at a time would read each column of A twice: 2 by 10 is 1.07 times as fast."""
    tiling = vector_tiling(gemm(90, 10, 62, element=F32), INTEL_SERVER)
    assert (tiling.vectors, tiling.columns) == (2, 10)


@pytest.mark.parametrize(("sizes", "element", "most"), [
    ((17, 42, 76), F32, 13), ((17, 55, 98), F32, 13), ((17, 26, 5), F64, 8)])
def test_vectors_of_many_single_elements_leave_a_register_for_their_parts(sizes, element, most):
    """14 columns of f32, or 9 of f64, filled all registers: LLVM wrote some to memory, 1.1 times as long."""
    tiling = vector_tiling(gemm(*sizes, element=element), INTEL_SERVER)
    assert TileCycles.of(gemm(*sizes, element=element), INTEL_SERVER).shares((tiling.vectors, tiling.columns))
    assert tiling.columns <= most


@pytest.mark.parametrize(("sizes", "element", "tile"), [
    # 1.16 times as fast as 3 by 3, and 1.1 times as 2 by 10.
    ((41, 3, 107), F64, (6, 3)), ((35, 20, 90), F64, (5, 5)),
])
def test_tiles_are_as_high_as_few_columns_leave_room_for(sizes, element, tile):
    tiling = vector_tiling(gemm(*sizes, element=element), INTEL_SERVER)
    assert (tiling.vectors, tiling.columns) == tile


@pytest.mark.parametrize(("sizes", "element", "vectors"), [
    # Of four vectors, a copy would be 17 or 29 KB, together with what is copied more than the nearest cache.
    ((118, 6, 69), F32, 2), ((112, 17, 115), F64, 2), ((117, 10, 56), F32, 3),
    # What a copy of all rows has room for; one that is read so often that it does not count.
    ((62, 5, 26), F32, 4), ((128, 117, 115), F64, 4),
])
def test_tiles_with_copies_of_their_own_are_lower(sizes, element, vectors):
    contraction = gemm(*sizes, element=element, transposes=(True, False))
    assert strided_tiling(contraction, INTEL_SERVER).vectors == vectors
    assert vector_tiling(contraction, INTEL_SERVER).vectors == 4
    assert vector_tiling(contraction, INTEL_SERVER, vectors).vectors <= vectors


@pytest.mark.parametrize("core", [ZEN5, INTEL_SERVER, AVX2], ids=str)
@pytest.mark.parametrize(("rows", "beta", "by_columns"), [
    (51, 0.0, True), (46, 0.0, True), (64, 0.0, False), (51, 1.0, False)])
def test_columns_that_begin_inside_a_line_are_stored_one_after_the_other(core, rows, beta, by_columns):
    """Of three columns of 51 f64 that are stored row by row each line of the cache is written twice: 1.4 times as long.

    Where C is read, loads would wait for the stores of the column before: up to three times as long.
    """
    nest = vector_schedule(gemm(rows, 3, 6, beta=beta, element=F64), core).nest
    stores = [leaf for leaf in leaves(nest.body) if leaf.assign.target.buffer.name == "C"]
    kinds = [[loop.kind for loop in leaf.loops if loop.kind != "serial"] for leaf in stores]
    whole = [found for found in kinds if set(found) == {"vectorized", "unrolled"}]
    assert whole
    assert all((found[-1] == "vectorized") == by_columns for found in whole)


@pytest.mark.parametrize(("vectors", "tile"), [
    (2, (2, 6)), (3, (3, 4)), (4, (4, 3)), (5, (5, 3)), (6, (6, 2)), (7, (3, 4)), (8, (4, 3)), (9, (3, 4)),
    (15, (5, 3))])
def test_tiles_of_short_sums_cut_the_rows_evenly(vectors, tile):
    """4 vectors in two tiles of 2 took 1.1 times as long."""
    assert INTEL_SERVER.tiles.short_tile.of(vectors) == tile


@pytest.mark.parametrize(("m", "n", "k", "element"), [
    (108, 35, 7, F32), (53, 19, 4, F64), (26, 127, 7, F64), (16, 30, 8, F64)])
def test_short_sums_have_small_tiles_where_the_core_says_so(m, n, k, element):
    terms = INTEL_SERVER.tiles.short_tile.terms
    assert k <= terms
    tiling = vector_tiling(gemm(m, n, k, element=element), INTEL_SERVER)
    height, most = INTEL_SERVER.tiles.short_tile.of(-(-m * element.bytes // 64))
    assert tiling.vectors == height
    assert tiling.columns <= most
    others = replace(INTEL_SERVER, tiles=replace(INTEL_SERVER.tiles, short_tile=None))
    for changed in ({"beta": 1.0}, {"k": terms + 1}):
        contraction = gemm(**{"m": m, "n": n, "k": k, "element": element} | changed)
        assert vector_tiling(contraction, INTEL_SERVER) == vector_tiling(contraction, others)
        assert vector_tiling(contraction, others).columns * vector_tiling(contraction, others).vectors > height * most
