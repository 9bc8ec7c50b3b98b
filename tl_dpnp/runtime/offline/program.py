"""A kernel compiled for a device that is not there: its machine code, what it takes, and what its inner loop does."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from tl_dpnp.errors import LoweringError, TLTypeError, UnsupportedError
from tl_dpnp.kernels.dpas.functions import assembly_of, function_of, operand_types
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.kernels.dpas.rows import DpasRow
from tl_dpnp.lowering.dpas_fragments import products_in
from tl_dpnp.lowering.instructions import whole_instruction
from tl_dpnp.lowering.nest import loops_of
from tl_dpnp.lowering.pipeline import LoweredKernel
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.offline.assembly import Instruction, has_types, main_part, mix, parse, straight_run
from tl_dpnp.runtime.offline.binary import KernelFacts, read_binary
from tl_dpnp.runtime.offline.targets import OfflineTarget, target_named
from tl_dpnp.runtime.offline.tools import compile_binary, disassemble, version
from tl_dpnp.runtime.store.cache import DiskCache, Entry, key_of
from tl_dpnp.runtime.sycl.compilation import build, require_offline

__all__ = ["DeviceProgram", "Resources", "compile_offline", "compile_without_scratch"]

#: How often tiles are halved at most: from 4 x 4 blocks to one.
_MOST_HALVED = 4
#: The sizes of a thread's register file.
_REGISTERS = (128, 256)


@dataclass(frozen=True)
class Resources:
    """What a kernel takes on a device, in registers and bytes for each thread, local memory for each work-group.

    `instructions` counts all of the kernel; `loop` those of its inner loop, by name; `dpas_clocks` are the clocks that
    the loop's DPAS keep a matrix engine busy and `loaded` the bytes of the registers that an iteration loads.
    `engines` and `cache_bytes` are those of a core (`OfflineTarget`).  Where k is one step of the matrix engine, or a
    panel of few, there is no loop: it `is_straight`, and `loop` counts the instructions around its DPAS from the branch
    or the barrier before up to the last one.
    """

    registers: int
    lanes: int
    scratch: int
    spilled: int
    local_memory: int
    instructions: int
    loop: Counter[str]
    dpas_clocks: int
    loaded: int
    engines: int = 1
    cache_bytes: int | None = None
    is_straight: bool = False

    @property
    def dpas_share(self) -> float:
        """Share of DPAS among the instructions of the inner loop, synchronisation included."""
        return self.loop["dpas"] / max(1, sum(self.loop.values()))

    @property
    def busy_share(self) -> float:
        """Clocks of the matrix engine among those of the inner loop, issued one after the other, one clock for each
        other instruction.  Other threads can issue meanwhile, and waiting for memory is left out."""
        return self.dpas_clocks / max(1, self.dpas_clocks + sum(self.loop.values()) - self.loop["dpas"])

    def __str__(self) -> str:
        loop = ", ".join(f"{count} {name}" for name, count in self.loop.most_common())
        where = "k is short, without a loop: straight code" if self.is_straight else "inner loop"
        lines = [
            f"{self.registers} registers of {self.lanes} lanes, {self.spilled} bytes spilled, {self.scratch} bytes of "
            f"scratch, {self.local_memory} bytes of local memory",
            f"{self.instructions} instructions; {where} of {sum(self.loop.values())}: {loop}",
        ]
        if self.dpas_clocks:
            lines.append(
                f"dpas: {self.dpas_share:.0%} of the loop by count, {self.busy_share:.0%} of its clocks if issued "
                f"serially; {self.loaded / self.dpas_clocks:.0f} bytes loaded for each clock of the matrix engine"
            )
            lines.append(self.expectation)
        if self.scratch:
            lines.append(f"{self.registers} registers are too few for the kernel: what does not fit is kept in memory; "
                         f"{'registers=256 or a smaller tile' if self.registers < 256 else 'a smaller tile'} may do")
        return "\n".join(lines)

    @property
    def expectation(self) -> str:
        """What bounds the inner loop, from its instructions and published peaks, as text."""
        needed = self.loaded / max(1, self.dpas_clocks) * self.engines
        share, bound = self.busy_share, "instructions that are issued"
        cache = ""
        if self.cache_bytes is not None:
            given = f"{self.cache_bytes} bytes a clock of its first cache"
            cache = f"; the engines of a core load {needed:.0f} of the {given}"
            if self.cache_bytes < needed * share:
                share, bound = self.cache_bytes / needed, "the first cache"
        return (f"expected: at most {share:.0%} of the matrix engine's peak with one thread, bound by {bound}{cache}; "
                "left out: waiting for memory, the larger caches, barriers, and what other threads issue meanwhile")


class _Written(NamedTuple):
    """How often a form of DPAS is in what the device's compiler is given: as inline assembly, and as calls."""

    as_text: int
    calls: int


