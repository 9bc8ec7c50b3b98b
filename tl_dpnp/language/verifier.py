"""Verifier: every rule of the language that does not depend on a device.

All errors of a module are found in one run.  An operation with a poisoned operand (see `ir.POISON`) was reported
already; of it only the rules about names and regions are checked.

Source: tensor language reference; the points that it leaves open are decided in the language documentation.
"""

from __future__ import annotations

import difflib
import linecache
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from typing import Any

from tl_dpnp.errors import Diagnostic, Span, TLVerifyError
from tl_dpnp.language.assertions import assertion_errors
from tl_dpnp.language.instructions.control import If, Yield
from tl_dpnp.language.instructions.memory import Alloca, LifetimeStop
from tl_dpnp.language.instructions.parallel import size_errors
from tl_dpnp.language.ir import MISSING, NO_SPAN, POISON, Function, Module, Operation, Region, Slice, Value
from tl_dpnp.language.printer import headline
from tl_dpnp.language.rule_error import RuleError, counted
from tl_dpnp.language.rules import cast_hint, operation_errors
from tl_dpnp.language.type_rules import check_type, has_poison, same_type
from tl_dpnp.language.types import CooperativeMatrixType
from tl_dpnp.records import dataclass

__all__ = ["MAXIMUM_NESTING", "find_errors", "sort_diagnostics", "verify"]

#: Regions may be nested this deeply; it keeps every recursive pass far from Python's recursion limit.
MAXIMUM_NESTING = 64
#: Spelling suggestions are searched for this many undefined names; the search is slow.
_MAXIMUM_SUGGESTIONS = 20

_NAME = re.compile("[0-9]+|[A-Za-z][A-Za-z0-9_]*")
_NAME_HINT = "give it without % or @: a name is a letter followed by letters, digits or _, or a number"
#: Where the operands of an operation are written, a span for each operand, or the attributes of a function.
OperandSpans = Callable[[Operation | Function], Sequence[Span]]


def verify(module: Module) -> None:
    """Check a module.

    Raises `TLVerifyError` with one diagnostic for each rule that is broken, in source order.
    """
    diagnostics = find_errors(module)
    if diagnostics:
        raise TLVerifyError.from_diagnostics(sort_diagnostics(diagnostics))


