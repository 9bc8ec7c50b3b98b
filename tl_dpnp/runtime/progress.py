"""Progress on a terminal: shown on standard error while something takes long, and never in a file or a pipe."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["Compiling", "progress_bar"]

#: Seconds after which a compilation is worth a line, and between two looks of that line.
_PATIENCE, _INTERVAL = 1.0, 1.0
_ERASE = "\r\x1b[K"


def _terminal() -> Any:
    """Return standard error if it is a terminal, else None."""
    stream = sys.stderr
    try:
        return stream if stream is not None and stream.isatty() else None
    except (AttributeError, ValueError):  # something that is no file, or a closed one
        return None


@contextmanager
def progress_bar(label: str, budget: float, wanted: bool) -> Iterator[Callable[[str], None]]:
    """Show a bar for the part of `budget` seconds that has passed; yields what updates it."""
    stream = _terminal() if wanted else None
    if stream is None:
        yield lambda text: None
        return
    import click

    start, length = time.perf_counter(), 1000
    with click.progressbar(
        length=length, label=label, file=stream, show_eta=False, item_show_func=lambda text: text
    ) as bar:
        def watch(text: str) -> None:
            passed = min(length, int(length * (time.perf_counter() - start) / budget))
            bar.update(max(0, passed - bar.pos), text)

        yield watch
        bar.update(length - bar.pos, "")


class Compiling:
    """Several compilations for one purpose, and a line that says so once they have taken more than a second.

    Between them the line is erased: what runs there may print.  `seconds` is the time that they took, `done` how many
    kernels they made.
    """

    def __init__(self, label: str) -> None:
        self.label = label
        self.seconds = 0.0
        self.done = 0

    @contextmanager
    def step(self) -> Iterator[None]:
        """Take the time of what is done inside, and show the line."""
        start = time.perf_counter()
        stream = _terminal()
        try:
            if stream is None:
                yield
            else:
                with self._shown(stream, start):
                    yield
        finally:
            self.seconds += time.perf_counter() - start

    @contextmanager
    def _shown(self, stream: Any, start: float) -> Iterator[None]:
        finished = threading.Event()
        line = threading.Thread(target=self._show, args=(stream, start, finished), daemon=True)
        line.start()
        try:
            yield
        finally:
            finished.set()
            line.join()

    def _show(self, stream: Any, start: float, finished: threading.Event) -> None:
        shown = False
        wait = max(0.0, _PATIENCE - self.seconds)
        while not finished.wait(wait):
            passed = self.seconds + time.perf_counter() - start
            done = f", {self.done} done" if self.done else ""
            text = f"{self.label}: {passed:.0f} s{done}"
            stream.write(f"{_ERASE}{text[: shutil.get_terminal_size().columns - 1]}")
            stream.flush()
            shown, wait = True, _INTERVAL
        if shown:
            stream.write(_ERASE)
            stream.flush()
