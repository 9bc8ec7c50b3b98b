"""Random programs on two stacks of packages, this Python's and another's: the same results, bit for bit or rounded.

Needs ``--other-python``: the interpreter of the other environment.  Each program is run by a process of each, one after
the other in turns.
"""

from __future__ import annotations

import atexit
import functools
import os
from dataclasses import replace
from unittest import mock

import numpy as np

from tests.campaigns import programs, stack_runs
from tests.campaigns.campaign import Campaign, run_campaign
from tests.campaigns.outcome import Outcome
from tests.campaigns.programs import Case
from tests.campaigns.stack_runs import KINDS, Run
from tests.campaigns.worker import Verdict, Worker
from tests.strategies.arguments import differences

__all__ = ["CAMPAIGN", "compare", "run"]

#: What names the other Python to the worker processes.
OTHER = "TL_DPNP_OTHER_PYTHON"
#: Seconds that a program may take on the other stack.
LIMIT = 100.0


def check(kind: str, case: Case) -> Verdict:
    """Run a case here and there, and compare."""
    turns = [lambda: stack_runs.answer(kind, case), lambda: _other().verdict(kind, case)]
    first = case.seed % 2
    answers = {which: turns[which]() for which in (first, 1 - first)}
    theirs = answers[1]
    if not isinstance(theirs, Run):
        return Verdict(f"other: the other stack failed\n{theirs.failure}")
    return compare(case, answers[0], theirs)


@functools.cache
def _other() -> Worker:
    worker = Worker(stack_runs.__name__, LIMIT, os.environ[OTHER])
    atexit.register(worker.stop)
    return worker


def compare(case: Case, ours: Run, theirs: Run) -> Verdict:
    """Return what differs: the arguments, what is refused, or results by more than rounding may."""
    if ours.before != theirs.before:
        return Verdict("arguments: the two stacks made different arguments of one seed")
    if ours.error != theirs.error:
        return Verdict(f"refused: {ours.error or 'nothing'} here, {theirs.error or 'nothing'} there")
    if ours.error:
        return Verdict(labels=("refused by both",))
    same_code = bool(ours.code) and ours.code == theirs.code
    label = "of the same machine code" if same_code else "of other machine code"
    if ours.after == theirs.after:
        return Verdict(labels=(f"bit for bit the same, {label}",))
    arguments = case.program.make_arguments(case.seed)
    # Each stack is within the tolerance of the interpreter's numbers, so the two are within twice that of another.
    with np.errstate(all="ignore"):
        found = differences(*(stack_runs.with_contents(arguments, run.after) for run in (ours, theirs)),
                            [2 * tolerance for tolerance in case.program.tolerances])
    if found:
        return Verdict("\n".join(["wrong: this stack's is expected, the other's got:", *found]))
    if same_code:
        return Verdict("bits: the same machine code left other bits")
    return Verdict(labels=(f"the same but for rounding, {label}",))


CAMPAIGN = Campaign("stacks", KINDS, programs.make, check, programs.simpler, programs.text, limit=2 * LIMIT)


def run(
    seed: int, minutes: float, count: int | None = None, *, kind: str | None = None, workers: int | None = None,
    other_python: str | None = None,
) -> Outcome:
    """Run the campaign; `other_python` is the interpreter of the other environment."""
    if other_python is None:
        return Outcome(0, (), ("skipped: there is no --other-python",))
    if not os.access(other_python, os.X_OK):
        raise SystemExit(f"{other_python} is no interpreter")
    other = os.path.abspath(other_python)
    campaign = replace(CAMPAIGN, options=f" --other-python {other}")
    with mock.patch.dict(os.environ, {OTHER: other}):
        return run_campaign(campaign, seed, minutes, count, kind=kind, workers=workers)
