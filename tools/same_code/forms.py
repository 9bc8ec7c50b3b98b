"""Kernels of the forms and engines that single instructions seldom take, with default and with given schedules."""

from __future__ import annotations

import random
import runpy
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from asv_bench.benchmarks.programs import batched, gemm
from tests.cuda.staged_programs import CASES
from tests.cuda.tensorized import TENSORIZED, scheduled, source
from tests.differential.device import LAYOUTS, with_layout
from tests.strategies.programs import random_program
from tl_dpnp.kernels.mma.rows import ROWS
from tl_dpnp.language import parse
from tl_dpnp.language.printer import print_function
from tl_dpnp.lowering.device import LoweringOptions
from tl_dpnp.lowering.schedules import resolve_schedules
from tl_dpnp.lowering.space import tunables
from tools import xmx_sweep
from tools.same_code.definitions import DEVICES, Definition

__all__ = ["FAMILIES", "random_programs"]

_EXAMPLES = Path(__file__).parents[2] / "examples"
_TRANSPOSES = tuple(map(".".join, product("nt", repeat=2)))


def random_programs(seed: int, count: int) -> Iterator[Definition]:
    """Yield random programs of consecutive seeds, in each layout in turn, some with bounds checks."""
    for number in range(seed, seed + count):
        program = random_program(number)
        layout = list(LAYOUTS)[number % len(LAYOUTS)]
        device = "avx2" if layout == "vector" and number % 8 == 0 else "avx512"
        options = {"form": LAYOUTS[layout][0], "debug": number % 3 == 0}
        yield Definition(f"random/{number}/{layout}/{device}", print_function(with_layout(program, LAYOUTS[layout])),
                         device, tuple(options.items()))
        if number % 3 == 1:
            text = print_function(with_layout(program, LAYOUTS["vector"]))
            yield Definition(f"random/{number}/sm_90a", text, "sm_90a", (("debug", number % 2 == 0),))


def _batches() -> Iterator[Definition]:
    """Small products of batches on CPUs: jammed, with a nest for operands beyond the caches, of all heights."""
    draw = random.Random("batches")
    for device, element in product(("avx512", "avx2"), ("f32", "f64", "bf16", "i32")):
        height = {"f32": 16, "f64": 8, "bf16": 16, "i32": 16}[element] // (2 if device == "avx2" else 1)
        k, n = draw.randint(2, 12), draw.randint(2, 12)
        memrefs = {"A": f"{element}x{height}x{k}", "C": f"{element}x{height}x{n}"}
        one, zero = ("1", "0") if element == "i32" else ("1.0", "0.0")
        text = batched(memrefs, f"gemm.n.n {one}, %a, %B, {zero}, %c : {element}, memref<{memrefs['A']}>, "
                                f"memref<{element}x{k}x{n}>, {element}, memref<{memrefs['C']}>",
                       shared={"B": f"{element}x{k}x{n}"})
        yield Definition(f"batch/shared-factor/{element}/{device}", text, device)
        for transposes in _TRANSPOSES[:: 1 if element in ("f32", "f64") else 3]:
            m, n, k = (draw.choice((draw.randint(1, 20), draw.randint(20, 70))) for _ in range(3))
            beta = draw.choice((0, 1, 2)) if element == "i32" else draw.choice((0.0, 1.0, 2.0))
            text = gemm(m, n, k, element, transposes, beta)
            if element == "i32":
                text = text.replace(" 1.0,", " 1,")
            yield Definition(f"batch/gemm.{transposes}/{element}/{m}x{n}x{k}/{device}", text, device)


def _divided() -> Iterator[Definition]:
    draw = random.Random("divided")
    for element, transposes in product(("f32", "f64"), _TRANSPOSES):
        m, n, k = (draw.randint(30, 150) for _ in range(3))
        yield Definition(f"divided/gemm.{transposes}/{element}/{m}x{n}x{k}", gemm(m, n, k, element, transposes),
                         "avx512", (("form", "divided"),))


