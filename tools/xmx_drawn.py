"""Products drawn at random, compiled offline: how much of their main loop is DPAS, for `tools.xmx_quality`.

Sizes are 8 to 512 along each mode, half of them multiples of 8.  A chain is compiled as its two products: the first
one of matrices in ordinary memory, the second one of a first factor in local memory.
"""

from __future__ import annotations

import random
import resource
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import tl_dpnp
from tl_dpnp.errors import TLError
from tl_dpnp.runtime.offline.program import Resources
from tl_dpnp.scalars import SCALAR_TYPES, Precision

__all__ = ["DEVICES", "Drawn", "Measured", "draw", "measure", "report"]

DEVICES = ("pvc", "dg2")
KINDS = ("static", "dynamic", "batch", "group", "chain")
#: Type of A and B, and the precision of f32.
TYPES: dict[str, tuple[str, Precision | None]] = {
    "bf16": ("bf16", None), "f16": ("f16", None), "i8": ("i8", None), "u8": ("u8", None),
    "tf32": ("f32", "default"), "f32 high": ("f32", "high"),
}
_SMALLEST, _LARGEST = 8, 512
#: What m, n and k are at least for a product to be large.
_LARGE = 64
#: Bytes that the middle of a chain may have in local memory.
_MOST_LOCAL = 64 << 10
#: Classes, and the geometric mean of the shares by count that they should have: None is no aim.
AIMS: dict[str, float | None] = {
    "pvc, 16 and 8 bits, nn and tt, large": 0.60, "pvc, 16 and 8 bits, tn, large": 0.50,
    "pvc, 16 and 8 bits, nt, large": 0.33, "pvc, tf32 nn, large": 0.55, "pvc, tf32 otherwise, large": None,
    "pvc, f32 high, large": None, "pvc, smaller": 0.30, "pvc, second of a chain to the first": 0.50, "dg2": 0.20,
}


@dataclass(frozen=True)
class Drawn:
    """A product: C := alpha op(A) op(B) + beta C, or A in local memory where `is_second` of a chain."""

    kind: str
    types: str
    transposes: str
    m: int
    n: int
    k: int
    alpha: int
    beta: int
    is_second: bool = False

    @property
    def is_large(self) -> bool:
        """Whether no size is small."""
        return min(self.m, self.n, self.k) >= _LARGE

    @property
    def source(self) -> str:
        """The program."""
        operand = TYPES[self.types][0]
        result = "f32" if SCALAR_TYPES[operand].is_float else "i32"
        m, n, k = self.m, self.n, self.k
        shapes = ((k, m) if self.transposes[0] == "t" else (m, k), (n, k) if self.transposes[1] == "t" else (k, n),
                  (m, n))
        views = [f"memref<{name}x?x?>" if self.kind in ("dynamic", "group") else f"memref<{name}x{rows}x{columns}>"
                 for name, (rows, columns) in zip((operand, operand, result), shapes, strict=True)]
        loads, parameters = _parameters(self.kind, views)
        names = [f"%{name.lower()}" if loads else f"%{name}" for name in "ABC"]
        if self.is_second:
            loads = [f"%t = alloca -> {views[0]}", f"axpby.n {_constant(1, operand)}, %A, {_constant(0, operand)}, %t :"
                     f" {operand}, {views[0]}, {operand}, {views[0]}"]
            names[0] = "%t"
        alpha, beta = _constant(self.alpha, result), _constant(self.beta, result)
        gemm = f"gemm.{self.transposes[0]}.{self.transposes[1]} {alpha}, {names[0]}, {names[1]}, {beta}, {names[2]}"
        body = "\n".join([*loads, f"{gemm} : {result}, {views[0]}, {views[1]}, {result}, {views[2]}"])
        return f"func @product({', '.join(parameters)}) {{\n{body}\n}}"

    def __str__(self) -> str:
        kind = f"{self.kind}, second" if self.is_second else self.kind
        return f"{self.types} {self.transposes} {self.m} x {self.n} x {self.k}, {kind}, {self.alpha}, {self.beta}"


def _constant(value: int, name: str) -> str:
    return f"{value}.0" if SCALAR_TYPES[name].is_float else str(value)


