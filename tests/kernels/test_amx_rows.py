"""The table of products of tiles, how matrices are cut into them, and the shapes that the processor is told."""

import numpy as np
import pytest

from tl_dpnp.kernels.amx.micro_kernel import TileKernel, tile_kernel_named
from tl_dpnp.kernels.amx.rows import MOST, ROWS, WORD, cut


def test_instructions_name_the_signs_of_the_factor_in_rows_first():
    letters = {"i8": "s", "u8": "u"}
    for row in ROWS:
        if row.c.name == "i32":
            assert row.instruction == f"tdpb{letters[row.b.name]}{letters[row.a.name]}d"


@pytest.mark.parametrize("kinds", [1, 2])
def test_cuts_hold_every_place(kinds):
    """In as few tiles as there can be, all but the last apart, and in no more than two sizes."""
    for size in range(1, 300):
        found = cut(size, kinds)
        assert found.count == -(-size // MOST)
        assert len(found.sizes) <= kinds
        assert all(1 <= each <= MOST for each in found.sizes)
        places = [(found.start(tile), found.sizes[tile % len(found.sizes)]) for tile in range(found.count)]
        held = np.zeros(size, int)
        for start, length in places:
            assert 0 <= start <= size - length
            held[start : start + length] += 1
        assert held.all()
        assert held.sum() == size + found.overlap
        last = places[-1][0]
        assert (held[:last] == 1).all()
        assert found.overlap < (found.sizes[(found.count - 1) % len(found.sizes)])


def test_sizes_up_to_two_tiles_overlap_nowhere():
    assert [size for size in range(1, 2 * MOST + 1) if cut(size, 2).overlap] == []


@pytest.mark.parametrize("name", ["amx_f32_bf16_bf16", "amx_i32_u8_i8", "amx_f32_bf16_bf16_from_f32_by_3"])
def test_palettes_fit_the_products(name):
    """Tiles of a product have the shapes that the instruction wants, and the configuration holds them."""
    kernel = tile_kernel_named(name)
    assert kernel is not None
    assert kernel.name == name
    for m, n, k in ((1, 1, 1), (16, 16, 64), (33, 17, 65), (100, 57, 7)):
        palette = kernel.palette(m, n, k)
        depth, words = kernel.depth(k)
        assert depth * words * kernel.row.per_word >= k > (depth - 1) * words * kernel.row.per_word
        for i in range(kernel.together):
            for j in range(kernel.together):
                rows, columns = palette.shapes[kernel.total(i, j)]
                assert palette.shapes[kernel.b(j)] == (rows, words)
                assert palette.shapes[kernel.a(i)] == (words, columns)
        data = palette.configuration
        assert (len(data), data[0], any(data[1:16])) == (64, 1, False)
        assert list(data[48:56]) == [rows for rows, _ in palette.shapes]
        assert list(np.frombuffer(data[16:32], np.uint16)) == [WORD * columns for _, columns in palette.shapes]


def test_names():
    assert tile_kernel_named("amx_f32_bf16_bf16_from_f32_by_2") is None
    assert tile_kernel_named("amx_f64_f64_f64") is None
    assert {tile_kernel_named(TileKernel(row).name) for row in ROWS} == {TileKernel(row) for row in ROWS}
