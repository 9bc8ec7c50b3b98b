"""A large matrix product on an NVIDIA GPU in stages, from plain loops to double buffers: each is a schedule.

A work-group of 8 warps computes a tile of 128 x 128 elements of C, in the last schedule 256 x 128, all in f32.  The
last stage has no schedule: products of bf16 run on tensor cores by themselves.  It needs PyTorch, whose products
(cuBLAS, without tf32) are timed beside the stages.

    python examples/cuda_gemm_stages.py --size 4096
"""

import argparse
import statistics

import tl_dpnp

#: Rows and columns of a work-group's tile, the rows of a large one, and of a work-item's tile, and the depth of the
#: pieces that are copied.
TILE, LARGE, ROWS, COLUMNS, DEPTH = 128, 256, 4, 16, 16


def program(size, work_group="", tile=LARGE):
    """Return C := A · B for square matrices in column-major order, `tile` rows and 128 columns for each work-group."""
    matrix, tiles = f"memref<f32x{size}x{size}>", size // tile
    panels = [f"memref<f32x{m}x{n},strided<1,{size}>>" for m, n in ((tile, size), (size, TILE), (tile, TILE))]
    return f"""
    func @gemm(%A: {matrix}, %B: {matrix}, %C: {matrix}) {work_group} {{
      %g = group_id
      %i = arith.rem %g, {tiles} : index
      %j = arith.div %g, {tiles} : index
      %m = arith.mul %i, {tile} : index
      %n = arith.mul %j, {TILE} : index
      %a = subview %A[%m:{tile}, 0:{size}] : {matrix}
      %b = subview %B[0:{size}, %n:{TILE}] : {matrix}
      %c = subview %C[%m:{tile}, %n:{TILE}] : {matrix}
      gemm.n.n 1.0, %a, %b, 0.0, %c : f32, {panels[0]}, {panels[1]}, f32, {panels[2]}
    }}"""


def naive(schedule):
    """Deal the elements of C to the lanes and warps, and compute one after another."""
    m, n = schedule.split("m", 32), schedule.split("n", COLUMNS)
    schedule.reorder(n.outer, m.outer, m.inner, n.inner)
    schedule.bind(n.outer, "columns")
    schedule.bind(m.inner, "lanes")


def tiled(schedule, in_pieces=False):
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
            case n.inner | m.inner:
                schedule.unroll(loop)
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


def warp_tile(schedule, vectors=False, ahead=False):
    """Give a warp 64 x 32 elements and a lane 8 x 8 of them: 64 products for 16 loads, from different banks.

    With `ahead` it is 64 x 64 and 8 x 16 elements: 128 products for 24 loads.
    """
    block = schedule.split("m", LARGE if ahead else TILE), schedule.split("n", TILE)
    rows, columns = schedule.split(block[0].inner, 64), schedule.split(block[1].inner, 64 if ahead else 32)
    row_parts, column_parts = schedule.split(rows.inner, 32), schedule.split(columns.inner, 16)
    row, column = schedule.split(row_parts.inner, 4), schedule.split(column_parts.inner, 4)
    # Of each four lanes two have the same rows, and two the same columns: half a warp reads vectors at once.
    row_lanes, column_lanes = schedule.split(row.outer, 2), schedule.split(column.outer, 2)
    lanes = column_lanes.outer, row_lanes.outer, column_lanes.inner, row_lanes.inner
    dealt = rows.outer, columns.outer, *lanes
    own = column_parts.outer, column.inner, row_parts.outer, row.inner
    schedule.reorder(block[0].outer, block[1].outer, *dealt, *own)
    parts = schedule.decompose_reduction("k", above=rows.outer)
    k = schedule.split("k", 2 * DEPTH)
    schedule.reorder(k.outer, *dealt, k.inner, *own)
    for names in ({}, parts.init, parts.finish):
        warp_row, warp_column, *lanes, part, other_part, inner, innermost = (
            names.get(loop, loop) for loop in (*dealt, *own))
        schedule.bind(warp_row, "rows")
        schedule.bind(warp_column, "columns")
        while len(lanes) > 1:
            lanes[-2:] = [schedule.fuse(*lanes[-2:])]
        schedule.bind(*lanes, "lanes")
        tile = part, other_part, inner, innermost
        for loop in tile[:-1]:
            schedule.unroll(loop)
        (schedule.vectorize if vectors else schedule.unroll)(tile[-1])
    copies = [schedule.cache_read(operand, "local") for operand in "AB"]
    for copy in copies:
        schedule.compute_at(copy, k.outer)
        _copy(schedule, copy, transposed=copy == copies[1], vectors=vectors)
    if vectors:
        schedule.unroll(k.inner)
    if ahead:
        for copy in copies:
            schedule.double_buffer(copy)
            schedule.copy_async(copy)
        schedule.load_ahead(k.inner)


