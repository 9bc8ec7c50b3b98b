"""What calls cost on the host of a GPU: ``python -m asv_bench.cuda_calls``.

Microseconds until a call returns, medians and minima of 7 rounds in turns, of kernels that take no longer than that:
arrays in C order, fused functions of PyTorch, and of CuPy where that is installed, and groups of 1000 tensors in the
ways in which they can be given.  Needs PyTorch and a GPU.
"""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

import tl_dpnp

_ROUNDS, _WARM_UP, _TENSORS, _LISTS = 7, 3, 1000, 31

_TYPES = "f32, memref<f32x8x8>, memref<f32x8x8>, f32, memref<f32x8x8>"
BATCH = f"""func @batch(%A: memref<f32x8x8x?>, %B: memref<f32x8x8x?>, %C: memref<f32x8x8x?>) {{
  %g = group_id
  %a = subview %A[:,:,%g] : memref<f32x8x8x?>
  %b = subview %B[:,:,%g] : memref<f32x8x8x?>
  %c = subview %C[:,:,%g] : memref<f32x8x8x?>
  gemm.n.n 1.0, %a, %b, 0.0, %c : {_TYPES}
}}"""
GROUPS = f"""func @groups(%A: group<memref<f32x8x8>>, %B: group<memref<f32x8x8>>, %C: group<memref<f32x8x8>>) {{
  %g = group_id
  %a = load %A[%g] : group<memref<f32x8x8>>
  %b = load %B[%g] : group<memref<f32x8x8>>
  %c = load %C[%g] : group<memref<f32x8x8>>
  gemm.n.n 1.0, %a, %b, 0.0, %c : {_TYPES}
}}"""


def _report(calls: Mapping[str, tuple[Callable[[], Any], int]]) -> None:
    """Print the microseconds of calls, which take turns; each has so many of them a round.

    The device has done all of a round before the next one.
    """
    for call, _ in calls.values():
        for _ in range(_WARM_UP):
            call()
    rounds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(_ROUNDS):
        for name, (call, count) in calls.items():
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(count):
                call()
            rounds[name].append((time.perf_counter() - begin) / count * 1e6)
    for name, found in rounds.items():
        print(f"{name}: {statistics.median(found):.1f} (least {min(found):.1f})", flush=True)


def _list() -> list[torch.Tensor]:
    return tl_dpnp.rev([torch.ones(8, 8, device="cuda") for _ in range(_TENSORS)])  # type: ignore[no-any-return]


def _step(a: torch.Tensor, k: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    return k @ (q @ a) * 2.0 + q


def _report_cupy() -> None:
    """Print a line for each kind of call with CuPy's arrays."""
    import cupy

    def step(a: Any, k: Any, q: Any) -> Any:
        return cupy.matmul(k, cupy.matmul(q, a)) * 2.0 + q

    a, b, c = (cupy.ones((100, 8, 8), "f4") for _ in range(3))
    fused, bound = tl_dpnp.fuse(step), tl_dpnp.fuse(lambda a, b: cupy.matmul(cupy.matmul(b, c), a) * 2.0)
    _report({
        "a fused function of CuPy's arrays": (lambda: fused(a, b, c), 1000),
        "the same with an array from outside": (lambda: bound(a, b), 1000),
        "the same function in CuPy": (lambda: step(a, b, c), 1000),
        "cupy.add": (lambda: cupy.add(a, b), 1000),
        "cupy.empty_like": (lambda: cupy.empty_like(a), 1000),
    })


def main() -> None:
    """Print a line for each kind of call."""
    kernel = tl_dpnp.compile(BATCH, target="cuda")
    a, b, c = (torch.ones(100, 8, 8, device="cuda") for _ in range(3))
    views = tl_dpnp.rev([a, b, c])
    rev = tl_dpnp.rev
    _report({
        "views that were made before": (lambda: kernel(*views), 1000),
        "three calls of rev": (lambda: kernel(rev(a), rev(b), rev(c)), 1000),
        "in C order": (lambda: kernel.in_c_order(a, b, c), 1000),
        "torch.bmm": (lambda: torch.bmm(a, b), 1000),
    })
    fused = tl_dpnp.fuse(_step)
    inductor, eager = (torch.compile(_step, backend=backend) for backend in ("inductor", "eager"))
    with torch.no_grad():
        _report({
            "a fused function": (lambda: fused(a, b, c), 1000),
            "the same by way of Dynamo": (lambda: fused.of("torch")._traced((a, b, c), {}), 1000),
            "by Inductor": (lambda: inductor(a, b, c), 1000),
            "by Dynamo alone": (lambda: eager(a, b, c), 1000),
            "torch.add": (lambda: torch.add(a, b), 1000),
            "torch.empty_like": (lambda: torch.empty_like(a), 1000),
        })
    if importlib.util.find_spec("cupy") is not None:
        _report_cupy()
    grouped = tl_dpnp.compile(GROUPS, target="cuda")
    lists = [_list() for _ in range(3)]
    groups = [tl_dpnp.group(each) for each in lists]
    pointers = [torch.tensor([tensor.data_ptr() for tensor in each], device="cuda") for each in lists]
    others = iter([[_list() for _ in range(3)] for _ in range(_LISTS)])
    _report({
        "groups": (lambda: grouped(*groups), 500),
        "vectors of pointers": (lambda: grouped(*pointers), 500),
        "lists that were seen before": (lambda: grouped(*lists), 20),
        "lists of other tensors": (lambda: grouped(*next(others)), (_LISTS - _WARM_UP) // _ROUNDS),
        "making a group": (lambda: tl_dpnp.group(lists[0]), 20),
        "reading the addresses of one list": (lambda: [tensor.data_ptr() for tensor in lists[0]], 100),
    })


if __name__ == "__main__":
    main()
