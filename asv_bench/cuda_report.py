"""Check the CUDA target on the GPU that is there, then time it beside PyTorch: ``python -m asv_bench.cuda_report``.

Needs PyTorch and CuPy.  Data are random; results are compared with float64, and outputs are filled with NaN before,
so that what is not written shows.  Candidates take turns, and each number is the median of the rounds with its spread:
half the distance between the quartiles.  The arrays of a section are many times larger than the level-2 cache.
The last sections run the stages of the example, and tests under ``compute-sanitizer``, which has to be on the path.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import shutil
import statistics
import subprocess
import sys
import time
import unittest.mock
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import click
import torch

import tl_dpnp
from asv_bench.cuda_large import KINDS, large_sweep
from asv_bench.cuda_sweep import ELEMENTS, sweep
from tl_dpnp.scalars import Precision

#: Bytes that each section moves.
_BYTES = 1_600_000_000
_ROUNDS, _WARM_UP = 15, 3
_PEERS = ("torch", "cupy-cuda13x", "numba", "numba-cuda", "cuda-bindings")

#: Types, transposes and size of large products.
LARGE = [
    *(("bf16", result, transposes, size) for size in (2048, 4096, 8192)
      for result, transposes in (("bf16", "n.n"), ("bf16", "t.n"), ("f32", "n.n"))),
    *(("bf16", "bf16", transposes, 4096) for transposes in ("n.t", "t.t")), ("f16", "f16", "n.n", 4096),
]
#: The same for large products that are written by tiles of these rows and columns, with what f32 may lose.
BY_TILES: list[tuple[str, str, int, Precision]] = [
    *(("f32", transposes, size, "highest") for size in (4096, 8192) for transposes in ("n.n", "n.t", "t.n")),
    *(("f64", transposes, 4096, "highest") for transposes in ("n.n", "n.t", "t.n")), ("f64", "n.n", 8192, "highest"),
    *(("f32", transposes, 4096, "default") for transposes in ("n.n", "t.n")),
]
TILE = (256, 128)

#: Tests that run under the sanitizers, some of a file at a time: all forms, with and without tensor cores, padded
#: sizes, chains, groups, matrices in registers, complex numbers.
SANITIZED = (
    ("tests/cuda/test_device.py", "drawn_products and (2] or 3])"),
    ("tests/cuda/test_device.py",
     "staged_form and aligned and (32x32x32_f16 or 48x16x32 or 48x8x12 or 35x9x35 or 50x12x20)"),
    ("tests/cuda/test_device.py", "staged_form and aligned and (32x48x24 or 16x16x8)"),
    ("tests/cuda/test_device.py", "staged_form and (61x25x64 or 61x52x61 or 42x51x10 or 38x30x29)"),
    ("tests/cuda/test_device.py", "staged_form and aligned and (chain or volume)"),
    ("tests/cuda/test_device.py", "large_products and aligned and (nn or tt)"),
    ("tests/cuda/test_tiled.py", "static_sizes or batches or (tiles_that_fit and bf16-f32 and n.n)"),
    ("tests/cuda/test_blocked.py", "batches and n.t and f64"),
    ("tests/cuda/test_blocked.py", "batches and n.t and (c32 or c64)"),
    ("tests/cuda/test_blocked.py", "all_tiles and n.t and (f32-f32 or f64 or tf32 or bf16-bf16)"),
    ("tests/cuda/test_packed.py", "products_of_all_sizes and bf16-bf16"),
    ("tests/cuda/test_packed.py", "stages_that_are_filled_again"),
    ("tests/cuda/test_spread.py", "all_numbers_of_teams and n.t or one_factor_for_all"),
    ("tests/cuda/test_fragments.py", "random_programs_agree and 0 or lanes_see"),
    ("tests/cuda/test_matrices.py", "programs_agree and several and 0 or products_agree and several and 1"),
    ("tests/cuda/test_complex.py", "drawn_products and (0 or 1) or linear_algebra and gemm"),
)

_PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
_SANITIZER = "compute-sanitizer"

Shape = tuple[int, int, int]
CUBES: tuple[Shape, ...] = ((8, 8, 8), (16, 16, 16), (32, 32, 32), (64, 64, 64), (56, 9, 56))
_TORCH = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16}

FUSED = """
func @fused(%alpha: f32, %A: memref<f32x16x8x?>, %B: memref<f32x8x8>, %C: memref<f32x8x16>, %D: memref<f32x16x16x?>) {
  %0 = group_id
  %1 = subview %A[:,:,%0] : memref<f32x16x8x?>
  %2 = subview %D[:,:,%0] : memref<f32x16x16x?>
  %t = alloca -> memref<f32x16x8>
  gemm.n.t 1.0, %1, %B, 0.0, %t : f32, memref<f32x16x8>, memref<f32x8x8>, f32, memref<f32x16x8>
  gemm.n.n %alpha, %t, %C, 1.0, %2 : f32, memref<f32x16x8>, memref<f32x8x16>, f32, memref<f32x16x16>
}
"""


def batch_source(m: int, n: int, k: int, element: str, result: str) -> str:
    """Return C[g] := A[g] B[g] for matrices of the given sizes and types."""
    a, b, c = f"{element}x{m}x{k}", f"{element}x{k}x{n}", f"{result}x{m}x{n}"
    return f"""func @product(%A: memref<{a}x?>, %B: memref<{b}x?>, %C: memref<{c}x?>) {{
      %g = group_id
      %a = subview %A[:,:,%g] : memref<{a}x?>
      %b = subview %B[:,:,%g] : memref<{b}x?>
      %c = subview %C[:,:,%g] : memref<{c}x?>
      gemm.n.n 1.0, %a, %b, 0.0, %c : {result}, memref<{a}>, memref<{b}>, {result}, memref<{c}>
    }}"""


@dataclass(frozen=True)
class Timing:
    """Seconds of a candidate: median and half the distance between the quartiles."""

    seconds: float
    spread: float


def interleaved(candidates: dict[str, Callable[[], Any]]) -> dict[str, Timing]:
    """Time candidates in turns with events."""
    samples: dict[str, list[float]] = {name: [] for name in candidates}
    for round_ in range(_ROUNDS + _WARM_UP):
        for name, run in candidates.items():
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            run()
            stop.record()
            stop.synchronize()
            if round_ >= _WARM_UP:
                samples[name].append(start.elapsed_time(stop) * 1e-3)
    return {name: _timing(values) for name, values in samples.items()}


def _timing(values: list[float]) -> Timing:
    lower, median, upper = statistics.quantiles(values, n=4)
    return Timing(median, (upper - lower) / 2)


def report(title: str, moved: int, timings: dict[str, Timing], error: float) -> None:
    """Print a section: bandwidth of each candidate and its ratio to the copy and to ours."""
    ours = next(iter(timings.values())).seconds
    parts = [f"{title}: error {error:.1e}"]
    for name, timing in timings.items():
        speed = moved / timing.seconds / 1e9
        parts.append(f"{name} {timing.seconds * 1e6:.0f} us ±{timing.spread / timing.seconds:.1%} {speed:.0f} GB/s "
                     f"({timing.seconds / ours:.2f})")
    print("; ".join(parts), flush=True)


def relative_error(got: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the norm of the difference over the norm of what is expected."""
    return float((got.double() - expected).norm() / expected.norm())


