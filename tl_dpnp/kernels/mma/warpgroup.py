"""Products by warpgroups, ``wgmma.mma_async``, as data: shapes, types, who holds what, and how operands lie in memory.

D = A · B + D on four warps: A is 64 x k and B k x n, both in shared memory, D is 64 x n in registers.  `Panel` says how
a part of A or B lies there, with the swizzle of 128 bytes that tensor maps apply as well.
Source: PTX ISA 9.0, section 9.7.15, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions": "Register
Fragments", "Shared Memory Matrix Layout", "Strides", "Matrix Descriptor Format".

A may also be in registers: each of the four warps has 16 rows of it, as those of ``mma.sync`` hold A (`rows`).
Forms for bits, and those with a sparse A, are not in the table.
"""

from __future__ import annotations

from itertools import product

from tl_dpnp.kernels.instructions import MatrixInstruction
from tl_dpnp.kernels.mma.rows import ELEMENTS
from tl_dpnp.records import dataclass

__all__ = ["SWIZZLE", "THREADS", "WARPGROUP_ROWS", "Panel", "WarpgroupRow", "multiplied", "warpgroup_row"]

#: Threads of a warpgroup, and bytes after which the swizzle repeats along a row of memory.
THREADS, SWIZZLE = 128, 128
#: Rows of A.
_ROWS = 64
#: Bytes of what the swizzle moves, and rows of memory after which it repeats.
_CHUNK, _PERIOD = 16, 8
#: Columns of the tiles that there are.
_COLUMNS = (64, 128, 192, 256)


class WarpgroupRow(MatrixInstruction):
    """One form; m is 64, and the sums are D."""

    @property
    def name(self) -> str:
        """Shape and types: ``m64n256k16_bf16_bf16_f32``."""
        return f"m{self.m}n{self.n}k{self.k}_{self.a.name}_{self.b.name}_{self.c.name}"

    @property
    def instruction(self) -> str:
        """The instruction with its modifiers, as in PTX."""
        types = ".".join(element.name for element in (self.c, self.a, self.b))
        return f"wgmma.mma_async.sync.aligned.m{self.m}n{self.n}k{self.k}.{types}"

    @property
    def unused(self) -> str | None:
        """Why no product is computed by this form, or None if some are."""
        if self.a.bits < 16:
            return f"no mapping multiplies elements of {self.a.bits} bits so"
        if self.c.name != "f32":
            return f"the language sums products of {self.a.name} in f32"
        if self.n not in _COLUMNS:
            return f"tiles of {self.a.name} do not have {self.n} columns"
        return None

    @property
    def transposes(self) -> bool:
        """Whether operands may have their rows, not their depth, along memory: those of 16 bits may."""
        return self.a.bits == 16

    def immediates(self, a_along_k: bool = True, b_along_k: bool = True) -> tuple[int, ...]:
        """Return the numbers after the operand that says whether D is added: signs of A and B, and transposes."""
        if self.a.kind != "float":
            return ()
        return (1, 1, int(not a_along_k), int(not b_along_k)) if self.transposes else (1, 1)

    @property
    def parts(self) -> int:
        """Elements of D in a word."""
        return 32 // self.c.bits

    @property
    def words(self) -> int:
        """Words of 32 bits of D that a thread holds."""
        return self.m * self.n // (THREADS * self.parts)

    def place(self, thread: int, word: int, part: int) -> tuple[int, int]:
        """Return row and column of an element of D that a thread holds."""
        warp, lane = divmod(thread, 32)
        g, t = divmod(lane, 4)
        chunk, rest = divmod(self.parts * word + part, 4)
        half, column = divmod(rest, 2)
        return 16 * warp + g + 8 * half, 8 * chunk + 2 * t + column


