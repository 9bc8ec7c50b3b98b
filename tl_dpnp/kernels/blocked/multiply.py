"""How warps multiply panels in shared memory: multiply-adds of tiles in registers, or ``mma.sync``.

Source: PTX ISA 9.0, sections 9.7.3.6 (fma) and 9.7.14.5.14 (mma).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from tl_dpnp.kernels.blocked.copies import Consecutive
from tl_dpnp.kernels.mma.rows import LANES, ROWS, MmaRow
from tl_dpnp.records import dataclass

__all__ = ["MultiplyAdds", "TensorCores", "WarpTile"]

#: Bytes of a vector.
_VECTOR_BYTES = 16
_WORDS = _VECTOR_BYTES // 4


@dataclass(frozen=True)
class WarpTile(ABC):
    """A warp's part of a tile, and how it multiplies; elements of operands have `size` bytes.

    Sum number i is in register di, or, of complex numbers, whose `parts` are two, in d2i and d2i+1.
    """

    rows: int
    columns: int

    parts = 1

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes of an element of an operand."""

    @property
    @abstractmethod
    def capability(self) -> tuple[int, int]:
        """The compute capability that has the instructions."""

    @property
    @abstractmethod
    def k(self) -> int:
        """Depth of the sum that is multiplied at a time."""

    @property
    @abstractmethod
    def registers(self) -> str:
        """Declarations: sums, and two sets of operands."""

    @property
    @abstractmethod
    def sums(self) -> list[tuple[int, int]]:
        """Row and column of each sum, from the thread's first on."""

    @property
    @abstractmethod
    def vector(self) -> int:
        """Sums that follow one another along rows, and in memory."""

    @property
    @abstractmethod
    def first_columns(self) -> tuple[int, int]:
        """How many first columns threads have, and how far apart."""

    @abstractmethod
    def lanes(self, consecutive: Consecutive) -> int:
        """Return the threads that copy along the sum where that goes along memory."""

    @abstractmethod
    def pitches(self, consecutive: Consecutive, extent: int, depth: int) -> tuple[int, int]:
        """Return the bytes between neighbours of a panel in shared memory, along the side and along the sum."""

    @abstractmethod
    def place(self) -> list[str]:
        """Find the thread's first row and column, er and ec, in a warp's part, and its place in the sum, ek."""

    @property
    @abstractmethod
    def right_column(self) -> str:
        """The register with the column of R that the thread reads first."""

    @abstractmethod
    def load(self, step: int, buffer: int, left: tuple[int, int], right: tuple[int, int], condition: str) -> list[str]:
        """Load the operands of a step from the places fa and fb into one of two sets of registers."""

    @abstractmethod
    def multiply(self, buffer: int) -> list[str]:
        """Multiply and add."""


