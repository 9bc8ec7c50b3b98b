"""One function of a source text, with what the runtime has to know about it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Set
from dataclasses import astuple, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

from tl_dpnp.errors import Diagnostic, Span, TLBindingError, TLError, TLTypeError
from tl_dpnp.language.extents import AXES, Extents
from tl_dpnp.language.ir import NO_SPAN, Function, Value
from tl_dpnp.runtime.call.interface import BatchMode, Interface, Usage
from tl_dpnp.runtime.call.relations import Shapes
from tl_dpnp.runtime.call.signature import CallSignature
from tl_dpnp.scalars import INDEX

if TYPE_CHECKING:
    from tl_dpnp.lowering.raising.cover import Cover

__all__ = ["Program"]


class Program:
    """A function and the text that it was parsed from, None for one that was built.

    `defined` are the compile-time variables that the text was given, each with its value as text.  All else is derived,
    so this is also what a pickled kernel consists of.  Where the `interface` is known already, `function` may be what
    reads the function, which calls of a kernel from the disk cache do without.  With `takes_extents`, the last
    parameters are the extents of the launch.
    """

    def __init__(
        self, function: Function | Callable[[], Function], text: str | None = None,
        defined: tuple[tuple[str, str], ...] = (), interface: Interface | None = None, takes_extents: bool = False,
    ) -> None:
        self.text, self.defined, self.takes_extents = text, defined, takes_extents
        self._function, self._interface = function, interface

    def __reduce__(self) -> tuple[Any, ...]:
        return Program, (self.function, self.text, self.defined, None, self.takes_extents)

    @functools.cached_property
    def function(self) -> Function:
        """The function whole, as the compiler takes it."""
        return self._function if isinstance(self._function, Function) else self._function()

    @functools.cached_property
    def interface(self) -> Interface:
        """What calls have to know of the function."""
        if self._interface is not None:
            return self._interface
        from tl_dpnp.runtime.call.usage import interface_of  # brings all instructions

        return interface_of(self.function)

    @property
    def printed(self) -> str:
        """The function as text of the language."""
        from tl_dpnp.language.printer import print_function  # as above

        return print_function(self.function)

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.interface.name

    @property
    def parameters(self) -> tuple[Value, ...]:
        """The parameters of the function."""
        return self.interface.parameters

    @property
    def usage(self) -> Usage:
        """What the function does with its parameters."""
        return self.interface.usage

    @property
    def identity(self) -> dict[str, Any]:
        """All that tells this function from others, as data for a key."""
        return {
            "source": self.printed if self.text is None else self.text,
            "defined": self.defined,
            "function": self.name,
            # Those of a specialization are not the text's.
            "parameters": [f"{parameter}: {parameter.type}" for parameter in self.parameters],
        }

    @property
    def places(self) -> Any:
        """Where the operations of the function stand, as data for a key; those in a text follow from its file's name.
        """
        if self.text is not None:
            return self.interface.span.file
        return [astuple(operation.span) for operation in self.function.body.walk()]

    @functools.cached_property
    def along_one_axis(self) -> Program:
        """The program that devices run where a launch has several axes: its last parameters are the extents."""
        from tl_dpnp.lowering.grid import along_one_axis  # brings all instructions

        return Program(lambda: along_one_axis(self.function), self.text, self.defined, takes_extents=True)

    @functools.cached_property
    def cover(self) -> Cover:
        """What calls make of the product that the function was raised to."""
        from tl_dpnp.lowering.raising.cover import Cover  # which few programs need

        return Cover(self.function, self.takes_extents)

    def without(self, absent: Set[str]) -> Program:
        """Return the program of calls that give None for some parameters, and arrays for all others; it lacks these."""
        from tl_dpnp.lowering.presence import without  # as above

        return Program(lambda: without(self.function, absent), self.text, self.defined)

    @functools.cached_property
    def signature(self) -> CallSignature:
        """How the function is called from Python."""
        return CallSignature(self)

    def error(self, kind: type[TLError], message: str, hint: str | None = None, span: Span | None = None) -> TLError:
        """Return an error of class `kind` that points at `span`, by default at the function."""
        span = span or self.interface.span
        if span == NO_SPAN:
            return kind.from_diagnostics([Diagnostic(message, None, hint)])
        return kind.from_diagnostics([Diagnostic(message, span, hint, self._source_line(span))])

    def with_source_lines(self, error: TLError) -> TLError:
        """Return an error of the compiler, which knows the places but not the text, with the lines it points at."""
        return type(error)(error.message, [
            found if found.span is None or found.source_line is not None
            else replace(found, source_line=self._source_line(found.span))
            for found in error.diagnostics
        ])

    def _source_line(self, span: Span) -> str | None:
        lines = [] if self.text is None else self.text.splitlines()
        return lines[span.line - 1] if 0 < span.line <= len(lines) else None

    def extents(self, shapes: Shapes, given: Any) -> Extents:
        """Return the numbers of work-groups of a launch along x, y and z (docs/calling.md).

        `given` is what the caller asked for: a number along x, three numbers, or None.  Raises `TLTypeError` for
        anything else, and `TLBindingError` if the batch modes along an axis do not agree, if nothing says how many
        work-groups there are, or if a number is negative or reaches beyond a batch mode that all work-groups index.
        """
        numbers = _given_extents(given)
        x, y, z = (self._extent(axis, number, shapes, given) for axis, number in zip(AXES, numbers, strict=True))
        if x * y * z > INDEX.maximum:
            raise self.error(TLBindingError, f"{x} x {y} x {z} work-groups: their number must fit 64 bits")
        return x, y, z

    def _extent(self, axis: str, number: int | None, shapes: Shapes, given: Any) -> int:
        """Return the number of work-groups along an axis, where `number` is the caller's, or None."""
        name, asks = f"@{self.name}", "group_id" if axis == AXES[0] else f"group_id.{axis}"
        along = "" if axis == AXES[0] else f" along {axis}"
        by_hand = "group_size=(x, y, z)" if self.usage.has_axes else "group_size=n"
        sizes = [(mode.size(shapes), mode) for mode in self.usage.batch_modes if mode.axis == axis]
        if number is not None:
            if number < 0:
                raise self.error(TLBindingError, f"group_size={given}: the number of work-groups cannot be negative")
            if number > INDEX.maximum:
                raise self.error(TLBindingError, f"group_size={given}: the number of work-groups must fit 64 bits")
            for size, mode in sizes:
                if size < number and not mode.conditional:
                    message = (f"group_size={given} is too large for {name}: {self._batch_mode(mode, size)}, and every "
                               f"work-group indexes it by {asks}")
                    most = f"group_size={size}" if isinstance(given, int) else f"{size} along {axis}"
                    raise self.error(TLBindingError, message, f"give at most {most}", mode.span)
            return number
        if len({size for size, _ in sizes}) > 1:
            texts = dict.fromkeys(self._batch_mode(mode, size) for size, mode in sizes)
            raise self.error(
                TLBindingError,
                f"the number of work-groups of {name}{along} is ambiguous: {', '.join(texts)}",
                f"give arrays of equal batch sizes, or the number of work-groups by hand: {by_hand}",
            )
        if sizes:
            return sizes[0][0]
        if axis in self.usage.indexing_axes:
            raise self.error(
                TLBindingError,
                f"the number of work-groups of {name}{along} cannot be inferred: no group and no mode of a parameter "
                f"is indexed by {asks} itself",
                f"give it by hand: {by_hand}",
            )
        return 1

    def check_relations(self, shapes: Shapes, extents: Extents) -> None:
        """Raise `TLBindingError` if sizes that an instruction requires to be equal are not."""
        for relation in self.usage.relations if all(extents) else ():
            violation = relation.violation(shapes, extents)
            if violation is not None:
                raise self.error(TLBindingError, violation, "pass arrays of fitting shapes", relation.span)

    def _batch_mode(self, mode: BatchMode, size: int) -> str:
        parameter = self.parameters[mode.parameter]
        return f"{parameter} has {size} elements" if mode.mode is None else \
            f"mode {mode.mode} of {parameter} has size {size}"


def _given_extents(given: Any) -> tuple[int | None, int | None, int | None]:
    """Return what ``group_size=`` says of each axis; raises `TLTypeError` where it is neither a number nor three."""
    match given:
        case None:
            return None, None, None
        case (x, y, z) if all(map(_is_number, (x, y, z))):
            return int(x), int(y), int(z)
        case _ if _is_number(given):
            return int(given), None, None
    raise TLTypeError("group_size= takes the number of work-groups, an int, or three along x, y and z, not "
                      f"{given!r}{_three(given)}")


def _three(given: Any) -> str:
    """Return the three numbers that were meant by others, an array, or floats that are whole, to be written instead."""
    try:
        numbers = [int(number) for number in given if int(number) == number]
        meant = (*numbers, 1, 1)[:3] if len(numbers) == len(given) <= 3 else None
    except (TypeError, ValueError, OverflowError):
        meant = None
    return f": write group_size={meant}" if meant else ""


def _is_number(given: Any) -> bool:
    return isinstance(given, Integral) and not isinstance(given, bool)
