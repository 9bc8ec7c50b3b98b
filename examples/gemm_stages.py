"""A matrix product in six stages, from three plain loops to vectors in registers: each stage is a schedule.

The program never changes: a work-group computes one tile of C.  The stages follow the steps by which TensorIR
tutorials optimise a GEMM for GPUs, carried over to a CPU: there the block's copies go to shared memory, here to the
core's first-level cache; a thread's tile, virtual threads and vectors mean the same.

    python examples/gemm_stages.py --size 768 --rounds 9 --plot stages.svg
"""

import argparse
import statistics
import textwrap
import time

import dpnp
import numpy as np

import tl_dpnp

#: Rows and columns of C that one work-group computes.
TILE = 192


def program(size):
    """Return C := A · B for square matrices in column-major order, one tile of C for each work-group."""
    matrix, tiles = f"memref<f32x{size}x{size}>", size // TILE
    panels = [f"memref<f32x{m}x{n},strided<1,{size}>>" for m, n in ((TILE, size), (size, TILE), (TILE, TILE))]
    return f"""
    func @gemm(%A: {matrix}, %B: {matrix}, %C: {matrix}) {{
      %g = group_id
      %i = arith.rem %g, {tiles} : index
      %j = arith.div %g, {tiles} : index
      %m = arith.mul %i, {TILE} : index
      %n = arith.mul %j, {TILE} : index
      %a = subview %A[%m:{TILE}, 0:{size}] : {matrix}
      %b = subview %B[0:{size}, %n:{TILE}] : {matrix}
      %c = subview %C[%m:{TILE}, %n:{TILE}] : {matrix}
      gemm.n.n 1.0, %a, %b, 0.0, %c : f32, {panels[0]}, {panels[1]}, f32, {panels[2]}
    }}"""


def naive(schedule):
    """Three loops as they are defined. Each step of the sum reads A a whole column further, in another cache line."""


def block(schedule):
    """Cut C into blocks and the sum into pieces, and copy what a piece needs of A and B; return loops and copies."""
    m, n = schedule.split("m", 64), schedule.split("n", 48)
    schedule.reorder(m.outer, n.outer, m.inner, n.inner)
    # The sums of a block are kept from piece to piece: their start and their end get loops of their own.
    schedule.decompose_reduction("k", above=m.inner)
    k = schedule.split("k", 32)
    a, b = (schedule.cache_read(operand, "local") for operand in "AB")
    for copy in (a, b):
        schedule.compute_at(copy, k.outer)
    return m, n, k, a, b


def blocked(schedule):
    """Work on blocks of C, on pieces of the sum whose operands are copied together and stay in the nearest cache.
    The copy of A is transposed, so that the innermost loop reads both operands consecutively."""
    m, n, k, a, _ = block(schedule)
    schedule.reorder(n.inner, m.inner, k.inner)
    schedule.transform_layout(a, 1, 0)


def thread_tile(schedule):
    """Compute tiles of 2 x 2 elements in registers: four products for four loads, not one for two."""
    m, n, k, _, _ = block(schedule)
    for copy in ("", "'", "''"):
        rows, columns = schedule.split(m.inner + copy, 2), schedule.split(n.inner + copy, 2)
        reduction = [k.inner] if copy == "" else []
        schedule.reorder(columns.outer, rows.outer, *reduction, columns.inner, rows.inner)
        schedule.unroll(rows.inner)
        schedule.unroll(columns.inner)


def virtual_threads(schedule):
    """Let 2 x 2 virtual threads take such tiles, half a block apart, and run them interleaved: sixteen sums are
    under way at a time, which hides the latency of a multiply-add, and every loaded element serves four of them."""
    m, n, k, _, _ = block(schedule)
    for copy in ("", "'", "''"):
        across, down = schedule.split(n.inner + copy, 24), schedule.split(m.inner + copy, 32)
        rows, columns = schedule.split(down.inner, 2), schedule.split(across.inner, 2)
        reduction = [k.inner] if copy == "" else []
        schedule.reorder(
            across.outer, down.outer, columns.outer, rows.outer, *reduction, columns.inner, rows.inner
        )
        schedule.bind(across.outer, "virtual")
        schedule.bind(down.outer, "virtual")
        schedule.unroll(rows.inner)
        schedule.unroll(columns.inner)


