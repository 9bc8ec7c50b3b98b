"""Print what the offline compiler makes of tiles on the matrix units: ``python -m tools.xmx_quality``."""

from __future__ import annotations

import tl_dpnp

_SHAPE = (256, 192, 512)
#: Tiles in blocks of rows and columns and steps along k, and registers of a thread.
_TILES = [
    (2, 2, 1, 128), (2, 4, 1, 128), (2, 4, 4, 128), (4, 4, 1, 256), (4, 4, 2, 256), (4, 4, 4, 256), (3, 8, 2, 256),
    (4, 6, 1, 256), (4, 6, 2, 256), (4, 6, 4, 256), (4, 6, 2, 128), (4, 7, 2, 256),
]
#: The same where blocks are not read.
_SMALL_TILES = [(1, 1, 1, 128), (1, 2, 1, 128), (2, 1, 1, 128), (2, 2, 1, 128), (2, 2, 1, 256)]

#: The same where loads take several elements.
_WIDE_TILES = [
    (2, 1, 1, 128), (2, 2, 4, 256), (4, 2, 1, 256), (4, 2, 2, 256), (4, 2, 4, 256), (4, 2, 4, 128), (4, 3, 4, 256),
    (4, 4, 4, 256),
]

#: How operands are loaded, by what a remark says of it.
_LOADS = {"elements": "single elements", "several": "several elements", "blocks": "reads of blocks"}


def _gemm(transposed: bool) -> str:
    m, n, k = _SHAPE
    second, letter = (f"memref<bf16x{n}x{k}>", "t") if transposed else (f"memref<bf16x{k}x{n}>", "n")
    first, result = f"memref<bf16x{m}x{k}>", f"memref<f32x{m}x{n}>"
    return (f"func @gemm(%A: {first}, %B: {second}, %C: {result}) {{ gemm.n.{letter} 1.0, %A, %B, 0.0, %C : f32,"
            f" {first}, {second}, f32, {result} }}")


def _row(device: str, lanes: int, tile: tuple[int, int, int, int], transposed: bool = False) -> str:
    rows, columns, steps, registers = tile
    name = f"dpas_f32_bf16_bf16_8x{lanes}x16_tile_{rows}x{columns}x{steps}"

    def tensorize(schedule: tl_dpnp.Schedule) -> None:
        schedule.tensorize("m", name)

    kernel = tl_dpnp.compile(_gemm(transposed), schedule={"gemm_0": tensorize})
    found = kernel.resources(device=device, registers=registers)
    (remark,) = kernel.lower(device).remarks
    loads = next(name for name, text in _LOADS.items() if text in remark)
    cells = (
        device, f"{rows * lanes} x {8 * columns} x {16 * steps}", loads, found.registers,
        sum(found.loop.values()), found.loop["dpas"], found.loop["send"], found.scratch, f"{found.dpas_share:.0%}",
        f"{found.busy_share:.0%}",
    )
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    """Print the table as Markdown."""
    print("| device | tile | loads | registers | loop | dpas | send | scratch bytes | by count | serial |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for tile in _TILES:
        print(_row("pvc", 16, tile))
    for tile in _SMALL_TILES:
        print(_row("pvc", 16, tile, transposed=True))
    for tile in _WIDE_TILES:
        print(_row("dg2", 8, tile))
    for tile in _SMALL_TILES:
        print(_row("dg2", 8, tile, transposed=True))


if __name__ == "__main__":
    main()
