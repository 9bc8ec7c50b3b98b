"""What an operand's bits mean in arithmetic, and which bits a result has: integers of 64 bits, or floats."""

from __future__ import annotations

import numpy as np

from tests.xe_machine.errors import MachineError
from tests.xe_machine.operands import Source
from tests.xe_machine.registers import Registers
from tests.xe_machine.types import DataType, bf16_of, f32_of_bf16, tf32_of

__all__ = ["floats", "integers", "number", "to_bits"]


def integers(operand: Source, registers: Registers) -> np.ndarray:
    """Return the elements as integers of 64 bits; the upper half of unsigned ones of 64 bits is negative."""
    values = operand.bits(registers).astype(np.int64)
    if operand.absolute:
        values = np.abs(values)
    if operand.negated:
        values = -values
    return ~values if operand.complemented else values


def floats(operand: Source, registers: Registers) -> np.ndarray:
    """Return the elements as floats: f64 of f64, f32 of all others."""
    bits, name = operand.bits(registers), operand.type.name
    if operand.complemented:
        raise MachineError("the complement of a float is not known")
    match name:
        case "f" | "df":
            values = bits
        case "hf":
            values = bits.astype(np.float32)
        case "bf":
            values = f32_of_bf16(bits)
        case "tf32":
            values = bits.view(np.float32)
        case "q" | "uq":
            values = bits.astype(np.float64)
        case "d" | "ud":
            values = bits.astype(np.float64)
        case _:
            values = bits.astype(np.float32)
    if operand.absolute:
        values = np.abs(values)
    return -values if operand.negated else values


def number(operand: Source, registers: Registers) -> np.ndarray:
    """Return the elements as floats if they are floats, as integers otherwise."""
    return floats(operand, registers) if operand.type.is_float else integers(operand, registers)


def to_bits(values: np.ndarray, type_: DataType, saturates: bool) -> np.ndarray:
    """Return the bits of numbers in a type: floats are rounded to the nearest, ties to even; integers wrap.

    Floats become integers by truncation, and as integers of another range the nearest of it.
    """
    with np.errstate(all="ignore"):
        if type_.is_float:
            if saturates:
                values = np.clip(values, 0.0, 1.0)
            return _float_bits(values, type_)
        if values.dtype.kind == "f":
            low, high = type_.limits
            whole = np.trunc(np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=2.0**70, neginf=-(2.0**70)))
            exact = [min(max(int(value), low), high) for value in whole]
            return np.array(exact, type_.bits)
        if saturates:
            if type_.size == 8:
                raise MachineError("saturation to 64 bits is not known")
            values = np.clip(values, *type_.limits)
        return values.astype(type_.bits)


def _float_bits(values: np.ndarray, type_: DataType) -> np.ndarray:
    match type_.name:
        case "bf":
            return bf16_of(_f32(values))
        case "tf32":
            return tf32_of(_f32(values))
        case _:
            return values.astype(type_.bits)


def _f32(values: np.ndarray) -> np.ndarray:
    if values.dtype == np.float64:
        raise MachineError("f64 to a type of 16 bits by way of f32 rounds twice: not known")
    return values.astype(np.float32)
