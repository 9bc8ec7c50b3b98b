"""The search of tuning, with a clock and timings that are made up."""

from __future__ import annotations

from collections import Counter

import pytest

from tl_dpnp.errors import LoweringError
from tl_dpnp.runtime.tune import search as search_module
from tl_dpnp.runtime.tune.search import Search, Step


class Machine:
    """Pretends to build and time candidates, each a string; `speeds` are seconds per call."""

    def __init__(self, speeds, budget=60.0, build_seconds=0.1, calls=1, default="default"):
        self.speeds, self.build_seconds, self.calls = speeds, build_seconds, calls
        self.now = 0.0
        self.sampled: list[str] = []
        self.built: list[str] = []
        self.search = Search(default, self.build, self.sample, lambda: self.now, budget, lambda text: None)

    def build(self, candidate):
        self.built.append(candidate)
        self.now += self.build_seconds
        if self.speeds[candidate] is None:
            raise LoweringError("does not fit")

    def sample(self, candidate):
        self.sampled.append(candidate)
        speed = self.speeds[candidate]
        seconds = speed(self.sampled.count(candidate)) if callable(speed) else speed
        self.now += self.calls * seconds
        return seconds

    def run(self, *steps):
        return self.search.run([Step(f"step {i}", lambda best, step=step: step) for i, step in enumerate(steps)])


def test_the_fastest_wins():
    machine = Machine({"default": 1e-3, "a": 1.2e-3, "b": 0.7e-3, "c": 0.9e-3})
    assert machine.run(["a", "b", "c"]) == "b"
    assert machine.search.trials["b"].ratio == pytest.approx(0.7)
    assert len(machine.search.trials["b"].final) == search_module._MOST_FINAL


def test_steps_go_on_from_the_best():
    machine = Machine({"default": 1.0, "a": 0.8, "b": 0.9, "a+": 0.6, "b+": 0.1}, budget=6000)
    steps = [Step("first", lambda best: ["a", "b"]), Step("second", lambda best: [best + "+"])]
    assert machine.search.run(steps) == "a+"
    assert "b+" not in machine.built


def test_a_step_that_finds_nothing_keeps_the_best():
    machine = Machine({"default": 1.0, "a": 0.8, "b": 0.85, "c": 1.1}, budget=6000)
    assert machine.run(["a"], ["b", "c"]) == "a"


@pytest.mark.parametrize("ratio", [0.99, 1.0, 1.5])
def test_the_default_stays_unless_it_clearly_loses(ratio):
    assert Machine({"default": 1e-3, "a": ratio * 1e-3}).run(["a"]) == "default"


def test_a_lucky_start_does_not_win():
    """What was fast until the final, and is not in it, is not taken."""
    machine = Machine({"default": 1e-3, "a": lambda count: 0.5e-3 if count <= 30 else 1.05e-3})
    assert machine.run(["a"]) == "default"
    assert machine.search.trials["a"].ratio > 1


def test_a_median_that_wins_by_few_rounds_is_not_clear():
    machine = Machine({"default": 1e-3, "a": lambda count: 0.9e-3 if count % 5 < 3 else 2e-3})
    assert machine.run(["a"]) == "default"


def test_outliers_do_not_decide():
    machine = Machine({"default": 1e-3, "a": lambda count: 50e-3 if count % 7 == 3 else 0.8e-3})
    assert machine.run(["a"]) == "a"


def test_what_slows_the_whole_machine_changes_nothing():
    machine = Machine({})
    machine.speeds = {name: lambda count, base=base: base * (1 + machine.now) for name, base in
                      {"default": 1e-3, "a": 0.9e-3, "b": 1.1e-3}.items()}
    assert machine.run(["a", "b"]) == "a"


def test_rounds_are_interleaved_and_the_slow_drop_out():
    speeds = {"default": 1e-3} | {f"c{i}": (1 + i / 10) * 1e-3 for i in range(8)}
    machine = Machine(speeds)
    machine.run([f"c{i}" for i in range(8)])
    first = machine.sampled[1 : 1 + 9 * search_module._ROUNDS_OF_A_HEAT]
    assert set(Counter(first).values()) == {search_module._ROUNDS_OF_A_HEAT}
    for start in range(0, len(first), 9):
        assert len(set(first[start : start + 9])) == 9
    assert first[:9] == first[9:18][::-1]
    counts = Counter(machine.sampled)
    assert counts["c7"] == search_module._ROUNDS_OF_A_HEAT < counts["c1"] < counts["c0"]


@pytest.mark.parametrize("speed", [1e-5, 1e-2, 1.0, 30.0])
@pytest.mark.parametrize("budget", [0.5, 5.0, 60.0])
@pytest.mark.parametrize("build_seconds", [0.01, 0.3, 3.0])
def test_the_budget_is_kept(speed, budget, build_seconds):
    """It is exceeded by one compilation and one round of two at most, besides the default's."""
    speeds = {"default": speed} | {f"c{i}": speed * 0.99 for i in range(40)}
    machine = Machine(speeds, budget, build_seconds)
    machine.run([f"c{i}" for i in range(20)], [f"c{i}" for i in range(20, 40)])
    assert machine.now <= budget + 2 * build_seconds + 3 * speed


def test_the_first_steps_get_the_largest_shares():
    steps = [[f"{step}{i}" for i in range(30)] for step in "abc"]
    speeds = {"default": 1e-3} | {name: 1e-3 for step in steps for name in step}
    machine = Machine(speeds, budget=8.0, build_seconds=0.2)
    machine.run(*steps)
    counts = Counter(name[0] for name in machine.built)
    assert counts["a"] > counts["b"] > counts["c"] > 0


def test_slow_calls_leave_the_default():
    machine = Machine({"default": 2.0, "a": 1.0}, budget=5.0)
    assert machine.run(["a"]) == "default"


def test_programs_are_not_compiled_without_end():
    speeds = {"default": 1e-6} | {f"c{i}": 1e-6 for i in range(1000)}
    machine = Machine(speeds, budget=1e4, build_seconds=1e-3)
    machine.run([f"c{i}" for i in range(500)], [f"c{i}" for i in range(500, 1000)])
    assert len(machine.built) <= search_module._MOST_CANDIDATES + 1


def test_a_candidate_that_does_not_compile_is_left_out():
    machine = Machine({"default": 1e-3, "a": None, "b": 0.8e-3})
    assert machine.run(["a", "b"]) == "b"
    assert machine.search.trials["a"].error == "does not fit"
    assert machine.search.trials["a"].seconds == []


def interrupt_after(samples, value):
    def speed(count):
        if count > samples:
            raise KeyboardInterrupt
        return value

    return speed


@pytest.mark.parametrize(("samples", "best"), [(2, "default"), (15, "a")])
def test_an_interrupt_keeps_the_best_that_is_clear(samples, best):
    machine = Machine({"default": 1e-3, "a": interrupt_after(samples, 0.5e-3), "b": 0.9e-3})
    assert machine.run(["a", "b"], ["c"]) == best
    assert machine.search.interrupted
