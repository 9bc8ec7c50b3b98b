"""The command ``python -m tests.conformance``: run every instruction × spelling × element type × mapping.

It compares with the pages of the language (`pages`), prints what differs and the table of docs/language.md, and writes
that where nothing differs; ``--check`` says whether the page has it instead. A mapping whose packages are not installed
is not run: CUDA needs an environment of its own (docs/cuda.md), where the same command compiles for it.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Sequence

from tests.conformance import table
from tests.conformance.collective_pages import ENTRIES
from tests.conformance.mappings import MAPPINGS
from tests.conformance.programs import cases
from tests.conformance.running import distinct, misread, misrun


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; return the exit status, 1 if something differs from the pages."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail where docs/language.md differs")
    parser.add_argument("--only", metavar="WORD", help="this instruction alone; nothing is written")
    parser.add_argument("--mapping", action="append", choices=[mapping.name for mapping in MAPPINGS],
                        help="run in this mapping; all that are here if left out")
    options = parser.parse_args(arguments)
    chosen = [case for case in cases(entry for entries in ENTRIES.values() for entry in entries)
              if options.only in (None, *dict(case.entry.kinds), *dict(case.entry.kinds).values())]
    if not chosen:
        parser.error(f"the pages have no instruction {options.only!r}")
    found = list(_timed("reading", len(chosen), misread(chosen)))
    programs = distinct(chosen)
    for mapping in MAPPINGS:
        if not mapping.is_here:
            print(f"{mapping.title}: not run, {mapping.needs} is not installed")
        elif options.mapping is None or mapping.name in options.mapping:
            found += _timed(mapping.title, len(programs), misrun(programs, mapping))
    print(*found, sep="\n")
    print(f"{len(chosen)} cases, {len(programs)} programs, {len(found)} differ from the pages")
    if options.only is None and not found:
        print(table.table())
        if not options.check:
            table.write()
    return int(bool(found) or (options.check and table.written() != table.table()))


def _timed(what: str, count: int, found: Iterable[str]) -> list[str]:
    start = time.monotonic()
    lines = list(found)
    print(f"{what}: {count} in {time.monotonic() - start:.0f} s, {len(lines)} differ", flush=True)
    return lines


if __name__ == "__main__":
    sys.exit(main())
