"""What a process of pytest-xdist wrote to standard error before it died, in the report of the test that it ran.

Each worker has a file for it, emptied where a test begins.  That needs ``--capture=sys``: otherwise pytest holds the
descriptor itself, and what it holds dies with the process.
"""

from __future__ import annotations

import faulthandler
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

#: Characters that are shown, from the end.
SHOWN = 20_000


def pytest_configure(config: pytest.Config) -> None:
    given = getattr(config, "workerinput", {})
    if "standard_error" in given:
        config.pluginmanager.register(_Worker(given["standard_error"]))
    elif config.getoption("dist", "no") != "no" and config.getoption("capture") == "sys":
        config.pluginmanager.register(_Controller())


class _Worker:
    """Turns the standard error of the process to a file, for Python and for all libraries."""

    def __init__(self, path: str) -> None:
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(self.descriptor, 2)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        faulthandler.enable(self.descriptor)  # pytest has enabled it for the terminal
        os.ftruncate(self.descriptor, 0)


class _Controller:
    """Shows the files of processes that died."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="pytest-worker-errors-")
        self.died: dict[str, str] = {}

    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput["standard_error"] = str(Path(self.folder.name) / node.gateway.id)

    @pytest.hookimpl(tryfirst=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        path = Path(self.folder.name) / node.gateway.id
        if error and path.exists():
            text = path.read_text(encoding="utf-8", errors="replace")
            self.died[node.gateway.id] = f"standard error of {node.gateway.id}:\n{text[-SHOWN:] or '(nothing)'}"

    def pytest_handlecrashitem(self, report: pytest.TestReport) -> None:
        report.longrepr = f"{report.longrepr}\n{self.died.pop(report.node.gateway.id, '')}"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for text in self.died.values():
            terminalreporter.write_line(f"a worker died outside of tests; {text}")

    def pytest_unconfigure(self) -> None:
        self.folder.cleanup()
