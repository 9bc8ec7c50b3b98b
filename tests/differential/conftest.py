"""Says how many programs the differential tests ran."""

from __future__ import annotations

from collections import Counter

import pytest

#: Programs that were run and compared, by layout.
counted: Counter[str] = Counter()


@pytest.fixture
def differential_programs(request: pytest.FixtureRequest) -> int:
    """Programs for each layout."""
    return int(request.config.getoption("--differential-programs"))


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if counted:
        parts = ", ".join(f"{number} as {layout}" for layout, number in sorted(counted.items()))
        terminalreporter.write_line(f"differential tests: {sum(counted.values())} programs compared: {parts}")
