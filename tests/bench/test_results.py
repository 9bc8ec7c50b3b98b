"""What the benchmarks compute from times, without timing anything."""

import itertools
import math
import subprocess
import sys

import pytest

from asv_bench import render
from asv_bench.benchmarks import quiet, timing
from asv_bench.benchmarks.contests import Contest, parse_case
from asv_bench.benchmarks.measure import _bound, _fastest, run
from asv_bench.benchmarks.quiet import SharedCores, SharedThreads
from asv_bench.benchmarks.results import Measurement, Report, Target, judge
from asv_bench.benchmarks.sections import SECTIONS, Section
from asv_bench.benchmarks.tables import ECOSYSTEM, SHAPES, Shape
from asv_bench.benchmarks.timing import Contestant, Quartiles, geometric_mean, interleave, quartiles


def measurement(case, over_numpy, limit=None):
    ratio = Quartiles(over_numpy * 0.9, over_numpy, over_numpy * 1.1)
    reached = None if limit is None else Quartiles(limit, limit, limit)
    facts = {"flops per byte": 2.0}
    return Measurement(case, Quartiles(9.0, 10.0, 11.0), 1e-3, {"numpy": ratio}, reached, facts)


def report(*measurements, targets=()):
    return Report("memory", "A title", "How it is done.", "GF/s", "roofline", list(measurements),
                  judge(targets, list(measurements)), {"processor": "one"}, [], ["torch is not installed"])


def test_the_geometric_mean():
    assert math.isclose(geometric_mean([1.0, 4.0, 2.0]), 2.0)
    with pytest.raises(ValueError, match="no numbers"):
        geometric_mean([])


def test_quartiles():
    assert quartiles([4.0, 1.0, 3.0, 2.0, 5.0]) == Quartiles(2.0, 3.0, 4.0)
    assert quartiles([7.0]) == Quartiles(7.0, 7.0, 7.0)


def test_contestants_take_turns_in_another_order_each_round(monkeypatch):
    monkeypatch.setattr(timing, "_WARM_UP", 0.0)
    calls = []
    players = {name: Contestant(lambda name=name: calls.append(name)) for name in "abc"}
    times = interleave(players, seconds=0.0, clock=itertools.count().__next__, block=0.0, least=4)
    rounds = ["".join(calls[first:first + 3]) for first in range(9, len(calls), 3)]  # nine to warm up and to count
    assert [sorted(order) for order in rounds] == [list("abc")] * 4
    assert len(set(rounds)) > 1
    assert times == {name: [1.0] * 4 for name in "abc"}


def test_a_contestant_is_called_for_a_moment_before_it_is_timed(monkeypatch):
    """Calls in which something is loaded, or that are disturbed, decide nothing: ten of the others fill a block."""
    now, slow = 0.0, iter([0.05, 0.005, 0.005, *[0.0001] * 5, 0.005])

    def clock():
        return now

    def call():
        nonlocal now
        now += next(slow, 0.0001)

    monkeypatch.setattr("asv_bench.benchmarks.timing.time.perf_counter", clock)
    counted = []

    class Counting(Contestant):
        def time(self, calls, clock):
            counted.append(calls)
            return super().time(calls, clock)

    times = interleave({"a": Counting(call)}, seconds=0.0, clock=clock, block=0.00095, least=2)
    assert counted == [10, 10]
    assert times["a"] == pytest.approx([0.0001] * 2)


def test_times_are_for_one_pass():
    times = interleave({"a": Contestant(lambda: None, passes=4)}, 0.0, itertools.count().__next__, block=0.0, least=1)
    assert times == {"a": [0.25]}


def test_turns_begin_when_cores_are_apart(monkeypatch):
    """One core takes a second for its part; both take so many at the same time."""
    together = iter([1.1, 1.9, 2.0, 1.2, 1.9, 1.9, 1.9, 1.9])
    now = 0.0

    def peak(element, threads, steps):
        def run():
            nonlocal now
            now += 1.0 if threads == 1 else next(together)

        return run

    monkeypatch.setattr("asv_bench.benchmarks.quiet.FmaPeak", peak)
    monkeypatch.setattr("asv_bench.benchmarks.quiet.time.perf_counter", lambda: now)
    shared = SharedCores(2, patience=8)
    shared.wait()
    shared.wait()
    assert list(together)[:1] == [1.9]
    assert shared.share == 0
    together = iter([1.9] * 4)
    shared.wait()
    assert shared.share == 1 / 3
    assert not list(together)[1:]


def test_one_core_is_never_shared():
    shared = SharedCores(1, patience=1)
    shared.wait()
    assert shared.share == 0


def test_turns_begin_when_nothing_else_runs_on_the_core(monkeypatch):
    """Counting takes a second; with something else on the other thread of the core, a half more."""
    times = iter([1.5, 1.0, 1.5, 1.5, 1.05, 1.5, 1.5, 1.5, 1.5, 0.9])
    now = 0.0

    def counting(steps):
        def run():
            nonlocal now
            now += next(times)

        return run

    monkeypatch.setattr("asv_bench.benchmarks.quiet.Counting", counting)
    for clock in ("monotonic", "perf_counter"):
        monkeypatch.setattr(f"asv_bench.benchmarks.quiet.time.{clock}", lambda: now)
    monkeypatch.setattr(SharedThreads, "_shortest", math.inf)
    shared = SharedThreads(patience=8)
    shared.wait()
    assert shared.share == 0
    shared.wait()
    assert shared.share == 1 / 2
    assert list(times) == [0.9]


