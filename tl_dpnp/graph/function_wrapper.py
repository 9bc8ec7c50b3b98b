"""What is called in the place of a Python function of the user's, so that its operations run as kernels."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

__all__ = ["FunctionWrapper"]


class FunctionWrapper:
    """What stands for `function`, which a trace follows where it meets this in code.

    Attributes that it has none of are those of `function`, so that what a program finds there is the same with and
    without it; code and defaults are assigned there.
    """

    function: Callable[..., Any]
    #: Returns what stands for a function with the same options; it pickles.
    like: Callable[[Any], Any]

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

    def __reduce__(self) -> Any:
        """Pickle by name where that finds this object, else by the function and the options."""
        name = getattr(self.function, "__qualname__", "")
        found: Any = sys.modules.get(getattr(self.function, "__module__", None) or "")
        for part in name.split("."):
            found = getattr(found, part, None)
        return name if found is self else (self.like, (self.function,))

    def __copy__(self) -> Any:
        return self  # as functions are copied

    def __deepcopy__(self, memo: Any) -> Any:
        """Return this object for a function, and what stands for the copy of a callable object that has a state."""
        function = copy.deepcopy(self.function, memo)
        return self if function is self.function else self.like(function)


#: What the calls of a function depend on, and who assigns it means the function.
_OF_THE_FUNCTION = frozenset(("__code__", "__defaults__", "__kwdefaults__"))
