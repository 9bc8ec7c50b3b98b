"""Instructions as iga64 prints them, taken apart: the text is the only source, bits are not decoded again."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.xe_machine.errors import MachineError

__all__ = ["Instruction", "Predicate", "parse"]

_LINE = re.compile(r"/\* \[([0-9A-F]+)\]\s*\*/\s*(.*)")
#: What is no instruction: labels, and a note of the disassembler on the padding behind the code.
_OTHER = re.compile(r"(?:.*illegal)?L\d+:|byte offset 0x[0-9a-f]+: warning: unexpected padding at end of kernel")
_HEAD = re.compile(r"(?:\((W)?&?(~)?(?:(f\d)\.(\d))?(?:\.(\w+))?\)\s+)?([a-z]\w*)((?:\.\S+)?)")
_SIZE = re.compile(r"\s*\((\d+)\|M(\d+)\)\s*")
_CONDITION = re.compile(r"\((\w+)\)(f\d)\.(\d)\s+")


@dataclass(frozen=True)
class Predicate:
    """The flags that choose channels: the register, its half, whether they are inverted, and how they are combined."""

    register: int
    half: int
    inverted: bool
    combined: str = ""


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    `place` is where it is in the code, in bytes; `size` and `offset` are its channels; `everywhere` says that it runs
    in channels that are switched off, too; `condition` is a comparison and the flag that gets it; `operands` are texts,
    the result first.
    """

    place: int
    text: str
    name: str
    modifier: str
    size: int
    offset: int
    everywhere: bool
    predicate: Predicate | None
    condition: tuple[str, int, int] | None
    saturates: bool
    operands: tuple[str, ...]
    options: str

    def __str__(self) -> str:
        return f"[{self.place:04X}] {self.text}"


def parse(text: str) -> list[Instruction]:
    """Return the instructions of a kernel in order, up to the padding behind them."""
    result = []
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            if line.strip() and not _OTHER.fullmatch(line.strip()):
                raise MachineError(f"this line is no instruction: {line!r}")
            continue
        if match[2].startswith("illegal"):
            continue
        result.append(_instruction(int(match[1], 16), match[2]))
    return result


def _instruction(place: int, text: str) -> Instruction:
    body = text.split("//")[0].strip()
    options = ""
    if body.endswith("}"):
        body, _, options = body[:-1].rpartition("{")
    head = _HEAD.match(body)
    if head is None:
        raise MachineError(f"this is no instruction: {text!r}")
    everywhere, inverted, flag, half, combined, name, modifier = head.groups()
    rest = body[head.end():]
    size, offset = 1, 0
    if sized := _SIZE.match(rest):
        size, offset, rest = int(sized[1]), int(sized[2]), rest[sized.end():]
    condition = None
    if compared := _CONDITION.match(rest.strip() + " "):
        condition = (compared[1], int(compared[2][1:]), int(compared[3]))
        rest = rest.strip()[compared.end():]
    rest = rest.strip()
    saturates = rest.startswith("(sat)")
    predicate = None if flag is None else Predicate(int(flag[1:]), int(half), bool(inverted), combined or "")
    return Instruction(
        place, " ".join(text.split("//")[0].split()), name, modifier[1:], size, offset, bool(everywhere), predicate,
        condition, saturates, tuple(rest.removeprefix("(sat)").split()), options.strip())
