"""Threads that compile, call, submit, record, tune, fuse, wait and drop kernels, on queues of their own and shared.

A case is a process whose threads do what a seed says.  Each thread compares its own arrays with what it expects of
them; the process that watches sees crashes, hangs and memory that grows.
"""

from __future__ import annotations

import ctypes
import json
import os
import queue as queues
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

from tests.campaigns.outcome import Outcome, case_seeds

__all__ = ["run"]

ROOT = Path(__file__).parents[2]
#: Seconds of a case, and without any operation until it counts as hanging; operations may wait for compilations.
SECONDS, HANG = 45.0, 90.0
#: MiB that a process may grow by from the middle to the end of a case, for each kernel that it built meanwhile and at
#: all, and the kernels that tuning for a moment builds.
GROWTH_OF_KERNEL, GROWTH, BUILDS_OF_TUNING = 0.3, 24.0, 10

COUNT = """
func @count(%x: memref<i64x?>, %step: i64) {{
  %g = group_id
  %0 = load %x[%g] : memref<i64x?>
  %1 = arith.mul %0, {0} : i64
  %2 = arith.add %1, %step : i64
  store %2, %x[%g] : memref<i64x?>
}}"""
GEMM = """
func @gemm(%A: group<memref<f32x{0}x{0}>>, %B: memref<f32x{0}x{0}>, %C: memref<f32x{0}x{0}x?>) {{
  %g = group_id
  %a = load %A[%g] : group<memref<f32x{0}x{0}>>
  %c = subview %C[:,:,%g] : memref<f32x{0}x{0}x?>
  gemm.n.n 1.0, %a, %B, 1.0, %c : f32, memref<f32x{0}x{0}>, memref<f32x{0}x{0}>, f32, memref<f32x{0}x{0}>
}}"""


def run(seed: int, minutes: float, count: int | None = None) -> Outcome:
    """Run cases until `minutes` are over or `count` operations are done; a case is finished in any case."""
    end = time.monotonic() + 60 * minutes
    failures: list[str] = []
    counts: Counter[str] = Counter()
    notes: list[str] = []
    for case in case_seeds(seed):
        left = end - time.monotonic()
        if left <= 0 or (count is not None and sum(counts.values()) >= count) or len(failures) > 5:
            break
        result = _watch(case, min(SECONDS, max(5.0, left)))
        counts.update(result.operations)
        notes.append(result.note)
        if result.problem:
            failures.append(f"{result.problem}\npython -m tests.campaigns threads --seed {case} --count 1")
    text = ", ".join(f"{number} {what}" for what, number in counts.items())
    return Outcome(sum(counts.values()), tuple(failures), (text, f"memory grew by {', '.join(notes)}"))


class _Result:
    """What became of a case."""

    def __init__(self) -> None:
        self.operations: dict[str, int] = {}
        self.note = "?"
        self.problem = ""


def _watch(seed: int, seconds: float) -> _Result:
    """Run a case in a process and watch it."""
    result = _Result()
    with tempfile.TemporaryFile() as errors, tempfile.TemporaryDirectory(prefix="tl_dpnp-campaign-") as place:
        process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-c",
             f"from tests.campaigns.threads import child; child({seed}, {seconds})"],
            cwd=ROOT, env={**os.environ, "TL_DPNP_CACHE_DIR": str(Path(place, "cache"))}, text=True,
            stdout=subprocess.PIPE, stderr=errors,
        )
        lines: queues.Queue[str] = queues.Queue()
        reader = threading.Thread(target=_forward, args=(process.stdout, lines), daemon=True)
        reader.start()
        reports = _reports(lines, process)
        if process.wait() != 0 or not reports.done:
            errors.seek(0)
            text = errors.read().decode(errors="replace")[-6000:]
            result.problem = f"{reports.problem or 'dies'}, status {process.returncode}:\n{text}"
    result.operations = reports.operations
    grown = reports.growth()
    if grown is not None:
        megabytes, kernels = grown
        result.note = f"{megabytes:.1f} MiB"
        if megabytes > GROWTH + GROWTH_OF_KERNEL * kernels and not result.problem:
            result.problem = f"memory grew by {megabytes:.0f} MiB with {kernels} kernels built: {reports.memory}"
    return result


