"""Random programs on cooperative matrices on the device, for any number of sub-groups, against the interpreter."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from tests.campaigns.campaign import Campaign, run_campaign
from tests.campaigns.outcome import Outcome
from tests.campaigns.worker import Verdict
from tests.strategies.matrices import MatrixProgram
from tl_dpnp.errors import TLError
from tl_dpnp.language import parse

__all__ = ["CAMPAIGN", "Case", "run"]


@dataclass(frozen=True)
class Case:
    """The lines that are left of a program, and its seed, which the arguments and all other choices follow from."""

    lines: tuple[str, ...]
    seed: int

    @property
    def program(self) -> MatrixProgram:
        program = MatrixProgram(self.seed)
        program.lines[:] = self.lines
        return program


def make(kind: str, seed: int) -> Case:
    """Return the case of a seed."""
    return Case(tuple(MatrixProgram(seed).lines), seed)


def check(kind: str, case: Case) -> Verdict:
    """Run a case on the device and on the interpreter."""
    from tests.semantics.support import TARGETS
    from tests.semantics.test_work_items import check as compare

    rng = random.Random(case.seed)
    forms = {"vector": ["vector"], "subgroup": ["subgroup"], "debug": ["vector", "subgroup"]}[kind]
    target = rng.choice([target for target in TARGETS if target.layout is not None and target.layout[0] in forms])
    program = case.program
    options = {"debug": True} if kind == "debug" else {}
    try:
        compare(target, program.source, *program.arguments(), **options)
    except AssertionError as error:
        return Verdict(f"wrong: {error}")
    return Verdict()


def smaller(kind: str, case: Case) -> Iterator[Case]:
    """Yield the case without halves, quarters, ... of its lines, then without each, where that is still a program."""
    count = len(case.lines)
    size = count // 2
    while size:
        for begin in range(0, count, size):
            fewer = Case(case.lines[:begin] + case.lines[begin + size :], case.seed)
            try:
                parse(fewer.program.source)
            except TLError:
                continue
            yield fewer
        size //= 2


def text(kind: str, case: Case) -> str:
    """Return the program."""
    return f"; arguments of MatrixProgram({case.seed})\n{case.program.source}"


CAMPAIGN = Campaign("matrices", ("vector", "subgroup", "debug"), make, check, smaller, text)


def run(
    seed: int, minutes: float, count: int | None = None, *, kind: str | None = None, workers: int | None = None,
) -> Outcome:
    """Run the campaign."""
    return run_campaign(CAMPAIGN, seed, minutes, count, kind=kind, workers=workers)
