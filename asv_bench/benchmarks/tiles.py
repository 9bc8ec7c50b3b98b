"""Products of narrow types on the tiles of Intel's processors (AMX), beside the same on vectors and MKL's."""

from __future__ import annotations

import ctypes
import functools
import os
import random
from collections.abc import Callable
from typing import Any

from . import programs
from .contests import Contest, case_name, parse_case
from .tables import Shape
from .timing import Contestant

__all__ = ["CASES", "ERRORS", "drawn", "products"]

#: Shapes that are held to a target, and more that are drawn.
_NAMED = tuple(Shape(*map(int, text.split("x"))) for text in "32x32x32 64x64x64 16x16x64 128x128x128 35x9x35".split())
_SEED, _DRAWN, _LARGEST = 22, 10, 96
#: Types of operands and of results, by the name in a case; f32 as sums of three and of one bf16.
_TYPES = {"bf16": ("bf16", "f32", ""), "i8": ("i8", "i32", ""), "f32-high": ("f32", "f32", ".high"),
          "f32-default": ("f32", "f32", ".default")}
_BYTES = {"bf16": 2, "i8": 1, "f32": 4, "i32": 4}
#: Bytes of the operands of a launch, which holds each product so many times.
_MEGABYTES, _PASSES = 0.5, 64
#: Facts: the largest errors, ours and those of vectors, as parts of the largest element of the result.
ERRORS = ("error", "error of vectors")


def drawn(seed: int) -> tuple[str, ...]:
    """Return the named shapes and as many drawn ones as there are in all cases, of each type."""
    draw = random.Random(seed)
    shapes = tuple(Shape(*(draw.randint(1, _LARGEST) for _ in range(3))) for _ in range(_DRAWN))
    return tuple(case_name(shape, name) for name in _TYPES for shape in (*_NAMED, *shapes))


CASES = drawn(_SEED)


def products(case: str) -> Contest:
    """One core; groups of separate arrays of 0.5 MB in all, in its second-level cache, each 64 times in a launch.

    The peers are tl_dpnp's own kernels with TL_DPNP_AMX=off, and for bf16 MKL's gemm_bf16bf16f32, called in a loop of
    machine code.  Arrays are aligned to cache lines.  A processor without AMX computes both alike."""
    import numpy as np

    import tl_dpnp
    from tl_dpnp import config
    from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt

    name, shape, _ = parse_case(case)
    element, result, precision = _TYPES[name]
    m, n, k = shape
    types = {"A": f"{element}x{m}x{k}", "B": f"{element}x{k}x{n}", "C": f"{result}x{m}x{n}"}
    one, zero = ("1.0", "0.0") if result == "f32" else ("1", "0")
    source = programs.batched(types, f"gemm.n.n{precision} {one}, %a, %b, {zero}, %c : {result}, memref<{types['A']}>, "
                              f"memref<{types['B']}>, {result}, memref<{types['C']}>", groups=True)
    size = _BYTES[element] * (m * k + k * n) + _BYTES[result] * m * n
    batch = max(1, int(_MEGABYTES * 1e6) // size)
    numbers = np.random.default_rng(_SEED)
    host = [_drawn_numbers(numbers, element, (batch, *sizes)) for sizes in ((k, m), (n, k))]
    arrays = [[_aligned(matrix) for matrix in stored] for stored, _ in host]
    arrays.append([_aligned(np.zeros((n, m), np.float32 if result == "f32" else np.int32)) for _ in range(batch)])
    groups = [tl_dpnp.group([tl_dpnp.rev(array) for array in each] * _PASSES) for each in arrays]
    exact = host[1][1] @ host[0][1]
    contestants, errors = {}, []
    for who, setting in (("tl_dpnp", "auto"), ("vectors", "off")):
        with config.scope(AMX=setting):
            kernel = tl_dpnp.compile(source)
        kernel(*groups)
        found = np.stack([dpt.to_numpy(array) for array in arrays[2]])
        errors.append(float(np.abs(found - exact).max() / np.abs(exact).max()))
        contestants[who] = Contestant(functools.partial(kernel, *groups), _PASSES)
    if name == "bf16" and (call := _mkl(arrays, shape)) is not None:
        contestants["mkl"] = Contestant(call)
    return Contest(contestants, shape.flops * batch, size * batch, facts=dict(zip(ERRORS, errors, strict=True)))


def _drawn_numbers(numbers: Any, element: str, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Return numbers as they are stored, and as f64."""
    import numpy as np

    if element == "i8":
        stored = numbers.integers(-128, 128, shape, dtype=np.int8)
        return stored, stored.astype(float)
    stored = numbers.standard_normal(shape).astype(np.float32)
    if element == "bf16":
        stored = (stored.view(np.uint32) >> 16).astype(np.uint16)
        return stored, (stored.astype(np.uint32) << 16).view(np.float32).astype(float)
    return stored, stored.astype(float)


def _aligned(matrix: Any) -> Any:
    """Return a copy of a matrix on the device, which begins at a cache line."""
    from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt

    array = dpt.asarray(matrix)
    assert array.usm_data._pointer % 64 == 0
    return array


def _mkl(arrays: list[list[Any]], shape: Shape) -> Callable[[], None] | None:
    """Return a call that multiplies the batch by MKL, None where that is not loaded, as dpnp does."""
    try:
        library = ctypes.CDLL("libmkl_intel_ilp64.so.2", mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        address = ctypes.cast(library.cblas_gemm_bf16bf16f32, ctypes.c_void_p).value
    except (OSError, AttributeError):
        return None
    tables = [(ctypes.c_int64 * len(each))(*(array.usm_data._pointer for array in each)) for each in arrays]
    loop, count = _loop(), len(arrays[0])

    def call() -> None:
        loop(address, count, *(ctypes.addressof(table) for table in tables), *shape)

    return call


_LOOP = """
define void @loop(i64 %function, i64 %count, i64* %a, i64* %b, i64* %c, i64 %m, i64 %n, i64 %k) {
entry:
  %gemm = inttoptr i64 %function to void (i32, i32, i32, i64, i64, i64, float, i64, i64, i64, i64, float, i64, i64)*
  br label %next
next:
  %i = phi i64 [0, %entry], [%following, %next]
  %pa = getelementptr i64, i64* %a, i64 %i
  %pb = getelementptr i64, i64* %b, i64 %i
  %pc = getelementptr i64, i64* %c, i64 %i
  %left = load i64, i64* %pa
  %right = load i64, i64* %pb
  %result = load i64, i64* %pc
  call void %gemm(i32 102, i32 111, i32 111, i64 %m, i64 %n, i64 %k, float 1.0, i64 %left, i64 %m, i64 %right, i64 %k,
    float 0.0, i64 %result, i64 %m)
  %following = add i64 %i, 1
  %more = icmp ult i64 %following, %count
  br i1 %more, label %next, label %done
done:
  ret void
}
"""


@functools.cache
def _loop() -> Any:
    """Return the loop over the batch as machine code: one from Python would take longer than small products."""
    import llvmlite.binding as llvm

    llvm.initialize()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(_LOOP)
    engine = llvm.create_mcjit_compiler(module, llvm.Target.from_default_triple().create_target_machine(opt=2))
    engine.finalize_object()
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 8)(engine.get_function_address("loop"))
    function.engine = engine
    return function
