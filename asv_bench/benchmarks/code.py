"""What a kernel's inner loop is made of, as machine code: free of noise.

The driver keeps its machine code to itself.  The LLVM IR that tl_dpnp emits is therefore compiled by llvmlite, for a
fixed processor, with OpenCL's built-in functions replaced by LLVM's.  It is not the code that runs, but a change of the
emitted loop shows in it, and so do values that do not fit the registers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import llvmlite.binding as llvm

__all__ = ["InnerLoop", "inner_loop"]

_PROCESSORS = {64: "skylake-avx512", 32: "haswell"}
#: OpenCL's fma for a vector or a scalar, mangled: Dv16_f is a vector of 16 floats.
_FMA = re.compile(r"@_Z3fma(?:Dv(\d+)_)?([fd])\w*")


@dataclass(frozen=True)
class InnerLoop:
    """The loop with the most multiply-adds: its instructions, and the multiply-adds among them.

    `moved` are the bytes that an iteration loads and stores, the stack left out; `spills` are the instructions that
    touch the stack.
    """

    instructions: int
    fma: int
    moved: int
    spills: int

    @property
    def fma_share(self) -> float:
        """Multiply-adds among all instructions."""
        return self.fma / self.instructions


def inner_loop(kernel: Any, vector_bytes: int) -> InnerLoop:
    """Return the inner loop of a compiled `tl_dpnp.Kernel` for a processor with vectors of `vector_bytes`."""
    (text,) = kernel.inspect_llvm().values()
    return _densest(_assembly(text, _PROCESSORS[vector_bytes]))


def _assembly(text: str, processor: str) -> list[str]:
    text = text.replace("spir_func ", "").replace("spir_kernel ", "")
    text = re.sub(r"target (triple|datalayout) = .*", "", text)
    text = _FMA.sub(lambda match: f"@llvm.fma.{_llvm_type(*match.groups())}", text)
    llvm.initialize()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    machine = llvm.Target.from_triple("x86_64-unknown-linux-gnu").create_target_machine(cpu=processor, opt=3)
    module = llvm.parse_assembly(text)
    module.triple = "x86_64-unknown-linux-gnu"
    return str(machine.emit_assembly(module)).splitlines()


def _llvm_type(lanes: str | None, kind: str) -> str:
    bits = {"f": "f32", "d": "f64"}[kind]
    return f"v{lanes}{bits}" if lanes else bits


def _densest(assembly: list[str]) -> InnerLoop:
    """Return the loop without another one in it that has the most FMAs."""
    blocks = _blocks(assembly)
    keeps_frame = any(re.match(r"movq\s+%rsp, %rbp", line) for block in blocks for line in block.lines)
    stack = re.compile(r"\(%r[sb]p" if keeps_frame else r"\(%rsp")
    bodies = _innermost_loops([block.successors for block in blocks])
    found = [_count([line for number in sorted(body) for line in blocks[number].lines], stack) for body in bodies]
    return max(found, key=lambda loop: loop.fma, default=InnerLoop(sum(len(block.lines) for block in blocks), 0, 0, 0))


class _Block(NamedTuple):
    """Instructions that run one after the other, and the numbers of the blocks that may come next."""

    lines: list[str]
    successors: list[int]


def _blocks(assembly: list[str]) -> list[_Block]:
    """Cut the text of a function into its basic blocks: they begin at labels and behind jumps."""
    labels: dict[str, int] = {}
    blocks: list[list[str]] = [[]]
    for line in (text.split("#")[0].strip() for text in assembly):
        if label := re.fullmatch(r"(\.L\w+):", line):
            blocks += [[]] if blocks[-1] else []
            labels[label[1]] = len(blocks) - 1
        elif line and line[0] != "." and not line.endswith(":"):
            blocks[-1].append(line)
            blocks += [[]] if re.match(r"j|ret", line) else []
    found = []
    for number, lines in enumerate(blocks):
        last = lines[-1] if lines else ""
        jump = re.match(r"j\w+\s+(\.L\w+)", last)
        following = [number + 1] if number + 1 < len(blocks) and not re.match(r"jmp|ret", last) else []
        found.append(_Block(lines, following + ([labels[jump[1]]] if jump else [])))
    return found


def _innermost_loops(successors: list[list[int]]) -> list[set[int]]:
    """Return the blocks of each natural loop that has no other one in it (Aho et al., "Compilers", section 9.6.6).

    Where the text of a loop begins says nothing: compilers put the block that a loop is entered at anywhere in it.
    """
    everything = set(range(len(successors)))
    predecessors = [[block for block in everything if number in successors[block]] for number in everything]
    dominators = [{0}] + [everything] * (len(successors) - 1)
    changed = True
    while changed:
        updated = [{number}.union(set.intersection(*(dominators[block] for block in predecessors[number])))
                   if number and predecessors[number] else {number} for number in everything]
        changed, dominators = updated != dominators, updated
    loops: dict[int, set[int]] = {}
    for last in everything:
        for header in dominators[last].intersection(successors[last]):
            body, left = loops.setdefault(header, {header}), [last]
            while left:
                block = left.pop()
                left += predecessors[block] if block not in body else []
                body.add(block)
    return [body for header, body in loops.items() if not (body - {header}).intersection(loops)]


def _count(body: list[str], stack: re.Pattern[str]) -> InnerLoop:
    spills = [line for line in body if stack.search(line)]
    return InnerLoop(
        instructions=len(body),
        fma=sum(line.startswith(("vfmadd", "vfnmadd")) for line in body),
        moved=sum(_bytes_moved(line) for line in body if line not in spills),
        spills=len(spills),
    )


def _bytes_moved(instruction: str) -> int:
    """Return the bytes of an instruction's memory operand: a broadcast loads one element, others a whole register."""
    mnemonic, _, operands = instruction.partition("\t")
    if "(" not in operands or mnemonic.startswith(("lea", "prefetch")):
        return 0
    if "{1to" in operands or "broadcast" in mnemonic or mnemonic.endswith(("ss", "sd")):
        wide = re.search(r"broadcast[if](\d+)x(\d+)", mnemonic)
        return int(wide[1]) * int(wide[2]) // 8 if wide else 8 if mnemonic.endswith(("pd", "sd", "q")) else 4
    register = re.search(r"%([xyz])mm", operands)
    return {"x": 16, "y": 32, "z": 64}[register[1]] if register else 8
