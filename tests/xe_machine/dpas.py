"""The matrix instruction: D := C + A B on registers, by the pseudo-code of its specification.

Integers are exact and wrap.  The order in which hardware adds floats is not specified: here the products of one
instruction are added in f64 and the sum is rounded once, so that sums of small whole numbers are those of any order.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.xe_machine.errors import MachineError
from tests.xe_machine.parser import Instruction
from tests.xe_machine.registers import Registers
from tests.xe_machine.types import bf16_of, f32_of_bf16

__all__ = ["matrix_instruction"]

_DEPTH = 8
_OPERAND = re.compile(r"(?:(null)|r(\d+)(?:\.(\d+))?):(\w+)")


@dataclass(frozen=True)
class _Precision:
    """A type of the factors: its bits, and how the bits of elements become numbers."""

    bits: int
    decode: Callable[[np.ndarray], np.ndarray]
    is_float: bool = True


def _signed(bits: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda raw: (raw.astype(np.int64) ^ (1 << bits - 1)) - (1 << bits - 1)


def _unsigned(raw: np.ndarray) -> np.ndarray:
    return raw.astype(np.int64)


_PRECISIONS = {
    "bf": _Precision(16, lambda raw: f32_of_bf16(raw.astype(np.uint16)).astype(np.float64)),
    "hf": _Precision(16, lambda raw: raw.astype(np.uint16).view(np.float16).astype(np.float64)),
    "tf32": _Precision(32, lambda raw: (raw & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)),
    "b": _Precision(8, _signed(8), False), "ub": _Precision(8, _unsigned, False),
    "s4": _Precision(4, _signed(4), False), "u4": _Precision(4, _unsigned, False),
    "s2": _Precision(2, _signed(2), False), "u2": _Precision(2, _unsigned, False),
}
_SUMS = {"f": np.float32, "d": np.int32, "ud": np.uint32, "hf": np.float16, "bf": np.uint16}


def _elements(data: np.ndarray, bits: int) -> np.ndarray:
    """Return the elements of so many bits in a run of bytes, the lowest bits first."""
    if bits >= 8:
        return data.view({8: np.uint8, 16: np.uint16, 32: np.uint32}[bits])
    per_byte = 8 // bits
    shifts = np.arange(per_byte, dtype=np.uint8) * np.uint8(bits)
    return (data[:, None] >> shifts & np.uint8((1 << bits) - 1)).reshape(-1)


def _operations(first: int, second: int) -> int:
    """Return the products that a channel adds in each of the eight steps, for factors of so many bits."""
    widest = max(first, second)
    return {32: 1, 16: 2, 8: 4, 4: 8, 2: 8}[widest]


@dataclass(frozen=True)
class _Place:
    """Where an operand begins, in bytes of the registers, and its type; None stands for zeros."""

    start: int | None
    type: str


def _place(text: str, sizes: dict[str, int], registers: Registers) -> _Place:
    match = _OPERAND.fullmatch(text)
    if match is None or match[4] not in sizes:
        raise MachineError(f"the operand {text!r} of dpas is not known")
    if match[1]:
        return _Place(None, match[4])
    start = registers.start_of("r", int(match[2])) * 8 + int(match[3] or 0) * sizes[match[4]]
    return _Place(start // 8, match[4])


def matrix_instruction(instruction: Instruction, registers: Registers) -> Callable[[Registers, Any], None]:
    """Return what a dpas does; raises `MachineError` for a form that is not known."""
    shape = re.fullmatch(r"(\d)x(\d)", instruction.modifier)
    lanes = registers.width // 4
    if shape is None or int(shape[1]) != _DEPTH or instruction.size != lanes or instruction.offset:
        raise MachineError(f"this form of dpas is not known with {lanes} channels in a register")
    if instruction.saturates or instruction.condition or instruction.predicate:
        raise MachineError("dpas with saturation, a comparison or a predicate is not known")
    repeat = int(shape[2])
    sums = {name: 8 * np.dtype(kind).itemsize for name, kind in _SUMS.items()}
    factors = {name: precision.bits for name, precision in _PRECISIONS.items()}
    if len(instruction.operands) != 4:
        raise MachineError("dpas has four operands")
    result, start = (_place(text, sums, registers) for text in instruction.operands[:2])
    first, second = (_place(text, factors, registers) for text in instruction.operands[2:])
    if result.start is None or first.start is None or second.start is None:
        raise MachineError("dpas without a result or a factor is not known")
    b, a = _PRECISIONS[first.type], _PRECISIONS[second.type]
    integer = result.type in ("d", "ud")
    if integer is b.is_float or integer is a.is_float or (start.type in ("d", "ud")) is not integer:
        raise MachineError("dpas of these types is not known")
    per = _operations(a.bits, b.bits)
    step = _Step(repeat, lanes, per, result, start, first.start, second.start, b, a)
    return step.run


@dataclass(frozen=True)
class _Step:
    """A dpas: B has `per` elements for each channel and step of depth, A a row of them for each row of the result."""

    repeat: int
    lanes: int
    per: int
    result: _Place
    sum: _Place
    b_start: int
    a_start: int
    b: _Precision
    a: _Precision

    def run(self, registers: Registers, mask: Any) -> None:
        """Execute it."""
        if mask is not None and not mask.all():
            raise MachineError("dpas with channels switched off")
        depth = _DEPTH * self.per
        b, b_valid = self._right(registers, depth)
        a, a_valid = self._left(registers, depth)
        with np.errstate(all="ignore"):
            product = a @ b
            old, valid = self._sums(registers)
            total = old + product
            self._store(registers, total, valid & a_valid[:, None] & b_valid[None, :])

    def _right(self, registers: Registers, depth: int) -> tuple[np.ndarray, np.ndarray]:
        """Return B, depth x lanes: groups of 32 bits for each channel, one behind the other along the depth."""
        size = depth * self.b.bits // 8 * self.lanes
        where = slice(self.b_start, self.b_start + size)
        self._check(where, registers)
        words = registers.data[where].reshape(-1, self.lanes, 4).transpose(1, 0, 2).reshape(-1)
        values = self.b.decode(_elements(np.ascontiguousarray(words), self.b.bits)).reshape(self.lanes, depth)
        valid = registers.valid[where].reshape(-1, self.lanes, 4).all(axis=(0, 2))
        return values.T, valid

    def _left(self, registers: Registers, depth: int) -> tuple[np.ndarray, np.ndarray]:
        size = depth * self.a.bits // 8
        where = slice(self.a_start, self.a_start + size * self.repeat)
        self._check(where, registers)
        values = self.a.decode(_elements(registers.data[where], self.a.bits)).reshape(self.repeat, depth)
        return values, registers.valid[where].reshape(self.repeat, size).all(axis=1)

    def _check(self, where: slice, registers: Registers) -> None:
        if where.stop > registers.accumulators:
            raise MachineError("an operand of dpas goes beyond the last register")

    def _places(self, place: _Place, registers: Registers) -> slice:
        assert place.start is not None
        size = np.dtype(_SUMS[place.type]).itemsize * self.lanes * self.repeat
        where = slice(place.start, place.start + size)
        self._check(where, registers)
        return where

    def _sums(self, registers: Registers) -> tuple[np.ndarray, np.ndarray]:
        shape = (self.repeat, self.lanes)
        if self.sum.start is None:
            return np.zeros(shape, np.int64 if self.sum.type in ("d", "ud") else np.float64), np.ones(shape, bool)
        where = self._places(self.sum, registers)
        bits = registers.data[where].view(_SUMS[self.sum.type])
        values = f32_of_bf16(bits) if self.sum.type == "bf" else bits
        wide = np.int64 if self.sum.type in ("d", "ud") else np.float64
        return values.reshape(shape).astype(wide), registers.valid[where].reshape(*shape, -1).all(axis=2)

    def _store(self, registers: Registers, total: np.ndarray, valid: np.ndarray) -> None:
        where = self._places(self.result, registers)
        if self.result.type == "bf":
            bits = bf16_of(total.astype(np.float32))
        else:
            bits = total.astype(np.int64).astype(_SUMS[self.result.type]) if self.result.type in ("d", "ud") else (
                total.astype(_SUMS[self.result.type]))
        raw = np.ascontiguousarray(bits).view(np.uint8).reshape(-1)
        registers.data[where] = raw
        registers.valid[where] = np.repeat(valid.reshape(-1), len(raw) // valid.size)
