"""Print what the offline compiler makes of products on the matrix units.

``python -m tools.xmx_quality`` prints tables of tiles, and of what is chosen by default; with ``--count 60``, and
``--seed 7`` for the same ones again, a table of products drawn at random, and one of their classes.  ``--cooperative``
prints those of programs in cooperative matrices.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import click

import tl_dpnp
from tl_dpnp.kernels.dpas.micro_kernel import MicroKernel
from tl_dpnp.lowering.instructions import whole_instruction
from tl_dpnp.scalars import SCALAR_TYPES, Precision
from tools import xmx_cooperative
from tools.xmx_drawn import DEVICES, report

_SHAPE = (256, 192, 512)
#: Products in cooperative matrices that are drawn where it is not said how many.
_DRAWN = 20
#: Tiles in blocks of rows and columns and steps along k, and registers of a thread, where blocks are read.
_BLOCKS = [
    (2, 2, 1, 128), (2, 4, 1, 128), (2, 4, 4, 128), (4, 4, 1, 256), (4, 4, 2, 256), (4, 4, 4, 256), (3, 8, 2, 256),
    (4, 6, 1, 256), (4, 6, 2, 256), (4, 6, 4, 256), (4, 6, 2, 128), (4, 7, 2, 256),
]
#: The same where single elements are loaded.
_ELEMENTS = [(1, 1, 1, 128), (1, 2, 1, 128), (2, 1, 1, 128), (2, 2, 1, 128), (2, 2, 1, 256)]
#: The same where operands are packed in local memory.
_STAGED = [(2, 2, 4, 128), (2, 2, 4, 256), (2, 4, 4, 256), (4, 3, 4, 256), (4, 4, 1, 256), (4, 4, 4, 256)]

#: How operands are loaded, by what a remark says of it.
_LOADS = {
    "elements": "single elements", "blocks, staged": "and by way of local memory", "blocks": "loads of blocks",
    "staged": "local memory",
}
#: Operands of products by default: types, transposes, precision.
_DEFAULTS = [
    (element, transposes, precision)
    for element, precision in (
        ("bf16", None), ("i8", None), ("i4", None), ("i2", None), ("f32", "high"), ("f32", "default"))
    for transposes in ("nn", "nt", "tn", "tt")
]


def _gemm(element: str, transposes: str) -> str:
    m, n, k = _SHAPE
    first, second = (k, m) if transposes[0] == "t" else (m, k), (n, k) if transposes[1] == "t" else (k, n)
    total, one, zero = ("f32", "1.0", "0.0") if SCALAR_TYPES[element].is_float else ("i32", "1", "0")
    a, b = (f"memref<{element}x{rows}x{columns}>" for rows, columns in (first, second))
    c = f"memref<{total}x{m}x{n}>"
    return (f"func @gemm(%A: {a}, %B: {b}, %C: {c}) {{ gemm.{transposes[0]}.{transposes[1]} {one}, %A, %B, {zero}, %C :"
            f" {total}, {a}, {b}, {total}, {c} }}")


def _row(device: str, kernel: tl_dpnp.Kernel, operands: str, tile: str, registers: int | None = None) -> str:
    found = kernel.resources(device=device, registers=registers)
    (remark,) = kernel.lower(device).remarks
    loads = next(name for name, text in _LOADS.items() if text in remark)  # blocks are named before what replaces them
    cells = (
        device, operands, tile, loads, found.registers, sum(found.loop.values()), found.loop["dpas"],
        found.loop["send"], found.scratch, found.local_memory, f"{found.dpas_share:.0%}", f"{found.busy_share:.0%}",
    )
    return f"| {' | '.join(map(str, cells))} |"


def _given(
    device: str, lanes: int, tile: tuple[int, int, int, int], transposes: str = "nn", staged: bool = False
) -> str:
    """Return the row of a product of bf16 with this tile."""
    rows, columns, steps, registers = tile
    name = f"dpas_f32_bf16_bf16_8x{lanes}x16_tile_{rows}x{columns}x{steps}" + ("_staged" if staged else "")

    def tensorize(schedule: tl_dpnp.Schedule) -> None:
        schedule.tensorize("m", name)

    kernel = tl_dpnp.compile(_gemm("bf16", transposes), schedule={"gemm_0": tensorize})
    size = f"{rows * lanes} x {8 * columns} x {16 * steps}"
    return _row(device, kernel, f"bf16 {transposes}", size, registers)


def _default(device: str, element: str, transposes: str, precision: Precision | None) -> str:
    """Return the row of a product as it is by default."""
    kernel = tl_dpnp.compile(_gemm(element, transposes), precision=precision)
    micro_kernel = whole_instruction(kernel.lower(device).schedules[0].nest, MicroKernel)
    assert micro_kernel is not None
    size = " x ".join(map(str, (*micro_kernel.tile, micro_kernel.depth)))
    return _row(device, kernel, " ".join([element, *([precision] if precision else []), transposes]), size)


@click.command()
@click.option("--seed", type=int, help="Of products drawn at random; drawn and printed if left out.")
@click.option("--count", type=click.IntRange(1), help="Products drawn at random; without it, fixed tables.")
@click.option("--devices", multiple=True, type=click.Choice(DEVICES), help="For drawn products; both by default.")
@click.option("--cooperative", is_flag=True, help="Products and attention in cooperative matrices, for Xe-HPC.")
def main(seed: int | None, count: int | None, devices: tuple[str, ...], cooperative: bool) -> None:
    """Print the tables as Markdown."""
    if cooperative and devices:
        raise click.UsageError("cooperative matrices are in registers on Xe-HPC only: leave out --devices")
    if count is None and not cooperative:
        if seed is not None or devices:
            raise click.UsageError("--seed and --devices are for products drawn at random: say how many by --count")
        _print_fixed()
        return
    seed = random.SystemRandom().randrange(1 << 31) if seed is None else seed
    click.echo(f"seed {seed}")
    drawn = count or _DRAWN
    for line in xmx_cooperative.report(seed, drawn) if cooperative else report(seed, drawn, devices or DEVICES):
        click.echo(line)


def _print_fixed() -> None:
    head = ("device", "operands", "tile", "loads", "registers", "loop", "dpas", "send", "scratch", "local memory",
            "by count", "serial")
    for table in (_tiles(), _defaults()):
        print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
        for row in table:
            print(row)
        print()


def _tiles() -> Iterator[str]:
    yield from (_given("pvc", 16, tile) for tile in _BLOCKS)
    for device, lanes in (("pvc", 16), ("dg2", 8)):
        yield from (_given(device, lanes, tile, "nt") for tile in _ELEMENTS)
        for transposes in ("nn", "nt"):
            yield from (_given(device, lanes, tile, transposes, staged=True) for tile in _STAGED)


def _defaults() -> Iterator[str]:
    for device in ("pvc", "dg2"):
        yield from (_default(device, *operands) for operands in _DEFAULTS)


if __name__ == "__main__":
    main()
