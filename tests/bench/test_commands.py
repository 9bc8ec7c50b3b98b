"""The commands of the benchmarks: comparison of commits, page and figures."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from asv_bench import drawn, must_show, stacks
from asv_bench.benchmarks.results import Measurement, Report, Verdict
from asv_bench.benchmarks.sections import SECTIONS
from asv_bench.benchmarks.timing import Quartiles

ROOT = Path(__file__).parents[2]
IS_CHECKOUT = (ROOT / ".git").exists()


def run(*arguments):
    environment = {**os.environ, "TL_DPNP_BENCH": "quick", "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True)


def test_there_is_a_command_for_each_section():
    result = CliRunner().invoke(must_show.main, ["--help"])
    assert result.exit_code == 0
    assert all(name in result.output for name in [*SECTIONS, "all"])


def test_a_command_prints_and_saves_its_section(tmp_path):
    output = tmp_path / "report.json"
    result = run("asv_bench.must_show", "chain", "--seconds=0", f"--output={output}")
    report = Report.load(output)
    assert result.returncode == (0 if report.met else 1), result.stderr
    assert [m.case for m in report.measurements] == ["f32 sample"]
    assert "of FMA peak" in result.stdout
    assert "at least 0.8" in result.stdout


def test_a_word_that_no_case_holds():
    result = run("asv_bench.must_show", "groups", "--keep=f16")
    assert result.returncode == 2
    assert "no case holds 'f16'; there are f32 4x4x4" in result.stderr


@pytest.mark.skipif(not IS_CHECKOUT, reason="commits are compared in a git checkout")
def test_two_commits_take_turns():
    result = run("asv_bench.compare", "HEAD", "--section=launch", "--seconds=0", "--factor=100")
    assert result.returncode == 0, result.stderr
    (row,) = [line for line in result.stdout.splitlines() if line.startswith("call ")]
    assert all(float(value) > 0 for value in row.replace("[", " ").split()[1:4])


@pytest.mark.parametrize(("section", "case"), [("launch", "call"), ("compile", "f32 16x16x16")])
def test_two_stacks_take_turns(section, case):
    result = run("asv_bench.stacks", sys.executable, f"--section={section}", "--seconds=0")
    rows = result.stdout.splitlines()
    (row,) = [line for line in rows if line.startswith(f"{case} ")]
    assert all(float(value) > 0 for value in row.partition(",")[0].removeprefix(case).split())
    assert f"{section}: 1 cases, geometric mean" in result.stdout
    assert result.returncode == int(any(line.startswith("missed: ") for line in rows)), result.stderr


@pytest.mark.parametrize(("ratios", "missed"), [
    ([1.0], []),
    ([0.9, 1.0, 1.02, 1.1], []),  # measured again, the median is 1.01
    ([0.96], ["the geometric mean of launch is 0.960"]),
    ([0.9, 0.9, 0.94, 1.2], ["the geometric mean of launch is 0.920", "launch, call: 0.920"]),
])
def test_a_slow_case_is_measured_again_and_missed_targets_are_said(monkeypatch, ratios, missed):
    left = iter(ratios)
    monkeypatch.setattr(stacks.Pair, "ratio", lambda pair, case, seconds: ([1.0, 1.0], next(left)))
    monkeypatch.setattr(stacks, "cases_of", lambda section: ["call"])
    result = CliRunner().invoke(stacks.main, [sys.executable, "--section=launch"])
    assert next(left, None) is None
    assert [line.removeprefix("missed: ") for line in result.output.splitlines() if "missed: " in line] == missed
    assert result.exit_code == bool(missed)


def test_another_stack_that_is_no_interpreter(tmp_path):
    result = CliRunner().invoke(stacks.main, [str(tmp_path / "python")])
    assert result.exit_code == 2
    assert "is no interpreter" in result.output


@pytest.mark.skipif(not IS_CHECKOUT, reason="commits are compared in a git checkout")
def test_an_unknown_commit():
    result = run("asv_bench.compare", "no-such-commit")
    assert result.returncode == 2
    assert "no-such-commit" in result.stderr


def canned(section, limit):
    facts = {"FMA peak": 200.0, "triad plain": 30.0, "triad streaming": 40.0, "flops per byte": 2.0}
    measurements = [
        Measurement(case, Quartiles(9.0, 10.0, 11.0), 1e-3, {"numpy": Quartiles(0.8, 0.9, 1.0)},
                    Quartiles(0.4, 0.5, 0.6), facts)
        for case in ("f32 4x4x4", "f32 8x8x8", "f64 4x4x4")
    ]
    return Report(section, f"Section {section}", "As it is. " * 30, "GF/s", limit, measurements, [], {"cores": "2"})


def test_the_page_and_its_figures(tmp_path):
    pytest.importorskip("matplotlib")
    from asv_bench.plots import PAGES, write

    page = write(PAGES[0], [canned("memory", "roofline"), canned("cache-resident", "FMA peak")], tmp_path)
    text = page.read_text()
    for section in ("overview", "memory", "cache-resident"):
        assert (tmp_path / "images" / f"{section}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (tmp_path / "images" / f"{section}.svg").read_text()
        assert f"(images/{section}.png)" in text
    assert "Slower than the peer: f32 4x4x4 (numpy 0.90)" in text
    opening, _, _ = text.partition("## How it was measured")
    assert "(images/overview.png)" in opening
    head, _, *rows = [line for line in opening.splitlines() if line.startswith("|")]
    assert head == "| times as fast, geometric mean | as NumPy | as dpnp | cases slower |"
    assert rows == [f"| Section {name} | 0.90 |  | 3 of 3 |" for name in ("memory", "cache-resident")]
    assert all(len(line) <= 120 or line.startswith("|") for line in text.splitlines())
    before = (tmp_path / "images" / "memory.svg").read_bytes()
    write(PAGES[0], [canned("memory", "roofline")], tmp_path)
    assert (tmp_path / "images" / "memory.svg").read_bytes() == before


def test_the_page_of_realistic_programs(tmp_path):
    """The command writes a page for the sections that it has reports of, with their losses to any peer."""
    pytest.importorskip("matplotlib")
    cases = [f"f32 {name} {batch}" for name in ("gru_step", "ring") for batch in (100, 10000)]
    measurements = [
        Measurement(case, Quartiles(9.0, 10.0, 11.0), 1e-5,
                    {"jax.jit": Quartiles(2.0, 3.0, 4.0), "torch.compile": Quartiles(0.8, 0.9, 1.0)}, None, {})
        for case in cases
    ]
    Report("fusion-peers", "In JAX", "As it is.", "µs", "", measurements, [], {"cores": "2"}).save(
        tmp_path / "fusion-peers.json")
    result = run("asv_bench.plots", "-r", str(tmp_path), "-o", str(tmp_path / "docs"))
    assert result.stdout.split() == ["wrote", str(tmp_path / "docs" / "realistic-programs.md")], result.stderr
    text = (tmp_path / "docs" / "realistic-programs.md").read_text()
    assert all(f"{case} (torch.compile 0.90)" in text.replace("\n", " ") for case in cases)
    assert (tmp_path / "docs" / "images" / "fusion-peers.png").exists()


def drawn_report(section, title, processor, ratio):
    measurements = [Measurement(f"f32 {size}x3x5", Quartiles(1.0, 2.0, 3.0), 1e-3,
                                {"libxsmm": Quartiles(0.1, ratio * size, 9.0)}, Quartiles(0.1, 0.5, 0.9), {})
                    for size in (1, 4)]
    verdicts = [Verdict("least, speed over libxsmm", ratio, "at least 0.95", ratio >= 0.95)]
    return Report(section, title, "As it is.", "GF/s", "FMA peak", measurements, verdicts,
                  {"processor": processor, "cores": "2", "commit": "1", "date": "2026-11-28"})


def test_drawn_shapes_are_the_first_screen_of_a_page_for_each_processor(tmp_path):
    """A later report takes the place of one of the same processor, and what is said of named shapes stays."""
    pytest.importorskip("matplotlib")
    results, docs = tmp_path / "results", tmp_path / "docs"
    canned("memory", "roofline").save(results / "memory.json")
    for processor, ratio in (("one", 0.5), ("another", 2.0), ("one", 1.5)):
        drawn_report("cache-resident", "In the cache, shapes drawn with seed 7", processor, ratio).save(
            results / "drawn" / "cache-resident.json")
        assert run("asv_bench.plots", "-r", str(results), "-o", str(docs)).returncode == 0
        (results / "memory.json").unlink(missing_ok=True)
    opening, heading, named = (docs / "benchmarks.md").read_text().partition("\n## Named shapes\n")
    assert heading
    assert "## Section memory" in named
    assert [line for line in opening.splitlines() if line.startswith(("| In the cache", "**"))] == [
        line for processor, ratio in (("another", 2.0), ("one", 1.5)) for line in (
            f"**{processor}**, 2 cores, commits 1, 2026-11-28:",
            f"| In the cache | {2 * ratio:.2f} ({ratio:.2f}) |  | 0.50 (0.50) FMA peak | 7 |")]
    assert "All targets were met." in opening
    assert "(images/drawn-shapes.png)" in opening
    assert (docs / "images" / "drawn-shapes.png").exists()


def test_what_drawn_shapes_missed_is_named():
    found = [drawn.Drawn.of(drawn_report("memory", "From memory", "one", 0.25))]
    assert drawn.tables(found).endswith(
        "Targets that were missed:\n\n- From memory: least, speed over libxsmm: at least 0.95, found 0.25.")
