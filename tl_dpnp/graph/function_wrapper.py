"""What is called in the place of a Python function of the user's, so that its operations run as kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

__all__ = ["FunctionWrapper"]


class FunctionWrapper:
    """What stands for `function`, which a trace follows where it meets this in code.

    Attributes that it has none of are those of `function`, so that what a program finds there is the same with and
    without it; code and defaults are assigned there.
    """

    function: Callable[..., Any]

    if not TYPE_CHECKING:  # type checkers would take any name for an attribute

        def __getattr__(self, name: str) -> Any:
            if name == "function":  # it is not there yet
                raise AttributeError(name)
            return getattr(self.function, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OF_THE_FUNCTION:
            setattr(self.function, name, value)
        else:
            object.__setattr__(self, name, value)


#: What the calls of a function depend on, and who assigns it means the function.
_OF_THE_FUNCTION = frozenset(("__code__", "__defaults__", "__kwdefaults__"))