def _parameters(kind: str, views: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the lines that get a work-group's matrices, and the parameters."""
    if kind not in ("batch", "group"):
        return [], [f"%{name}: {view}" for name, view in zip("ABC", views, strict=True)]
    loads, parameters = ["%g = group_id"], []
    for name, view in zip("ABC", views, strict=True):
        whole = f"group<{view}>" if kind == "group" else f"{view[:-1]}x?>"
        parameters.append(f"%{name}: {whole}")
        how = f"load %{name}[%g]" if kind == "group" else f"subview %{name}[:,:,%g]"
        loads.append(f"%{name.lower()} = {how} : {whole}")
    return loads, parameters


def draw(seed: int, count: int) -> list[Drawn]:
    """Return so many products of a seed."""
    rng = random.Random(seed)
    return [_one(rng) for _ in range(count)]


def _one(rng: random.Random) -> Drawn:
    kind = rng.choice(KINDS)
    types = rng.choice([name for name in TYPES if kind != "chain" or SCALAR_TYPES[TYPES[name][0]].is_float])
    while True:
        m, n, k = (_size(rng) for _ in range(3))
        if kind != "chain" or m * k * SCALAR_TYPES[TYPES[types][0]].bytes <= _MOST_LOCAL:
            break
    transposes = "nn" if kind == "chain" else "".join(rng.choice("nt") for _ in range(2))
    return Drawn(kind, types, transposes, m, n, k, rng.choice((1, 1, 2, -1)), rng.choice((0, 0, 1, 2)))


def _size(rng: random.Random) -> int:
    size = rng.randint(_SMALLEST, _LARGEST)
    return size // 8 * 8 if rng.random() < 0.5 else size


@dataclass(frozen=True)
class Measured:
    """What became of a product: its resources, or why there are none, and seconds: that passed, and of processors."""

    drawn: Drawn
    device: str
    resources: Resources | None
    problem: str
    seconds: float
    processor: float

    @property
    def classes(self) -> str:
        """The class that it counts in; the second of a chain counts by its ratio to the first one only."""
        if self.device != "pvc":
            return self.device
        drawn = self.drawn
        if not drawn.is_large:
            return "pvc, smaller"
        if drawn.types == "tf32":
            return f"pvc, tf32 {'nn' if drawn.transposes == 'nn' else 'otherwise'}, large"
        if drawn.types == "f32 high":
            return "pvc, f32 high, large"
        pair = "nn and tt" if drawn.transposes in ("nn", "tt") else drawn.transposes
        return f"pvc, 16 and 8 bits, {pair}, large"


def measure(drawn: Drawn, device: str) -> Measured:
    """Compile a product for a device, without the cache."""
    begin, before = time.perf_counter(), _processor()
    found, problem = None, ""
    try:
        kernel = tl_dpnp.compile(drawn.source, precision=TYPES[drawn.types][1], cache=False)
        found = kernel.resources(device=device)
    except TLError as error:
        problem = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return Measured(drawn, device, found, problem, time.perf_counter() - begin, _processor() - before)


def _processor() -> float:
    """Return the seconds of processors that this process and its children have taken."""
    return sum(usage.ru_utime + usage.ru_stime
               for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def row(measured: Measured) -> str:
    """Return the line of a table for one product."""
    found, times = measured.resources, (f"{measured.seconds:.1f}", f"{measured.processor:.1f}")
    if found is None:
        cells = (measured.device, measured.drawn, measured.problem, *[""] * 7, *times)
    else:
        cells = (measured.device, measured.drawn, "straight" if found.is_straight else "loop",
                 sum(found.loop.values()), found.loop["dpas"], f"{found.dpas_share:.0%}", f"{found.busy_share:.0%}",
                 found.registers, found.scratch, found.local_memory, *times)
    return f"| {' | '.join(map(str, cells))} |"


_HEAD = ("device", "product", "where", "instructions", "dpas", "by count", "by issue slots", "registers", "scratch",
         "local memory", "seconds", "processor seconds")
_CLASS_HEAD = ("class", "products", "by count", "aim", "by issue slots", "worst", "of")


def report(seed: int, count: int, devices: Sequence[str]) -> Iterator[str]:
    """Compile the products of a seed for devices; yields the lines of a table of them, and of one of classes."""
    yield from _table_head(_HEAD)
    all_: list[Measured] = []
    ratios = []
    for drawn in draw(seed, count):
        for device in devices:
            parts = [drawn]
            if drawn.kind == "chain":
                parts.append(replace(drawn, is_second=True))
            results = [measure(part, device) for part in parts]
            for result in results:
                yield row(result)
            all_ += results
            if device == "pvc" and len(results) == 2 and all(result.resources for result in results):
                ratios.append((_share(results[1]) / max(_share(results[0]), 1e-9), results[1]))
    yield ""
    yield from _classes(all_, ratios)
    yield ""
    yield from _summary(all_)


def _table_head(cells: Sequence[str]) -> Iterator[str]:
    yield f"| {' | '.join(cells)} |"
    yield f"|{'---|' * len(cells)}"


def _share(measured: Measured) -> float:
    return 0.0 if measured.resources is None else measured.resources.dpas_share


def _mean(values: Sequence[float]) -> float:
    """Return the geometric mean; one without DPAS counts as a thousandth."""
    return statistics.geometric_mean([max(value, 0.001) for value in values])


def _classes(all_: Sequence[Measured], ratios: Sequence[tuple[float, Measured]]) -> Iterator[str]:
    yield from _table_head(_CLASS_HEAD)
    found: dict[str, list[Measured]] = defaultdict(list)
    for each in all_:
        if each.resources is not None and not each.drawn.is_second:
            found[each.classes].append(each)
    for name, aim in AIMS.items():
        wanted = "" if aim is None else f"{aim:.0%}"
        if name.startswith("pvc, second"):
            if ratios:
                worst, of = min(ratios, key=lambda ratio: ratio[0])
                mean = f"{_mean([ratio for ratio, _ in ratios]):.0%}"
                yield f"| {name} | {len(ratios)} | {mean} | {wanted} | | {worst:.0%} | {of.drawn} |"
            continue
        if name in found:
            worst_one = min(found[name], key=_share)
            busy = _mean([each.resources.busy_share for each in found[name] if each.resources is not None])
            mean = _mean([_share(each) for each in found[name]])
            yield (f"| {name} | {len(found[name])} | {mean:.0%} | {wanted} | {busy:.0%} | {_share(worst_one):.0%} |"
                   f" {worst_one.drawn} |")


def _summary(all_: Sequence[Measured]) -> Iterator[str]:
    compiled = [each for each in all_ if each.resources is not None]
    scratch = [each for each in compiled if each.resources is not None and each.resources.scratch]
    slowest = max(all_, key=lambda each: each.processor)
    yield f"{len(compiled)} of {len(all_)} compiled, {len(scratch)} with scratch memory"
    yield f"the slowest took {slowest.processor:.1f} s of processors, {slowest.seconds:.1f} s: {slowest.drawn}"
