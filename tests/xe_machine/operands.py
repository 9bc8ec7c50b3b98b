"""Operands: which bytes of the registers an instruction reads and writes, found once for each instruction."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tests.xe_machine.errors import MachineError
from tests.xe_machine.registers import CHANNELS, Registers
from tests.xe_machine.types import DataType, type_named

__all__ = [
    "Destination", "FlagOperand", "Immediate", "IndirectOperand", "Null", "RegisterOperand", "Source", "destination",
    "have_values", "source",
]

_REGISTER = re.compile(r"(-)?(~)?(\(abs\))?(r|acc|cr|a|f)(\d+)(?:\.(\d+))?(?:<([\d;,]+)>)?:(\w+)")
#: One element at an address that a register has, for all channels.
_INDIRECT = re.compile(r"(-)?r\[a(\d+)\.(\d+)(?:,(-?\d+))?\]<0;1,0>:(\w+)")
_IMMEDIATE = re.compile(r"(-?(?:0x[0-9A-Fa-f]+|[\d.]+(?:e[-+]?\d+)?|inf|nan)):(\w+)")
_NAN = re.compile(r"(-)?([qs])nan\(0x([0-9A-F]+)\):(f|hf)")
#: Exponent, quiet bit and sign of a NaN.
_NANS = {"f": (0x7F800000, 0x400000, 0x80000000), "hf": (0x7C00, 0x200, 0x8000)}
_HALF = 16
#: Floats of 8 bits: a sign, 3 bits of exponent, of which 3 is that of 1, and 4 of fraction; the smallest is 0.
_RESTRICTED_FLOATS = np.array([
    sign * (2.0 ** (bits >> 4) / 8 * (1 + (bits & 15) / 16) if bits else 0.0) for sign in (1, -1) for bits in range(128)
], np.float32)


@dataclass(frozen=True)
class Immediate:
    """A constant of the instruction, one element for all channels or one for each."""

    type: DataType
    values: np.ndarray
    negated = complemented = absolute = False

    def bits(self, _: Registers) -> np.ndarray:
        """Return the elements as the type's bits."""
        return self.values

    def has_value(self, _: Registers) -> np.ndarray | None:
        """Return None: all elements have a value."""
        return None


@dataclass(frozen=True)
class FlagOperand:
    """Half a flag register or a whole one, as an integer."""

    type: DataType
    register: int
    half: int
    negated = complemented = absolute = False

    def _channels(self) -> slice:
        start = self.half * _HALF
        return slice(start, start + self.type.size * 8)

    def bits(self, registers: Registers) -> np.ndarray:
        """Return the flags as one integer."""
        packed = np.packbits(registers.flags[self.register, self._channels()], bitorder="little")
        return packed.view(self.type.bits)

    def known(self, registers: Registers) -> np.ndarray:
        """Return which flags have a value."""
        return registers.flags_valid[self.register, self._channels()]

    def has_value(self, registers: Registers) -> np.ndarray | None:
        """Return whether all flags have a value; None means that they have."""
        return None if self.known(registers).all() else np.zeros(1, bool)

    def write(self, registers: Registers, bits: np.ndarray, mask: np.ndarray | None, valid: np.ndarray | None) -> None:
        """Set the flags; `bits` is one integer of the operand's size, `valid` is for all of them or has each."""
        if mask is not None and not mask[0]:
            return
        flags = np.unpackbits(np.ascontiguousarray(bits[:1]).view(np.uint8), bitorder="little")
        registers.flags[self.register, self._channels()] = flags.astype(bool)
        registers.flags_valid[self.register, self._channels()] = True if valid is None else valid


