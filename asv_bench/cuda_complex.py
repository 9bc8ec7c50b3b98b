"""Batches of products of complex matrices on the GPU beside ``torch.bmm`` and a copy of as many bytes.

``python -m asv_bench.cuda_complex``: cubes of c32 and c64, in graphs, by turns; results are compared with products in
complex128 before.  Needs PyTorch and a GPU.
"""

from __future__ import annotations

import statistics

import click
import torch

import tl_dpnp
from asv_bench.cuda_graphs import graph_of, interleaved_seconds

_TYPES = {"c32": torch.complex64, "c64": torch.complex128}
_SIZES = (8, 16, 24, 32, 48, 64)
#: Bytes that a call moves, calls of a graph, and rounds.
_BYTES, _CALLS, _ROUNDS = 400_000_000, 3, 9
_TOLERANCES = {"c32": 1e-6, "c64": 1e-14}


def program(element: str, size: int) -> str:
    """Return C[g] := A[g] B[g] for batches of square matrices."""
    matrix = f"memref<{element}x{size}x{size}>"
    batch = f"{matrix[:-1]}x?>"
    views = "".join(f"  %{name.lower()} = subview %{name}[:,:,%g] : {batch}\n" for name in "ABC")
    return (f"func @product(%A: {batch}, %B: {batch}, %C: {batch}) {{\n  %g = group_id\n{views}"
            f"  gemm.n.n 1, %a, %b, 0, %c : {element}, {matrix}, {matrix}, {element}, {matrix}\n}}\n")


def _measured(element: str, size: int) -> str:
    """Return a line for the cube of a size."""
    count = _BYTES // (3 * size * size * _TYPES[element].itemsize)
    shape = (count, size, size)
    a, b = (torch.randn(shape, device="cuda", dtype=_TYPES[element]) for _ in range(2))
    c, d = (torch.full(shape, float("nan"), device="cuda", dtype=_TYPES[element]) for _ in range(2))
    kernel = tl_dpnp.compile(program(element, size), target="cuda")
    arguments = [tl_dpnp.rev(array) for array in (a, b, c)]
    half = [torch.empty(count * size * size * 3 // 2, device="cuda", dtype=_TYPES[element]) for _ in range(2)]
    # In the order of memory the language's matrices are transposes, and so B comes first.
    calls = (lambda: kernel(*arguments), lambda: torch.bmm(b, a, out=d), lambda: half[0].copy_(half[1]))
    graphs = [graph_of(call, _CALLS) for call in calls]
    sample = slice(0, 64)
    expected = torch.bmm(b[sample].to(torch.complex128), a[sample].to(torch.complex128))
    error = float((c[sample] - expected).norm() / expected.norm())
    if not error <= _TOLERANCES[element]:
        raise SystemExit(f"{element} {size}: wrong results, {error}")
    samples = interleaved_seconds(graphs, _ROUNDS)
    own, theirs, copied = map(statistics.median, samples)
    spread = max(max(times) / min(times) for times in samples) - 1
    flops = 8 * size**3 * count * _CALLS / own / 1e12
    return (f"{element} {size:3}: {theirs / own:5.2f} of torch.bmm, {copied / own:5.2f} of a copy, "
            f"{flops:5.1f} TFLOP/s, spread {spread:.0%}; {kernel.signatures[0].form} form")


@click.command(help=__doc__)
@click.option("--sizes", default=",".join(map(str, _SIZES)), show_default=True)
def main(sizes: str) -> None:
    """Print a line for each type and size."""
    print(torch.cuda.get_device_name(), torch.__version__)
    for element in _TYPES:
        for size in map(int, sizes.split(",")):
            print(_measured(element, size), flush=True)


if __name__ == "__main__":
    main()
