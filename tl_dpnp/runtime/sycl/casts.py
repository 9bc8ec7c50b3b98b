"""Casts in words that LLVM 22's target for SPIR-V gets right.

It makes a bitwise and of ``zext (trunc x)``, and of operands of two widths where the first and the last type differ;
it ends where the lanes of a mask become numbers of 64 bits; and a variable that a block message is given remains a
pointer to the whole array, for which compilers of devices have no such message.
"""

from __future__ import annotations

import itertools
import re

__all__ = ["with_plain_casts"]

_FUNCTION = re.compile(r"(?ms)^define .*?^}$")
_NAME = r'%(?:"[^"\n]*"|[\w.$-]+)'
_TYPE = r"(?:<\d+ x i\d+>|i\d+)"
_NARROWED = re.compile(rf"(?m)^\s*({_NAME}) = trunc (?:nuw |nsw )*({_TYPE}) ({_NAME}) to ({_TYPE})$")
_NUMBERS = re.compile(
    rf"(?m)^(\s*{_NAME} = )(uitofp|sitofp|zext|sext) (?:nneg )?(<\d+ x i1> {_NAME}) to (<\d+ x (\w+)>)$")
_ONES = {"uitofp": "1.0", "sitofp": "-1.0", "zext": "1", "sext": "-1"}
_BLOCK = re.compile(r"(?m)^(.* = call .*@_Z\d+intel_sub_group_block_read\w*K([hjmt])\()(ptr addrspace\(3\) @[\w.]+)\)")
_ELEMENTS = {"h": "i8", "t": "i16", "j": "i32", "m": "i64"}
_WIDENED = re.compile(rf"(?m)^\s*({_NAME}) = zext (?:nneg )?{_TYPE} ({_NAME}) to ({_TYPE})$")


def with_plain_casts(text: str) -> str:
    """Return a module in LLVM IR in which what is widened without a sign is not the result of a narrowing, what becomes
    a number no mask, and what block messages read from no variable.
    """
    if " trunc " in text or "_block_read" in text:  # few kernels have either
        text = _FUNCTION.sub(lambda match: _of_function(_with_elements(match[0])), text)
    return _NUMBERS.sub(_selected, text) if " x i1> " in text else text


def _with_elements(text: str) -> str:
    """Return a function in which block messages are given pointers to elements, those at the begin of variables."""
    numbers = itertools.count()

    def pointed(match: re.Match[str]) -> str:
        call, letter, variable = match.groups()
        name = f"%tl.element.{next(numbers)}"
        return (f"  {name} = getelementptr {_ELEMENTS[letter]}, {variable}, i64 0\n"
                f"{call}{variable.rpartition(' ')[0]} {name})")

    return _BLOCK.sub(pointed, text)


def _selected(match: re.Match[str]) -> str:
    begin, cast, mask, type_, element = match.groups()
    return f"{begin}select {mask}, {type_} splat ({element} {_ONES[cast]}), {type_} zeroinitializer"


def _of_function(text: str) -> str:
    narrowed = {match[1]: match.groups()[1:] for match in _NARROWED.finditer(text)}
    count = 0

    def masked(match: re.Match[str]) -> str:
        nonlocal count
        name, source, wide = match.groups()
        if source not in narrowed:
            return match[0]
        type_, value, narrow = narrowed[source]
        while value in narrowed:  # the last of several is the narrowest
            type_, value, _ = narrowed[value]
        lines = []
        if type_ != wide:
            whole, value, count = value, f"%tl.whole.{count}", count + 1
            lines.append(f"  {value} = {'trunc' if _bits(type_) > _bits(wide) else 'zext'} {type_} {whole} to {wide}")
        mask = (1 << _bits(narrow)) - 1
        element = f"i{_bits(wide)} {mask}"
        lines.append(f"  {name} = and {wide} {value}, {f'splat ({element})' if wide.startswith('<') else mask}")
        return "\n".join(lines)

    return _WIDENED.sub(masked, text)


def _bits(type_: str) -> int:
    return int(type_.rstrip(">").rpartition("i")[2])
