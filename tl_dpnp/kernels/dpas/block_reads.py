"""Fragments of a sub-group that messages of blocks load from a matrix, where the other operand is in local memory.

They are read like those of local memory (`local_reads`): so many pieces along k in an iteration, then those left over.
"""

from __future__ import annotations

from dataclasses import field, replace
from functools import cached_property

from llvmlite import ir

from tl_dpnp.kernels.dpas.accumulators import Accumulators, Part
from tl_dpnp.kernels.dpas.block_messages import BlockMessages, Surface
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.kernels.dpas.moving_headers import Header, MovingHeaders
from tl_dpnp.kernels.dpas.tile_blocks import TileLoad, TileLoads, loads_of_a, loads_of_b
from tl_dpnp.kernels.llvm import I64, index
from tl_dpnp.records import dataclass

__all__ = ["BlockReads"]


@dataclass
class _Places:
    """What an iteration loads: its messages, their headers, which an iteration moves, and the values they loaded."""

    loads: TileLoads
    moving: MovingHeaders
    loaded: list[ir.Value] = field(default_factory=list)


@dataclass(frozen=True)
class BlockReads:
    """Reads the fragments of A, or of B, which lies `along_k`: those of the tile that begins at a line.

    Where messages are emulated, headers are made for each piece.
    """

    kernel: MicroKernel
    accumulators: Accumulators
    surface: Surface
    first_line: ir.Value
    of_a: bool
    along_k: bool

    @property
    def messages(self) -> BlockMessages:
        """What moves blocks."""
        return self.accumulators.messages

    def _loads(self, steps: int) -> TileLoads:
        return _loads_of(self.kernel, self.of_a, self.along_k, steps)

    def registers(self, steps: int) -> int:
        """Registers that an iteration of so many pieces takes: what is loaded, and a header for each message."""
        return sum(load.block.registers + 1 for load in self._loads(steps).loads)

    def reads_pieces(self, steps: int, are_whole: bool) -> bool:
        """Whether an iteration may have so many pieces, and where all panels have iterations that `are_whole`."""
        return are_whole and _may_read_pieces(self.kernel, self.of_a, self.along_k, steps)

    def announce(self) -> None:
        """Nothing: these messages read what compilers do not know to be written here."""

    @cached_property
    def _begun(self) -> dict[int, _Places]:
        return {}

    def begin(self, steps: int) -> None:
        """Emit what stands in front of loops whose iterations have so many pieces."""
        loads = self._loads(steps)
        # Those of an iteration before the first one: each begins by their change.
        headers = [] if self.messages.emulated else [
            self._header(load, loads, index(0), loads.elements) for load in loads.loads]
        step = loads.k_field, loads.elements
        self._begun[steps] = _Places(loads, MovingHeaders.of(self.messages, headers, [step] * len(headers)))

    def _header(self, load: TileLoad, loads: TileLoads, k: ir.Value, before: int) -> ir.Value:
        builder = self.accumulators.builder
        line, k = builder.add(self.first_line, index(load.line)), builder.add(k, index(load.k))
        place = (line, k) if loads.lines_are_columns else (k, line)
        return self.messages.header(self.surface, load.block, *place, loads.k_field, before)

    @property
    def stay(self) -> bool:
        """Messages go on along the matrix."""
        return False

    def fixed(self, steps: int) -> _Places:
        """There are no such places."""
        raise NotImplementedError

    def places(self, steps: int) -> _Places:
        """Return what the iterations of a panel load, which go on from one panel to the next one."""
        return self._begun[steps]

    def in_front(self, places: _Places, steps: int, number: int) -> _Places:
        """Return what a piece, or as many as an iteration has, loads in front of iterations, which go on by it."""
        ahead = places
        if number != steps and not self.messages.emulated:
            ahead = self._single(places, steps)
        self._go_on(places, number)
        return ahead

    def left_over(self, places: _Places, steps: int) -> _Places:
        """Return what single pieces load behind iterations of several."""
        return places if steps == 1 or self.messages.emulated else self._single(places, steps - 1)

    def _single(self, places: _Places, pieces: int) -> _Places:
        """Return what one piece loads, so many behind where several are."""
        one = self._loads(1)
        headers = [
            self.messages.copied(value, load.block, one.k_field, pieces * one.elements, number)
            for load in one.loads
            for (value, number), other in zip(places.moving.headers, places.loads.loads, strict=True)
            if (other.line, other.k) == (load.line, 0)
        ]
        step = one.k_field, one.elements
        return _Places(one, MovingHeaders(tuple(map(Header, headers)), tuple((header, step) for header in headers)))

    def advance(self, places: _Places, steps: range) -> None:
        """Go on to the next pieces, those of an iteration."""
        self._go_on(places, len(steps))

    def _go_on(self, places: _Places, pieces: int) -> None:
        places.loaded = []
        loads, elements = places.loads, pieces * self._loads(1).elements
        if elements == loads.elements:
            places.moving.move(self.messages)
            return
        for header, number in places.moving.headers:
            self.messages.move(header, loads.k_field, elements, number)

    def read(self, places: _Places, step: int, steps: range, start: ir.Value, done: ir.Value) -> list[list[Part]]:
        """Return the fragment of each block of a piece: one of the `steps` of an iteration, `done` elements along k
        behind the start of the panel."""
        accumulators, builder = self.accumulators, self.accumulators.builder
        if self.messages.emulated:
            loads, number = self._loads(1), 0
            k = builder.add(start, builder.zext(done, I64))
            loaded = [self._header(load, loads, k, 0) for load in loads.loads]
        else:
            loads, number = places.loads, step - steps.start
            if not places.loaded:
                places.loaded = [accumulators.load(header, load.block, at)
                                 for (header, at), load in zip(places.moving.headers, loads.loads, strict=True)]
            loaded = places.loaded
        parts = {place: accumulators.part(value, load.block, offset, self.of_a)
                 for value, load in zip(loaded, loads.loads, strict=True)
                 for place, offset in load.fragments.items()}
        blocks = self.kernel.lane_blocks if self.of_a else self.kernel.column_blocks
        return [[parts[block, number]] for block in range(blocks)]


def _loads_of(kernel: MicroKernel, of_a: bool, along_k: bool, steps: int) -> TileLoads:
    return (loads_of_a if of_a else loads_of_b)(replace(kernel, steps=steps), along_k)


def _may_read_pieces(kernel: MicroKernel, of_a: bool, along_k: bool, steps: int) -> bool:
    """Whether messages load so many pieces at once, and single ones of the same lines in front of them or behind."""
    several, one = (_loads_of(kernel, of_a, along_k, count) for count in (steps, 1))
    lines = sorted(load.line for load in several.loads if load.k == 0)
    is_power = steps & (steps - 1) == 0  # others take more messages
    return is_power and lines == sorted(load.line for load in one.loads)
