"""The tables of programs in cooperative matrices; ``python -m tools.xmx_quality --cooperative`` compiles them."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from click.testing import CliRunner

from tests.runtime.support import needs_tools
from tests.strategies.values import fortran
from tl_dpnp.language import parse
from tl_dpnp.language.interpreter import interpret
from tl_dpnp.runtime.offline.program import Resources
from tools import xmx_cooperative
from tools.xmx_cooperative import ATTENTION, Attention, Share, Tiled, attention, draw, measure, report
from tools.xmx_quality import main


def test_products_that_are_drawn_have_all_types_and_tiles_of_all_sorts() -> None:
    drawn = [draw(random.Random(seed)) for seed in range(200)]
    assert {each.factor for each in drawn} == {"bf16", "f16", "i8", "u8"}
    assert {each.is_transposed for each in drawn} == {each.is_large for each in drawn} == {True, False}
    assert len({(each.rows, each.columns, each.depth) for each in drawn}) > 40


@pytest.mark.parametrize("seed", range(4))
def test_a_program_computes_what_gemm_does(seed: int) -> None:
    product = draw(random.Random(seed))
    numbers = np.random.default_rng(seed)
    m, n, k = 3 * product.rows // 2, 2 * product.columns, 2 * product.depth + 4
    storage = {"bf16": "uint16", "f16": "float16", "f32": "float32", "i8": "int8", "u8": "uint8", "i32": "int32"}
    a, b = (fortran(numbers.integers(0, 3, shape) * (16256 if product.factor == "bf16" else 1),
                    storage[product.factor]) for shape in ((k, m) if product.is_transposed else (m, k), (k, n)))
    results = [fortran(np.zeros((m, n)), storage[product.total]) for _ in range(2)]
    groups = -(-m // product.rows), -(-n // product.columns), 1
    interpret(parse(product.source).functions[0], (a, b, results[0]), groups)
    interpret(parse(product.gemm).functions[0], (a, b, results[1]))
    assert np.array_equal(*results)
    assert results[0].any()


@needs_tools
@pytest.mark.parametrize("product", [
    Tiled("bf16", "f32", 64, 32, 32, False), Tiled("f16", "f32", 64, 16, 32, False),
    Tiled("u8", "i32", 64, 32, 32, False), Tiled("f16", "f32", 32, 32, 32, True), Tiled("i8", "i32", 64, 32, 64, True),
], ids=str)
def test_tiles_have_the_share_of_gemm(product: Tiled) -> None:
    found = measure(product)
    assert found.own.loop["dpas"] >= 24
    assert found.own.scratch == found.own.spilled == 0
    assert found.ratio >= 0.95


@needs_tools
def test_the_loop_of_attention_is_that_with_functions() -> None:
    queries, keys, dimension = ATTENTION[0]
    loop = attention("bf16", queries, keys, dimension)
    found = loop.resources
    # Two products, and one with 16 rows of ones.
    assert found.loop["dpas"] == (2 * dimension + 16) * keys * queries // (8 * 16 * 16)
    # Powers and scaled scores are computed two registers of 16 lanes at a time, weights are rounded one by one.
    assert found.loop["math"] == found.loop["mul"] == queries * keys // 32
    assert queries * keys // 16 <= found.loop["mov"] <= queries * keys // 16 + 2
    assert found.dpas_share > 0.16
    assert loop.wide >= 2 * queries * keys // 32
    assert loop.busy_share > 0.5
    assert found.scratch == 0


def _resources(dpas: int, total: int) -> Resources:
    loop = Counter({"dpas": dpas, "math": 3, "send": total - dpas - 3})
    return Resources(256, 16, 0, 0, 0, 1000, loop, 8 * dpas, 0)


def test_the_report_has_products_ratios_and_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(product: Tiled, known: dict[str, Resources]) -> Share:
        return Share(product, _resources(48 if product.is_large else 20, 100), _resources(50, 100))

    monkeypatch.setattr(xmx_cooperative, "measure", measured)
    monkeypatch.setattr(xmx_cooperative, "attention", lambda *sizes: Attention(_resources(5, 100), 27))
    products, ratios, attentions = "\n".join(report(7, 30)).split("\n\n")
    assert len(products.splitlines()) == 2 + 30
    large, others = ratios.splitlines()[2:]
    assert large.startswith("| large | ")
    assert large.endswith(" | 0.96 | 0.96 |")
    assert others.endswith(" | 0.40 | 0.40 |")
    assert [line.split(" | ")[1:4] for line in attentions.splitlines()[2:]] == [[*map(str, s)] for s in ATTENTION]
    assert attentions.endswith("| 100 | 5 | 92 | 0 | 5% | 30% | 25% | 3 math |")


def test_the_command_draws_as_many_as_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(xmx_cooperative, "report", lambda seed, count: seen.append((seed, count)) or ["a line"])
    result = CliRunner().invoke(main, ["--cooperative", "--seed", "7", "--count", "3"])
    assert (result.output, seen) == ("seed 7\na line\n", [(7, 3)])
    CliRunner().invoke(main, ["--cooperative", "--seed", "7"])
    assert seen[1][1] > 3
    result = CliRunner().invoke(main, ["--cooperative", "--devices", "dg2"])
    assert result.exit_code == 2
    assert "leave out --devices" in result.output