class _Reports:
    """What a process reported: operations by name, and (seconds, MiB, compilations, is warm) again and again."""

    def __init__(self) -> None:
        self.operations: dict[str, int] = {}
        self.memory: list[tuple[float, float, int, bool]] = []
        self.problem = ""
        self.done = False

    def growth(self) -> tuple[float, int] | None:
        """Return by how many MiB memory grew from the middle to the end, and the compilations meanwhile.

        What the first operation of each kind takes does not count: on a busy machine that may be the last one of all.
        """
        warm = [report for report in self.memory[len(self.memory) // 2 :] if report[3]]
        if len(warm) < 2:
            return None
        (_, before, first, _), (_, after, last, _) = warm[0], warm[-1]
        return after - before, last - first


def _forward(lines: Any, into: queues.Queue[str]) -> None:
    for line in lines:
        into.put(line)
    into.put("")


def _reports(lines: queues.Queue[str], process: subprocess.Popen[str]) -> _Reports:
    """Read what a process reports until its end; abort it where its operations do not get on."""
    reports = _Reports()
    changed, total = time.monotonic(), -1
    while True:
        try:
            line = lines.get(timeout=HANG)
        except queues.Empty:
            line = "{}"
        if not line:
            return reports
        report = json.loads(line)
        reports.operations = report.get("operations", reports.operations)
        if "memory" in report:
            reports.memory.append(tuple(report["memory"]))
        reports.done = report.get("done", False)
        reports.problem = reports.problem or report.get("problem", "")
        if sum(reports.operations.values()) != total:
            changed, total = time.monotonic(), sum(reports.operations.values())
        elif time.monotonic() - changed > HANG and not reports.problem:
            reports.problem = "hangs"
            process.send_signal(signal.SIGABRT)  # faulthandler shows where all threads are


# --- the process whose threads do it ---------------------------------------------------------------------------------


def child(seed: int, seconds: float) -> None:
    """Run the threads of a case for so long; write reports as lines of JSON."""
    warnings.simplefilter("error")
    rng = random.Random(seed)
    world = _World(seed)
    end = time.monotonic() + seconds
    workers = [_Worker(world, rng.randrange(2**32), end) for _ in range(rng.randint(2, 6))]
    for worker in workers:
        worker.start()
    start = time.monotonic()
    while any(worker.is_alive() for worker in workers) and not world.problems:
        time.sleep(1.0)
        built = world.counts["compile"] + BUILDS_OF_TUNING * world.counts["tune"]
        memory = (round(time.monotonic() - start, 1), _resident(), built, all(world.counts.values()))
        print(json.dumps({"operations": world.counts, "memory": memory}), flush=True)
    for worker in workers:
        worker.join(HANG if not world.problems else 5.0)
    problem = "; ".join(world.problems)
    print(json.dumps({"operations": world.counts, "done": not problem, "problem": problem}), flush=True)
    if problem:
        os._exit(1)


def _resident() -> float:
    """Return the memory of this process that lies in memory, in MiB, without what its allocator keeps for later.

    Each thread that compiles may have an arena of its own, and glibc gives back what is free in one only if asked.
    """
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


class _World:
    """What threads share: queues, kernels, a fused function, counts and problems."""

    def __init__(self, seed: int) -> None:
        import dpctl
        import dpctl.tensor

        import tl_dpnp
        from tl_dpnp.graph import recent
        from tl_dpnp.runtime.sycl import helpers, host_calls

        # The first use of dpctl's array functions (0.17) makes what they share: a thread that waits for another one to
        # have made it holds Python's lock, which that one needs, so that two first uses at once never end.
        dpctl.tensor.zeros(1)[...] = 1
        helpers.start(os.cpu_count() or 1)  # what is made once takes 19 MiB
        # Calls leave OpenCL early, or after as many as for users.
        host_calls.CALLS_BEFORE = recent.CALLS_BEFORE = random.Random(seed).choice((1, 2, 24))
        device = dpctl.select_default_device()
        self.queues = [dpctl.SyclQueue(device), dpctl.SyclQueue(device, property="in_order")]
        self.factors = (1, 2, 3, 5, 7, 11, -1, -4)
        self.kernels = [tl_dpnp.compile(COUNT.format(factor)) for factor in self.factors]
        self.products = {size: tl_dpnp.compile(GEMM.format(size)) for size in (3, 8, 16)}
        self.fused = tl_dpnp.fuse(_fused)
        self.counts: dict[str, int] = dict.fromkeys(_Worker.operations, 0)
        self.problems: list[str] = []


def _fused(x: Any, y: Any) -> Any:
    return (x @ y + x) * 2 - y


class _Worker(threading.Thread):
    """A thread that draws operations; what it computes on is its own, what it computes with may be shared."""

    operations: ClassVar[dict[str, int]] = {
        "call": 40, "submit": 20, "chain": 6, "wait": 10, "compile": 4, "group": 8, "record": 4, "fuse": 4, "array": 6,
        "drop": 3, "tune": 1,
    }  # fmt: skip

    def __init__(self, world: _World, seed: int, end: float) -> None:
        super().__init__(daemon=True)
        import dpctl

        self.world, self.rng, self.end = world, random.Random(seed), end
        device = dpctl.select_default_device()
        self.queues = [*world.queues, dpctl.SyclQueue(device)]
        self.kernels = list(zip(world.factors, world.kernels, strict=True))
        self.arrays = [_Array(self.rng, queue) for queue in self.queues]
        self.events: list[Any] = []

    def run(self) -> None:
        names, weights = list(self.operations), list(self.operations.values())
        try:
            while time.monotonic() < self.end and not self.world.problems:
                name = self.rng.choices(names, weights)[0]
                getattr(self, name)()
                self.world.counts[name] += 1
            for array in self.arrays:
                array.check()
        except BaseException as error:
            self.world.problems.append(f"{type(error).__name__}: {error}")
            raise

    def _pick(self) -> tuple[int, Any, _Array, int]:
        """Return a kernel with its factor, an array and a step."""
        factor, kernel = self.rng.choice(self.kernels)
        return factor, kernel, self.rng.choice(self.arrays), self.rng.randint(-9, 9)

    def call(self) -> None:
        """Call a kernel, which waits for all that was submitted."""
        factor, kernel, array, step = self._pick()
        kernel(array.device, step)
        array.expect(factor, step)

    def submit(self) -> None:
        """Submit a kernel after the last submission for its array."""
        factor, kernel, array, step = self._pick()
        array.event = kernel.submit(array.device, step, depends=[array.event] if array.event is not None else [])
        array.expect(factor, step)

    def chain(self) -> None:
        """Submit many kernels one after another and wait for the last."""
        *_, array, _ = self._pick()
        for _ in range(self.rng.randint(2, 30)):
            factor, kernel, _, step = self._pick()
            array.event = kernel.submit(array.device, step, depends=[array.event] if array.event is not None else [])
            array.expect(factor, step)
        self._wait_for(array)

    def wait(self) -> None:
        """Wait for an array in one of the ways, and compare it."""
        self._wait_for(self.rng.choice(self.arrays))

    def _wait_for(self, array: _Array) -> None:
        import tl_dpnp

        what = [array.device, array.device.sycl_queue]
        tl_dpnp.wait(self.rng.choice(what if array.event is None else [*what, array.event]))
        array.check()

    def compile(self) -> None:
        """Compile a kernel of another number, debug or form, call it, and keep it for a while."""
        import tl_dpnp

        factor = self.rng.randint(-40, 40)
        kernel = tl_dpnp.compile(COUNT.format(factor), cache=self.rng.random() < 0.7, debug=self.rng.random() < 0.2,
                                 form=self.rng.choice([None, "vector", "subgroup"]))
        array = self.rng.choice(self.arrays)
        kernel(array.device, 3)
        array.expect(factor, 3)
        self.kernels.append((factor, kernel))

    def drop(self) -> None:
        """Let go of kernels of one's own, which may be in flight."""
        shared = len(self.world.factors)
        del self.kernels[shared + self.rng.randint(0, 2):]

    def array(self) -> None:
        """Replace an array by a new one; submitted kernels may still write to the old one."""
        place = self.rng.randrange(len(self.arrays))
        if self.arrays[place].event is None:
            self.arrays[place].check()
        self.arrays[place] = _Array(self.rng, self.queues[place])

    def record(self) -> None:
        """Record calls as a graph and run it several times."""
        import tl_dpnp

        *_, array, _ = self._pick()
        steps = [self._pick() for _ in range(self.rng.randint(1, 5))]
        with tl_dpnp.record() as graph:
            for _, kernel, _, step in steps:
                kernel(array.device, step)
        for _ in range(self.rng.randint(1, 4)):
            graph()
            for factor, _, _, step in steps:
                array.expect(factor, step)

    def group(self) -> None:
        """Multiply the matrices of a new group and compare."""
        import numpy as np

        import tl_dpnp
        from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt

        queue, (size, kernel) = self.rng.choice(self.queues), self.rng.choice(list(self.world.products.items()))
        number = self.rng.randint(1, 40)
        draw = np.random.default_rng(self.rng.randrange(2**32))
        left, right = (draw.integers(-4, 5, (n, size, size)).astype("f4") for n in (number, 1))
        arrays = [_shared(dpt, queue, matrix.T) for matrix in left]
        B, C = _shared(dpt, queue, right[0]), _shared(dpt, queue, np.ones((size, size, number), "f4"))
        kernel(tl_dpnp.group(arrays) if self.rng.random() < 0.5 else arrays, B, C)
        expected = np.moveaxis(left.transpose(0, 2, 1) @ right[0], 0, -1) + 1
        self._compare(_host(C), expected, "group")

    def fuse(self) -> None:
        """Call the shared fused function on arrays of dpnp's own queue."""
        import dpnp
        import numpy as np

        size = self.rng.choice([4, 8])
        x, y = (np.full((size, size), self.rng.randint(-3, 3), "f4") for _ in range(2))
        result = self.world.fused(dpnp.asarray(x), dpnp.asarray(y))
        self._compare(dpnp.asnumpy(result), _fused(x, y), "fuse")

    def tune(self) -> None:
        """Tune a product of one's own for a moment."""
        import numpy as np

        import tl_dpnp
        from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt

        kernel = tl_dpnp.compile(GEMM.format(8), cache=False)
        A, B = (_shared(dpt, self.queues[-1], np.ones((8, 8), "f4")) for _ in range(2))
        C = _shared(dpt, self.queues[-1], np.zeros((8, 8, 3), "f4"))
        kernel.tune([A] * 3, B, C, budget=0.3, progress=False)
        kernel([A] * 3, B, C)
        self._compare(_host(C), np.full((8, 8, 3), 8, "f4"), "tune")

    def _compare(self, actual: Any, expected: Any, what: str) -> None:
        import numpy as np

        if not np.array_equal(actual, expected):
            raise AssertionError(f"{what} computes other numbers")


class _Array:
    """An array in shared memory, what it must hold when all is done, and the event of the last submission for it."""

    def __init__(self, rng: random.Random, queue: Any) -> None:
        import numpy as np

        from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt

        self.expected = np.full(rng.choice([1, 7, 1000, 40_000]), rng.randint(-5, 5), dtype=np.int64)
        self.device = _shared(dpt, queue, self.expected)
        self.event: Any = None

    def expect(self, factor: int, step: int) -> None:
        """Note that a kernel will have done its work."""
        self.expected = self.expected * factor + step

    def check(self) -> None:
        """Wait for the array and compare it."""
        import numpy as np

        import tl_dpnp

        tl_dpnp.wait(*([self.device] if self.event is None else [self.event]))
        self.event = None
        if not np.array_equal(_host(self.device), self.expected):
            raise AssertionError("an array has other numbers than its kernels computed")


def _shared(dpt: Any, queue: Any, values: Any) -> Any:
    """Return an array in shared memory that is filled by the host: copies would wait out of turn."""
    array = dpt.empty(values.shape, dtype=values.dtype, usm_type="shared", sycl_queue=queue, order="F")
    _host(array)[...] = values
    return array


def _host(array: Any) -> Any:
    """Return the NumPy view of an array in shared memory."""
    import numpy as np

    return np.ndarray(array.shape, array.dtype, array.usm_data, strides=[s * array.itemsize for s in array.strides])

