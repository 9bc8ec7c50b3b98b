"""Make dpctl and dpnp importable where their wheels alone are not.

The wheels carry library paths from the machine that built them, so outside conda the loader does not find
``libsycl.so.7`` and its companions although they lie in ``<prefix>/lib``, and the OpenCL loader is pointed at a CPU
runtime that does not exist.  Two measures, both taken before the first import of the package and only when needed:

- load the libraries by their full path and globally, so that later requests by name are met;
- name the CPU runtime in ``OCL_ICD_FILENAMES``.

Newer wheels (dpctl 0.22, ``libsycl.so.9``) find their libraries by themselves; only the CPU runtime is named.

A third measure is about speed: the CPU runtime does not recognise processors that are younger than itself and of
another maker ("Unknown host CPU"), and then compiles for a baseline without FMA, some thirty times slower.  Its target
is named in ``CL_CONFIG_CPU_TARGET_ARCH`` from the processor's own feature flags, unless the user has set it.

Where everything is found without help (conda, ``LD_LIBRARY_PATH``) nothing is changed.  Only the standard library is
used, and nothing is imported that a plain ``import dpnp`` would not pay for.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import field
from importlib.machinery import PathFinder
from itertools import takewhile

from tl_dpnp.records import dataclass

__all__ = ["LibrarySet", "Outcome", "install", "outcomes", "prepare", "processor"]


@dataclass(frozen=True)
class LibrarySet:
    """The shared libraries that one package needs before it can be imported.

    `probe` is the package's own library: if it loads, nothing needs to be done.  `distribution` is the wheel that
    brings the first of `libraries`; its file list says where they lie.  Where the file `mark` is missing from the
    folder that the package is in, the wheels find their libraries by themselves.
    """

    probe: str
    distribution: str
    libraries: tuple[str, ...]
    needs: tuple[str, ...] = ()
    mark: str = ""


#: dpctl has it up to 0.20; newer wheels have paths relative to their own place.
_OF_OLD_WHEELS = "dpctl/libDPCTLSyclInterface.so.0"


LIBRARY_SETS: dict[str, LibrarySet] = {
    "dpctl": LibrarySet(
        "libDPCTLSyclInterface.so.0",
        "intel-sycl-rt",
        ("libsycl.so.7", "libintlc.so.5", "libsvml.so", "libirng.so", "libimf.so", "libtbb.so.12", "libOpenCL.so.1"),
        mark=_OF_OLD_WHEELS,
    ),
    "dpnp": LibrarySet(
        "libdpnp_backend_c.so",
        "mkl",
        (
            "libmkl_core.so.2",
            "libmkl_tbb_thread.so.2",
            "libmkl_intel_ilp64.so.2",
            *(f"libmkl_sycl_{part}.so.4" for part in "blas lapack dft vm rng stats".split()),
        ),
        needs=("dpctl",),
        mark=_OF_OLD_WHEELS,
    ),
}

CPU_RUNTIME = "libintelocl.so"
#: Targets of the CPU runtime, widest vectors first, and the processor flags that code for them needs.
CPU_TARGETS: dict[str, frozenset[str]] = {
    "skx": frozenset("avx512f avx512bw avx512cd avx512dq avx512vl fma".split()),
    "core-avx2": frozenset("avx2 bmi1 bmi2 fma f16c".split()),
}
#: Bytes of the vectors that code for targets of the CPU runtime has.
CPU_VECTOR_BYTES = {"skx": 64, "core-avx2": 32, "corei7-avx": 32, "corei7": 16}


@dataclass
class Outcome:
    """What `prepare` did for one package: ``status`` is "not installed", "found without help", "preloaded" or
    "failed"; `folder` is where the libraries were taken from; `problems` maps a library to the loader's message;
    `cpu_runtime` is the value given to ``OCL_ICD_FILENAMES``, and `cpu_target` that given to
    ``CL_CONFIG_CPU_TARGET_ARCH``, if they were set.
    """

    status: str
    folder: str | None = None
    cpu_runtime: str | None = None
    cpu_target: str | None = None
    problems: dict[str, str] = field(default_factory=dict)


_lock = threading.RLock()
_outcomes: dict[str, Outcome] = {}


def install() -> None:
    """Watch for the first import of dpctl or dpnp; cheap, and the same when called again."""
    if sys.platform == "linux":
        import _tl_dpnp_startup

        _tl_dpnp_startup.install()


def outcomes() -> dict[str, Outcome]:
    """Return what has been done so far, by package."""
    return dict(_outcomes)


def prepare(package: str) -> Outcome:
    """Load what `package` (``"dpctl"`` or ``"dpnp"``) needs, once for the process, and say what was done."""
    with _lock:
        if package not in _outcomes:
            libraries = LIBRARY_SETS[package]
            for other in libraries.needs:
                prepare(other)
            _outcomes[package] = _prepare(package, libraries)
        return _outcomes[package]


def _prepare(package: str, libraries: LibrarySet) -> Outcome:
    spec = PathFinder.find_spec(package)
    if spec is None or spec.origin is None:
        return Outcome("not installed")
    home = os.path.dirname(spec.origin)
    probe = os.path.join(home, libraries.probe)
    outcome = Outcome("found without help", _folder(libraries.libraries[0], libraries.distribution, home))
    if package == "dpctl":
        outcome.cpu_runtime = _name_cpu_runtime(home)
        outcome.cpu_target = _name_cpu_target()
    if os.path.exists(os.path.join(os.path.dirname(home), libraries.mark)) and _load([probe]):
        if outcome.folder is not None:
            paths = [os.path.join(outcome.folder, name) for name in libraries.libraries]
            outcome.problems = _load([path for path in paths if os.path.exists(path)])
        still = _load([probe])
        outcome.problems.update(still)
        outcome.status = "failed" if still else "preloaded"
    return outcome


def _load(paths: list[str]) -> dict[str, str]:
    """Load libraries globally and return those that would not load, with the loader's messages.

    Some need symbols of others that come later, in both directions, so the list is gone through as long as that helps.
    """
    while True:
        problems: dict[str, str] = {}
        for path in paths:
            try:
                ctypes.CDLL(path, mode=os.RTLD_LAZY | os.RTLD_GLOBAL)
            except OSError as error:
                problems[path] = str(error)
        if not problems or len(problems) == len(paths):
            return problems
        paths = list(problems)


def _folders(distribution: str, library: str, home: str) -> Iterator[str]:
    """Yield the folders where the wheels may have put a library, likeliest first."""
    folder = home
    while folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
        yield os.path.join(folder, "lib")
    from importlib import metadata  # seldom needed, and slow to import

    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == library:
            yield os.path.dirname(os.path.realpath(str(file.locate())))
    yield os.path.join(sys.prefix, "lib")


def _folder(library: str, distribution: str, home: str) -> str | None:
    """Return the folder that holds `library`, or None."""
    for folder in _folders(distribution, library, home):
        if os.path.exists(os.path.join(folder, library)):
            return folder
    return None


def _name_cpu_runtime(home: str) -> str | None:
    """Set ``OCL_ICD_FILENAMES`` to the OpenCL CPU runtime unless the user or the system already names one."""
    if "OCL_ICD_FILENAMES" in os.environ or _is_registered(CPU_RUNTIME):
        return None
    folder = _folder(CPU_RUNTIME, "intel-opencl-rt", home)
    if folder is None:
        return None
    os.environ["OCL_ICD_FILENAMES"] = os.path.join(folder, CPU_RUNTIME)
    return os.environ["OCL_ICD_FILENAMES"]


def _name_cpu_target() -> str | None:
    """Set ``CL_CONFIG_CPU_TARGET_ARCH`` to what the processor can run, where the CPU runtime may not know it."""
    if "CL_CONFIG_CPU_TARGET_ARCH" in os.environ:
        return None
    facts = processor()
    if facts.get("vendor_id") == "GenuineIntel":
        return None
    for target, needed in CPU_TARGETS.items():
        if needed <= set(facts.get("flags", "").split()):
            os.environ["CL_CONFIG_CPU_TARGET_ARCH"] = target
            return target
    return None


def processor() -> dict[str, str]:
    """Return what Linux tells of the first processor, ``flags`` among others; nothing where it tells nothing."""
    try:
        with open("/proc/cpuinfo", errors="replace") as file:
            fields = [line.partition(":") for line in takewhile(str.strip, file)]
    except OSError:
        return {}
    return {name.strip(): value.strip() for name, _, value in fields}


def _is_registered(runtime: str) -> bool:
    """Return whether an OpenCL vendor file names `runtime` and the file that it names exists."""
    folders = [os.environ.get(name) for name in ("OPENCL_VENDOR_PATH", "OCL_ICD_VENDORS")]
    for folder in filter(None, [*folders, "/etc/OpenCL/vendors", os.path.join(sys.prefix, "etc/OpenCL/vendors")]):
        names = os.listdir(folder) if os.path.isdir(folder) else []
        for name in names:
            if not name.endswith(".icd"):
                continue
            with open(os.path.join(folder, name), errors="replace") as file:
                target = file.read().strip()
            if os.path.basename(target).startswith(runtime) and os.path.exists(target):
                return True
    return False