@dataclass(frozen=True)
class DeviceProgram:
    """A kernel for one device: the binary that the device's driver loads, its assembly and its resources.

    `schedule` and `remarks` are those of the kernel that was compiled, which has smaller tiles than by default where
    those took scratch memory: `halved` so many times.
    """

    target: OfflineTarget
    binary: bytes
    assembly: str
    resources: Resources
    schedule: str
    remarks: tuple[str, ...]
    halved: int = 0


def compile_without_scratch(
    lower: Callable[[int], LoweredKernel], device: str, *, registers: int | None = None,
    cache: DiskCache | None = None, key: str = "",
) -> DeviceProgram:
    """Compile a kernel; one that takes scratch memory, again with smaller tiles, and return the one that takes least.

    `lower` returns the kernel with the default tiles of the matrix engine halved so many times.  The others are as for
    `compile_offline`; where `registers` are given, tiles stay as they are.
    """
    lowered = lower(0)
    best = compile_offline(lowered, device, registers=registers, cache=cache, key=key)
    first = best.resources.scratch
    for halved in range(1, _MOST_HALVED + 1 if registers is None else 1):
        used = (whole_instruction(entry.nest, MicroKernel) for entry in lowered.schedules)
        if not best.resources.scratch or not any(used):
            break
        before, lowered = lowered.schedule, lower(halved)
        if lowered.schedule == before:
            break
        program = compile_offline(lowered, device, registers=registers, cache=cache, key=f"{key} {halved}")
        if program.resources.scratch < best.resources.scratch:
            why = f"tiles were halved {halved} times: larger ones took {first} bytes of scratch memory"
            best = replace(program, remarks=(*program.remarks, why), halved=halved)
    return best


def compile_offline(
    lowered: LoweredKernel, device: str, *, registers: int | None = None, cache: DiskCache | None = None, key: str = ""
) -> DeviceProgram:
    """Compile a lowered kernel for a device of `TARGETS` and check what became of it.

    `registers` is 128 or 256, by default what its micro-kernels are made for.  Raises UnsupportedError for an unknown
    device, where a tool or numba-dpex is missing and where the kernel was lowered for another kind of device;
    TLTypeError for other registers; LoweringError where the compiler fails, drops a DPAS or leaves a call.  `key` is
    that of the kernel in `cache`: binaries are kept there.
    """
    if registers not in (None, *_REGISTERS):
        raise TLTypeError(f"registers= takes {' or '.join(map(str, _REGISTERS))}, not {registers!r}")
    target = target_named(device)
    lanes = lowered.plan.subgroup_size
    if lowered.plan.frame.is_alone or lanes not in target.description.subgroup_sizes:
        raise UnsupportedError(
            f"the kernel was lowered to the {lowered.plan.form} form with sub-groups of {lanes}; {device} needs the "
            f"sub-group form with {' or '.join(map(str, target.description.subgroup_sizes))}: lower it for {device}"
        )
    require_offline(device)
    size = registers or lowered.plan.registers or _REGISTERS[0]
    binary, written = _compiled(lowered, target, size, cache, key)
    parts = read_binary(binary)
    if parts.undefined:
        raise LoweringError(f"compiling for {device}: nothing defines {', '.join(parts.undefined)}")
    entry = lowered.plan.entry
    text = disassemble({entry: parts.code[entry]}, target.platform)[entry]
    instructions = parse(text)
    faults = list(_faults(instructions, parts.facts[entry], written, lanes))
    if faults:
        raise LoweringError(f"compiling for {device} made something else of the kernel: {'; '.join(faults)}")
    is_straight = not products_in(lowered.passes.canonical) and _is_straight(lowered)
    resources = _resources(instructions, parts.facts[entry], target, is_straight, _of_tiles(lowered))
    return DeviceProgram(target, binary, text, resources, lowered.schedule, lowered.remarks)


