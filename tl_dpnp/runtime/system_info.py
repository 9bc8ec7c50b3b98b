"""What tl_dpnp finds on this machine, and what is wrong with it: the data behind ``python -m tl_dpnp -s``."""

from __future__ import annotations

import os
import platform
import re
import site
import sys
import warnings
from collections.abc import Iterator
from dataclasses import asdict, field
from importlib import metadata
from typing import Any

from tl_dpnp import config
from tl_dpnp.errors import SettingWarning, TLError, UnsupportedError
from tl_dpnp.records import dataclass
from tl_dpnp.runtime import bootstrap
from tl_dpnp.runtime.platform_choice import platform_for
from tl_dpnp.runtime.store.cache import why_unusable
from tl_dpnp.target.targets import TARGETS

__all__ = ["DeviceInfo", "PackageInfo", "Problem", "SystemInfo", "gather"]


#: The packages of the environment for CUDA.
_FOR_CUDA = ("numba-cuda", "cuda-bindings", "numba", "llvmlite", "numpy", "lark", "click", "platformdirs", "opt_einsum")

#: What tells the stack of newer Pythons from that of numba-dpex, and the first Python whose markers ask for it.
_CURRENT_DPCTL, _FIRST_CURRENT = (0, 22), (3, 12)


@dataclass(frozen=True)
class Problem:
    """Something that keeps kernels from running, or from running well, and what to do about it."""

    what: str
    fix: str


@dataclass(frozen=True)
class PackageInfo:
    """A package that tl_dpnp depends on: the version found (None: not installed) and the versions required."""

    name: str
    found: str | None
    required: str


@dataclass(frozen=True)
class DeviceInfo:
    """A SYCL device; sizes in bytes."""

    selector: str
    name: str
    driver: str
    compute_units: int
    sub_group_sizes: list[int]
    max_work_group_size: int
    local_memory: int
    global_memory: int
    fp64: bool
    fp16: bool


@dataclass
class SystemInfo:
    """Everything that ``-s`` prints; `to_json` gives the same as plain data."""

    version: str
    python: str
    system: str
    packages: list[PackageInfo] = field(default_factory=list)
    libraries: dict[str, bootstrap.Outcome] = field(default_factory=dict)
    devices: list[DeviceInfo] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"tl_dpnp {self.version}, Python {self.python}, {self.system}"]
        lines += _section("packages", [(p.name, p.found or "not installed", _asked(p)) for p in self.packages])
        lines += _section("libraries", [(n, o.status, o.folder or "") for n, o in self.libraries.items()])
        named = [(o.cpu_runtime, o.cpu_target) for o in self.libraries.values() if o.cpu_runtime or o.cpu_target]
        for runtime, target in named:
            lines += [f"  OpenCL CPU runtime named: {runtime or 'no'}; its target named: {target or 'no'}"]
        for device in self.devices:
            values = asdict(device)
            title = f"device {values.pop('selector')}: {values.pop('name')}"
            lines += _section(title, [(key.replace("_", " "), _text(value)) for key, value in values.items()])
        lines += _section("settings", list(self.settings.items()))
        lines.append("")
        lines += [f"problem: {p.what}\n    fix: {p.fix}" for p in self.problems] or ["no problems found"]
        return "\n".join(lines)


def _section(title: str, rows: list[tuple[str, ...]]) -> list[str]:
    width = max((len(row[0]) for row in rows), default=0)
    cells = [(row[0].ljust(width), *filter(None, row[1:])) for row in rows]
    return ["", f"{title}:", *("  " + "  ".join(row) for row in cells)]


def _asked(package: PackageInfo) -> str:
    exact = package.required == f"=={package.found}"
    return "" if exact or not package.required else f"(required: {package.required})"


