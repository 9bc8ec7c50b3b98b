"""Arithmetic on blocks of 32-bit elements in registers, by instructions that take two registers each.

A block has a row in each lane and a register for each of its columns.  The compiler makes an instruction for each
register of what it sees; inline assembly takes two, reads sums where they are, and changes in place what may be.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Literal, NamedTuple

from llvmlite import ir

from tl_dpnp.kernels.dpas.block_messages import inline_assembly
from tl_dpnp.kernels.llvm import lanes
from tl_dpnp.scalars import ScalarType

__all__ = ["COLUMNS", "LANES", "Form", "Source", "combined", "folded", "folded_lanes", "is_combined"]

#: Rows and columns of a block.
LANES, COLUMNS = 16, 8
#: Registers that an instruction takes at most.
_TOGETHER = 2
#: Instructions by operations on floats, and the operations that integers have, too.
_INSTRUCTIONS = {"add": "add", "sub": "add", "mul": "mul", "min": "min", "max": "max", "fma": "mad", "exp2": "exp"}
_OPERATIONS = {"f32": (*_INSTRUCTIONS,), "i32": ("add", "sub", "min", "max")}
#: What an operand is: a block, a column, which all registers are computed with, a number that is the same in all lanes,
#: or a known one.
Form = Literal["block", "column", "number", "constant"]


class Source(NamedTuple):
    """An operand and what it is; a known number is no value of LLVM's."""

    form: Form
    value: ir.Value | complex


def is_combined(operation: str, component: ScalarType) -> bool:
    """Return whether there is an instruction for an operation on elements of a type."""
    return operation in _OPERATIONS.get(component.name, ())


def combined(
    b: ir.IRBuilder, operation: str, type_: ir.Type, sources: Sequence[Source], into: ir.Value | None = None
) -> ir.Value:
    """Return a block of a type that is computed of others, or change the registers of one to it."""
    values = [source for source in sources if isinstance(source.value, ir.Value)]
    # An instruction of three operands has none that is one register for two.
    together = 1 if operation == "fma" and any(each.form == "column" for each in sources) else _TOGETHER
    lines, texts = list[str](), list[str]()
    for source in sources:
        if isinstance(source.value, ir.Value):
            texts.append(_places(source.form, f"${1 + values.index(source)}", together))
        else:
            texts.append(_filled(b, lines, source.value, type_))
    if operation == "sub":
        texts[1] = f"(-){texts[1]}"
    for first in range(0, lanes(type_), together):
        operands = " ".join(text.format(register=first) for text in texts)
        lines.append(f"{_INSTRUCTIONS[operation]} (M1_NM,{LANES * together}) $0({first},0)<1> {operands}")
    constraints = ["=rw" if into is None else "rw", *("rw.u" if each.form == "number" else "rw" for each in values)]
    arguments = [each.value for each in values]
    if into is None:
        return inline_assembly(b, type_, lines, ",".join(constraints), arguments)
    inline_assembly(b, ir.VoidType(), lines, ",".join(constraints), [into, *arguments])
    return into


def _places(form: Form, operand: str, together: int) -> str:
    """Return the text of an operand of inline assembly, where a block has its number of a register to be filled in."""
    if form == "block":
        return operand + "({register},0)<1;1,0>"
    if form == "number":
        return f"{operand}(0,0)<0;1,0>"
    return f"{operand}(0,0)<{'0;16,1' if together > 1 else '1;1,0'}>"


def _filled(b: ir.IRBuilder, lines: list[str], value: complex, type_: ir.Type) -> str:
    """Append what fills a variable with a known number; return its text."""
    letter = _letter(type_)
    packed = struct.pack("<f", value.real) if letter == "f" else struct.pack("<i", int(value.real))
    name = _name(b, "known")
    lines += [f".decl {name} v_type=G type={letter} num_elts=1 align=dword",
              f"mov (M1_NM,1) {name}(0,0)<1> {int.from_bytes(packed, 'little'):#x}:{letter}"]
    return f"{name}(0,0)<0;1,0>"


def folded(b: ir.IRBuilder, operation: str, block: ir.Value) -> ir.Value:
    """Return the column that the eight columns of a block are combined to."""
    name, instruction = _name(b, "folded"), _INSTRUCTIONS[operation]
    one, two = (f"{instruction} (M1_NM,{LANES * count})" for count in (1, _TOGETHER))
    lines = [f".decl {name} v_type=G type={_letter(block.type)} num_elts={COLUMNS // 2 * LANES} align=wordx32",
             *(f"{two} {name}({n},0)<1> $1({n},0)<1;1,0> $1({n + COLUMNS // 2},0)<1;1,0>" for n in (0, 2)),
             f"{two} {name}(0,0)<1> {name}(0,0)<1;1,0> {name}(2,0)<1;1,0>",
             f"{one} $0(0,0)<1> {name}(0,0)<1;1,0> {name}(1,0)<1;1,0>"]
    return inline_assembly(b, block.type.element, lines, "=rw,rw", [block])


def folded_lanes(b: ir.IRBuilder, operation: str, block: ir.Value) -> ir.Value:
    """Return what the lanes of each register of a block are combined to, in all lanes.

    Halves of registers are combined, then halves of those: an instruction reads two registers, of as many columns as
    are in them.
    """
    instruction, columns = _INSTRUCTIONS[operation], lanes(block.type)
    source, lines, width = "$1", list[str](), LANES
    while width > 1:
        width //= 2
        name, together = _name(b, "folded"), min(LANES, columns * width)
        lines.append(f".decl {name} v_type=G type={_letter(block.type)} num_elts={columns * width} align=wordx32")
        region = f"<{2 * width};{width},{1 if width > 1 else 0}>"
        for first in range(0, columns * width, together):
            pair = [divmod(2 * first + half, LANES) for half in (0, width)]
            lines.append(f"{instruction} (M1_NM,{together}) {name}({first // LANES},{first % LANES})<1> " + " ".join(
                f"{source}({register},{element}){region}" for register, element in pair))
        source = name
    together = min(_TOGETHER, columns)
    lines += [f"mov (M1_NM,{LANES * together}) $0({column},0)<1> {source}(0,{column})<1;{LANES},0>"
              for column in range(0, columns, together)]
    return inline_assembly(b, block.type, lines, "=rw,rw", [block])


def _name(b: ir.IRBuilder, stem: str) -> str:
    """Return a name for a declaration, those of a kernel have to differ."""
    return str(b.module.scope.register(stem, deduplicate=True)).replace(".", "_")


def _letter(type_: ir.Type) -> str:
    return "f" if isinstance(getattr(type_, "element", type_), ir.FloatType) else "d"
