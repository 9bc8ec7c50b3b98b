"""A launch: what the driver puts into registers and memory, and the threads of each work-group, which take turns.

Sources: "ZEBIN: ZE Binary Format" for the payload, whose layout the binary describes, and the PRM's chapter on thread
payloads for the first register.
"""

from __future__ import annotations

import ctypes
import itertools
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tests.xe_machine.errors import MachineError
from tests.xe_machine.memory import Arena, LocalMemory
from tests.xe_machine.parser import parse
from tests.xe_machine.registers import Registers
from tests.xe_machine.thread import Code, Thread

__all__ = ["Binary", "global_memory", "run"]

#: Where arrays are: the lower 32 bits of addresses overflow among them.
_ARRAYS = 0x7A55_FFFF_C000
#: Where the payload is, as an offset of 32 bits.
_PAYLOAD = 0x0004_0000
_ROUNDED = 32


@dataclass(frozen=True)
class Binary:
    """A kernel as the machine takes it: its assembly, bytes of a register, and facts of its binary.

    `sizes` are those of a work-group, the first mode the fastest one.
    `arguments` are the kind, the offset, the size and the index of each piece of the payload, of which the first
    `inline` bytes come in a register.  `scratch` is the memory of each thread for registers that did not fit.
    A thread that executes more than `most_steps` instructions is given up.
    `executed` has the places of the instructions that the last run came to.
    """

    assembly: str
    registers: int
    width: int
    lanes: int
    local_memory: int
    inline: int
    sizes: tuple[int, int, int]
    arguments: tuple[tuple[str, int, int, int], ...]
    scratch: int = 0
    most_steps: int = 2_000_000
    executed: set[int] = field(default_factory=set, compare=False)

    @classmethod
    def of(cls, assembly: str, information: str, name: str, width: int) -> Binary:
        """Read the facts of a kernel from the text that its binary has."""
        blocks = re.split(r"(?m)^  - name: +", information.split("kernels_misc_info:")[0])[1:]
        (kernel,) = [block for block in blocks if block.split()[0].strip("'") == name]

        def fact(key: str) -> int:
            found = re.search(rf"(?m)^ +{key}: +(\d+)$", kernel)
            return int(found[1]) if found else 0

        sizes = re.search(r"(?m)^ +required_work_group_size: \[ (\d+), (\d+), (\d+) \]$", kernel)
        if sizes is None:
            raise MachineError("kernels for work-groups of any size are not known")
        x, y, z = (int(size) for size in sizes.groups())
        return cls(assembly, fact("grf_count"), width, fact("simd_size"), fact("slm_size"),
                   fact("inline_data_payload_size"), (x, y, z), _payload(kernel), _scratch(kernel))


def _scratch(info: str) -> int:
    """Return the bytes of scratch memory; raises `MachineError` for other memory of a thread."""
    buffers = info.partition("per_thread_memory_buffers:")[2]
    kinds = re.findall(r"type: +(\w+)\s+usage: +(\w+)\s+size: +(\d+)", buffers)
    if any(kind[:2] != ("scratch", "single_space") for kind in kinds) or buffers.count("type:") != len(kinds):
        raise MachineError("a kernel with private memory is not known")
    return sum(int(size) for *_, size in kinds)


def _payload(info: str) -> tuple[tuple[str, int, int, int], ...]:
    if "binding_table_indices" in info:
        raise MachineError("kernels with surfaces are not known")
    section = info.split("payload_arguments:", 1)[1].split("per_thread_payload_arguments:")[0]
    found = []
    for block in re.split(r"(?m)^ +- arg_type: +", section)[1:]:
        fields = re.findall(r"(?m)^ +(offset|size|arg_index|source_offset): +(\d+)", block)
        numbers = {name: int(value) for name, value in fields}
        found.append((block.split()[0], numbers["offset"], numbers["size"], numbers.get("arg_index", -1)))
        if "source_offset" in numbers:
            raise MachineError("an argument in pieces is not known")
    (thread,) = re.split(r"(?m)^ +- arg_type: +", info.split("per_thread_payload_arguments:")[1])[1:]
    if thread.split()[0] != "local_id":
        raise MachineError(f"threads that take {thread.split()[0]} are not known")
    return tuple(found)


def global_memory() -> Arena:
    """Return the memory that arrays are in."""
    return Arena(_ARRAYS, "memory")


