"""Products in register tiles, without a GPU: which tiles there are, and what is estimated about them."""

from __future__ import annotations

import itertools
import random

import pytest

import tl_dpnp
from tests.cuda.drawn_products import MOST, drawn_chain, drawn_product
from tests.cuda.test_offline import only
from tests.cuda.test_tiled import source
from tl_dpnp.lowering.device import H200
from tl_dpnp.lowering.tactics.registers import Problem
from tl_dpnp.scalars import F32, F64
from tl_dpnp.target.catalog import HOPPER


def drawn_problem(seed):
    draw = random.Random(seed)
    m, n, k = (draw.randint(1, MOST) for _ in range(3))
    element = draw.choice((F32, F64))
    left, right = draw.choice(((1, m), (k, 1))), draw.choice(((1, k), (n, 1)))
    pitches = tuple(count * element.bytes for count in (m * k, k * n, m * n))
    alignments = tuple(min(16, pitch & -pitch) for pitch in pitches)
    return Problem((element,) * 3, (m, n, k), (left, right, (1, m)), pitches, alignments, sum(pitches), False)


@pytest.mark.drawn(count=8)
@pytest.mark.parametrize("seed", range(20))
def test_tiles_cover_the_result(seed):
    problem = drawn_problem(seed)
    products = list(problem.products())
    assert products
    for product in products:
        height, width = product.tile
        assert product.down * height >= product.m
        assert product.across * width >= product.n
        assert product.m % product.rows == product.n % product.columns == 0
        assert all(product.length % depth == 0 for depth in product.depth)
        assert not product.staggered or (product.across % 2 == 0 and product.across <= product.n)
        assert not any(product.rotated) or product.k % max(product.depth) == 0
        assert not product.shifted or (height % 2 == 0 and product.down * height > product.m)
        places = [product.place(thread) for thread in range(product.threads)]
        assert sorted(places) == list(itertools.product(range(product.down), range(product.across)))
        assert product.terms == product.length or product.terms % (2 * max(product.depth)) == 0


