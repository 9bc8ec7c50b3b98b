"""The same work for tl_dpnp and its peers, on arrays that all of them find in their best layout, and checked.

The language is column-major: a batch of matrices is the reverse of a C-ordered array of their transposes, and
C = A · B is Cᵀ = Bᵀ · Aᵀ in that array.  Nobody copies anything.
"""

from __future__ import annotations

import itertools
import math
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

from . import programs
from .tables import COMPLEX, ITEMSIZE, Shape

__all__ = ["Chain", "Gemm", "Groups", "Launch", "Tuned", "Workload"]

_TOLERANCE = {"f32": 1e-3, "f64": 1e-9, "c32": 1e-3, "c64": 1e-9}


def _random(shape: tuple[int, ...], element: str) -> Any:
    """Return random numbers between -1 and 1, the same ones again after a while where there are very many.

    Those that are complex have such parts.
    """
    import numpy as np

    rng, size = np.random.default_rng(0), min(math.prod(shape), 1 << 20)
    block = rng.uniform(-1, 1, size)
    if element in COMPLEX:
        block = block + 1j * rng.uniform(-1, 1, size)
    return np.resize(block.astype(f"{'c' if element in COMPLEX else 'f'}{ITEMSIZE[element]}"), shape)


class Workload:
    """A kernel with its arguments, and the same batch for the peers.

    `operands` maps names to shapes of one element of the batch, as in the language; the first mode is the fastest.
    `shared` operands have no batch.  The `output` starts as NaN where it is only written.  One call of `tl_dpnp`
    does the batch `passes` times.  With `arrays_of` another workload on the same operands it uses its arrays: where
    those lie in memory can count for as much as what is compared.
    """

    flops: int
    #: Compulsory traffic of one call, and what of it is written.
    bytes: int
    written: int

    def __init__(
        self, source: str, operands: Mapping[str, tuple[int, ...]], output: str, element: str, batch: int, *,
        shared: Mapping[str, tuple[int, ...]] | None = None, reads_output: bool = False, passes: int = 1,
        scalars: tuple[float, ...] = (), arrays_of: Workload | None = None,
    ) -> None:
        import dpnp
        import numpy as np

        import tl_dpnp

        self.batch, self.passes, self.element = batch, passes, element
        self._output, self._reads_output = output, reads_output
        shapes = {name: (batch, *reversed(shape)) for name, shape in operands.items()}
        shapes |= {name: tuple(reversed(shape)) for name, shape in (shared or {}).items()}
        if arrays_of is None:
            self.host = {name: _random(shape, element) for name, shape in shapes.items()}
            self.device = {name: dpnp.asarray(array) for name, array in self.host.items()}
        else:
            self.host, self.device = arrays_of.host, arrays_of.device
        if not reads_output:
            self.host[output].fill(np.nan)
        self.queue = self.device[output].sycl_queue
        self.kernel = tl_dpnp.compile(source)
        self._arguments = (*scalars, *self._kernel_arguments())
        elements = {name: math.prod(shape) for name, shape in shapes.items()}
        self.written = ITEMSIZE[element] * elements[output]
        self.bytes = ITEMSIZE[element] * sum(elements.values()) + reads_output * self.written

    def _kernel_arguments(self) -> tuple[Any, ...]:
        import tl_dpnp

        return tuple(map(tl_dpnp.rev, self.device.values()))

    def tl_dpnp(self) -> None:
        """Run the compiled kernel."""
        self.kernel(*self._arguments, group_size=None if self.passes == 1 else self.passes)

    def compute(self, xp: Any, arrays: dict[str, Any]) -> None:
        """Do the work once with a package that has NumPy's functions, on its arrays."""
        raise NotImplementedError

    def numpy(self) -> None:
        """Do the work once with NumPy."""
        import numpy

        self.compute(numpy, self.host)

    def dpnp(self) -> None:
        """Do the work once with dpnp."""
        import dpnp

        self.compute(dpnp, self.device)
        self.queue.wait()

    def check(self) -> None:
        """Compare the kernel's result with NumPy's; raises `AssertionError` where they differ."""
        self._compare(lambda: self.kernel(*self._arguments, group_size=None if self.passes == 1 else 1))

    def check_dpnp(self) -> None:
        """The same for dpnp's result."""
        self._compare(self.dpnp)

    def _compare(self, call: Callable[[], object]) -> None:
        """Compare what a call leaves in the output on the device with what NumPy leaves in its own."""
        import dpnp
        import numpy as np

        if not self._reads_output:
            self.device[self._output][...] = float("nan")  # dpnp's fill runs over the elements in Python
        call()
        self.numpy()
        tolerance = _TOLERANCE[self.element]
        np.testing.assert_allclose(dpnp.asnumpy(self.device[self._output]), self.host[self._output],
                                   rtol=tolerance, atol=tolerance * math.sqrt(self.flops / self.batch))