@dataclass(frozen=True)
class Null:
    """A result that nobody keeps."""

    type: DataType

    def write(self, *_: object) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class RegisterOperand:
    """Elements in registers: `places` has the bytes of each of `count` elements, `run` their range if they are a run.

    A scalar has one element, which all channels read.
    """

    type: DataType
    places: np.ndarray
    run: slice | None
    negated: bool = False
    complemented: bool = False
    absolute: bool = False

    def bits(self, registers: Registers) -> np.ndarray:
        """Return the elements as the type's bits."""
        raw = registers.data[self.run] if self.run is not None else registers.data[self.places].reshape(-1)
        return raw.view(self.type.bits)

    def has_value(self, registers: Registers) -> np.ndarray | None:
        """Return which elements have a value; None if all have."""
        if self.run is not None:
            valid = registers.valid[self.run]
            return None if valid.all() else valid.reshape(-1, self.type.size).all(axis=1)
        elements = registers.valid[self.places].all(axis=1)
        return None if elements.all() else elements

    def write(self, registers: Registers, bits: np.ndarray, mask: np.ndarray | None, valid: np.ndarray | None) -> None:
        """Set the elements that `mask` chooses; those that are not `valid` have no value afterwards."""
        count = len(self.places)
        if len(bits) != count:
            bits = np.broadcast_to(bits, (count,))
        raw = np.ascontiguousarray(bits).view(np.uint8)
        known: np.ndarray | bool = True
        if valid is not None:
            known = np.broadcast_to(np.broadcast_to(valid, (count,))[:, None], self.places.shape)
        if mask is None:
            if self.run is not None:
                registers.data[self.run] = raw
                registers.valid[self.run] = known if known is True else np.ascontiguousarray(known).reshape(-1)
                return
            registers.data[self.places] = raw.reshape(self.places.shape)
            registers.valid[self.places] = known
            return
        chosen = self.places[mask]
        registers.data[chosen] = raw.reshape(self.places.shape)[mask]
        registers.valid[chosen] = known if known is True else known[mask]


@dataclass(frozen=True)
class IndirectOperand:
    """One element of general registers for all channels, at the byte that an address register and a constant name.

    Source: Intel, Programmer's Reference Manual, "Register-Indirect Register-Region Addressing": the address register
    has the number of a byte of the register file.
    """

    type: DataType
    address: RegisterOperand
    displacement: int
    negated: bool = False
    complemented = absolute = False

    def _place(self, registers: Registers) -> slice:
        if self.address.has_value(registers) is not None:
            raise MachineError("a register's address has no value")
        first = int(self.address.bits(registers)[0]) + self.displacement
        if not 0 <= first <= registers.accumulators - self.type.size or first % self.type.size:
            raise MachineError(f"byte {first} of the registers is no place of {self.type.size} bytes")
        return slice(first, first + self.type.size)

    def bits(self, registers: Registers) -> np.ndarray:
        """Return the element as the type's bits."""
        return registers.data[self._place(registers)].view(self.type.bits)

    def has_value(self, registers: Registers) -> np.ndarray | None:
        """Return whether the element has a value; None means that it has."""
        return None if registers.valid[self._place(registers)].all() else np.zeros(1, bool)


Source = Immediate | FlagOperand | RegisterOperand | IndirectOperand
Destination = Null | FlagOperand | RegisterOperand


def have_values(sources: list[Source], registers: Registers) -> np.ndarray | None:
    """Return which channels have values in all sources; None if all have."""
    found = None
    for each in sources:
        valid = each.has_value(registers)
        if valid is not None:
            found = valid if found is None else found & valid
    return found


def source(text: str, count: int, registers: Registers) -> Source:
    """Read a source operand of an instruction with `count` channels."""
    if match := _REGISTER.fullmatch(text):
        negated, complemented, absolute, file, number, part, region, kind = match.groups()
        type_ = type_named(kind)
        if file == "f":
            return FlagOperand(type_, int(number), int(part or 0))
        places = _places(file, int(number), int(part or 0), _source_steps(region, count), type_, registers)
        return RegisterOperand(type_, places, _run(places), bool(negated), bool(complemented), bool(absolute))
    if match := _INDIRECT.fullmatch(text):
        places = _places("a", int(match[2]), int(match[3]), np.zeros(1, int), type_named("uw"), registers)
        address = RegisterOperand(type_named("uw"), places, _run(places))
        return IndirectOperand(type_named(match[5]), address, int(match[4] or 0), bool(match[1]))
    if match := _IMMEDIATE.fullmatch(text):
        return _immediate(match[1], match[2], count)
    if match := _NAN.fullmatch(text):
        type_, (exponent, quiet, sign) = type_named(match[4]), _NANS[match[4]]
        bits = exponent | (sign if match[1] else 0) | (quiet if match[2] == "q" else 0) | int(match[3], 16)
        return Immediate(type_, np.frombuffer(bits.to_bytes(type_.size, "little"), type_.bits))
    raise MachineError(f"the operand {text!r} is not known")


