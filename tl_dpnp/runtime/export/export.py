"""Writes the files of an exported kernel: description and code in C, SPIR-V or PTX, and the same as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from tl_dpnp.errors import UnsupportedError
from tl_dpnp.lowering.mappings.frames import FRAMES
from tl_dpnp.lowering.variants import FewGroups, Variant
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.call.program import Program
from tl_dpnp.runtime.compiler import CompiledKernel, compile_program
from tl_dpnp.runtime.export.members import Member, members_of
from tl_dpnp.runtime.overloads import Overloads
from tl_dpnp.runtime.store.fingerprint import package_versions
from tl_dpnp.target.device import Device

__all__ = ["export"]

#: Instructions of tiles have this in their name; a process needs a permission for them.
_TILES = b"tileload"
_BYTES_OF_A_LINE = 24
#: Names that files of a kernel cannot have: those of headers of C23, and of others that these include in glibc, which
#: compilers would find in their place, and of what all kernels share.
_TAKEN = frozenset("""
    assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic
    stdbit stdbool stdckdint stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype
    alloca endian features memory pthread sched strings
    tl tl_kernel tl_opencl tl_cuda
""".split())


@dataclass(frozen=True)
class _Exported:
    """A kernel of a program, and whether it is for calls of few work-groups only."""

    compiled: CompiledKernel
    for_few: bool

    @property
    def form(self) -> str:
        return self.compiled.plan.form


def _for_opencl(compiled: CompiledKernel, device: Device) -> tuple[str, bool]:
    from tl_dpnp.runtime.sycl.machine_code import build_options, exchanges_values

    return build_options(compiled.plan, replace(device, backend="opencl")), exchanges_values(compiled)


def _for_cuda(compiled: CompiledKernel, device: Device) -> tuple[str, bool]:
    return "", False  # PTX says itself what to make of it, and lanes are always those of a warp


@dataclass(frozen=True)
class _Launcher:
    """What goes with the kernels of a family of devices: files that are the same for all, how the code is written.

    `end` is what stands behind the code in C.  `building` gives what to ask of the driver's compiler, and whether it
    has to be looked at if it made sub-groups.
    """

    files: tuple[str, ...]
    ending: str
    end: bytes
    building: Callable[[CompiledKernel, Device], tuple[str, bool]]


_LAUNCHERS = {
    "sycl": _Launcher(("tl_kernel.h", "tl_opencl.h", "tl_opencl.c"), "spv", b"", _for_opencl),
    "cuda": _Launcher(("tl_kernel.h", "tl_cuda.h", "tl_cuda.c"), "ptx", b"\0", _for_cuda),
}


def export(overloads: Overloads, device: Device, folder: Path) -> list[Path]:
    """Compile the kernels of a program for a device, write their files into a folder and return the paths.

    Raises `UnsupportedError` for programs without parameters, those with checks, kernels that use AMX, and where the
    folder has a function whose files are called alike; what compiling raises; and `OSError` where a file cannot be
    written.
    """
    _require_exportable(overloads)
    program = overloads.program
    name = program.function.name
    _require_own_files(name, folder)
    exported = [*_compiled(overloads, device)]
    members = members_of(program.function.parameters, program.usage, exported[0].compiled.plan.measured)
    launcher = _LAUNCHERS[device.family]
    symbol = _symbol(name)
    contents: dict[str, str | bytes] = {file: (files(__package__) / file).read_text() for file in launcher.files}
    contents[f"{symbol}.h"] = _header(symbol, members, device)
    contents[f"{symbol}.c"] = _source(symbol, program, members, exported, device)
    contents[f"{symbol}.json"] = json.dumps(_description(program, members, exported, device), indent=2) + "\n"
    contents |= {f"{symbol}_{each.form}.{launcher.ending}": each.compiled.binary for each in exported}
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in contents.items():
        (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    return [folder / file for file in contents]


def _symbol(name: str) -> str:
    """Return what a function is called in C, and its files."""
    return f"kernel_{name}" if name[0].isdigit() or name in _TAKEN else name


def _require_own_files(name: str, folder: Path) -> None:
    """Raise `UnsupportedError` where the files of a function are those of another one: of @1 and @kernel_1, say."""
    try:
        there = json.loads((folder / f"{_symbol(name)}.json").read_text())["function"]
    except (OSError, ValueError, KeyError, TypeError):
        return  # no such file, or none of an export
    if there != name:
        raise UnsupportedError(f"export: @{name} and @{there}, which is in {folder} already, are both called "
                               f"{_symbol(name)} in C: rename one, or export it into another folder")


def _require_exportable(overloads: Overloads) -> None:
    """Raise `UnsupportedError` for what no launcher can call, before anything is compiled."""
    name, form = overloads.program.function.name, overloads.options.form
    if overloads.options.debug:
        raise UnsupportedError(f"export: @{name} was compiled with debug=True, whose checks need a call from Python: "
                               "compile it without")
    if not overloads.program.function.parameters:
        raise UnsupportedError(f"export: @{name} has no parameters, and so no results")
    if form is not None and not FRAMES[form].takes_every_call:
        raise UnsupportedError(f'export: form="{form}" has arguments of its own, which no launcher knows: leave it '
                               "away")


def _compiled(overloads: Overloads, device: Device) -> Iterator[_Exported]:
    """Compile the variants that calls on a device may take; nothing is kept but in the disk cache.

    On CUDA devices that is the one for any call: the others have arguments of their own (`tl_dpnp.lowering.plan`).
    """
    for variant in overloads.variants(device):
        if not _is_for_some_calls(variant, device):
            continue
        options = overloads.lowering(device, variant.form)
        compiled = compile_program(overloads.program, device, options, overloads.cache())
        if _TILES in compiled.binary:
            raise UnsupportedError(
                f"export: @{overloads.program.function.name} multiplies on the tiles of the processor, which a process "
                "must ask Linux for: set TL_DPNP_AMX=off")
        yield _Exported(compiled, variant.condition is not None)


def _is_for_some_calls(variant: Variant, device: Device) -> bool:
    match variant.condition:
        case None:
            return True
        case FewGroups(work=work):
            return work >= device.launches.least_work
    return False


# --- text ------------------------------------------------------------------------------------------------------------


def _header(symbol: str, members: Sequence[Member], device: Device) -> str:
    width = max(len(member.declaration) for member in members)
    declared = "\n".join(f"    {member.declaration:{width}}  /* {member.meaning} */" for member in members)
    values = "\n".join(f"    values[{place}] = {member.function}({member.cast}arguments->{member.name});"
                       for place, member in enumerate(members))
    guard = f"TL_EXPORTED_{symbol}_H"
    return f"""\
{_title(symbol, device)}
#ifndef {guard}
#define {guard}

