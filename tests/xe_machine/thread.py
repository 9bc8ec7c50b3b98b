"""A thread: one sub-group, its registers, which channels are on, and the instruction that is next."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.xe_machine.alu import ARITHMETIC, arithmetic
from tests.xe_machine.dpas import matrix_instruction
from tests.xe_machine.errors import MachineError
from tests.xe_machine.memory import Arena, LocalMemory
from tests.xe_machine.messages import Send, message
from tests.xe_machine.parser import Instruction, Predicate
from tests.xe_machine.registers import CHANNELS, Registers

__all__ = ["Code", "Thread"]

_HALF = 16
#: Dependencies between instructions, and notes for the hardware's front end; they change no result.
_OPTION = re.compile(r"(?:[AFILM]?@\d|\$\d+(?:\.(?:src|dst))?|Compacted|Atomic|AccWrEn|EOT|Switch|NoPreempt)")
_ORDER = ("nop", "allrd", "allwr")
#: Where the payload of a barrier has the number of threads, twice.
_COUNTS = 10
_WAITING = -1
#: A bit that the compiler sets in addresses of local memory, so that none is 0; hardware has the lower ones only.
#: Source: the Intel Graphics Compiler, `VALID_LOCAL_HIGH_BITS`.
_LOCAL_BIT = np.uint64(1 << 28)


@dataclass(frozen=True)
class _Prepared:
    """An instruction that is ready to run: `move` returns the next one's number where that is not the next."""

    instruction: Instruction
    step: Callable[[Thread, Any], None] | None = None
    move: Callable[[Thread, int], int | None] | None = None
    needs_mask: bool = True
    is_barrier: bool = False


#: What instructions do, by their text and the number and size of registers: kernels and mutants of them share most.
_STEPS: dict[tuple[str, int, int], Callable[[Thread, Any], None]] = {}


class Code:
    """A kernel's instructions, prepared for registers of a size; threads share it.

    `executed` has the numbers of those that any thread came to.
    """

    def __init__(self, instructions: list[Instruction], registers: Registers) -> None:
        self._numbers = {each.place: number for number, each in enumerate(instructions)}
        self.executed: set[int] = set()
        self.prepared = []
        for each in instructions:
            try:
                self.prepared.append(self._prepare(each, registers))
            except MachineError as error:
                raise MachineError(f"{error}: {each}") from None

    def number(self, label: str) -> int:
        """Return the number of the instruction that a label stands in front of."""
        if not re.fullmatch(r"L\d+", label) or int(label[1:]) not in self._numbers:
            raise MachineError(f"no instruction is at {label!r}")
        return self._numbers[int(label[1:])]

    def _prepare(self, each: Instruction, registers: Registers) -> _Prepared:
        for option in filter(None, (part.strip() for part in each.options.split(","))):
            if not _OPTION.fullmatch(option):
                raise MachineError(f"the option {option!r} is not known")
        if each.offset + each.size > CHANNELS:
            raise MachineError(f"channels {each.offset} to {each.offset + each.size} are too many")
        match each.name:
            case "sync":
                if each.modifier == "bar":
                    return _Prepared(each, is_barrier=True)
                if each.modifier not in _ORDER:
                    raise MachineError("this synchronisation is not known")
                return _Prepared(each, needs_mask=False)
            case "nop":
                return _Prepared(each, needs_mask=False)
            case "jmpi":
                return _Prepared(each, move=self._jump(each))
            case "goto":
                return _Prepared(each, move=self._goto(each))
            case "join":
                return _Prepared(each, move=self._join(each))
        key = (each.text, registers.count, registers.width)
        if key not in _STEPS:
            _STEPS[key] = _step(each, registers)
        return _Prepared(each, _STEPS[key], needs_mask=not each.everywhere or each.predicate is not None)

    def _jump(self, each: Instruction) -> Callable[[Thread, int], int | None]:
        target = self.number(each.operands[0])

        def move(thread: Thread, _: int) -> int | None:
            return target if each.predicate is None or thread.chosen(each, each.predicate)[0] else None

        return move

    def _goto(self, each: Instruction) -> Callable[[Thread, int], int | None]:
        """Channels that the predicate chooses wait for a join; where none is left, the thread goes on behind.

        ``goto.b`` is the end of a loop: those that it chooses go back, the others wait for the join behind it.  Source:
        "each channel performs a conditional jump" (GOTO in Intel's documentation of vISA), and that the compiler has
        the next instruction, a join, and the loop's first one for its labels.
        """
        if each.everywhere or each.modifier not in ("", "b") or each.offset:
            raise MachineError("this form of goto is not known")
        jump, wait = (self.number(label) for label in each.operands)
        if each.modifier:
            return self._back(each, wait, jump)

        def move(thread: Thread, _: int) -> int | None:
            leaving = thread.active.copy()
            leaving[each.size :] = False
            if each.predicate is not None:
                leaving[: each.size] &= thread.chosen(each, each.predicate)
            thread.waiting[leaving] = wait
            thread.set_active(thread.active & ~leaving)
            return None if thread.active.any() else jump

        return move

    def _back(self, each: Instruction, first: int, behind: int) -> Callable[[Thread, int], int | None]:
        predicate, here = each.predicate, self._numbers[each.place]
        if predicate is None or first > here or behind != here + 1:
            raise MachineError("this form of goto is not known")

        def move(thread: Thread, _: int) -> int | None:
            back = thread.active.copy()
            back[each.size :] = False
            back[: each.size] &= thread.chosen(each, predicate)
            if not back.any():
                return None
            thread.waiting[thread.active & ~back] = behind
            thread.set_active(back)
            return first

        return move

    def _join(self, each: Instruction) -> Callable[[Thread, int], int | None]:
        """Channels that wait for this instruction go on; where none is on, the thread goes further."""
        if each.everywhere or each.predicate is not None or each.offset:
            raise MachineError("this form of join is not known")
        jump = self.number(each.operands[0])

        def move(thread: Thread, here: int) -> int | None:
            arrived = thread.waiting == here
            thread.waiting[arrived] = _WAITING
            thread.set_active(thread.active | arrived)
            return None if thread.active.any() else jump

        return move


