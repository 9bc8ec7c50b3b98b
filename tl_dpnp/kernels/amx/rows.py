"""The products of tiles as data, and the tiles that a kernel uses.

A tile is a register of up to 16 rows of up to 64 bytes, in words of 32 bits.  A product adds to each word of a tile of
sums: row i of one factor, whose words hold elements that follow one another along k, times column j of the other, whose
row p holds what belongs to word p of the first one.  The language's matrices are column-major, so that rows of tiles of
sums are columns of its C, words of a row are rows of C; the first factor is made of columns of B, the other one of
rows of A.
"""

from __future__ import annotations

from tl_dpnp.records import dataclass

__all__ = ["MOST", "ROWS", "WORD", "AmxRow", "Cut", "Palette", "cut"]

#: Rows of a tile, and words of a row, at most; bytes of a word.
MOST, WORD = 16, 4


@dataclass(frozen=True)
class AmxRow:
    """One product: the types of A, B and the sums, the instruction, and the flag of processors that have it."""

    a: str
    b: str
    total: str
    instruction: str
    flag: str

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """``amx_<sums>_<A>_<B>``."""
        return f"amx_{self.total}_{self.a}_{self.b}"

    @property
    def per_word(self) -> int:
        """Elements along k in a word."""
        return 2 if self.total == "f32" else 4


#: All products.  Of two letters the first is that of the factor in rows, the language's B.
ROWS = (
    AmxRow("bf16", "bf16", "f32", "tdpbf16ps", "amx_bf16"),
    AmxRow("f16", "f16", "f32", "tdpfp16ps", "amx_fp16"),
    AmxRow("i8", "i8", "i32", "tdpbssd", "amx_int8"),
    AmxRow("u8", "i8", "i32", "tdpbsud", "amx_int8"),
    AmxRow("i8", "u8", "i32", "tdpbusd", "amx_int8"),
    AmxRow("u8", "u8", "i32", "tdpbuud", "amx_int8"),
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


@dataclass(frozen=True)
class Palette:
    """The shapes of all tiles: rows and words of each, none for those that are not used."""

    shapes: tuple[tuple[int, int], ...]

    @property
    def configuration(self) -> bytes:
        """What ``ldtilecfg`` loads (manual, volume 1, section "Palette and Configuration")."""
        rows = bytes(rows for rows, _ in self.shapes)
        widths = b"".join((words * WORD).to_bytes(2, "little") for _, words in self.shapes)
        return bytes([1]).ljust(16, b"\0") + widths.ljust(32, b"\0") + rows.ljust(16, b"\0")
