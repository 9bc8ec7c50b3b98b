"""Fragments hold each element once, and the words that are made of them are those that the instructions take."""

from __future__ import annotations

import pytest

from tl_dpnp.kernels.mma.fragments import FACTORS, Fragment, Layout, rows_of, word_elements
from tl_dpnp.kernels.mma.rows import LANES, ROWS
from tl_dpnp.scalars import F32

USED = [name for name, row in ROWS.items() if row.a.name in FACTORS and row.c.name in ("f32", "f64", "s32")]


@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize("run", [2, 4, 8, 16])
def test_lanes_hold_each_element_once(run, by_columns):
    fragment = Fragment("m", F32, 64, 128, Layout(by_columns, run))
    held = [fragment.place(lane, block, part)
            for lane in range(LANES) for block in fragment.blocks for part in range(run)]
    assert sorted(held) == [(i, j) for i in range(64) for j in range(128)]
    assert fragment.registers == len(held) // LANES


@pytest.mark.parametrize("name", USED)
@pytest.mark.parametrize("run", [2, 4, 8, 16])
def test_factors_have_the_same_elements_of_the_sum_where_the_instruction_has_the_same(name, run):
    row = ROWS[name]
    depth = max(4 * run, row.k)
    sides = {"a": Fragment("a", F32, row.m, depth, Layout(False, run)),
             "b": Fragment("b", F32, depth, row.n, Layout(True, run))}
    along: dict[tuple[int, int], set[int]] = {}
    for operand, fragment in sides.items():
        for step in range(depth // row.k):
            for lane in range(LANES):
                for word in range(row.words(operand)):
                    for part, (i, j, inner) in enumerate(word_elements(row, operand, word, run, step)):
                        places = fragment.place(lane, (i, j), inner), row.place(operand, lane, word, part)
                        (side, own), (wanted, k) = places if operand == "a" else (place[::-1] for place in places)
                        assert side == wanted
                        along.setdefault((step, k), set()).add(own)
    assert all(len(found) == 1 for found in along.values())
    assert sorted(own for found in along.values() for own in found) == list(range(depth))


@pytest.mark.parametrize("name", USED)
def test_sums_are_as_the_instruction_has_them(name):
    row = ROWS[name]
    fragment = Fragment("c", F32, row.m, row.n)
    for lane in range(LANES):
        for word in range(row.words("c")):
            ((i, j, part),) = word_elements(row, "c", word)
            assert fragment.place(lane, (i, j), part) == row.place("c", lane, word, 0)


def test_the_largest_form_that_divides_a_product_is_the_best():
    assert rows_of(("f64", "f64", "f64"), 8, 16)[0].name == "m8n8k4_f64_f64_f64"
    assert rows_of(("f64", "f64", "f64"), 32, 24)[0].name == "m16n8k8_f64_f64_f64"
    assert rows_of(("bf16", "bf16", "f32"), 8, 8)[0].name == "m16n8k8_bf16_bf16_f32"  # half of it for nothing
    assert not rows_of(("s8", "s8", "s32"), 16, 8)
    assert not rows_of(("bf16", "f16", "f32"), 16, 16)
