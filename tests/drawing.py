"""Samples of the tests, others for each commit: of the rows of tests that have many, and of all tests.

``@pytest.mark.drawn(n)`` keeps so many rows of a parametrized test that each value of each of its parameters comes at
least n times, if it has as many; with ``pairs=True`` each pair of values of two parameters.  ``count=n`` keeps n rows.
``by`` makes, of the parameters of a row, other values that are to be covered in place of these.
``pytest --every-row`` runs all rows, ``--share`` that share of all tests.  The seed is ``--seed``, by default the first
8 digits of the commit, as CI's campaigns have it; the head of a run shows it, as each failure of a drawn row does.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import random
import subprocess
from collections import Counter, defaultdict
from collections.abc import Generator, Hashable, Sequence
from pathlib import Path
from typing import Any

import pytest

__all__ = ["drawn_rows", "seed_of"]


@functools.cache
def _commit() -> int:
    """Return the first 8 digits of the commit as a number; outside of a checkout 0."""
    command = ["git", "rev-parse", "HEAD"]
    try:
        found = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return 0
    return int(found[:8], 16)


def seed_of(config: pytest.Config) -> int:
    """Return the seed of what a run draws."""
    given: int | None = config.getoption("--seed")
    return _commit() if given is None else given


def pytest_report_header(config: pytest.Config) -> str:
    """Say how to repeat what is drawn."""
    part = config.getoption("--share")
    return f"tests drawn: --seed {seed_of(config)}" + ("" if part is None else f" --share {part}")


def drawn_rows(
    rows: Sequence[Sequence[Hashable]], seed: str, times: int = 1, *, pairs: bool = False, count: int | None = None
) -> list[int]:
    """Return the places of the rows that are kept, in order; see the module."""
    places = list(range(len(rows)))
    random.Random(seed).shuffle(places)
    if count is not None:
        return sorted(places[:count])
    kept, seen = [], Counter[Hashable]()
    for place in places:
        values: list[Hashable] = list(enumerate(rows[place]))
        if pairs:
            values = list(itertools.combinations(values, 2))
        if any(seen[value] < times for value in values):
            kept.append(place)
            seen.update(values)
    return sorted(kept)


def _kept(
    rows: Sequence[pytest.Function], seed: str, times: int = 1, *, by: Any = None, **options: Any
) -> list[int]:
    """Return the places of the rows that a mark keeps, whose arguments are the last ones."""
    parameters = [row.callspec.params for row in rows]
    values = [tuple(map(repr, given.values())) if by is None else by(**given) for given in parameters]
    return drawn_rows(values, seed, times, **options)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not in the share, and rows that are not drawn of those that are left."""
    left_out = {item for item in items if not _is_in_share(item, config)}
    if not config.getoption("--every-row"):
        tests: dict[str, list[pytest.Function]] = defaultdict(list)
        for item in items:
            if item.get_closest_marker("drawn") and isinstance(item, pytest.Function) and item not in left_out:
                tests[item.nodeid.partition("[")[0]].append(item)
        for name, rows in tests.items():
            (mark,) = rows[0].iter_markers("drawn")
            kept = _kept(rows, f"{seed_of(config)} {name}", *mark.args, **mark.kwargs)
            left_out |= set(rows) - {rows[place] for place in kept}
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def _is_in_share(item: pytest.Item, config: pytest.Config) -> bool:
    """Return whether a test is in the share that was asked for: that depends on its name and the seed."""
    part: float | None = config.getoption("--share")
    digest = hashlib.sha256(f"{seed_of(config)} {item.nodeid}".encode()).digest()
    return part is None or int.from_bytes(digest[:8], "little") < part * 2**64


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say which seed has drawn what failed."""
    report = yield
    if report.failed and item.get_closest_marker("drawn"):
        report.sections.append(("a row that was drawn", f"--seed {seed_of(item.config)}"))
    return report
