"""What a compiled kernel depends on besides its source: the compiler's own code and the packages it uses."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import sys

import tl_dpnp

__all__ = ["PACKAGES", "compiler_fingerprint", "package_versions"]

#: Packages whose version changes what is generated, for SYCL and for CUDA devices, by the names of distributions.
PACKAGES = {
    "sycl": ("numba", "numba_dpex", "llvmlite", "dpctl", "dpcpp_llvm_spirv"),
    "cuda": ("numba", "numba_cuda", "llvmlite", "nvidia_nvvm"),
}
#: Parts of this package that decide what is generated, and what is known of a function without reading it.
_SOURCES = ("scalars.py", "target", "language", "kernels", "lowering", "runtime/call/interface.py",
            "runtime/call/relations.py", "runtime/call/usage.py", "runtime/device_code.py",
            "runtime/sycl/numba_dpex_adapter.py", "runtime/sycl/spirv.py", "runtime/sycl/kernel_metadata.py",
            "runtime/sycl/inline_assembly.py", "runtime/sycl/llvm_adapter.py", "runtime/sycl/llvm_worker.py",
            "runtime/sycl/casts.py", "runtime/cuda/numba_cuda_adapter.py")


@functools.cache
def compiler_fingerprint() -> str:
    """Return a hash of the compiler's source files; a change to any of them makes new cache entries.

    Raises FileNotFoundError where a part of the compiler is not where it is looked for.
    """
    digest = hashlib.sha256()
    root = os.path.dirname(os.path.abspath(tl_dpnp.__file__))
    for source in _SOURCES:
        for path in _files(os.path.join(root, source)):
            digest.update(os.path.relpath(path, root).encode() + b"\0")
            with open(path, "rb") as file:
                digest.update(hashlib.sha256(file.read()).digest())
    return digest.hexdigest()


def _files(path: str) -> list[str]:
    """Return the source files below a folder, sorted, or the path itself if it is a file."""
    if os.path.isfile(path):
        return [path]
    if not os.path.isdir(path):
        raise FileNotFoundError(f"the compiler's source {path} is missing")
    return sorted(
        os.path.join(folder, name)
        for folder, _, names in os.walk(path) for name in names if name.endswith((".py", ".lark"))
    )


@functools.cache
def package_versions(packages: tuple[str, ...] = PACKAGES["sycl"]) -> dict[str, str]:
    """Return the installed versions of packages, without importing any of them.

    Reads the names of the metadata folders on the path, a hundred times faster than `importlib.metadata`, which is
    asked only for what is not found that way.
    """
    wanted = re.compile(rf"({'|'.join(packages)})-([^-]+)(?:-py[^-]*)?\.(?:dist|egg)-info", re.IGNORECASE)
    found: dict[str, str] = {}
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            match = wanted.fullmatch(name)
            if match:
                found.setdefault(match[1].lower(), match[2])
    return {package: found.get(package) or _metadata_version(package) for package in packages}


def _metadata_version(package: str) -> str:
    from importlib import metadata  # slow to import, and seldom needed

    try:
        return metadata.version(package.replace("_", "-"))
    except metadata.PackageNotFoundError:
        return "not installed"