#: Addresses of the lanes as multiples of the size, and how often shared memory of an H200 was accessed for a load.
MEASURED = [
    (lambda lane: 0, {4: 1, 8: 1, 16: 2}), (lambda lane: lane % 2, {4: 1, 8: 1, 16: 2}),
    (lambda lane: lane // 16, {4: 1, 8: 1, 16: 2}), (lambda lane: lane % 4, {4: 1, 8: 2, 16: 4}),
    (lambda lane: lane // 4, {4: 1, 8: 1, 16: 2}), (lambda lane: lane % 8, {4: 1, 8: 2, 16: 4}),
    (lambda lane: lane // 2, {4: 1, 8: 1, 16: 2}), (lambda lane: lane, {4: 1, 8: 2, 16: 4}),
    (lambda lane: lane % 8 * 8, {4: 2, 8: 8, 16: 32}), (lambda lane: lane // 4 * 8, {4: 2, 8: 4, 16: 8}),
    (lambda lane: lane // 16 * 8, {4: 1, 8: 1, 16: 2}), (lambda lane: lane // 12 * 15, {4: 1, 8: 1, 16: 2}),
]


@pytest.mark.parametrize("size", [4, 8, 16])
def test_accesses_are_those_that_were_measured(size):
    for address, counts in MEASURED:
        assert HOPPER.accesses([size * address(lane) for lane in range(32)], size) == counts[size]


@pytest.mark.drawn(count=10)
@pytest.mark.parametrize("seed", range(0, 200, 8))
def test_every_product_of_small_matrices_runs_staged(seed):
    for case in (*map(drawn_product, range(seed, seed + 8)), drawn_chain(seed)):
        plan = tl_dpnp.compile(case.source, target="cuda", cache=False).lower(H200).plan
        assert plan.form == "staged", case.name
        assert plan.local_memory <= H200.local_memory


def batch(m, n, k):
    """Return C[g] := A[g] B[g] for batches of f32."""
    a, b, c = f"f32x{m}x{k}", f"f32x{k}x{n}", f"f32x{m}x{n}"
    return f"""func @product(%A: memref<{a}x?>, %B: memref<{b}x?>, %C: memref<{c}x?>) {{
      %g = group_id
      %a = subview %A[:,:,%g] : memref<{a}x?>
      %b = subview %B[:,:,%g] : memref<{b}x?>
      %c = subview %C[:,:,%g] : memref<{c}x?>
      gemm.n.n 1.0, %a, %b, 0.0, %c : f32, memref<{a}>, memref<{b}>, f32, memref<{c}>
    }}"""


@pytest.mark.parametrize(("size", "is_shifted"), [(16, False), (55, True), (56, False), (57, True), (59, True)])
def test_rows_are_shifted_where_columns_are_an_odd_number_of_elements_apart(size, is_shifted):
    kernel = tl_dpnp.compile(batch(size, size, size), target="cuda", cache=False)
    assert ("of shifted rows" in only(kernel.inspect_source()).splitlines()[0]) == is_shifted


@pytest.mark.parametrize(("transposes", "k"), [("t.n", 32), ("t.n", 64), ("n.n", 64)])
def test_sums_begin_in_different_banks(transposes, k):
    """Lines along the sums of all threads begin in the same bank."""
    m, n = 59, 53
    left = (1, m) if transposes == "n.n" else (k, 1)
    pitches = tuple(4 * count for count in (m * k, k * n, m * n))
    alignments = tuple(min(16, pitch & -pitch) for pitch in pitches)
    problem = Problem((F32,) * 3, (m, n, k), (left, (1, k), (1, m)), pitches, alignments, sum(pitches), False)

    def least(are_rotated):
        return min(problem.accesses(each, 1, HOPPER) * each.threads for each in problem.products()
                   if any(each.rotated) == are_rotated and each.threads % 32 == 0)

    assert least(True) < 0.9 * least(False)


@pytest.mark.parametrize(("transposes", "k", "is_rotated"), [("t.n", 64, True), ("t.n", 63, False), ("n.t", 64, False)])
def test_sums_are_rotated_where_lines_along_them_begin_in_the_same_bank(transposes, k, is_rotated):
    text = source("f32", "f32", transposes, sizes=(50, 53, k), batched="ABC")
    assert ("with rotated sums" in tl_dpnp.compile(text, target="cuda", cache=False).lower(H200).mapping) == is_rotated


@pytest.mark.parametrize("shape", ["17, 17, 17", "57, 57, 57", "61, 61, 61", "11, 13, 64"])
def test_ragged_products_are_computed_in_registers_without_spills(shape):
    kernel = tl_dpnp.compile(batch(*shape.split(", ")), target="cuda", cache=False)
    assert "in registers" in only(kernel.inspect_source()).splitlines()[0]
    assert "cp.async.bulk.shared::cluster.global.mbarrier" in only(kernel.inspect_ptx())
    assert only(kernel.resources()).stack == 0


@pytest.mark.parametrize("seed", range(3))
def test_drawn_programs_compile(seed):
    for case in (drawn_product(1000 + seed), drawn_chain(seed)):
        kernel = tl_dpnp.compile(case.source, target="cuda", cache=False)
        assert "mbarrier.try_wait.parity" in only(kernel.inspect_ptx())
        assert only(kernel.resources()).stack == 0


@pytest.mark.parametrize(("sizes", "transposes"), [((60, 51, 63), "t.n"), ((59, 28, 57), "t.n")])
def test_what_is_added_to_leaves_room_for_more_blocks(sizes, transposes):
    """Three stages that have it, too, would be all that a multiprocessor has room for, or nearly."""
    text = source("f32", "f32", transposes, "1.0", "1.0", sizes=sizes, batched="ABC")
    lowered = tl_dpnp.compile(text, target="cuda", cache=False).lower(H200)
    assert "2 stages" in lowered.mapping
    assert ", 3 of " in lowered.mapping
    assert 2 * lowered.plan.local_memory < H200.local_memory