def destination(text: str, count: int, registers: Registers) -> Destination:
    """Read the operand that gets the result."""
    if text.startswith("null"):
        return Null(type_named(text.rpartition(":")[2]))
    match = _REGISTER.fullmatch(text)
    if match is None or match[1] or match[2] or match[3]:
        raise MachineError(f"the result {text!r} is not known")
    file, number, part, region, kind = match.groups()[3:]
    type_ = type_named(kind)
    if file == "f":
        return FlagOperand(type_, int(number), int(part or 0))
    if region is None or not region.isdigit() or (int(region) == 0 and count > 1):
        raise MachineError(f"the region of the result {text!r} is not known")
    places = _places(file, int(number), int(part or 0), np.arange(count) * int(region), type_, registers)
    return RegisterOperand(type_, places, _run(places))


def _source_steps(region: str | None, count: int) -> np.ndarray:
    """Return the offset in elements of each channel; one for all where they read the same element."""
    if region is None:
        raise MachineError("a source without a region is not known")
    numbers = [int(number) for number in re.split("[;,]", region)]
    channels = np.arange(count)
    match numbers:
        case [vertical, width, horizontal] if width:
            steps = channels // width * vertical + channels % width * horizontal
        case [vertical, horizontal]:  # of three sources: the width follows, and rows touch
            if horizontal and vertical and vertical % horizontal:
                raise MachineError(f"the region <{region}> is not known")
            if horizontal and not vertical:
                raise MachineError(f"the region <{region}> is not known")
            steps = channels * (horizontal or vertical)
        case [horizontal]:
            steps = channels * horizontal
        case _:
            raise MachineError(f"the region <{region}> is not known")
    return steps if steps.any() else steps[:1]


def _places(
    file: str, number: int, part: int, steps: np.ndarray, type_: DataType, registers: Registers
) -> np.ndarray:
    first = registers.start_of(file, number) + part * type_.size
    places = first + steps[:, None] * type_.size + np.arange(type_.size)
    if places.max() >= registers.end_of(file):
        raise MachineError(f"an operand goes beyond the last register, from {file}{number}.{part} on")
    return places


def _run(places: np.ndarray) -> slice | None:
    flat = places.reshape(-1)
    first, last = int(flat[0]), int(flat[-1])
    is_run = last - first + 1 == len(flat) and bool((np.diff(flat) == 1).all())
    return slice(first, last + 1) if is_run else None


def _immediate(text: str, kind: str, count: int) -> Immediate:
    if kind in ("v", "uv"):
        nibbles = np.array([int(text, 16) >> 4 * channel & 15 for channel in range(8)])
        if kind == "v":
            nibbles = nibbles - 16 * (nibbles > 7)
        if count > CHANNELS:
            raise MachineError(f"{count} channels are too many")
        type_ = type_named("w" if kind == "v" else "uw")
        return Immediate(type_, np.resize(nibbles, count).astype(type_.bits))
    if kind == "vf":
        parts = np.array([int(text, 16) >> 8 * channel & 255 for channel in range(4)])
        return Immediate(type_named("f"), np.resize(_RESTRICTED_FLOATS[parts], count))
    type_ = type_named(kind)
    if "x" in text:
        negative, digits = text.startswith("-"), text.lstrip("-")
        number = -int(digits, 16) if negative else int(digits, 16)
        raw = (number & (1 << 8 * type_.size) - 1).to_bytes(type_.size, "little")
        return Immediate(type_, np.frombuffer(raw, type_.bits))
    if not type_.is_float:
        raw = (int(text) & (1 << 8 * type_.size) - 1).to_bytes(type_.size, "little")
        return Immediate(type_, np.frombuffer(raw, type_.bits))
    if type_.name not in ("f", "hf", "df"):
        raise MachineError(f"constants of {kind} are not known")
    return Immediate(type_, np.array([float(text)], type_.bits))
