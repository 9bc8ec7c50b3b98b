"""Products that the offline compiler made machine code of, executed and compared with NumPy, and mutations of them.

`python -m tests.campaigns xe` tries as many as you like.
"""

from __future__ import annotations

import functools
import random
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.runtime.support import needs_tools
from tests.xe_machine import blocks
from tests.xe_machine.errors import MachineError
from tests.xe_machine.launch import Binary
from tests.xe_machine.parser import parse
from tests.xe_machine.products import KINDS, Product, binary_of, compiled, draw, wrong
from tl_dpnp.lowering.tactics import shared_tiles

#: Read by blocks, with rests of m, n and k; parts of f32; two products; sizes that are known at the call.
BLOCKS = Product("static", "bf16", 40, 20, 72, 11, alpha=2, beta=-1)
PARTS = Product("static", "f32-high", 24, 16, 40, 12, "nt", beta=1)
CHAIN = Product("chain", "bf16", 24, 16, 72, 15, beta=1)
OPEN = Product("dynamic", "f16", 60, 62, 50, 13, "tn", alpha=2, beta=1, padding=(6, 14, 8))
#: Whose B is transposed: words of several columns are split.
SPLIT = Product("static", "bf16", 40, 40, 72, 16, "nt", alpha=2, beta=-1)
BYTES = Product("dynamic", "i8", 72, 72, 40, 17, "nt", alpha=-1, padding=(0, 8, 0))
#: Messages of three blocks of columns; pairs of headers that move alike, and by steps of their own; fetches for two
#: iterations, of which there are as many, or one more.
THREE = Product("static", "f16", 56, 60, 144, 70, beta=-1, micro_kernel="dpas_f32_f16_f16_8x16x16_tile_3x3x1")
SEVEN = Product("static", "i8", 48, 116, 288, 71, "tt", micro_kernel="dpas_i32_i8_i8_8x16x32_tile_7x3x1_exchanged")
#: Its DPAS all count: k is a multiple of what an iteration takes.
ROUNDED = Product("static", "tf32", 40, 20, 80, 18, beta=1)
#: Rounded by one sub-group for others, with tiles that are not a part of C.
SHARED = Product("static", "tf32", 196, 104, 92, 22, alpha=2, beta=1,
                 micro_kernel="dpas_f32_tf32_tf32_8x16x8_tile_4x4x6_from_f32_by_1_shared_or_2x2x4_staged")
#: The same for what whole work-groups cover; the rest by each for itself.
SHARED_OPEN = Product("dynamic", "tf32", 72, 168, 104, 23, "tt", beta=-1, padding=(2, 4, 8),
                      micro_kernel="dpas_f32_tf32_tf32_8x16x8_tile_2x2x4_from_f32_by_1_exchanged_shared_or_2x2x4_staged")
#: Packed in local memory: columns that are odd, and a rest of k.
PACKED = Product("static", "bf16", 75, 42, 89, 21, alpha=2, beta=-1)
#: Packed by messages of every second, fourth or eighth line, with moves, where addresses allow that, and with an end of
#: k in the middle of a word; every second column of C is stored at a time.
LINES = [
    Product("static", "f16", 75, 41, 53, 31, ordinary=True), Product("batch", "i8", 83, 41, 67, 32, groups=4, beta=2),
    Product("static", "bf16", 41, 75, 54, 33, "tt", alpha=2), Product("static", "u8", 80, 70, 99, 34, "nn", beta=1),
    Product("batch", "f16", 70, 33, 100, 35, groups=2), Product("static", "tf32", 67, 41, 35, 36, beta=-1),
    Product("chain", "bf16-bf16", 65, 40, 67, 37), Product("static", "i8", 83, 41, 64, 38),
    # Columns of B that begin with words are loaded as fragments; so is A of f32 whose columns are multiples of 8 bytes.
    Product("static", "f16", 73, 64, 122, 44, beta=1), Product("batch", "i8", 83, 64, 100, 45, groups=2),
    Product("static", "tf32", 68, 64, 41, 46, ordinary=True), Product("static", "u8", 64, 97, 148, 47, "tt"),
    Product("static", "f16-f16", 73, 61, 122, 48),
]
#: Sums whose last iteration is shorter than the others.
LEFT_OVER = [
    Product("static", "bf16", 96, 112, 304, 41), Product("static", "f16", 64, 64, 80, 42, "tn", beta=1),
    Product("static", "tf32", 40, 56, 72, 43, "nt"),
]
#: A panel that is the only one, of one to five DPAS along k, by a loop or without one.
ONE_PANEL = [
    Product("static", "f16", 75, 41, 16, 61), Product("static", "bf16", 65, 104, 32, 62, beta=1),
    Product("batch", "i8", 69, 41, 67, 63, groups=2), Product("static", "f16", 101, 72, 58, 64, "tn"),
    Product("batch", "u8", 72, 40, 130, 65, "nt", alpha=2), Product("static", "bf16", 41, 75, 60, 66, "tt"),
    Product("static", "f32-high", 40, 24, 41, 67, ordinary=True), Product("chain", "f16", 40, 33, 48, 68),
    Product("static", "tf32", 67, 41, 27, 69, "tt", beta=-1),
]


