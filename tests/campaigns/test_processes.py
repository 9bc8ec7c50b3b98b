"""The campaigns whose cases are whole processes tell right from wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.campaigns import exits
from tests.campaigns.memory import Sample, judged
from tests.campaigns.patience import Patience, run_patiently


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


def test_a_process_that_hangs_is_ended_and_shows_where_it_was() -> None:
    code = "import time\ndef waiting():\n    time.sleep(60)\nwaiting()"
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        run_patiently([sys.executable, "-X", "faulthandler", "-c", code], 3, cwd=Path.cwd())
    assert "in waiting" in str(caught.value.stderr)


def test_a_process_is_not_charged_for_the_time_that_others_had_its_core() -> None:
    core = min(os.sched_getaffinity(0))
    spin = f"import os\nos.sched_setaffinity(0, {{{core}}})\nwhile True: pass"
    processes = [subprocess.Popen([sys.executable, "-c", spin]) for _ in range(2)]
    patience = [Patience(process.pid, 60.0) for process in processes]
    try:
        end = time.monotonic() + 60
        while sum(each.waited for each in patience) < 0.5 and time.monotonic() < end:
            time.sleep(0.1)
        waited = [each.waited for each in patience]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert sum(waited) >= 0.5
