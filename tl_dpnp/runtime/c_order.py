"""Kernels for arrays in C order: what `tl_dpnp.rev` does to each array, without the cost of its views.

An array and its reversed view have the same address, and sizes and strides that determine one another.  So a launch
with the views is one with the arrays, and what checks and starts repeated calls can look at the arrays themselves.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tl_dpnp.errors import LayoutError
from tl_dpnp.language.extents import LaunchSize
from tl_dpnp.language.types import GroupType, MemrefType
from tl_dpnp.runtime.call.arrays import rev
from tl_dpnp.runtime.call.group import Group
from tl_dpnp.runtime.call.signature import CallSignature
from tl_dpnp.runtime.recording import current as current_recording
from tl_dpnp.runtime.watching import MACHINE_CODE, door

if TYPE_CHECKING:
    from tl_dpnp.runtime.kernel import Kernel

__all__ = ["InCOrder"]


class InCOrder:
    """A kernel for arrays whose axis i, of n, is mode n - 1 - i; made by `Kernel.in_c_order`.

    `direct` returns the functions for repeated calls with a number of work-groups, which look at the arrays as they are
    given; it is None where those of the kernel look at the reversed ones.  `run` runs a call with reversed arrays that
    none of them took.

    Errors and warnings speak of the arrays as `tl_dpnp.rev` returns them, hints of those that are passed.
    """

    def __init__(
        self, kernel: Kernel, signature: CallSignature,
        direct: Callable[[LaunchSize], Any] | None,
        run: Callable[[tuple[Any, ...], tuple[Any, ...], LaunchSize], None] | None,
    ) -> None:
        self._kernel, self._direct, self._run = kernel, direct, run
        self._signature = signature
        self._turned: weakref.WeakKeyDictionary[Group, Group] = weakref.WeakKeyDictionary()
        self._positions = [position for position, parameter in enumerate(kernel.parameters)
                           if isinstance(parameter.type, MemrefType | GroupType)]

    def __repr__(self) -> str:
        return f"{self._kernel!r} in C order"

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self._kernel, "in_c_order")

    def __call__(self, /, *arguments: Any, group_size: LaunchSize = None, **named: Any) -> None:
        """Run the kernel as a call of it does, with the reverse of each array and of the arrays in groups.

        Raises what a call of the kernel raises, and `TLTypeError` for what `tl_dpnp.rev` does not take.
        """
        direct = self._direct
        if direct is None or self._run is None or current_recording() is not None:
            with _advice_in_c_order():
                self._kernel(*self._reversed(arguments, named), group_size=group_size)
            return
        if not named:
            for function in direct(group_size).functions:
                if function(arguments):
                    return
        given = self._signature.arranged(arguments, named)
        with _advice_in_c_order():
            self._run(self._reversed(given, {}), given, group_size)

    def submit(self, /, *arguments: Any, group_size: LaunchSize = None, depends: Any = (), **named: Any) -> Any:
        """Start the kernel as `Kernel.submit` does, with the reverse of each array and of the arrays in groups."""
        with _advice_in_c_order():
            return self._kernel.submit(*self._reversed(arguments, named), group_size=group_size, depends=depends)

    def _reversed(self, given: Sequence[Any], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the arguments, in order and complete, with the reverse of each array."""
        arguments = list(self._signature.arranged(tuple(given), named))
        for position in self._positions:
            argument = arguments[position]
            if argument is not None:  # which the kernel takes or refuses
                arguments[position] = self._reversed_group(argument) if isinstance(argument, Group) else rev(argument)
        return tuple(arguments)

    def _reversed_group(self, group: Group) -> Group:
        """Return the group of the reversed arrays of a group, the same one each time."""
        if group not in self._turned:
            self._turned[group] = Group(rev(group.arrays), group.kind, group.offset)
        return self._turned[group]


@contextlib.contextmanager
def _advice_in_c_order() -> Iterator[None]:
    """Have the hint of an array that does not fit speak of the array, and not of its reverse."""
    try:
        yield
    except LayoutError as error:
        from tl_dpnp.runtime.call.layout_advice import hint_in_c_order  # which looks at instructions

        raise type(error).from_diagnostics([
            replace(diagnostic, hint=diagnostic.hint and hint_in_c_order(diagnostic.hint))
            for diagnostic in error.diagnostics
        ]) from None


door(InCOrder, "__call__", lambda ordered: (f"@{ordered._kernel.name} in C order", MACHINE_CODE, {}))