def _copy(schedule, copy, transposed, vectors):
    """Copy columns of A as they are, four elements at a time, or 16 x 2 elements of B transposed and padded."""
    if transposed:
        schedule.transform_layout(copy, 1, 0)
        schedule.storage_align(copy, 0, 32, 4)
        slow, fast = schedule.loops_of(copy)
        columns, rows = schedule.split(slow, 16), schedule.split(fast, 16)
        few = schedule.split(columns.inner, 2)
        schedule.reorder(columns.outer, rows.outer, few.outer, few.inner, rows.inner)
        schedule.unroll(columns.outer)
        schedule.unroll(rows.outer)
        schedule.bind(few.outer, "subgroups")
        schedule.bind(schedule.fuse(few.inner, rows.inner), "lanes")
        return
    slow, fast = schedule.loops_of(copy)
    parts, turns = schedule.split(fast, 4), schedule.split(slow, 8)
    lanes = schedule.split(parts.outer, 32)
    schedule.reorder(turns.outer, turns.inner, lanes.outer, lanes.inner, parts.inner)
    schedule.unroll(turns.outer)
    schedule.unroll(lanes.outer)
    schedule.bind(turns.inner, "subgroups")
    schedule.bind(lanes.inner, "lanes")
    (schedule.vectorize if vectors else schedule.unroll)(parts.inner)


def vectorized(schedule):
    """Copy and read four elements at a time."""
    warp_tile(schedule, vectors=True)


def double_buffered(schedule):
    """Copy a piece asynchronously while the one before is computed, load registers ahead, and enlarge the tiles."""
    warp_tile(schedule, vectors=True, ahead=True)


def on_tensor_cores(size):
    """Return the same product of bf16, as one work-group of the language."""
    matrix = f"memref<bf16x{size}x{size}>"
    return f"""
    func @gemm(%A: {matrix}, %B: {matrix}, %C: {matrix}) {{
      gemm.n.n 1.0, %A, %B, 0.0, %C : bf16, {matrix}, {matrix}, bf16, {matrix}
    }}"""


#: The rows of a work-group's tile, and its 8 warps: along the columns only or along both modes.
ALONG_COLUMNS, ALONG_BOTH, OF_LARGE = ((rows, f"work_group_size({size}) subgroup_size(32)") for rows, size in (
    (TILE, "32, 8"), (TILE, "64, 4"), (LARGE, "128, 2")))
STAGES = {
    naive: ALONG_COLUMNS, thread_tile: ALONG_COLUMNS, blocked: ALONG_COLUMNS,
    warp_tile: ALONG_BOTH, vectorized: ALONG_BOTH, double_buffered: OF_LARGE,
}


def main():
    """Check every stage against float64, time all in turns and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=int, default=4096, help=f"rows of the matrices, a multiple of {LARGE}")
    parser.add_argument("--rounds", type=int, default=7, help="times that each stage runs")
    options = parser.parse_args()
    size = options.size
    if size <= 0 or size % LARGE:
        parser.error(f"--size must be a multiple of {LARGE}")
    try:
        import torch
    except ModuleNotFoundError:
        parser.exit(1, "PyTorch is missing, which makes the matrices here and is compared with: pip install torch\n")
    if not torch.cuda.is_available():
        parser.exit(1, f"PyTorch {torch.__version__} finds no CUDA device: nvidia-smi lists those that there are\n")
    torch.backends.cuda.matmul.allow_tf32 = False
    # C-ordered tensors are the transposes of column-major ones: (B A) as PyTorch sees it is A B as the kernel does.
    a, b = (torch.randn(size, size, device="cuda") for _ in range(2))
    c, other = (torch.full((size, size), float("nan"), device="cuda") for _ in range(2))
    expected = b[:64].double() @ a.double()
    views = [tl_dpnp.rev(matrix) for matrix in (a, b, c)]
    candidates = {}
    kernels = {}
    for stage, (rows, work_group) in STAGES.items():
        source = program(size, work_group, rows)
        kernels[stage.__name__] = tl_dpnp.compile(source, target="cuda", schedule={"gemm_0": stage}), rows
    kernels["by default"] = tl_dpnp.compile(program(size), target="cuda"), LARGE
    for name, (kernel, rows) in kernels.items():
        groups = size // rows * (size // TILE)
        candidates[name] = lambda kernel=kernel, groups=groups: kernel(*views, group_size=groups)
        c.fill_(float("nan"))
        candidates[name]()
        error = float((c[:64].double() - expected).norm() / expected.norm())
        assert error < 1e-5, f"{name} is wrong: relative error {error}"
        assert not bool(torch.isnan(c).any()), f"{name} leaves elements out"
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
    of_f32 = {"torch.mm", *kernels}
    for name, values in times.items():
        best = statistics.median(times["torch.mm" if name in of_f32 else "torch.mm of bf16"])
        median = statistics.median(values)
        spread = (max(values) - min(values)) / median
        print(f"{name:20}{median:10.3f}{2e-9 * size**3 / median:10.2f}{best / median:10.2f}{spread:10.1%}")
    print(f"\nchecked {len(kernels)} schedules of the same program, and that of bf16, against float64")


if __name__ == "__main__":
    main()
