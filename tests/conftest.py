"""Options and fixtures of the whole test suite."""

from __future__ import annotations

import argparse
import gc
import hashlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

import hypothesis
import platformdirs
import pytest

from tl_dpnp.runtime.bootstrap import processor

# How long an example takes says more of the machine than of what is tested.
hypothesis.settings.register_profile("without deadlines", deadline=None)
hypothesis.settings.load_profile("without deadlines")

pytest_plugins = ("tests.drawing", "tests.worker_errors")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; pytest takes them only from the outermost conftest."""
    parser.addoption(
        "--differential-programs", default="16", help="random programs to run on the device in each layout"
    )
    parser.addoption("--fuzz-inputs", default="10000", help="mutated programs to parse")
    parser.addoption("--update-golden", action="store_true", help="write golden files anew instead of comparing")
    parser.addoption("--every-row", action="store_true", help="run all rows, no sample (tests/drawing.py)")
    parser.addoption("--share", type=_share, help="run this share of the tests only, from 0 to 1, drawn by --seed")
    parser.addoption("--seed", type=int, help="decides what is drawn; by default the commit does")


def _share(text: str) -> float:
    share = float(text)
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"from 0 to 1, and not {text}")
    return share


def pytest_configure() -> None:
    """Set what the tests' processes have in common, before any of them loads SYCL.

    The garbage collector begins less often: it went through thousands of tests for a quarter of their time.  They are
    not frozen, since `gc.get_referrers` and `gc.get_objects`, which the package calls, leave out what is.

    SYCL keeps the kernels of dpnp in the user's cache folder, where workers, the processes of tests and later runs find
    them: each would compile those that it uses by itself.  It compares the whole SPIR-V, the device's name and the
    driver's, but not what the processor can do, so each kind has a folder.  It does not keep kernels of tl_dpnp, which
    OpenCL builds.
    """
    gc.set_threshold(10_000, 10, 10)
    if "SYCL_CACHE_PERSISTENT" not in os.environ:  # a worker has what the process that started it has set
        kind = hashlib.sha256(processor().get("flags", "").encode()).hexdigest()[:16]
        folder = Path(platformdirs.user_cache_dir("tl_dpnp-tests", appauthor=False), f"sycl-{kind}")
        os.environ.update(SYCL_CACHE_PERSISTENT="1", SYCL_CACHE_DIR=str(folder))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the long tests: at the end one of them would keep one process busy, and no other."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture(scope="session", autouse=True)
def _interrupts() -> None:
    """Let Ctrl-C interrupt: what is started in the background by a shell ignores it, and so do its processes."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return a function that compares a text with the file of a name in ``golden/`` beside the test."""
    folder = Path(str(request.path)).parent / "golden"

    def compare(name: str, text: str) -> None:
        path = folder / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path.name} is missing; write it with --update-golden and read it"
        assert text == path.read_text(encoding="utf-8")

    return compare
