"""How a kernel is called from Python: the names of its arguments, their defaults, and what it says of itself.

Errors have the words of CPython for functions (Python language reference, section "Calls").
"""

from __future__ import annotations

import functools
import inspect
import keyword
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from tl_dpnp.errors import Span, TLTypeError, nearest
from tl_dpnp.language.ir import Value
from tl_dpnp.language.types import GroupType, MemrefType, Type
from tl_dpnp.scalars import ScalarType

if TYPE_CHECKING:
    from tl_dpnp.runtime.call.program import Program

__all__ = ["CallSignature", "free_names", "python_names"]

#: Keywords of `Kernel.__call__`, `Kernel.submit` and `Kernel.tune` that are no parameters of the program.
_OPTIONS = ("group_size", "depends", "budget", "progress")


def python_names(parameters: Iterable[Value]) -> tuple[str, ...]:
    """Return the keywords that stand for parameters: their names, changed where Python or an option has the name."""
    return free_names(parameters, {*keyword.kwlist, *_OPTIONS})


def free_names(parameters: Iterable[Value], reserved: Collection[str]) -> tuple[str, ...]:
    """Return names for parameters that are identifiers, and not reserved.

    A number gets ``_`` in front of it, a reserved word ``_`` behind it, and one more where another parameter has that
    name (PEP 8, section "Descriptive: Naming Styles").
    """
    names = [parameter.name for parameter in parameters]
    taken = set(names)
    found: list[str] = []
    for name in names:
        free = f"_{name}" if name[:1].isdigit() else name
        if free in reserved:
            free += "_"
            while free in taken:
                free += "_"
        taken.add(free)
        found.append(free)
    return tuple(found)


