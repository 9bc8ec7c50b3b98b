"""What a hint says to write where operands have other types than they are annotated with is right for all of them."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator

import pytest

from tests.diagnostics.test_fuzz import EXAMPLES
from tests.drawing import seed_of
from tl_dpnp.errors import Diagnostic, TLError
from tl_dpnp.language.parser import parse

#: Types that annotations are exchanged for.
TYPES = ("i1", "i32", "i64", "u8", "index", "f16", "f32", "f64", "c32", "c64")
#: Examples whose annotations are exchanged, and exchanges in each.
PROGRAMS, EXCHANGES = 80, 6


def wrong(text: str) -> tuple[Diagnostic, ...]:
    """Return what is wrong with a program."""
    try:
        parse(text)
    except TLError as error:
        return error.diagnostics
    return ()


def place(text: str, line: int, column: int) -> int:
    """Return where a line's column is in a text."""
    return sum(map(len, text.splitlines(keepends=True)[: line - 1])) + column - 1


def followed(text: str, diagnostic: Diagnostic) -> Iterator[str]:
    """Yield the program after each of the ways that a hint names to mend the type of an operand.

    A cast is written in front of the line, and its result in the instruction for the operand.
    """
    assert diagnostic.span is not None
    span, hint = diagnostic.span, diagnostic.hint or ""
    start, end = place(text, span.line, span.column), place(text, span.end_line, span.end_column)
    if annotation := re.match(r"write (\w+)(;|$)", hint):
        yield text[:start] + annotation[1] + text[end:]
    cast = re.search(r"write ((%\w+) = \w+ (%\w+) : .*?) before(?: the yield)?, and", hint)
    line = text.rfind("\n", 0, start) + 1
    instruction, rest = re.match(r"(.*?)($|\n.*)", text[line:], re.DOTALL).groups()  # type: ignore[union-attr]
    if cast and instruction.count("{") == instruction.count("}") == 0:
        name, head = re.escape(cast[3]), instruction.find("=") + 1
        used = re.sub(rf"{name}\b", cast[2], instruction[head:])
        yield text[:line] + cast[1] + "\n" + instruction[:head] + used + rest


def exchanged(rng: random.Random) -> Iterator[str]:
    """Yield programs in which one annotation is another type; not those of a yield, which its if or for states, too."""
    for text in rng.sample(EXAMPLES, min(PROGRAMS, len(EXAMPLES))):
        annotations = [match for match in re.finditer(rf": ({'|'.join(TYPES)})\b", text)
                       if "yield" not in text[text.rfind("\n", 0, match.start()) : match.start()]]
        for match in rng.sample(annotations, min(EXCHANGES, len(annotations))):
            yield text[: match.start(1)] + rng.choice(TYPES) + text[match.end(1) :]


def test_a_hint_about_types_leads_to_no_other_error_at_its_place(request: pytest.FixtureRequest) -> None:
    rng, count = random.Random(seed_of(request.config)), 0
    for text in exchanged(rng):
        for diagnostic in wrong(text):
            if not re.fullmatch(r"%\w+ has type \w+, (not|but .*) \w+( here)?( is needed)?", diagnostic.message):
                continue
            for mended in followed(text, diagnostic):
                messages = [each.message for each in wrong(mended)]
                before = [each.message for each in wrong(text)]
                new = [message for message in messages if message not in before and "has type" in message]
                assert messages.count(diagnostic.message) < before.count(diagnostic.message), (text, mended)
                assert not new, (str(diagnostic.render()), mended, new)
                count += 1
    assert count > 20


def test_several_operands_share_an_annotation() -> None:
    for first, second in itertools.permutations(("i32", "f32", "f64", "c32"), 2):
        (*_, diagnostic) = wrong(f"func @f(%a: {first}, %b: {second}) {{\n  %c = add %a, %b : {first}\n}}")
        assert not re.match(r"write \w+(;|$)", diagnostic.hint or ""), diagnostic
