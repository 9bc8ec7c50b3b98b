"""Every legal form of DPAS as data: types, shape, layout of the operands in registers, and why some are out of reach.

DPAS computes D = C + A x B on a sub-group: D (`destination`) and C (`source0`) are M x N, A (`source2`) is M x K and B
(`source1`) is K x N, where M is the repeat count, N the execution size and K the systolic depth times the operations
for each channel.  Names and rules follow the specification, sections "Semantics" and "All legal combinations".

A value of the sub-group is a string of bits: element e of lane l, each `width` bits wide, starts at bit
``(e * N + l) * width``.  A, C and D lie in it row by row.  Of B, lane n holds column n, packed along K into 32-bit
elements ("VNNI"): the first operations in the low bits of element 0.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from tl_dpnp.kernels.instructions import Element, MatrixInstruction
from tl_dpnp.records import dataclass

__all__ = ["ACCUMULATOR_BITS", "DEPTH", "EXECUTION_SIZES", "PRECISIONS", "DpasRow", "find_row", "rows"]

#: The systolic depth; the only one of the generations that have DPAS.
DEPTH = 8
#: Lanes of a sub-group by generation: Xe-HPG (Arc) and Xe-HPC (Data Center GPU Max).
EXECUTION_SIZES = (8, 16)
_DWORD = 32


#: All precisions of A and B in the specification, by their names in OpenCL's functions.
PRECISIONS = {
    entry.name: entry
    for entry in (
        *(Element(f"i{bits}", bits, "signed", text=f"s{bits}") for bits in (1, 2, 4, 8)),
        *(Element(f"u{bits}", bits, "unsigned", text=f"u{bits}") for bits in (1, 2, 4, 8)),
        Element("bf16", 16, "float", text="bf"),
        Element("f16", 16, "float", text="hf"),
        Element("tf32", 32, "float", text="tf32"),
        Element("bf8", 8, "float", text="bf8"),
        Element("hf8", 8, "float", text="hf8"),
    )
}
#: Accumulators of floats, by the precision of A and B.  Integers accumulate in i32; D and UD are the same bits there,
#: because sums wrap.
_FLOAT_ACCUMULATORS = {"bf16": ("f32", "bf16"), "f16": ("f32", "f16"), "tf32": ("f32",), "bf8": ("f32",),
                       "hf8": ("f32",)}
#: The elements of accumulators, and their bits.
_ACCUMULATORS = {**PRECISIONS, "f32": Element("f32", 32, "float"), "i32": Element("i32", 32, "signed")}
ACCUMULATOR_BITS = {name: _ACCUMULATORS[name].bits for name in ("f32", "i32", "bf16", "f16")}


@dataclass(frozen=True)
class DpasRow(MatrixInstruction):
    """One legal form; `source0` is the type of C where that is not the one of D.

    The language's matrices are column-major, so that DPAS computes the transposed product: the language's A is its
    second factor, source 1, and B its first one, source 2.
    """

    source0: str

    @property
    def destination(self) -> str:
        """The type of D."""
        return self.c.name

    @property
    def source1(self) -> Element:
        """The second factor."""
        return self.a

    @property
    def source2(self) -> Element:
        """The first factor."""
        return self.b

    @property
    def repeat(self) -> int:
        """The repeat count."""
        return self.n

    @property
    def execution_size(self) -> int:
        """The number of lanes."""
        return self.m

    @property
    def name(self) -> str:
        """``dpas_<D>_<C>_<A>_<B>_<M>x<N>x<K>``; an accumulator that is also the result is named once."""
        accumulators = self.destination if self.destination == self.source0 else f"{self.destination}_{self.source0}"
        shape = f"{self.repeat}x{self.execution_size}x{self.k}"
        return f"dpas_{accumulators}_{self.source2.name}_{self.source1.name}_{shape}"

    @property
    def operations(self) -> int:
        """Products for each channel and stage: 1 for tf32, 2 for 16 bits, 4 for 8 bits, 8 below."""
        return self.k // DEPTH

    @property
    def a_width(self) -> int:
        """Bits of one lane's element of A: those of its rows, dealt out to the lanes."""
        return min(_DWORD, self.k * self.source2.bits // self.execution_size * self._rows_per_element)

    @property
    def _rows_per_element(self) -> int:
        # Rows of 4 bits for each lane have no element of their own: two of them share one of 8 bits.
        return 8 // bits if (bits := self.k * self.source2.bits // self.execution_size) < 8 else 1

    @property
    def a_elements(self) -> int:
        """Elements of A that one lane holds."""
        return self.repeat // self._rows_per_element

    @property
    def a_bits(self) -> int:
        """Bits of all of A."""
        return self.repeat * self.k * self.source2.bits

    @property
    def b_elements(self) -> int:
        """Elements of B, of 32 bits each, that one lane holds."""
        return self.k * self.source1.bits // _DWORD

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The types alone: destination, source 0, A, B."""
        return self.destination, self.source0, self.source2.name, self.source1.name

    @property
    def unreachable(self) -> str | None:
        """Why no route leads to this form from SPIR-V, or None if there is one."""
        return _unreachable(self)

    @property
    def unused(self) -> str | None:
        """Why no nest means this form, or None if some do."""
        if self.unreachable is None and "f32" not in (self.destination, self.source0) and self.source1.is_float:
            return f"the language sums products of {self.source1.name} in f32"
        if self.unreachable is None and self.destination != self.source0:
            return f"it takes sums in {self.source0} and returns them in {self.destination}"
        return self.unreachable


def _unreachable(row: DpasRow) -> str | None:
    precisions = {row.source1.name, row.source2.name}
    if precisions & {"bf8", "hf8"}:
        return "the compiler drops calls of the functions for 8-bit floats without a word"
    if precisions & {"i1", "u1"}:
        return "there is no function for 1-bit integers"
    if row.execution_size == 8 and (row.source1.name == "tf32" or {row.destination, row.source0} & {"bf16", "f16"}):
        return "Xe-HPG has no tf32, and accumulates floats in f32 only"
    if row.repeat in (5, 6, 7):
        return f"SPIR-V has no vectors of {row.repeat} elements; use repeat counts 4, 2 and 1"
    if row.a_elements * row.a_width != row.a_bits // row.execution_size:
        return f"A has {row.a_bits // row.execution_size} bits for each lane, which is no type"
    return None


@functools.cache
def rows(execution_size: int) -> tuple[DpasRow, ...]:
    """Return all legal forms for one execution size, 8 or 16, unreachable ones included."""
    return tuple(
        DpasRow(execution_size, repeat, _depth(a, b), PRECISIONS[b], PRECISIONS[a], _ACCUMULATORS[destination], source0)
        for destination, source0, a, b in _types() for repeat in range(1, 9)
    )


def _depth(a: str, b: str) -> int:
    """Return the depth of the sum: all stages times what is multiplied for a channel in each."""
    return DEPTH * _DWORD // max(PRECISIONS[a].bits, PRECISIONS[b].bits, 4)


def _types() -> Iterator[tuple[str, str, str, str]]:
    floats = [name for name, precision in PRECISIONS.items() if precision.is_float]
    integers = [name for name, precision in PRECISIONS.items() if not precision.is_float]
    for name in floats:
        partners = ("bf8", "hf8") if name in ("bf8", "hf8") else (name,)
        for partner in partners:
            for destination in _FLOAT_ACCUMULATORS[name]:
                for source0 in _FLOAT_ACCUMULATORS[name]:
                    yield destination, source0, name, partner
    for a in integers:
        for b in integers:
            yield "i32", "i32", a, b


@functools.cache
def _by_key(execution_size: int) -> dict[tuple[tuple[str, str, str, str], int], DpasRow]:
    return {(row.key, row.repeat): row for row in rows(execution_size)}


def find_row(execution_size: int, accumulator: str, a: str, b: str, repeat: int) -> DpasRow | None:
    """Return the form with these types and equal source 0 and destination, or None if the specification has none."""
    return _by_key(execution_size).get(((accumulator, accumulator, a, b), repeat))
