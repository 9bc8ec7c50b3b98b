"""Large products of any size on the GPU, beside ``torch.matmul``: cuBLAS.

Sizes are drawn by a seed from 500 to 6000, multiples of 8 and others, and some products have 16 or 64 rows.  Results
are compared with float64 for drawn columns before anything is timed.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

import tl_dpnp
from tl_dpnp.scalars import Precision

__all__ = ["KINDS", "LargeCase", "cases_of", "large_sweep"]

#: Types of operands and results by the name of the kind, what products may lose, and the error that is allowed: the
#: norm of the difference over that of the product in float64.
KINDS: dict[str, tuple[str, Precision, float]] = {
    "bf16": ("bf16", "highest", 4e-3), "f32": ("f32", "highest", 1e-5), "f64": ("f64", "highest", 1e-13),
    "tf32": ("f32", "default", 2e-3), "c32": ("c32", "highest", 1e-5), "c64": ("c64", "highest", 1e-13),
}
_TORCH = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "c32": torch.complex64,
          "c64": torch.complex128}
_LEAST, _MOST, _NARROW = 500, 6000, (16, 64)
#: Rounds that are timed and those before; seconds that the calls of one round take, about, and the speed to count on.
_ROUNDS, _WARM_UP, _SECONDS = 7, 2, 4e-3
_SPEED = {"bf16": 5e14, "f32": 4e13, "f64": 5e13, "tf32": 2e14, "c32": 4e13, "c64": 4e13}
_SAMPLE = 32


@dataclass(frozen=True)
class LargeCase:
    """One product: C := op(A) op(B) for matrices of m x k and k x n."""

    kind: str
    m: int
    n: int
    k: int
    transposes: str

    @property
    def source(self) -> str:
        """The program, which leaves sizes open."""
        matrix = f"memref<{KINDS[self.kind][0]}x?x?>"
        element = KINDS[self.kind][0]
        return f"""func @product(%A: {matrix}, %B: {matrix}, %C: {matrix}) {{
          gemm.{self.transposes} 1.0, %A, %B, 0.0, %C : {element}, {matrix}, {matrix}, {element}, {matrix}
        }}"""

    @property
    def operations(self) -> int:
        """Multiplications and additions of real numbers."""
        return (8 if _TORCH[KINDS[self.kind][0]].is_complex else 2) * self.m * self.n * self.k

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k} {self.transposes}"


def cases_of(kind: str, seed: int, count: int) -> list[LargeCase]:
    """Return drawn products; half of the sizes are multiples of 8, and a quarter of the products has few rows."""
    draw = random.Random(f"{seed} {kind}")

    def size() -> int:
        found = draw.randint(_LEAST, _MOST)
        return found // 8 * 8 if draw.random() < 0.5 else found

    cases = []
    for number in range(count):
        aligned = draw.random() < 0.5
        m, n, k = (drawn // 8 * 8 if aligned else drawn for drawn in (size(), size(), size()))
        if number % 4 == 3:
            m = draw.choice(_NARROW)
        cases.append(LargeCase(kind, m, n, k, draw.choice(("n.n", "n.t", "t.n", "t.t"))))
    return cases


def large_sweep(kinds: Sequence[str], seed: int, count: int) -> bool:
    """Time the cases of some kinds and print how they are distributed; return whether all results were right."""
    right = True
    for kind in kinds:
        torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
        found = []
        for case in cases_of(kind, seed, count):
            error, ours, theirs, form = _measured(case)
            found.append((theirs / ours, case))
            is_right = error <= KINDS[kind][2]
            right &= is_right
            flop = 1e-12 * case.operations
            print(f"{kind} {case}: {theirs / ours:.2f} of torch.matmul, {flop / ours:.1f} and {flop / theirs:.1f} "
                  f"TFLOP/s, {form}{'' if is_right else f' WRONG: error {error:.1e}'}", flush=True)
        groups = {"all": found, "few rows": [each for each in found if each[1].m in _NARROW],
                  "others": [each for each in found if each[1].m not in _NARROW]}
        for title, some in groups.items():
            if some:
                mean = math.exp(statistics.fmean(math.log(ratio) for ratio, _ in some))
                least, worst = min(some, key=lambda each: each[0])
                print(f"{kind}, {title}: {len(some)} products, geometric mean {mean:.2f} of torch.matmul, least "
                      f"{least:.2f} ({worst})", flush=True)
    torch.backends.cuda.matmul.allow_tf32 = False
    return right


def _measured(case: LargeCase) -> tuple[float, float, float, str]:
    """Return the error of a case, the seconds that we and PyTorch take, and the form of our kernel."""
    element, precision, _ = KINDS[case.kind]
    dtype = _TORCH[element]
    # What has its columns along memory is to PyTorch a C-ordered transpose.
    shapes = [(case.k, case.m), (case.n, case.k)]
    drawn, wide = (torch.promote_types(dtype, real) for real in (torch.float32, torch.float64))
    a, b = (torch.randn(*(shape if flag == "n" else shape[::-1]), device="cuda", dtype=drawn).to(dtype)
            for shape, flag in zip(shapes, case.transposes[::2], strict=True))
    left, right = (x if flag == "n" else x.T for x, flag in zip((a, b), case.transposes[::2], strict=True))
    c = torch.full((case.n, case.m), float("nan"), device="cuda", dtype=dtype)
    kernel = tl_dpnp.compile(case.source, target="cuda", precision=precision)
    views = [tl_dpnp.rev(array) for array in (a, b, c)]
    kernel(*views)
    some = torch.cat([torch.randint(case.n, (_SAMPLE,)), torch.tensor([0, case.n - 1])]).to("cuda")
    expected = right[some].to(wide) @ left.to(wide)
    error = float((c[some].to(wide) - expected).norm() / expected.norm())
    if bool(torch.isnan(c).any()):
        error = float("nan")
    other = torch.empty_like(c)
    calls = max(1, round(_SECONDS * _SPEED[case.kind] / case.operations))
    calls = min(calls, 40)
    ours, theirs = _interleaved([lambda: kernel(*views), lambda: torch.matmul(right, left, out=other)], calls)
    (signature,) = kernel.signatures
    return error, ours, theirs, signature.form


def _interleaved(candidates: Sequence[Callable[[], Any]], calls: int) -> list[float]:
    """Return the median seconds of a call of candidates that take turns; graphs leave the time of Python out."""
    graphs = []
    for run in candidates:
        run()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(calls):
                run()
        graphs.append(graph)
    samples: list[list[Any]] = [[] for _ in candidates]
    for round_ in range(_ROUNDS + _WARM_UP):
        for own, graph in zip(samples, graphs, strict=True):
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            stop.record()
            if round_ >= _WARM_UP:
                own.append((start, stop))
    torch.cuda.synchronize()
    return [statistics.median(start.elapsed_time(stop) for start, stop in own) * 1e-3 / calls for own in samples]
