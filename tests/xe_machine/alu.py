"""Arithmetic: an instruction becomes a function of a thread's registers, with its operands found once."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from tests.xe_machine.accumulators import begins_product, forgetting_product, replaces_product, with_accumulator
from tests.xe_machine.conversions import floats, integers, number, to_bits
from tests.xe_machine.errors import MachineError
from tests.xe_machine.operands import FlagOperand, Null, RegisterOperand, Source, destination, have_values, source
from tests.xe_machine.parser import Instruction
from tests.xe_machine.registers import Mask, Registers, Step

__all__ = ["ARITHMETIC", "arithmetic"]

Numbers = Callable[..., np.ndarray]

_COMPARISONS: dict[str, Numbers] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "z": np.equal, "nz": np.not_equal,
}
#: What the control register may be set to: all subnormal numbers are kept.
_KEEPS_SUBNORMALS = 0x4C0
_HALF, _WORD = 16, 4


def _add(*values: np.ndarray) -> np.ndarray:
    return reduce(np.add, values)


def _mad(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "f":  # one rounding; that of f64 before can matter in rare cases only
        wide = x.astype(np.float64) + y.astype(np.float64) * z.astype(np.float64)
        return wide.astype(np.result_type(x, y, z)) if np.result_type(x, y, z) == np.float32 else wide
    return x + y * z


def _reversed(x: np.ndarray) -> np.ndarray:
    """Return words of 32 bits with their bits in the opposite order."""
    words = np.ascontiguousarray(x & 0xFFFFFFFF).astype(">u4")
    return np.packbits(np.unpackbits(words.view(np.uint8).reshape(-1, 4), axis=1)[:, ::-1]).view(">u4").astype(np.int64)


def _lowest_bit(x: np.ndarray) -> np.ndarray:
    """Return the number of the lowest bit of words of up to 32 bits that is 1, all ones where none is.

    Source: Intel, Programmer's Reference Manual, "fbl - Find First Bit from LSB Side".
    """
    words = x & 0xFFFFFFFF
    return np.where(words == 0, 0xFFFFFFFF, np.log2(np.maximum(words & -words, 1)).astype(np.int64))


#: Sums, products and logic on numbers.
_PLAIN: dict[str, Numbers] = {
    "mov": lambda x: x, "add": _add, "add3": _add, "mul": np.multiply, "mad": _mad, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert,
    "bfrev": _reversed, "fbl": _lowest_bit,
}
#: Functions of f32, which hardware computes with errors of a few units in the last place.
_MATHEMATICS: dict[str, Numbers] = {"exp": np.exp2, "inv": np.reciprocal}
_LOGIC = ("and", "or", "xor", "not", "shl", "shr", "asr", "bfn", "bfrev", "fbl")
ARITHMETIC = (*_PLAIN, "math", "shl", "shr", "asr", "bfn", "cmp", "sel", "csel", "addc", "subb", "mach", "macl")


def arithmetic(instruction: Instruction, registers: Registers) -> Step:
    """Return what an instruction does; raises `MachineError` for one that is not known."""
    if "AccWrEn" in instruction.options and instruction.name not in ("addc", "subb", "mach", "macl"):
        raise MachineError("writing an accumulator besides the result is not known")
    count = instruction.size
    result = destination(instruction.operands[0], count, registers)
    sources = [source(text, count, registers) for text in instruction.operands[1:]]
    if result.type.is_float and any(each.type.name == "uq" for each in sources):
        raise MachineError("floats of unsigned integers of 64 bits are not known")
    if isinstance(result, RegisterOperand) and registers.control <= result.places.min() < registers.address:
        return _control(instruction, sources)
    match instruction.name:
        case "cmp":
            step = _compare(instruction, result, sources)
        case "sel":
            step = _select(instruction, result, sources)
        case "addc" | "subb" | "mach" | "macl":
            step = with_accumulator(instruction, result, sources)
        case _:
            step = _store(instruction, result, sources, _computation(instruction, result.type.size, sources))
    return forgetting_product(step) if replaces_product(instruction, result, registers) else step


def _computation(instruction: Instruction, size: int, sources: list[Source]) -> Numbers:
    """Return a function of a thread's registers that computes the result of each channel."""
    name = instruction.name
    is_float = any(each.type.is_float for each in sources)
    if is_float and name in _LOGIC:
        raise MachineError("logic on floats is not known")
    if name in ("shl", "shr", "asr"):
        return _shift(name, size, sources)
    if name == "bfrev" and (size, sources[0].type.size) != (_WORD, _WORD):
        raise MachineError("reversing bits of other sizes than 32 is not known")
    if name == "fbl" and (size != _WORD or sources[0].type.size > _WORD or sources[0].type.is_signed):
        raise MachineError("the lowest bit of signed and of wide integers is not known")
    if name == "bfn":
        return _boolean(instruction.modifier, sources)
    if name == "csel":
        return _conditional(instruction, sources)
    if name == "math":
        return _mathematics(instruction, sources)
    if name == "mov" and not (sources[0].negated or sources[0].absolute or sources[0].complemented):
        read = number
    else:
        read = floats if is_float else integers
    if (is_float and name not in ("mov", "add", "mul", "mad")) or (name == "mov" and len(sources) != 1):
        raise MachineError("this instruction with floats is not known")
    function = _PLAIN[name]
    if is_float and all(each.type.name == "hf" for each in sources) and name != "mov":
        return lambda registers: function(*(read(each, registers).astype(np.float16) for each in sources))
    return lambda registers: function(*[read(each, registers) for each in sources])


