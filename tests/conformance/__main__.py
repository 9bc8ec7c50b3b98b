"""The command ``python -m tests.conformance``: run every instruction × spelling × element type × mapping.

It compares with the pages of the language (`pages`), prints what differs and the table of docs/language.md, and writes
that where nothing differs; ``--check`` says whether the page has it instead. A mapping whose packages are not installed
is not run: CUDA needs an environment of its own (docs/cuda.md), where the same command compiles for it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from tests.conformance import table
from tests.conformance.collective_pages import ENTRIES
from tests.conformance.mappings import MAPPINGS
from tests.conformance.programs import Case, cases
from tests.conformance.running import tested


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; return the exit status, 1 if something differs from the pages."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail where docs/language.md differs")
    parser.add_argument("--only", metavar="WORD", help="this instruction alone; nothing is written")
    parser.add_argument("--mapping", action="append", choices=[mapping.name for mapping in MAPPINGS],
                        help="run in this mapping; all that are here if left out")
    options = parser.parse_args(arguments)
    chosen: dict[tuple[object, ...], list[Case]] = {}
    for case in cases(entry for entries in ENTRIES.values() for entry in entries):
        if options.only in (None, case.word, dict(case.entry.kinds)[case.word]):
            chosen.setdefault((case.entry, case.word), []).append(case)
    if not chosen:
        parser.error(f"the pages have no instruction {options.only!r}")
    for mapping in MAPPINGS:
        if not mapping.is_here:
            print(f"{mapping.title}: not run, {mapping.needs} is not installed")
    found = _found(list(chosen.values()), options.mapping or [mapping.name for mapping in MAPPINGS])
    print(*found, sep="\n")
    print(f"{sum(map(len, chosen.values()))} cases, {len(found)} differ from the pages")
    if options.only is None and options.mapping is None and not found:
        print(table.table())
        if not options.check:
            table.write()
    return int(bool(found) or (options.check and table.written() != table.table()))


def _found(groups: list[list[Case]], mappings: list[str]) -> list[str]:
    """Return what differs from the pages; the cases of an instruction are one piece of work for a process."""
    if len(groups) == 1:
        return tested(groups[0], mappings)
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        return [line for lines in pool.map(tested, groups, [mappings] * len(groups)) for line in lines]


if __name__ == "__main__":
    sys.exit(main())
