"""What a result belongs to: the machine, the versions, the commit, the time, and how busy the machine was."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

__all__ = ["describe"]

_PACKAGES = ("dpnp", "dpctl", "numba-dpex", "numpy", "intel-opencl-rt", "torch")


def describe() -> dict[str, str]:
    """Return the description by name, for people to read."""
    caches = _caches()
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "caches of a core": ", ".join(caches),
        "python": platform.python_version(),
        "packages": ", ".join(f"{name} {version}" for name in _PACKAGES if (version := _version(name))),
        "commit": _commit(),
        "date": datetime.date.today().isoformat(),
        "load before": f"{os.getloadavg()[0]:.1f}",
    }


def _processor() -> str:
    """Return its name, with the numbers of its generation, which names of virtual machines leave out."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if "model name" not in facts:
        return platform.processor() or "unknown"
    numbers = [f"{name} {facts[key]}" for key, name in (("cpu family", "family"), ("model", "model")) if key in facts]
    return ", ".join([facts["model name"], *numbers])


def _caches() -> list[str]:
    found = []
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = ((folder / name).read_text().strip() for name in ("level", "type", "size"))
        if kind != "Instruction":
            found.append(f"L{level} {size}")
    return found


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _commit() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout.strip() or "unknown"