@functools.cache
def _built(product: Product, device: str = "pvc") -> tuple[Any, Binary]:
    kernel, program = compiled(product, device)
    return kernel, binary_of(program)


@functools.cache
def _executed(product: Product) -> tuple[frozenset[int], int]:
    """Return where the instructions are that a product executes, which is right, and how many are executed."""
    kernel, binary = _built(product)
    why, steps = wrong(product, kernel, binary)
    assert not why
    return frozenset(binary.executed), steps


def _right(product: Product) -> tuple[Any, Binary]:
    """Return what `_built` does, after a right execution: each has to differ from that by what is changed alone.

    A mutant whose loops have no end is given up after some times as many instructions.
    """
    kernel, binary = _built(product)
    executed, steps = _executed(product)
    return kernel, replace(binary, executed=set(executed), most_steps=4 * steps)


def _verdict(product: Product, binary: Binary, kernel: Any) -> str:
    """Return what is wrong with a product, whichever way it is seen; nothing if it is right."""
    try:
        return wrong(product, kernel, binary)[0]
    except MachineError as error:
        return str(error)


@needs_tools
def test_panels_of_f32_are_shared_where_that_saves_instructions() -> None:
    """Nor does a kernel for any sizes share small ones: each sub-group loads for itself what it has of them."""
    for kind, sizes, other in (("static", (128, 128, 256), "2x8x2_from_f32_by_1"),
                               ("dynamic", (256, 128, 192), "4x4x2_from_f32_by_1")):
        chosen = Product(kind, "tf32", *sizes, 24)
        given = replace(chosen, micro_kernel=f"dpas_f32_tf32_tf32_8x16x8_tile_{other}_or_2x2x4_staged")
        assert "_shared_" in _built(chosen)[0].lower("pvc").schedule
        assert _executed(chosen)[1] < _executed(given)[1]
    small = Product("dynamic", "tf32", 40, 40, 40, 24)
    given = replace(small, micro_kernel="dpas_f32_tf32_tf32_8x16x8_tile_4x4x2_from_f32_by_1_or_2x2x4_staged")
    assert _executed(small)[1] < 1.15 * _executed(given)[1]


