"""What the matrix units of devices do well, in numbers: Intel's XMX (DPAS) and AMX."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AmxNumbers", "DpasNumbers"]

#: Blocks of a tile along the lanes and along the repeat count, and steps of k.
Blocks = tuple[int, int, int]


@dataclass(frozen=True)
class DpasNumbers:
    """Numbers that the code of compiled kernels chose for products on DPAS.

    A default tile has at most so many blocks along the lanes and along the repeat count: `blocks_read` where the
    operands are loaded by blocks, which leaves the registers to the sums, `elements_read` where elements are read one
    by one, and `words_read` where loads take several.  With loads of blocks, an iteration takes the first of
    `block_steps` that k is long enough for; where loads take several elements, the first of `steps` that divides it.

    Products whose operands are packed in local memory have the first of the tiles `packed` that fits, `packed_f32`
    where operands are f32 that are rounded; their values may take `registers`: beyond, the compiler begins to use
    scratch memory.
    """

    packed: tuple[Blocks, ...]
    packed_f32: tuple[Blocks, ...]
    registers: int
    blocks_read: tuple[int, int] = (4, 4)
    elements_read: tuple[int, int] = (2, 1)
    words_read: tuple[int, int] = (4, 2)
    steps: tuple[int, ...] = (4, 2)
    block_steps: tuple[int, ...] = (2, 1)


@dataclass(frozen=True)
class AmxNumbers:
    """How long products on the tiles of AMX take in nanoseconds, and the same products by vectors.

    There is the time to `start` and end, and that for each product of `tile`s, for each `row` of 16 words that is
    packed or finished, and for each cache `line` of C.  `multiply_add` is that of one vector, conversion of its
    operands included, by their type.
    """

    start: float
    tile: float
    row: float
    line: float
    multiply_add: tuple[tuple[str, float], ...]

    def vector_time(self, operand: str) -> float:
        """Return the time of a multiply-add of one vector of operands of a type, by its name in the language."""
        return dict(self.multiply_add)[operand]