class CallSignature:
    """The arguments of a program by position and by name; `names` are the keywords of its parameters, in order."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.names = python_names(program.parameters)
        positions = {parameter.name: position for position, parameter in enumerate(program.parameters)}
        self._defaults = {self.names[positions[name]]: value for name, value in program.interface.defaults}

    # --- calls -----------------------------------------------------------------------------------------------------

    def arranged(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the arguments in order, defaults included; the very same ones where they are complete as they are.

        Raises `TLTypeError`, in Python's words, for arguments that are missing, too many, given twice or unknown.
        """
        missing = self.names[len(arguments):]
        if not named and not missing and len(arguments) == len(self.names):
            return arguments
        given = {**self._defaults, **named}
        complete = *arguments, *[given[name] for name in missing if name in given]
        if len(complete) != len(self.names) or not named.keys() <= set(missing):
            self._refuse(arguments, named)
        return complete

    def _refuse(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> NoReturn:
        """Raise for the first thing that is wrong, in the order in which Python looks."""
        call = f"{self._program.name}()"
        count = len(arguments)
        for name in named:
            if name in self.names[:count]:
                raise self._error(f"{call} got multiple values for argument {name!r}", self.names.index(name),
                                  f"it is argument {self.names.index(name) + 1}: give it by position or by name")
            if name not in self.names:
                near = nearest(name, (*self.names, *_OPTIONS[:1]))
                raise self._error(f"{call} got an unexpected keyword argument {name!r}", None,
                                  f"did you mean {near}?" if near else None)
        most = len(self.names)
        least = most - len(self._defaults)
        if count > most:
            takes = f"from {least} to {most} positional arguments" if least < most else (
                f"{most} positional argument{'s' * (most != 1)}")
            raise self._error(f"{call} takes {takes} but {count} {'was' if count == 1 else 'were'} given")
        missing = [name for name in self.names[count:] if name not in named and name not in self._defaults]
        listed = _listed([repr(name) for name in missing])
        raise self._error(f"{call} missing {len(missing)} required positional argument{'s' * (len(missing) != 1)}: "
                          f"{listed}", self.names.index(missing[0]))

    def _error(self, message: str, position: int | None = None, hint: str | None = None) -> Exception:
        parameters = self._program.parameters
        span: Span | None = None if position is None else parameters[position].span
        return self._program.error(TLTypeError, message, hint or f"the signature is {self.text}", span)

    # --- what Python and people are told ---------------------------------------------------------------------------

    @functools.cached_property
    def text(self) -> str:
        """The signature with the types of the language."""
        parameters = self._program.parameters
        parts = [
            f"{name}: {parameter.type}" + (f" = {self._defaults[name]!r}" if name in self._defaults else "")
            for name, parameter in zip(self.names, parameters, strict=True)
        ]
        return f"{self._program.name}({', '.join([*parts, '*', 'group_size=None'])})"

    @functools.cached_property
    def python(self) -> inspect.Signature:
        """The signature as `inspect` has it; annotations are the types of the language, as text.

        Python has no way to write a parameter without a default behind one that has one, but by keyword only: there
        such parameters are shown as these, and a call may give them by position all the same.
        """
        found: list[inspect.Parameter] = []
        kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
        for name, parameter in zip(self.names, self._program.parameters, strict=True):
            default = self._defaults.get(name, inspect.Parameter.empty)
            if default is inspect.Parameter.empty and any(name in self._defaults for name in self.names[:len(found)]):
                kind = inspect.Parameter.KEYWORD_ONLY
            found.append(inspect.Parameter(name, kind, default=default, annotation=str(parameter.type)))
        found.append(inspect.Parameter("group_size", inspect.Parameter.KEYWORD_ONLY, default=None,
                                       annotation="int | tuple[int, int, int] | None"))
        return inspect.Signature(found, return_annotation=None)

    @functools.cached_property
    def rows(self) -> list[tuple[str, str, str]]:
        """For each parameter its name, its type, and in words what it is given and what becomes of that."""
        usage = self._program.usage
        rows = []
        for position, (name, parameter) in enumerate(zip(self.names, self._program.parameters, strict=True)):
            uses = [word for word, places in (("read", usage.read), ("written", usage.written)) if position in places]
            what = _what(parameter.type)
            if not isinstance(parameter.type, ScalarType):
                what += f"; {' and '.join(uses) or 'not used'}"
            elif name in self._defaults:
                what += f"; by default {self._defaults[name]!r}"
            rows.append((name, str(parameter.type), what))
        return rows

    @functools.cached_property
    def documentation(self) -> str:
        """What ``help(kernel)`` shows: the signature, and a line for each parameter."""
        usage, rows = self._program.usage, self.rows
        widths = [max([len(row[column]) for row in rows], default=0) for column in range(2)]
        lines = [f"  {name:<{widths[0]}}  {type_:<{widths[1]}}  {what}" for name, type_, what in rows]
        counted = ("by default as many as the batches have" if usage.batch_modes else
                   "which nothing else says: give it" if usage.indexing_axes else "by default 1")
        along = " (along x, y and z)" if usage.has_axes else ""
        return "\n".join([
            self.text, "",
            "A compiled function of the tensor language. Arguments are given by position or by name:", "",
            *lines,
            f"  group_size: the number of work-groups{along}, {counted}", "",
            "The call returns None: results are in the arguments that are written. See also the methods submit, tune,",
            "diagnostics, schedules and inspect_source, and the attribute source_text.",
        ])


def _what(type_: Type) -> str:
    """Return in words what a parameter of a type is given."""
    match type_:
        case GroupType(memref=memref):
            return f"a list of arrays or a tl_dpnp.group, each {_array(memref)}"
        case MemrefType():
            return _array(type_)
    assert isinstance(type_, ScalarType)
    if type_.is_boolean:
        return "True or False"
    return "an integer" if type_.is_integer else "a number"


def _array(memref: MemrefType) -> str:
    if memref.element.is_subbyte:
        return f"an array of uint8 with {memref.element.per_byte} elements in each byte, as tl_dpnp.pack makes it"
    shape = ", ".join("any" if size is None else str(size) for size in memref.shape)
    strides = ", ".join("any" if stride is None else str(stride) for stride in memref.strides)
    comma = "," * (memref.order == 1)
    return f"an array of {memref.element.storage}, shape ({shape}{comma}), strides ({strides}{comma})"


def _listed(words: Sequence[str]) -> str:
    """Return words as Python lists names: 'a', 'a' and 'b', or 'a', 'b', and 'c'."""
    if len(words) < 3:
        return " and ".join(words)
    return f"{', '.join(words[:-1])}, and {words[-1]}"
