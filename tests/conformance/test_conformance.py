"""The conformance run, a sample of it: the whole is the command ``python -m tests.conformance``."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest

from tests.conformance import known, table
from tests.conformance.__main__ import main
from tests.conformance.collective_pages import ENTRIES
from tests.conformance.mappings import MAPPINGS
from tests.conformance.pages import NUMBERS, Entry, one
from tests.conformance.programs import cases, joined
from tests.conformance.running import distinct, misread, misrun
from tl_dpnp.language import elaborate, ops
from tl_dpnp.language.grammar import RULES
from tl_dpnp.language.highlighting import TensorLexer
from tl_dpnp.language.parser import parse

ALL = [entry for entries in ENTRIES.values() for entry in entries]
HERE = [mapping for mapping in MAPPINGS if mapping.is_here]


def drawn(count: int, seed: int):
    return random.Random(seed).sample(list(cases(ALL)), count)


def test_a_sample_is_accepted_and_refused_as_the_pages_say():
    assert not list(misread(drawn(150, seed=1)))


@pytest.mark.parametrize("mapping", HERE, ids=lambda mapping: mapping.name)
def test_a_sample_runs_as_in_the_interpreter(mapping):
    assert not list(misrun(distinct(drawn(24, seed=2)), mapping))


@pytest.mark.parametrize("number", range(len(known.REFUSALS)))
def test_what_is_known_to_be_refused_is(number):
    """An entry of the list that has become wrong fails, and one that stands for nothing."""
    refusal = known.REFUSALS[number]
    for name in refusal.mappings:
        concerned = [case for case in cases(ALL) if case.is_allowed and known.refusal(case, name) is refusal]
        assert concerned
        mapping = next(mapping for mapping in MAPPINGS if mapping.name == name)
        if mapping.is_here:
            assert not list(misrun(random.Random(number).sample(concerned, min(3, len(concerned))), mapping))


def test_the_page_has_the_table():
    assert table.written() == table.table()


def test_every_spelling_of_every_instruction_is_tried(monkeypatch):
    """The instructions' own classes say which there are: each of their rules is read, and each of their words."""
    read = set()

    class Recording(dict):
        def __getitem__(self, rule):
            read.add(rule)
            return super().__getitem__(rule)

    monkeypatch.setattr(elaborate, "RULES", Recording(RULES))
    tried = {}  # of each spelling the first type will do
    for case in cases(ALL):
        if case.is_allowed:
            tried.setdefault((case.word, case.spelling), case)
    written = set()
    for case in tried.values():
        text, _ = joined([case])
        written |= {value for _, _, value in TensorLexer().get_tokens_unprocessed(text)}
        if known.refusal(case, "interpreter") is None:
            parse(text)
    assert set(RULES) <= read
    words = {word for kind in ops.INSTRUCTIONS for body in kind.grammar().values()
             for word in re.findall(r'"(\.?[a-z_0-9]+)"', body)}
    assert words - written <= {f".{word}" for word in written}  # `add` and `arith.add` are one word to Pygments


def test_what_the_pages_say_otherwise_is_found(monkeypatch):
    wrong = Entry("–", "rem", ("%r = arith.rem %a, %b : {T}",), one(*NUMBERS[1:]))
    assert [line.partition(":")[0] for line in misread(list(cases([wrong])))] == [
        "refused, which the pages accept", "refused, which the pages accept", "accepted, which the pages refuse"]
    monkeypatch.setattr(known, "REFUSALS", (known.Refusal(("interpreter",), lambda case: True, "", "nothing"),))
    (line,) = misrun([next(cases([Entry("–", "add", ("%r = add %a, %b : {T}",), one("i8"), candidates=one("i8"))]))],
                     MAPPINGS[0])
    assert line.startswith("is not refused any more (nothing)")


def test_other_numbers_are_found():
    broken = Entry("–", "add", ("%r = add %a, %b : {T}",), one("f32"), candidates=one("f32"))

    def run(function, arguments):
        arguments[-1][...] = 1e9

    (line,) = misrun(list(cases([broken])), replace(MAPPINGS[0], run=run))
    assert "the interpreter gives" in line


def test_the_command_runs_one_instruction(capsys):
    assert main(["--only", "lifetime_stop", "--mapping", "interpreter"]) == 0
    assert "0 differ from the pages" in capsys.readouterr().out