def _mathematics(instruction: Instruction, sources: list[Source]) -> Numbers:
    """Return a function of f32 that the modifier of ``math`` names."""
    if instruction.modifier not in _MATHEMATICS or [each.type.name for each in sources] != ["f"]:
        raise MachineError("this function is not known")
    function, (argument,) = _MATHEMATICS[instruction.modifier], sources
    return lambda registers: function(floats(argument, registers).astype(np.float32))


def _shift(name: str, size: int, sources: list[Source]) -> Numbers:
    value, amount = sources
    is_wide = size == 8 or value.type.size == 8
    counts = 63 if is_wide else 31
    if name == "shl":
        return lambda registers: integers(value, registers) << (integers(amount, registers) & counts)
    if name == "asr" and value.type.is_signed:
        return lambda registers: integers(value, registers) >> (integers(amount, registers) & counts)

    def logical(registers: Registers) -> np.ndarray:
        whole = integers(value, registers).view(np.uint64)
        if not is_wide:
            whole = whole & np.uint64(0xFFFFFFFF)
        return (whole >> (integers(amount, registers) & counts).astype(np.uint64)).view(np.int64)

    return logical


def _boolean(text: str, sources: list[Source]) -> Numbers:
    """Return the function of bits that the modifier of ``bfn`` spells: &, |, ^, ~ of s0, s1 and s2."""
    if not re.fullmatch(r"[s012&|^~()]+", text):
        raise MachineError(f"the function {text!r} of bits is not known")
    code = compile(text, "bfn", "eval")
    names = ("s0", "s1", "s2")
    return lambda registers: np.asarray(
        eval(code, {}, {name: integers(each, registers) for name, each in zip(names, sources, strict=True)}), np.int64)


def _comparison(name: str, sources: list[Source]) -> Numbers:
    if name not in _COMPARISONS:
        raise MachineError(f"the comparison {name!r} is not known")
    wide = [each.type for each in sources if each.type.name == "uq"]
    if wide and any(each.type.is_signed and not hasattr(each, "values") for each in sources):
        raise MachineError("comparing signed with unsigned integers of 64 bits is not known")
    compare = _COMPARISONS[name]
    if wide:
        return lambda x, y: compare(x.view(np.uint64), y.view(np.uint64))
    return compare


def _set_flags(
    instruction: Instruction, registers: Registers, truth: np.ndarray, mask: Mask, valid: np.ndarray | None
) -> None:
    assert instruction.condition is not None
    _, number_, half = instruction.condition
    start = half * _HALF + instruction.offset
    channels = slice(start, start + instruction.size)
    chosen: Any = slice(None) if mask is None else mask
    registers.flags[number_, channels][chosen] = np.broadcast_to(truth, (instruction.size,))[chosen]
    known = np.ones(1, bool) if valid is None else valid
    registers.flags_valid[number_, channels][chosen] = np.broadcast_to(known, (instruction.size,))[chosen]


def _compare(instruction: Instruction, result: Any, sources: list[Source]) -> Step:
    if instruction.condition is None:
        raise MachineError("a comparison without a flag is not known")
    compare = _comparison(instruction.condition[0], sources)
    read = floats if any(each.type.is_float for each in sources) else integers
    first, second = sources

    def step(registers: Registers, mask: Mask) -> None:
        truth, valid = compare(read(first, registers), read(second, registers)), have_values(sources, registers)
        _set_flags(instruction, registers, truth, mask, valid)
        if not isinstance(result, Null):
            result.write(registers, to_bits(-truth.astype(np.int64), result.type, False), mask, valid)

    return step