@dataclass(frozen=True)
class MultiplyAdds(WarpTile):
    """Products of f32: lanes have vectors of rows and of columns; `lane_rows` x `lane_columns` are the lanes.

    Of each four lanes two have the same rows, and two the same columns: half a warp reads its vectors at once.
    """

    lane_rows: int
    lane_columns: int

    size = 4
    k = 1
    capability = (8, 0)

    @property
    def vector(self) -> int:
        return _VECTOR_BYTES // self.size

    @property
    def first_columns(self) -> tuple[int, int]:
        return self.lane_columns, self.vector

    @property
    def _vectors(self) -> tuple[int, int]:
        return self.rows // self.lane_rows // self.vector, self.columns // self.lane_columns // self.vector

    @property
    def registers(self) -> str:
        left, right = (2 * _WORDS * count for count in self._vectors)
        return f".reg .f32 d<{len(self.sums) * self.parts}>, a<{left}>, b<{right}>;"

    @property
    def sums(self) -> list[tuple[int, int]]:
        rows, columns = self._places
        return [(row, column) for column in columns for row in rows]

    @property
    def _places(self) -> tuple[list[int], list[int]]:
        lanes = self.lane_rows, self.lane_columns
        rows, columns = ([lanes[side] * self.vector * vector + i for vector in range(self._vectors[side])
                          for i in range(self.vector)] for side in range(2))
        return rows, columns

    def lanes(self, consecutive: Consecutive) -> int:
        # Eight lanes along the sum, whose places are four words apart, and so many rows that they fill these: 32 banks.
        return 8

    def pitches(self, consecutive: Consecutive, extent: int, depth: int) -> tuple[int, int]:
        return self.size, self.size * (extent + (self.vector if consecutive == "k" else 0))

    right_column = "ec"

    def place(self) -> list[str]:
        return [
            "and.b32 x, lane, 1; shr.u32 y, lane, 2; " + _below("z", "y", self.lane_rows // 2),
            f"mad.lo.u32 x, z, 2, x; mul.lo.u32 er, x, {self.vector};",
            f"shr.u32 x, lane, 1; and.b32 x, x, 1; div.u32 y, y, {self.lane_rows // 2};",
            f"mad.lo.u32 x, y, 2, x; mul.lo.u32 ec, x, {self.vector}; mov.u32 ek, 0;",
        ]

    def load(self, step: int, buffer: int, left: tuple[int, int], right: tuple[int, int], condition: str) -> list[str]:
        lines = []
        for name, pitches, lanes, count in zip("ab", (left, right), (self.lane_rows, self.lane_columns), self._vectors,
                                               strict=True):
            for vector in range(count):
                first = _WORDS * (buffer * count + vector)
                words = ", ".join(f"{name}{first + i}" for i in range(_WORDS))
                offset = step * pitches[1] + vector * lanes * self.vector * pitches[0]
                lines.append(f"{condition} ld.shared.v4.f32 {{{words}}}, [f{name}+{offset}];")
        return lines

    def multiply(self, buffer: int) -> list[str]:
        rows, columns = (self.vector * count for count in self._vectors)
        return [f"fma.rn.f32 d{rows * j + i}, a{rows * buffer + i}, b{columns * buffer + j}, d{rows * j + i};"
                for j in range(columns) for i in range(rows)]


@dataclass(frozen=True)
class TensorCores(WarpTile):
    """Products by ``mma.sync`` of f64, whose operands are read element by element."""

    instruction: str

    size = 8
    vector = 1
    first_columns = 4, 2

    @property
    def capability(self) -> tuple[int, int]:
        return self._row.capability

    @property
    def _row(self) -> MmaRow:
        return ROWS[self.instruction]

    @property
    def k(self) -> int:
        return self._row.k

    @property
    def _blocks(self) -> tuple[int, int]:
        return self.rows // self._row.m, self.columns // self._row.n

    @property
    def registers(self) -> str:
        (rows, columns), row = self._blocks, self._row
        return (f".reg .f64 d<{len(self.sums)}>, a<{2 * rows * row.words('a')}>, b<{2 * columns * row.words('b')}>;")

    @property
    def sums(self) -> list[tuple[int, int]]:
        (rows, columns), row = self._blocks, self._row
        places = [row.place("d", 0, word, 0) for word in range(row.words("d"))]
        return [(row.m * i + g, row.n * j + t) for i in range(rows) for j in range(columns) for g, t in places]

    def lanes(self, consecutive: Consecutive) -> int:
        return LANES // 2

    def pitches(self, consecutive: Consecutive, extent: int, depth: int) -> tuple[int, int]:
        # Lanes read four neighbours along the sum of each of four along the side: 16 banks of 8 bytes.
        if consecutive == "k":
            return self.size * (depth + 4), self.size
        return self.size, self.size * (extent + 4)

    right_column = "eg"

    def place(self) -> list[str]:
        return ["shr.u32 er, lane, 2; mov.u32 eg, er; and.b32 ek, lane, 3; shl.b32 ec, ek, 1;"]

    def load(self, step: int, buffer: int, left: tuple[int, int], right: tuple[int, int], condition: str) -> list[str]:
        (rows, columns), row, lines = self._blocks, self._row, []
        for i in range(rows):
            for word in range(row.words("a")):
                side, k = row.place("a", 0, word, 0)
                offset = (row.m * i + side) * left[0] + (row.k * step + k) * left[1]
                register = (buffer * rows + i) * row.words("a") + word
                lines.append(self._load(register, "a", f"[fa+{offset}]", condition))
        for j in range(columns):
            for word in range(row.words("b")):
                k, side = row.place("b", 0, word, 0)
                offset = (row.n * j + side) * right[0] + (row.k * step + k) * right[1]
                register = (buffer * columns + j) * row.words("b") + word
                lines.append(self._load(register, "b", f"[fb+{offset}]", condition))
        return lines

    def _load(self, register: int, name: str, place: str, condition: str) -> str:
        """Load one element of an operand."""
        return f"{condition} ld.shared.f64 {name}{register}, {place};"

    def multiply(self, buffer: int) -> list[str]:
        (rows, columns), row, lines = self._blocks, self._row, []
        for i in range(rows):
            a = _words("a", buffer * rows + i, row.words("a"))
            for j in range(columns):
                b, sums = _words("b", buffer * columns + j, row.words("b")), _words("d", i * columns + j, 4)
                lines.append(f"{row.instruction} {sums}, {a}, {b}, {sums};")
        return lines


def _words(name: str, block: int, count: int) -> str:
    return "{" + ", ".join(f"{name}{count * block + word}" for word in range(count)) + "}"


def _below(result: str, value: str, bound: int) -> str:
    """Return the remainder by a power of two."""
    return f"and.b32 {result}, {value}, {bound - 1};"
