"""The campaign that compares two stacks sees what is planted, and counts what is the same."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.campaigns import programs, stack_runs, stacks
from tests.campaigns.programs import Case
from tests.campaigns.stack_runs import Run
from tl_dpnp.scalars import F32

#: Before a worker serves: each program leaves the last element of its last buffer of f32 changed.
_PLANTED = """
from dataclasses import replace
from tests.campaigns import stack_runs
honest = stack_runs.run_on_device
def changed(program, layout, arguments, **options):
    after = honest(program, layout, arguments, **options)
    arrays = [array for argument in after for array in stack_runs._arrays(argument)]
    for array in arrays:
        array.buffer.setflags(write=True)
        array.buffer.view("u1")[-1] ^= 0x20
    return after
stack_runs.run_on_device = changed
"""


def _python(folder: Path, before: str = "") -> str:
    """Return an interpreter like this one, whose workers run some code before they serve."""
    (folder / "planted_here.py").write_text(before)
    path = folder / "python"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} "$1" "$2" "$3" '
                    f'"import sys; sys.path.append(\'{folder}\'); import planted_here; $4"\n')
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize("kind", stack_runs.KINDS)
def test_a_stack_is_the_same_as_itself_bit_for_bit(tmp_path, kind):
    outcome = stacks.run(11, 10, 2, kind=kind, workers=1, other_python=_python(tmp_path))
    assert (outcome.tried, outcome.failures) == (2, ())
    assert f"{kind}: 2 tried, 2 bit for bit the same, of the same machine code;" in outcome.notes[0]


def test_a_planted_difference_is_a_failure_with_the_command_that_repeats_it(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.campaigns.campaign.SHRUNK", 0)
    other = _python(tmp_path, _PLANTED)
    (failure,) = stacks.run(11, 10, 1, kind="vector", workers=1, other_python=other).failures
    command, _, rest = failure.partition("\n")
    assert command == ("repeat with: python -m tests.campaigns stacks --kind vector --seed 11 --count 1 "
                       f"--other-python {other}")
    assert rest.startswith("wrong: this stack's is expected, the other's got:\nargument ")


def test_a_stack_that_dies_is_a_failure(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.campaigns.campaign.SHRUNK", 0)
    dies = ("import os\nfrom tests.campaigns import stack_runs\n"
            "stack_runs.run_on_device = lambda *_, **__: os._exit(3)\n")
    (failure,) = stacks.run(11, 10, 1, kind="vector", workers=1, other_python=_python(tmp_path, dies)).failures
    assert "other: the other stack failed\ndied: exit status 3" in failure


def _with_floats() -> tuple[Case, Run]:
    """Return a case whose last parameter is f32 with a tolerance, and a run of it."""
    for seed in range(1000):
        case = programs.make("vector", seed)
        array = case.program.templates[-1]
        if case.program.tolerances[-1] and getattr(array, "element", None) == F32:
            before = stack_runs.contents(case.program.make_arguments(seed))
            return case, Run(before=before, after=before, code="one")
    raise AssertionError("no program has such a parameter")


def _changed(run: Run, by: float, **others: object) -> Run:
    last = np.frombuffer(run.after[-1], np.float32).copy()
    last[-1] += by
    return replace(run, after=(*run.after[:-1], last.tobytes()), **others)


@pytest.mark.parametrize(("tolerances", "code", "failure", "label"), [
    (0, "one", "", "bit for bit the same, of the same machine code"),
    (0, "two", "", "bit for bit the same, of other machine code"),
    (0, "", "", "bit for bit the same, of other machine code"),
    (1.5, "two", "", "the same but for rounding, of other machine code"),
    (1.5, "one", "bits:", ""),
    (2.5, "two", "wrong:", ""),
])
def test_results_may_differ_by_the_rounding_of_both(tolerances, code, failure, label):
    case, run = _with_floats()
    tolerance = 0.5
    case = replace(case, program=replace(case.program, tolerances=(*case.program.tolerances[:-1], tolerance)))
    verdict = stacks.compare(case, run, _changed(run, tolerances * tolerance, code=code))
    assert verdict.failure.startswith(failure)
    assert bool(verdict.failure) == bool(failure)
    assert verdict.labels == ((label,) if label else ())


def test_other_arguments_and_what_one_refuses_are_failures():
    case, run = _with_floats()
    assert stacks.compare(case, run, replace(run, before=())).failure.startswith("arguments:")
    refused = replace(run, after=(), error="LoweringError")
    assert stacks.compare(case, run, refused).failure == "refused: nothing here, LoweringError there"
    assert stacks.compare(case, refused, refused).labels == ("refused by both",)


def test_without_another_python_nothing_is_tried(tmp_path):
    outcome = stacks.run(11, 10)
    assert (outcome.tried, outcome.failures) == (0, ())
    assert outcome.notes == ("skipped: there is no --other-python",)
    with pytest.raises(SystemExit, match="is no interpreter"):
        stacks.run(11, 10, other_python=os.fspath(tmp_path / "python"))
