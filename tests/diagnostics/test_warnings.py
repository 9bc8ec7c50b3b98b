"""Warnings point at the line that called into the package, wherever that was written."""

from __future__ import annotations

from importlib.machinery import BuiltinImporter

import pytest

from tl_dpnp import errors


@pytest.mark.parametrize("loader", [None, BuiltinImporter], ids=["without a loader", "typed in"])
def test_a_warning_names_the_line_that_called(loader: object) -> None:
    """What is typed in, or given with -c, has a loader that knows no sources."""
    names = {"__name__": "__main__", "__loader__": loader, "warn": errors.warn, "Kind": errors.CacheWarning}
    code = compile("\n\ndef call():\n    warn('it is full', Kind)\n", "<a program>", "exec")
    exec(code, names)
    with pytest.warns(errors.CacheWarning, match="it is full") as caught:
        names["call"]()  # type: ignore[operator]
    assert [(warning.filename, warning.lineno) for warning in caught] == [("<a program>", 4)]
