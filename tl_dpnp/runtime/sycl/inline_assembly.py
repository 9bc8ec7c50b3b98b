"""Inline assembly in SPIR-V, which LLVM 22's own target does not write for vectors, and with half the target's name.

`without_assembly` puts calls of functions in its place before LLVM sees it, `with_assembly` puts it back into SPIR-V
that LLVM made.  Sources: SPIR-V specification 1.6, section 2.3 (physical layout); SPV_INTEL_inline_assembly.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

__all__ = ["Assembly", "with_assembly", "without_assembly"]


class Assembly(NamedTuple):
    """The text of instructions, their constraints in LLVM's form, and whether they do more than compute a result."""

    text: str
    constraints: str
    has_effects: bool


_NAME = "tl_assembly_"
_CALL = re.compile(
    r'call (?P<result>[^"@\n]*?) asm +(?P<effects>sideeffect +)?"(?P<text>[^"\n]*)", "(?P<constraints>[^"\n]*)" ?'
    r"\((?P<arguments>[^\n]*)\)"
)
_TARGET = "spir64-unknown-unknown"
# Numbers of the specification.
_NAME_OF, _EXTENSION, _CAPABILITY, _FUNCTION, _FUNCTION_END, _CALLED, _DECORATE = 5, 10, 17, 54, 56, 57, 71
_ASSEMBLY_TARGET, _ASSEMBLY, _CALL_ASSEMBLY = 5609, 5610, 5611
_HAS_ASSEMBLY, _HAS_EFFECTS, _LINKAGE = 5606, 5608, 41
_WORDS_OF_HEADER, _BOUND = 5, 3


def without_assembly(text: str) -> tuple[str, dict[str, Assembly]]:
    """Return a module of LLVM IR with functions in the place of inline assembly, and what each function stands for."""
    names: dict[tuple[Assembly, str], str] = {}

    def called(match: re.Match[str]) -> str:
        types = ", ".join(_types(match["arguments"]))
        assembly = Assembly(_unescaped(match["text"]), _unescaped(match["constraints"]), match["effects"] is not None)
        name = names.setdefault((assembly, f"{match['result']} @NAME({types})"), f"{_NAME}{len(names)}")
        return f"call spir_func {match['result']} @{name}({match['arguments']})"

    text = _CALL.sub(called, text)
    declarations = [
        f"declare spir_func {signature.replace('NAME', name)} nounwind{'' if assembly.has_effects else ' readnone'}\n"
        for (assembly, signature), name in names.items()
    ]
    return "".join([text, *declarations]), {name: assembly for (assembly, _), name in names.items()}


def _types(arguments: str) -> Iterator[str]:
    """Yield the types of arguments of a call: each is followed by a value, which may be a vector of constants."""
    depth = begin = space = 0
    for place, character in enumerate(f"{arguments},"):
        depth += (character in "<([{") - (character in ">)]}")
        if depth == 0 and character == " ":
            space = place
        elif depth == 0 and character == "," and arguments:
            yield arguments[begin:space].strip()
            begin = place + 1


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-9A-Fa-f]{2})", lambda match: chr(int(match[1], 16)), text)


def with_assembly(binary: bytes, assemblies: Mapping[str, Assembly]) -> bytes:
    """Return a module of SPIR-V with inline assembly in the place of functions from `without_assembly`."""
    words = [*struct.unpack(f"<{len(binary) // 4}I", binary)]
    instructions = [*_instructions(words)]
    functions = {
        instruction[1]: assemblies[name] for instruction in instructions
        if instruction[0] & 0xFFFF == _DECORATE and instruction[2] == _LINKAGE
        and (name := _string(instruction[3:])) in assemblies
    }
    if not functions:
        return binary
    target = words[_BOUND]
    result = [*words[:_WORDS_OF_HEADER], *_encoded(_CAPABILITY, _HAS_ASSEMBLY)]
    result[_BOUND] += 1
    before = [*_encoded(_EXTENSION, *_words("SPV_INTEL_inline_assembly"))]
    definitions = [*_encoded(_ASSEMBLY_TARGET, target, *_words(_TARGET))]
    is_declared = False
    for instruction in instructions:
        code = instruction[0] & 0xFFFF
        if before and code != _CAPABILITY:
            result += before
            before = []
        if code == _FUNCTION and instruction[2] in functions:
            is_declared = True
            _, type_, function, _, signature = instruction
            text, constraints, _ = functions[function]
            definitions += _encoded(_ASSEMBLY, type_, function, signature, target, *_words(text), *_words(constraints))
        if is_declared:
            is_declared = code != _FUNCTION_END
        elif code == _CALLED and instruction[3] in functions:
            result += _encoded(_CALL_ASSEMBLY, *instruction[1:])
        elif code == _DECORATE and instruction[1] in functions:
            if instruction[2] == _LINKAGE and functions[instruction[1]].has_effects:
                result += _encoded(_DECORATE, instruction[1], _HAS_EFFECTS)
        elif not (code == _NAME_OF and instruction[1] in functions):
            result += instruction
    return _packed(result, definitions)


def _packed(words: list[int], definitions: list[int]) -> bytes:
    """Return the words of a module with definitions in front of its first function."""
    place = _WORDS_OF_HEADER
    while words[place] & 0xFFFF != _FUNCTION:
        place += words[place] >> 16
    words[place:place] = definitions
    return struct.pack(f"<{len(words)}I", *words)


def _instructions(words: list[int]) -> Iterator[list[int]]:
    place = _WORDS_OF_HEADER
    while place < len(words):
        end = place + (words[place] >> 16)
        yield words[place:end]
        place = end


def _encoded(code: int, *operands: int) -> list[int]:
    return [(len(operands) + 1) << 16 | code, *operands]


def _words(text: str) -> tuple[int, ...]:
    content = text.encode() + b"\0"
    content += b"\0" * (-len(content) % 4)
    return struct.unpack(f"<{len(content) // 4}I", content)


def _string(words: list[int]) -> str:
    return struct.pack(f"<{len(words)}I", *words).partition(b"\0")[0].decode(errors="replace")
