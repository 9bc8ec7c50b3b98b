"""The products of tiles as data, and the tiles that a kernel uses.

A tile is a register of up to 16 rows of up to 64 bytes, in words of 32 bits.  A product adds to each word of a tile of
sums: row i of one factor, whose words hold elements that follow one another along k, times column j of the other, whose
row p holds what belongs to word p of the first one.  The language's matrices are column-major, so that rows of tiles of
sums are columns of its C, words of a row are rows of C; the first factor is made of columns of B, the other one of
rows of A.
"""

from __future__ import annotations

from typing import NamedTuple

from tl_dpnp.kernels.instructions import Element, MatrixInstruction
from tl_dpnp.records import dataclass

__all__ = ["IMAGE", "MOST", "ROWS", "WORD", "AmxRow", "Cut", "Palette", "cut"]

#: Rows of a tile, and words of a row, at most; bytes of a word.
MOST, WORD = 16, 4
#: Words of the image of a tile in memory.
IMAGE = MOST * MOST


@dataclass(frozen=True)
class AmxRow(MatrixInstruction):
    """One product of the largest tiles: `instruction` is its name, `flag` that of processors that have it."""

    instruction: str
    flag: str

    @property
    def name(self) -> str:
        """``amx_<sums>_<A>_<B>``."""
        return f"amx_{self.c.name}_{self.a.name}_{self.b.name}"

    @property
    def per_word(self) -> int:
        """Elements along k in a word."""
        return 8 * WORD // self.a.bits


_ELEMENTS = {element.name: element for element in (
    Element("bf16", 16, "float"), Element("f16", 16, "float"), Element("i8", 8, "signed"), Element("u8", 8, "unsigned"),
    Element("f32", 32, "float"), Element("i32", 32, "signed"))}
#: All products.  Of two letters the first is that of the factor in rows, the language's B.
ROWS = tuple(
    AmxRow(MOST, MOST, MOST * 8 * WORD // _ELEMENTS[a].bits, _ELEMENTS[a], _ELEMENTS[b], _ELEMENTS[total], *names)
    for a, b, total, *names in (
        ("bf16", "bf16", "f32", "tdpbf16ps", "amx_bf16"),
        ("f16", "f16", "f32", "tdpfp16ps", "amx_fp16"),
        ("i8", "i8", "i32", "tdpbssd", "amx_int8"),
        ("u8", "i8", "i32", "tdpbsud", "amx_int8"),
        ("i8", "u8", "i32", "tdpbusd", "amx_int8"),
        ("u8", "u8", "i32", "tdpbuud", "amx_int8"),
    )
)


@dataclass(frozen=True)
class Cut:
    """How a mode of C is cut into tiles, `count` of them: of the two sizes in turns.

    The last one reaches back over `overlap` places that the one before it has, too.
    """

    size: int
    sizes: tuple[int, ...]

    @property
    def count(self) -> int:
        """The number of tiles."""
        return -(-self.size // MOST)

    @property
    def overlap(self) -> int:
        """How many places the last tile has that belong to others."""
        return sum(self.sizes[tile % len(self.sizes)] for tile in range(self.count)) - self.size

    def start(self, tile: int) -> int:
        """Return the first place of a tile."""
        before = sum(self.sizes[other % len(self.sizes)] for other in range(tile))
        return before - self.overlap if tile == self.count - 1 else before


def cut(size: int, kinds: int) -> Cut:
    """Return the cut of a mode into the fewest tiles, of `kinds` sizes (1 or 2), with the least overlap.

    The first size is as large as that allows, so that most tiles begin at whole cache lines.
    """
    count = -(-size // MOST)
    if kinds == 1 or count == 1:
        return Cut(size, (-(-size // count),))
    odd, even = (count + 1) // 2, count // 2
    fitting = [(odd * first + even * second - size, -first, second)
               for first in range(1, MOST + 1) for second in range(1, MOST + 1) if odd * first + even * second >= size]
    _, first, second = min(fitting)
    return Cut(size, (-first, second))


class Palette(NamedTuple):
    """The shapes of all tiles: rows and words of each, none for those that are not used."""

    shapes: tuple[tuple[int, int], ...]

    @property
    def configuration(self) -> bytes:
        """What ``ldtilecfg`` loads (manual, volume 1, section "Palette and Configuration")."""
        rows = bytes(rows for rows, _ in self.shapes)
        widths = b"".join((words * WORD).to_bytes(2, "little") for _, words in self.shapes)
        return bytes([1]).ljust(16, b"\0") + widths.ljust(32, b"\0") + rows.ljust(16, b"\0")