def _cross_thread(
    binary: Binary, values: Sequence[float | int], group: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return what all threads take, and which bytes have a value: arguments and the sizes of a work-group.

    Integers have 64 bits, floats 32 or 64.
    """
    end = max(offset + size for _, offset, size, _ in binary.arguments)
    data = np.zeros(-(-end // _ROUNDED) * _ROUNDED, np.uint8)
    valid = np.ones(len(data), bool)
    for kind, offset, size, index in binary.arguments:
        match kind:
            case "arg_byvalue":
                value = values[index]
                whole = isinstance(value, int)
                carrier = ctypes.c_longlong if whole else ctypes.c_float if size == 4 else ctypes.c_double
                if whole and size != 8:
                    raise MachineError(f"an integer argument of {size} bytes is not known")
                raw = bytes(carrier(value))
            case "local_size" | "enqueued_local_size":
                raw = np.array(group, np.uint32).tobytes()
            case "global_id_offset":
                raw = bytes(12)
            case "private_base_stateless":  # of kernels that have no private memory in the end
                raw = bytes(8)
                valid[offset : offset + size] = False
            case _:
                raise MachineError(f"a payload with {kind} is not known")
        data[offset : offset + size] = np.frombuffer(raw[:size], np.uint8)
    return data, valid


def run(
    binary: Binary, values: Sequence[float | int], memory: Arena, groups: tuple[int, int, int], seed: int = 0,
) -> int:
    """Run a kernel on arguments and memory; returns how many instructions were executed.

    `groups` counts work-groups along each mode, the first the fastest one.  They run one after the other; between
    barriers so do the threads of each, in an order that `seed` draws anew each time.
    """
    items = int(np.prod(binary.sizes))
    if items % binary.lanes:
        raise MachineError(f"a work-group of {items} is no multiple of {binary.lanes} lanes")
    code = Code(parse(binary.assembly), Registers(binary.registers, binary.width))
    order = random.Random(seed)
    binary.executed.clear()
    shared = _cross_thread(binary, values, binary.sizes)
    steps = sum(
        _work_group(binary, code, shared, memory, (x, y, z), order)
        for z, y, x in itertools.product(*map(range, reversed(groups)))
    )
    binary.executed.update(code.prepared[number].instruction.place for number in code.executed)
    return steps


def _work_group(
    binary: Binary, code: Code, shared: tuple[np.ndarray, np.ndarray], memory: Arena, group: tuple[int, int, int],
    order: random.Random,
) -> int:
    count = int(np.prod(binary.sizes)) // binary.lanes
    payload, address = _payload_memory(binary, shared)
    local = LocalMemory(binary.local_memory, count)
    spaces = {"global": memory, "payload": payload}
    threads = [
        Thread(code, _first_registers(binary, shared, address, group, number, count), binary.lanes, spaces, local,
               number, binary.most_steps, binary.scratch)
        for number in range(count)
    ]
    try:
        _take_turns(threads, order)
    except MachineError as error:
        raise MachineError(f"work-group {group}: {error}") from None
    return sum(thread.steps for thread in threads)


def _payload_memory(binary: Binary, shared: tuple[np.ndarray, np.ndarray]) -> tuple[Arena, int]:
    """Return the memory with what threads take, and where it begins: first the common part, then each thread's ids.

    Threads load whole registers: what is behind their part is there, and has no value.
    """
    sizes = binary.sizes
    items = np.arange(int(np.prod(sizes)))
    ids = np.stack([items % sizes[0], items // sizes[0] % sizes[1], items // (sizes[0] * sizes[1])])
    count, part = len(items) // binary.lanes, 2 * binary.lanes
    own = np.zeros((count, 3, -(-part // binary.width) * binary.width), np.uint8)
    raw = ids.reshape(3, count, binary.lanes).transpose(1, 0, 2).astype(np.uint16)
    own[:, :, :part] = np.ascontiguousarray(raw).view(np.uint8).reshape(count, 3, -1)
    values, valid = (each[binary.inline :] for each in shared)
    behind = 4 * binary.width
    payload = Arena(_PAYLOAD, "the payload")
    address = payload.place("the payload", np.concatenate([values, own.reshape(-1), np.zeros(behind, np.uint8)]),
                            writable=False)
    known = np.concatenate([valid, np.ones(own.size, bool), np.zeros(behind, bool)])
    payload.valid[address - payload.base :][: len(known)] = known
    return payload, address


def _first_registers(
    binary: Binary, shared: tuple[np.ndarray, np.ndarray], address: int, group: Sequence[int], number: int, count: int
) -> Registers:
    """Return the registers that a thread begins with."""
    registers = Registers(binary.registers, binary.width)
    header = np.zeros(8, np.uint32)
    header[[0, 1, 6, 7]] = address, *group
    header[2] = number | count << 24
    registers.set(0, header)
    if binary.inline:
        registers.set(1, shared[0][: binary.inline])
        registers.valid[registers.start_of("r", 1) :][: binary.inline] = shared[1][: binary.inline]
    return registers


def _take_turns(threads: list[Thread], order: random.Random) -> None:
    """Run threads until all have ended; one that waits goes on when all that have not ended have signalled."""
    running = [(thread, thread.run()) for thread in threads]
    while running:
        order.shuffle(running)
        left, moved = [], False
        for thread, steps in running:
            if thread.waits > min(each.signals for each in threads):
                left.append((thread, steps))
                continue
            moved = True
            if next(steps, steps) is not steps:
                left.append((thread, steps))
        if not moved:
            waiting = sorted(thread.number for thread, _ in running)
            raise MachineError(f"the sub-groups {waiting} wait at a barrier that others do not reach")
        running = left
