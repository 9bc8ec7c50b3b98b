"""How operands of a work-group lie in local memory, and what that takes.

A piece is what one DPAS takes along k, for all lines of a work-group.  It lies in local memory as fragments, each an
image of the registers that hold it (`rows`), those of a sub-group one behind the other: one message loads several.  A
panel is what is packed at a time: some pieces of A, and behind them as many of B.  Rows of A and columns of B are both
called lines here: a fragment of A has its words line after line within each word of k, one of B the other way around.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel

__all__ = [
    "WORD_BITS", "Piece", "Unit", "needed_for_words", "packed_bytes", "packed_registers", "packs", "piece_words",
    "unit_of",
]

WORD_BITS = 32
#: Words that one load takes at most.
_MOST_WORDS = 4
#: Blocks of columns of B that sub-groups which share it load together, where it lies along k.
_BLOCKS_TOGETHER = 4


class Piece(NamedTuple):
    """The lines of an operand in local memory, and how its fragments lie there.

    A fragment has `lines` lines of `words` 32-bit words, the lines of a word next to each other if it is `across`, as
    those of A, else the words of a line.  There are `blocks` fragments along the lines, each of `terms`.
    """

    lines: int
    words: int
    across: bool
    blocks: int
    terms: int
    bits: int

    @property
    def per_word(self) -> int:
        """Elements in a word."""
        return WORD_BITS // self.bits

    @property
    def fragment(self) -> int:
        """Words of a fragment."""
        return self.lines * self.words

    @property
    def size(self) -> int:
        """Words of all fragments."""
        return self.fragment * self.blocks * self.terms

    @property
    def all_lines(self) -> int:
        """Lines of all fragments."""
        return self.lines * self.blocks

    @property
    def all_words(self) -> int:
        """Words of one term of all lines."""
        return self.words * self.all_lines


def piece_words(kernel: MicroKernel, rows: int, columns: int) -> tuple[Piece, Piece]:
    """Return how pieces of A and B lie in local memory for so many rows and columns of sub-groups."""
    row, terms = kernel.row, max(1, kernel.terms)
    b_words, b_blocks = row.k * row.source2.bits // WORD_BITS, columns * kernel.column_blocks
    if kernel.shared:
        # Messages load as many blocks at a time, whatever their number is.
        b_blocks = -(-b_blocks // _BLOCKS_TOGETHER) * _BLOCKS_TOGETHER
    return (
        Piece(row.execution_size, row.b_elements, True, rows * kernel.lane_blocks, terms, row.source1.bits),
        Piece(row.repeat, b_words, False, b_blocks, terms, row.source2.bits),
    )


def packed_bytes(kernel: MicroKernel, rows: int, columns: int) -> int:
    """Return the local memory that a panel of a micro-kernel that packs one operand or both takes."""
    size = sum(piece.size for piece in piece_words(kernel, rows, columns) if packs(kernel, piece))
    return kernel.steps * size * WORD_BITS // 8


def packs(kernel: MicroKernel, piece: Piece) -> bool:
    """Whether a micro-kernel packs the operand whose pieces are such."""
    return not kernel.packs or ("a" if piece.across else "b") in kernel.packs


def needed_for_words(strides: tuple[object, ...], lines: object, piece: Piece) -> list[tuple[object, int]] | None:
    """Return what must be so that narrow elements can be loaded by words: values and what they are multiples of.

    None where that cannot be.  Strides are along lines and along k.
    """
    match strides:
        case (pitch, 1):
            needed = [(pitch, piece.per_word)]
        case (1, pitch) if piece.lines % piece.per_word == 0:
            # What is known at compile time decides how many lines a load takes, else it takes most.
            most = math.gcd(_MOST_WORDS * piece.per_word, piece.lines)
            needed = [(pitch, piece.per_word), (lines, piece.per_word if isinstance(lines, int) else most)]
        case _:
            return None
    return None if any(isinstance(value, int) and value % divisor for value, divisor in needed) else needed


def packed_registers(
    kernel: MicroKernel, rows: int, columns: int, operands: Sequence[tuple[tuple[object, ...], object]]
) -> int:
    """Return the registers that values of a packed micro-kernel take: sums, and fragments or what is being packed.

    Both operands are given by their strides, along lines and along k, and the number of their lines; anything but an
    int is not known.
    """
    row, is_f32 = kernel.row, kernel.terms > 0
    items = row.execution_size * rows * columns
    sums = kernel.lane_blocks * kernel.column_blocks * row.repeat * len(kernel.products)
    pieces = piece_words(kernel, rows, columns)
    fragments = sum(piece.fragment * piece.terms * blocks // row.execution_size for piece, blocks in zip(
        pieces, (kernel.lane_blocks, kernel.column_blocks), strict=True))
    packing = 0
    for piece, (strides, lines) in zip(pieces, operands, strict=True):
        by_words = not is_f32 and needed_for_words(strides, lines, piece) is not None
        unit = unit_of(piece, strides, lines, items, is_f32, by_words)
        words = unit.lines * unit.words
        units = -(-piece.all_words // (words * items))
        # An address in global memory takes two registers, one in local memory one.
        stores = unit.words if piece.across else unit.lines
        packing += units * (words * (1 if by_words else piece.per_word) + 2 + stores)
    return sums + max(fragments, packing)


class Unit(NamedTuple):
    """What a work-item loads and packs at a time: neighbouring lines and words; `along` k if a load is."""

    lines: int
    words: int
    along: bool


def unit_of(
    piece: Piece, strides: tuple[object, ...], lines: object, items: int, is_f32: bool, by_words: bool
) -> Unit:
    """Return the largest unit that strides along lines and k allow and that leaves something to do for all items.

    Narrow elements are loaded `by_words` or one by one.
    """
    share = 1 << (max(1, piece.all_words // items).bit_length() - 1)
    if strides[1] == 1 and (by_words or is_f32):
        # A load of f32 takes as many elements as words, which are packed afterwards.
        words = max(1, _MOST_WORDS // piece.per_word) if is_f32 else _MOST_WORDS
        return Unit(1, math.gcd(words, piece.words, share), True)
    if strides[0] == 1 and is_f32:
        return Unit(math.gcd(_MOST_WORDS, piece.lines, share, lines if isinstance(lines, int) else 1), 1, False)
    if strides[0] == 1 and by_words:
        size = lines if isinstance(lines, int) else piece.lines
        most = math.gcd(_MOST_WORDS * piece.per_word, piece.lines, size)
        return Unit(math.gcd(most, max(piece.per_word, share)), 1, False)
    return Unit(1, 1, strides[1] == 1)
