"""The campaigns whose cases are whole processes tell right from wrong."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from tests.campaigns import exits
from tests.campaigns.memory import Sample, judged


def growing(each: int, mappings: int) -> list[Sample]:
    """Return the samples of a process that grows fast at first, then by these numbers for each kernel."""
    return [Sample(n, 10**8 + min(n, 50) * 10**6 + n * each, 700 + n * mappings) for n in range(20, 201, 10)]


@pytest.mark.parametrize(("kind", "each", "mappings", "wrong"), [
    ("built", 250_000, 0, False), ("built", 350_000, 0, True), ("built", 0, 2, True),
    ("cached", 10_000, 0, False), ("cached", 30_000, 0, True),
])
def test_memory_is_judged_by_its_later_half(kind: str, each: int, mappings: int, wrong: bool) -> None:
    text, judgement = judged(kind, growing(each, mappings))
    assert judgement is wrong
    assert f"each left {each / 1e6:.4f} MB" in text


def test_few_kernels_tell_nothing() -> None:
    assert judged("built", growing(10**6, 2)[:4]) == ("51 kernels are too few to tell what they leave", False)
    assert judged("built", [])[1] is False


def test_a_wrong_status_is_a_failure_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = exits.run(5, 5, 1, kind="terminated", workers=1)
    assert (outcome.tried, outcome.failures) == (1, ())
    monkeypatch.setitem(exits.KINDS, "raised", replace(exits.KINDS["raised"], status=-signal.SIGINT))
    outcome = exits.run(5, 5, 1, kind="raised", workers=1)
    (failure,) = outcome.failures
    assert failure.startswith("repeat with: python -m tests.campaigns exits --kind raised --seed 5 --count 1\n")
    assert "ended with 1 in place of -2" in failure
    assert "ValueError: meant" in failure
