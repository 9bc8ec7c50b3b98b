"""Classes that are imported when a device or a program is for them."""

from __future__ import annotations

import functools
import importlib
from typing import Any

__all__ = ["class_at"]


@functools.cache
def class_at(folder: str, home: str) -> type[Any]:
    """Return a class, such as ``persistent.staging.Persistent``, by its module in a folder of this package."""
    module, _, name = home.rpartition(".")
    found: type[Any] = getattr(importlib.import_module(f"{__package__}.{folder}.{module}"), name)
    return found
