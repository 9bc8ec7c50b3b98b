"""The blocks of a matrix that messages of Xe-HPC move, and what these messages can do.

Source: the functions of the extension cl_intel_subgroup_2d_block_io, and what the Intel Graphics Compiler 1.0.12504
makes of its own.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from llvmlite import ir

from tl_dpnp.kernels.llvm import I32, I64, vector_of
from tl_dpnp.records import dataclass

__all__ = ["COLUMN", "ROW", "RULES", "Block", "BlockRules", "Kind"]

#: How a message lays out what it loads (`Block`).
Kind = Literal["plain", "packed", "transposed", "split", "ordered"]

#: The fields of a header that are the first column and the first row.
COLUMN, ROW = 5, 6
#: Bits of a descriptor: the size of elements, from 8 bits on in powers of two; whether columns are packed in 32 bits,
#: or blocks transposed.
_SIZES, _PACKED, _TRANSPOSED = {8: 0, 16: 1 << 9, 32: 2 << 9}, 0x80, 0x8000


class BlockRules(NamedTuple):
    """What these messages can do: bytes of a matrix, multiples of bytes, and the most rows, bytes and registers.

    Of words of 32 bits that are transposed, so many may lie in a row.
    """

    address: int = 64
    least_bytes: int = 64
    most_bytes: int = 1 << 24
    width_multiple: int = 4
    pitch_multiple: int = 8
    rows: int = 32
    row_bytes: int = 64
    registers: int = 32
    register_bytes: int = 64
    transposed_words: int = 8

    @property
    def most_lines(self) -> int:
        """Lines of a matrix at most, of which some more may be taken before it (`block_messages.start_of`)."""
        return self.most_bytes - self.address // self.pitch_multiple


RULES = BlockRules()


@dataclass(frozen=True)
class Block:
    """The shape of what a message moves, in elements of `bits`: `count` arrays of `height` rows of `width` elements.

    ``plain``: row after row.  ``packed``: `32 / bits` rows are packed in 32 bits of each column.  ``transposed``:
    column after column, of elements of 32 bits.  ``split`` and ``ordered``: transposed as words of 32 bits, then taken
    apart into columns of elements (`lines`), which no message does: the first elements of all words come before their
    second ones, which takes fewer instructions, or the columns are in their order.
    """

    kind: Kind
    bits: int
    width: int
    height: int
    count: int = 1

    @property
    def word_bits(self) -> int:
        """Bits of what the message takes for an element."""
        return 32 if self.is_taken_apart else self.bits

    @property
    def is_taken_apart(self) -> bool:
        """Whether words that were loaded are taken apart into elements of several columns."""
        return self.kind in ("split", "ordered")

    @property
    def per_word(self) -> int:
        """Elements in what the message takes for one."""
        return self.word_bits // self.bits

    @property
    def lines(self) -> tuple[int, ...]:
        """The columns of the matrix as they follow one another in registers."""
        if self.kind == "ordered":
            return tuple(range(self.width))
        return tuple(line for part in range(self.per_word) for line in range(part, self.width, self.per_word))

    @property
    def array_bytes(self) -> int:
        """Bytes of registers from the start of an array to that of the next one."""
        size = self.width * self.height * self.bits // 8
        return -(-size // RULES.register_bytes) * RULES.register_bytes

    @property
    def registers(self) -> int:
        """Registers that the block fills."""
        return self.count * self.array_bytes // RULES.register_bytes

    @property
    def size(self) -> int:
        """Bytes of these registers."""
        return self.registers * RULES.register_bytes

    @property
    def descriptor(self) -> int:
        """The descriptor of a message for such a block, without its kind and the length of what is loaded."""
        kinds = {"plain": 0, "packed": _PACKED}
        return _SIZES[self.word_bits] | kinds.get(self.kind, _TRANSPOSED)

    @property
    def field(self) -> int:
        """The block in a header."""
        return (self.width // self.per_word - 1) | (self.height - 1) << 8 | (self.count - 1) << 16

    @property
    def type(self) -> ir.Type:
        """The LLVM type of one lane's part of what is loaded: vectors have 16 elements at most."""
        words = self.registers
        return ir.VectorType(I64, words // 2) if words > 16 else vector_of(I32, words)
