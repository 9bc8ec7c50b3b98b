"""Compare the package with the pages: what is accepted, and what runs in a mapping."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from tests.conformance.known import refusal
from tests.conformance.mappings import MAPPINGS, Mapping
from tests.conformance.programs import Case, batches, joined
from tl_dpnp.errors import TLError, TLVerifyError
from tl_dpnp.language.parser import parse
from tl_dpnp.language.printer import print_function

#: How many programs are read at once.
_TOGETHER = 24


def misread(cases: Sequence[Case]) -> Iterator[str]:
    """Yield a line for each case that is refused against the pages, or accepted against them."""
    accepted = [case for case in cases if case.is_allowed and refusal(case, "interpreter") is None]
    for batch in batches(accepted, _TOGETHER):
        if _error(batch) is not None:
            yield from (f"refused, which the pages accept: {case}: {str(error).splitlines()[0]}" for case in batch
                        if (error := _error([case])) is not None)
    for batch in batches([case for case in cases if not case.is_allowed], _TOGETHER):
        error = _error(batch)
        lines = {each.span.line for each in error.diagnostics} if isinstance(error, TLVerifyError) else set()
        places = joined(batch)[1]
        yield from (f"accepted, which the pages refuse: {case}" for case, line in zip(batch, places, strict=True)
                    if line not in lines and _error([case]) is None)


def distinct(cases: Sequence[Case]) -> list[Case]:
    """Return the accepted cases that are to run, one of those whose spellings mean the same."""
    found: dict[tuple[object, ...], Case] = {}
    for case in cases:
        if case.is_allowed and case.entry.runs:
            is_read = refusal(case, "interpreter") is None and _error([case]) is None
            (function,) = parse(joined([case])[0]) if is_read else (None,)
            found.setdefault((case if function is None else print_function(function), case.entry.domain), case)
    return list(found.values())


def misrun(cases: Sequence[Case], mapping: Mapping) -> Iterator[str]:
    """Yield a line for each accepted case that does not run as the interpreter does, or is not refused as is known."""
    known = {case: found for case in cases if (found := refusal(case, mapping.name)) is not None}
    for case, failure in mapping.failures([case for case in cases if case not in known]).items():
        yield f"fails, which the pages accept: {mapping.title}: {case}: {failure}"
    for case, found in known.items():
        failure = mapping.failure([case])
        if failure is None:
            yield f"is not refused any more ({found.reason}): {mapping.title}: {case}"
        elif not found.explains(failure):
            yield f"is refused for another reason than is known ({found.reason}): {mapping.title}: {case}: {failure}"


def tested(cases: Sequence[Case], mappings: Sequence[str]) -> list[str]:
    """Return what differs from the pages of the cases of one instruction, and print how long it took."""
    start, programs = time.monotonic(), distinct(cases)
    lines = [*misread(cases), *(line for mapping in MAPPINGS if mapping.is_here and mapping.name in mappings
                                for line in misrun(programs, mapping))]
    print(f"{cases[0].word} ({cases[0].entry.harness}): {len(cases)} cases, {len(programs)} programs, "
          f"{len(lines)} differ, {time.monotonic() - start:.0f} s", flush=True)
    return lines


def _error(cases: Sequence[Case]) -> TLError | None:
    """Return what is wrong with programs, read together."""
    try:
        parse(joined(cases)[0])
    except TLError as error:
        return error
    return None