@needs_tools
@pytest.mark.parametrize("seed", [1, 3])
def test_shared_panels_of_drawn_products_take_no_more_instructions(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model that chooses is off by some hundredths."""
    sizes = random.Random(seed)
    m, n, k = (4 * sizes.randint(24, 56) for _ in range(3))
    product = Product("static", "tf32", m, n, k, 81 + seed, beta=seed % 2, ordinary=True)
    steps = _executed(product)[1]
    assert "_shared_" in _built(product)[0].lower("pvc").schedule
    monkeypatch.setattr(shared_tiles, "shared_tile", lambda *_: None)
    kernel, program = compiled(product)
    assert "_shared_" not in program.schedule
    assert steps <= 1.02 * wrong(product, kernel, binary_of(program))[1]


@needs_tools
def test_the_longer_side_of_a_tile_waits_for_registers_once() -> None:
    """Messages that load its next fragments follow one another: there were 28 waits, of as many DPAS and messages."""
    product = Product("static", "tf32", 256, 256, 512, 86,
                      micro_kernel="dpas_f32_tf32_tf32_8x16x8_tile_2x8x4_from_f32_by_1_shared_or_2x4x4_staged")
    found = _built(product)[0].resources(device="pvc")
    assert found.loop["dpas"] == 64
    assert found.loop["sync"] <= 22


@needs_tools
@pytest.mark.parametrize("sizes", [(104, 160, 126), (72, 88, 114)])
def test_rests_of_k_that_are_packed_by_elements_halve_no_tiles(sizes: tuple[int, int, int]) -> None:
    """Rests of f32 took scratch memory where addresses do not allow messages, for which all tiles were halved."""
    program = compiled(Product("static", "tf32", *sizes, 87))[1]
    assert (program.halved, program.resources.scratch) == (0, 0)


@needs_tools
def test_panels_are_multiplied_in_straight_code_from_places_that_stay() -> None:
    """More than half of it is DPAS; each sub-group that rounds for itself has a third."""
    found = _built(Product("static", "tf32", 256, 128, 96, 85))[0].resources(device="pvc")
    assert found.is_straight
    assert found.scratch == 0
    assert found.dpas_share > 0.55


@needs_tools
@pytest.mark.drawn(count=4)
@pytest.mark.parametrize("product", [
    BLOCKS, PARTS, OPEN, CHAIN, SPLIT, BYTES, ROUNDED, PACKED, replace(ROUNDED, transposes="nt", ordinary=True),
    Product("dynamic", "tf32", 37, 20, 33, 19, "tt", padding=(1, 4, 0)), SHARED, SHARED_OPEN,
    replace(SHARED, transposes="nt", ordinary=True, micro_kernel=SHARED.micro_kernel.replace("4x4x6", "4x4x3")),
    replace(SHARED_OPEN, transposes="tn", k=100, micro_kernel=SHARED_OPEN.micro_kernel.replace("_exchanged", "")),
    Product("static", "f16", 36, 36, 50, 20, "nt"), THREE, replace(THREE, k=152, transposes="tn"), SEVEN,
    replace(PACKED, k=73, micro_kernel="dpas_f32_bf16_bf16_8x16x16_tile_2x3x4_staged"),
    # Fragments of fewer words than lanes; elements of local memory at odd places, which the compiler loads by pairs.
    Product("chain", "f16-f16", 1, 1, 1, 25), Product("chain", "f16-f16", 3, 20, 29, 26, alpha=-1, beta=2),
    Product("batch", "i8", 8, 34, 7, 5, "tn", alpha=-1, groups=3),
    Product("group", "u8", 33, 16, 40, 6, "nn", alpha=-1, beta=2, groups=2, padding=(3, 0, 5), offsets=(0, 1, 2)),
], ids=lambda product: f"{product.types}-{product.kind}")
def test_products_are_right_on_xe_hpc(product: Product) -> None:
    kernel, binary = _built(product)
    assert wrong(product, kernel, binary)[0] == ""


@needs_tools
@pytest.mark.drawn(count=4)
@pytest.mark.parametrize("product", [*LINES, *LEFT_OVER], ids=lambda product: f"{product.types}-{product.seed}")
def test_products_of_uneven_lines_and_sums_are_right(product: Product) -> None:
    kernel, binary = _built(product)
    assert wrong(product, kernel, binary)[0] == ""


@needs_tools
@pytest.mark.parametrize("product", [
    LINES[0], replace(LINES[1], groups=1), Product("static", "u8", 66, 40, 71, 39, beta=1),
], ids=lambda product: product.types)
def test_matrices_may_begin_where_their_lines_do(product: Product) -> None:
    """By the same messages: such are matrices of a batch that have an odd number of elements."""
    for offsets in ((2, 1, 0), (0, 3, 0)):
        assert _executed(replace(product, offsets=offsets))[1] < 1.05 * _executed(product)[1], offsets


@needs_tools
@pytest.mark.parametrize("product", [
    Product("batch", "f16", 60, 37, 83, 70, groups=3), Product("batch", "tf32", 68, 24, 41, 71, groups=2, beta=1),
    Product("batch", "bf16", 52, 33, 45, 72, "tt", groups=3), Product("batch", "u8", 72, 40, 67, 73, "nt", groups=2),
], ids=lambda product: product.types)
def test_dense_matrices_of_a_batch_need_not_begin_at_multiples_of_64(product: Product) -> None:
    """Each takes as long as the first one."""
    assert _executed(product)[1] < 1.05 * product.groups * _executed(replace(product, groups=1))[1]


@needs_tools
@pytest.mark.drawn(count=4)
@pytest.mark.parametrize("product", ONE_PANEL, ids=lambda product: f"{product.types}-{product.seed}")
def test_sums_of_one_panel_begin_with_its_first_products(product: Product) -> None:
    _, binary = _right(product)
    assert _places(binary, r"\bdpas\S* \(16\|M0\) r\d+:\w+ null:")


@needs_tools
def test_uneven_lines_are_packed_with_fewer_instructions() -> None:
    """A third of what items took that pack single elements."""
    product = Product("static", "f16", 73, 177, 122, 39)
    items = replace(product, micro_kernel="dpas_f32_f16_f16_8x16x16_tile_3x4x4_staged")
    assert "_ab_staged_" in _built(product)[0].lower("pvc").schedule
    assert 2 * _executed(product)[1] < _executed(items)[1]


@needs_tools
def test_a_move_of_a_line_that_is_missing_or_takes_another_element_is_seen() -> None:
    product = LINES[7]
    kernel, binary = _right(product)
    places = _spread(_places(binary, r"\bmov \(16\|M0\).*<4>:ub.*<1;1,0>:ub"))
    assert len(places) >= 3
    for place in places:
        for change in (lambda _: "nop", _shifted(1, 1), _shifted(0, 1)):
            assert _verdict(product, _changed(binary, place, change), kernel), f"{place:04X}"


@needs_tools
def test_a_kernel_for_any_sizes_is_right_for_several() -> None:
    kernel, binary = _built(OPEN)
    for sizes in ((1, 1, 1), (65, 9, 17), (8, 40, 96)):
        m, n, k = sizes
        product = replace(OPEN, m=m, n=n, k=k, padding=(0, 1, 2), offsets=(1, 0, 3), beta=0)
        assert wrong(product, kernel, binary)[0] == "", sizes


@needs_tools
@pytest.mark.parametrize("product", [
    Product("static", "bf16", 24, 16, 40, 14, "nt", beta=1),
    # Columns at odd places, and ends of k, whose elements are loaded with a mask.
    Product("dynamic", "f16-f16", 8, 33, 41, 50, beta=1, padding=(0, 1, 8), offsets=(0, 1, 1)),
    Product("static", "u8", 19, 17, 37, 51, "tn", offsets=(1, 3, 0)),
], ids=lambda product: product.types)
def test_a_product_is_right_on_xe_hpg(product: Product) -> None:
    kernel, binary = _built(product, "dg2")
    assert (binary.lanes, binary.width) == (8, 32)
    assert wrong(product, kernel, binary)[0] == ""


# --- mutations --------------------------------------------------------------------------------------------------------


def _places(binary: Binary, pattern: str) -> list[int]:
    """Return where instructions that were executed and match a pattern are."""
    return [each.place for each in parse(binary.assembly)
            if each.place in binary.executed and re.search(pattern, each.text)]


def _changed(binary: Binary, place: int, change: Any) -> Binary:
    """Return the kernel with one instruction changed; `change` is a function of its text."""
    lines = binary.assembly.split("\n")
    (number,) = [i for i, line in enumerate(lines) if line.startswith(f"/* [{place:04X}]")]
    head, _, text = lines[number].partition("*/")
    lines[number] = f"{head}*/ {change(text)}"
    assert lines[number].split() != binary.assembly.split("\n")[number].split()
    return replace(binary, assembly="\n".join(lines), executed=set())


def _shifted(operand: int, registers: int) -> Any:
    """Return what moves an operand of a dpas by some registers, back where there are none further on."""
    def change(text: str) -> str:
        operands = list(re.finditer(r"\br(\d+)(?=[.:])", text))
        number = int(operands[operand][1])
        moved = number + registers if number + 8 + registers < 128 else number - registers
        return text[: operands[operand].start(1)] + str(moved) + text[operands[operand].end(1):]

    return change


def _spread(places: list[int], count: int = 3) -> list[int]:
    return [places[i] for i in sorted({round(i * (len(places) - 1) / (count - 1)) for i in range(count)})]


@needs_tools
@pytest.mark.parametrize(
    "product", [BLOCKS, OPEN, SPLIT, ROUNDED, PACKED], ids=["blocks", "any-sizes", "split", "rounded", "packed"])
def test_a_dpas_that_is_missing_or_takes_another_fragment_is_seen(product: Product) -> None:
    kernel, binary = _right(product)
    places = _spread(_places(binary, r"^dpas"))
    assert len(places) >= 3
    for place in places:
        for change in (lambda _: "nop", _shifted(2, 8), _shifted(3, 8), _shifted(3, 1)):
            mutant = _changed(binary, place, change)
            assert _verdict(product, mutant, kernel), f"{place:04X}"


@needs_tools
@pytest.mark.parametrize("product", [BLOCKS, PARTS, PACKED], ids=["blocks", "parts", "packed"])
def test_a_message_that_is_missing_is_seen(product: Product) -> None:
    """A load leaves registers without a value, or with an old one; a store leaves the result as it was."""
    kernel, binary = _right(product)
    # Those with a mask may load nothing: a tail that is missing is a mutation of the generator.
    loads = _spread(_places(binary, r"^(\(W\) )?send\.ugm \(\d+\|M0\) r\d+ r\d+ null:0 0x0 "))
    stores = _spread(_places(binary, r"send\.(ugm|slm) \(\d+\|M0\) null r\d+ r\d"))
    for place in [*loads, *stores]:
        assert _verdict(product, _changed(binary, place, lambda _: "nop"), kernel), f"{place:04X}"


@needs_tools
@pytest.mark.parametrize(("product", "width"), [(SPLIT, 2), (BYTES, 4)], ids=["words", "bytes"])
def test_a_split_of_words_that_is_missing_or_takes_another_column_is_seen(product: Product, width: int) -> None:
    kernel, binary = _right(product)
    places = _spread(_places(binary, rf"\bmov \(32\|M0\).*<{width};1,0>:u[bw]"))
    assert len(places) == 3
    for place in places:
        for change in (lambda _: "nop", _other_column, _shifted(1, 1), _shifted(0, 1)):
            assert _verdict(product, _changed(binary, place, change), kernel), f"{place:04X}"


def _other_column(text: str) -> str:
    """Return a move that takes the next element of each word, or the one before."""
    return re.sub(r"\.(\d+)(<[24];1,0>)", lambda found: f".{int(found[1]) ^ 1}{found[2]}", text)


@needs_tools
@pytest.mark.parametrize("transposes", ["nn", "nt"])
def test_a_rounding_that_is_missing_is_seen(transposes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All elements lie three quarters of a unit in the last place of tf32 above 1."""
    from tests.xe_machine import products

    product = replace(ROUNDED, transposes=transposes, n=32, beta=0, ordinary=True)
    monkeypatch.setattr(products._Operands, "_values", lambda _, name, shape: np.full(
        shape, 1 + 0.75 * 2**-10, np.float32))
    monkeypatch.setitem(products._ORDINARY, "default", 2.0**-10)
    kernel, binary = _built(product)
    assert not _verdict(product, binary, kernel)
    places = _places(binary, r":tf32 .*:f\b")
    assert places
    mutant = functools.reduce(
        lambda mutant, place: _changed(mutant, place, lambda text: text.replace(":tf32", ":f")), places, binary)
    assert _verdict(product, mutant, kernel)


@needs_tools
def test_a_read_of_local_memory_that_is_missing_or_elsewhere_is_seen() -> None:
    """Reads of runs of 64 bits are those of fragments; each gets the address of another one."""
    kernel, binary = _right(PACKED)
    pattern = r"send\.slm\s+\(1\|M0\)\s+r\d+\s+(r\d+)\s+null:0\s+0x0\s+0x02\w\w[A-F]7"
    places = _places(binary, pattern)
    assert len(places) >= 3
    addresses = re.findall(pattern, binary.assembly)
    for number, place in enumerate(places):
        other = addresses[number - 1]
        for change in (lambda _: "nop", lambda text, other=other: re.sub(r"\br\d+(\s+null:0)", rf"{other}\1", text)):
            assert _verdict(PACKED, _changed(binary, place, change), kernel), f"{place:04X}"


@needs_tools
@pytest.mark.parametrize("product", [CHAIN, PACKED], ids=["chain", "packed"])
def test_barriers_that_are_missing_are_seen(product: Product) -> None:
    """Between the two products of a chain, and between packing and products."""
    kernel, binary = _right(product)
    places = [*_places(binary, r"sync\.bar"), *_places(binary, r"send\.gtwy .*0x02000004")]
    assert len(places) >= 2
    mutant = functools.reduce(lambda mutant, place: _changed(mutant, place, lambda _: "nop"), places, binary)
    # A sub-group that waits for nobody reads what others did not pack.
    assert re.search("without a barrier between|no value", _verdict(product, mutant, kernel))


@needs_tools
@pytest.mark.parametrize(("what", "change"), [
    ("pitch", lambda block: replace(block, pitch=block.pitch + 64)),
    ("column", lambda block: replace(block, x=block.x + 4)),
    ("row", lambda block: replace(block, y=block.y + 1)),
    ("a missing tail", lambda block: replace(block, width=block.width - 16)),
    ("a missing tail", lambda block: replace(block, height=block.height - 8)),
    ("no bounds", lambda block: replace(block, height=block.height + 64)),
])
def test_a_wrong_header_of_block_messages_is_seen(
    what: str, change: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, binary = _right(BLOCKS)
    plain = blocks.Block.of
    monkeypatch.setattr(blocks.Block, "of", lambda header, size: change(plain(header, size)))
    assert _verdict(BLOCKS, binary, kernel), what


@needs_tools
@pytest.mark.parametrize(("changes", "what"), [
    ({3: -1, 7: -1}, "a missing tail of k"), ({4: -1, 11: -1}, "a missing tail of m"),
    ({8: -1, 12: -1}, "a missing tail of n"), ({5: 2}, "a wrong pitch of A"), ({9: 2}, "a wrong pitch of B"),
    ({13: 8}, "a wrong pitch of C"), ({2: 2}, "A one element further on"), ({6: 2}, "B one element further on"),
    ({0: 1}, "another alpha"), ({1: -1}, "no beta"),
], ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "")
def test_a_wrong_argument_is_seen(changes: dict[int, int], what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As generated code would compute it: alpha, beta, then the address, sizes and stride of A, of B and of C."""
    from tests.xe_machine import products

    kernel, binary = _right(OPEN)
    plain = products._Operands.flat

    def flat(self: Any, parameters: Any) -> list[float | int]:
        values = plain(self, parameters)
        assert len(values) == 2 + 3 * 4 + 3
        return [value + changes.get(place, 0) for place, value in enumerate(values)]

    monkeypatch.setattr(products._Operands, "flat", flat)
    assert _verdict(OPEN, binary, kernel), what


def test_products_are_drawn_alike_for_a_seed() -> None:
    for kind in KINDS:
        assert draw(kind, 5) == draw(kind, 5)
        assert draw(kind, 5).source != draw(kind, 6).source
        assert np.prod(draw(kind, 7).shapes[2]) > 0
