"""What a kernel's inner loop is made of, as machine code: free of noise.

The driver keeps its machine code to itself.  The LLVM IR that tl_dpnp emits is therefore compiled by llvmlite, for a
fixed processor, with OpenCL's built-in functions replaced by LLVM's.  It is not the code that runs, but a change of the
emitted loop shows in it, and so do values that do not fit the registers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

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
    """Return the loop, from a label to a jump back to it without another such jump between, with the most FMAs."""
    lines = [line.split("#")[0].strip() for line in assembly]
    labels: dict[str, int] = {}
    found = [InnerLoop(len(lines), 0, 0, 0)]
    innermost = 0
    for position, line in enumerate(lines):
        if re.fullmatch(r"\.L\w+:", line):
            labels[line[:-1]] = position
        jump = re.match(r"j\w+\s+(\.L\w+)", line)
        if jump and labels.get(jump[1], -1) >= innermost:
            body = [text for text in lines[labels[jump[1]]:position + 1] if text and text[0] not in ".#"]
            found.append(_count(body))
            innermost = position
    return max(found, key=lambda loop: loop.fma)


def _count(body: list[str]) -> InnerLoop:
    stack = [line for line in body if re.search(r"\(%r[sb]p", line)]
    return InnerLoop(
        instructions=len(body),
        fma=sum(line.startswith(("vfmadd", "vfnmadd")) for line in body),
        moved=sum(_bytes_moved(line) for line in body if line not in stack),
        spills=len(stack),
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
