"""A large matrix product on an NVIDIA GPU in stages, from plain loops to double buffers: each is a schedule.

A work-group of 8 warps computes a tile of 128 x 128 elements of C, all in f32.  The last stage has no schedule:
products of bf16 run on tensor cores by themselves.  It needs PyTorch, whose products (cuBLAS, without tf32) are timed
beside the stages.

    python examples/cuda_gemm_stages.py --size 4096
"""

import argparse
import statistics

import tl_dpnp

#: Rows and columns of a work-group's tile, of a work-item's, and the depth of the pieces that are copied.
TILE, ROWS, COLUMNS, DEPTH = 128, 4, 16, 16


def program(size):
    """Return C := A · B for square matrices in column-major order, one tile of C for each work-group."""
    matrix, tiles = f"memref<f32x{size}x{size}>", size // TILE
    panels = [f"memref<f32x{m}x{n},strided<1,{size}>>" for m, n in ((TILE, size), (size, TILE), (TILE, TILE))]
    return f"""
    func @gemm(%A: {matrix}, %B: {matrix}, %C: {matrix}) work_group_size(32, {TILE // COLUMNS}) subgroup_size(32) {{
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
    """Deal the elements of C to the lanes and warps, and compute one after another."""
    m, n = schedule.split("m", 32), schedule.split("n", COLUMNS)
    schedule.reorder(n.outer, m.outer, m.inner, n.inner)
    schedule.bind(n.outer, "columns")
    schedule.bind(m.inner, "lanes")


def tiled(schedule, in_pieces=False, vectors=False):
    """Cut out a work-item's tile, whose sums stay in registers; `in_pieces` cuts the sum as well. Return loops of k."""
    m, n = schedule.split("m", ROWS), schedule.split("n", COLUMNS)
    schedule.reorder(n.outer, m.outer, n.inner, m.inner)
    schedule.decompose_reduction("k", above=n.outer if in_pieces else n.inner)
    k = schedule.split("k", DEPTH)
    if in_pieces:
        schedule.reorder(k.outer, n.outer, m.outer, k.inner, n.inner, m.inner)
    for loop in schedule.loops:
        match loop.rstrip("'"):
            case n.outer:
                schedule.bind(loop, "columns")
            case m.outer:
                schedule.bind(loop, "lanes")
            case n.inner:
                schedule.unroll(loop)
            case m.inner:
                (schedule.vectorize if vectors else schedule.unroll)(loop)
    return k


def thread_tile(schedule):
    """Compute 4 x 16 elements in registers: 64 products for 20 loads, not one for two."""
    tiled(schedule)


def blocked(schedule):
    """Cut the sum into pieces, whose operands all warps copy to shared memory together."""
    k = tiled(schedule, in_pieces=True)
    for copy in (schedule.cache_read(operand, "local") for operand in "AB"):
        schedule.compute_at(copy, k.outer)
        slow, fast = schedule.loops_of(copy)
        schedule.bind(schedule.split(fast, 32, tail="guard").inner, "lanes")
        schedule.bind(slow, "subgroups")


def vectorized(schedule, buffers=1):
    """Copy four elements at a time and read as many: that of A as they come, that of B transposed and padded."""
    k = tiled(schedule, in_pieces=True, vectors=True)
    a, b = (schedule.cache_read(operand, "local") for operand in "AB")
    for copy in (a, b):
        schedule.compute_at(copy, k.outer)
    schedule.transform_layout(b, 1, 0)
    schedule.storage_align(b, 0, 8, 4)
    slow, fast = schedule.loops_of(a)
    parts = schedule.split(fast, 4)
    schedule.vectorize(parts.inner)
    schedule.bind(parts.outer, "lanes")
    schedule.bind(slow, "subgroups")
    slow, fast = schedule.loops_of(b)
    columns, rows = schedule.split(slow, 8), schedule.split(fast, 4)
    schedule.bind(columns.outer, "subgroups")
    schedule.bind(schedule.fuse(columns.inner, rows.outer), "lanes")
    schedule.unroll(rows.inner)
    schedule.unroll(k.inner)
    for copy in (a, b) if buffers > 1 else ():
        schedule.double_buffer(copy)