def _compiled(
    lowered: LoweredKernel, target: OfflineTarget, registers: int, cache: DiskCache | None, key: str
) -> tuple[bytes, dict[DpasRow, _Written]]:
    """Return the binary of a kernel, and which DPAS the compiler was given: of each form that micro-kernels have."""
    rows = {kernel.row.name: kernel.row for schedule in lowered.schedules
            if (kernel := whole_instruction(schedule.nest, MicroKernel))}
    own = key_of({"kernel": key, "target": target.name, "registers": registers, "compiler": version("ocloc")})
    found = None if cache is None else cache.load(own)
    if found is not None:
        return found.content, {rows[name]: _Written(*counts) for name, counts in found.facts["dpas"].items()}
    code = build(lowered)
    binary = compile_binary(code.binary, target.name, registers=registers)
    written = {row: _written(code.llvm, row) for row in rows.values()}
    if cache is not None:
        facts = {"device": target.name, "dpas": {row.name: list(counts) for row, counts in written.items()}}
        cache.store(own, Entry(facts, binary))
    return binary, written


def _written(llvm: str, row: DpasRow) -> _Written:
    """Return how often a form of DPAS is in the LLVM IR of a kernel."""
    # Inline assembly changes a sum, its first argument, or returns one: forms with other sums have the same text.
    total, text = str(operand_types(row)[3]), f"{assembly_of(row)} "
    as_text = sum(text in line and (f'"({total} ' in line or f" {total} asm " in line) for line in llvm.splitlines())
    name = None if row.unreachable else function_of(row).name
    calls = 0 if name is None else len(re.findall(rf"\bcall\b[^\n]* @{re.escape(name)}\(", llvm))
    return _Written(as_text, calls)


def _faults(
    instructions: Sequence[Instruction], facts: KernelFacts, rows: Mapping[DpasRow, _Written], lanes: int
) -> Iterator[str]:
    """Say what the compiler made otherwise: it drops calls that it does not know, or leaves them, and says nothing.

    Where messages load blocks, DPAS are text, which stays; where these cannot be loaded, functions are called.  Each is
    one instruction (Graphics Compiler 1.0.12504): nothing is left of LLVM IR, which is optimised, that is not needed.
    """
    found = [entry for entry in instructions if entry.name == "dpas"]
    for row, written in rows.items():
        fitting = sum(entry.modifier == f"8x{row.repeat}" and has_types(entry, row) for entry in found)
        meant = max(1, sum(written))
        if fitting < meant:
            yield f"it has {fitting or 'no'} dpas of {row} instead of {meant}"
    if rows and not all(any(has_types(entry, row) for row in rows) for entry in found):
        yield "it has a dpas of other types"
    if any(entry.name.startswith("call") for entry in instructions):
        yield "it has a call"
    if facts.lanes != lanes:
        yield f"it has {facts.lanes} lanes instead of {lanes}"


def _is_straight(lowered: LoweredKernel) -> bool:
    """Whether k is one step of each product on the matrix engine, so that none of them has a loop."""
    sums: list[tuple[int, range | None]] = []
    for schedule in lowered.schedules:
        kernel = whole_instruction(schedule.nest, MicroKernel)
        if kernel is not None:
            loops = [loop for loop in loops_of(schedule.nest.body) if loop.reduction]
            depth = kernel.row.k if kernel.packed or kernel.packs else kernel.depth
            sums += [(depth, loop.static_range) for loop in loops]
    return bool(sums) and all(steps is not None and len(steps) <= depth for depth, steps in sums)


def _of_tiles(lowered: LoweredKernel) -> set[int]:
    """Return how many DPAS the tiles of products take for one step along k."""
    found = (whole_instruction(schedule.nest, MicroKernel) for schedule in lowered.schedules)
    return {kernel.lane_blocks * kernel.column_blocks * sum(map(len, kernel.products))
            for kernel in found if kernel is not None}


def _resources(
    instructions: Sequence[Instruction], facts: KernelFacts, target: OfflineTarget, is_straight: bool,
    of_tiles: Collection[int],
) -> Resources:
    loop, is_straight = (straight_run(instructions), True) if is_straight else main_part(instructions, of_tiles)
    return Resources(
        facts.registers, facts.lanes, facts.scratch, facts.spilled, facts.local_memory, len(instructions), mix(loop),
        sum(int(entry.modifier.split("x")[1]) * target.row_clocks for entry in loop if entry.name == "dpas"),
        sum(entry.registers_read * target.register_bytes for entry in loop), target.engines, target.cache_bytes,
        is_straight,
    )
