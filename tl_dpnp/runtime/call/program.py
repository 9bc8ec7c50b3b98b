"""One function of a source text, with what the runtime has to know about it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tl_dpnp.errors import Diagnostic, Span, TLBindingError, TLError
from tl_dpnp.language.ir import NO_SPAN, Function, Value
from tl_dpnp.runtime.call.interface import BatchMode, Interface, Usage
from tl_dpnp.runtime.call.relations import Shapes
from tl_dpnp.runtime.call.signature import CallSignature
from tl_dpnp.scalars import INDEX

__all__ = ["Program"]


class Program:
    """A function and the text that it was parsed from, None for one that was built.

    `defined` are the compile-time variables that the text was given, each with its value as text.  All else is derived,
    so this is also what a pickled kernel consists of.  Where the `interface` is known already, `function` may be what
    reads the function, which calls of a kernel from the disk cache do without.
    """

    def __init__(
        self, function: Function | Callable[[], Function], text: str | None = None,
        defined: tuple[tuple[str, str], ...] = (), interface: Interface | None = None,
    ) -> None:
        self.text, self.defined = text, defined
        self._function, self._interface = function, interface

    def __reduce__(self) -> tuple[Any, ...]:
        return Program, (self.function, self.text, self.defined)

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

    def group_count(self, shapes: Shapes, given: int | None) -> int:
        """Return the number of work-groups of a launch (docs/calling.md).

        `given` is what the caller asked for, or None.  Raises `TLBindingError` if the batch modes do not agree, if
        nothing says how many there are, or if `given` is negative or reaches beyond a batch mode that every
        work-group indexes.
        """
        name = f"@{self.name}"
        sizes = [(mode.size(shapes), mode) for mode in self.usage.batch_modes]
        if given is not None:
            if given < 0:
                raise self.error(TLBindingError, f"group_size={given}: the number of work-groups cannot be negative")
            if given > INDEX.maximum:
                raise self.error(TLBindingError, f"group_size={given}: the number of work-groups must fit 64 bits")
            for size, mode in sizes:
                if size < given and not mode.conditional:
                    message = (f"group_size={given} is too large for {name}: {self._batch_mode(mode, size)}, and every "
                               "work-group indexes it by group_id")
                    raise self.error(TLBindingError, message, f"give at most group_size={size}", mode.span)
            return given
        if len({size for size, _ in sizes}) > 1:
            texts = dict.fromkeys(self._batch_mode(mode, size) for size, mode in sizes)
            raise self.error(
                TLBindingError,
                f"the number of work-groups of {name} is ambiguous: {', '.join(texts)}",
                "give arrays of equal batch sizes, or the number of work-groups by hand: group_size=n",
            )
        if sizes:
            return sizes[0][0]
        if self.usage.uses_group_id:
            raise self.error(
                TLBindingError,
                f"the number of work-groups of {name} cannot be inferred: no group and no mode of a parameter is "
                "indexed by group_id itself",
                "give it by hand: group_size=n",
            )
        return 1

    def check_relations(self, shapes: Shapes, groups: int) -> None:
        """Raise `TLBindingError` if sizes that an instruction requires to be equal are not."""
        for relation in self.usage.relations if groups else ():
            violation = relation.violation(shapes, groups)
            if violation is not None:
                raise self.error(TLBindingError, violation, "pass arrays of fitting shapes", relation.span)

    def _batch_mode(self, mode: BatchMode, size: int) -> str:
        parameter = self.parameters[mode.parameter]
        return f"{parameter} has {size} elements" if mode.mode is None else \
            f"mode {mode.mode} of {parameter} has size {size}"
