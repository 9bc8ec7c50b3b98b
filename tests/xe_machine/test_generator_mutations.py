"""Mutations of what generates products for Xe-HPC: each has to be seen where its machine code is executed.

`test_products` changes machine code; here the generator itself takes another fragment, pitch, column or end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.runtime.support import needs_tools
from tests.xe_machine.errors import MachineError
from tests.xe_machine.products import Product, binary_of, compiled, wrong
from tl_dpnp.kernels.dpas import local_tiles
from tl_dpnp.kernels.dpas.block_messages import BlockMessages
from tl_dpnp.kernels.dpas.block_packing import BlockPacking, Share, SharedOperand
from tl_dpnp.kernels.dpas.block_reads import BlockReads
from tl_dpnp.kernels.dpas.element_loads import joined_elements, load_element
from tl_dpnp.kernels.dpas.line_packing import LineLayout, LineOperand, LinePacking
from tl_dpnp.kernels.dpas.local_reads import LocalReads
from tl_dpnp.kernels.dpas.local_tiles import LocalTile

#: Lines that moves bring to where DPAS takes them, and an end of k in the middle of a word.
MOVED = Product("static", "f16", 75, 41, 53, 61)
#: Columns of B that messages load as fragments.
DIRECT = Product("static", "f16", 73, 64, 122, 62)
#: Panels that are rounded once, and B alone packed.
SHARED = Product("static", "tf32", 68, 64, 40, 63,
                 micro_kernel="dpas_f32_tf32_tf32_8x16x8_tile_2x2x4_from_f32_by_1_shared_or_2x2x4_staged")
HALF = Product("static", "f16", 64, 33, 50, 64, "nt")
#: Headers that move on by two, alike and not.
PAIRS = Product("static", "f16", 56, 28, 80, 67, micro_kernel="dpas_f32_f16_f16_8x16x16_tile_3x3x1")
#: Sizes known at the call, which are packed by elements: columns of odd lengths.
ELEMENTS = Product("dynamic", "i8", 35, 17, 75, 65, padding=(2, 0, 1))
HALVES = Product("dynamic", "f16", 35, 17, 21, 66, "tt", padding=(2, 0, 1))


@dataclass(frozen=True)
class Mutation:
    """A function or a property of `owner` whose result, or call, `change` makes another one of; None takes it away."""

    what: str
    product: Product
    owner: Any
    name: str
    change: Callable[..., Any]

    def apply(self, patch: pytest.MonkeyPatch) -> None:
        """Put the mutation in place."""
        plain = vars(self.owner)[self.name]
        if isinstance(plain, property):
            assert plain.fget is not None
            getter = plain.fget
            patch.setattr(self.owner, self.name, property(lambda own: self.change(getter, own)))
        else:
            patch.setattr(self.owner, self.name, lambda *arguments: self.change(plain, *arguments))


def _last_move_elsewhere(plain: Any, own: LineLayout) -> Iterator[Any]:
    *others, last = plain(own)
    yield from others
    yield last._replace(offset=last.offset + own.size)


def _headers(**changes: int) -> Callable[..., Any]:
    """Return what makes headers of lines whose layout is off by some."""
    def change(plain: Any, own: LinePacking, operand: LineOperand, line: Any, k: Any) -> Any:
        layout = operand.layout
        off = {name: getattr(layout, name) + value for name, value in changes.items()}
        return plain(own, replace(operand, layout=replace(layout, **off)), line, k)

    return change


def _next_row(plain: Any, own: LineOperand, across: int, along: int) -> tuple[int, int]:
    column, row = plain(own, across, along)
    return column, row + (1 if across or along else 0)


def _another_block(plain: Any, own: Any, load: Any, loads: Any, k: Any, before: int) -> Any:
    return plain(own, replace(load, line=load.line + 1), loads, k, before)


def _run_elsewhere(plain: Any, own: Share, piece: Any) -> Iterator[Any]:
    for run in plain(own, piece):
        yield run._replace(offset=run.offset ^ 64) if run.place else run


def _left_out(plain: Any, own: BlockPacking, operand: SharedOperand, number: int) -> Any:
    return plain(own, replace(operand, size=operand.piece.lines), number)


MUTATIONS = [
    Mutation("an element of a line further on", MOVED, LineLayout, "moves", _last_move_elsewhere),
    Mutation("a wrong pitch", MOVED, LinePacking, "_headers", _headers(pitch=8)),
    Mutation("no end of k in words", MOVED, LinePacking, "_ended", lambda *_: None),
    Mutation("a row too few", MOVED, LinePacking, "_headers", _headers(rows=-1)),
    Mutation("a tail of rows that is missing", MOVED, LinePacking, "_headers", _headers(row_bytes=-8)),
    Mutation("columns in another order", DIRECT, LineLayout, "columns", lambda plain, own: plain(own)[::-1]),
    Mutation("a wrong pitch of fragments", DIRECT, LinePacking, "_headers", _headers(pitch=8)),
    Mutation("fragments of the next row", DIRECT, LineOperand, "place", _next_row),
    Mutation("fragments that are not rounded at their place", SHARED, Share, "runs", _run_elsewhere),
    Mutation("a block that is left out", SHARED, BlockPacking, "_message", _left_out),
    Mutation("a fragment of another column", SHARED, LocalReads, "size", lambda plain, own: plain(own) // 2),
    Mutation("a step of a pair of headers that is too long", PAIRS, BlockMessages, "step",
             lambda plain, own, field, elements: plain(own, field, 2 * elements)),
    Mutation("a pair of headers whose first one is its second, too", PAIRS, BlockMessages, "load",
             lambda plain, own, header, block, type_, number: plain(own, header, block, type_, number % 1)),
    Mutation("a block of another line", HALF, BlockReads, "_header", _another_block),
    Mutation("a line beyond the last one", ELEMENTS, LocalTile, "present",
             lambda plain, own, line, count: own.builder.add(own.first_line, line)),
    Mutation("a tail of k that has no end", ELEMENTS, local_tiles, "load_element",
             lambda plain, *given: load_element(*given[:4], *given[4:5], -100) if given[4:] else load_element(*given)),
    Mutation("a tail of k that is short", HALVES, local_tiles, "load_element",
             lambda plain, *given: load_element(*given[:5], given[5] + 1) if given[4:] else load_element(*given)),
    Mutation("a byte in the place of another one", ELEMENTS, local_tiles, "joined_elements",
             lambda plain, builder, words, *given: joined_elements(builder, [*words[:-1], words[0]], *given)),
    Mutation("a wrong step along k", ELEMENTS, LocalTile, "along", lambda plain, own, k: k),
]


def _verdict(product: Product) -> str:
    kernel, program = compiled(product)
    try:
        return wrong(product, kernel, binary_of(program))[0]
    except MachineError as error:
        return str(error)


@needs_tools
@pytest.mark.parametrize("product", sorted({each.product for each in MUTATIONS}, key=lambda each: each.seed),
                         ids=lambda product: f"{product.types}-{product.seed}")
def test_what_is_mutated_is_right(product: Product) -> None:
    assert not _verdict(product)


@needs_tools
@pytest.mark.drawn(count=5)
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.what.replace(" ", "-"))
def test_a_mutation_of_the_generator_is_seen(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation.apply(monkeypatch)
    assert _verdict(mutation.product)
