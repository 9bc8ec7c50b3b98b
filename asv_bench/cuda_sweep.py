"""Batches of small products of any shape on the GPU, beside a copy of as many bytes and ``torch.bmm``.

All cubes from 3 to 64, products of the coefficients of elements with 9 quantities, and shapes drawn by a seed from two
ranges of sizes, with their transposes and beta.  Kernels are compiled by several processes before; results are compared
with float64 for a sample of the batch before anything is timed.
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

__all__ = ["ELEMENTS", "TOLERANCES", "TORCH", "Case", "Found", "cases_of", "sweep"]

#: Types of operands and of results, by the names of the options.
ELEMENTS = {
    "f32": ("f32", "f32"), "f64": ("f64", "f64"), "bf16": ("bf16", "f32"), "bf16-bf16": ("bf16", "bf16"),
    "f16": ("f16", "f16"), "c32": ("c32", "c32"), "c64": ("c64", "c64"),
}
#: PyTorch's types, by their names in the language.
TORCH = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16,
         "c32": torch.complex64, "c64": torch.complex128}
#: Relative errors that a result may have, by its type: the norm of the difference over that of the product in float64.
TOLERANCES = {"f32": 1e-6, "f64": 1e-14, "bf16": 2.0**-9, "f16": 2.0**-12, "c32": 1e-6, "c64": 1e-14}
#: The cubes that are reported together.
_RANGES = ((3, 16), (17, 32), (33, 48), (49, 64))
#: Rows and columns of products with 9 quantities: the coefficients of tetrahedra of degree 1 to 7.
_COEFFICIENTS, _QUANTITIES = (4, 10, 20, 35, 56, 84, 120), 9
#: Shapes that are drawn: how many, and between which sizes.
_DRAWN, _SIZES = 60, ((3, 64), (65, 256))
#: Bytes that each case moves, rounds that are timed, and those before.
_BYTES, _ROUNDS, _WARM_UP = 400_000_000, 7, 2
#: Products of the beginning, the end, and drawn ones that are checked.
_SAMPLE = 200


@dataclass(frozen=True)
class Case:
    """One product: C := op(A) op(B) + beta C for matrices of m x k and k x n, whose types `ELEMENTS` has by `types`."""

    types: str
    m: int
    n: int
    k: int
    transposes: str = "n.n"
    beta: int = 0

    @property
    def element(self) -> str:
        """The type of A and B."""
        return ELEMENTS[self.types][0]

    @property
    def result(self) -> str:
        """The type of C."""
        return ELEMENTS[self.types][1]

    @property
    def bytes(self) -> int:
        """Bytes that one product moves."""
        own, result = (TORCH[name].itemsize for name in (self.element, self.result))
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


def cases_of(types: str, seed: int) -> dict[str, list[Case]]:
    """Return the cases of operands and results of some types, by what they are reported as; a seed draws the same."""
    random_ = random.Random(f"{seed} {types}")
    cases = {f"cubes {first} to {last}": [Case(types, size, size, size) for size in range(first, last + 1)]
             for first, last in _RANGES}
    cases[f"M x {_QUANTITIES} x M"] = [Case(types, size, _QUANTITIES, size) for size in _COEFFICIENTS]
    for least, most in _SIZES:
        cases[f"shapes drawn from {least} to {most}"] = [
            Case(types, *(random_.randint(least, most) for _ in "mnk"), random_.choice(("n.n", "t.n", "n.t")),
                 random_.randint(0, 1)) for _ in range(_DRAWN)]
    return cases


def sweep(elements: Sequence[str], seed: int, processes: int, table: str | None = None) -> bool:
    """Time the cases of some types and print how they are distributed; return whether all results were right."""
    cases = {types: cases_of(types, seed) for types in elements}
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        every = [case for own in cases.values() for part in own.values() for case in part]
        list(pool.map(_compile, every, chunksize=4))
    print(f"sweep, seed {seed}: {_BYTES / 1e9:g} GB a case, medians of {_ROUNDS} rounds in turns")
    found: list[Found] = []
    for types, parts in cases.items():
        title = "{} -> {}".format(*ELEMENTS[types])
        small: list[Found] = []
        for part, some in parts.items():
            measured = [_measured(case) for case in some]
            found += measured
            _report(f"{title}, {part}", measured)
            if max(max(case.m, case.n, case.k) for case in some) <= _SIZES[0][1]:
                small += measured
            else:
                _least(part, measured)
        _report(f"{title}, cubes and drawn shapes to {_SIZES[0][1]}", small)
        _least("these", small)
    if table is not None:
        Path(table).write_text("".join(f"{json.dumps(asdict(each))}\n" for each in found))
    wrong = [each for each in found if not each.error <= TOLERANCES[each.case.result]]
    for each in wrong:
        print(f"WRONG: {each.case.types} {each.case}: error {each.error:.1e}")
    return not wrong


def _least(what: str, found: Sequence[Found]) -> None:
    """Print the ten cases that are the slowest beside the copy, and beside PyTorch."""
    by_copy, by_bmm = (sorted(found, key=key)[:10] for key in (lambda each: each.copy, lambda each: each.bmm))
    print(f"  {what}, least of the copy:  " + "; ".join(f"{each.case} {each.copy:.2f}" for each in by_copy))
    print(f"  {what}, least of torch.bmm: " + "; ".join(f"{each.case} {each.bmm:.2f}" for each in by_bmm), flush=True)


def _compile(case: Case) -> None:
    """Compile and load a kernel, which leaves its machine code in the cache."""
    kernel = tl_dpnp.compile(case.source, target="cuda")
    kernel(*map(tl_dpnp.rev, _operands(case, _BYTES // case.bytes)))  # few have other kernels
    torch.cuda.synchronize()


def _operands(case: Case, count: int) -> list[torch.Tensor]:
    """Return A and B of random numbers, and C of NaN, or of random numbers where beta is 1."""
    dtype, out = TORCH[case.element], TORCH[case.result]
    # What has its columns along memory is to PyTorch a C-ordered transpose.
    shapes = [(case.k, case.m), (case.n, case.k)]
    drawn = torch.promote_types(dtype, torch.float32)
    a, b = (torch.randn(count, *(shape if flag == "n" else shape[::-1]), device="cuda", dtype=drawn).to(dtype)
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
    wide = torch.promote_types(c.dtype, torch.float64)
    expected = torch.bmm(right[some].to(wide), left[some].to(wide))
    if case.beta:
        expected += c[some].to(wide)
    kernel = tl_dpnp.compile(case.source, target="cuda")
    views = [tl_dpnp.rev(array) for array in (a, b, c)]
    kernel(*views)
    error = float((c[some].to(wide) - expected).norm() / expected.norm())
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