def _select(instruction: Instruction, result: Any, sources: list[Source]) -> Step:
    first, second = sources
    if instruction.condition is not None:
        return _extreme(instruction, result, sources)
    if instruction.predicate is None:
        raise MachineError("a selection without a flag is not known")
    start = instruction.predicate.half * _HALF + instruction.offset
    channels = slice(start, start + instruction.size)
    flag, inverted = instruction.predicate.register, instruction.predicate.inverted
    if instruction.predicate.combined:
        raise MachineError("a selection by combined flags is not known")

    def step(registers: Registers, mask: Mask) -> None:
        chosen = registers.flags[flag, channels] ^ inverted
        values = np.where(chosen, number(first, registers), number(second, registers))
        known, others = (each.has_value(registers) for each in sources)
        flags = registers.flags_valid[flag, channels]
        valid = None
        if known is not None or others is not None or not flags.all():
            yes, no = (np.ones(1, bool) if each is None else each for each in (known, others))
            valid = np.where(chosen, yes, no) & flags
        result.write(registers, to_bits(values, result.type, instruction.saturates), mask, valid)

    return step


def _extreme(instruction: Instruction, result: Any, sources: list[Source]) -> Step:
    """``sel`` with a comparison: the minimum or maximum; the flag does not change."""
    assert instruction.condition is not None
    name = instruction.condition[0]
    if name not in ("lt", "ge") or instruction.predicate is not None:
        raise MachineError(f"a selection by {name!r} is not known")
    is_float = any(each.type.is_float for each in sources)
    if any(each.type.name == "uq" for each in sources):
        raise MachineError("the extreme of unsigned integers of 64 bits is not known")
    read = floats if is_float else integers
    choose = (np.fmin if name == "lt" else np.fmax) if is_float else (np.minimum if name == "lt" else np.maximum)

    def step(registers: Registers, mask: Mask) -> None:
        values = choose(*(read(each, registers) for each in sources))
        bits = to_bits(values, result.type, instruction.saturates)
        result.write(registers, bits, mask, have_values(sources, registers))

    return step


def _conditional(instruction: Instruction, sources: list[Source]) -> Numbers:
    """``csel``: the first source where the third compares so with 0, the second otherwise."""
    assert instruction.condition is not None
    compare = _comparison(instruction.condition[0], sources[2:])
    first, second, decides = sources
    return lambda registers: np.where(
        compare(number(decides, registers), 0), number(first, registers), number(second, registers))


def _store(instruction: Instruction, result: Any, sources: list[Source], compute: Numbers) -> Step:
    sets_flag = instruction.condition is not None and instruction.name != "csel"
    same = (
        instruction.name == "mov" and result.type == sources[0].type and not instruction.saturates and not sets_flag
        and not (sources[0].negated or sources[0].absolute or sources[0].complemented)
    )
    is_wide_product = begins_product(instruction)

    def step(registers: Registers, mask: Mask) -> None:
        valid = have_values(sources, registers)
        if same:
            bits = sources[0].bits(registers)
            if valid is not None:
                valid = _through_registers(result, sources[0], registers, bits, valid)
            result.write(registers, bits.copy() if len(bits) > 1 else bits, mask, valid)
            return
        with np.errstate(all="ignore"):
            values = compute(registers)
        bits = to_bits(values, result.type, instruction.saturates)
        if is_wide_product:
            registers.wide = np.broadcast_to(values, (instruction.size,)).copy()
        if sets_flag:
            _set_flags(instruction, registers, _against_zero(instruction, bits, result), mask, valid)
        result.write(registers, bits, mask, valid)

    return step


def _through_registers(
    result: Any, source: Source, registers: Registers, bits: np.ndarray, valid: np.ndarray
) -> np.ndarray:
    """Return which elements of a copy have a value.  Flags of which only some have one, as those of a comparison in one
    channel, are kept in a register for a while: those come back with it."""
    if isinstance(source, FlagOperand) and isinstance(result, RegisterOperand):
        registers.save_flags(int(result.places[0, 0]), int(bits[0]), source.known(registers))
    elif isinstance(source, RegisterOperand) and isinstance(result, FlagOperand):
        known = registers.saved_flags(int(source.places[0, 0]), int(bits[0]))
        return valid[:1] if known is None else known
    return valid


def _against_zero(instruction: Instruction, bits: np.ndarray, result: Any) -> np.ndarray:
    assert instruction.condition is not None
    if result.type.name in ("bf", "tf32") or instruction.condition[0] not in _COMPARISONS:
        raise MachineError("this comparison of a result with 0 is not known")
    return _COMPARISONS[instruction.condition[0]](bits, bits.dtype.type(0))


def _control(instruction: Instruction, sources: list[Source]) -> Step:
    """Setting the control register: only that subnormal numbers are kept is known."""
    constants = [int(each.values[0]) for each in sources if hasattr(each, "values")]
    if instruction.name != "or" or constants != [_KEEPS_SUBNORMALS]:
        raise MachineError("this setting of the control register is not known")
    return lambda registers, mask: None
