"""Whatever the text: a module that prints and parses to itself, or a `TLError` that renders, and soon.

The inputs are damaged programs and follow from seeds; a failure prints the seed, the number and the text.
``pytest --every-row --fuzz-inputs 1000000`` tries more of them.
"""

from __future__ import annotations

import faulthandler
import random
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

from tests.diagnostics.conftest import counted
from tests.diagnostics.mutations import MUTATIONS, mutate
from tests.diagnostics.test_corpus import FIXED, read
from tests.language.test_definitions import DEFINED
from tests.language.test_dialects import PARAMETERS, SPELLINGS
from tests.language.test_reference_examples import FUSED_KERNEL, IF, VIEWS
from tests.strategies.programs import random_program
from tests.strategies.writer import Features
from tl_dpnp.errors import TLError, TLSyntaxError, UnsupportedError
from tl_dpnp.language import parse, print_module

SEEDS = range(10)
LIMIT = 2.0  # seconds of one input; most take a few milliseconds
HANG = 20.0  # seconds after which an input is given up

EXAMPLES = [FUSED_KERNEL, IF] + [
    f"func @f(%0: {operand}, %1: index, %2: index) {{ %r = {instruction} : {operand} }}"
    for instruction, operand, _ in VIEWS
] + [f"func @f({PARAMETERS}) {{\n{newer}\n}}" for _, newer in SPELLINGS] + DEFINED


class _Hang(BaseException):
    """An input took so long that it was given up; no handler of the parser may catch it."""


@contextmanager
def watchdog(seconds: float = HANG) -> Iterator[None]:
    """Raise `_Hang` after a while; where signals are missing, or where nothing else helps, end the process."""

    def give_up(number: int, frame: FrameType | None) -> None:
        raise _Hang

    faulthandler.dump_traceback_later(3 * seconds, exit=True, file=sys.__stderr__)
    previous = signal.signal(signal.SIGALRM, give_up) if hasattr(signal, "SIGALRM") else None
    try:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    finally:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)
        faulthandler.cancel_dump_traceback_later()


def outcome(text: str) -> str:
    """Parse, and check what came of it."""
    try:
        module = parse(text, "input.tl")
    except TLError as error:
        return check_error(error, text)
    for dialect in ("0.4", "0.3"):
        try:
            printed = print_module(module, dialect)
        except UnsupportedError:
            assert dialect == "0.3"
            continue
        again = parse(printed, "printed.tl")
        assert again == module or "nan" in printed  # a NaN differs from itself
        assert print_module(again, dialect) == printed
    return "parsed"


def check_error(error: TLError, text: str) -> str:
    """Check that an error points into the text and renders."""
    lines = text.split("\n")
    assert error.diagnostics
    for diagnostic in error.diagnostics:
        span = diagnostic.span
        assert span is not None
        assert 1 <= span.line <= len(lines)
        assert 1 <= span.column <= len(lines[span.line - 1]) + 1
    assert "input.tl:" in str(error)
    assert re.search(r"(?m)^ *\|? *\^", str(error)), "no caret"
    return "rejected by the grammar" if isinstance(error, TLSyntaxError) else "rejected by a rule"


@pytest.fixture(scope="module")
def programs() -> list[str]:
    """Valid programs: the references' examples, the corrected ones of the corpus, random ones."""
    written = [print_module(random_program(n, Features(newer=n % 2 == 1)).module, ("0.3", "0.4")[n % 2])
               for n in range(60)]
    return EXAMPLES + [read(name) for name in FIXED] + written


def inputs(programs: list[str], seed: int, count: int) -> Iterator[str]:
    """Yield the inputs of a seed; every kind of program comes as often as the others."""
    rng = random.Random(seed)
    kinds = (programs[: len(EXAMPLES)], programs[len(EXAMPLES) : -60], programs[-60:])
    for _ in range(count):
        yield mutate(rng.choice(rng.choice(kinds)), programs, rng)


@pytest.mark.drawn(count=2)
@pytest.mark.parametrize("seed", SEEDS)
def test_any_text(seed: int, programs: list[str], fuzz_inputs: int) -> None:
    for number, text in enumerate(inputs(programs, seed, fuzz_inputs // len(SEEDS))):
        what = f"input {number} of seed {seed}: {text[:2000]!r}"
        start = time.process_time()
        try:
            with watchdog():
                counted[outcome(text)] += 1
        except _Hang:
            pytest.fail(f"no end after {HANG} seconds, {what}")
        except Exception as error:  # the text is lost otherwise
            raise AssertionError(f"{type(error).__name__}, {what}") from error
        assert time.process_time() - start < LIMIT, f"slow, {what}"


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
def test_watchdog_ends_a_hang() -> None:
    with pytest.raises(_Hang), watchdog(0.5):
        time.sleep(10)


def test_every_mutation_changes_programs(programs: list[str]) -> None:
    """Each kind of damage is done, and leads to a rejection now and then."""
    for mutation in MUTATIONS:
        rng = random.Random(7)
        texts = [(text, mutation(text, programs, rng)) for text in programs[:20]]
        assert any(before != after for before, after in texts), mutation
        assert any(outcome(after) != "parsed" for _, after in texts), mutation


def test_inputs_follow_from_the_seed(programs: list[str]) -> None:
    assert list(inputs(programs, 0, 20)) == list(inputs(programs, 0, 20))
    assert list(inputs(programs, 0, 20)) != list(inputs(programs, 1, 20))
