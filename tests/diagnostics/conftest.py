"""Says how many inputs the fuzz tests tried."""

from __future__ import annotations

from collections import Counter

import pytest

#: Inputs that were tried, by outcome.
counted: Counter[str] = Counter()


@pytest.fixture
def fuzz_inputs(request: pytest.FixtureRequest) -> int:
    """Inputs of all seeds together."""
    return int(request.config.getoption("--fuzz-inputs"))


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if counted:
        parts = ", ".join(f"{number} {outcome}" for outcome, number in sorted(counted.items()))
        terminalreporter.write_line(f"fuzz tests: {sum(counted.values())} inputs tried: {parts}")