def _staged() -> Iterator[Definition]:
    for name, case in CASES.items():
        yield Definition(f"staged/{name}", case.source, "sm_90a", (("precision", case.precision),))


def _batched_gemm(m: int, n: int, k: int, element: str, result: str, transposes: str, beta: float) -> str:
    a, b = ((m, k)[:: -1 if transposes[0] == "t" else 1], (k, n)[:: -1 if transposes[2] == "t" else 1])
    memrefs = {"A": f"{element}x{a[0]}x{a[1]}", "B": f"{element}x{b[0]}x{b[1]}", "C": f"{result}x{m}x{n}"}
    return batched(memrefs, f"gemm.{transposes} 1.0, %a, %b, {beta}, %c : {result}, memref<{memrefs['A']}>, "
                            f"memref<{memrefs['B']}>, {result}, memref<{memrefs['C']}>")


def _spread() -> Iterator[Definition]:
    draw = random.Random("spread")
    for element, transposes in product(("f32", "f64", "f16"), _TRANSPOSES):
        for multiple in (1, 16):
            m, n, k = (multiple * draw.randint(1, 64 // multiple) for _ in range(3))
            result = "f32" if element == "f16" else element
            text = _batched_gemm(m, n, k, element, result, transposes, draw.choice((0.0, 1.0)))
            yield Definition(f"spread/gemm.{transposes}/{element}/{m}x{n}x{k}", text, "sm_90a", (("form", "spread"),))


def _packed() -> Iterator[Definition]:
    draw = random.Random("packed")
    for element, transposes in product(("bf16", "f16"), _TRANSPOSES):
        m, n, k = (draw.randint(65, 180) for _ in range(3))
        text = _batched_gemm(m, n, k, element, element, transposes, 1.0)
        yield Definition(f"packed/gemm.{transposes}/{element}/{m}x{n}x{k}", text, "sm_90a", (("form", "packed"),))


def _tiled() -> Iterator[Definition]:
    types = (("bf16", "f32"), ("f16", "f32"), ("f16", "f16"), ("bf16", "bf16"), ("f32", "f32"))
    for number, (element, result) in enumerate(types):
        for place, transposes in enumerate(_TRANSPOSES):
            dynamic, batch = (number + place) % 3 == 0, (number + place) % 2 == 0
            a, b = (("?x?" if dynamic else size) for size in ("256x256", "256x256"))
            types = [f"{name}x{size}" for name, size in ((element, a), (element, b), (result, a))]
            one = "%p" if place == 1 else "1.0"
            beta = ("0.0", "1.0", "%q", "0.0")[place]
            if batch and not dynamic:
                heads = [f"%{name}: memref<{type_}x?>" for name, type_ in zip("ABC", types, strict=True)]
                views = "\n".join(f"%{name.lower()} = subview %{name}[:,:,%g] : memref<{type_}x?>"
                                  for name, type_ in zip("ABC", types, strict=True))
                names = ("%a", "%b", "%c")
            else:
                heads = [f"%{name}: memref<{type_}>" for name, type_ in zip("ABC", types, strict=True)]
                views, names = "", ("%A", "%B", "%C")
            a, b, c = (f"memref<{type_}>" for type_ in types)
            text = (f"func @f(%p: {result}, %q: {result}, {', '.join(heads)}) {{\n%g = group_id\n{views}\n"
                    f"gemm.{transposes} {one}, {names[0]}, {names[1]}, {beta}, {names[2]} : {result}, {a}, {b}, "
                    f"{result}, {c}\n}}")
            options = (("form", None if (number + place) % 2 else "tiled"),
                       *([("precision", "default")] if element == "f32" else []))
            yield Definition(f"tiled/gemm.{transposes}/{element}-{result}/{number + place}", text, "sm_90a", options)


def _blocked() -> Iterator[Definition]:
    for number, (element, result, precision) in enumerate((
        ("f32", "f32", "highest"), ("f32", "f32", "default"), ("f64", "f64", "highest"), ("bf16", "f32", "highest"),
        ("f16", "f16", "highest"),
    )):
        for place, transposes in list(enumerate(_TRANSPOSES))[number % 2 :: 2]:
            sizes = "513x513", "?x?,strided<?,?>", "500x500,strided<1,?>"
            size = sizes[(number + place) % len(sizes)]
            heads = [f"%{name}: memref<{type_}x{size}>"
                     for name, type_ in zip("ABC", (element, element, result), strict=True)]
            beta = ("0.0", "1.0", "%q", "0.0")[place]
            text = (f"func @f({', '.join([*heads, f'%q: {result}'])}) {{\n"
                    f"  gemm.{transposes} 1.0, %A, %B, {beta}, %C : {result}, memref<{element}x{size}>, "
                    f"memref<{element}x{size}>, {result}, memref<{result}x{size}>\n}}\n")
            yield Definition(f"blocked/gemm.{transposes}/{element}-{result}/{precision}", text,
                             "sm_86" if place == 3 and element == "f32" and precision == "highest" else "sm_90a",
                             (("form", "blocked"), ("precision", precision)))


def _blocks() -> Iterator[Definition]:
    """A tile of a large product for each work-group, on CUDA devices."""
    for number, (element, precision) in enumerate((
        ("f32", "highest"), ("f32", "high"), ("f32", "default"), ("f64", "highest"), ("f16", "highest"),
    )):
        for device in ("sm_90a", "sm_86"):
            size, rows, columns = 512, 256 if number % 2 else 128, 128
            panels = [f"memref<{element}x{m}x{n},strided<1,{size}>>"
                      for m, n in ((rows, size), (size, columns), (rows, columns))]
            matrix = f"memref<{element}x{size}x{size}>"
            text = f"""func @f(%A: {matrix}, %B: {matrix}, %C: {matrix}) {{
                %g = group_id
                %i = arith.rem %g, {size // rows} : index
                %j = arith.div %g, {size // rows} : index
                %m = arith.mul %i, {rows} : index
                %n = arith.mul %j, {columns} : index
                %a = subview %A[%m:{rows}, 0:{size}] : {matrix}
                %b = subview %B[0:{size}, %n:{columns}] : {matrix}
                %c = subview %C[%m:{rows}, %n:{columns}] : {matrix}
                gemm.n.n 2.0, %a, %b, -1.0, %c : {element}, {panels[0]}, {panels[1]}, {element}, {panels[2]}
            }}"""
            yield Definition(f"blocks/{element}-{precision}/{device}", text, device, (("precision", precision),))


def _matrix_units() -> Iterator[Definition]:
    """Products on DPAS: emulated with 8 and 16 lanes on a CPU, and for both devices, in turn."""
    for number, (kind, types) in enumerate(product(xmx_sweep.KINDS, xmx_sweep.TYPES)):
        found = list(xmx_sweep.cases(kind, types, 70))
        case = found[number % len(found)]
        target = (number + number // len(xmx_sweep.TYPES)) % 4
        options: dict[str, Any] = {"precision": case.precision or "highest"}
        if target < 2:
            options |= {"form": "subgroup", "emulate_dpas": (8, 16)[target]}
        device = ("avx512", "avx512", "dg2", "pvc")[target]
        name = f"dpas/{types}/{kind}/{case.transposes}/{device}{'-emulated' if target < 2 else ''}"
        yield Definition(name, case.text, device, tuple(options.items()))
    for a, transposes, device in product(("bf16", "i8"), ("nn", "tn"), ("dg2", "pvc")):
        c, one = ("i32", "1") if a == "i8" else ("f32", "1.0")
        first = "512x256" if transposes[0] == "t" else "256x512"
        x, y, z = f"memref<{a}x{first}>", f"memref<{a}x512x192>", f"memref<{c}x256x192>"
        text = (f"func @f(%A: {x}, %B: {y}, %C: {z}) {{ gemm.{transposes[0]}.{transposes[1]} {one}, %A, %B, {one}, %C :"
                f" {c}, {x}, {y}, {c}, {z} }}")
        yield Definition(f"dpas/{a}/large/{transposes}/{device}", text, device)


def _processor_tiles() -> Iterator[Definition]:
    """Products on the tiles of a processor (AMX), and what computes the same without them."""
    draw = random.Random("amx")
    types = (("bf16", "f32"), ("i8", "i32"), ("u8", "i32"))
    for number, ((element, result), transposes, amx) in enumerate(product(types, _TRANSPOSES, ("on", "emulate"))):
        m, n, k = (draw.randint(1, 6) * (32 if number % 3 else 16) + draw.choice((0, 0, 3)) for _ in range(3))
        a, b = transposes.split(".")
        x, y, z = (f"{element}x{k}x{m}" if a == "t" else f"{element}x{m}x{k}",
                   f"{element}x{n}x{k}" if b == "t" else f"{element}x{k}x{n}", f"{result}x{m}x{n}")
        one = "1" if result == "i32" else "1.0"
        text = batched({"A": x, "B": y, "C": z},
                       f"gemm.{transposes} {one}, %a, %b, {one}, %c : {result}, memref<{x}>, memref<{y}>, {result}, "
                       f"memref<{z}>")
        yield Definition(f"amx/gemm.{transposes}/{element}/{m}x{n}x{k}/{amx}", text, "amx", (("amx", amx),))


def _given_schedules() -> Iterator[Definition]:
    stages = runpy.run_path(str(_EXAMPLES / "gemm_stages.py"))
    for stage in stages["STAGES"]:
        yield _scheduled(f"schedule/{stage.__name__}", stages["program"](384), "avx512", stage)
    stages = runpy.run_path(str(_EXAMPLES / "cuda_gemm_stages.py"))
    for stage, (rows, work_group) in stages["STAGES"].items():
        yield _scheduled(f"schedule/cuda-{stage.__name__}", stages["program"](1024, work_group, rows), "sm_90a", stage)
    yield Definition("schedule/cuda-on-tensor-cores", stages["on_tensor_cores"](1024), "sm_90a")
    for number, name in enumerate(TENSORIZED):
        copied, transposes = ("", "A", "AB")[number % 3], ("nn", "nt", "tn", "tt")[number % 4]
        for device in ("sm_90a", "sm_86"):
            yield _scheduled(f"schedule/{name}/{device}", source(ROWS[name], transposes), device,
                             scheduled(ROWS[name], copied))


def _scheduled(name: str, text: str, device: str, schedule: Callable[[Any], Any] | Mapping[str, Any]) -> Definition:
    (function,) = parse(text)
    return Definition(name, text, device, (("schedules", resolve_schedules(function, {"gemm_0": schedule})),))


def _tuned() -> Iterator[Definition]:
    """Points of the space that tuning searches, drawn at random."""
    draw = random.Random("tuned")
    for form, element, transposes in product(("vector", "subgroup"), ("f32", "f64"), _TRANSPOSES):
        m, n, k = (draw.randint(1, 64) for _ in range(3))
        text = gemm(m, n, k, element, transposes, beta=1.0)
        (function,) = parse(text)
        (tunable,) = tunables(function, DEVICES["avx512"], LoweringOptions(form=form))
        tilings = [tiling for step in tunable.steps for tiling in step(tunable.default)] or [tunable.default]
        schedules = ((tunable.name, tunable.schedule(draw.choice(tilings))),)
        yield Definition(f"tuned/{form}/gemm.{transposes}/{element}/{m}x{n}x{k}", text, "avx512",
                         (("form", form), ("schedules", schedules)))


#: The first part of names, and what yields the kernels.
FAMILIES: dict[str, Callable[[], Iterator[Definition]]] = {
    "batch": _batches, "divided": _divided, "staged": _staged, "packed": _packed, "spread": _spread, "tiled": _tiled,
    "blocked": _blocked, "blocks": _blocks,
    "dpas": _matrix_units, "amx": _processor_tiles, "schedule": _given_schedules, "tuned": _tuned,
}
