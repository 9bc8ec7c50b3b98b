"""Fresh processes: what a start, an import and a compilation cost, and what a call does behind the scenes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from . import programs
from .tables import ITEMSIZE, Shape

__all__ = [
    "calls_of_a_launch", "cold_and_warm", "cold_gemm", "cold_recurrence", "first_result", "import_seconds",
    "pin_to_one_core",
]


def pin_to_one_core() -> None:
    """Keep this process, and the runtimes that it will load, on one core; raises `RuntimeError` where it is too late.

    The OpenCL runtime takes its number of threads from ``DPCPP_CPU_NUM_CUS`` and OpenBLAS from the affinity of the
    process, both when they are loaded.
    """
    if "dpctl" in sys.modules or "numpy" in sys.modules:
        raise RuntimeError("one core must be chosen before dpctl and numpy are loaded")
    os.environ["DPCPP_CPU_NUM_CUS"] = "1"
    # The last core: interrupts and other people's work tend to the first ones.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


#: Compiles a program, calls it once, and prints times in seconds as JSON.  The message on standard input: source,
#: module of the arrays, shapes of the arrays with their values ([[16, 8]] for a group), scalars, the clock before the
#: process was started, whether to import the compiler first.
_FIRST_RESULT = """
import json, sys, time
source, arrays, shapes, scalars, dtype, parent_clock, import_first = json.loads(sys.stdin.read())
import importlib, importlib.util, numpy, tl_dpnp
if import_first:
    here = importlib.util.find_spec("numba_dpex") is not None
    importlib.import_module("numba_dpex" if here else "tl_dpnp.runtime.sycl.llvm_adapter")
arrays = importlib.import_module(arrays)
def ones(shape):
    # From NumPy, so that dpnp compiles no kernel of its own on the way.
    return arrays.asarray(numpy.ones(shape, dtype, order="F"))
# Before the clock: dpnp 0.20 starts SYCL with the first array, in 25 ms, and dpnp 0.15 when it is imported.
arguments = [[ones(s) for s in shape] if isinstance(shape[0], list) else ones(shape) for shape in shapes]
cpu, wall = time.process_time(), time.perf_counter()
kernel = tl_dpnp.compile(source)
kernel(*scalars, *arguments)
compiled = {"cpu": time.process_time() - cpu, "compile": time.perf_counter() - wall}
wall = time.time() - parent_clock
result = arrays.asnumpy(arguments[-1])
print(json.dumps({**compiled, "wall": wall, "numba": "numba" in sys.modules, "result": float(result.ravel()[-1])}))
"""


def _child(code: str, message: object, python: str = sys.executable, **environment: str) -> dict[str, Any]:
    variables = {**os.environ, **environment}
    # Python keeps the byte code of what it imports unless it is told not to; then every start compiles our sources.
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    result = subprocess.run([python, "-c", code], input=json.dumps(message), env=variables,
                            stdout=subprocess.PIPE, text=True, check=True)
    values: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return values


def first_result(cache: str, import_first: bool = False, arrays: str = "dpnp") -> dict[str, Any]:
    """Start a process that compiles the fused sample and calls it once, with `cache` as its cache folder.

    `arrays` is the module that the arrays come from: ``dpnp`` or ``dpctl.tensor``.

    Returns ``wall``, the seconds from the start of the process to the result; ``compile`` and ``cpu``, the wall-clock
    and the processor seconds of compilation and call, after the imports (numba-dpex among them with `import_first`) and
    with the arrays there; and whether it loaded numba.
    """
    shapes = [[[16, 8]], [8, 8], [8, 16], [16, 16, 1]]
    message = [programs.FUSED_SAMPLE, arrays, shapes, [1.0], "float32", time.time(), import_first]
    return _checked(_child(_FIRST_RESULT, message, TL_DPNP_CACHE_DIR=cache, TL_DPNP_CACHE="1"), 65)


def _checked(values: dict[str, Any], result: float) -> dict[str, Any]:
    if values.pop("result") != result:
        raise AssertionError("the first result is wrong")
    return values


def cold_and_warm(import_first: bool = False, arrays: str = "dpnp") -> tuple[dict[str, Any], dict[str, Any]]:
    """Return `first_result` with an empty cache, and then with the cache that it left."""
    with tempfile.TemporaryDirectory() as cache:
        return first_result(cache, import_first, arrays), first_result(cache, import_first, arrays)


def cold_gemm(shape: Shape, element: str, python: str = sys.executable) -> dict[str, Any]:
    """Compile a batched product with an empty cache and call it once; returns what `first_result` does.

    `python` is that of the process.
    """
    m, n, k = shape
    message = [programs.gemm(*shape, element), "dpnp", [[m, k, 1], [k, n, 1], [m, n, 1]], [],
               f"float{8 * ITEMSIZE[element]}", time.time(), True]
    with tempfile.TemporaryDirectory() as cache:
        return _checked(_child(_FIRST_RESULT, message, python, TL_DPNP_CACHE_DIR=cache, TL_DPNP_CACHE="1"), k)


#: A recurrence over the first axis of `xs`; fused functions need a file.
_RECURRENCE = """
import dpnp

