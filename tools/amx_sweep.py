"""Products on the tiles of Intel's processors, all of them: ``python -m tools.amx_sweep``.

Every row of the table of products, and f32 by one and by three bf16, on sizes 1 to 80 along each of m, n and k, with
all transposes, factors and strides, compared with NumPy: on the processor's tiles where it has them, and emulated.
What lies between the columns of the operands is NaN, or large; what lies between those of the result must stay as it
is.  The last line says how many were wrong; so does the exit status.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import click
import numpy as np

import tl_dpnp
from tl_dpnp import config
from tl_dpnp.kernels.amx.rows import ROWS
from tl_dpnp.runtime.sycl import amx
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt
from tl_dpnp.scalars import SCALAR_TYPES

__all__ = ["TYPES", "Mode", "Product", "available", "check", "kernel_of", "products", "sweep"]

#: The name of a micro-kernel, the types of A, B and C.
TYPES: dict[str, tuple[str, str, str, str]] = {
    **{"-".join(row.types[:2]): (row.name, *row.types) for row in ROWS},
    "bf16-bf16-bf16": ("amx_f32_bf16_bf16", "bf16", "bf16", "bf16"),
    "f32-default": ("amx_f32_bf16_bf16_from_f32_by_1", "f32", "f32", "f32"),
    "f32-high": ("amx_f32_bf16_bf16_from_f32_by_3", "f32", "f32", "f32"),
}
#: Whether the processor's tiles compute, or the emulation.
Mode = Literal["auto", "emulate"]
_LARGEST, _STRIDE = 80, 83
_FACTORS = ((1, 0), (1, 1), (2, -3), (0, 2), (-1, 0))


@dataclass(frozen=True)
class Product:
    """C := alpha op(A) op(B) + beta C, of one size."""

    m: int
    n: int
    k: int
    transposes: str = "nn"
    factors: tuple[int, int] = (1, 0)

    @property
    def shapes(self) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        """Those of A, B and C as they lie in memory."""
        a, b = (self.m, self.k), (self.k, self.n)
        first, second = self.transposes
        return a if first == "n" else a[::-1], b if second == "n" else b[::-1], (self.m, self.n)


def available(types: str, mode: Mode) -> bool:
    """Whether products of some types can be computed: the processor has them and may, or they are emulated."""
    flag = next(row.flag for row in ROWS if TYPES[types][0].startswith(row.name))
    return mode == "emulate" or (flag in amx.features() and amx.refusal() is None)


def products(seed: int, step: int = 1) -> Iterator[Product]:
    """Yield products of every `step`-th size from 1 to 80 along each mode; transposes and factors are drawn."""
    random = np.random.default_rng(seed)

    def rest() -> tuple[str, tuple[int, int]]:
        return str(random.choice(["nn", "nt", "tn", "tt"])), _FACTORS[random.integers(len(_FACTORS))]

    for size in range(1 + seed % step, _LARGEST + 1, step):
        for shape in ((size, 9, 35), (18, size, 20), (10, 7, size), tuple(map(int, random.integers(1, 81, 3)))):
            yield Product(*shape, *rest())


def kernel_of(types: str, group: Sequence[Product], mode: Mode, **options: Any) -> tl_dpnp.Kernel:
    """Return a kernel that computes products, each with its own part of three arrays."""
    name, *elements = TYPES[types]
    lines = []
    for i, product in enumerate(group):
        operands = []
        for letter, element, (rows, columns) in zip("ABC", elements, product.shapes, strict=True):
            type_ = f"memref<{element}x{rows}x{columns},strided<1,{_STRIDE}>>"
            lines.append(f"  %{letter}{i} = subview %{letter}[1:{rows},0:{columns},{i}] : {_parameter(element, group)}")
            operands.append((f"%{letter}{i}", type_))
        result, (first, second) = elements[2], product.factors
        alpha, beta = (f"{x}.0" if SCALAR_TYPES[result].is_float else str(x) for x in (first, second))
        (a, a_type), (b, b_type), (c, c_type) = operands
        lines.append(f"  gemm.{'.'.join(product.transposes)} {alpha}, {a}, {b}, {beta}, {c} : "
                     f"{result}, {a_type}, {b_type}, {result}, {c_type}")
    parameters = ", ".join(f"%{letter}: {_parameter(element, group)}"
                           for letter, element in zip("ABC", elements, strict=True))
    text = "\n".join([f"func @products({parameters}) {{", *lines, "}"])

    def tensorized(schedule: tl_dpnp.Schedule) -> None:
        schedule.tensorize("m", name)

    schedules = {f"gemm_{i}": tensorized for i in range(len(group))}
    with config.scope(AMX=mode):
        return tl_dpnp.compile(text, schedule=schedules, **{"cache": False, **options})


def _parameter(element: str, group: Sequence[Product]) -> str:
    return f"memref<{element}x{_STRIDE}x{_LARGEST}x{len(group)}>"


def check(types: str, group: Sequence[Product], mode: Mode, seed: int, **options: Any) -> list[str]:
    """Compute products of small whole numbers, whose sums are exact, and return what is wrong."""
    random = np.random.default_rng(seed)
    names = TYPES[types][1:]
    values = []
    for letter, name in zip("ABC", names, strict=True):
        around = np.nan if SCALAR_TYPES[name].is_float else 100
        values.append(np.full((_STRIDE, _LARGEST, len(group)), 7.0 if letter == "C" else around))
    expected = values[2].copy()
    for i, product in enumerate(group):
        blocks = []
        for array, name, (rows, columns) in zip(values, names, product.shapes, strict=True):
            low = 0 if SCALAR_TYPES[name].kind == "unsigned" else -5
            array[1 : rows + 1, :columns, i] = random.integers(low, 6, (rows, columns))
            blocks.append(array[1 : rows + 1, :columns, i])
        a, b = (block.T if letter == "t" else block for block, letter in zip(blocks, product.transposes, strict=False))
        alpha, beta = product.factors
        expected[1 : product.m + 1, : product.n, i] = alpha * (a @ b) + beta * blocks[2]
    arrays = [dpt.asarray(_stored(array, name), order="F") for array, name in zip(values, names, strict=True)]
    kernel_of(types, group, mode, **options)(*arrays)
    found, wanted = (_numbers(array, names[2]) for array in (dpt.to_numpy(arrays[2]), _stored(expected, names[2])))
    return [f"{types} {mode} {product}: {int((found[..., i] != wanted[..., i]).sum())} wrong"
            for i, product in enumerate(group) if not np.array_equal(found[..., i], wanted[..., i])]


def _stored(values: Any, name: str) -> Any:
    """Return numbers as they lie in memory; bf16 rounds to the nearest, ties to even."""
    if name != "bf16":
        return values.astype(SCALAR_TYPES[name].storage)
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def _numbers(stored: Any, name: str) -> Any:
    """Return numbers of what lies in memory."""
    return (stored.astype(np.uint32) << 16).view(np.float32) if name == "bf16" else stored


def sweep(names: Sequence[str], modes: Sequence[Mode], seed: int, step: int = 1, together: int = 16) -> Iterator[
        tuple[str, Mode, int, list[str]]]:
    """Yield the types, the mode, the number of products and what is wrong, for each kernel."""
    for name in names:
        for mode in modes:
            if not available(name, mode):
                continue
            every = list(products(seed, step))
            for first in range(0, len(every), together):
                group = every[first : first + together]
                yield name, mode, len(group), check(name, group, mode, seed + first)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--types", "names", multiple=True, type=click.Choice(list(TYPES)), default=list(TYPES))
@click.option("--mode", "modes", multiple=True, type=click.Choice(["auto", "emulate"]), default=["auto", "emulate"],
              help="auto: the processor's tiles.")
@click.option("--seed", default=0, show_default=True)
@click.option("--step", default=1, show_default=True, help="Every so many sizes.")
def main(names: Sequence[str], modes: Sequence[Mode], seed: int, step: int) -> None:
    """Run products on tiles and compare them with NumPy."""
    wrong: list[str] = []
    counts: dict[tuple[str, str], int] = {}
    for name, mode, count, problems in sweep(names, modes, seed, step):
        wrong += problems
        counts[name, mode] = counts.get((name, mode), 0) + count
        for problem in problems:
            click.echo(problem)
    for name in names:
        for mode in modes:
            click.echo(f"{name:15} {mode:8} {counts.get((name, mode), 'not run: the processor has no such tiles')}")
    click.echo(f"{len(wrong)} of {sum(counts.values())} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
