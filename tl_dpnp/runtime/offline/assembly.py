"""Reading assembly as iga64 prints it: what the instructions are, where the inner loop is, and what is in it.

Jumps name the places that they lead to, in bytes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence

from tl_dpnp.kernels.dpas.rows import DpasRow
from tl_dpnp.records import dataclass

__all__ = ["Instruction", "has_types", "inner_loop", "inner_loops", "main_part", "mix", "parse", "straight_run"]

_INSTRUCTION = re.compile(r"(?:/\* \[([0-9A-F]+)\]\s*\*/)?\s*(\([^)]*\)\s+)?([a-z]\w*)((?:\.\w+)*)\s*(.*)")
_JUMPS = ("jmpi", "while", "goto", "brc", "brd")
_MEETINGS = ("join", "endif", "else")
#: What fills the end of a kernel.
_PADDING = "illegal"
#: Accumulators in assembly.
_TEXTS = {"f32": ("f",), "bf16": ("bf",), "f16": ("hf",), "i32": ("d", "ud")}
#: Precisions that the disassembler calls otherwise than the specification.
_DISASSEMBLED = {"s8": "b", "u8": "ub"}


@dataclass(frozen=True)
class Instruction:
    """One instruction: its place in bytes, name (`dpas`), modifiers (`8x8`), and the rest of its line."""

    place: int
    name: str
    modifier: str
    rest: str

    @property
    def types(self) -> tuple[str, ...]:
        """The types of its operands in order: destination, then sources."""
        return tuple(re.findall(r":([a-z]+\d*)\b", self.rest.split("{")[0].split("//")[0]))

    @property
    def is_barrier(self) -> bool:
        """Whether sub-groups wait for one another here."""
        return self.name == "sync" and self.modifier == "bar"

    @property
    def registers_read(self) -> int:
        """Registers that a send fills; 0 for others."""
        match = re.search(r"rd:(\d+)", self.rest)
        count = int(match[1]) if match else 0
        # The length has five bits: messages of blocks say 31 for 32 registers, too.
        return 32 if count == 31 and "load_block2d" in self.rest else count


def has_types(instruction: Instruction, row: DpasRow) -> bool:
    """Whether the operands of a DPAS have the types of a row; signs of accumulators make no difference."""
    destination, source0, *precisions = instruction.types
    expected = [_DISASSEMBLED.get(entry.text, entry.text) for entry in (row.source1, row.source2)]
    return destination in _TEXTS[row.destination] and source0 in _TEXTS[row.source0] and precisions == expected


def parse(text: str) -> list[Instruction]:
    """Return the instructions of a kernel, without the padding behind them."""
    result = []
    for line in text.splitlines():
        match = _INSTRUCTION.match(line)
        if match is None or match[1] is None or match[3] == _PADDING:
            continue
        result.append(Instruction(int(match[1], 16), match[3], match[4][1:], match[5]))
    return result


def _targets(instruction: Instruction) -> list[int]:
    return [int(place) for place in re.findall(r"\bL(\d+)\b", instruction.rest)]


def straight_run(instructions: Sequence[Instruction], multiples: Collection[int] = (1,)) -> list[Instruction]:
    """Return the instructions without a branch or a barrier among them that have the most DPAS, a multiple of one of
    `multiples`; of several those with most of it, and nothing where there are none.  They end at the last DPAS: what
    follows stores its results.

    That is what a product whose k is short spends its time in: other loops are of paths that it does not take.
    """
    jumps = [entry for entry in instructions if entry.name in _JUMPS]
    reached = {place for entry in jumps for place in _targets(entry)}
    runs: list[list[Instruction]] = [[]]
    for entry in instructions:
        if entry.place in reached or entry.name in _MEETINGS:
            runs.append([])
        runs[-1].append(entry)
        if entry.name in _JUMPS or entry.is_barrier:
            runs.append([])
    own = [run for run in runs if any(mix(run)["dpas"] % each == 0 for each in multiples)]
    run = max(own, key=lambda run: (mix(run)["dpas"], -len(run)), default=[])
    return run[: max((place for place, entry in enumerate(run, 1) if entry.name == "dpas"), default=0)]


def main_part(instructions: Sequence[Instruction], multiples: Collection[int]) -> tuple[list[Instruction], bool]:
    """Return where most of a product's time is spent, and whether that is no loop.

    That is its inner loop, or straight code with more DPAS, a multiple of one of `multiples`: a panel that is the only
    one, and short, is multiplied without a loop.  Where sub-groups wait for one another in the inner loop, that is one
    of tiles, whose sums have none.
    """
    loop, straight = inner_loop(instructions, multiples), straight_run(instructions, multiples)
    count = mix(straight)["dpas"]
    is_longer = count > mix(loop)["dpas"] or (count > 0 and any(entry.is_barrier for entry in loop))
    return (straight, True) if is_longer else (loop, False)


def inner_loop(instructions: Sequence[Instruction], multiples: Collection[int] = ()) -> list[Instruction]:
    """Return the innermost loop with the largest share of DPAS, the longest one if the kernel has no DPAS.

    Where there are such, it is one with the most DPAS of those where these are a multiple of one of `multiples`, what
    tiles take along k: other loops are of the paths for operands that messages do not load.  All of the kernel where no
    innermost loop is where its DPAS are: a short k leaves none.
    """
    loops = inner_loops(instructions)
    own = [loop for loop in loops if (count := mix(loop)["dpas"]) and any(count % each == 0 for each in multiples)]
    most = max((mix(loop)["dpas"] for loop in own), default=0)
    loops = [loop for loop in own if mix(loop)["dpas"] == most] or loops
    loop = max(loops, key=lambda loop: (mix(loop)["dpas"] / len(loop), len(loop)), default=list(instructions))
    return loop if mix(loop)["dpas"] or not mix(instructions)["dpas"] else list(instructions)


def inner_loops(instructions: Sequence[Instruction]) -> list[list[Instruction]]:
    """Return the loops that have no other one inside."""
    spans = []
    for number, instruction in enumerate(instructions):
        if instruction.name not in _JUMPS:
            continue
        backward = [place for place in _targets(instruction) if place <= instruction.place]
        if backward:
            first = next(i for i, entry in enumerate(instructions) if entry.place >= max(backward))
            spans.append((first, number + 1))
    return [list(instructions[first:last]) for first, last in spans if not any(
        other != (first, last) and first <= other[0] and other[1] <= last for other in spans)]


def mix(instructions: Sequence[Instruction]) -> Counter[str]:
    """Return how many instructions there are of each name."""
    return Counter(instruction.name for instruction in instructions)