def sigmoid(x):
    return 1.0 / (1.0 + dpnp.exp(-x))

def recurrence(xs, h, W, U, b):
    for x in xs:
        z = sigmoid(x @ W[0] + h @ U[0] + b[0])
        r = sigmoid(x @ W[1] + h @ U[1] + b[1])
        h = (1.0 - z) * h + z * dpnp.tanh(x @ W[2] + (r * h) @ U[2] + b[2])
    return h
"""
#: Calls it once and compares with NumPy.  The message: the folder of the module, and the number of steps.
_FIRST_CALL = """
import json, sys, time
folder, steps = json.loads(sys.stdin.read())
sys.path.insert(0, folder)
import dpnp, numba_dpex, numpy, recurrence, tl_dpnp
draw = numpy.random.default_rng(steps)
shapes = (steps, 64, 8), (64, 16), (3, 8, 16), (3, 16, 16), (3, 16)
host = [draw.uniform(-0.5, 0.5, shape).astype("f4") for shape in shapes]
arrays = [dpnp.asarray(array) for array in host]
fused = tl_dpnp.fuse(recurrence.recurrence)
cpu, wall = time.process_time(), time.perf_counter()
result = fused(*arrays)
taken = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
recurrence.dpnp = numpy
expected = recurrence.recurrence(*[array.astype("f8") for array in host])
numpy.testing.assert_allclose(dpnp.asnumpy(result), expected, rtol=1e-4, atol=1e-5)
print(json.dumps({**taken, "kernels": fused.stats.kernels}))
"""


def cold_recurrence(steps: int) -> dict[str, float]:
    """Fuse a gated recurrent unit of so many steps and call it once, with an empty cache; its result is compared.

    Returns the ``cpu`` and ``wall``-clock seconds of the call, and the ``kernels`` that were compiled.
    """
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "recurrence.py").write_text(_RECURRENCE, encoding="utf-8")
        return _child(_FIRST_CALL, [folder, steps], TL_DPNP_CACHE_DIR=f"{folder}/cache", TL_DPNP_CACHE="1")


_IMPORT = """
import json, os, sys, time
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
module = json.loads(sys.stdin.read())
before, start = resident(), time.perf_counter()
__import__(module)
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "bytes": resident() - before}))
"""


def import_seconds(module: str) -> dict[str, float]:
    """Import a module in a fresh process; returns ``seconds`` and the ``bytes`` that it added to memory."""
    return _child(_IMPORT, module)


_CALLS = """
import json, sys, tracemalloc
sys.path[:0] = json.loads(sys.stdin.read())
from benchmarks.workloads import Gemm
from benchmarks.tables import Shape
workload = Gemm(Shape(32, 32, 32), batch=100)
workload.tl_dpnp()
from tl_dpnp.runtime.sycl.opencl_adapter import DirectKernel
start, direct = DirectKernel.start, 0
def counted(*arguments):
    global direct
    direct += 1
    start(*arguments)
DirectKernel.start = counted
tracemalloc.start()
for _ in range(int(sys.argv[1])):
    workload.tl_dpnp()
print(direct, tracemalloc.get_traced_memory()[1], file=sys.stderr)
"""


def calls_of_a_launch() -> dict[str, float]:
    """Return what one call of a kernel asks of the SYCL runtime for a batch of products.

    ``launches`` of kernels and ``allocations`` of device memory, by the runtime's own trace (``SYCL_PI_TRACE``)
    and, for launches that bypass SYCL, by counting them; and ``bytes``, the memory of Python objects at its peak.
    Free of noise: the difference of two processes that do one call and five.
    """
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    counts, peaks = [], []
    for calls in (1, 5):
        # PI_TRACE prints through C, as much as a megabyte; the measure of Python's memory comes on the other stream.
        result = subprocess.run(
            [sys.executable, "-c", _CALLS, str(calls)], input=json.dumps([folder]), capture_output=True, text=True,
            env={**os.environ, "SYCL_PI_TRACE": "2"}, check=True,
        )
        counts.append(Counter(re.findall(r"---> (pi\w+)\(", result.stdout)))
        direct, peak = map(int, result.stderr.split()[-2:])
        counts[-1]["direct EnqueueKernelLaunch"] = direct
        peaks.append(peak)
    per_call = {name: (counts[1][name] - counts[0][name]) / 4 for name in counts[1]}
    return {
        "launches": sum(n for name, n in per_call.items() if "EnqueueKernelLaunch" in name),
        "allocations": sum(n for name, n in per_call.items() if "Alloc" in name and name.startswith("piextUSM")
                           and "Get" not in name),
        "bytes": float(peaks[0]),
    }