def vectorized(schedule):
    """Run the rows of a tile as lanes of vectors: 64 x 4 elements in sixteen registers. Copy by vectors as well."""
    m, n, k, a, b = block(schedule)
    for copy in ("", "'", "''"):
        rows, columns = schedule.split(m.inner + copy, 64), schedule.split(n.inner + copy, 4)
        reduction = [k.inner] if copy == "" else []
        schedule.reorder(columns.outer, rows.outer, *reduction, columns.inner, rows.inner)
        schedule.vectorize(rows.inner)
        schedule.unroll(columns.inner)
    for copy in (a, b):
        *_, consecutive = schedule.loops_of(copy)
        schedule.vectorize(schedule.split(consecutive, 16).inner)


def final(schedule):
    """Keep the sums of a larger tile, 64 x 6, in registers from start to end: no pieces, so that no sum is loaded or
    stored in between. GPU tutorials end with double buffers, which hide the time of the copies; here the copies go:
    vectors of A are consecutive, and the second-level cache and its prefetcher deliver them in time. Four products
    are unrolled."""
    m, n = schedule.split("m", 64), schedule.split("n", 6)
    schedule.reorder(n.outer, m.outer, n.inner, m.inner)
    schedule.vectorize(m.inner)
    schedule.unroll(n.inner)
    schedule.decompose_reduction("k", above=n.inner)
    schedule.unroll(schedule.split("k", 4).inner)


STAGES = [naive, blocked, thread_tile, virtual_threads, vectorized, final]


def measure(kernels, matrices, groups, rounds):
    """Return the median time of each kernel in seconds; they take turns, so that all see the same machine."""
    times = {name: [] for name in kernels}
    for _ in range(rounds):
        for name, kernel in kernels.items():
            start = time.perf_counter()
            kernel(*matrices, group_size=groups)
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def plot(rates, path):
    """Draw GFLOP/s of the stages into a file."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3), layout="constrained")
    names = list(reversed(rates))
    bars = axes.barh(names, [rates[name] for name in names], color="#0055aa")
    axes.bar_label(bars, fmt="%.1f", padding=3)
    axes.set_xlabel("GFLOP/s")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


def main():
    """Compile every stage, check it against NumPy, time all in turns and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=int, default=768, help=f"rows of the matrices, a multiple of {TILE}")
    parser.add_argument("--rounds", type=int, default=9, help="times that each stage runs")
    parser.add_argument("--plot", metavar="FILE", help="draw the speeds there (needs matplotlib)")
    options = parser.parse_args()
    size = options.size
    if size <= 0 or size % TILE:
        parser.error(f"--size must be a multiple of {TILE}")

    random = np.random.default_rng(5)
    A, B = (dpnp.asarray(random.standard_normal((size, size), dtype=np.float32), order="F") for _ in range(2))
    expected = dpnp.asnumpy(A) @ dpnp.asnumpy(B)
    C = dpnp.zeros((size, size), dtype=dpnp.float32, order="F")
    groups = (size // TILE) ** 2
    schedules = {stage.__name__: {"gemm_0": stage} for stage in STAGES}
    kernels = {}
    for name, schedule in {**schedules, "default": None}.items():
        kernels[name] = tl_dpnp.compile(program(size), form="vector", schedule=schedule)
        C[:] = 0
        kernels[name](A, B, C, group_size=groups)
        error = np.abs(dpnp.asnumpy(C) - expected).max() / np.abs(expected).max()
        assert error < 1e-5, f"{name} is wrong: relative error {error}"

    medians = measure(kernels, (A, B, C), groups, options.rounds)
    print(f"C := A · B, {size} x {size} x {size}, f32, on {kernels['naive'].signatures[0].device}\n")
    print(f"{'stage':20}{'ms':>10}{'GFLOP/s':>10}{'x naive':>10}{'x before':>10}")
    before = None
    for name, seconds in medians.items():
        gain = f"{before / seconds:10.2f}" if before is not None and name != "default" else " " * 10
        rate = 2e-9 * size**3 / seconds
        print(f"{name:20}{seconds * 1e3:10.2f}{rate:10.1f}{medians['naive'] / seconds:10.1f}{gain}")
        before = seconds
    print()
    for number, stage in enumerate(STAGES):
        explanation = " ".join(stage.__doc__.split())
        print(textwrap.fill(f"{number}. {stage.__name__}: {explanation}", 100, subsequent_indent="   "))
    if options.plot:
        plot({name: 2e-9 * size**3 / seconds for name, seconds in medians.items()}, options.plot)
    print("\ndefault: the compiler's own schedule, without any of this.")
    print(f"\nchecked {len(kernels)} schedules of the same program against NumPy")


if __name__ == "__main__":
    main()
