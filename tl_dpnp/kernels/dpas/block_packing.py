"""Panels of local memory that messages of blocks fill: loaded, rounded and stored once for all sub-groups.

Where f32 stands for tf32, what DPAS takes has to be rounded: 32 elements by an instruction, which makes more of these
than DPAS if each sub-group does so for its own tile.  Here each loads a share of what the work-group needs, and stores
it as fragments.

Source: the descriptors of stores are those of loads (`local_reads`) with the operation that the Intel Graphics Compiler
1.0.12504 has in its own.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import product
from typing import NamedTuple

from llvmlite import ir

from tl_dpnp.kernels.dpas.accumulators import aliases
from tl_dpnp.kernels.dpas.block_messages import Surface, inline_assembly
from tl_dpnp.kernels.dpas.block_shapes import Block
from tl_dpnp.kernels.dpas.fragments import Size, size_value
from tl_dpnp.kernels.dpas.local_messages import MOST_MOVED, WORD_BYTES, Address, PackingByMessages
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.kernels.dpas.pieces import WORD_BITS, Piece
from tl_dpnp.kernels.dpas.rows import DpasRow
from tl_dpnp.kernels.dpas.tile_blocks import TileLoads, loads_of_a, loads_of_b
from tl_dpnp.kernels.llvm import I32, I64, constant, index, lanes, vector_of
from tl_dpnp.records import dataclass

__all__ = ["BlockPacking", "Share", "SharedOperand", "share_of"]

#: Part of the messages that has to move something, so that the others are not left out.
_MOSTLY = 0.9
#: Messages of a panel, the last ones, whose registers are kept until all is stored.
_LAST = 2


class _Run(NamedTuple):
    """Fragments that follow one another in registers and in local memory, in bytes."""

    offset: int
    size: int
    place: int


class Share(NamedTuple):
    """What a sub-group moves of a panel: `loads` of one block, `lines` blocks of lines by `steps` along k, each time.

    There are `across` of them along the lines of a panel, `each` for a sub-group.
    """

    loads: TileLoads
    lines: int
    steps: int
    across: int
    total: int
    each: int

    @property
    def block(self) -> Block:
        """The block of a message."""
        return self.loads.loads[0].block

    def wanted(self, blocks: int) -> int:
        """Return the messages that move so many blocks of lines for a panel of all of them."""
        return -(-blocks // self.lines) * (self.total // self.across)

    def slots(self, blocks: int, subgroups: int) -> int:
        """Return the messages of so many sub-groups for that."""
        return -(-blocks // (self.lines * self.across)) * self.each * subgroups

    def runs(self, piece: Piece) -> Iterator[_Run]:
        """Yield the fragments of a message: those next to one another are stored together, as far as a message does."""
        (load,), size = self.loads.loads, piece.fragment * WORD_BYTES
        for step in range(self.steps):
            line = 0
            while line < self.lines:
                offset, count = load.fragments[line, step], 1
                while (2 * count * size <= MOST_MOVED and line + 2 * count <= self.lines
                       and all(load.fragments[line + i, step] == offset + i * size for i in range(2 * count))):
                    count *= 2
                yield _Run(offset, count * size, (step * piece.size + line * piece.fragment) * WORD_BYTES)
                line += count


@functools.lru_cache(maxsize=4096)
def share_of(row: DpasRow, panel: int, is_first: bool, along_k: bool, blocks: int, subgroups: int) -> Share:
    """Return how so many sub-groups divide a panel of A, or of B, of so many steps and blocks of lines among them.

    Each moves as few registers as can be; where some would be left over they are moved twice, or by fewer.  Of equals,
    it is the one with the fewest messages.
    """
    found = []
    for lines, steps, loads in _moves(row, panel, is_first, along_k):
        if blocks % lines == 0:
            total = blocks // lines * (panel // steps)
            found.append(Share(loads, lines, steps, blocks // lines, total, -(-total // subgroups)))
    return min(found, key=lambda share: (share.each * share.block.registers, share.each))


@functools.lru_cache(maxsize=1024)
def _moves(row: DpasRow, steps: int, is_first: bool, along_k: bool) -> tuple[tuple[int, int, TileLoads], ...]:
    """Return the blocks of lines and the steps that one message moves of a panel, and how."""
    result = []
    for lines, several in product((1, 2, 4), range(1, steps + 1)):
        if steps % several == 0:
            kernel = MicroKernel(row, lines, lines, several)
            loads = loads_of_a(kernel, along_k) if is_first else loads_of_b(kernel, along_k)
            if len(loads.loads) == 1:
                result.append((lines, several, loads))
    return tuple(result)


@dataclass(frozen=True)
class SharedOperand:
    """An operand of a work-group: its surface, its first line, of `size` in all, and where its panel is.

    It `is_whole` where nearly all messages of all sub-groups have something to move.
    """

    surface: Surface
    first_line: ir.Value
    size: Size
    share: Share
    piece: Piece
    base: ir.Value
    subgroups: int

    @property
    def is_whole(self) -> bool:
        """See the class."""
        if not isinstance(self.size, int):
            return False
        wanted = self.share.wanted(-(-self.size // self.piece.lines))
        return wanted >= _MOSTLY * self.share.slots(-(-self.size // self.piece.lines), self.subgroups)

    @cached_property
    def runs(self) -> tuple[_Run, ...]:
        """What each message stores."""
        return tuple(self.share.runs(self.piece))


class _Message(NamedTuple):
    """A message of this sub-group: its header, what that of the next panel differs by, and where it stores fragments.

    `words` point to the first one; where messages are not emulated there is a `start` of addresses instead, and the
    header is changed in place.  Where a message may have nothing to do it is known whether it is `needed`.
    """

    operand: SharedOperand
    header: ir.Value
    distance: int
    words: ir.Value
    start: ir.Value | None
    needed: ir.Value | None


@dataclass(frozen=True)
class BlockPacking(PackingByMessages):
    """Packs operands of a sub-group, the one of a `number` (of 64 bits)."""

    kernel: MicroKernel
    operands: tuple[SharedOperand, SharedOperand]
    number: ir.Value

    @cached_property
    def moved(self) -> list[_Message]:
        """The messages of this sub-group."""
        return [self._message(operand, number)
                for operand in self.operands for number in range(operand.share.each)]

    def _message(self, operand: SharedOperand, number: int) -> _Message:
        builder, share, kernel = self.builder, operand.share, self.kernel
        own = builder.trunc(self.number, I32)
        if share.each > 1:
            # Those of a sub-group are neighbours along k, or next to one another.
            own = builder.add(builder.mul(own, constant(I32, share.each)), constant(I32, number))
        is_one = builder.icmp_unsigned("<", own, constant(I32, share.total))
        if self.messages.emulated or operand.is_whole:
            own = builder.select(is_one, own, constant(I32, share.total - 1))
        along = constant(I32, share.total // share.across)
        across, step = builder.udiv(own, along), builder.urem(own, along)
        blocks, steps = (builder.mul(value, constant(I32, count))
                         for value, count in ((across, share.lines), (step, share.steps)))
        line = builder.zext(builder.mul(blocks, constant(I32, operand.piece.lines)), I64)
        line = builder.add(operand.first_line, line)
        k = builder.zext(builder.mul(steps, constant(I32, kernel.row.k)), I64)
        loads = share.loads
        place = (line, k) if loads.lines_are_columns else (k, line)
        header = self.messages.header(operand.surface, share.block, *place, loads.k_field)
        words = builder.add(builder.mul(steps, constant(I32, operand.piece.size)),
                            builder.mul(blocks, constant(I32, operand.piece.fragment)))
        to = builder.gep(operand.base, [builder.zext(words, I64)])
        distance = loads.elements * (kernel.steps // share.steps)
        if self.messages.emulated:
            return _Message(operand, header, distance, to, None, None)
        needed = None if operand.is_whole else builder.and_(
            is_one, builder.icmp_signed("<", line, size_value(operand.size)))
        return _Message(
            operand, self.messages.movable(header), distance, to, self.local.start(to, _distance(operand)), needed)

    def begin(self) -> list[ir.Value]:
        """Return the headers for the first panel, where they are carried."""
        headers = [message.header for message in self.moved]
        return headers if self.messages.emulated else []

    @property
    def moves(self) -> bool:
        """Messages load fragments as they are."""
        return False

    @property
    def fills(self) -> bool:
        """Messages load zeros from beyond the matrix."""
        return True

    def pack(
        self, start: ir.Value, end: ir.Value, carried: Sequence[ir.Value], settles: bool
    ) -> list[ir.Value]:
        """Fill a panel, with zeros beyond the end of the matrix, and fetch the next one into the caches."""
        messages, moved = self.messages, self.moved
        if messages.emulated:
            for message, header in zip(moved, carried, strict=True):
                self._move(message, header)
            return [self.builder.add(header, messages.step(message.operand.share.loads.k_field, message.distance))
                    for message, header in zip(moved, carried, strict=True)]
        always = [message for message in moved if message.needed is None]
        self._filled(always, settles)
        for message in moved:
            if message.needed is not None:
                with self.builder.if_then(message.needed):
                    self._filled([message], settles)
        return []

    def _filled(self, moved: Sequence[_Message], settles: bool) -> None:
        """Move what messages do of a panel, and go on to the next one."""
        messages = self.messages
        stored = [self._move(message, message.header) for message in moved]
        for message in moved:
            messages.move(message.header, message.operand.share.loads.k_field, message.distance)
            messages.prefetch(message.header, message.operand.share.block)
        for message, value in list(zip(moved, stored, strict=True))[-_LAST:] if settles else ():
            # Registers that messages still read are waited for here, not in each iteration of the loop that follows.
            (name,), lines = aliases(self.builder, {0: message.operand.share.block.size}, "ud", WORD_BITS)
            lines += [f"mov (M1_NM,1) {name}({run.offset // self.local.register_bytes},0)<1> 0x0:ud"
                      for run in message.operand.runs]
            inline_assembly(self.builder, ir.VoidType(), lines, "rw", [value])

    def _move(self, message: _Message, header: ir.Value) -> ir.Value:
        """Load a block and store its fragments, rounded; returns what was loaded."""
        operand, accumulators = message.operand, self.accumulators
        block = operand.share.block
        loaded = accumulators.load(header, block)
        runs = operand.runs
        if message.start is None:
            for run in runs:
                self._store_words(message.words, run, self.messages.fragment(loaded, block, run.offset, vector_of(
                    I32, run.size // self.local.register_bytes), accumulators.rounds))
            return loaded
        # There are too many for registers of their own, but for the first two.
        places, distance = [run.place for run in runs], _distance(operand)
        addresses = [Address(message.start, number) for number in range(2)][: len(runs)]
        addresses += self.local.addresses(message.start, distance, places[2:])
        for run, address in zip(runs, addresses, strict=True):
            self.local.store(address, loaded, run.offset, run.size)
        return loaded

    def _store_words(self, words: ir.Value, run: _Run, value: ir.Value) -> None:
        """Store what would be in registers by its words, of which each lane has one of a register."""
        builder, width = self.builder, self.kernel.row.execution_size
        own = builder.gep(words, [builder.add(self.messages.lane, index(run.place // WORD_BYTES))])
        for number in range(lanes(value.type)):
            word = builder.extract_element(value, constant(I32, number)) if lanes(value.type) > 1 else value
            builder.store(word, builder.gep(own, [index(number * width)]), align=WORD_BYTES)


def _distance(operand: SharedOperand) -> int:
    """Return the bytes from the first run of a message to the second one."""
    places = [run.place for run in operand.runs]
    return places[1] - places[0] if len(places) > 1 else 0
