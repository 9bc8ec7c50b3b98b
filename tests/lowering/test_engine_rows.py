"""Every row of an engine's table is put on a nest, or says why no program is computed by it."""

from __future__ import annotations

import re

import pytest

from tests.cuda.tensorized import scheduled, source
from tl_dpnp.errors import ScheduleError
from tl_dpnp.kernels import simd_rows
from tl_dpnp.kernels.amx import rows as amx
from tl_dpnp.kernels.amx.micro_kernel import TileKernel
from tl_dpnp.kernels.dpas import rows as dpas
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.kernels.mma.rows import ROWS
from tl_dpnp.kernels.mma.sparse import SPARSE_ROWS
from tl_dpnp.kernels.mma.warpgroup import WARPGROUP_ROWS
from tl_dpnp.language import parse
from tl_dpnp.lowering import lower
from tl_dpnp.lowering.canonicalize import canonicalize
from tl_dpnp.lowering.contraction import contractions_of
from tl_dpnp.lowering.device import H200, LoweringOptions
from tl_dpnp.lowering.schedule import Schedule


def product(m: int, n: int, k: int, a: str, b: str, c: str) -> str:
    one = "1" if c == "i32" else "1.0"
    x, y, z = f"memref<{a}x{m}x{k}>", f"memref<{b}x{k}x{n}>", f"memref<{c}x{m}x{n}>"
    return f"func @f(%A: {x}, %B: {y}, %C: {z}) {{ gemm.n.n {one}, %A, %B, {one}, %C : {c}, {x}, {y}, {c}, {z} }}"


def plain(text: str) -> Schedule:
    ((_, contraction),) = contractions_of(canonicalize(parse(text).functions[0]))
    return Schedule(contraction.nest)


def schedule_on_dpas(row: dpas.DpasRow) -> Schedule:
    """Return the schedule of a product of the row's types and of a tile's size."""
    # The language's A is the second source of DPAS, B the first.
    a, b = row.source1.name, row.source2.name
    is_rounded = a == "tf32"
    kernel = MicroKernel(row, 1, 1, terms=int(is_rounded))
    types = ("f32", "f32") if is_rounded else (a, b)
    total = "i32" if row.destination == "i32" else "f32"
    schedule = plain(product(kernel.tile_rows, kernel.tile_columns, row.k, *types, total))
    schedule.tensorize("m", kernel.name)
    return schedule


@pytest.mark.parametrize("lanes", dpas.EXECUTION_SIZES)
def test_rows_of_dpas(lanes):
    used = [row for row in dpas.rows(lanes) if row.unused is None]
    assert len({row.key for row in used}) >= 38
    for row in used:
        assert f"tensorize(m, {row}_tile" in str(schedule_on_dpas(row))


@pytest.mark.parametrize(
    "row", [row for row in dpas.rows(16) if row.repeat == 8 and row.unused and not row.unreachable], ids=str)
def test_rows_of_dpas_that_no_nest_means_are_refused(row):
    """They sum in 16 bits: the compiler has functions for them, the language no such sums."""
    with pytest.raises(ScheduleError, match=row.unused):
        schedule_on_dpas(row)


@pytest.mark.parametrize("row", amx.ROWS, ids=str)
def test_rows_of_amx(row):
    schedule = plain(product(32, 32, 64, *row.types))
    schedule.tensorize("m", TileKernel(row).name)
    assert row.name in str(schedule)


@pytest.mark.parametrize("row", simd_rows.ROWS.values(), ids=lambda row: row.name)
def test_rows_of_vectors(row):
    schedule = plain(product(2 * row.m, 2 * row.n, 3, *row.types))
    rows, columns = schedule.split("m", row.m), schedule.split("n", row.n)
    schedule.reorder(rows.outer, columns.outer, rows.inner, columns.inner)
    schedule.decompose_reduction("k", above=rows.inner)
    schedule.tensorize(rows.inner, row.name)
    assert row.name in str(schedule)


@pytest.mark.parametrize("row", (ROWS | SPARSE_ROWS).values(), ids=lambda row: row.name)
def test_rows_of_mma(row):
    if row.unused is None:
        schedule = plain(source(row, "nn"))
        scheduled(row)(schedule)
        assert row.name in str(schedule)
    elif not row.sparse:
        schedule = plain(product(16, 16, 16, "f32", "f32", "f32"))
        with pytest.raises(ScheduleError, match=row.unused):
            schedule.tensorize("m", row.name)


def test_rows_of_warpgroups():
    """Those that are used are in kernels, and others are not."""
    found = set()
    for element in ("f16", "bf16", "f32"):
        text = product(768, 768, 768, element, element, "f32")
        for form, transposes in (("tiled", "n.n"), ("tiled", "t.n"), ("blocked", "n.n")):
            options = LoweringOptions(form=form, precision="default")
            function = parse(text.replace("gemm.n.n", f"gemm.{transposes}")).functions[0]
            llvm = lower(function, H200, options).llvm
            found |= set(re.findall(r"wgmma\.mma_async\.sync\.aligned\.\w+\.\w+\.\w+\.\w+", llvm))
    assert found == {row.instruction for row in WARPGROUP_ROWS.values() if row.unused is None}
