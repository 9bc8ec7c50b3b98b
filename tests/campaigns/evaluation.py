"""Random programs on the interpreter as written and as lowering makes them, and read back from every dialect."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tests.campaigns.campaign import Campaign, run_campaign
from tests.campaigns.outcome import Outcome
from tests.campaigns.worker import Verdict
from tests.strategies.arguments import differences, numpy_arguments
from tests.strategies.programs import Program, random_program
from tests.strategies.reduction import smaller
from tests.strategies.writer import ALL_TYPES, Features
from tl_dpnp.errors import LoweringError, TLError, UnsupportedError
from tl_dpnp.language import ops, parse
from tl_dpnp.language.interpreter import interpret
from tl_dpnp.language.printer import print_module
from tl_dpnp.lowering.canonicalize import canonicalize
from tl_dpnp.lowering.decomposition import decompose

__all__ = ["CAMPAIGN", "Case", "run"]

#: What programs of each kind may contain.
FEATURES = {
    "older": Features(types=ALL_TYPES, newer=False),
    "newer": Features(types=ALL_TYPES),
    "work items": Features(types=ALL_TYPES, work_items=True),
}
DIALECTS = ("0.3", "0.4")


@dataclass(frozen=True)
class Case:
    """A program and the seed of its arguments."""

    program: Program
    seed: int


def make(kind: str, seed: int) -> Case:
    """Return the case of a seed."""
    return Case(random_program(random.Random(seed), FEATURES[kind]), seed)


def check(kind: str, case: Case) -> Verdict:
    """Print and read the program, and run it twice."""
    texts = {dialect: text for dialect in DIALECTS if (text := printed(case.program, dialect)) is not None}
    changed = [dialect for dialect, text in texts.items() if parse(text) != case.program.module]
    if changed:
        return Verdict(f"read differently: the dialects {', '.join(changed)}")
    labels = tuple(f"read from {dialect}" for dialect in texts)
    try:
        lowered = decompose(canonicalize(case.program.function))
    except (LoweringError, UnsupportedError):
        return Verdict(labels=(*labels, "not lowered"))
    found = disagreements(case, lowered)
    return Verdict("\n".join(["wrong:", *found]) if found else "", (*labels, "evaluated twice"))


def printed(program: Program, dialect: str) -> str | None:
    """Return the program in a dialect; None where that cannot say it."""
    try:
        return print_module(program.module, dialect)
    except TLError:
        return None


def disagreements(case: Case, lowered: ops.Function) -> list[str]:
    """Return what another form of the program computes differently, in another order of iterations and groups."""
    program = case.program
    expected, actual = program.make_arguments(case.seed), program.make_arguments(case.seed)
    with np.errstate(all="ignore"):
        interpret(program.function, numpy_arguments(expected), program.group_size)
        interpret(lowered, numpy_arguments(actual), program.group_size, order_seed=case.seed)
    return differences(expected, actual, program.tolerances)


def simpler(kind: str, case: Case) -> Iterator[Case]:
    """Yield the case with smaller programs."""
    for program in smaller(case.program, case.seed):
        yield replace(case, program=program)


def text(kind: str, case: Case) -> str:
    """Return the program."""
    head = f"; {case.program.group_size} work-groups, arguments of make_arguments({case.seed})"
    return f"{print_module(case.program.module).rstrip()}\n{head}"


CAMPAIGN = Campaign("evaluation", tuple(FEATURES), make, check, simpler, text)


def run(
    seed: int, minutes: float, count: int | None = None, *, kind: str | None = None, workers: int | None = None,
) -> Outcome:
    """Run the campaign."""
    return run_campaign(CAMPAIGN, seed, minutes, count, kind=kind, workers=workers)
