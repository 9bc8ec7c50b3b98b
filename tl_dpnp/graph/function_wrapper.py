"""What is called in the place of a Python function of the user's, so that its operations run as kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["FunctionWrapper"]


class FunctionWrapper:
    """What stands for `function`, which a trace follows where it meets this in code."""

    function: Callable[..., Any]
