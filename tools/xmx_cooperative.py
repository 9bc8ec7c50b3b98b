"""Products and attention in cooperative matrices, compiled offline: how much of their loops is DPAS.

For `tools.xmx_quality`: a product whose tiles a program cuts itself, beside the loop of ``gemm`` for the same matrices,
and the example of flash attention.  Sizes of matrices are known at the call.
"""

from __future__ import annotations

import random
import runpy
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import tl_dpnp
from tl_dpnp.runtime.offline.assembly import Instruction, inner_loops, mix, parse
from tl_dpnp.runtime.offline.program import Resources

__all__ = ["ATTENTION", "Attention", "Share", "Tiled", "attention", "draw", "measure", "report"]

#: Types of factors and sums.
TYPES = (("bf16", "f32"), ("f16", "f32"), ("i8", "i32"), ("u8", "i32"))
#: Rows and columns of tiles, and the steps of DPAS along the sum that a program takes at a time.
_ROWS, _COLUMNS, _STEPS = (16, 32, 64, 128), (8, 16, 24, 32, 48, 64), (1, 2, 4)
#: Registers that sums and factors of one step take at most: programs that need more are not in registers.
_MOST = 224
#: What a tile must have for its loop to have the share of ``gemm``: a message of a first factor that lies along the sum
#: brings one block of 16 rows, which as many DPAS use as the tile has blocks of 8 columns.
_LARGE = 4
#: Queries, keys and dimension of blocks of flash attention.
ATTENTION = ((16, 16, 32), (16, 16, 64), (16, 32, 64), (16, 16, 128))
#: Shares of loops whose ratio is larger than this are of copies of one.
_ALIKE = 0.9
_EXAMPLE = Path(__file__).parents[1] / "examples" / "flash_attention.py"


@dataclass(frozen=True)
class Tiled:
    """A product whose program has tiles of `rows` x `columns`, and takes `depth` terms at a time.

    The first factor is transposed in memory where it `is_transposed`.
    """

    factor: str
    total: str
    rows: int
    columns: int
    depth: int
    is_transposed: bool

    @property
    def is_large(self) -> bool:
        """Whether messages bring no more of the factors than DPAS has to do with them."""
        blocks = self.columns // 8
        return blocks >= _LARGE and self.rows // 16 * blocks >= 2 * _LARGE

    def __str__(self) -> str:
        letter = "t" if self.is_transposed else "n"
        return f"{self.factor} {letter}n | {self.rows} x {self.columns} x {self.depth}"

    @property
    def source(self) -> str:
        """The program."""
        factor, total, rows, columns, depth = self.factor, self.total, self.rows, self.columns, self.depth
        letter, place = (".t", "%k, %i") if self.is_transposed else ("", "%i, %k")
        a, b, c = self.memrefs
        sums = f"coopmatrix<{total}x{rows}x{columns},matrix_acc>"
        return f"""func @product(%A: {a}, %B: {b}, %C: {c}) {{
            %x = group_id.x : index  %y = group_id.y : index  %0 = constant 0 : index
            %rows = constant {rows} : index  %columns = constant {columns} : index  %depth = constant {depth} : index
            %i = mul %x, %rows : index  %j = mul %y, %columns : index  %terms = size %B[0] : index
            %zero = constant 0 : {sums}
            parallel {{
                %sum = for %k = %0, %terms, %depth init(%c=%zero) -> ({sums}) {{
                    %a = cooperative_matrix_load{letter}.both_checked %A[{place}] :
                        coopmatrix<{factor}x{rows}x{depth},matrix_a>
                    %b = cooperative_matrix_load.both_checked %B[%k, %j] :
                        coopmatrix<{factor}x{depth}x{columns},matrix_b>
                    %d = cooperative_matrix_mul_add %a, %b, %c : {sums}
                    yield (%d)
                }}
                cooperative_matrix_store.both_checked %sum, %C[%i, %j]
            }}
        }}"""

    @property
    def memrefs(self) -> tuple[str, str, str]:
        """The types of the matrices."""
        a, b, c = (f"memref<{type}x?x?>" for type in (self.factor, self.factor, self.total))
        return a, b, c

    @property
    def gemm(self) -> str:
        """The same by one instruction."""
        a, b, c = self.memrefs
        letter = "t" if self.is_transposed else "n"
        return f"func @gemm(%A: {a}, %B: {b}, %C: {c}) {{ gemm.{letter}.n 1, %A, %B, 0, %C }}"


class Share(NamedTuple):
    """What the loops of a product have, in cooperative matrices and by ``gemm``."""

    product: Tiled
    own: Resources
    gemm: Resources

    @property
    def ratio(self) -> float:
        """The share of DPAS to that of ``gemm``."""
        return self.own.dpas_share / self.gemm.dpas_share


