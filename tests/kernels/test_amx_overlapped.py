"""Where the operands of products on tiles are packed: between the products, in memory that nothing reads any more."""

from __future__ import annotations

import re

import pytest
from llvmlite import ir

from tl_dpnp.kernels.amx.fetching import Fetching
from tl_dpnp.kernels.amx.micro_kernel import tile_kernel_named
from tl_dpnp.kernels.amx.overlapped import Overlapped
from tl_dpnp.kernels.amx.packing import Packer
from tl_dpnp.kernels.amx.tiles import HardwareTiles
from tl_dpnp.kernels.dpas.fragments import Matrix
from tl_dpnp.kernels.llvm import GLOBAL, I32
from tl_dpnp.kernels.targets import new_module, target_for
from tl_dpnp.scalars import F32

KERNEL = tile_kernel_named("amx_f32_bf16_bf16_from_f32_by_3")


def emitter_of(m, n, k, transposed="", fetches=False):
    floats = ir.FloatType().as_pointer(GLOBAL)
    type_ = ir.FunctionType(ir.VoidType(), [floats, floats, floats, I32.as_pointer()])
    function = ir.Function(new_module("test", target_for("opencl")), type_, "f")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    a, b, c, sums = function.args
    tiles = HardwareTiles(builder)
    of_a, of_b = (k, 1) if transposed == "A" else (1, m), (n, 1) if transposed == "B" else (1, k)
    return Overlapped(
        builder, KERNEL, tiles, Packer(builder, KERNEL, tiles, Matrix(a, F32, of_a), "A", m, k),
        Packer(builder, KERNEL, tiles, Matrix(b, F32, of_b), "B", n, k), Matrix(c, F32, (1, m)), sums,
        lambda *_: None, False, Fetching(builder, Matrix(c, F32, (1, m)) if fetches else None))


@pytest.mark.parametrize("sizes", [(64, 64, 64), (48, 48, 60), (20, 80, 100), (130, 64, 64)])
def test_most_rows_are_packed_between_products(sizes):
    """All but those of the first step, of each group of rows where these are in a loop."""
    emitter = emitter_of(*sizes)
    emitter.emit()
    order = re.findall(r"tdpbf16ps|fsub", str(emitter.builder.function))
    first = order.index("tdpbf16ps")
    assert order[first:].count("fsub") >= 0.6 * order.count("fsub")
    runs = "".join("p" if name == "tdpbf16ps" else "s" for name in order[first:])
    assert max(map(len, re.findall("s+", runs))) <= max(4 * 16, first), "rows stand one by one between products"


@pytest.mark.parametrize("sizes", [(64, 64, 64), (48, 48, 40), (33, 80, 100), (80, 80, 20), (16, 16, 96)])
def test_images_are_not_packed_before_the_last_step_that_reads_them(sizes):
    """Each image that a step takes is that which was packed for its tile, and the present step's stay."""
    emitter = emitter_of(*sizes)
    steps = emitter._steps(emitter.group_list(KERNEL.cut(sizes[0])), 0)
    held = {}

    def images(step):
        yield from (("A", emitter._place_of_a(step, tile, 0), tile.number, step.k) for tile in step.rows)
        yield from (("B", emitter._place_of_b(step, tile, 0), tile.number, step.k) for tile in step.columns)

    def pack(step):
        for operand, place, *what in images(step):
            if step.packs_a if operand == "A" else step.packs_b:
                held[operand, place] = what

    pack(steps[0])
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        if following is not None:
            pack(following)  # while this step's are read
        for operand, place, *what in images(step):
            assert held[operand, place] == what
            assert place < emitter.counts[operand == "B"]


@pytest.mark.parametrize(("k", "words", "count"), [
    (1, 2, 1), (4, 2, 1), (5, 5, 2), (10, 5, 2), (11, 8, 3), (16, 8, 3), (36, 2, 1), (42, 5, 2), (48, 8, 3)])
def test_tiles_of_several_terms_multiply_the_same_pairs(k, words, count):
    joined = KERNEL.joined(k)
    assert (joined.words, len(joined.pairs)) == (words, count)
    assert joined.words * max(map(len, joined.pairs)) <= 16
    assert [pair for pairs in joined.pairs for pair in pairs] == list(KERNEL.products), "the largest ones last"


@pytest.mark.parametrize("k", [17, 32, 49, 64])
def test_no_tile_holds_several_terms_where_more_than_16_elements_are_left(k):
    assert KERNEL.joined(k) is None


@pytest.mark.parametrize(("k", "tiles", "products"), [
    (64, (2, 16), 12), (48, (2, 16), 9), (33, (2, 16), 7), (42, (2, 16), 8), (16, (1, 16), 3), (4, (1, 16), 1),
    (17, (1, 9), 6), (50, (2, 13), 12)])
def test_ends_of_sums_take_fewer_products(k, tiles, products):
    assert KERNEL.depth(k) == tiles
    emitter = emitter_of(16, 16, k)
    emitter.emit()
    assert str(emitter.builder.function).count("tdpbf16ps") == products


@pytest.mark.parametrize("k", [4, 10, 16, 40, 64])
def test_tiles_of_operands_begin_at_cache_lines(k):
    """Their rows are lines of images: a tile that begins half a line later takes several times as long to load."""
    emitter = emitter_of(32, 32, k)
    emitter.emit()
    text = str(emitter.builder.function)
    strides = re.findall(r'tileloadd[^"]*", "[^"]*"\s*\(i64 [^,]*, i64 (\d+)\)', text)
    assert len(strides) == text.count("tileloadd")
    assert set(strides) == {"64"}
    assert set(re.findall(r"store <(\d+) x i32> .*?align (\d+)", text)) == {("16", "64")}


def test_lines_that_tiles_share_are_fetched_between_products():
    """One to three at a time; whole lines are stored without being fetched."""
    emitter = emitter_of(40, 40, 40, fetches=True)
    emitter.emit()
    order = re.findall(r"tdpbf16ps|prefetcht0", str(emitter.builder.function))
    text = "".join("p" if name == "tdpbf16ps" else "f" for name in order)
    assert text[0] == "p"
    assert text.count("f") > 40 * 40 * 4 // 64
    assert max(map(len, re.findall("f+", text))) <= 12
    aligned = emitter_of(48, 40, 40, fetches=True)
    aligned.emit()
    assert "prefetcht0" not in str(aligned.builder.function)


@pytest.mark.parametrize("transposed", ["", "A", "B"])
def test_numbers_are_transposed_not_their_terms(transposed):
    """Two squares of them for each operand that lies along the other mode: 64 permutations each."""
    emitter = emitter_of(16, 16, 32, transposed)
    emitter.emit()
    assert str(emitter.builder.function).count("shufflevector") == (2 * 64 if transposed else 0)
