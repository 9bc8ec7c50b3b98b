"""Batches of small products of any shape on the GPU, beside a copy of as many bytes and ``torch.bmm``.

All cubes from 3 to 64, and shapes drawn by a seed with their transposes and beta.  Kernels are compiled by several
processes before; results are compared with float64 for a sample of the batch before anything is timed.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import random
import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

import tl_dpnp

__all__ = ["ELEMENTS", "Case", "Found", "cases_of", "sweep"]

#: Types of operands, and of results.
ELEMENTS = {"f32": "f32", "f64": "f64", "bf16": "f32"}
_TORCH = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16}
#: Relative errors that a result may have: the norm of the difference over that of the product in float64.
_TOLERANCES = {"f32": 1e-6, "f64": 1e-14, "bf16": 1e-6}
_LEAST, _MOST, _DRAWN = 3, 64, 60
#: The cubes that are reported together.
_RANGES = ((3, 16), (17, 32), (33, 48), (49, 64))
#: Bytes that each case moves, rounds that are timed, and those before.
_BYTES, _ROUNDS, _WARM_UP = 400_000_000, 7, 2
#: Products of the beginning, the end, and drawn ones that are checked.
_SAMPLE = 200


@dataclass(frozen=True)
class Case:
    """One product: C := op(A) op(B) + beta C for matrices of m x k and k x n."""

    element: str
    m: int
    n: int
    k: int
    transposes: str = "n.n"
    beta: int = 0

    @property
    def result(self) -> str:
        """The type of C."""
        return ELEMENTS[self.element]

    @property
    def bytes(self) -> int:
        """Bytes that one product moves."""
        own, result = (_TORCH[name].itemsize for name in (self.element, self.result))
        return (self.m * self.k + self.k * self.n) * own + (1 + self.beta) * self.m * self.n * result

    @property
    def source(self) -> str:
        """The program."""
        rows, columns = ((self.m, self.k)[:: -1 if self.transposes[0] == "t" else 1],
                         (self.k, self.n)[:: -1 if self.transposes[2] == "t" else 1])
        a, b, c = (f"{name}x{r}x{s}" for name, (r, s) in (
            (self.element, rows), (self.element, columns), (self.result, (self.m, self.n))))
        types = f"{self.result}, memref<{a}>, memref<{b}>, {self.result}, memref<{c}>"
        return f"""func @product(%A: memref<{a}x?>, %B: memref<{b}x?>, %C: memref<{c}x?>) {{
          %g = group_id
          %a = subview %A[:,:,%g] : memref<{a}x?>
          %b = subview %B[:,:,%g] : memref<{b}x?>
          %c = subview %C[:,:,%g] : memref<{c}x?>
          gemm.{self.transposes} 1.0, %a, %b, {self.beta}.0, %c : {types}
        }}"""

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k} {self.transposes} beta {self.beta}"


@dataclass(frozen=True)
class Found:
    """The bandwidth of a case as a share of the copy's, its speed as a multiple of torch.bmm's, and how it runs."""

    case: Case
    microseconds: float
    copy: float
    bmm: float
    error: float
    plan: str


def cases_of(element: str, seed: int) -> list[Case]:
    """Return the cubes and the drawn shapes of a type; the same seed draws the same."""
    cubes = [Case(element, size, size, size) for size in range(_LEAST, _MOST + 1)]
    drawn = random.Random(f"{seed} {element}")
    return cubes + [Case(element, *(drawn.randint(_LEAST, _MOST) for _ in "mnk"),
                         drawn.choice(("n.n", "t.n", "n.t")), drawn.randint(0, 1)) for _ in range(_DRAWN)]


def sweep(elements: Sequence[str], seed: int, processes: int, table: str | None = None) -> bool:
    """Time the cases of some types and print how they are distributed; return whether all results were right."""
    cases = [case for element in elements for case in cases_of(element, seed)]
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(_compile, cases, chunksize=4))
    found = [_measured(case) for case in cases]
    if table is not None:
        Path(table).write_text("".join(f"{json.dumps(asdict(each))}\n" for each in found))
    print(f"sweep, seed {seed}: {_BYTES / 1e9:g} GB a case, medians of {_ROUNDS} rounds in turns")
    for element in elements:
        own = [each for each in found if each.case.element == element]
        cubes, drawn = own[: _MOST - _LEAST + 1], own[_MOST - _LEAST + 1 :]
        parts = {f"cubes {first} to {last}": [each for each in cubes if first <= each.case.m <= last]
                 for first, last in _RANGES}
        for title, some in (parts | {"all cubes": cubes, f"{_DRAWN} drawn shapes": drawn, "all": own}).items():
            _report(f"{element} -> {ELEMENTS[element]}, {title}", some)
        worst = sorted(own, key=lambda each: each.copy)[:10]
        print("  least of the copy:  " + "; ".join(f"{each.case} {each.copy:.2f}" for each in worst))
        worst = sorted(own, key=lambda each: each.bmm)[:10]
        print("  least of torch.bmm: " + "; ".join(f"{each.case} {each.bmm:.2f}" for each in worst), flush=True)
    wrong = [each for each in found if not each.error <= _TOLERANCES[each.case.element]]
    for each in wrong:
        print(f"WRONG: {each.case.element} {each.case}: error {each.error:.1e}")
    return not wrong


def _compile(case: Case) -> None:
    """Compile and load a kernel, which leaves its machine code in the cache."""
    kernel = tl_dpnp.compile(case.source, target="cuda")
    kernel(*map(tl_dpnp.rev, _operands(case, 1)))
    torch.cuda.synchronize()


def _operands(case: Case, count: int) -> list[torch.Tensor]:
    """Return A and B of random numbers, and C of NaN, or of random numbers where beta is 1."""
    dtype, out = _TORCH[case.element], _TORCH[case.result]
    # What has its columns along memory is to PyTorch a C-ordered transpose.
    shapes = [(case.k, case.m), (case.n, case.k)]
    a, b = (torch.randn(count, *(shape if flag == "n" else shape[::-1]), device="cuda", dtype=torch.float32).to(dtype)
            for shape, flag in zip(shapes, case.transposes[::2], strict=True))
    c = torch.full((count, case.n, case.m), float("nan"), device="cuda", dtype=out)
    return [a, b, c.normal_() if case.beta else c]


def _report(title: str, found: Sequence[Found]) -> None:
    parts = []
    for name, values, limits in (("of the copy", [each.copy for each in found], (0.8, 0.65)),
                                 ("of torch.bmm", [each.bmm for each in found], (0.95,))):
        mean = math.exp(statistics.fmean(map(math.log, values)))
        under = ", ".join(f"{sum(value < limit for value in values)} under {limit}" for limit in limits)
        parts.append(f"{mean:.2f} {name} (least {min(values):.2f}; {under})")
    print(f"{title}: {len(found)} cases, geometric mean {', '.join(parts)}")


def _measured(case: Case) -> Found:
    """Check a case and time it."""
    count = _BYTES // case.bytes
    a, b, c = _operands(case, count)
    left, right = (x if flag == "n" else x.transpose(1, 2)
                   for x, flag in zip((a, b), case.transposes[::2], strict=True))
    some = torch.cat([torch.arange(min(_SAMPLE, count)), torch.randint(count, (_SAMPLE,)),
                      torch.arange(max(0, count - _SAMPLE), count)]).unique().to("cuda")
    expected = torch.bmm(right[some].double(), left[some].double())
    if case.beta:
        expected += c[some].double()
    kernel = tl_dpnp.compile(case.source, target="cuda")
    views = [tl_dpnp.rev(array) for array in (a, b, c)]
    kernel(*views)
    error = float((c[some].double() - expected).norm() / expected.norm())
    if bool(torch.isnan(c).any()):
        error = float("nan")
    source = torch.empty(case.bytes * count // 8, device="cuda").normal_()
    target = torch.empty_like(source)
    times = _interleaved([lambda: kernel(*views), lambda: target.copy_(source), _peer(case, left, right, c)])
    ours, copy, bmm = times
    (plan, *_), = (text.splitlines() for text in kernel.inspect_source().values())
    return Found(case, ours * 1e6, copy / ours, bmm / ours, error, plan)


def _peer(case: Case, left: torch.Tensor, right: torch.Tensor, c: torch.Tensor) -> Callable[[], Any]:
    """Return PyTorch's product of as many bytes."""
    if case.beta and case.element == case.result:
        return lambda: torch.baddbmm(c, right, left, out=c)
    if case.beta:
        return lambda: torch.baddbmm(c, right, left, out_dtype=c.dtype)
    if case.element == case.result:
        other = torch.empty_like(c)
        return lambda: torch.bmm(right, left, out=other)
    return lambda: torch.bmm(right, left, out_dtype=c.dtype)


def _interleaved(candidates: Sequence[Callable[[], Any]]) -> list[float]:
    """Return the median seconds of candidates that take turns, all queued before the first is waited for."""
    samples: list[list[Any]] = [[] for _ in candidates]
    for round_ in range(_ROUNDS + _WARM_UP):
        for own, run in zip(samples, candidates, strict=True):
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            run()
            stop.record()
            if round_ >= _WARM_UP:
                own.append((start, stop))
    torch.cuda.synchronize()
    return [statistics.median(start.elapsed_time(stop) for start, stop in own) * 1e-3 for own in samples]
