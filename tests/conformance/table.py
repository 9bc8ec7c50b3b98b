"""The table of the conformance run, as docs/language.md has it: what the pages accept, and what of that is refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tests.conformance import pages
from tests.conformance.collective_pages import ENTRIES
from tests.conformance.known import REFUSALS, refusal
from tests.conformance.mappings import MAPPINGS
from tests.conformance.pages import Entry
from tests.conformance.programs import Case, cases

PAGE = Path(__file__).parents[2] / "docs" / "language.md"
MARKS = ("<!-- Written by python -m tests.conformance -->", "<!-- End -->")
#: Names of lists of types, longest first.
_NAMED = {"numbers": pages.NUMBERS, "numbers but complex": pages.REALS, "integers": pages.INTEGERS,
          "floats": pages.FLOATS, "complex": pages.COMPLEX, "narrow": pages.NARROW}


def named(types: Sequence[str]) -> str:
    """Return a list of types in few words."""
    words, rest = [], list(types)
    for name, listed in _NAMED.items():
        if set(listed) <= set(rest):
            words.append(name)
            rest = [type for type in rest if type not in listed]
    return ", ".join(words + [f"`{type}`" for type in rest])


def _row(entry: Entry) -> str:
    allowed = [case for case in cases([entry]) if case.is_allowed]
    words = " ".join([*(f"`{word}`" for pair in entry.kinds for word in dict.fromkeys(pair)), entry.note]).strip()
    types = entry.described or named([name for name in pages.TYPES if {(name,), (name, name)} & set(entry.types)])
    cells = (_cell(allowed, mapping.name) if entry.runs else "–" for mapping in MAPPINGS)
    return f"| {words} | {len(entry.spellings)} | {types} | {entry.versions} | {' | '.join(cells)} |"


def _cell(allowed: list[Case], mapping: str) -> str:
    """Return what of the cases of a row runs in a mapping."""
    refused = {case: found for case in allowed if (found := refusal(case, mapping)) is not None}
    if not refused:
        return "all"
    marks = ", ".join(str(number) for number, found in enumerate(REFUSALS, 1) if found in refused.values())
    if len(refused) == len(allowed):
        return f"none ({marks})"
    whole = [name for name in pages.TYPES if any(name in case.types for case in refused)
             and all(case in refused for case in allowed if name in case.types)]
    assert all(set(case.types) & set(whole) for case in refused), "the table has no words for what is refused here"
    return f"not {named(whole)} ({marks})"


def table() -> str:
    """Return the table as text."""
    lines: list[str] = []
    for title, entries in ENTRIES.items():
        columns = [title, "spellings", "element types", "version", *(mapping.title for mapping in MAPPINGS)]
        lines += ["", f"| {' | '.join(columns)} |", "|" + "---|" * len(columns), *map(_row, entries)]
    notes = (f"{number}. {each.reason[0].upper()}{each.reason[1:]}." for number, each in enumerate(REFUSALS, 1))
    return "\n".join([*lines, "", *notes]).strip()


def parts(text: str) -> tuple[str, str, str]:
    """Return a page as what stands before the table, the table, and what stands behind it."""
    begin, end = MARKS
    found = re.fullmatch(f"(.*{re.escape(begin)}\n)(.*?)(\n?{re.escape(end)}.*)", text, re.DOTALL)
    if found is None:
        raise ValueError(f"the page has no place for the table, between {begin} and {end}")
    return found[1], found[2], found[3]


def written() -> str:
    """Return the table that the page has."""
    return parts(PAGE.read_text(encoding="utf-8"))[1]


def write() -> None:
    """Write the table into the page."""
    before, _, after = parts(PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(f"{before}{table()}{after}", encoding="utf-8")