def draw(rng: random.Random) -> Tiled:
    """Return a product that is in registers."""
    while True:
        factor, total = rng.choice(TYPES)
        bits = 8 if factor[1:] == "8" else 16
        depth = 256 // bits * rng.choice(_STEPS)
        rows, columns, is_transposed = rng.choice(_ROWS), rng.choice(_COLUMNS), rng.random() < 0.4
        if rows * columns * 32 + (rows + columns) * depth * bits <= _MOST * 512:
            return Tiled(factor, total, rows, columns, depth, is_transposed)


class Attention(NamedTuple):
    """What the loop of flash attention has, and how many of its instructions compute two registers."""

    resources: Resources
    wide: int

    @property
    def busy_share(self) -> float:
        """Clocks of the matrix engine among those of the loop, one for each register that others compute."""
        found = self.resources
        return found.dpas_clocks / (found.dpas_clocks + found.loop.total() - found.loop["dpas"] + self.wide)


def measure(product: Tiled, known: dict[str, Resources] | None = None) -> Share:
    """Compile a product and ``gemm`` for Xe-HPC; what was compiled for ``gemm`` before is `known`."""
    known = {} if known is None else known
    if product.gemm not in known:
        known[product.gemm] = _resources(product.gemm)
    return Share(product, _in_registers(product.source).resources, known[product.gemm])


def _resources(source: str) -> Resources:
    return tl_dpnp.compile(source, cache=False).compile_offline("pvc").resources


def _in_registers(source: str, **define: str | int) -> Attention:
    """Return what a program in cooperative matrices has where these are in registers.

    A kernel has other loops for what messages cannot access: the ones that load blocks are meant, and of these that
    with functions, if there is one, else that with the largest share of DPAS.  One that is like it, behind it, is for
    rare cases.
    """
    program = tl_dpnp.compile(source, define=define, cache=False).compile_offline("pvc")
    loops = [loop for loop in inner_loops(parse(program.assembly))
             if any("load_block2d" in instruction.rest for instruction in loop)]
    most = max((mix(loop)["math"], mix(loop)["dpas"] / len(loop)) for loop in loops)
    found = next(loop for loop in loops
                 if mix(loop)["math"] == most[0] and mix(loop)["dpas"] > _ALIKE * most[1] * len(loop))
    loop = mix(found)
    clocks = loop["dpas"] * program.resources.dpas_clocks // program.resources.loop["dpas"]
    return Attention(replace(program.resources, loop=loop, dpas_clocks=clocks), sum(map(_is_wide, found)))


def _is_wide(instruction: Instruction) -> bool:
    """Whether an instruction computes 32 elements of 32 bits."""
    return instruction.rest.startswith("(32|M0)") and instruction.types[0] in ("f", "d", "ud")


def attention(factor: str, queries: int, keys: int, dimension: int) -> Attention:
    """Compile the example of flash attention for Xe-HPC."""
    source = runpy.run_path(str(_EXAMPLE))["SOURCE"]
    return _in_registers(source, factor=factor, queries=queries, keys=keys, dimension=dimension)


def report(seed: int, count: int) -> Iterator[str]:
    """Yield tables, as Markdown: of products drawn at random, of the ratio to ``gemm``, and of flash attention."""
    rng, known, found = random.Random(seed), dict[str, Resources](), list[Share]()
    yield "| factors | tile | loop | dpas | send | scratch | by count | serial | `gemm`, by count | ratio |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for _ in range(count):
        share = measure(draw(rng), known)
        found.append(share)
        yield f"| {share.product} | {_cells(share.own)} | {share.gemm.dpas_share:.0%} | {share.ratio:.2f} |"
    yield "\n| tiles | products | ratio to `gemm` | least |\n|---|---|---|---|"
    for name, is_large in (("large", True), ("others", False)):
        ratios = [share.ratio for share in found if share.product.is_large == is_large]
        if ratios:
            yield f"| {name} | {len(ratios)} | {statistics.geometric_mean(ratios):.2f} | {min(ratios):.2f} |"
    yield ("\n| attention | queries | keys | dimension | loop | dpas | send | scratch | by count | serial | "
           "by registers | others |")
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|"
    for sizes in ATTENTION:
        factor = rng.choice(("bf16", "f16"))
        loop = attention(factor, *sizes)
        cells = " | ".join([factor, *map(str, sizes), _cells(loop.resources), f"{loop.busy_share:.0%}"])
        others = ", ".join(f"{number} {name}" for name, number in loop.resources.loop.most_common()
                           if name not in ("dpas", "send"))
        yield f"| {cells} | {others} |"


def _cells(found: Resources) -> str:
    cells = (sum(found.loop.values()), found.loop["dpas"], found.loop["send"], found.scratch,
             f"{found.dpas_share:.0%}", f"{found.busy_share:.0%}")
    return " | ".join(map(str, cells))
