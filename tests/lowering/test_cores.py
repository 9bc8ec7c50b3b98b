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
from tl_dpnp.lowering.tiling import most_columns, vector_tiling, vector_width
from tl_dpnp.scalars import F32, F64
from tl_dpnp.target.catalog import AVX2, CORES, INTEL_CLIENT, INTEL_SERVER, SSE, ZEN4, ZEN5, core_of

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
    assert tiling.vectors * tiling.columns <= core.registers
    assert 1 <= tiling.unroll <= max(4, k)


@given(st.sampled_from([*CORES.values()]), st.integers(1, 7))
def test_most_columns_leave_room_for_broadcasts(core, height):
    columns = most_columns(height, core)
    if height > 1:
        assert height * columns + columns + 1 <= core.registers


def test_a_tile_is_as_fast_as_what_it_waits_for():
    core = replace(ZEN4, multiply_adds=2, loads=2, load_bytes=64, load_share=1.0, latency=4)
    bound_by_products, bound_by_loads, bound_by_latency = core.cycles(4, 6), core.cycles(1, 16), core.cycles(1, 2)
    np.testing.assert_allclose([bound_by_products, bound_by_loads, bound_by_latency], [12.5, 9.35, 4.15])


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