def _text(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case list():
            return " ".join(map(str, value))
        case int() if value >= 1 << 30:
            return f"{value} ({value / (1 << 30):.1f} GiB)"
        case _:
            return str(value)


def gather() -> SystemInfo:
    """Look at packages, libraries, devices and settings; never raises for what it finds."""
    info = SystemInfo(_version("tl_dpnp") or "not installed", platform.python_version(), platform.platform())
    info.packages = _packages()
    info.problems += _package_problems(info.packages)
    info.problems += _parser_problems()
    info.problems += _start_up_problems()
    info.problems += _device_problems(info)
    info.libraries = bootstrap.outcomes()
    info.problems += _library_problems(info.packages, info.libraries)
    info.problems += _settings(info)
    return info


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _is_for_cuda() -> bool:
    """Return whether the environment is the one for CUDA (docs/cuda.md), which has no package of Intel's."""
    return _version("numba-cuda") is not None and _version("dpctl") is None


def _packages() -> list[PackageInfo]:
    """Return the packages named in the metadata of the installed tl_dpnp, extras left out, or those of CUDA's."""
    if _is_for_cuda():
        return [PackageInfo(name, _version(name), "") for name in _FOR_CUDA]
    try:
        requirements = metadata.requires("tl_dpnp") or []
    except metadata.PackageNotFoundError:
        requirements = ["numba", "numba-dpex", "dpctl", "dpnp", "numpy", "lark", "click", "platformdirs"]
    packages = []
    for requirement in requirements:
        text, _, marker = requirement.partition(";")
        match = re.match(r"\s*([A-Za-z0-9_.-]+)\s*(.*)", text)
        if match and "extra" not in marker and _is_for_this_python(marker):
            packages.append(PackageInfo(match[1], _version(match[1]), match[2].strip()))
    return packages


def _has_current_stack() -> bool:
    """Return whether dpctl is that of newer Pythons, and numba-dpex is not here: Python 3.11 may have that, too."""
    found = re.match(r"(\d+)\.(\d+)", _version("dpctl") or "")
    return found is not None and (int(found[1]), int(found[2])) >= _CURRENT_DPCTL and _version("numba-dpex") is None


def _is_for_this_python(marker: str) -> bool:
    """Return whether all that a marker says of Python's version holds here (the markers of our own metadata)."""
    python = max(sys.version_info[:2], _FIRST_CURRENT) if _has_current_stack() else sys.version_info[:2]
    bounds = re.findall(r"""python_version\s*(<|>=)\s*["'](\d+)\.(\d+)""", marker)
    return all((python < (int(major), int(minor))) == (comparison == "<") for comparison, major, minor in bounds)


def _install(packages: list[PackageInfo], *names: str) -> str:
    """Return the command that installs packages anew, those of `names` that are required, in their versions."""
    required = [f"'{package.name}{package.required}'" for package in packages if package.name in names]
    return f"run: pip install --force-reinstall {' '.join(required)}"


def _package_problems(packages: list[PackageInfo]) -> Iterator[Problem]:
    # What metadata require, and so `pip install .`, would replace numba in CUDA's environment by one that is too old.
    for_cuda = _is_for_cuda()
    if _version("tl_dpnp") is None:
        yield Problem("tl_dpnp is used from a source folder and is not installed",
                      f"run: pip install {'--no-deps ' * for_cuda}.")
    if not (3, 10) <= sys.version_info[:2] < (3, 15):
        yield Problem(f"Python is {platform.python_version()}", "use one from 3.10 to 3.14: only these have the wheels")
    for package in packages:
        pinned = package.required.startswith("==")
        if package.found is None:
            yield Problem(f"{package.name} is not installed", "run in the source folder: pip install -r "
                          "requirements-cuda.txt" if for_cuda else
                          f"run: pip install '{package.name}{package.required}'")
        elif pinned and package.required != f"=={package.found}":
            yield Problem(
                f"{package.name} is {package.found}, and the others here were built against {package.required[2:]}",
                f"run: pip install '{package.name}{package.required}'",
            )


def _parser_problems() -> Iterator[Problem]:
    if _version("lark") is None:
        return
    from tl_dpnp.language.lark_adapter import TESTED
    from tl_dpnp.language.parser import why_slow

    why = why_slow()
    if why is not None:
        yield Problem(f"texts of more than 10 kB take three times as long to parse as with lark {TESTED[-1]}: {why}",
                      f"run: pip install lark=={TESTED[-1]}")


def _start_up_problems() -> Iterator[Problem]:
    import _tl_dpnp_startup

    folders = [*site.getsitepackages(), site.getusersitepackages()]
    is_needed = _version("tl_dpnp") is not None and not _is_for_cuda()
    if is_needed and not any(os.path.exists(os.path.join(f, "tl_dpnp.pth")) for f in folders):
        yield Problem(
            "tl_dpnp.pth is missing from site-packages: `import dpnp` works only after `import tl_dpnp`",
            "run in the source folder: pip install --force-reinstall --no-deps .",
        )
    if _tl_dpnp_startup.failure is not None:
        yield Problem(f"preparing the libraries failed: {_tl_dpnp_startup.failure!r}", "please report this as a bug")


def _library_problems(packages: list[PackageInfo], outcomes: dict[str, bootstrap.Outcome]) -> Iterator[Problem]:
    for package, outcome in outcomes.items():
        for path, message in outcome.problems.items():
            yield Problem(
                f"{os.path.basename(path)}, which {package} needs, does not load: {message}",
                _install(packages, "dpcpp-cpp-rt", "mkl-dpcpp", "dpctl", "dpnp"),
            )


def _device_problems(info: SystemInfo) -> Iterator[Problem]:
    """Fill `info.devices` and yield what is wrong with the packages that run kernels."""
    bootstrap.install()
    runtimes = os.environ.get("OCL_ICD_FILENAMES", "")
    for path in filter(os.path.isabs, re.split("[:;,]", runtimes)):
        if not os.path.exists(path):
            yield Problem(f"OCL_ICD_FILENAMES names {path}, which does not exist", "run: unset OCL_ICD_FILENAMES")
    for package in ("dpctl", "dpnp", "numba_dpex"):
        if _version(package) is None:
            continue
        try:
            __import__(package)
        except Exception as error:  # a broken native package can raise anything
            yield Problem(f"import {package} fails: {error}", "see the problems with its version and libraries")
    if "dpctl" not in sys.modules:
        return
    info.devices = [_device(device) for device in sys.modules["dpctl"].get_devices()]  # loads what the next looks for
    from tl_dpnp.runtime.sycl import opencl_adapter

    missing = opencl_adapter.why_unsupported()
    if missing is not None:
        yield Problem(
            "the cache cannot keep machine code, so every process builds its kernels again, and calls take longer, "
            f"because they go through SYCL: {missing}",
            _install(info.packages, "dpcpp-cpp-rt", "dpctl"),
        )
    if not info.devices:
        selector = os.environ.get("ONEAPI_DEVICE_SELECTOR")
        yield Problem(
            "there is no SYCL device",
            f"ONEAPI_DEVICE_SELECTOR={selector} may exclude them: run: unset ONEAPI_DEVICE_SELECTOR"
            if selector
            else f"install an OpenCL runtime, for a CPU: {_install(info.packages, 'intel-opencl-rt')}",
        )


def _device(device: Any) -> DeviceInfo:
    return DeviceInfo(
        selector=device.filter_string,
        name=device.name.strip(),
        driver=device.driver_version,
        compute_units=device.max_compute_units,
        sub_group_sizes=list(device.sub_group_sizes),
        max_work_group_size=device.max_work_group_size,
        local_memory=device.local_mem_size,
        global_memory=device.global_mem_size,
        fp64=device.has_aspect_fp64,
        fp16=device.has_aspect_fp16,
    )


def _unmet(name: str, value: Any, fix: str) -> Iterator[Problem]:
    """Yield what is not there that a setting asks for."""
    if name == "TARGET" and value != config.SETTINGS[name].default and not TARGETS[value].is_interpreted:
        try:
            platform_for(value)
        except UnsupportedError as error:
            yield Problem(str(error), fix)
    if name == "CACHE" and value:
        why = why_unusable()
        if why is not None:
            variable = config.SETTINGS["CACHE_DIR"].variable
            yield Problem(why, f"set {variable} to a folder of yours, or run: unset {variable}")


def _settings(info: SystemInfo) -> Iterator[Problem]:
    """Fill `info.settings` and yield those whose environment variable is not understood, or not a setting."""
    for name, setting in config.SETTINGS.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SettingWarning)  # they are yielded below
                value = config.get(name)
            info.settings[setting.variable] = setting.default_text if value == setting.default else str(value)
            yield from _unmet(name, value, f"run: unset {setting.variable}")
        except TLError as error:
            yield Problem(str(error), f"run: unset {setting.variable}")
    for variable, problem in config.unknown_variables().items():
        yield Problem(problem, f"run: unset {variable}")
