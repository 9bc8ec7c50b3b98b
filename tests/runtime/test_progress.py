"""Progress is shown on terminals only, and leaves nothing behind there."""

import io
import sys
import threading

import pytest

from tl_dpnp.runtime import progress


class Terminal(io.StringIO):
    """A terminal that says when something has been written."""

    def __init__(self):
        super().__init__()
        self.has_text = threading.Event()

    def isatty(self):
        return True

    def write(self, text):
        super().write(text)
        self.has_text.set()
        return len(text)


def _terminal(monkeypatch, patience=0.0):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "_PATIENCE", patience)
    return stream


def test_a_long_compilation_shows_a_line_and_erases_it(monkeypatch):
    terminal = _terminal(monkeypatch)
    compiling = progress.Compiling("compiling step")
    compiling.done = 3
    with compiling.step():
        assert terminal.has_text.wait(60)
    lines = terminal.getvalue().split("\r\x1b[K")
    assert lines[1] == "compiling step: 0 s, 3 done"
    assert lines[-1] == ""
    assert compiling.seconds > 0


def test_an_error_erases_the_line_too(monkeypatch):
    terminal = _terminal(monkeypatch)
    with pytest.raises(KeyError), progress.Compiling("compiling step").step():  # noqa: PT012  # it has to be shown first
        assert terminal.has_text.wait(60)
        raise KeyError
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_a_line_is_no_wider_than_the_terminal(monkeypatch):
    terminal = _terminal(monkeypatch)
    monkeypatch.setenv("COLUMNS", "30")
    with progress.Compiling("compiling " + "x" * 100).step():
        assert terminal.has_text.wait(60)
    assert max(map(len, terminal.getvalue().split("\r\x1b[K"))) == 29


def test_a_short_compilation_shows_nothing(monkeypatch):
    terminal = _terminal(monkeypatch, 3600.0)
    with progress.Compiling("compiling step").step():
        pass
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("stream", [io.StringIO(), None, object()])
def test_what_is_no_terminal_gets_nothing(stream, monkeypatch):
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setattr(sys, "stderr", stream)
    started = threading.active_count()
    with progress.Compiling("compiling step").step():
        assert threading.active_count() == started
    with progress.progress_bar("tuning", 1.0, True) as watch:
        watch("something")
    assert stream is None or not hasattr(stream, "getvalue") or stream.getvalue() == ""


def test_a_bar_is_shown_where_it_is_wanted(monkeypatch):
    terminal = _terminal(monkeypatch, 3600.0)
    with progress.progress_bar("tuning @f", 1.0, False) as watch:
        watch("first")
    assert terminal.getvalue() == ""
    with progress.progress_bar("tuning @f", 1.0, True) as watch:
        watch("first")
    assert "tuning @f" in terminal.getvalue()
