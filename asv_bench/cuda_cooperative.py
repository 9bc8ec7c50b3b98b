"""Large products written with cooperative matrices on the GPU, beside ``gemm`` and PyTorch's product.

``python -m asv_bench.cuda_cooperative --seed 1``: draws sizes, computes A^T B in graphs, by turns; results are compared
with products in f64 before.  The program runs as it does by default, which is as one product, and as it is written.
Needs PyTorch and a GPU.
"""

from __future__ import annotations

import random
import statistics
from dataclasses import dataclass
from typing import Any

import click
import torch

import tl_dpnp
from asv_bench.cuda_graphs import graph_of, interleaved_seconds

_TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "f64": torch.float64}
_CALLS, _ROUNDS = 3, 7
#: Relative errors of sums of up to 4096 products.
_TOLERANCES = {"bf16": 1e-5, "f16": 1e-5, "f32": 1e-3, "f64": 1e-14}


@dataclass(frozen=True)
class Tiles:
    """A tile of each sub-group, sub-groups along rows and columns, and the terms of a sum that are multiplied at once.

    With `is_ahead`, the factors of the next step are loaded before those of the present one are multiplied.
    """

    rows: int
    columns: int
    along_rows: int
    along_columns: int
    depth: int
    is_ahead: bool = False

    @property
    def block(self) -> tuple[int, int]:
        """Rows and columns of the tile of a work-group."""
        return self.rows * self.along_rows, self.columns * self.along_columns

    def groups(self, m: int, n: int) -> int:
        """Return how many work-groups there are for a result."""
        return -(-m // self.block[0]) * -(-n // self.block[1])


#: The tiles of each type.
TILES = {"bf16": Tiles(64, 64, 2, 2, 32), "f16": Tiles(64, 64, 2, 2, 32), "f32": Tiles(64, 32, 2, 2, 16, True),
         "f64": Tiles(32, 32, 2, 2, 16, True)}


def result_of(element: str) -> str:
    """Return the type of the sums."""
    return "f64" if element == "f64" else "f32"


def program(element: str, tiles: Tiles) -> str:
    """Return C := A^T B for matrices of any sizes, each work-group a tile of C."""
    result, (rows, columns) = result_of(element), tiles.block
    a, b = (f"coopmatrix<{element}x{shape},matrix_{use}>" for shape, use in (
        (f"{tiles.rows}x{tiles.depth}", "a"), (f"{tiles.depth}x{tiles.columns}", "b")))
    c = f"coopmatrix<{result}x{tiles.rows}x{tiles.columns},matrix_acc>"

    def loads(place: str, suffix: str) -> str:
        return (f"%A{suffix} = cooperative_matrix_load.t.both_checked %A[%{place}, %i] : {a}\n"
                f"      %B{suffix} = cooperative_matrix_load.both_checked %B[%{place}, %j] : {b}")

    if tiles.is_ahead:
        begin = loads("zero", "0")
        header, kinds = "%c = %Z, %a = %A0, %b = %B0", f"{c}, {a}, {b}"
        body = f"""%next = add %k, %step : index
      {loads("next", "1")}
      %d = cooperative_matrix_mul_add %a, %b, %c : {c}
      yield (%d, %A1, %B1)"""
        outputs = "%R, %An, %Bn"
    else:
        begin, header, kinds, outputs = "", "%c = %Z", c, "%R"
        body = f"""{loads("k", "1")}
      %d = cooperative_matrix_mul_add %A1, %B1, %c : {c}
      yield (%d)"""
    return f"""func @product(%A: memref<{element}x?x?>, %B: memref<{element}x?x?>, %C: memref<{result}x?x?>)
    work_group_size({32 * tiles.along_rows}, {tiles.along_columns}) subgroup_size(32) {{
  %g = group_id
  %zero = constant 0 : index  %step = constant {tiles.depth} : index
  %m = size %C[0] : index  %depth = size %A[0] : index
  %rows = constant {rows} : index  %less = constant {rows - 1} : index  %columns = constant {columns} : index
  %more = add %m, %less : index  %down = div %more, %rows : index
  %row = rem %g, %down : index  %column = div %g, %down : index
  parallel {{
    %sx = subgroup_id.x : i32 %x = cast %sx : index %tr = constant {tiles.rows} : index %xi = mul %x, %tr : index
    %sy = subgroup_id.y : i32 %y = cast %sy : index %tc = constant {tiles.columns} : index %yi = mul %y, %tc : index
    %i0 = mul %row, %rows : index %i = add %i0, %xi : index
    %j0 = mul %column, %columns : index %j = add %j0, %yi : index
    %Z = constant 0 : {c}
    {begin}
    {outputs} = for %k = %zero, %depth, %step init({header}) -> ({kinds}) {{
      {body}
    }}
    cooperative_matrix_store.both_checked %R, %C[%i, %j]
  }}
}}"""


def plain(element: str) -> str:
    """Return the same product by ``gemm``."""
    result = result_of(element)
    a, c = f"memref<{element}x?x?>", f"memref<{result}x?x?>"
    return (f"func @product(%A: {a}, %B: {a}, %C: {c}) {{\n"
            f"  gemm.t.n 1.0, %A, %B, 0.0, %C : {result}, {a}, {a}, {result}, {c}\n}}")


def compiled(element: str, source: str, precision: str, form: Any = None) -> Any:
    """Return the kernel of a program; the precision is for f32."""
    chosen: Any = precision if element == "f32" else None
    return tl_dpnp.compile(source, target="cuda", precision=chosen, form=form)


@dataclass(frozen=True)
class Times:
    """Milliseconds of a program by default and as it is written, of ``gemm`` and of PyTorch, and the widest spread."""

    default: float
    written: float
    gemm: float
    peer: float
    spread: float
    form: str


def measured(element: str, shape: tuple[int, int, int], tiles: Tiles, precision: str) -> Times:
    """Return what products of a shape take."""
    m, n, k = shape
    type_, result = _TYPES[element], _TYPES[result_of(element)]
    # In the order of memory the language's matrices are transposes.
    a, b = (torch.randn(size, k, device="cuda", dtype=type_) for size in (m, n))
    results = [torch.full((n, m), float("nan"), device="cuda", dtype=result) for _ in range(3)]
    own, written = (compiled(element, program(element, tiles), precision, form) for form in (None, "subgroup"))
    other = compiled(element, plain(element), precision)
    mine, same, theirs = ([tl_dpnp.rev(array) for array in (a, b, kept)] for kept in results)
    groups, e = tiles.groups(m, n), torch.empty((n, m), device="cuda", dtype=type_)
    calls = (lambda: own(*mine, group_size=groups), lambda: written(*same, group_size=groups),
             lambda: other(*theirs, group_size=1), lambda: torch.matmul(b, a.T, out=e))
    graphs = [graph_of(call, _CALLS) for call in calls]
    expected = b.double() @ a.double().T
    for array in results:
        error = float((array.double() - expected).norm() / expected.norm())
        if not error <= _TOLERANCES[element]:
            raise SystemExit(f"{element} {shape}: wrong results, {error}")
    samples = interleaved_seconds(graphs, _ROUNDS)
    spread = max(max(times) / min(times) for times in samples) - 1
    return Times(*(1e3 * statistics.median(times) / _CALLS for times in samples), spread=spread,
                 form=own.signatures[-1].form)


@click.command(help=__doc__)
@click.option("--seed", default=1, show_default=True)
@click.option("--count", default=8, show_default=True, help="shapes of each type")
@click.option("--types", default="bf16,f16,f32,f64", show_default=True)
@click.option("--multiple", default=8, show_default=True, help="what sizes are multiples of")
@click.option("--least", default=256, show_default=True)
@click.option("--largest", default=4096, show_default=True)
@click.option("--precision", default="default", show_default=True, help="of f32")
def main(seed: int, count: int, types: str, multiple: int, least: int, largest: int, precision: str) -> None:
    """Print a line for each shape, and the geometric means and the extremes of the ratios."""
    print(torch.cuda.get_device_name(), torch.__version__)
    torch.backends.cuda.matmul.allow_tf32 = True
    for element in types.split(","):
        draw = random.Random(f"{seed} {element}")
        ratios, gains = [], []
        for _ in range(count):
            m, n, k = (multiple * draw.randint(least // multiple, largest // multiple) for _ in range(3))
            found = measured(element, (m, n, k), TILES[element], precision)
            ratios.append(found.gemm / found.default)
            gains.append(found.written / found.default)
            flops = 2e-9 * m * n * k / found.default
            print(f"{element} {m:4} x {n:4} x {k:4}: {flops:6.1f} TFLOP/s ({found.form} form), {ratios[-1]:5.2f} of "
                  f"gemm, {found.peer / found.default:5.2f} of torch.matmul, {gains[-1]:5.2f} of as written, spread "
                  f"{found.spread:.0%}", flush=True)
        for words, each in (("of gemm", ratios), ("of as written", gains)):
            print(f"{element}: {statistics.geometric_mean(each):.2f} {words} ({min(each):.2f} to {max(each):.2f})")


if __name__ == "__main__":
    main()
