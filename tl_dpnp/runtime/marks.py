"""Marks for other profilers: ITT, which Intel VTune shows, and NVTX, which NVIDIA Nsight Systems shows.

Both packages reach the profiler themselves, through a library that it names in the environment; where none listens, a
mark costs next to nothing.  Sources: the documentations of the packages ``ittapi`` and ``nvtx``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from tl_dpnp.errors import TLTypeError, UnsupportedError, nearest
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.watching import Observer, Span

__all__ = ["MARKS", "marks_named"]

#: The domain that profilers show the marks in.
_DOMAIN = "tl_dpnp"


@dataclass(frozen=True)
class _Marks:
    """Tells each span to functions of a package; the ranges of a thread nest, as spans do."""

    push: Callable[[str], Any]
    pop: Callable[[], Any]

    def begin(self, span: Span, /) -> None:
        self.push(span.name)

    def end(self, span: Span, /) -> None:
        self.pop()


def _itt(ittapi: Any) -> _Marks:
    domain = ittapi.domain(_DOMAIN)
    return _Marks(lambda name: ittapi.task_begin(domain, ittapi.string_handle(name)), lambda: ittapi.task_end(domain))


def _nvtx(nvtx: Any) -> _Marks:
    return _Marks(lambda name: nvtx.push_range(name, domain=_DOMAIN), lambda: nvtx.pop_range(domain=_DOMAIN))


#: The kinds of marks: the package that makes them, and what makes an observer of it.
MARKS: dict[str, tuple[str, Callable[[Any], _Marks]]] = {"itt": ("ittapi", _itt), "nvtx": ("nvtx", _nvtx)}


def marks_named(names: str | tuple[str, ...]) -> list[Observer]:
    """Return observers that make marks of some kinds.

    Raises `TLTypeError` for kinds that there are not, and `UnsupportedError` where a package is missing.
    """
    if not isinstance(names, str | tuple | list):
        raise TLTypeError(f"marks= takes {' or '.join(map(repr, MARKS))}, or a tuple of them, not {names!r}")
    found: list[Observer] = []
    for name in dict.fromkeys((names,) if isinstance(names, str) else map(str, names)):
        if name not in MARKS:
            near = nearest(str(name), MARKS)
            raise TLTypeError(f"marks={names!r} is not understood: there are {' and '.join(map(repr, MARKS))}"
                              + (f"; did you mean {near!r}?" if near else ""))
        package, make = MARKS[name]
        try:
            module = importlib.import_module(package)
        except ModuleNotFoundError as error:
            if error.name != package:
                raise
            raise UnsupportedError(f"marks={name!r} needs the package {package}, which is not installed: "
                                   f"pip install {package}") from None
        found.append(make(module))
    return found
