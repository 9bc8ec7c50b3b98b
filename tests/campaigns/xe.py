"""Random products as machine code of Xe-HPC, compiled offline and executed by an interpreter, against NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.campaigns.campaign import Campaign
from tests.campaigns.offline import run_offline
from tests.campaigns.outcome import Outcome
from tests.campaigns.worker import Verdict
from tests.xe_machine.products import KINDS, Product, draw

__all__ = ["CAMPAIGN", "run"]


def check(kind: str, case: Product) -> Verdict:
    """Compile a product and run it; what the machine code must not do is wrong, too."""
    from tests.xe_machine.errors import MachineError
    from tests.xe_machine.products import binary_of, compiled, wrong

    kernel, program = compiled(case)
    try:
        found, _ = wrong(case, kernel, binary_of(program))
    except MachineError as error:
        return Verdict(f"machine: {error}")
    return Verdict(f"wrong: {found}" if found else "", (f"of {case.types}",))


def smaller(kind: str, case: Product) -> Iterator[Product]:
    """Yield the case with less of everything: each takes a compilation."""
    plain = Product(case.kind, case.types, case.m, case.n, case.k, case.seed)
    for name in ("groups", "padding", "offsets", "alpha", "beta", "transposes", "ordinary"):
        if getattr(case, name) != getattr(plain, name):
            yield replace(case, **{name: getattr(plain, name)})
    for name in "mnk":
        size = getattr(case, name)
        if size > 1:
            yield replace(case, **{name: size // 2})


def text(kind: str, case: Product) -> str:
    """Return the program and its call."""
    return f"{case.source}\n; {case!r}"


CAMPAIGN = Campaign("xe", KINDS, draw, check, smaller, text, limit=600.0)


def run(
    seed: int, minutes: float, count: int | None = None, *, kind: str | None = None, workers: int | None = None,
) -> Outcome:
    """Run the campaign; it needs the tools of `make tools`."""
    return run_offline(CAMPAIGN, seed, minutes, count, kind, workers)