@pytest.mark.parametrize(
    ("target", "value", "met", "case"),
    [
        (Target("geometric mean", "numpy", 2.0), 2.0, True, ""),
        (Target("least", "numpy", 1.5), 1.0, False, "f32 4x4x4"),
        (Target("least", "numpy", 1.5, cases=lambda case: "8x8" in case), 4.0, True, "f32 8x8x8"),
        (Target("most", "numpy", 3.0, at_least=False), 4.0, False, "f32 8x8x8"),
        (Target("least", "limit", 0.9), 0.95, True, "f32 8x8x8"),
        (Target("median", "value", 10.0, at_least=False), 10.0, True, ""),
        (Target("most", "flops per byte", 1.0, at_least=False), 2.0, False, "f32 4x4x4"),
    ],
)
def test_a_target_is_judged_by_medians(target, value, met, case):
    (verdict,) = judge((target,), [measurement("f32 4x4x4", 1.0), measurement("f32 8x8x8", 4.0, 0.95)])
    assert (round(verdict.value, 9), verdict.met, verdict.case) == (value, met, case)


def test_a_target_without_cases_is_left_out():
    assert judge((Target("least", "dpnp", 1.0),), [measurement("f32 4x4x4", 1.0)]) == []


def test_reports_survive_json(tmp_path):
    original = report(measurement("f32 4x4x4", 1.0, 0.5), targets=(Target("least", "numpy", 1.5),))
    original.save(tmp_path / "deep" / "report.json")
    assert Report.load(tmp_path / "deep" / "report.json") == original
    assert not original.met


def test_a_report_as_text():
    text = render.summary(report(measurement("f32 4x4x4", 1.0, 0.5), measurement("f32 8x8x8", 4.0, 0.5),
                                 targets=(Target("least", "numpy", 1.5), Target("geometric mean", "limit", 0.5))))
    assert text.splitlines() == [
        "case            GF/s   over numpy         of roofline",
        "f32 4x4x4       10.0   1.00 [0.90, 1.10]  0.50 [0.50, 0.50]",
        "f32 8x8x8       10.0   4.00 [3.60, 4.40]  0.50 [0.50, 0.50]",
        "geometric mean  10.00  2.00               0.50",
        "",
        "MISSED  least, speed over numpy, all (2 cases): 1 (f32 4x4x4), at least 1.5",
        "met     geometric mean, part of the limit, all (2 cases): 0.5, at least 0.5",
        "torch is not installed",
    ]


def test_a_report_as_markdown_names_where_it_loses():
    text = render.markdown(report(measurement("f32 4x4x4", 0.8, 0.5), targets=(Target("least", "numpy", 1.5),)))
    assert "Slower than the peer: f32 4x4x4 (numpy 0.80)." in text
    assert "| least, speed over numpy, all (1 cases): at least 1.5 | 0.8 (f32 4x4x4) | **missed** |" in text
    assert "| f32 4x4x4 | 10.0 | 0.80 [0.72, 0.88] | 0.50 [0.50, 0.50] |" in text


def test_a_section_relates_times_to_peers_and_keeps_only_its_own():
    section = Section("test", "Test", ("f32 1x1x1",), lambda case: measurement(case, 3.0),
                      (Target("least", "numpy", 2.0),), peers=("numpy", "torch"))
    found = run(section, 0.0)
    assert found.met
    assert found.measurements[0].ratios["numpy"].median == 3.0
    assert run(section, 0.0, keep=lambda case: False).measurements == []


def test_the_shapes_are_those_of_the_targets():
    assert len(SHAPES) == 19
    assert Shape(56, 9, 56) in SHAPES
    assert sum(shape.m * shape.n * shape.k >= 16**3 for shape in SHAPES) == 15
    assert set(ECOSYSTEM) == {"EDGE", "SU2", "nekRS", "libCEED"}


@pytest.mark.parametrize("section", SECTIONS.values(), ids=list(SECTIONS))
def test_the_table_of_sections_is_sound(section):
    assert len(set(section.cases)) == len(section.cases) > 0
    assert set(section.quick) <= set(section.cases)
    assert section.quick
    assert section.method
    for target in section.targets:
        assert target.of in ("limit", "value", *section.peers, *section.columns)
        assert any(map(target.cases, section.cases))


def test_names_of_cases_hold_their_shape():
    for name in ("cache-resident", "transposes", "codes-memory"):
        for case in SECTIONS[name].cases:
            element, shape, variant = parse_case(case)
            assert f"{element} {shape} {variant}".strip() == case


def test_child_processes_are_no_other_programs():
    """Peers take their turns in them."""
    busy = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass\nprint()\ninput()"
    before = quiet._own()
    with subprocess.Popen([sys.executable, "-c", busy], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        assert quiet._own() - before >= 0.5
    assert quiet._own() - before >= 0.5


class _Traffic:
    """A limit that moves a number of bytes."""

    def __init__(self, size: int) -> None:
        self.bytes = size


def test_of_two_ways_to_read_the_faster_one_is_the_limit_in_all_rounds():
    limits = {"read plain": _Traffic(2), "read prefetching": _Traffic(2), "fill plain": _Traffic(1)}
    times = {"read plain": [1.0, 5.0, 1.2], "read prefetching": [1.1, 1.0, 1.0], "fill plain": [1.0, 1.0, 1.0]}
    assert _fastest(limits, times) == {"read": "read prefetching", "fill": "fill plain"}


def test_the_limit_is_the_largest_of_the_times_that_parts_take():
    contest = Contest({}, flops=100, bytes=90, written=30)
    assert _bound(contest, {"FMA": 100.0, "triad": 45.0, "read": 20.0, "fill": 30.0}) == 3.0
    assert _bound(contest, {"FMA": 10.0}) == 10.0
