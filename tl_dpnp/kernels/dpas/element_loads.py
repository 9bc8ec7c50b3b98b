"""Single elements in global memory, one for each lane, as words of 32 bits, and words that are made of them.

Compilers select an address and a value where an element may be outside of a matrix; here its load has a mask.  They
take three moves to bring a byte to its place in a word; here it is one.

Source: the descriptors that the Intel Graphics Compiler 1.0.12504 makes for loads of single elements.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tl_dpnp.kernels.dpas.accumulators import aliases
from tl_dpnp.kernels.dpas.block_messages import inline_assembly
from tl_dpnp.kernels.llvm import I32, I64

__all__ = ["joined_elements", "load_element"]

#: The port of global memory, and descriptors of loads: addresses of 64 bits in two registers, one register of words,
#: each an element that zeros extend.
_PORT, _LOADS = 15, {8: 0x04100980, 16: 0x04100B80, 32: 0x04100580}
_TYPES, _WORD_BYTES = {8: "ub", 16: "uw"}, 4


def load_element(
    builder: ir.IRBuilder, pointer: ir.Value, bits: int, lanes: int, left: ir.Value | None = None, place: int = 0
) -> ir.Value:
    """Load the element that each of so many lanes points to, as a word of 32 bits; not where messages are emulated.

    It is 0 in lanes where no more than `place` are `left` (32 bits), if that is given.
    """
    load = f"raw_sends.{_PORT}.2.0.1 (M1,{lanes}) 0x0:ud {_LOADS[bits]:#x}:ud $1.0 %null.0 $0.0"
    address = builder.ptrtoint(pointer, I64)
    if left is None:
        return inline_assembly(builder, I32, [load], "=rw,rw", [address])
    (number,), lines = aliases(builder, {2: _WORD_BYTES * lanes}, "d", 8 * _WORD_BYTES)
    lines += [f".decl {number}_mask v_type=P num_elts={lanes}",
              f"cmp.gt (M1,{lanes}) {number}_mask {number}(0,0)<1;1,0> {place}:d",
              f"mov (M1,{lanes}) $0(0,0)<1> 0x0:ud", f"({number}_mask) {load}"]
    return inline_assembly(builder, I32, lines, "=rw,rw,rw", [address, left])


def joined_elements(builder: ir.IRBuilder, words: Sequence[ir.Value], bits: int, lanes: int) -> ir.Value:
    """Return elements of words side by side, the first one lowest: the first word is changed in place."""
    step = _WORD_BYTES * 8 // bits
    names, lines = aliases(builder, dict.fromkeys(range(len(words)), _WORD_BYTES * lanes), _TYPES[bits], bits)
    lines += [f"mov (M1_NM,{lanes}) {names[0]}(0,{number})<{step}> {name}(0,0)<{step};1,0>"
              for number, name in enumerate(names[1:], 1)]
    inline_assembly(builder, ir.VoidType(), lines, ",".join(["rw"] * len(words)), words)
    return words[0]
