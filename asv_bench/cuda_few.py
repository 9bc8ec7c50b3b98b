"""Batches of few products on the GPU beside ``torch.bmm``: ``python -m asv_bench.cuda_few``.

Each call is one of 50 in a graph, by turns.  Cubes of the sizes that are named, or shapes drawn by a seed, n.n with
beta = 0; all results are compared with float64 before.  Needs PyTorch and a GPU.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable
from typing import Any

import click
import torch

import tl_dpnp
from asv_bench.cuda_graphs import graph_of, interleaved_seconds
from asv_bench.cuda_sweep import ELEMENTS, TOLERANCES, TORCH, Case

_CALLS, _ROUNDS, _LEAST, _MOST = 50, 7, 3, 64
_COUNTS, _SIZES = "1,16,132,1000", "8,16,32,64"


def _calls(case: Case, count: int) -> list[Callable[[], Any]]:
    """Return calls of ours and of PyTorch's product, after a check of the results."""
    dtype, out = TORCH[case.element], TORCH[case.result]
    drawn, wide = (torch.promote_types(dtype, real) for real in (torch.float32, torch.float64))
    a, b = (torch.randn(count, *shape, device="cuda", dtype=drawn).to(dtype)
            for shape in ((case.k, case.m), (case.n, case.k)))
    c = torch.full((count, case.n, case.m), float("nan"), device="cuda", dtype=out)
    kernel = tl_dpnp.compile(case.source, target="cuda")
    views = [tl_dpnp.rev(array) for array in (a, b, c)]
    kernel(*views)
    expected = torch.bmm(b.to(wide), a.to(wide))
    error = float((c.to(wide) - expected).norm() / expected.norm())
    if not error <= TOLERANCES[case.result]:
        raise SystemExit(f"{case.types} {case}, {count} products: wrong results, {error:.1e}")
    if case.element == case.result:
        other = torch.empty_like(c)
        return [lambda: kernel(*views), lambda: torch.bmm(b, a, out=other)]
    return [lambda: kernel(*views), lambda: torch.bmm(b, a, out_dtype=out)]


@click.command(help=__doc__)
@click.option("--element", "elements", multiple=True, type=click.Choice(list(ELEMENTS)),
              help="Types, by default all of them.")
@click.option("--counts", default=_COUNTS, show_default=True, help="Products of a batch, apart by commas.")
@click.option("--sizes", default=_SIZES, show_default=True, help="Sizes of cubes, apart by commas; none with --drawn.")
@click.option("--drawn", default=0, show_default=True, help="Shapes from 3 to 64 that are drawn in place of cubes.")
@click.option("--seed", default=0, show_default=True)
def main(elements: tuple[str, ...], counts: str, sizes: str, drawn: int, seed: int) -> None:
    """Print a line for each type and shape, with microseconds and the speed as a multiple of PyTorch's."""
    print(torch.cuda.get_device_name(), torch.__version__, f"seed {seed}")
    for types in elements or ELEMENTS:
        random_ = random.Random(f"{seed} {types}")
        shapes = [tuple(random_.randint(_LEAST, _MOST) for _ in "mnk") for _ in range(drawn)]
        ratios = []
        for m, n, k in shapes or [(size, size, size) for size in map(int, sizes.split(","))]:
            parts = []
            for count in map(int, counts.split(",")):
                graphs = [graph_of(call, _CALLS) for call in _calls(Case(types, m, n, k), count)]
                ours, theirs = map(statistics.median, interleaved_seconds(graphs, _ROUNDS))
                ratios.append(theirs / ours)
                parts.append(f"{count}: {ours / _CALLS * 1e6:.2f} us, {ratios[-1]:.2f} of torch.bmm")
            print(f"{types} {m}x{n}x{k}; " + "; ".join(parts), flush=True)
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        print(f"{types}: geometric mean {mean:.2f} of torch.bmm, least {min(ratios):.2f}, "
              f"{sum(ratio < 1 for ratio in ratios)} of {len(ratios)} slower")


if __name__ == "__main__":
    main()
