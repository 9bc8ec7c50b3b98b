"""In which order lanes read words of lines that begin in the same banks of shared memory.

Lanes of an instruction have a line and some terms of it each, at distances that may be multiples of all banks: these
are then read one after another.  Such lanes may read several words in different orders, each another one at a time, and
exchange their registers afterwards.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from llvmlite import ir

from tl_dpnp.kernels.llvm import int32
from tl_dpnp.kernels.mma.rows import LANES
from tl_dpnp.records import dataclass

__all__ = ["WordOrder", "best_order", "conflicts"]

#: Bytes of shared memory that are accessed at once, and of a word.
_BANKS, _WORD = 128, 4
#: Bits of the numbers of words that are read together, at most: four words have registers at the same time.
_MOST = 2
#: Accesses to shared memory that take as long as an instruction of a warp on integers, of which there are two a cycle.
_INSTRUCTION = 0.5


@dataclass(frozen=True)
class WordOrder:
    """Of 2 ** `bits` words, a lane reads that one in place of another whose number differs from it in its own bits.

    They are those of a number that lanes differ in, from bit `shift` on.  With no bits, all lanes read the same.
    """

    bits: int = 0
    shift: int = 0

    @property
    def words(self) -> int:
        """Words that are read together."""
        return 1 << self.bits

    def first(self, lane: int) -> int:
        """Return the number of the word that a lane reads first."""
        return (lane >> self.shift) & (self.words - 1)

    def numbers(self, b: ir.IRBuilder, lane: ir.Value) -> list[ir.Value]:
        """Return the numbers of the words in the order in which a lane reads them."""
        own = b.and_(b.lshr(lane, int32(self.shift)), int32(self.words - 1))
        return [b.xor(own, int32(number)) for number in range(self.words)]

    def exchanged(self, b: ir.IRBuilder, lane: ir.Value, words: Sequence[ir.Value]) -> list[ir.Value]:
        """Return the words by their numbers, of those in the order in which a lane has read them, or the other way."""
        own = b.lshr(lane, int32(self.shift))
        for bit in (1 << number for number in range(self.bits)):
            is_other = b.icmp_unsigned("<", int32(0), b.and_(own, int32(bit)))
            words = [b.select(is_other, words[number ^ bit], words[number]) for number in range(self.words)]
        return list(words)


def best_order(
    addresses: Sequence[int], size: int, words: Sequence[int], lanes: Callable[[int], int], bits: int
) -> tuple[WordOrder, float]:
    """Return in which order lanes had better read, and how often memory is accessed for a load of `size` bytes.

    `addresses` are those of the first word of each lane, and `words` has how far behind it each word is, in bytes;
    `lanes` gives the number of so many `bits` that a lane goes by.
    """
    words = words or [0]
    most = min(_MOST, bits, len(words).bit_length() - 1)
    orders = [WordOrder(count, shift) for count in range(1, most + 1) for shift in range(bits - count + 1)]
    found = []
    for order in (WordOrder(), *orders):
        counts = [conflicts([address + words[number ^ order.first(lanes(lane))]
                             for lane, address in enumerate(addresses)], size) for number in range(order.words)]
        accesses = sum(counts) / len(counts)
        found.append((accesses + _INSTRUCTION * (order.bits + 1 if order.bits else 0), accesses, order))
    _, accesses, order = min(found, key=lambda each: each[0])
    return order, accesses


def conflicts(addresses: Sequence[int], size: int) -> int:
    """Return how often the banks are accessed for loads of `size` bytes by a warp; wide ones go by parts of a warp."""
    together, total = min(LANES, _BANKS // size), 0
    for first in range(0, LANES, together):
        words: dict[int, set[int]] = defaultdict(set)
        for address in addresses[first : first + together]:
            for word in range(address // _WORD, (address + size - 1) // _WORD + 1):
                words[word % (_BANKS // _WORD)].add(word)
        total += max(map(len, words.values()))
    return total