@dataclass(frozen=True)
class Panel:
    """A part of A, or of B with columns for rows: `rows` x `depth` elements of `size` bytes, at a multiple of 1024.

    With `along_k` the elements of a row follow one another, 128 bytes of them; otherwise those of a column do, and the
    panel is a sequence of boxes of 128 bytes of rows, each with all of the depth.
    """

    rows: int
    depth: int
    size: int
    along_k: bool

    def __post_init__(self) -> None:
        assert (self.depth if self.along_k else self.line) * self.size == SWIZZLE
        assert self.along_k or self.rows % self.line == 0

    @property
    def line(self) -> int:
        """Elements after which the swizzle repeats along memory."""
        return SWIZZLE // self.size

    @property
    def bytes(self) -> int:
        """Size of the panel."""
        return self.rows * self.depth * self.size

    @property
    def box(self) -> tuple[int, int]:
        """Sizes of what one copy by a tensor map brings: along memory, and across."""
        return (self.depth, self.rows) if self.along_k else (self.line, self.depth)

    @property
    def boxes(self) -> int:
        """Number of those copies."""
        return 1 if self.along_k else self.rows // self.line

    @property
    def box_bytes(self) -> int:
        """Size of a box."""
        return self.bytes // self.boxes

    @property
    def descriptor(self) -> int:
        """The descriptor of the matrix without its address, which is added in units of 16 bytes.

        It has the distance of boxes (unused along k), that of eight rows of memory, and the kind of swizzle.
        """
        leading = 1 if self.along_k else self.box_bytes // _CHUNK
        return 1 << 62 | (_PERIOD * SWIZZLE // _CHUNK) << 32 | leading << 16

    def step(self, k: int) -> int:
        """Return what to add to the descriptor to go on by `k` elements."""
        return k * (self.size if self.along_k else SWIZZLE) // _CHUNK

    def offset(self, row: int, k: int) -> int:
        """Return where an element is, in bytes."""
        along, across = (k, row) if self.along_k else (row, k)
        box, within = divmod(along * self.size, SWIZZLE)
        chunk, byte = divmod(within, _CHUNK)
        return box * self.box_bytes + across * SWIZZLE + (chunk ^ across % _PERIOD) * _CHUNK + byte


def multiplied(row: WarpgroupRow, left: Panel, right: Panel, depth: int) -> list[str]:
    """Return assembly that adds the product of two panels to d0, d1 and so on; their descriptors are da and db."""
    flags = ", ".join(map(str, row.immediates(left.along_k, right.along_k)))
    sums = ", ".join(f"d{i}" for i in range(row.words))
    found = []
    for k in range(0, depth, row.k):
        found.append(f"{row.instruction} {{{sums}}}, da, db, 1, {flags};")
        if k + row.k < depth:
            found.append(f"add.s64 da, da, {left.step(row.k)}; add.s64 db, db, {right.step(row.k)};")
    return found


def _rows() -> list[WarpgroupRow]:
    floats = [("f16", "f16", "f16", 16), ("f16", "f16", "f32", 16), ("bf16", "bf16", "f32", 16),
              ("tf32", "tf32", "f32", 8)]
    floats += [(a, b, d, 32) for a, b, d in product(("e4m3", "e5m2"), ("e4m3", "e5m2"), ("f16", "f32"))]
    integers = [(a, b, "s32", 32) for a, b in product(("s8", "u8"), repeat=2)]
    forms = [(n, kind) for kind in floats for n in range(8, 257, 8)]
    forms += [(n, kind) for kind in integers for n in (8, 24, *range(16, 257, 16))]
    return [WarpgroupRow(_ROWS, n, k, ELEMENTS[a], ELEMENTS[b], ELEMENTS[d]) for n, (a, b, d, k) in forms]


#: All forms by name.
WARPGROUP_ROWS = {row.name: row for row in _rows()}


def warpgroup_row(element: str, columns: int) -> WarpgroupRow:
    """Return the form with so many columns that sums products of elements of one type in f32."""
    k = 256 // ELEMENTS[element].bits
    return WARPGROUP_ROWS[f"m{_ROWS}n{columns}k{k}_{element}_{element}_f32"]
