"""What fused functions log: to the loggers ``tl_dpnp.breaks`` and ``tl_dpnp.recompiles``, at the level INFO.

No handler is installed.  The setting ``TL_DPNP_LOGS`` prints the same on standard error, whatever `logging` does.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable

from tl_dpnp import config

__all__ = ["check_setting", "is_wanted", "log"]

_LOGGERS = {name: logging.getLogger(f"tl_dpnp.{name}") for name in config.LOGS}


def check_setting() -> None:
    """Raise `TLError` if ``TL_DPNP_LOGS`` names a log that there is not."""
    config.get("LOGS")


def is_wanted(name: str) -> bool:
    """Return whether somebody reads a log."""
    return name in config.get("LOGS") or _LOGGERS[name].isEnabledFor(logging.INFO)


def log(name: str, lines: Iterable[str]) -> None:
    """Write lines to a log, each a record of its own."""
    printed = name in config.get("LOGS")
    logger = _LOGGERS[name]
    for line in lines:
        logger.info("%s", line)
        if printed and sys.stderr is not None:
            print(f"{logger.name}: {line}", file=sys.stderr)