#include "tl_kernel.h"

#ifdef __cplusplus
extern "C" {{
#endif

/* What a call is given.  Addresses are such that the device can use; elements of arrays are aligned to their size. */
typedef struct {symbol}_arguments {{
{declared}
}} {symbol}_arguments;

enum {{ {symbol}_count = {len(members)} }};

extern const tl_kernel {symbol}_kernel;

/* Write the values of the kernel's arguments but the last three, {symbol}_count of them. */
static inline void {symbol}_values(const {symbol}_arguments *arguments, tl_value *values)
{{
{values}
}}

#ifdef __cplusplus
}}
#endif

#endif
"""


def _source(
    symbol: str, program: Program, members: Sequence[Member], exported: Sequence[_Exported], device: Device
) -> str:
    end = _LAUNCHERS[device.family].end
    codes = "\n\n".join(
        f"static const unsigned char {each.form}_code[] = {{\n{_bytes(each.compiled.binary + end)}\n}};"
        for each in exported)
    variants = "\n".join(f"    {_variant(each, device)}," for each in exported)
    numbers = ", ".join(map(str, _numbers(program, device).values()))
    return f"""\
{_title(symbol, device)}
#include "{symbol}.h"

{codes}

static const tl_variant variants[] = {{
{variants}
}};

const tl_kernel {symbol}_kernel = {{
    "{symbol}", {len(members)}, {len(exported)}, variants, {numbers}
}};
"""


def _title(symbol: str, device: Device) -> str:
    return (f"/* Kernel {symbol} for {str(device).replace('*/', '')}, written by tl_dpnp {_version()}.\n"
            "   docs/export.md of tl_dpnp explains it. */")


def _version() -> str:
    return package_versions(("tl_dpnp",))["tl_dpnp"]


def _variant(each: _Exported, device: Device) -> str:
    plan = each.compiled.plan
    options, exchanges = _LAUNCHERS[device.family].building(each.compiled, device)
    values = [f'"{each.form}"', f'"{plan.entry}"', f"{each.form}_code", f"sizeof {each.form}_code", f'"{options}"',
              int(plan.frame.is_alone), int(plan.frame.is_persistent), int(each.for_few), plan.parts, max(1, plan.work),
              plan.subgroups, plan.subgroup_size, plan.teams, plan.local_memory, int(exchanges)]
    return f"{{{', '.join(map(str, values))}}}"


def _numbers(program: Program, device: Device) -> dict[str, int]:
    """Return what decides how work-groups become work-items, as ``tl_plan`` has it; CUDA devices need none of it."""
    numbers = device.launches
    return {
        "usage.has_fixed_work": int(program.usage.has_fixed_work), "items": numbers.items, "most_work": numbers.work,
        "least_work": numbers.least_work, "core_cache": device.core_cache,
        "last_cache": device.last_cache_for_arrays,
    }


def _bytes(code: bytes) -> str:
    lines = (code[start:start + _BYTES_OF_A_LINE] for start in range(0, len(code), _BYTES_OF_A_LINE))
    return "\n".join(f"    {','.join(map(str, line))}," for line in lines)


def _description(
    program: Program, members: Sequence[Member], exported: Sequence[_Exported], device: Device
) -> dict[str, object]:
    return {
        "tl_dpnp": _version(),
        "function": program.function.name,
        "device": device.to_json(),
        "arguments": [{"name": member.name, "type": member.type, "meaning": member.meaning} for member in members],
        "launch": _numbers(program, device),
        "variants": [{"for_few": each.for_few, "plan": each.compiled.plan.to_json()} for each in exported],
    }
