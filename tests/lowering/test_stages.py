"""Copies, bindings and engines: what each primitive makes, what it refuses, and where barriers stand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.lowering.support import gemm
from tests.lowering.test_schedule import check
from tl_dpnp.errors import ScheduleError
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.nest import Loop, Synchronize
from tl_dpnp.lowering.realization import realize
from tl_dpnp.lowering.schedule import Schedule
from tl_dpnp.lowering.schedule.stages import CacheScope
from tl_dpnp.scalars import F64

ONE, MANY = SubgroupLayout(), SubgroupLayout(4, 2, 2)


def plain(m: int | None = 8, n: int | None = 8, k: int | None = 8) -> Schedule:
    return Schedule(gemm(m, n, k).nest)


def pieces(schedule: Schedule) -> None:
    """Put the reduction outside, in pieces of four: the loops are k.0, k.1, m, n."""
    schedule.decompose_reduction("k", above="m")
    schedule.split("k", 4)


def blocks_of(schedule: Schedule, size: int, scope: CacheScope = "registers") -> None:
    """Copy A in blocks of so many elements along the sum."""
    copy = schedule.cache_read("A", scope)
    for loop in ("k", f"{copy}.1"):
        schedule.split(loop, size, tail="guard")
    schedule.block_layout(copy, 1, size)


REFUSED: dict[str, tuple[Callable[[Schedule], object], str]] = {
    "fuse apart": (lambda s: s.fuse("m", "k"), "k is not perfectly nested in m"),
    "fuse kinds": (lambda s: [s.unroll("n"), s.fuse("m", "n")], "the loop n is unrolled already"),
    "reorder computed": (
        lambda s: [s.split(s.fuse("m", "n"), 4), s.reorder("m*n.1", "m*n.0")], "m*n.1 computes m from an outer loop"),
    "vectorize fused": (
        lambda s: [s.split(s.fuse("m", "n"), 4), s.vectorize("m*n.1")], "m is computed from m*n.1 and others"),
    "vectorize guard of others": (
        lambda s: [s.split(s.split("m", 3, tail="guard").inner, 2, tail="guard"), s.vectorize("m.1.1")],
        "the guard of m.1.1 depends on m.1.1"),
    "vectorize guard across": (
        lambda s: [s.split("n", 3, tail="guard"), s.vectorize("n.1")],
        "lanes of n.1 are guarded, and B[k, n.0 + n.1] is not consecutive along it"),
    "vectorize twice": (
        lambda s: [s.vectorize("m"), s.vectorize("n")],
        "m is vectorized around another vectorized loop, which is no copy"),
    "vectorize stage": (
        lambda s: [s.compute_at(s.cache_read("A", "registers"), "n"), s.vectorize("m")],
        "A_registers is copied inside m, which is vectorized"),
    "bind kind": (lambda s: s.bind("m", "threads"), "a loop is bound to one of rows, columns"),  # type: ignore[arg-type]
    "bind nested": (
        lambda s: [s.bind("m", "rows"), s.bind("n", "subgroups")], "n (subgroups) lies inside m, which is rows"),
    "bind remainder": (
        lambda s: [s.split("m", 5), s.bind("m'", "lanes")], "it does not count from 0"),
    "bind around shared": (
        lambda s: [s.compute_at(s.cache_read("A", "local"), "m"), s.bind("m", "rows")],
        "A_local is shared by the work-group, but lies inside m, which is rows"),
    "bind private copy": (
        lambda s: [s.cache_read("A", "registers"), s.bind("A_registers.0", "lanes")],
        "A_registers belongs to one work-item, but A_registers.0 of its copy is bound to lanes"),
    "copy scope": (
        lambda s: [s.cache_read("A", "registers"), s.copy_async("A_registers")],
        "only copies of operands to local memory are asynchronous"),
    "copy of results": (lambda s: [s.cache_write("C", "local"), s.copy_async("C_local")], "it writes back"),
    "load ahead rolled": (lambda s: s.load_ahead("m"), "the loop m is serial, not unrolled"),
    "load ahead around rolled": (
        lambda s: [s.unroll("m"), s.load_ahead("m")], "is serial or has a guard"),
    "cache scope": (lambda s: s.cache_read("A", "shared"), "in local or registers, not in shared"),  # type: ignore[arg-type]
    "cache sum": (lambda s: s.cache_read("T", "local"), "T is kept in registers already"),
    "cache unread": (lambda s: s.cache_read("C", "local"), "nothing reads C"),
    "cache input": (lambda s: s.cache_write("A", "local"), "A is not written"),
    "cache twice": (
        lambda s: [s.cache_write("C", "local"), s.cache_write("C", "registers")], "written back from a copy already"),
    "block apart": (
        lambda s: [s.cache_read("A", "registers"), s.block_layout("A_registers", 1, 2)],
        "does not say which block of 2 elements it means, and where in that"),
    "block twice": (
        lambda s: [blocks_of(s, 4), s.block_layout("A_registers", 0, 2)], "in blocks already"),
    "move blocks": (lambda s: [blocks_of(s, 4), s.compute_at("A_registers", "m")], "it is in blocks; move it before"),
    "transform blocks": (lambda s: [blocks_of(s, 4), s.transform_layout("A_registers", 1, 0, 2)], "it is in blocks"),
    "copy blocks": (lambda s: [blocks_of(s, 4, "local"), s.cache_read("A_local", "registers")], "copy it before"),
    "move outside readers": (
        lambda s: [pieces(s), s.cache_read("A", "local"), s.compute_at("A_local", "m'")],
        "m' does not hold all that reads A_local"),
    "move before inner copy": (
        lambda s: [pieces(s), s.cache_read("A", "local"), s.cache_read("A_local", "registers"),
                   s.compute_at("A_local", "k.0")],
        "k.0 does not hold all that reads A_local"),
    "move scheduled": (
        lambda s: [s.cache_read("A", "local"), s.unroll("A_local.0"), s.compute_at("A_local", "m")],
        "the loop A_local.0 of its copy was scheduled"),
    "move outwards": (
        lambda s: [s.cache_read("A", "local"), s.compute_at("A_local", "n"), s.compute_at("A_local", "m")],
        "m does not lie inside n, where it is computed"),
    "move back": (lambda s: [s.cache_write("C", "local"), s.compute_at("C_local", "m")], "it writes back"),
    "move forth": (lambda s: [s.cache_read("A", "local"), s.reverse_compute_at("A_local", "m")], "it reads"),
    "write back parts": (
        lambda s: [s.cache_write("C", "local"), s.split("n", 3), s.reverse_compute_at("C_local", "m")],
        "several parts of the nest write it"),
    "write back every fourth": (
        lambda s: [s.cache_write("C", "local"), s.split("m", 4), s.reorder("m.1", "m.0"),
                   s.reverse_compute_at("C_local", "m.1")],
        "m.0 + m.1 does not take every value"),
    "write back part of a row": (
        lambda s: [s.cache_write("C", "local"), s.split(s.fuse("m", "n"), 5, tail="guard"),
                   s.reverse_compute_at("C_local", "m*n.0")],
        "m is computed from loops around the place"),
    "double at root": (
        lambda s: [s.cache_read("A", "local"), s.double_buffer("A_local")], "it is not computed inside a loop"),
    "double twice": (
        lambda s: [pieces(s), s.compute_at(s.cache_read("A", "local"), "k.0"), s.double_buffer("A_local"),
                   s.double_buffer("A_local")],
        "it is double buffered already"),
    "too many buffers": (
        lambda s: [pieces(s), s.compute_at(s.cache_read("A", "local"), "k.0"), s.double_buffer("A_local", 9)],
        "a copy has 2 to 8 buffers, not 9"),
    "split pipelined": (
        lambda s: [pieces(s), s.compute_at(s.cache_read("A", "local"), "k.0"), s.double_buffer("A_local"),
                   s.split("k.0", 2)],
        "the loop k.0 fills a buffer for its next iteration"),
    "align consecutive": (
        lambda s: [s.cache_read("A", "local"), s.storage_align("A_local", 0, 8)], "mode 0 is the consecutive one"),
    "layout": (lambda s: [s.cache_read("A", "local"), s.transform_layout("A_local", 0)], "each of the 2 modes once"),
    "prefetch vectorized": (lambda s: [s.prefetch("n"), s.unroll("n")], "n prefetches, but is unrolled"),
    "tensorize unknown": (lambda s: s.tensorize("m", "dpas"), "there is no instruction dpas; there are simd_f32"),
    "tensorize sum": (lambda s: s.tensorize("m", "simd_f32_8x8x1"), "it does not hold one multiply-add"),
    "tensorize extent": (
        lambda s: [s.decompose_reduction("k", above="m"), s.tensorize("m", "simd_f32_16x4x1")],
        "simd_f32_16x4x1 needs loops of 16 x 4 iterations, not 8 x 8"),
    "tensorize type of a warp": (
        lambda s: [s.decompose_reduction("k", above="m"), s.split("n", 2), s.split("k", 4),
                   s.reorder("k.0", "m", "n.0", "n.1", "k.1"), s.tensorize("n.1", "m8n8k4_f64_f64_f64")],
        "is of type f32, not f64"),
    "tensorize loops of a warp": (
        lambda s: [s.decompose_reduction("k", above="m"), s.tensorize("m", "m16n8k4_tf32_tf32_f32")],
        "needs plain loops inside one another over 2 blocks of 8 rows"),
    "tensorize integers": (lambda s: s.tensorize("m", "m16n8k32_s8_s8_s32"), "lanes do not pack elements of 8 bits"),
    "tensorize type": (
        lambda s: [s.decompose_reduction("k", above="m"), s.tensorize("m", "simd_f64_8x8x1")], "not all of type f64"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    apply, reason = REFUSED[case]
    schedule = plain()
    with pytest.raises(ScheduleError) as caught:
        apply(schedule)
    assert str(caught.value).startswith("gemm_0: ")
    assert " is not legal: " in str(caught.value)
    assert reason in str(caught.value)


def test_blocks_of_a_mode_lie_one_after_the_other():
    schedule = plain(3, 2, 6)
    blocks_of(schedule, 4)
    (copy,) = (buffer for buffer in schedule.nest.buffers.values() if buffer.name == "A_registers")
    assert (copy.shape, copy.strides, copy.room, copy.elements) == ((3, 4, 8), (4, 1, 3), 24, 24)
    assert "A_registers[A_registers.0, A_registers.1.1, A_registers.1.0]" in str(schedule)
    assert "A_registers[m, k.1, k.0]" in str(schedule)
    schedule.storage_align("A_registers", 2, 16)
    assert schedule.nest.buffers["A_registers"].strides == (4, 1, 4)


# --- regions ---------------------------------------------------------------------------------------------------------


def test_a_copy_holds_what_one_iteration_needs():
    schedule = plain(32, 8, 16)
    schedule.split("m", 16)
    pieces_of_k = schedule.split("k", 4)
    schedule.compute_at(schedule.cache_read("A", "local"), pieces_of_k.outer)
    assert str(schedule.nest).splitlines()[1:] == [
        "# A_local: f32 1x4 in local memory, strides [1, 1]",
        "for m.0 in serial(0, 32, 16):",
        "    for m.1 in serial(0, 16):",
        "        for n in serial(0, 8):",
        "            T[m.0 + m.1, n] = 0",
        "            for k.0 in serial(0, 16, 4):",
        "                with stage(A_local, A):",
        "                    for A_local.1 in serial(0, 4):",
        "                        for A_local.0 in serial(0, 1):",
        "                            A_local[A_local.0, A_local.1] = A[m.0 + m.1 + A_local.0, k.0 + A_local.1]",
        "                for k.1 in serial(0, 4):",
        "                    T[m.0 + m.1, n] = fma(A_local[0, k.1], B[k.0 + k.1, n], T[m.0 + m.1, n])",
        "            C[m.0 + m.1, n] = T[m.0 + m.1, n]",
    ]


def test_a_copy_ends_with_its_operand():
    schedule = plain(None, 8, 8)
    schedule.split("m", 16, tail="guard")
    schedule.compute_at(schedule.cache_read("A", "local"), "m.0")
    assert "if m.0 + A_local.0 < M:" in str(schedule)


def test_whole_tiles_of_an_unknown_size_need_no_test():
    schedule = plain(None, 8, 8)
    schedule.split("m", 16)
    schedule.compute_at(schedule.cache_read("A", "local", within="m.1"), "m.1")
    assert "if " not in str(schedule)


def test_padding_and_transposition():
    schedule = plain(32, 8, 16)
    schedule.cache_read("A", "local")
    schedule.storage_align("A_local", 1, 16, 1)
    assert schedule.nest.buffers["A_local"].strides == (1, 33)
    schedule.storage_align("A_local", 1, 1)
    schedule.transform_layout("A_local", 1, 0)
    assert schedule.nest.buffers["A_local"].strides == (16, 1)


# --- virtual threads -------------------------------------------------------------------------------------------------


def test_virtual_threads_run_interleaved_with_copies_of_their_own():
    schedule = plain(4, 4, 3)
    schedule.decompose_reduction("k", above="n")
    for prime in ("", "'", "''"):
        schedule.bind(schedule.split("n" + prime, 2).outer, "virtual")
    schedule.compute_at(schedule.cache_read("B", "registers"), "n.0")
    realized = realize(schedule.nest, ONE).nest
    assert realized.buffers["B_registers"].shape == (1, 2, 3)
    check(gemm(4, 4, 3), schedule, 4, 4, 3, nest=realized, layout=ONE)
    text = str(realized)
    copies, products = text.index("B_registers[B_registers.0"), text.index("fma(")
    between = text[copies:products]
    assert "for n.0 in unrolled" in between, "all threads copy before any multiplies"


# --- barriers --------------------------------------------------------------------------------------------------------


def barriers(nodes) -> int:
    """Count the barriers that one pass over a body meets."""
    return sum(isinstance(node, Synchronize) for node in nodes)


def shared(double: bool) -> Schedule:
    schedule = plain()
    pieces(schedule)
    for operand in "AB":
        copy = schedule.cache_read(operand, "local")
        schedule.compute_at(copy, "k.0")
        schedule.bind(schedule.split(schedule.loops_of(copy)[1], 4, tail="guard").inner, "lanes")
        schedule.bind(schedule.loops_of(copy)[0], "subgroups")
        if double:
            schedule.double_buffer(copy)
    for prime in ("", "'", "''"):
        schedule.bind("n" + prime, "columns")
        split = schedule.split("m" + prime, 4)
        schedule.bind(split.outer, "rows")
        schedule.bind(split.inner, "lanes")
    return schedule


@pytest.mark.parametrize(("double", "count"), [(False, 2), (True, 1)])
def test_barriers_of_an_iteration(double, count):
    """Two keep filling and using apart; with two halves, one does."""
    nest = realize(shared(double).nest, MANY).nest
    (loop,) = (node for node in nest.body if isinstance(node, Loop) and node.variable == "k.0")
    assert barriers(loop.body) == count
    assert isinstance(nest.body[0], Synchronize), "nests share local memory"


def test_the_vector_form_needs_no_barrier():
    schedule = plain()
    pieces(schedule)
    schedule.compute_at(schedule.cache_read("A", "local"), "k.0")
    assert "synchronize" not in str(realize(schedule.nest, ONE).nest)


def test_a_sum_must_stay_with_its_work_item():
    schedule = plain()
    pieces(schedule)
    for prime in ("", "'"):
        schedule.bind("m" + prime, "rows")
    schedule.bind("m''", "subgroups")
    with pytest.raises(ScheduleError, match=r"T is kept in the registers of each work-item.*bind them alike"):
        realize(schedule.nest, SubgroupLayout(1, 2, 1))


def test_more_iterations_than_lanes_are_refused():
    schedule = plain()
    schedule.bind("m", "lanes")
    with pytest.raises(ScheduleError, match="has 8 iterations; a sub-group has 4 lanes"):
        realize(schedule.nest, SubgroupLayout(4, 1, 1))


def test_registers_have_an_end():
    schedule = Schedule(gemm(512, 512, 8, element=F64).nest)
    schedule.decompose_reduction("k", above="m")
    with pytest.raises(ScheduleError, match="registers take more than 131072 bytes"):
        realize(schedule.nest, ONE)


def test_a_copy_to_read_leaves_the_copy_back_where_it_writes():
    contraction = gemm(4, 5, 3, beta=3.0)
    schedule = Schedule(contraction.nest)
    schedule.cache_write("C", "local")
    schedule.cache_read("C", "registers")
    schedule.reverse_compute_at("C_local", "m")
    assert "write_back(C_local, C)" in str(schedule)
    check(contraction, schedule, 4, 5, 3, beta=3.0)