class Gemm(Workload):
    """C := op(A) · op(B) + beta C; the sizes of a `dynamic` one are known at run time only.

    Of complex products, the `flops` are real operations: four real products and their sums.
    """

    def __init__(
        self, shape: Shape, element: str = "f32", *, megabytes: float = 0.0, batch: int = 0, passes: int = 1,
        transposes: str = "n.n", beta: float = 0.0, dynamic: bool = False, looped: bool = False,
        arrays_of: Gemm | None = None,
    ) -> None:
        m, n, k = shape
        a, b = ((m, k), (k, m))[transposes[0] == "t"], ((k, n), (n, k))[transposes[2] == "t"]
        itemsize = ITEMSIZE[element]
        batch = batch or max(1, int(megabytes * 1e6) // (itemsize * (m * k + k * n + m * n)))
        source = programs.gemm(m, n, k, element, transposes, beta, dynamic, looped=looped)
        super().__init__(source, {"A": a, "B": b, "C": (m, n)}, "C", element, batch, passes=passes,
                         reads_output=beta != 0, arrays_of=arrays_of)
        self.flops = shape.flops * batch * (4 if element in COMPLEX else 1)
        self.shape = shape
        self._transposes, self._beta = transposes, beta
        self.check()

    def _operands(self, arrays: dict[str, Any]) -> tuple[Any, Any, Any]:
        a, b = (
            arrays[name].swapaxes(1, 2) if transpose == "t" else arrays[name]
            for name, transpose in zip("AB", self._transposes.split("."), strict=True)
        )
        return a, b, arrays["C"]

    def compute(self, xp: Any, arrays: dict[str, Any]) -> None:
        """Stacked matrix products into C; with beta, a sum that makes a temporary."""
        a, b, c = self._operands(arrays)
        if self._beta:
            xp.add(xp.matmul(b, a), self._beta * c if self._beta != 1 else c, out=c)
        else:
            xp.matmul(b, a, out=c)

    @classmethod
    def lasting(cls, shape: Shape, element: str, seconds: float, start_megabytes: float = 8.0) -> Gemm:
        """Return the batch, of one product at least, that a call of tl_dpnp takes about `seconds` for."""
        workload = cls(shape, element, megabytes=start_megabytes)
        for _ in range(3):
            batch = max(1, round(workload.batch * seconds / _quickest(workload.tl_dpnp)))
            if abs(batch - workload.batch) <= 0.05 * workload.batch:
                break
            workload = cls(shape, element, batch=batch)
        return workload


def _quickest(call: Callable[[], object], calls: int = 30) -> float:
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return sorted(times)[calls // 4]


class Chain(Workload):
    """D := D + alpha A · Bᵀ · C for 16 × 8, 8 × 8 and 8 × 16 matrices in f32; B and C are the same for the batch.

    With more than one pass, A and D are groups that hold each matrix of the batch so many times.
    """

    _ALPHA = 0.125

    def __init__(self, megabytes: float, passes: int = 1) -> None:
        source = programs.batched(
            {"A": "f32x16x8", "D": "f32x16x16"},
            f"""
            %t = alloca -> memref<f32x16x8>
            gemm.n.t 1.0, %a, %B, 0.0, %t : f32, memref<f32x16x8>, memref<f32x8x8>, f32, memref<f32x16x8>
            gemm.n.n {self._ALPHA}, %t, %C, 1.0, %d : f32, memref<f32x16x8>, memref<f32x8x16>, f32, memref<f32x16x16>
            """,
            shared={"B": "f32x8x8", "C": "f32x8x16"}, groups=passes > 1,
        )
        batch = int(megabytes * 1e6) // (4 * (16 * 8 + 16 * 16))
        super().__init__(source, {"A": (16, 8), "D": (16, 16)}, "D", "f32", batch, reads_output=True, passes=passes,
                         shared={"B": (8, 8), "C": (8, 16)})
        self.flops = 2 * (16 * 8 * 8 + 16 * 16 * 8) * batch
        self.check()

    def _kernel_arguments(self) -> tuple[Any, ...]:
        import tl_dpnp

        arguments = {name: tl_dpnp.rev(array) for name, array in self.device.items()}
        if self.passes > 1:
            for name in "AD":
                arguments[name] = tl_dpnp.group([tl_dpnp.rev(matrix) for matrix in self.device[name]] * self.passes)
        return tuple(arguments.values())

    def tl_dpnp(self) -> None:
        """Run the compiled kernel."""
        self.kernel(*self._arguments)

    def check(self) -> None:
        """Compare the kernel's result with NumPy's; raises `AssertionError` where they differ."""
        self._compare(lambda: self.kernel(*self._arguments, group_size=self.batch))

    def compute(self, xp: Any, arrays: dict[str, Any]) -> None:
        """One product with the small factors multiplied first would be another computation: two products and a sum."""
        a, b, c, d = (arrays[name] for name in "ABCD")
        product = xp.matmul(c, xp.matmul(b.T, a))
        xp.add(d, xp.multiply(product, self._ALPHA), out=d)


class Groups(Gemm):
    """A batch of separate arrays that share an allocation, through handles that were made once."""

    def __init__(self, shape: Shape, element: str, batch: int) -> None:
        super().__init__(shape, element, batch=batch)
        import tl_dpnp

        self._strided = self.kernel, self._arguments
        self.kernel = tl_dpnp.compile(programs.gemm(*shape, element, groups=True))
        self._arguments = tuple(self._together(name) for name in "ABC")
        self._apart = tuple(self._one_by_one(name) for name in "ABC")
        self.tl_dpnp()
        self.apart()
        for arguments in (self._arguments, self._apart):
            self._check_group(arguments[2])

    def _together(self, name: str) -> Any:
        import tl_dpnp

        group = tl_dpnp.empty_group([matrix.T.shape for matrix in self.host[name]], self.host[name].dtype)
        for array, matrix in zip(group, self.device[name], strict=True):
            array[...] = tl_dpnp.rev(matrix)
        return group

    def _one_by_one(self, name: str) -> Any:
        import dpnp

        import tl_dpnp

        return tl_dpnp.group([tl_dpnp.rev(dpnp.asarray(matrix)) for matrix in self.host[name]])

    def _check_group(self, arrays: Any) -> None:
        import dpnp
        import numpy as np

        result = np.stack([dpnp.asnumpy(array).T for array in arrays])
        np.testing.assert_allclose(result, self.host["C"], rtol=1e-3, atol=1e-3)

    def apart(self) -> None:
        """The same kernel with arrays that were allocated one by one."""
        self.kernel(*self._apart)

    def strided(self) -> None:
        """The same batch in one array."""
        kernel, arguments = self._strided
        kernel(*arguments)


class Tuned(Gemm):
    """A batch of products before and after tuning; with `dynamic`, of a program that knows no sizes."""

    def __init__(self, shape: Shape, element: str, megabytes: float, seconds: float, dynamic: bool) -> None:
        super().__init__(shape, element, megabytes=megabytes)
        import tl_dpnp
        from tl_dpnp import config

        source = programs.gemm(*shape, element, dynamic=dynamic)
        self._default = tl_dpnp.compile(source, tuned=False)
        # A result is for a program, whatever the sizes of its arrays: each case begins with an empty cache.
        with tempfile.TemporaryDirectory() as folder, config.scope(CACHE_DIR=folder, TUNED=True):
            self.kernel = tl_dpnp.compile(source)
            report = self.kernel.tune(*self._arguments, budget=seconds, progress=False)
            self.check()
        self.facts = {"reported": report.gain, "tried": float(len(report.tried))}

    def default(self) -> None:
        """The same with the default schedule."""
        self._default(*self._arguments)


class Launch:
    """A call of a compiled kernel with next to nothing to do, and one of dpnp.matmul with one 32 × 32 product."""

    flops = bytes = 0

    def __init__(self) -> None:
        import dpnp

        import tl_dpnp

        self._x, self._y = (dpnp.ones(16, dtype=dpnp.float32) for _ in range(2))
        self._kernel = tl_dpnp.compile(programs.TRIVIAL)
        self._matrix, self._out = (dpnp.ones((32, 32), dtype=dpnp.float32) for _ in range(2))
        self._matmul, self._queue = dpnp.matmul, self._out.sycl_queue

    def tl_dpnp(self) -> None:
        """Call the kernel and wait."""
        self._kernel(self._x, self._y)

    def submit(self) -> None:
        """Start the kernel, and wait for its event."""
        self._kernel.submit(self._x, self._y).wait()

    def recorded(self, kernels: int) -> Callable[[], None]:
        """Return a graph of so many calls of the kernel, each of which waits for the one before."""
        import tl_dpnp

        with tl_dpnp.record() as graph:
            for _ in range(kernels):
                self.tl_dpnp()
        return graph

    def of_lists(self, arrays: int, lists: int) -> Callable[[], None]:
        """Return a call of a kernel with a list of so many arrays, one of so many lists in turns."""
        import dpnp

        import tl_dpnp

        kernel, y = tl_dpnp.compile(programs.TRIVIAL_OF_GROUPS), dpnp.zeros((16, arrays), dtype="f4", order="F")
        given = itertools.cycle([[dpnp.ones(16, dtype="f4") for _ in range(arrays)] for _ in range(lists)])
        return lambda: kernel(next(given), y)

    def dpnp(self) -> None:
        """Multiply two matrices."""
        self._matmul(self._matrix, self._matrix, out=self._out)
        self._queue.wait()
