"""The code of a few kernels of each mapping and engine is what it was, on any machine.

Where it is not, `tools.same_code` shows how the code differs from that of an older state of the compiler; where it
should differ, ``--update-golden`` writes the hashes anew (CONTRIBUTING.md, "Tests").
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tests.bench.conftest  # noqa: F401  the benchmarks, which the kernels are drawn from, change the environment
from tl_dpnp.lowering.mappings.frames import FRAMES
from tools.same_code import forms, linear_algebra
from tools.same_code.building import fingerprint
from tools.same_code.definitions import Definition

GOLDEN = Path(__file__).parent / "golden"
FAMILIES = {"linear": linear_algebra.linear_algebra, "scalar": linear_algebra.scalar_code,
            "random": lambda: forms.random_programs(0, 60), **forms.FAMILIES}
#: One of so many kernels of a family is compared.
SHARE = {"linear": 16, "scalar": 14, "random": 6, "batch": 5, "divided": 3, "staged": 6, "packed": 1, "spread": 3,
         "tiled": 1, "blocked": 1, "blocks": 4, "dpas": 6, "amx": 4, "schedule": 6, "tuned": 3}
#: The engines that each mapping has.
ENGINES = {
    "vector": {"simd", "amx", "amx emulated"}, "divided": {"simd"},
    "subgroup": {"simd", "dpas", "dpas emulated, 8 lanes", "dpas emulated, 16 lanes", "fma", "mma.sync"},
    "staged": {"fma", "mma.sync"}, "packed": {"mma.sync"}, "spread": {"fma", "mma.sync"}, "tiled": {"wgmma.mma_async"},
    "blocked": {"fma", "mma.sync", "wgmma.mma_async"},
}


def chosen(family: str) -> Iterator[Definition]:
    """Yield the kernels that are compared: whether one is does not depend on which others there are."""
    for definition in FAMILIES[family]():
        if zlib.crc32(definition.name.encode()) % SHARE[family] == 0:
            yield definition


@pytest.mark.parametrize("family", FAMILIES)
def test_code_is_as_before(family: str, golden: Callable[[str, str], None]) -> None:
    golden(f"{family}.txt", "".join(f"{fingerprint(definition)}\n" for definition in chosen(family)))


def test_every_mapping_is_compared_on_every_engine() -> None:
    lines = [line for family in FAMILIES for line in (GOLDEN / f"{family}.txt").read_text("utf-8").splitlines()]
    found: dict[str, set[str]] = {form: set() for form in FRAMES}
    for line in lines:
        match line.partition(": ")[2].split("; "):
            case [mapping, engine, _]:
                found[mapping.partition(",")[0]].add(engine)
    assert found == ENGINES
    assert len(lines) >= 70
