"""Random programs that compute a product tile by tile, and changed ones, on the interpreter: as written, and raised."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tests.campaigns.campaign import Campaign, run_campaign
from tests.campaigns.outcome import Outcome
from tests.campaigns.worker import Verdict
from tests.strategies.tiled_products import MISTAKES, TiledProduct
from tl_dpnp.errors import TLError
from tl_dpnp.language import parse
from tl_dpnp.language.interpreter import interpret
from tl_dpnp.lowering.raising.cover import Cover
from tl_dpnp.lowering.raising.numbers import Unraised
from tl_dpnp.lowering.raising.product import raised

__all__ = ["CAMPAIGN", "Case", "run"]

#: Operations of a program that runs longer than this are not run: changes can make loops endless.
_MOST_STEPS = 1 << 19
_WORDS = ("add", "sub", "mul", "div", "rem", "min", "max")


@dataclass(frozen=True)
class Case:
    """A program by its seed, with what is wrong with it, and the seeds of changes to its text."""

    seed: int
    mistake: str | None = None
    changes: tuple[int, ...] = ()

    @property
    def product(self) -> TiledProduct:
        return TiledProduct(self.seed, most=2 if self.mistake is None else 3, mistake=self.mistake)

    @property
    def source(self) -> str:
        text = self.product.source
        for change in self.changes:
            text = _changed(text, random.Random(change))
        return text


def _changed(text: str, rng: random.Random) -> str:
    """Return a text with another name, number, word or check, or with a line less or twice."""
    if rng.random() < 0.1:
        lines = text.split("\n")
        line = rng.randrange(1, len(lines) - 1)
        lines[line : line + 1] = rng.choice(([], [lines[line]] * 2))
        return "\n".join(lines)
    names = re.findall(r"%\w+", text)
    pattern, others = rng.choice((
        (r"%\w+", names), (r"%\w+", names), (r"(?<=constant )\d+(?= : index)", ("0", "1", "2", "3", "4", "8", "16")),
        (rf"(?<== )({'|'.join(_WORDS)})(?= )", _WORDS), (r"(?<=\.)both_checked", ("rows_checked", "cols_checked")),
        (r"%[ABC]v(?=\[)", ("%Av", "%Bv", "%Cv")),
    ))
    places = [*re.finditer(pattern, text)]
    if not places:
        return text
    place = rng.choice(places)
    return text[: place.start()] + rng.choice(others) + text[place.end() :]


def make(kind: str, seed: int) -> Case:
    """Return the case of a seed."""
    rng = random.Random(seed)
    if kind == "mistaken":
        return Case(seed, rng.choice(MISTAKES))
    count = rng.choice((1, 1, 2, 3)) if kind == "changed" else 0
    return Case(seed, None, tuple(rng.randrange(1 << 32) for _ in range(count)))


def check(kind: str, case: Case) -> Verdict:
    """Compare what a program does with the gemm that it is raised to, in a call that is taken for it."""
    product = case.product
    try:
        (function,) = parse(case.source)
    except TLError:
        return Verdict(labels=("no program",))
    try:
        whole = raised(function)
        reason = Cover(function).misfit([*product.shapes, ()], product.groups)
    except Unraised as error:
        reason = str(error)
    if reason is not None:
        return Verdict(f"not raised: {reason}" if kind == "right" else "", ("not raised",))
    arrays = product.arrays()
    expected, found = copy.deepcopy(arrays), copy.deepcopy(arrays)
    try:
        interpret(function, [*expected, product.alpha], product.groups, order_seed=case.seed, max_steps=_MOST_STEPS)
    except TLError as error:
        is_long = "the limit on the number" in str(error)
        return Verdict("" if is_long else f"raised, but undefined: {error}", ("too long",) * is_long)
    interpret(whole, [*found, product.alpha], max(1, product.batch))
    same = np.array_equal(expected[2], found[2])
    return Verdict("" if same else "wrong: the gemm differs from the program", ("raised",))


def smaller(kind: str, case: Case) -> Iterator[Case]:
    """Yield the case without each of its changes."""
    for number in range(len(case.changes)):
        yield Case(case.seed, case.mistake, case.changes[:number] + case.changes[number + 1 :])


def text(kind: str, case: Case) -> str:
    """Return the program, with its call."""
    product = case.product
    return (f"; arguments of TiledProduct({case.seed}, mistake={case.mistake!r}), group_size={product.groups}\n"
            f"{case.source}")


CAMPAIGN = Campaign("raising", ("right", "mistaken", "changed"), make, check, smaller, text)


def run(
    seed: int, minutes: float, count: int | None = None, *, kind: str | None = None, workers: int | None = None,
) -> Outcome:
    """Run the campaign."""
    return run_campaign(CAMPAIGN, seed, minutes, count, kind=kind, workers=workers)