def copy_candidate(moved: int) -> Callable[[], Any]:
    """Return a copy within the device that moves as many bytes."""
    source = torch.randn(moved // 8, device="cuda")
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def batches(elements: tuple[tuple[str, str], ...], precision: Precision = "highest") -> None:
    """Time products of many small matrices; PyTorch may use tf32 where our `precision` allows it."""
    torch.backends.cuda.matmul.allow_tf32 = precision == "default"
    for element, result in elements:
        for m, n, k in CUBES:
            dtype, out = _TORCH[element], _TORCH[result]
            each = (m * k + k * n) * dtype.itemsize + m * n * out.itemsize
            count = _BYTES // each
            moved = each * count
            a = torch.randn(count, k, m, device="cuda", dtype=torch.float32).to(dtype)
            b = torch.randn(count, n, k, device="cuda", dtype=torch.float32).to(dtype)
            c = torch.full((count, n, m), float("nan"), device="cuda", dtype=out)
            kernel = tl_dpnp.compile(batch_source(m, n, k, element, result), target="cuda", precision=precision)
            views = [tl_dpnp.rev(array) for array in (a, b, c)]
            kernel(*views)
            some = torch.cat([torch.arange(1000), torch.randint(count, (1000,)), torch.arange(count - 1000, count)])
            expected = torch.bmm(b[some].double(), a[some].double())
            error = relative_error(c[some], expected)
            if bool(torch.isnan(c).any()):
                error = float("nan")
            candidates = {
                "ours": lambda kernel=kernel, views=views: kernel(*views), "copy": copy_candidate(moved),
            }
            if out == dtype:
                other = torch.empty_like(c)
                candidates["bmm"] = lambda a=a, b=b, other=other: torch.bmm(b, a, out=other)
            else:
                candidates["bmm"] = lambda a=a, b=b, out=out: torch.bmm(b, a, out_dtype=out)
            report(f"{m}x{n}x{k} {element} -> {result}, precision {precision}", moved, interleaved(candidates), error)
    torch.backends.cuda.matmul.allow_tf32 = False


def fused_sample() -> None:
    """Time D[g] += alpha A[g] Bᵀ C."""
    each = 4 * (16 * 8 + 2 * 16 * 16)
    count = _BYTES // each
    moved = each * count
    a = torch.randn(count, 8, 16, device="cuda")
    b, c = torch.randn(8, 8, device="cuda"), torch.randn(16, 8, device="cuda")
    d = torch.randn(count, 16, 16, device="cuda")
    kernel = tl_dpnp.compile(FUSED, target="cuda")
    views = [tl_dpnp.rev(array) for array in (a, b, c, d)]
    expected = d[:1000].double() + 0.5 * torch.matmul(c.double(), torch.matmul(b.double().T, a[:1000].double()))
    kernel(0.5, *views)
    error = relative_error(d[:1000], expected)

    def unfused() -> torch.Tensor:
        return torch.add(d, torch.matmul(c, torch.matmul(b.T, a)), alpha=0.5, out=d)

    candidates: dict[str, Callable[[], Any]] = {
        "ours": lambda: kernel(0.5, *views), "copy": copy_candidate(moved), "unfused": unfused,
    }
    compiled = torch.compile(lambda a, b, c, d: d.add_(torch.matmul(c, torch.matmul(b.T, a)), alpha=0.5))
    compiled(a, b, c, d)
    candidates["torch.compile"] = lambda: compiled(a, b, c, d)
    report("fused sample f32", moved, interleaved(candidates), error)


def volume_source(element: str) -> str:
    """Return Q[g] += Σ_d K_d I[g] S_d[g], the volume kernel of a seismic solver (examples/seissol_volume.py)."""
    dofs, star, stiffness = (f"{element}x{shape}" for shape in ("56x9", "9x9", "56x56"))
    stars = ", ".join(f"%S{d}: memref<{star}x?>" for d in range(3))
    matrices = ", ".join(f"%K{d}: memref<{stiffness}>" for d in range(3))
    steps = "\n".join(f"""
      %s{d} = subview %S{d}[:,:,%g] : memref<{star}x?>
      gemm.n.n 1.0, %i, %s{d}, 0.0, %t : {element}, memref<{dofs}>, memref<{star}>, {element}, memref<{dofs}>
      gemm.n.n 1.0, %K{d}, %t, 1.0, %q : {element}, memref<{stiffness}>, memref<{dofs}>, {element}, memref<{dofs}>"""
                      for d in range(3))
    return f"""func @volume(%I: memref<{dofs}x?>, {stars}, {matrices}, %Q: memref<{dofs}x?>) {{
      %g = group_id
      %i = subview %I[:,:,%g] : memref<{dofs}x?>
      %q = subview %Q[:,:,%g] : memref<{dofs}x?>
      %t = alloca -> memref<{dofs}>{steps}
    }}"""


def volume_chain() -> None:
    """Time the volume kernel in f32 and f64."""
    for element in ("f32", "f64"):
        dtype = _TORCH[element]
        each = dtype.itemsize * (3 * 56 * 9 + 3 * 81)
        count = _BYTES // 2 // each
        dofs, result = (torch.randn(count, 9, 56, device="cuda", dtype=dtype) for _ in range(2))
        stars = [torch.randn(count, 9, 9, device="cuda", dtype=dtype) for _ in range(3)]
        matrices = [torch.randn(56, 56, device="cuda", dtype=dtype) for _ in range(3)]
        expected = result[:500].double() + sum(
            (star[:500].double() @ dofs[:500].double()) @ matrix.double()
            for star, matrix in zip(stars, matrices, strict=True)
        )
        kernel = tl_dpnp.compile(volume_source(element), target="cuda")
        views = [tl_dpnp.rev(array) for array in (dofs, *stars, *matrices, result)]
        kernel(*views)
        error = relative_error(result[:500], expected)

        def unfused(
            dofs: Any = dofs, stars: Any = stars, matrices: Any = matrices, result: Any = result
        ) -> None:
            for star, matrix in zip(stars, matrices, strict=True):
                result.add_(torch.matmul(torch.matmul(star, dofs), matrix))

        candidates: dict[str, Callable[[], Any]] = {
            "ours": lambda kernel=kernel, views=views: kernel(*views), "copy": copy_candidate(each * count),
            "unfused": unfused,
        }
        report(f"volume chain {element}", each * count, interleaved(candidates), error)


def launches() -> None:
    """Time calls of a small kernel from Python, by the host's clock, each with other arrays than the one before."""
    source = "func @f(%a: f32, %x: memref<f32x?>, %y: memref<f32x?>, %z: memref<f32x?>) {\n"
    source += "  axpby.n %a, %x, 0.0, %z : f32, memref<f32x?>, f32, memref<f32x?>\n}"
    kernel = tl_dpnp.compile(source, target="cuda")
    import cupy

    tensors = [[torch.ones(1024, device="cuda") for _ in range(3)] for _ in range(2)]
    arrays = [[cupy.ones(1024, "float32") for _ in range(3)] for _ in range(2)]
    matrices = [[torch.ones(4, 8, 8, device="cuda") for _ in range(3)] for _ in range(2)]
    rounds = 3000

    def calls(function: Callable[[Any, Any, Any], Any], given: Sequence[Sequence[Any]]) -> Callable[[], None]:
        (a, b, c), (d, e, f) = given

        def pairs() -> None:
            for _ in range(rounds // 2):
                function(a, b, c)
                function(d, e, f)

        return pairs

    candidates: dict[str, Callable[[], Any]] = {
        "ours, PyTorch": calls(lambda x, y, z: kernel(2.0, x, y, z), tensors),
        "ours, CuPy": calls(lambda x, y, z: kernel(2.0, x, y, z), arrays),
        "torch.add": calls(lambda x, y, z: torch.add(x, y, out=z), tensors),
        "torch.bmm": calls(lambda x, y, z: torch.bmm(x, y, out=z), matrices),
        "cupy.add": calls(lambda x, y, z: cupy.add(x, y, out=z), arrays),
    }
    samples: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(7):
        for name, run in candidates.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            run()
            samples[name].append((time.perf_counter() - start) / rounds)
            torch.cuda.synchronize()
    print("call of a small kernel: " + "; ".join(
        f"{name} {_timing(values).seconds * 1e6:.2f} us ±{_timing(values).spread / _timing(values).seconds:.0%}"
        for name, values in samples.items()
    ), flush=True)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        for _ in range(100):
            kernel(2.0, *tensors[0])
    with tl_dpnp.record() as recorded:
        for _ in range(100):
            kernel(2.0, *tensors[0])
    for name, timing in interleaved({"captured by PyTorch": captured.replay, "recorded": recorded}).items():
        spread = timing.spread / timing.seconds
        print(f"a graph of 100 calls, {name}, replays in {timing.seconds * 1e6:.1f} us ±{spread:.0%}", flush=True)


def large_source(element: str, result: str, transposes: str) -> str:
    """Return C := op(A) op(B) for matrices of any sizes."""
    a, c = f"memref<{element}x?x?>", f"memref<{result}x?x?>"
    return f"""func @product(%A: {a}, %B: {a}, %C: {c}) {{
      gemm.{transposes} 1.0, %A, %B, 0.0, %C : {result}, {a}, {a}, {result}, {c}
    }}"""


def without_wgmma() -> None:
    """Time large products as they are on devices without wgmma."""
    from tl_dpnp.runtime.cuda import platform as cuda

    device = dataclasses.replace(cuda.describe(0), warpgroup_products=False)
    with unittest.mock.patch.object(cuda, "describe", return_value=device):
        large_products([case for case in LARGE if case[:2] == ("bf16", "bf16")])


def tiles_source(element: str, transposes: str, size: int) -> str:
    """Return C := op(A) op(B) for square matrices, with a work-group for each tile of C."""
    rows, columns = TILE
    whole, matrix = f"0:{size}", f"memref<{element}x{size}x{size}>"
    slices = [(f"%m:{rows}", whole), (whole, f"%n:{columns}"), (f"%m:{rows}", f"%n:{columns}")]
    shapes = [(rows, size), (size, columns), (rows, columns)]
    for number, flag in enumerate(transposes[::2]):
        if flag == "t":
            slices[number], shapes[number] = slices[number][::-1], shapes[number][::-1]
    a, b, c = (f"memref<{element}x{m}x{n},strided<1,{size}>>" for m, n in shapes)
    views = "\n".join(f"      %{name.lower()} = subview %{name}[{', '.join(part)}] : {matrix}"
                      for name, part in zip("ABC", slices, strict=True))
    return f"""func @product(%A: {matrix}, %B: {matrix}, %C: {matrix}) {{
      %g = group_id
      %i = arith.rem %g, {size // rows} : index
      %j = arith.div %g, {size // rows} : index
      %m = arith.mul %i, {rows} : index
      %n = arith.mul %j, {columns} : index
{views}
      gemm.{transposes} 1.0, %a, %b, 0.0, %c : {element}, {a}, {b}, {element}, {c}
    }}"""


def large_products(cases: Sequence[tuple[str, str, str, int]]) -> None:
    """Time large products of bf16 and f16 beside torch.matmul, several calls in a row, so that they overlap."""
    for element, result, transposes, size in cases:
        kernel = tl_dpnp.compile(large_source(element, result, transposes), target="cuda")
        beside_matmul(kernel, (element, result, transposes, size), 5e12)


def products_by_tiles() -> None:
    """Time large products of f32 and f64, of which each work-group has a tile, in the same way."""
    for element, transposes, size, precision in BY_TILES:
        torch.backends.cuda.matmul.allow_tf32 = precision == "default"
        kernel = tl_dpnp.compile(tiles_source(element, transposes, size), target="cuda", precision=precision)
        rows, columns = TILE
        print(f"{precision} precision: ", end="")
        beside_matmul(kernel, (element, element, transposes, size), 1e12, size // rows * (size // columns))
    torch.backends.cuda.matmul.allow_tf32 = False


def beside_matmul(
    kernel: tl_dpnp.Kernel, case: tuple[str, str, str, int], multiplications: float, groups: int = 1
) -> None:
    """Check a product, then time as many calls of it as make so many multiplications beside as many of PyTorch's."""
    element, result, transposes, size = case
    dtype, out = _TORCH[element], _TORCH[result]
    # What is n to us, with columns along memory, is a transpose to PyTorch; so C is computed as its transpose.
    left, right = (torch.randn(size, size, device="cuda").to(dtype) for _ in range(2))
    ours, theirs = (torch.full((size, size), float("nan"), device="cuda", dtype=out) for _ in range(2))
    first, second = (matrix if flag == "n" else matrix.T for matrix, flag in ((right, transposes[2]),
                                                                             (left, transposes[0])))
    views = [tl_dpnp.rev(array) for array in (left, right, ours)]
    sizes = {} if groups == 1 else {"group_size": groups}
    kernel(*views, **sizes)
    some = torch.randint(size, (64,), device="cuda")
    error = relative_error(ours[some], first[some].double() @ second.double())
    if bool(torch.isnan(ours).any()):
        error = float("nan")
    calls = max(1, round(multiplications / size**3 / 2))

    def matmul() -> None:
        if out == first.dtype:
            torch.matmul(first, second, out=theirs)
        else:
            torch.mm(first, second, out_dtype=out)

    def repeated(run: Callable[[], Any]) -> Callable[[], None]:
        def several() -> None:
            for _ in range(calls):
                run()

        return several

    timings = interleaved({"ours": repeated(lambda: kernel(*views, **sizes)), "matmul": repeated(matmul)})
    parts = [f"{name} {2e-12 * size**3 * calls / timing.seconds:.0f} TFLOP/s ±{timing.spread / timing.seconds:.1%}"
             for name, timing in timings.items()]
    ratio = timings["matmul"].seconds / timings["ours"].seconds
    print(f"{size} {element} -> {result} {transposes}: error {error:.1e}; {'; '.join(parts)}; ratio {ratio:.3f}",
          flush=True)


def stages() -> bool:
    """Check and time the stages of a large product of f32, one schedule after another, beside cuBLAS."""
    runs = [subprocess.run([sys.executable, "examples/cuda_gemm_stages.py", "--size", str(size)], check=False)
            for size in (2048, 4096, 8192)]
    return not any(run.returncode for run in runs)


def sanitizers(processes: int) -> bool:
    """Run tests of each form of a kernel under NVIDIA's checks of accesses and of races in shared memory."""
    def run(tool: str, file: str, chosen: str) -> bool:
        begin = time.monotonic()
        found = subprocess.run(
            [_SANITIZER, "--tool", tool, "--report-api-errors", "no", "--target-processes", "all",
             "--error-exitcode", "3", *_PYTEST, "-x", file, "-k", chosen],
            capture_output=True, text=True, check=False)
        last = "; ".join(line.strip("= ") for line in found.stdout.splitlines()[-2:])
        seconds = time.monotonic() - begin
        print(f"{tool}, {file}, {chosen}: {last} (exit {found.returncode}, {seconds:.0f} s)", flush=True)
        return found.returncode == 0

    tools = [(tool, *tests) for tool in ("racecheck", "memcheck") for tests in SANITIZED]
    with ThreadPoolExecutor(processes) as pool:
        return all(list(pool.map(lambda each: run(*each), tools)))


#: Each prints its part; what only checks returns whether all was right.
SECTIONS: dict[str, Callable[[], bool | None]] = {
    "launches": launches,
    "f32": lambda: batches((("f32", "f32"),)),
    "tf32": lambda: batches((("f32", "f32"),), "default"),
    "3xtf32": lambda: batches((("f32", "f32"),), "high"),
    "f64": lambda: batches((("f64", "f64"),)),
    "bf16": lambda: batches((("bf16", "f32"),)),
    "f16": lambda: batches((("f16", "f32"),)),
    "fused": fused_sample,
    "volume": volume_chain,
    "large": lambda: large_products(LARGE),
    "tiles": products_by_tiles,
    "mma": without_wgmma,
    "stages": stages,
}
#: The sections that take options of their own; the first two run where they are named.
SWEEP, ANY_SIZE, SANITIZERS = "sweep", "any-size", "sanitizers"


@click.command()
@click.argument("sections", nargs=-1, type=click.Choice([*SECTIONS, SWEEP, ANY_SIZE, SANITIZERS]))
@click.option("--check/--no-check", default=True, help="Run the tests of tests/cuda first.")
@click.option("--processes", default=1, show_default=True,
              help="Processes: of the tests, where several need pytest-xdist, of the sanitizers, and of the sweep.")
@click.option("--seed", default=0, show_default=True, help="Seed of what sweep and any-size draw.")
@click.option("--element", "elements", multiple=True, type=click.Choice(list(ELEMENTS)),
              help="Types of the sweep's operands, by default all of them.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(list(KINDS)),
              help="Kinds of products of any-size, by default all of them.")
@click.option("--count", default=24, show_default=True, help="Products of each kind that any-size draws.")
@click.option("--table", type=click.Path(dir_okay=False), help="File for what the sweep found of each case, as JSON.")
def main(
    sections: tuple[str, ...], check: bool, processes: int, seed: int, elements: tuple[str, ...],
    kinds: tuple[str, ...], count: int, table: str | None,
) -> None:
    """Check, then time SECTIONS, by default all but sweep and any-size; ends with 1 where a check fails."""
    chosen = sections or (*SECTIONS, SANITIZERS)
    if SANITIZERS in chosen and shutil.which(_SANITIZER) is None:
        raise click.UsageError(f"{_SANITIZER} is not on the path; name the other sections to do without it")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in _PEERS)
    print(f"{torch.cuda.get_device_name()}, driver for CUDA {torch.version.cuda}; {versions}", flush=True)
    right = True
    if check:
        several = ("-n", str(processes)) if processes > 1 else ()
        right = not subprocess.run([*_PYTEST, "tests/cuda", *several], check=False).returncode
        if not right:
            print("the tests failed: times below are of wrong kernels", flush=True)
    drawn: dict[str, Callable[[], bool | None]] = {
        SWEEP: lambda: sweep(elements or tuple(ELEMENTS), seed, processes, table),
        ANY_SIZE: lambda: large_sweep(kinds or tuple(KINDS), seed, count),
        SANITIZERS: lambda: sanitizers(processes),
    }
    for section in chosen:
        right &= {**SECTIONS, **drawn}[section]() is not False
        torch.cuda.empty_cache()
    if not right:
        sys.exit(1)


if __name__ == "__main__":
    main()
