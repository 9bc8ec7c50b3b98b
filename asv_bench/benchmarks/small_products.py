"""Kernels that other libraries generate for small products, as peers: libxsmm's, and those of oneMKL's JIT.

Both are called from a loop in C, so that nothing of Python lies between two products; libxsmm is Debian's
``libxsmm-dev``, oneMKL the wheel that dpnp brings.  With several threads the loop is OpenMP's, whose threads spin
between two calls.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .tables import ITEMSIZE, Shape
from .timing import Contestant

__all__ = ["BEST_GENERATED", "GENERATED", "generated_products"]

_SOURCE = Path(__file__).with_suffix(".c")
_LIBXSMM = ("-DWITH_LIBXSMM", "-lxsmm", "-lxsmmnoblas", "-ldl", "-lm", "-lpthread", "-lrt")
_MKL = Path(sys.prefix) / "lib" / "libmkl_rt.so.2"
#: Constants of ``mkl_types.h``: columns follow one another, no transposes; and the status of an error.
_COLUMN_MAJOR, _NO_TRANSPOSE, _ERROR = 102, 111, 2
_TOLERANCE = {"f32": 1e-3, "f64": 1e-9}


class _Products(ctypes.Structure):
    """``struct products``."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("kernel", "jitter", "a", "b", "c")] + [
        (name, ctypes.c_size_t) for name in ("a_stride", "b_stride", "c_stride")] + [("count", ctypes.c_long)]


@functools.cache
def _library() -> ctypes.CDLL | None:
    """Return the compiled loops, with libxsmm where that is installed; None without a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    folder = tempfile.TemporaryDirectory(prefix="small-products-")
    path = Path(folder.name) / "small_products.so"
    for extra in (_LIBXSMM, ()):
        command = [compiler, "-O2", "-shared", "-fPIC", "-fopenmp", str(_SOURCE), "-o", str(path), *extra]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return ctypes.CDLL(str(path))
    return None


def _libxsmm(shape: Shape, element: str) -> tuple[int, int] | None:
    library = _library()
    if library is None or not hasattr(library, "libxsmm_kernel"):
        return None
    library.libxsmm_kernel.restype = ctypes.c_void_p
    kernel = library.libxsmm_kernel(*shape, ITEMSIZE[element])
    return None if kernel is None else (kernel, 0)


def _mkl(shape: Shape, element: str) -> tuple[int, int] | None:
    if _library() is None or not _MKL.exists():
        return None
    mkl, (m, n, k) = ctypes.CDLL(str(_MKL)), shape
    letter, scalar = {"f32": ("s", ctypes.c_float), "f64": ("d", ctypes.c_double)}[element]
    integers = [ctypes.c_int64] * 3
    create = getattr(mkl, f"mkl_cblas_jit_create_{letter}gemm_64")
    create.argtypes = [ctypes.POINTER(ctypes.c_void_p), *[ctypes.c_int] * 3, *integers, scalar, *integers[:2], scalar,
                       ctypes.c_int64]
    jitter = ctypes.c_void_p()
    if create(ctypes.byref(jitter), _COLUMN_MAJOR, _NO_TRANSPOSE, _NO_TRANSPOSE, m, n, k, 1.0, m, k, 0.0, m) == _ERROR:
        return None
    kernel_of = getattr(mkl, f"mkl_jit_get_{letter}gemm_ptr")
    kernel_of.argtypes, kernel_of.restype = [ctypes.c_void_p], ctypes.c_void_p
    kernel = kernel_of(jitter)
    return None if kernel is None or jitter.value is None else (kernel, jitter.value)


#: The fact of a measurement that says how much faster tl_dpnp is than the better of these peers.
BEST_GENERATED = "libxsmm and MKL's JIT"
#: What finds the address of a kernel for C := A · B, and that of its first argument, or None, by the peer's name.
GENERATED: dict[str, Callable[[Shape, str], tuple[int, int] | None]] = {"libxsmm": _libxsmm, "MKL's JIT": _mkl}


def generated_products(shape: Shape, element: str, host: dict[str, Any], passes: int = 1) -> dict[str, Contestant]:
    """Return the peers that there are for a batch, each checked against NumPy; C is overwritten.

    `host` has the matrices A, B and C as C-ordered arrays of their transposes.  A call does the batch `passes` times,
    on a thread for each core that this process may use.
    Raises `AssertionError` where a peer's results are not NumPy's.
    """
    import numpy as np

    library, found = _library(), {}
    threads = len(os.sched_getaffinity(0))
    for name, kernel_for in GENERATED.items():
        addresses = kernel_for(shape, element)
        if library is None or addresses is None:
            continue
        a, b, c = (host[letter] for letter in "ABC")
        products = _Products(*addresses, a.ctypes.data, b.ctypes.data, c.ctypes.data, a.strides[0], b.strides[0],
                             c.strides[0], len(c))
        call = _Call(library, products, passes, threads, (a, b, c))
        c.fill(np.nan)
        _Call(library, products, 1, threads, (a, b, c))()
        tolerance = _TOLERANCE[element]
        np.testing.assert_allclose(c, b @ a, rtol=tolerance, atol=tolerance)
        found[name] = Contestant(call, passes)
    return found


class _Call:
    """A call of the loop, which keeps the arrays alive."""

    def __init__(self, library: ctypes.CDLL, products: _Products, passes: int, threads: int, keep: Any) -> None:
        library.multiply.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_int]
        self._multiply, self._products, self._keep = library.multiply, products, keep
        self._address, self._passes, self._threads = ctypes.addressof(products), passes, threads

    def __call__(self) -> None:
        self._multiply(self._address, self._passes, self._threads)
