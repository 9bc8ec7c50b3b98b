"""Sums with a carry and products of 64 bits, which take two instructions and the accumulator between them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tests.xe_machine.conversions import integers, to_bits
from tests.xe_machine.errors import MachineError
from tests.xe_machine.operands import FlagOperand, RegisterOperand, Source, have_values
from tests.xe_machine.parser import Instruction
from tests.xe_machine.registers import Mask, Registers, Step

__all__ = ["begins_product", "forgetting_product", "replaces_product", "with_accumulator"]


def begins_product(instruction: Instruction) -> bool:
    """Whether an instruction puts a product with 16 bits of the second factor into the accumulator."""
    return instruction.name == "mul" and re.match(r"acc0\.0<1>:u?d$", instruction.operands[0]) is not None


def replaces_product(instruction: Instruction, result: Any, registers: Registers) -> bool:
    """Whether the result is in the accumulator that may have a product, and is none."""
    if not isinstance(result, RegisterOperand) or begins_product(instruction):
        return False
    first = registers.accumulators
    return first <= int(result.places.min()) < first + 2 * registers.width


def forgetting_product(step: Step) -> Step:
    """Return what does a step, after which the accumulator has no product."""
    def forgetting(registers: Registers, mask: Mask) -> None:
        step(registers, mask)
        registers.wide = None

    return forgetting


def with_accumulator(instruction: Instruction, result: Any, sources: list[Source]) -> Step:
    """``addc``, ``subb``: a sum or difference, its carry in the accumulator; ``mach``, ``macl``: halves of a product.

    The last two end what ``mul`` with the lower 16 bits of the second factor began in the accumulator.
    """
    first, second = sources
    count, name = instruction.size, instruction.name
    if isinstance(result, FlagOperand) or result.type.size != 4 or any(each.type.size > 4 for each in sources):
        raise MachineError("this instruction is known for 32 bits only")
    is_signed = first.type.is_signed or second.type.is_signed

    def accumulate(registers: Registers, values: np.ndarray, mask: Mask, valid: np.ndarray | None) -> None:
        places = registers.accumulators + np.arange(4 * count).reshape(count, 4)
        RegisterOperand(result.type, places, None).write(registers, values, mask, valid)

    def carry(registers: Registers, mask: Mask) -> None:
        valid = have_values(sources, registers)
        x, y = integers(first, registers), integers(second, registers)
        total = np.broadcast_to(x + y if name == "addc" else x - y, (count,))
        result.write(registers, to_bits(total, result.type, False), mask, valid)
        accumulate(registers, (total >> 32 & 1).astype(np.uint32), mask, valid)

    def product(registers: Registers, mask: Mask) -> None:
        if registers.wide is None or len(registers.wide) < count:
            raise MachineError("the accumulator has no product of the lower 16 bits")
        valid = have_values(sources, registers)
        upper = integers(first, registers) * (integers(second, registers) >> 16)
        whole = registers.wide[:count] + (upper << 16)
        high = whole >> 32 if is_signed else (whole.view(np.uint64) >> np.uint64(32)).view(np.int64)
        result.write(registers, to_bits(high if name == "mach" else whole, result.type, False), mask, valid)
        registers.wide = None
        if name == "mach" and "AccWrEn" in instruction.options:  # the lower half is in the accumulator
            accumulate(registers, whole.astype(np.uint32), mask, valid)
        else:  # what it has is not modelled: reading it is reading no value
            accumulate(registers, np.zeros(count, np.uint32), None, np.zeros(1, bool))

    if name in ("addc", "subb"):
        if first.type.name != "ud" or second.type.name != "ud":
            raise MachineError("a carry of signed integers is not known")
        return carry
    return product