def sort_diagnostics(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    """Return the diagnostics in source order; those without a place come first, as they were found."""
    return sorted(diagnostics, key=lambda d: (d.span.line, d.span.column) if d.span is not None else (0, 0))


def _line_on_disk(span: Span) -> str | None:
    return linecache.getline(span.file, span.line).rstrip("\r\n") or None


def find_errors(
    module: Module,
    operand_spans: OperandSpans = lambda _: (),
    source_line: Callable[[Span], str | None] = _line_on_disk,
) -> list[Diagnostic]:
    """Return the diagnostics of a module.

    `operand_spans` tells where operands are written, `source_line` gives the text of a span's first line.
    """
    verifier = _Verifier(operand_spans, source_line)
    verifier.module(module)
    return verifier.diagnostics


@dataclass
class _Binding:
    """What a name stands for: its value, the region of its definition, and, for temporary memory, its lifetime."""

    value: Value
    region: Region | None = None
    first: Value | None = None  # what the name stood for at first, if it is defined more than once
    allocation: _Binding | None = None
    stopped: Span | None = None


#: Stands for an operand that needs no binding.
_CONSTANT = _Binding(Value("", POISON))


@dataclass
class _Verifier:
    operand_spans: OperandSpans
    source_line: Callable[[Span], str | None]
    diagnostics: list[Diagnostic] = field(default_factory=list)
    scopes: list[dict[str, _Binding]] = field(default_factory=list)
    undefined: set[str] = field(default_factory=set)
    body: Region = field(default_factory=Region)  # that of the function that is checked
    suggestions: int = 0

    # --- diagnostics -------------------------------------------------------------------------------------------------

    def diagnostic(self, message: str, span: Span, hint: str | None, notes: tuple[Diagnostic, ...] = ()) -> Diagnostic:
        if span == NO_SPAN:
            return Diagnostic(message, None, hint, None, notes)
        return Diagnostic(message, span, hint, self.source_line(span), notes)

    def note(self, message: str, span: Span) -> tuple[Diagnostic, ...]:
        return () if span == NO_SPAN else (self.diagnostic(message, span, None),)

    def report(
        self,
        operation: Operation,
        message: str,
        hint: str | None = None,
        operand: int | None = None,
        notes: tuple[Diagnostic, ...] = (),
    ) -> None:
        """Add a diagnostic at an operation, or at one of its operands if its place is known."""
        spans = self.operand_spans(operation)
        span = spans[operand] if operand is not None and operand < len(spans) else operation.span
        if span == NO_SPAN:
            message = f"{message}, in `{headline(operation)}`"
        self.diagnostics.append(self.diagnostic(message, span, hint, notes))

    # --- functions ---------------------------------------------------------------------------------------------------

    def module(self, module: Module) -> None:
        seen: dict[str, Function] = {}
        for function in module:
            first = seen.setdefault(function.name, function)
            if first is not function:
                notes = self.note("the first definition is here", first.span)
                message = f"the function @{function.name} is already defined"
                if first.span != NO_SPAN:
                    message += f" in line {first.span.line}"
                self.diagnostics.append(self.diagnostic(message, function.span, "give it another name", notes))
            self.function(function)

    def function(self, function: Function) -> None:
        if not _NAME.fullmatch(function.name):
            self.diagnostics.append(self.diagnostic(f"@{function.name} is no legal name", function.span, _NAME_HINT))
        self.scopes = [{}]
        self.undefined, self.body = set(), function.body
        for parameter in function.parameters:
            self.define(parameter, _Binding(parameter), None)
            try:
                check_type(parameter.type)
            except RuleError as error:
                message = f"{parameter} has the type {parameter.type}: {error.message}"
                self.diagnostics.append(self.diagnostic(message, parameter.span, error.hint))
            if isinstance(parameter.type, CooperativeMatrixType):
                message = f"the parameter {parameter} is a cooperative matrix, which sub-groups hold while they run"
                hint = f"write a memref of {parameter.type.component}, and load it inside parallel {{ ... }}"
                self.diagnostics.append(self.diagnostic(message, parameter.span, hint))
        places = self.operand_spans(function) or (function.span, function.span)
        for message, hint, position in _attribute_errors(function):
            self.diagnostics.append(self.diagnostic(message, places[position], hint))
        types = {parameter.name: parameter.type for parameter in function.parameters}
        for assertion in function.assertions:
            for broken in assertion_errors(assertion, types[assertion.parameter]):
                self.diagnostics.append(self.diagnostic(broken.message, assertion.span, broken.hint))
        deepest = _too_deep(function.body)
        if deepest is not None:
            self.report(deepest, f"regions are nested more than {MAXIMUM_NESTING} deep", "nest fewer regions")
            return
        self.region(function.body, None, None)
        for operation, uneven in size_errors(function):
            self.report(operation, uneven.message, uneven.hint, uneven.operand)

    # --- names -------------------------------------------------------------------------------------------------------

    def lookup(self, name: str) -> _Binding | None:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def define(self, value: Value, binding: _Binding, operation: Operation | None) -> None:
        """Make a value visible in the innermost scope; report it if its name is taken."""
        if not value.name:
            return
        span = value.span if value.span != NO_SPAN or operation is None else operation.span
        if not _NAME.fullmatch(value.name):
            self.diagnostics.append(self.diagnostic(f"{value} is no legal name", span, _NAME_HINT))
        earlier = self.lookup(value.name)
        self.scopes[-1][value.name] = binding
        if earlier is None:
            return
        binding.first = earlier.value if earlier.first is None else earlier.first
        before = binding.first.span
        message = f"{value} is already defined" + ("" if before == NO_SPAN else f" in line {before.line}")
        notes = self.note("the first definition is here", before)
        self.diagnostics.append(self.diagnostic(message, span, "give the value a name of its own", notes))

    def use(self, operation: Operation, value: Value, position: int) -> _Binding | None:
        """Look up an operand; report it if it is undefined, another value than the visible one, or freed."""
        binding = self.lookup(value.name)
        if binding is None:
            if value.name and value.name not in self.undefined:
                self.undefined.add(value.name)
                self.report(operation, f"{value} is not defined", self.suggest(operation, value.name), position)
            return None
        if POISON not in (value.type, binding.value.type) and not same_type(value.type, binding.value.type):
            message = f"{value} is used as {value.type}, but it is defined as {binding.value.type}"
            self.report(operation, message, None, position)
        memory = binding.allocation
        if memory is not None and memory.stopped is not None:
            what = str(value) if memory is binding else f"{value}, a view of {memory.value},"
            notes = self.note("its lifetime ends here", memory.stopped)
            hint = "move lifetime_stop behind the last use"
            self.report(operation, f"{what} is used after its lifetime_stop", hint, position, notes)
        return binding

    def suggest(self, operation: Operation, name: str) -> str | None:
        """Return a hint that says where a name is defined, or names the visible values with similar names."""
        self.suggestions += 1
        if self.suggestions > _MAXIMUM_SUGGESTIONS:
            return None
        place = "define it before this line, in this region or one around it"
        for value, owner in _definitions(self.body, None):
            if value.name == name and value.span != NO_SPAN:
                where = "once it is done"  # it is a result of the operation, or of one around it
                line, use = value.span.line, operation.span
                if owner is not operation and (line, value.span.column) > (use.line, use.column):
                    where = "behind its use"
                elif owner is not None:
                    where = f"inside the {owner.mnemonic}" + f" of line {owner.span.line}" * (owner.span.line != line)
                return f"line {line} defines it, {where}: {place}"
        # A number is no name that somebody may have misspelled.
        visible = {other: binding.value for scope in self.scopes for other, binding in scope.items()
                   if not other.isdigit()}
        matches = difflib.get_close_matches(name[:80], [*visible][-1000:], n=3)
        matches = [match for match in matches if _takes(operation, name, visible[match])]
        if matches and not name.isdigit():
            return f"did you mean {' or '.join(f'%{match}' for match in matches)}?"
        return place

    # --- regions -----------------------------------------------------------------------------------------------------

    def region(self, region: Region, owner: Operation | None, shared: Operation | None) -> None:
        """Check the operations of a region of `owner`; `shared` is what has each work-item run it, if any."""
        last = region.operations[-1] if region.operations else None
        for operation in region:
            self.check_place(operation, shared)
            self.operation(operation, region, shared)
            if isinstance(operation, Yield):
                self.check_yield(operation, owner, operation is last)
        if owner is not None and _returns(owner) and not any(isinstance(o, Yield) for o in region):
            which = f"the body of a {owner.mnemonic}"
            if isinstance(owner, If):
                which = f"the {'else' if region is owner.otherwise else 'then'} region of an if"
            types = ", ".join(str(value.type) for value in owner.yielded or ())
            self.report(
                owner,
                f"{which} that returns values does not end in a yield",
                f"end it with yield ... : {types}" if "<error>" not in types else "end it with a yield",
            )

    def check_place(self, operation: Operation, shared: Operation | None) -> None:
        """Check that the work-items that an operation is for come to it."""
        among = operation.done_among
        if isinstance(operation, Yield) or (shared is None and operation.is_constant):
            among = None
        if shared is None:
            if among == "sub-group":
                message = f"the instruction {operation.mnemonic} stands where the work-group acts as one"
                self.report(operation, message, "put it into parallel { ... } or a foreach_tile")
            return
        if (among is None and not operation.collective) or among in shared.together:
            return
        where, notes = f"inside a {shared.mnemonic}", self.note(f"the {shared.mnemonic} starts here", shared.span)
        if operation.collective:
            hint = f"move it out of the {shared.mnemonic}, or use a for loop"
            self.report(operation, f"the collective instruction {operation.mnemonic} stands {where}", hint, None, notes)
        else:
            message = (f"the sub-group instruction {operation.mnemonic} stands {where}, whose iterations belong to "
                       "single work-items")
            self.report(operation, message, "use parallel { ... } or a foreach_tile", None, notes)

    def operation(self, operation: Operation, region: Region, shared: Operation | None) -> None:
        bindings = [
            self.use(operation, operand, position) if isinstance(operand, Value) else _CONSTANT
            for position, operand in enumerate(operation.operands)
        ]
        defined = all(binding is not None for binding in bindings if binding is not _CONSTANT)
        if defined and not has_poison(operation):
            for error in operation_errors(operation):
                self.report(operation, error.message, error.hint, error.operand)
        if isinstance(operation, LifetimeStop):
            self.check_lifetime_stop(operation, bindings[0], region)
        if isinstance(operation, If) and _returns(operation) and operation.otherwise is None:
            self.report(operation, "an if that returns values has no else", "add else { ... yield ... }")
        inner = operation if operation.shared else shared
        for nested in operation.regions:
            self.scopes.append({})
            for variable in operation.loop_variables:
                self.define(variable, _Binding(variable, nested), operation)
            self.region(nested, operation, inner)
            self.scopes.pop()
        for value in operation.results:
            binding = _Binding(value, region)
            if isinstance(operation, Alloca):
                binding.allocation = binding
            elif operation.viewed is not None and bindings[0] is not None:
                binding.allocation = bindings[0].allocation
            self.define(value, binding, operation)

    def check_lifetime_stop(self, operation: LifetimeStop, binding: _Binding | None, region: Region) -> None:
        if binding is None or operation.source.type is POISON:
            return
        memory = binding.allocation
        if memory is None or memory is not binding:
            hint = "remove it: only the memory of an alloca has a lifetime that ends"
            if memory is not None:
                hint = f"stop {memory.value}, the memory behind the view"
            self.report(operation, f"{operation.source} is not the result of an alloca", hint, 0)
        elif memory.region is not region:
            message = f"the lifetime of {operation.source} ends in another region than that of its alloca"
            self.report(operation, message, "move lifetime_stop into the region of the alloca", 0)
        elif memory.stopped is None:
            memory.stopped = operation.span

    def check_yield(self, operation: Yield, owner: Operation | None, is_last: bool) -> None:
        outputs = None if owner is None else owner.yielded
        if owner is None or outputs is None:
            where = "a function" if owner is None else f"a {owner.mnemonic}"
            hint = "a yield ends a region of an if, the body of a for that carries values, or that of an apply"
            self.report(operation, f"yield stands in the body of {where}", hint)
            return
        if not is_last:
            self.report(operation, "yield is not the last instruction of its region", "move it to the end")
            return
        if any(value is MISSING for value in (*operation.values, *outputs)):
            return
        if len(operation.values) != len(outputs):
            self.report(
                operation,
                f"yield gives {counted(len(operation.values), 'value')}, but its {owner.mnemonic} returns "
                f"{len(outputs)}",
                f"write yield with {counted(len(outputs), 'value')}"
                if outputs
                else "write yield alone, or leave it out",
            )
            return
        for position, (value, output) in enumerate(zip(operation.values, outputs, strict=True)):
            if POISON not in (value.type, output.type) and value.type != output.type:
                name = str(value) if isinstance(value, Value) else "the constant"
                message = f"{name} has type {value.type}, but the {owner.mnemonic} returns {output.type} here"
                hint = cast_hint(value, output.type).replace("before, and use", "before the yield, and yield")
                self.report(operation, message, hint, position)


def _definitions(region: Region, owner: Operation | None) -> Iterator[tuple[Value, Operation | None]]:
    """Yield each value that is defined in a region or those inside, with the operation whose region it is."""
    for operation in region:
        yield from ((value, owner) for value in operation.results)
        yield from ((value, operation) for value in operation.loop_variables)
        for nested in operation.regions:
            yield from _definitions(nested, operation)


def _takes(operation: Operation, name: str, value: Value) -> bool:
    """Return whether an operation may have a value where it uses a name; true if others of its operands are wrong."""
    def renamed(entry: Any) -> Any:
        match entry:
            case Slice():
                return replace(entry, offset=renamed(entry.offset), size=renamed(entry.size))
            case tuple():
                return tuple(map(renamed, entry))
            case Value(name=other) if other == name:
                return value
        return entry

    tried = replace(operation, **{key: renamed(entry) for key, entry in vars(operation).items() if key[0] != "_"})
    return has_poison(tried) or not any(
        error.operand is not None and tried.operands[error.operand:error.operand + 1] == (value,)
        for error in operation_errors(tried))


def _returns(operation: Operation) -> bool:
    """Return whether the regions of an operation yield values, and the source names all of them."""
    return bool(operation.yielded) and all(value is not MISSING for value in operation.yielded or ())


def _attribute_errors(function: Function) -> Iterator[tuple[str, str, int]]:
    """Yield message, hint and position (work-group size, sub-group size) of each attribute no device could honour."""
    size, subgroup = function.work_group_size, function.subgroup_size
    if size is not None and min(size) < 1:
        yield f"the work-group size ({size[0]}, {size[1]}) is not positive", "write sizes of at least 1", 0
    if subgroup is not None and subgroup < 1:
        yield f"the sub-group size {subgroup} is not positive", "write a size of at least 1", 1
    if size is not None and subgroup is not None and min(*size, subgroup) >= 1 and size[0] % subgroup:
        yield (
            f"the first mode {size[0]} of work_group_size is no multiple of the sub-group size {subgroup}",
            f"write work_group_size({-(-size[0] // subgroup) * subgroup}, {size[1]}), or change subgroup_size",
            0,
        )


def _too_deep(body: Region) -> Operation | None:
    """Return the first operation whose region is nested too deeply."""
    pending = [(body, 1)]
    while pending:
        region, depth = pending.pop()
        for operation in region:
            for nested in operation.regions:
                if depth >= MAXIMUM_NESTING:
                    return operation
                pending.append((nested, depth + 1))
    return None
