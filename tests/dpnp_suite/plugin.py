"""A pytest plugin that runs dpnp's tests in one of several ways and writes what became of each, line by line.

It is loaded by its file, as the module ``plugin``: dpnp's tests are a package ``tests`` too.
"""

from __future__ import annotations

import builtins
import faulthandler
import hashlib
import json
import random
import resource
import sys
import time
import types
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tl_dpnp.graph import calling
from tl_dpnp.graph.plan import KernelStep

#: The ways, and what each does.
WAYS = {
    "stock": "plain dpnp",
    "xp": "`dpnp` is `tl_dpnp.xp`",
    "fusing": "`dpnp` is `tl_dpnp.xp`, and each test runs inside `tl_dpnp.fusing()`",
    "fuse": "each test function is `tl_dpnp.fuse`d and called twice",
}


#: Bytes of memory at which the process ends, to be replaced: compiled kernels and Numba's types stay for a while.
MOST_MEMORY = 2500 << 20


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("dpnp_suite")
    group.addoption("--way", choices=list(WAYS))
    group.addoption("--tests-folder", type=Path, help="where dpnp's tests lie")
    group.addoption("--outcomes", type=Path, help="file to write outcomes to")
    group.addoption("--only", type=Path, help="file with the numbers of the tests to run, in JSON")
    group.addoption("--sample", type=int, help="so many tests, drawn by --sample-seed")
    group.addoption("--sample-seed", default="0")
    group.addoption("--end", type=float, help="seconds since the epoch after which no test is started")
    group.addoption("--limit", type=float, default=120.0, help="seconds that a test may take")


def pytest_configure(config: pytest.Config) -> None:
    folder = config.getoption("tests_folder")
    _stand_in()
    dpnp.__path__.append(str(folder.parent))  # newer tests import one another as ``dpnp.tests``
    way = config.getoption("way")
    if way in ("xp", "fusing"):
        calling._KINDS = sys.maxsize  # tests try more kinds of arguments than users do
        _swap(folder)
    config.pluginmanager.register(_Suite(config, way), "dpnp-suite")


def _stand_in() -> None:
    """Give dpnp 0.15 and dpctl 0.17 the names that the modules of later tests need in order to be imported."""
    defaults: dict[str, Any] = {"is_cuda_backend": lambda *arguments: False}
    defaults |= {name: getattr(np, name) for name in "int8 int16 uint8 uint16 uint32 uint64".split()}
    for name, value in defaults.items():
        if not hasattr(dpnp, name):
            setattr(dpnp, name, value)
    helper: Any = types.ModuleType("dpctl.tensor._numpy_helper")
    helper.AxisError = np.exceptions.AxisError
    helper.normalize_axis_index = np.core.numeric.normalize_axis_index
    helper.normalize_axis_tuple = np.core.numeric.normalize_axis_tuple
    sys.modules.setdefault(helper.__name__, helper)


def _swap(folder: Path) -> None:
    """Let the modules of a folder have `tl_dpnp.xp` for ``dpnp`` when they import it."""
    import tl_dpnp.xp

    plain = builtins.__import__

    def swapping(name: str, globals: Any = None, *others: Any, **named: Any) -> Any:
        module = plain(name, globals, *others, **named)
        if module is dpnp and globals is not None:
            importer = Path(globals.get("__file__") or "")
            if folder in importer.parents and importer.name != "conftest.py":
                return tl_dpnp.xp
        return module

    builtins.__import__ = swapping


class _Suite:
    def __init__(self, config: pytest.Config, way: str) -> None:
        self.way = way
        self.config = config
        self.file = open(config.getoption("outcomes"), "a", encoding="utf-8")  # noqa: SIM115 (until the process ends)
        self.errors = open(f"{self.file.name}.errors", "w+")  # noqa: SIM115 (where a process dies)
        faulthandler.enable(self.errors)
        self.numbers: dict[pytest.Item, int] = {}
        self.kernels: Counter[str] = Counter()
        _watch_kernels(self.kernels)

    def write(self, **entry: Any) -> None:
        print(json.dumps(entry), file=self.file, flush=True)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Iterator[None]:
        """Number the tests, which have other names where functions have, before any is deselected."""
        self.numbers = {item: number for number, item in enumerate(items)}
        yield
        only, sample = self.config.getoption("only"), self.config.getoption("sample")
        if only:
            chosen = set(json.loads(only.read_text()))
            items[:] = [item for item in items if self.numbers[item] in chosen]
        elif sample is not None and sample < len(items):
            rng = random.Random(self.config.getoption("sample_seed"))
            items[:] = sorted(_drawn(items, rng, sample), key=self.numbers.__getitem__)
        self.write(collected=len(self.numbers), chosen=[self.numbers[item] for item in items])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        self.write(start=self.numbers[item], name=item.nodeid.rpartition("/")[2])
        self.kernels.clear()
        self.outcome, self.text = "passed", ""
        faulthandler.dump_traceback_later(self.config.getoption("limit"), exit=True, file=self.errors)
        result = yield
        faulthandler.cancel_dump_traceback_later()
        self.write(end=self.numbers[item], outcome=self.outcome, text=self.text, kernels=dict(self.kernels))
        end = self.config.getoption("end")
        if (end is not None and time.time() > end) or _memory() > MOST_MEMORY:
            item.session.shouldstop = "the time is over, or the process has become large"
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Only what passes in all phases, and was expected to, has passed."""
        if report.outcome != "passed" or hasattr(report, "wasxfail"):
            self.outcome = report.outcome if report.outcome != "passed" else "passed unexpectedly"
            self.text = report.longreprtext

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[Any]:
        with tl_dpnp.fusing() if self.way == "fusing" else nullcontext():
            return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> None:
        """Call the fused test once; pytest calls it again."""
        if self.way == "fuse":
            pyfuncitem.obj = fused = tl_dpnp.fuse(pyfuncitem.obj)
            names = pyfuncitem._fixtureinfo.argnames
            fused(**{name: pyfuncitem.funcargs[name] for name in names})


def _drawn(items: Sequence[pytest.Item], rng: random.Random, sample: int) -> list[pytest.Item]:
    """Return so many tests, of as many different functions as there are."""
    seen: Counter[str] = Counter()
    turns = []
    for item in rng.sample(items, len(items)):
        name = item.nodeid.partition("[")[0]
        seen[name] += 1
        turns.append((seen[name], item))
    return [item for _, item in sorted(turns, key=lambda turn: turn[0])[:sample]]


def _memory() -> int:
    """Return the bytes that are resident."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _watch_kernels(counter: Counter[str]) -> None:
    """Count each launch of a fused kernel under its name and a number for its text."""
    plain: Callable[..., None] = KernelStep.run
    labels: dict[int, tuple[Any, str]] = {}

    def run(step: KernelStep, *arguments: Any) -> None:
        plain(step, *arguments)
        kernel = step.report.kernel
        if id(kernel) not in labels:
            digest = hashlib.sha256(kernel.source_text.encode()).hexdigest()[:8]
            labels[id(kernel)] = kernel, f"{kernel.name} {digest}"
        counter[labels[id(kernel)][1]] += 1

    KernelStep.run = run  # type: ignore[method-assign]
