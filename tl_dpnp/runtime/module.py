"""Modules: the kernels of one source text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from tl_dpnp.errors import TLTypeError, nearest
from tl_dpnp.runtime.kernel import Kernel

__all__ = ["Module"]


class Module(Mapping[str, Kernel]):
    """The kernels of a source text with several functions, by name and in order.

    Made by `tl_dpnp.compile`.  ``module["gemm"]`` and ``module.gemm`` are the same, but a function that is called like
    a method of mappings, as ``keys``, is reached only by the former.
    """

    def __init__(self, kernels: Mapping[str, Kernel]) -> None:
        self._kernels = dict(kernels)

    def __getitem__(self, name: str) -> Kernel:
        try:
            return self._kernels[name]
        except KeyError:
            raise KeyError(self._no_such(name)) from None

    def __call__(self, *arguments: Any, **named: Any) -> NoReturn:
        """Raise `TLTypeError`: which of the functions is meant?"""
        raise TLTypeError(f"a module is not called, but one of its {len(self)} functions: "
                          f"{', '.join(self)}; write module[{next(iter(self))!r}](...), or give the name to compile: "
                          f"tl_dpnp.compile(source, name={next(iter(self))!r})")

    def __getattr__(self, name: str) -> Kernel:
        # Private names are asked for while a copy is made, before there are kernels.
        if name.startswith("_") or name not in self._kernels:
            raise AttributeError(self._no_such(name) if not name.startswith("_") else name)
        return self._kernels[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._kernels]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return f"<tl_dpnp.Module of {', '.join(f'@{name}' for name in self)}>"

    def __reduce__(self) -> tuple[type[Module], tuple[dict[str, Kernel]]]:
        return Module, (self._kernels,)

    def _no_such(self, name: object) -> str:
        near = nearest(str(name).removeprefix("@"), self._kernels)
        return (f"the module has no function {name!r}; it has {', '.join(self._kernels)}"
                + (f": did you mean {near}?" if near else ""))