def _step(each: Instruction, registers: Registers) -> Callable[[Thread, Any], None]:
    """Return what an instruction without branches does; it depends on the text and the registers' sizes only."""
    match each.name:
        case "send" | "sendc":
            return message(each)
        case "dpas":
            step = matrix_instruction(each, registers)
        case name if name in ARITHMETIC:
            step = arithmetic(each, registers)
        case _:
            raise MachineError("this instruction is not known")
    return lambda thread, mask: step(thread.registers, mask)


class Thread:
    """One sub-group of a work-group; `run` yields where it waits at a barrier, and ends with the kernel."""

    def __init__(
        self, code: Code, registers: Registers, lanes: int, spaces: dict[str, Arena], local: LocalMemory, number: int,
        most_steps: int, scratch: int = 0,
    ) -> None:
        self.code, self.registers, self.number = code, registers, number
        self.active = np.arange(CHANNELS) < lanes
        self.waiting = np.full(CHANNELS, _WAITING)
        self.signals = self.waits = self.steps = 0
        self._lanes, self._full, self._ended = lanes, True, False
        self._spaces, self._local, self._most = spaces, local, most_steps
        self.scratch, self.scratch_valid = np.zeros(scratch, np.uint8), np.zeros(scratch, bool)
        # Flags are moved by halves of a register; those of channels that there are not decide nothing.
        registers.flags_valid.reshape(-1, _HALF)[:, lanes:] = True

    def run(self) -> Iterator[None]:
        """Execute the kernel; yields in front of each barrier that other threads have not reached."""
        number, prepared = 0, self.code.prepared
        while not self._ended:
            if number >= len(prepared):
                raise MachineError(f"sub-group {self.number} runs beyond the end of the kernel")
            each = prepared[number]
            self.steps += 1
            self.code.executed.add(number)
            try:
                if self.steps > self._most:
                    raise MachineError(f"no end after {self._most} instructions")
                if each.is_barrier:
                    self.waits += 1
                    if self.signals < self.waits:
                        raise MachineError("waits at a barrier that it has not reached")
                    yield
                following = self._execute(each, number)
            except MachineError as error:
                raise MachineError(f"sub-group {self.number}: {error}: {each.instruction}") from None
            number = number + 1 if following is None else following

    def _execute(self, each: _Prepared, number: int) -> int | None:
        if each.step is not None:
            each.step(self, self._mask(each.instruction) if each.needs_mask else None)
        return None if each.move is None else each.move(self, number)

    def _mask(self, each: Instruction) -> np.ndarray | None:
        """Return which channels an instruction is for; None is all."""
        predicate = None if each.name == "sel" else each.predicate
        if predicate is None and self._full and each.offset + each.size <= self._lanes:
            return None
        mask = np.ones(each.size, bool) if each.everywhere else self.active[each.offset : each.offset + each.size]
        return mask if predicate is None else mask & self.chosen(each, predicate)

    def set_active(self, active: np.ndarray) -> None:
        """Set which channels are on."""
        self.active = active
        self._full = bool(active[: self._lanes].all())

    def chosen(self, each: Instruction, predicate: Predicate) -> np.ndarray:
        """Return the channels that a predicate chooses; raises `MachineError` where it has no value and decides."""
        if predicate.combined:
            raise MachineError(f"flags combined by {predicate.combined!r} are not known")
        start = predicate.half * _HALF + each.offset
        channels = slice(start, start + each.size)
        enabled = np.ones(each.size, bool) if each.everywhere else self.active[each.offset : each.offset + each.size]
        if not self.registers.flags_valid[predicate.register, channels][enabled].all():
            raise MachineError("a flag that decides has no value")
        return self.registers.flags[predicate.register, channels] ^ predicate.inverted

    # --- messages -----------------------------------------------------------------------------------------------------

    def load(
        self, space: str, addresses: np.ndarray, size: int, *, partly: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the bytes at addresses of a space, and which of them have a value; `partly` as for `Arena.read`."""
        if space == "local":
            return self._local.read(addresses & ~_LOCAL_BIT, size, self.number, self.signals, self.waits)
        return self._spaces[space].read(addresses, size, partly=partly)

    def store(self, space: str, addresses: np.ndarray, values: np.ndarray, valid: np.ndarray) -> None:
        """Store bytes at addresses of a space."""
        if space == "local":
            self._local.write(addresses & ~_LOCAL_BIT, values, valid, self.number, self.signals, self.waits)
        else:
            self._spaces[space].write(addresses, values, valid)

    def signal(self, payload: int) -> None:
        """Reach the barrier: its payload says how many threads take part, as those of the thread itself do."""
        counts = self.registers.take(payload, 2, "the payload of a barrier", start=_COUNTS)
        threads = len(self._local.readers)
        if list(counts) != [threads, threads]:
            raise MachineError(f"a barrier of {list(counts)} of the {threads} sub-groups")
        self.signals += 1

    def fence(self, send: Send) -> None:
        """Order accesses, which are in order here; the answer has no meaning, but a value."""
        if send.result is not None:
            begin = self.registers.start_of("r", send.result)
            self.registers.valid[begin : begin + self.registers.width] = True

    def end(self) -> None:
        """End the thread."""
        self._ended = True