def double_buffered(schedule):
    """Copy a piece while the one before is computed: the halves of a buffer take turns."""
    vectorized(schedule, buffers=2)


def on_tensor_cores(size):
    """Return the same product of bf16, as one work-group of the language."""
    matrix = f"memref<bf16x{size}x{size}>"
    return f"""
    func @gemm(%A: {matrix}, %B: {matrix}, %C: {matrix}) {{
      gemm.n.n 1.0, %A, %B, 0.0, %C : bf16, {matrix}, {matrix}, bf16, {matrix}
    }}"""


STAGES = [naive, thread_tile, blocked, vectorized, double_buffered]


def main():
    """Check every stage against float64, time all in turns and print a table."""
    import torch

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=int, default=4096, help=f"rows of the matrices, a multiple of {TILE}")
    parser.add_argument("--rounds", type=int, default=7, help="times that each stage runs")
    options = parser.parse_args()
    size = options.size
    if size <= 0 or size % TILE:
        parser.error(f"--size must be a multiple of {TILE}")
    torch.backends.cuda.matmul.allow_tf32 = False
    # C-ordered tensors are the transposes of column-major ones: (B A) as PyTorch sees it is A B as the kernel does.
    a, b = (torch.randn(size, size, device="cuda") for _ in range(2))
    c, other = (torch.full((size, size), float("nan"), device="cuda") for _ in range(2))
    expected = b[:64].double() @ a.double()
    views = [tl_dpnp.rev(matrix) for matrix in (a, b, c)]
    candidates = {}
    for stage in STAGES:
        kernel = tl_dpnp.compile(program(size), target="cuda", form="subgroup", schedule={"gemm_0": stage})
        candidates[stage.__name__] = lambda kernel=kernel: kernel(*views, group_size=(size // TILE) ** 2)
        c.fill_(float("nan"))
        candidates[stage.__name__]()
        error = float((c[:64].double() - expected).norm() / expected.norm())
        assert error < 1e-5, f"{stage.__name__} is wrong: relative error {error}"
        assert not bool(torch.isnan(c).any()), f"{stage.__name__} leaves elements out"
    halves = [matrix.bfloat16() for matrix in (a, b, c)]
    kernel = tl_dpnp.compile(on_tensor_cores(size), target="cuda")
    candidates["tensor cores"] = lambda: kernel(*map(tl_dpnp.rev, halves))
    candidates["tensor cores"]()
    expected = halves[1][:64].double() @ halves[0].double()
    error = float((halves[2][:64].double() - expected).norm() / expected.norm())
    assert error < 1e-2, f"the product of bf16 is wrong: relative error {error}"
    candidates["torch.mm of bf16"] = lambda: torch.mm(halves[1], halves[0])
    candidates["torch.mm"] = lambda: torch.mm(b, a, out=other)
    for peer in ("torch.mm of bf16", "torch.mm"):
        candidates[peer]()  # the first call sets cuBLAS up

    times = {name: [] for name in candidates}
    for _ in range(options.rounds):
        for name, run in candidates.items():
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            run()
            stop.record()
            stop.synchronize()
            times[name].append(start.elapsed_time(stop))
    print(f"C := A · B, {size} x {size} x {size}, on {torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    print(f"{'stage':20}{'ms':>10}{'TFLOP/s':>10}{'of mm':>10}{'spread':>10}")
    of_f32 = {"torch.mm", *(stage.__name__ for stage in STAGES)}
    for name, values in times.items():
        best = statistics.median(times["torch.mm" if name in of_f32 else "torch.mm of bf16"])
        median = statistics.median(values)
        spread = (max(values) - min(values)) / median
        print(f"{name:20}{median:10.3f}{2e-9 * size**3 / median:10.2f}{best / median:10.2f}{spread:10.1%}")
    print(f"\nchecked {len(STAGES)} schedules of the same program, and that of bf16, against float64")


if __name__ == "__main__":
    main()
