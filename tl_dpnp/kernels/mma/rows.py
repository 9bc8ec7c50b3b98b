"""Every form of ``mma.sync`` that Hopper has, as data: shapes, types, and which lane holds which element.

D = A · B + C on a warp: A is m x k, B is k x n, C and D are m x n.  A lane holds words of each: those of A and B have
32 bits, with consecutive elements along k in them, the first in the low bits (f64 has words of 64 bits), those of C and
D one element, or two of f16.  With g = lane / 4 and t = lane mod 4, a word of A holds a part of row g or g + 8, one of
B a part of column g, and words of C and D the columns 2t and 2t + 1 of row g or g + 8.
Source: PTX ISA 9.0, section 9.7.14.5, "Matrix multiply-accumulate operation using mma instruction".

m8n8k4 of f16, whose layout is another and which Hopper executes slowly, is not in the table.
"""

from __future__ import annotations

from itertools import product
from typing import Literal

from tl_dpnp.kernels.instructions import Element, MatrixInstruction
from tl_dpnp.records import dataclass

__all__ = ["ELEMENTS", "LANES", "ROWS", "MmaRow", "Operand"]

LANES = 32
Operand = Literal["a", "b", "c", "d"]


#: The types of elements, by their names in PTX.
ELEMENTS = {
    element.name: element
    for element in (
        Element("f16", 16, "float"), Element("bf16", 16, "float"), Element("tf32", 32, "float", "f32"),
        Element("f64", 64, "float"), Element("e4m3", 8, "float"), Element("e5m2", 8, "float"),
        Element("s8", 8, "signed", "i8"), Element("u8", 8, "unsigned"), Element("s4", 4, "signed", "i4"),
        Element("u4", 4, "unsigned"), Element("b1", 1, "bit"), Element("f32", 32, "float"),
        Element("s32", 32, "signed", "i32"),
    )
}


@dataclass(frozen=True)
class MmaRow(MatrixInstruction):
    """One form; `operation` is how bits are multiplied.

    A `sparse` A has two non-zero elements in each four along k, and only those are held.
    """

    operation: Literal["", "xor", "and"] = ""
    sparse: bool = False

    @property
    def name(self) -> str:
        """Shape, types and operation: ``m16n8k16_f16_f16_f32``."""
        parts = ["sp"] * self.sparse + [f"m{self.m}n{self.n}k{self.k}", self.a.name, self.b.name, self.c.name]
        return "_".join([*parts, *([self.operation] if self.operation else [])])

    @property
    def capability(self) -> tuple[int, int]:
        """The compute capability that has it (PTX ISA, "Multiply-and-Accumulate Instruction: mma", Target ISA)."""
        if self.a.name == "f64" and self.m > 8:
            return 9, 0
        return (8, 9) if self.a.name in ("e4m3", "e5m2") else (8, 0)

    @property
    def unused(self) -> str | None:
        if self.sparse:
            return "no nest has sparse operands"
        if self.a.bits < 16:
            return f"lanes do not pack elements of {self.a.bits} bits"
        if self.c.name not in ("f32", "f64"):
            return f"the language sums products of {self.a.name} in f32"
        return None

    @property
    def instruction(self) -> str:
        """The instruction with its modifiers, as in PTX."""
        head = "mma.sp::ordered_metadata" if self.sparse else "mma"
        types = ".".join(element.name for element in (self.c, self.a, self.b, self.c))
        operation = f".{self.operation}.popc" if self.operation else ""
        return f"{head}.sync.aligned.m{self.m}n{self.n}k{self.k}.row.col.{types}{operation}"

    def columns(self, operand: Operand) -> int:
        """Return the columns of an operand as it is held: a sparse A has half of those along k."""
        return {"a": self.k // (2 if self.sparse else 1), "b": self.n, "c": self.n, "d": self.n}[operand]

    def rows(self, operand: Operand) -> int:
        """Return the rows of an operand."""
        return {"a": self.m, "b": self.k, "c": self.m, "d": self.m}[operand]

    def element(self, operand: Operand) -> Element:
        """Return the type of an operand's elements."""
        return {"a": self.a, "b": self.b, "c": self.c, "d": self.c}[operand]

    def parts(self, operand: Operand) -> int:
        """Return the number of elements in a word."""
        element = self.element(operand)
        if operand in ("c", "d"):
            return 2 if element.bits == 16 else 1
        return max(1, 32 // element.bits)

    def words(self, operand: Operand) -> int:
        """Return the number of words of an operand that a lane holds."""
        return self.rows(operand) * self.columns(operand) // (LANES * self.parts(operand))

    def place(self, operand: Operand, lane: int, word: int, part: int) -> tuple[int, int]:
        """Return row and column of an element that a lane holds."""
        g, t = divmod(lane, 4)
        parts = self.parts(operand)
        if operand == "b":
            return 4 * parts * word + parts * t + part, g
        if operand == "a":
            chunk, half = divmod(word, self.m // 8)
            return g + 8 * half, 4 * parts * chunk + parts * t + part
        half, column = divmod(parts * word + part, 2)
        return g + 8 * half, 2 * t + column


def _rows() -> list[MmaRow]:
    def form(shape: tuple[int, int, int], a: str, b: str, c: str, operation: Literal["", "xor", "and"] = "") -> MmaRow:
        return MmaRow(*shape, ELEMENTS[a], ELEMENTS[b], ELEMENTS[c], operation)

    halves = [form((16, 8, k), "f16", "f16", c) for k, c in product((8, 16), ("f16", "f32"))]
    singles = [form((16, 8, k), name, name, "f32") for name, depths in (("bf16", (8, 16)), ("tf32", (4, 8)))
               for k in depths]
    doubles = [form(shape, "f64", "f64", "f64") for shape in ((8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16))]
    quarters = [form((16, 8, 32), a, b, "f32") for a, b in product(("e4m3", "e5m2"), repeat=2)]
    integers = [
        form(shape, a, b, "s32")
        for names, shapes in (
            (("s8", "u8"), ((8, 8, 16), (16, 8, 16), (16, 8, 32))),
            (("s4", "u4"), ((8, 8, 32), (16, 8, 32), (16, 8, 64))),
        )
        for shape in shapes
        for a, b in product(names, repeat=2)
    ]
    operations: tuple[Literal["xor", "and"], ...] = ("xor", "and")
    bits = [form(shape, "b1", "b1", "s32", operation)
            for shape in ((8, 8, 128), (16, 8, 128), (16, 8, 256)) for operation in operations]
    return [*halves, *singles, *doubles, *quarters, *integers, *bits]


#: All dense forms by name.
ROWS = {row.name: row for row in _rows()}
