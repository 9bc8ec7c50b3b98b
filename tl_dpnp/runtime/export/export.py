"""Writes the files of an exported kernel: description and code in C, SPIR-V, and the same as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

from tl_dpnp.errors import UnsupportedError
from tl_dpnp.lowering.variants import FewGroups, Variant
from tl_dpnp.runtime.call.program import Program
from tl_dpnp.runtime.compiler import CompiledKernel, compile_program
from tl_dpnp.runtime.export.members import Member, members_of
from tl_dpnp.runtime.overloads import Overloads
from tl_dpnp.runtime.store.fingerprint import package_versions
from tl_dpnp.target.device import Device

__all__ = ["export"]

#: What is the same for all kernels.
_COMMON = ("tl_kernel.h", "tl_opencl.h", "tl_opencl.c")
#: Instructions of tiles have this in their name; a process needs a permission for them.
_TILES = b"tileload"
_BYTES_OF_A_LINE = 24


@dataclass(frozen=True)
class _Exported:
    """A kernel of a program, and whether it is for calls of few work-groups only."""

    compiled: CompiledKernel
    for_few: bool

    @property
    def form(self) -> str:
        return self.compiled.plan.form


def export(overloads: Overloads, device: Device, folder: Path) -> list[Path]:
    """Compile the kernels of a program for a SYCL device, write their files into a folder and return the paths.

    Raises `UnsupportedError` for programs without parameters, those with checks, and kernels that use AMX; what
    compiling raises; and `OSError` where a file cannot be written.
    """
    program = overloads.program
    name = program.function.name
    if overloads.options.debug:
        raise UnsupportedError(f"export: @{name} was compiled with debug=True, whose checks need a call from Python: "
                               "compile it without")
    if not program.function.parameters:
        raise UnsupportedError(f"export: @{name} has no parameters, and so no results")
    exported = [*_compiled(overloads, device)]
    members = members_of(program.function.parameters, program.usage, exported[0].compiled.plan.measured)
    symbol = f"kernel_{name}" if name[0].isdigit() else name
    contents: dict[str, str | bytes] = {common: (files(__package__) / common).read_text() for common in _COMMON}
    contents[f"{symbol}.h"] = _header(symbol, members, device)
    contents[f"{symbol}.c"] = _source(symbol, program, members, exported, device)
    contents[f"{symbol}.json"] = json.dumps(_description(program, members, exported, device), indent=2) + "\n"
    contents |= {f"{symbol}_{each.form}.spv": each.compiled.binary for each in exported}
    folder.mkdir(parents=True, exist_ok=True)
    for file, content in contents.items():
        (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    return [folder / file for file in contents]


def _compiled(overloads: Overloads, device: Device) -> Iterator[_Exported]:
    """Compile the variants that calls on a device may take; nothing is kept but in the disk cache."""
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
    return not isinstance(variant.condition, FewGroups) or variant.condition.work >= device.launches.least_work


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
    codes = "\n\n".join(f"static const unsigned char {each.form}_code[] = {{\n{_bytes(each.compiled.binary)}\n}};"
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
    from tl_dpnp.runtime.sycl.machine_code import build_options, exchanges_values

    plan, options = each.compiled.plan, build_options(each.compiled.plan, replace(device, backend="opencl"))
    values = [f'"{each.form}"', f'"{plan.entry}"', f"{each.form}_code", f"sizeof {each.form}_code", f'"{options}"',
              int(plan.frame.is_alone), int(each.for_few), plan.parts, max(1, plan.work), plan.subgroups,
              plan.subgroup_size, int(exchanges_values(each.compiled))]
    return f"{{{', '.join(map(str, values))}}}"


def _numbers(program: Program, device: Device) -> dict[str, int]:
    """Return what decides how work-groups become work-items (`tl_dpnp.runtime.sycl.launch`), as ``tl_plan`` has it."""
    from tl_dpnp.runtime.sycl.launch import core_cache

    numbers = device.launches
    return {
        "has_fixed_work": int(program.has_fixed_work), "items": numbers.items, "most_work": numbers.work,
        "least_work": numbers.least_work, "core_cache": core_cache(device),
        "last_cache": int(numbers.share_of_cache * device.last_cache),
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
