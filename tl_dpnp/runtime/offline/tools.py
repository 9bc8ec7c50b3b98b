"""The command-line tools and how they are called.

Tested with Debian 12's packages: ocloc 22.43 with the Intel Graphics Compiler 1.0.12504, iga64 1.1, spirv-val 2023.1.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tl_dpnp.errors import LoweringError, UnsupportedError

__all__ = ["TOOLS", "compile_binary", "disassemble", "missing_tools", "validate_spirv", "version"]

#: Each tool and the Debian package that it comes with.
TOOLS = {"ocloc": "intel-opencl-icd", "iga64": "libigc-tools", "spirv-val": "spirv-tools"}
_SECONDS = 300
#: Characters of a tool's output that an error repeats.
_MOST_TEXT = 2000
#: Set for the packages that come from wheels; the system's tools must not see it.
_FOREIGN = ("LD_LIBRARY_PATH", "LD_PRELOAD", "OCL_ICD_FILENAMES", "OCL_ICD_VENDORS")


def missing_tools(names: Sequence[str] = tuple(TOOLS)) -> dict[str, str]:
    """Return the tools that are not installed and their packages."""
    return {name: TOOLS[name] for name in names if shutil.which(name) is None}


def _run(tool: str, *arguments: str, folder: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a tool, in a folder if one is given; this process stays where it is."""
    if missing_tools([tool]):
        raise UnsupportedError(
            f"{tool} is needed for this and is not installed: it is in Debian's package {TOOLS[tool]} (make tools)"
        )
    environment = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    try:
        return subprocess.run(
            [tool, *arguments], capture_output=True, text=True, errors="replace", timeout=_SECONDS, env=environment,
            check=False, cwd=folder,
        )
    except subprocess.TimeoutExpired:
        raise LoweringError(f"{tool} did not finish within {_SECONDS} s") from None


def _check(run: subprocess.CompletedProcess[str], what: str) -> str:
    output = (run.stdout + run.stderr).strip()
    if run.returncode:
        how = f"was killed by signal {-run.returncode}" if run.returncode < 0 else "refuses it"
        raise LoweringError(f"{what}: {run.args[0]} {how}: {output[:_MOST_TEXT] or 'without a message'}")
    return output


def version(tool: str) -> str:
    """Return the first line that a tool says about its version."""
    option = {"ocloc": "query", "iga64": "-h", "spirv-val": "--version"}[tool]
    extra = ("OCL_DRIVER_VERSION",) if tool == "ocloc" else ()
    with tempfile.TemporaryDirectory(prefix="tl_dpnp-") as folder:
        run = _run(tool, option, *extra, folder=folder)  # ocloc query leaves a file behind
        answer = Path(folder, "OCL_DRIVER_VERSION")
        text = answer.read_text() if answer.exists() else run.stdout + run.stderr
    return text.strip().splitlines()[0] if text.strip() else ""


def validate_spirv(spirv: bytes) -> None:
    """Raise LoweringError unless a module is valid SPIR-V for OpenCL 2.2."""
    with tempfile.TemporaryDirectory(prefix="tl_dpnp-") as folder:
        path = Path(folder, "module.spv")
        path.write_bytes(spirv)
        _check(_run("spirv-val", "--target-env", "opencl2.2", str(path)), "the module is not valid SPIR-V")


def compile_binary(spirv: bytes, device: str, *, registers: int = 128) -> bytes:
    """Compile SPIR-V for a device of ocloc's list and return the binary, an ELF file.

    `registers` is the size of the register file of a thread, 128 or 256.  Raises LoweringError if ocloc fails.
    """
    options = "-ze-allow-zebin" + (" -ze-opt-large-register-file" if registers == 256 else "")
    with tempfile.TemporaryDirectory(prefix="tl_dpnp-") as folder:
        path = Path(folder, "module.spv")
        path.write_bytes(spirv)
        run = _run(
            "ocloc", "compile", "-spirv_input", "-file", str(path), "-device", device, "-out_dir", folder,
            "-output", "module", "-output_no_suffix", "-options", options, folder=folder,  # for what it says of errors
        )
        _check(run, f"compiling for {device}")
        found = [entry for entry in Path(folder).iterdir() if entry.suffix in ("", ".bin")]
        if len(found) != 1:
            raise LoweringError(f"compiling for {device}: ocloc left no binary: {run.stdout.strip()}")
        return found[0].read_bytes()


def disassemble(kernels: Mapping[str, bytes], platform: str) -> dict[str, str]:
    """Return the assembly of each kernel; `platform` is iga64's name of the generation, such as xehpc."""
    with tempfile.TemporaryDirectory(prefix="tl_dpnp-") as folder:
        paths = []
        for number, code in enumerate(kernels.values()):
            path = Path(folder, f"{number}.bin")
            path.write_bytes(code)
            paths.append(str(path))
        text = _check(_run("iga64", "-d", f"-p={platform}", "-Xprint-pc", *paths), "disassembling")
    parts = re.split(r"(?m)^L0:\n", text)[1:]
    if len(parts) != len(kernels):
        raise LoweringError(f"disassembling: iga64 printed {len(parts)} kernels instead of {len(kernels)}")
    return {name: f"L0:\n{part}" for name, part in zip(kernels, parts, strict=True)}
