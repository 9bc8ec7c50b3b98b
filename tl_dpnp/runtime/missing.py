"""What needs packages of the SYCL targets where they are not installed: in an environment for CUDA, say.

Its names can be imported all the same; the error comes where they are used, and says what to install.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

from tl_dpnp.errors import UnsupportedError
from tl_dpnp.runtime.fresh_stack import import_whole

__all__ = ["needed", "stand_in"]

_PACKAGES = ("dpnp", "dpctl", "numba_dpex", "cupy")


def needed(module: str, by: str) -> ModuleType:
    """Return a module that something cannot do without; raises `UnsupportedError` where its packages are missing."""
    try:
        return import_whole(module)
    except ModuleNotFoundError as error:
        raise UnsupportedError(_words(by, error)) from None


def stand_in(name: str, missing: ModuleNotFoundError) -> Callable[..., NoReturn]:
    """Return a function that raises `UnsupportedError`, in place of one whose import has failed."""
    words = _words(name, missing)

    def function(*_arguments: Any, **_named: Any) -> NoReturn:
        raise UnsupportedError(words)

    function.__name__ = function.__qualname__ = name.rpartition(".")[2]
    function.__doc__ = words
    return function


def _words(by: str, missing: ModuleNotFoundError) -> str:
    """Return what to do about a package that is missing; raises the error for any other."""
    package = (missing.name or "").partition(".")[0]
    if package not in _PACKAGES:
        raise missing
    if package == "cupy":  # what takes its arrays where there is no dpnp
        package = "dpnp or cupy"
    return (f"{by} needs {package}, which is not installed here: `pip install .` in the source of tl_dpnp, in an "
            "environment without numba-cuda, installs dpnp, dpctl and numba-dpex; docs/installing.md says more. "
            'target="cuda" needs none of them')
