"""Random programs on cooperative matrices in registers as machine code of Xe-HPC, executed, against the interpreter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.campaigns.campaign import Campaign
from tests.campaigns.offline import run_offline
from tests.campaigns.outcome import Outcome
from tests.campaigns.worker import Verdict
from tests.strategies.dpas_fragments import DpasFragmentProgram
from tl_dpnp.errors import TLError
from tl_dpnp.language import parse

__all__ = ["CAMPAIGN", "Case", "run"]

KINDS = ("machine",)


@dataclass(frozen=True)
class Case:
    """The lines that are left of a program, and its seed, which the arguments follow from."""

    lines: tuple[str, ...]
    seed: int

    @property
    def program(self) -> DpasFragmentProgram:
        program = DpasFragmentProgram(self.seed)
        program.lines[:] = self.lines
        return program


def make(kind: str, seed: int) -> Case:
    """Return the case of a seed."""
    return Case(tuple(DpasFragmentProgram(seed).lines), seed)


def check(kind: str, case: Case) -> Verdict:
    """Compile a program and run it; what the machine code must not do is wrong, too.

    Branches that sub-groups may take apart are not known to the machine.
    """
    from tests.xe_machine.errors import MachineError
    from tests.xe_machine.fragments import wrong_arrays

    try:
        found = wrong_arrays(case.program)
    except MachineError as error:
        if "not known" in str(error):
            return Verdict("", ("with instructions that are not known",))
        return Verdict(f"machine: {error}")
    if found is None:
        return Verdict("", ("in local memory",))
    return Verdict(f"wrong: arrays {found}" if found else "", ("in registers",))


def smaller(kind: str, case: Case) -> Iterator[Case]:
    """Yield the case without each of its lines, the last ones first, where that is still a program."""
    for place in reversed(range(len(case.lines))):
        fewer = Case(case.lines[:place] + case.lines[place + 1 :], case.seed)
        try:
            parse(fewer.program.source)
        except TLError:
            continue
        yield fewer


def text(kind: str, case: Case) -> str:
    """Return the program."""
    return f"; arguments of DpasFragmentProgram({case.seed})\n{case.program.source}"


CAMPAIGN = Campaign("fragments", KINDS, make, check, smaller, text, limit=600.0)


def run(
    seed: int, minutes: float, count: int | None = None, *, kind: str | None = None, workers: int | None = None,
) -> Outcome:
    """Run the campaign; it needs the tools of `make tools`."""
    return run_offline(CAMPAIGN, seed, minutes, count, kind, workers)
