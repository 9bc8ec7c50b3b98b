"""The table of products drawn at random; ``python -m tools.xmx_quality --count 60`` compiles them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from click.testing import CliRunner

from tests.runtime.support import needs_tools
from tl_dpnp.language import parse
from tl_dpnp.runtime.offline.program import Resources
from tools import xmx_drawn
from tools.xmx_drawn import AIMS, KINDS, TYPES, Drawn, Measured, draw, measure, report
from tools.xmx_quality import main


def test_a_seed_draws_the_same_products_of_all_sorts() -> None:
    drawn = draw(7, 200)
    assert drawn == draw(7, 200)
    assert draw(8, 5) != drawn[:5]
    assert {each.kind for each in drawn} == set(KINDS)
    assert {each.types for each in drawn} == set(TYPES)
    assert {each.transposes for each in drawn} == {"nn", "nt", "tn", "tt"}
    assert all(8 <= size <= 512 for each in drawn for size in (each.m, each.n, each.k))
    assert any(each.m % 8 for each in drawn)
    assert sum(each.m % 8 == 0 for each in drawn) > 80


def test_drawn_products_are_programs() -> None:
    for each in draw(9, 60):
        assert parse(each.source)
        if each.kind == "chain":
            assert "alloca" in replace(each, is_second=True).source


def _measured(drawn: Drawn, device: str) -> Measured:
    """A tenth of the loop is DPAS in the second product of a chain, a fifth in others."""
    if drawn.types == "u8":
        return Measured(drawn, device, None, "LoweringError: no", 1.0, 1.0)
    loop = Counter({"dpas": 10 if drawn.is_second else 20, "send": 90 if drawn.is_second else 80})
    found = Resources(256, 16, 64 if drawn.types == "i8" else 0, 0, 0, 1000, loop, 160, 0)
    return Measured(drawn, device, found, "", 2.0, 3.0 if drawn.kind == "batch" else 1.0)


def test_the_report_has_products_classes_and_what_went_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xmx_drawn, "measure", _measured)
    drawn = draw(7, 80)
    lines = list(report(7, 80, ("pvc", "dg2")))
    chains = sum(each.kind == "chain" for each in drawn)
    first, classes, (compiled, slowest) = (part.split("\n") for part in "\n".join(lines).split("\n\n"))
    assert len(first) == 2 + 2 * (80 + chains)
    assert any("LoweringError: no" in line for line in first)
    assert [line.split(" | ")[0].strip("| ") for line in classes[2:]] == list(AIMS)
    (ratio,) = [line for line in classes if "second of a chain" in line]
    assert f"| {chains} | 50% | 50% | | 50% |" in ratio
    refused = sum(each.types == "u8" for each in drawn)
    scratch = sum(each.types == "i8" for each in drawn)
    total = 2 * (80 + chains)
    assert compiled == f"{total - 2 * refused} of {total} compiled, {2 * scratch} with scratch memory"
    assert slowest.startswith("the slowest took 3.0 s of processors, 2.0 s: ")
    assert "batch" in slowest


@needs_tools
def test_a_product_is_measured() -> None:
    found = measure(Drawn("static", "f16", "nn", 32, 16, 64, 1, 0), "pvc")
    assert found.problem == ""
    assert found.resources is not None
    assert found.resources.loop["dpas"]
    assert found.processor > 0
    assert found.classes == "pvc, smaller"


def test_the_command_needs_a_count_for_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    result = CliRunner().invoke(main, ["--seed", "7"])
    assert result.exit_code == 2
    assert "say how many by --count" in result.output
    monkeypatch.setattr(xmx_drawn, "measure", _measured)
    result = CliRunner().invoke(main, ["--seed", "7", "--count", "2", "--devices", "dg2"])
    assert result.output.startswith("seed 7\n| device | product |")


@needs_tools
def test_elements_that_are_known_to_be_outside_are_no_constants_that_are_rounded():
    """vISA converts no constants to tf32: of a sum of 25 in local memory the last elements are zeros."""
    found = measure(Drawn("chain", "tf32", "nn", 36, 8, 25, 1, 0, is_second=True), "pvc")
    assert found.problem == ""
