"""Logs: each topic of `config.LOGS` goes to the logger ``tl_dpnp.`` and its name, at the level that stands there.

No handler is installed.  The setting ``TL_DPNP_LOGS`` prints the same on standard error, whatever `logging` does.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterable

from tl_dpnp import config

__all__ = ["check_setting", "is_wanted", "log"]

_LOGGERS = {name: logging.getLogger(f"tl_dpnp.{name}") for name in config.LOGS}
_LEVELS: dict[str, int] = {name: getattr(logging, log.level) for name, log in config.LOGS.items()}


def check_setting() -> None:
    """Raise `TLError` if ``TL_DPNP_LOGS`` names a log that there is not."""
    config.get("LOGS")


def is_wanted(name: str) -> bool:
    """Return whether somebody reads a log."""
    return name in config.get("LOGS") or _LOGGERS[name].isEnabledFor(_LEVELS[name])


def log(name: str, lines: Iterable[str]) -> None:
    """Write lines to a log, each a record of its own."""
    printed = name in config.get("LOGS")
    logger, level = _LOGGERS[name], _LEVELS[name]
    for line in lines:
        logger.log(level, "%s", line)
        if printed and sys.stderr is not None:
            with contextlib.suppress(OSError, ValueError):  # it is closed, or nobody reads it: the program goes on
                print(f"{logger.name}: {line}", file=sys.stderr)
