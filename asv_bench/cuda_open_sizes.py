"""Kernels whose sizes are open beside those whose sizes are written down: ``python -m asv_bench.cuda_open_sizes``.

Batches of small products of drawn sizes, as multiples of the speed with sizes that are written down: of calls after
the first, which has made a kernel for its sizes, and of the kernel for any sizes.  Needs PyTorch and a GPU.
"""

from __future__ import annotations

import math
import random
import re
import statistics
import time
from unittest import mock

import click
import torch

import tl_dpnp
from asv_bench.cuda_graphs import graph_of, interleaved_seconds
from asv_bench.cuda_sweep import Case

#: Those of which sums of products of small integers are exact: operands of bf16 have results in f32.
_TYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16}
#: Sizes, bytes of a case, rounds, calls of a graph, and those before, which have kernels made.
_LEAST, _MOST, _BYTES, _ROUNDS, _CALLS, _BEFORE = 3, 64, 300_000_000, 7, 3, 3


def _measure(case: Case, kernel: tl_dpnp.Kernel, general: tl_dpnp.Kernel) -> tuple[float, float, float]:
    """Return the speeds of two kernels whose sizes are open, and the seconds of the first call of the first one."""
    count = _BYTES // case.bytes
    shapes = ((count, case.k, case.m), (count, case.n, case.k))
    a, b = (torch.randint(-3, 4, shape, device="cuda").to(_TYPES[case.element]) for shape in shapes)
    c = torch.full((count, case.n, case.m), float("nan"), device="cuda", dtype=_TYPES[case.result])
    arguments = [tl_dpnp.rev(array) for array in (a, b, c)]
    begin = time.perf_counter()
    kernel(*arguments)
    torch.cuda.synchronize()
    first = time.perf_counter() - begin
    if not torch.equal(c.double(), torch.bmm(b.double(), a.double())):
        raise SystemExit(f"{case.element} {case}: wrong results")
    written = tl_dpnp.compile(case.source, target="cuda")
    graphs = [graph_of(lambda each=each: each(*arguments), _CALLS, _BEFORE)  # type: ignore[misc]
              for each in (written, kernel, general)]
    known, specialized, any_sizes = map(statistics.median, interleaved_seconds(graphs, _ROUNDS))
    return known / specialized, known / any_sizes, first


@click.command(help=__doc__)
@click.option("--seed", default=20261124, show_default=True)
@click.option("--count", default=8, show_default=True, help="Shapes for each type, of which eight have own kernels.")
def main(seed: int, count: int) -> None:
    """Print a line for each product, and the geometric means."""
    draw = random.Random(seed)
    for element in _TYPES:
        cases = [Case(element, *(draw.randint(_LEAST, _MOST) for _ in range(3))) for _ in range(count)]
        source = re.sub(r"x\d+", "x?", cases[0].source)
        kernel = tl_dpnp.compile(source, target="cuda")
        with mock.patch.dict("os.environ", TL_DPNP_SPECIALIZE="0"):
            general = tl_dpnp.compile(source, target="cuda")
        found = []
        for case in cases:
            found.append(_measure(case, kernel, general))
            print(f"{element} {case}: {found[-1][0]:.2f}, for any sizes {found[-1][1]:.2f}; "
                  f"first call {found[-1][2]:.2f} s", flush=True)
        means = [math.exp(statistics.fmean(math.log(entry[place]) for entry in found)) for place in (0, 1)]
        print(f"{element}: {means[0]:.2f} (least {min(found)[0]:.2f}), for any sizes {means[1]:.2f}; "
              f"{kernel.stats.specialized} sizes have kernels of their own", flush=True)


if __name__ == "__main__":
    main()
