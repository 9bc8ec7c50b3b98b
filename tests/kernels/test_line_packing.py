"""Which columns of B fragments have, and where they lie in what messages load (`line_packing`)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tl_dpnp.kernels.dpas.line_packing import LineLayout, line_layout
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.kernels.dpas.pieces import piece_words
from tl_dpnp.kernels.dpas.rows import find_row


def layout(element: str, pitch: int, k: int, columns: int, of_a: bool = False, rows: int = 100) -> LineLayout:
    """Return how B, or A, is packed for tiles of so many blocks, whose lines are a pitch of elements apart."""
    row = find_row(16, "i32" if element == "i8" else "f32", element, element, 8)
    assert row is not None
    kernel = MicroKernel(row, columns, columns, 4, packs="ab")
    a, b = piece_words(kernel, 2, 2)
    found = line_layout(row, a, (1, pitch), rows, k, 4, columns) if of_a else line_layout(
        row, b, (pitch, 1), rows, k, 4, columns)
    assert found is not None
    return found


@pytest.mark.parametrize(("element", "pitch", "k", "columns"), [
    ("f16", 122, 122, 4), ("bf16", 122, 121, 6), ("i8", 148, 148, 2), ("i8", 148, 145, 4), ("tf32", 41, 41, 4),
    ("tf32", 48, 48, 3),
])
def test_messages_load_fragments_of_lines_that_begin_with_words(element, pitch, k, columns):
    found = layout(element, pitch, k, columns)
    assert found.direct
    assert columns % found.blocks == 0
    assert sorted(found.columns) == [*range(found.lines)]
    # A tf32 is rounded by instructions of 32 elements.
    assert found.instructions == (found.filled // 128 if element == "tf32" else 0)
    blocks, length = found.blocks // found.parts, 32
    for step in range(found.steps):
        for value, byte, message in found.rows_of(step):
            line = byte // length - step * blocks * found.row.repeat
            column = found.columns[value * blocks * found.row.repeat + line]
            # The line of a message is one of each period of the matrix.
            assert (column % found.period, column // found.period) == (message, line)


@pytest.mark.parametrize("found", [
    layout("f16", 121, 121, 4), layout("i8", 146, 146, 4), layout("f16", 122, 122, 3),
    layout("f16", 121, 96, 4, of_a=True, rows=121), layout("tf32", 121, 96, 4, of_a=True, rows=121),
], ids=["odd", "halves of words", "odd tile", "a", "a of every second line"])
def test_other_lines_are_moved(found):
    assert not found.direct
    assert found.columns == tuple(range(found.lines))
    assert found.instructions == len([*found.moves()]) > 0


def test_lines_of_a_that_are_rounded_are_fragments_where_each_is_one_of_the_message():
    found = layout("tf32", 104, 96, 4, of_a=True)
    assert (found.direct, found.period, found.blocks) == (True, 1, 1)
    moved = replace(found, direct=False)
    assert 2 * found.instructions == moved.instructions


@pytest.mark.parametrize(("element", "pitch", "begins"), [
    ("i8", 145, [0, 1, 2, 3]), ("i8", 146, [0, 2]), ("i8", 148, [0]), ("f16", 121, [0, 2]), ("f16", 122, [0]),
    ("tf32", 41, [0]),
])
def test_a_matrix_may_begin_where_its_lines_do(element, pitch, begins):
    found = layout(element, pitch, 100 if element != "tf32" else 41, 4)
    assert [*found.begins] == begins
    for begin in begins:
        own = replace(found, begin=begin)
        for line in range(found.period):
            start = begin + line * found.pitch
            assert own.shift(line) == start % 4
            assert (start + found.row_bytes + own.behind(line) * found.size) % 4 == 0
            assert start % 4 in begins
