"""Reading the binaries of Intel's compiler: an ELF file with a section for each kernel and one of facts about them.

Source: "ZEBIN: ZE Binary Format" in the documentation of the Intel Graphics Compiler; ELF-64 object file format.
"""

from __future__ import annotations

import re
import struct

from tl_dpnp.records import dataclass

__all__ = ["DeviceBinary", "KernelFacts", "read_binary"]

_TEXT = ".text."
#: Code that the compiler adds to some modules and that is no kernel.
_OWN = "Intel_Symbol_Table_Void_Program"


@dataclass(frozen=True)
class KernelFacts:
    """What the compiler says about a kernel: registers and lanes of a thread, and memory in bytes.

    `scratch` is private memory of a thread, `spilled` the part of it for registers that did not fit.
    """

    registers: int
    lanes: int
    local_memory: int
    scratch: int
    spilled: int


@dataclass(frozen=True)
class DeviceBinary:
    """The kernels of a binary: their machine code and facts, and the symbols that nothing defines.

    `information` is the text that the facts are read from, YAML with all that a driver has to know.
    """

    code: dict[str, bytes]
    facts: dict[str, KernelFacts]
    undefined: tuple[str, ...]
    information: str


def read_binary(data: bytes) -> DeviceBinary:
    """Read a binary as `compile_binary` returns it."""
    sections = _sections(data)
    code = {
        name[len(_TEXT):]: content for name, (content, _) in sections.items()
        if name.startswith(_TEXT) and name[len(_TEXT):] != _OWN
    }
    information = sections[".ze_info"][0].decode(errors="replace")
    facts = _facts(information)
    return DeviceBinary(code, {name: facts[name] for name in code if name in facts}, _undefined(sections), information)


def _sections(data: bytes) -> dict[str, tuple[bytes, int]]:
    """Return the content of each section and the size of its entries."""
    (offset,) = struct.unpack_from("<Q", data, 0x28)
    entry_size, count, names_at = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * entry_size) for i in range(count)]
    names = data[headers[names_at][4]:][: headers[names_at][5]]
    return {
        _name(names, header[0]): (data[header[4]:][: header[5]], header[9]) for header in headers
    }


def _name(table: bytes, start: int) -> str:
    return table[start : table.index(b"\0", start)].decode()


def _undefined(sections: dict[str, tuple[bytes, int]]) -> tuple[str, ...]:
    if ".symtab" not in sections:
        return ()
    symbols, size = sections[".symtab"]
    found = []
    for place in range(0, len(symbols), size):
        name, _, _, section = struct.unpack_from("<IBBH", symbols, place)
        if section == 0 and name:
            found.append(_name(sections[".strtab"][0], name))
    return tuple(found)


def _facts(text: str) -> dict[str, KernelFacts]:
    """Read the facts, which are YAML of one shape: a list of kernels, each a block of indented keys."""
    result = {}
    kernels = re.split(r"(?m)^(?=\w)", text.split("\nkernels:\n", 1)[1])[0]
    for block in re.split(r"(?m)^  - name: +", kernels)[1:]:
        def number(key: str, block: str = block) -> int:
            match = re.search(rf"(?m)^ +{key}: +(\d+)", block)
            return int(match[1]) if match else 0

        buffers = re.findall(r"type: +scratch\s+usage: +(\w+)\s+size: +(\d+)", block)
        result[block.split("\n", 1)[0].strip().strip("'\"")] = KernelFacts(
            registers=number("grf_count"),
            lanes=number("simd_size"),
            local_memory=number("slm_size"),
            scratch=sum(int(size) for _, size in buffers) or number("spill_size"),
            spilled=number("spill_size") or sum(int(size) for usage, size in buffers if usage == "spill_fill_space"),
        )
    return result
