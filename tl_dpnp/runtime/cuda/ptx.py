"""From PTX to the machine code of a CUDA device with nvJitLink, which needs no GPU.

Source: nvJitLink documentation, section "Supported Link Options".
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from dataclasses import asdict

from cuda.bindings import nvjitlink

from tl_dpnp.errors import LoweringError, UnsupportedError
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.compiler import CompiledKernel
from tl_dpnp.runtime.store.cache import DiskCache, Entry, key_of
from tl_dpnp.runtime.watching import span, timed
from tl_dpnp.target.device import Device

__all__ = ["Linked", "Resources", "disassemble", "link", "linked"]


@dataclass(frozen=True)
class Resources:
    """What a kernel takes: 32-bit registers and bytes of stack for each work-item, bytes of local memory (CUDA's shared
    memory) for each work-group.  Spilled registers count as stack."""

    registers: int
    stack: int
    local_memory: int


@dataclass(frozen=True)
class Linked:
    """Machine code, CUDA's cubin, and what it takes."""

    cubin: bytes
    resources: Resources


def linked(compiled: CompiledKernel, device: Device, cache: DiskCache | None) -> tuple[Linked, bool]:
    """Return the machine code of a compiled kernel, from the cache if it is there, and whether it had to be made."""
    if cache is None:
        return link(compiled, device), True
    key = key_of({
        "machine code of": hashlib.sha256(compiled.binary).hexdigest(), "architecture": device.architecture,
        "nvJitLink": list(nvjitlink.version()), "local memory": compiled.plan.local_memory,
    })
    found = cache.load(key)
    if found is not None:
        return Linked(found.content, Resources(**found.facts["resources"])), False
    result = link(compiled, device)
    cache.store(key, Entry({"resources": asdict(result.resources)}, result.cubin))
    return result, True


def link(compiled: CompiledKernel, device: Device) -> Linked:
    """Make the machine code of a compiled kernel; raises `LoweringError` where nvJitLink refuses the PTX."""
    with span("compile", "nvJitLink", timed):
        return _link(compiled, device)


def _link(compiled: CompiledKernel, device: Device) -> Linked:
    options = [f"-arch={device.architecture}", "-O3", "-verbose"]
    handle = nvjitlink.create(len(options), options)
    try:
        ptx = compiled.binary
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, ptx, len(ptx), compiled.plan.entry)
        nvjitlink.complete(handle)
        cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, cubin)
        log = _log(nvjitlink.get_info_log_size, nvjitlink.get_info_log, handle)
    except nvjitlink.nvJitLinkError as error:
        log = _log(nvjitlink.get_error_log_size, nvjitlink.get_error_log, handle)
        raise LoweringError(f"nvJitLink refuses the PTX of {compiled.plan.entry}: {error}\n{log}") from None
    finally:
        nvjitlink.destroy(handle)
    return Linked(bytes(cubin), _resources(log, compiled.plan.local_memory))


def _log(size: object, get: object, handle: int) -> str:
    buffer = bytearray(size(handle))  # type: ignore[operator]
    if buffer:
        get(handle, buffer)  # type: ignore[operator]
    return buffer.decode(errors="replace").strip("\0")


def _resources(log: str, local_memory: int) -> Resources:
    def number(pattern: str) -> int:
        found = re.search(pattern, log)
        if found is None:
            raise LoweringError(f"nvJitLink's report has nothing that fits {pattern!r}: {log}")
        return int(found[1])

    # nvJitLink 13.0 writes "used 40 registers, 0 stack", later ones "0 bytes stack frame" and "Used 40 registers".
    return Resources(number(r"[Uu]sed (\d+) registers"), number(r"(\d+) (?:bytes )?stack"), local_memory)


def disassemble(code: Linked) -> str:
    """Return machine code as text; raises `UnsupportedError` where there is no disassembler."""
    tool = shutil.which("nvdisasm")
    if tool is None:
        raise UnsupportedError(
            "nvdisasm, which prints machine code, is not on the PATH: it is part of the CUDA toolkit (packages "
            "cuda-nvdisasm for conda and Debian, nvidia-cuda-nvdisasm for pip)"
        )
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code.cubin)
        file.flush()
        run = subprocess.run([tool, "-c", file.name], capture_output=True, check=False)
    if run.returncode:
        raise UnsupportedError(f"nvdisasm refuses the code: {run.stderr.decode(errors='replace').strip()}")
    return run.stdout.decode()
