"""Instructions with regions: conditions, loops, and what a region yields.

Source: tensor language reference, sections "For", "Foreach", "If" and "Yield".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from tl_dpnp.language.assembly import Writing
from tl_dpnp.language.building import Argument, Building, type_hint
from tl_dpnp.language.ir import MISSING, POISON, Constant, Operand, Operation, Region, Value, scalar_type
from tl_dpnp.language.rule_error import RuleError, counted
from tl_dpnp.language.rules import scalar_errors
from tl_dpnp.language.type_rules import describe
from tl_dpnp.language.types import CooperativeMatrixType, Type
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import I1, INDEX, ScalarType

if TYPE_CHECKING:
    from tl_dpnp.language.annotations import Shared
    from tl_dpnp.language.elaborate import Elaborator, ParseNode, ParseTree
    from tl_dpnp.language.interpreter.machine import Steps, WorkGroup


@dataclass(frozen=True)
class Yield(Operation):
    """``yield a, b : t, t`` or ``yield (a, b)``: the values that a region gives to the operation that contains it."""

    mnemonic = "yield"
    example = "yield %a, %b : f32, i32"
    remark = " or yield (%a, %b)"

    values: tuple[Operand, ...] = ()

    @classmethod
    def grammar(cls) -> dict[str, str]:
        return {
            "yield_instruction": '"yield" [identifier_or_constant_list] [":" [scalar_type_list]]',
            "yield_newer_instruction": '"yield" "(" [identifier_or_constant_list] ")"',
        }

    @classmethod
    def read(cls, elaborator: Elaborator, tree: ParseTree, results: tuple[Value, ...]) -> Operation:
        """Constants without a type take that of the result that they give."""
        parts = {part.data: part.children for part in tree.children if part is not None}
        values, types = parts.get("identifier_or_constant_list", []), parts.get("scalar_type_list", [])
        if tree.data == "yield_newer_instruction":
            returned = elaborator.returned
            return cls(values=tuple(
                elaborator.agreed(value, (returned[place], None) if place < len(returned) else None)
                for place, value in enumerate(values)
            ))
        if len(values) != len(types):
            message = f"yield names {counted(len(values), 'value')} but {counted(len(types), 'type')}"
            hint = "write one type for each value: yield %a, %b : f32, i32"
            elaborator.report(message, elaborator.source.span(tree), hint)
            return cls(values=(MISSING,))

        def given(place: int, value: ParseNode, node: ParseNode) -> Operand:
            type, returned = elaborator.type(node), elaborator.returned[place : place + 1]
            return elaborator.agreed(value, (type, node), shared=None if returned == (type,) else "type")

        return cls(values=tuple(given(place, *pair) for place, pair in enumerate(zip(values, types, strict=True))))

    def spell(self, writing: Writing) -> str:
        if writing.newer:
            return f"yield ({writing.listed(self.values)})"
        types = ", ".join(map(writing.type_of, self.values))
        return f"yield {writing.listed(self.values)} : {types}" if self.values else "yield"

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        return tuple(map(group.value, self.values))


@dataclass(frozen=True)
class If(Operation):
    """``if condition -> (types) { ... } else { ... }``; `outputs` are the values it returns."""

    mnemonic = "if"
    example = "if %condition { ... }"
    remark = " or %a = if %condition -> (f32) { yield %b : f32 } else { yield %c : f32 }"
    waits = True

    condition: Operand
    outputs: tuple[Value, ...]
    then: Region
    otherwise: Region | None = None

    @property
    def results(self) -> tuple[Value, ...]:
        return self.outputs

    @property
    def yielded(self) -> tuple[Value, ...]:
        return self.outputs

    @property
    def regions(self) -> tuple[Region, ...]:
        return (self.then,) if self.otherwise is None else (self.then, self.otherwise)

    @classmethod
    def grammar(cls) -> dict[str, str]:
        results = '["->" "(" [scalar_type_list] ")"]'  # the parentheses are an extension
        return {"if_instruction": f'"if" _identifier_or_bool_constant {results} region ["else" region]'}

    @classmethod
    def read(cls, elaborator: Elaborator, tree: ParseTree, results: tuple[Value, ...]) -> Operation:
        condition, types, then, otherwise = tree.children
        hint = "write one name for each type: %a, %b = if %c -> (f32, i32) { ... } else { ... }"
        outputs = _read_outputs(elaborator, tree, types, results, hint)
        returned = tuple(value.type for value in outputs)
        return cls(
            condition=elaborator.operand(condition, I1),
            outputs=outputs,
            then=elaborator.region(then, returned=returned),
            otherwise=None if otherwise is None else elaborator.region(otherwise, returned=returned),
        )

    def spell(self, writing: Writing) -> str:
        types = f" -> ({', '.join(map(writing.type_of, self.outputs))})" if self.outputs else ""
        return f"if {writing.operand(self.condition)}{types}"

    def errors(self) -> Iterator[RuleError]:
        type = self.condition.type
        if type != I1:
            hint = "write the result of a comparison, true or false"
            yield RuleError(f"the condition must have type i1, but has type {type}", hint, 0)
        for output in self.outputs:
            if not isinstance(output.type, ScalarType | CooperativeMatrixType):
                yield RuleError(f"an if returns scalars and cooperative matrices, not {describe(output.type)}",
                                "use the memref in both branches")

    def steps(self, group: WorkGroup) -> Steps:
        chosen = self.then if group.value(self.condition) else self.otherwise
        return () if chosen is None else (yield from group.steps(chosen))


@dataclass(frozen=True)
class For(Operation):
    """``for %i = start, stop[, step] [init(%c=initial, ...) -> (types)] { ... }``: sequential, over [start, stop).

    `carried` values start as `initial` and are in the next iteration what the body yields; `outputs` are what they are
    in the end.
    """

    mnemonic = "for"
    example = "for %i = 0, 16, 2 : index { ... }"
    remark = "; step and type may be left out, and init(%c=%first) -> (f32) may stand behind them"
    waits = True

    variable: Value
    start: Operand
    stop: Operand
    step: Operand
    body: Region
    carried: tuple[Value, ...] = ()
    initial: tuple[Operand, ...] = ()
    outputs: tuple[Value, ...] = ()

    @property
    def results(self) -> tuple[Value, ...]:
        return self.outputs

    @property
    def regions(self) -> tuple[Region, ...]:
        return (self.body,)

    @property
    def yielded(self) -> tuple[Value, ...]:
        return self.outputs

    @property
    def loop_variables(self) -> tuple[Value, ...]:
        return (self.variable, *self.carried)

    @classmethod
    def grammar(cls) -> dict[str, str]:
        bound = "_identifier_or_int_constant"
        return {
            "for_instruction": '"for" LOCAL_IDENTIFIER "=" for_bounds [":" scalar_type] [initial_values] region '
                               '["attributes" attribute_dictionary]',
            "for_bounds": f'{bound} "," {bound} ["," {bound}]',
            "initial_values": '"init" "(" initial_value ("," initial_value)* ")" "->" "(" scalar_type_list ")"',
            "initial_value": 'LOCAL_IDENTIFIER "=" _identifier_or_constant',
        }

    @classmethod
    def read(cls, elaborator: Elaborator, tree: ParseTree, results: tuple[Value, ...]) -> Operation:
        variable, bounds = _read_loop(elaborator, tree)
        _, _, _, initial_values, body, attributes = tree.children
        if len(bounds) == 2:
            elaborator.place(tree.children[0])
            type = variable.type if isinstance(variable.type, ScalarType) else POISON
            bounds += (Constant(1, type, variable.span),)
        start, stop, step = bounds
        elaborator.attributes(attributes, "a for loop")  # unroll is a wish, which changes no result
        entries, types = [], None
        if initial_values is not None:
            *entries, types = initial_values.children
        hint = "write one name for each type: %a, %b = for %i = 0, 4 init(%c=%d, %e=%f) -> (f32, i32) { ... }"
        outputs = _read_outputs(elaborator, tree, types, results, hint)
        if types is not None and len(types.children) != len(entries):
            values = counted(len(entries), "initial value")
            message = f"the for has {values}, but {counted(len(types.children), 'type')}"
            elaborator.report(message, elaborator.source.span(types), "write one type for each carried value")
        carried: list[Value] = []
        initial: list[Operand] = []
        for place, entry in enumerate(entries):
            name, first = entry.children
            returned = outputs[place].type if place < len(outputs) else POISON
            initial.append(elaborator.agreed(first, (returned, first)))
            carried.append(Value(str(name[1:]), returned, elaborator.source.span(name)))
        region = elaborator.region(body, (variable, *carried), tuple(value.type for value in outputs))
        return cls(variable=variable, start=start, stop=stop, step=step, body=region, carried=tuple(carried),
                   initial=tuple(initial), outputs=outputs)

    def spell(self, writing: Writing) -> str:
        default = isinstance(self.step, Constant) and self.step.value == 1
        bounds = (self.start, self.stop) if default else (self.start, self.stop, self.step)
        head = f"for {self.variable} = {writing.listed(bounds)}"
        if not writing.newer:
            head += _type_text(self.variable)
        if not self.carried:
            return head
        writing.refuse("the values that a for loop carries")
        names = map(writing.operand, self.initial)
        initial = ", ".join(f"{value}={name}" for value, name in zip(self.carried, names, strict=True))
        return f"{head} init({initial}) -> ({', '.join(map(writing.type_of, self.outputs))})"

    def errors(self) -> Iterator[RuleError]:
        yield from loop_errors("for", self.variable, dict(enumerate((self.start, self.stop, self.step))))
        if not len(self.carried) == len(self.initial) == len(self.outputs):
            yield RuleError(
                f"the for carries {counted(len(self.carried), 'value')}, but has "
                f"{counted(len(self.initial), 'initial value')} and {counted(len(self.outputs), 'result')}",
                "write one of each for every carried value",
            )
            return
        for place, (value, first, output) in enumerate(zip(self.carried, self.initial, self.outputs, strict=True), 3):
            if not isinstance(output.type, ScalarType | CooperativeMatrixType):
                message = f"a for carries scalars and cooperative matrices, not a {output.type}"
                yield RuleError(message, "carry scalars", place)
            elif value.type != output.type:
                yield RuleError(f"{value} has type {value.type}, but its result has type {output.type}")
            else:
                yield from scalar_errors((first,), value.type, first=place)
        step = self.step
        if isinstance(step, Constant) and not isinstance(step.value, complex) and step.value <= 0:
            yield RuleError(f"the step of a for loop is {step.value}", "write a step of at least 1", 2)

    def steps(self, group: WorkGroup) -> Steps:
        step = group.index(self.step)
        if step <= 0:
            raise group.fault(f"the step of the loop is {step}", "a step must be 1 or more")
        values = tuple(map(group.value, self.initial))
        for number, value in enumerate(range(group.index(self.start), group.index(self.stop), step)):
            for carried, current in zip(self.carried, values, strict=True):
                group.values[carried.name] = current
            group.values[self.variable.name] = group.scalar.from_python(value, scalar_type(self.variable))
            group.iterations.append(number)
            values = yield from group.steps(self.body)
            group.iterations.pop()
        return values


@dataclass(frozen=True)
class Foreach(Operation):
    """``foreach (%i, ...) = (start, ...), (stop, ...) { ... }``: each tuple of indices once, in no order.

    The iterations are spread over the work-items.  A loop over one index is ``foreach %i = start, stop : type``.
    """

    mnemonic = "foreach"
    example = "foreach %i = 0, 16 : index { ... }"
    remark = "; the type may be left out"
    collective = True
    shared = True

    variables: tuple[Value, ...]
    starts: tuple[Operand, ...]
    stops: tuple[Operand, ...]
    body: Region

    @property
    def ranges(self) -> Iterator[tuple[Value, Operand, Operand]]:
        """Each variable with its first value and the end of its range."""
        return zip(self.variables, self.starts, self.stops, strict=True)

    @property
    def regions(self) -> tuple[Region, ...]:
        return (self.body,)

    @property
    def loop_variables(self) -> tuple[Value, ...]:
        return self.variables

    @classmethod
    def grammar(cls) -> dict[str, str]:
        bounds = '"(" index_list ")" "," "(" index_list ")"'
        return {
            "foreach_instruction": '"foreach" LOCAL_IDENTIFIER "=" foreach_bounds [":" scalar_type] region',
            "foreach_bounds": '_identifier_or_int_constant "," _identifier_or_int_constant',
            "foreach_modes_instruction": f'"foreach" "(" foreach_names ")" "=" {bounds} [":" scalar_type_list] region',
            "foreach_names": 'LOCAL_IDENTIFIER ("," LOCAL_IDENTIFIER)*',
        }

    @classmethod
    def read(cls, elaborator: Elaborator, tree: ParseTree, results: tuple[Value, ...]) -> Operation:
        """A loop over several indices: one has the type that is written, else that of a bound that is a value."""
        if tree.data == "foreach_instruction":
            variable, (start, stop) = _read_loop(elaborator, tree)
            body = elaborator.region(tree.children[-1], (variable,))
            return cls(variables=(variable,), starts=(start,), stops=(stop,), body=body)
        variables, first, last = read_ranges(elaborator, cls.mnemonic, *tree.children[:-1])
        body = elaborator.region(tree.children[-1], variables)
        return cls(variables=variables, starts=first, stops=last, body=body)

    def spell(self, writing: Writing) -> str:
        if len(self.variables) == 1 == len(self.starts) == len(self.stops) and not writing.newer:
            (variable,) = self.variables
            return f"foreach {variable} = {writing.listed((*self.starts, *self.stops))}{_type_text(variable)}"
        types = ", ".join(map(writing.type_of, self.variables))
        names, starts, stops = map(writing.listed, (self.variables, self.starts, self.stops))
        is_plain = writing.newer or all(variable.type == INDEX for variable in self.variables)
        return f"foreach ({names}) = ({starts}), ({stops})" + ("" if is_plain else f" : {types}")

    def errors(self) -> Iterator[RuleError]:
        count = len(self.variables)
        if not count or {len(self.starts), len(self.stops)} != {count}:
            yield RuleError(
                f"a foreach over {count} indices has {len(self.starts)} first values and {len(self.stops)} ends",
                "give one of each for every index",
            )
            return
        for place, (variable, start, stop) in enumerate(self.ranges):
            yield from loop_errors("foreach", variable, {place: start, count + place: stop})

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        ranges = [range(group.index(start), group.index(stop)) for _, start, stop in self.ranges]
        for number in group.launch.ordered(range(math.prod(map(len, ranges)))):
            indices = []
            for entries in ranges:  # the first index runs fastest
                number, place = divmod(number, len(entries))
                indices.append(entries[place])
            group.iteration(self.body, zip(self.variables, indices, strict=True))
        return ()


def _read_outputs(
    elaborator: Elaborator, tree: ParseTree, types: ParseNode, results: tuple[Value, ...], hint: str
) -> tuple[Value, ...]:
    """Return the results of an instruction with the types that it returns; MISSING is among them if they do not fit."""
    returned = [] if types is None else [elaborator.type(type) for type in types.children]
    results = results or elaborator.without_names(len(returned), elaborator.head(tree))
    if len(returned) != len(results):
        word = tree.data.partition("_")[0]
        returns, names = counted(len(returned), "value"), counted(len(results), "name")
        elaborator.report(f"the {word} returns {returns}, but has {names} before it", elaborator.head(tree), hint)
        results = (*results, MISSING)
    typed = zip(results, returned, strict=False)
    outputs = [value if value is MISSING else replace(value, type=type) for value, type in typed]
    return (*outputs, *results[len(returned) :])


def _read_loop(elaborator: Elaborator, tree: ParseTree) -> tuple[Value, tuple[Operand, ...]]:
    """Return the variable and the bounds of a loop over one index.

    Without a type it has that of the bounds where all of them are values, as in the dialect 0.4, else index.
    """
    name, bounds, annotation, *_ = tree.children
    if annotation is not None:
        type = elaborator.type(annotation)
    else:
        values = all(map(elaborator.names_value, bounds.children))
        type = elaborator.type_of_bounds(*bounds.children) if values else INDEX
    variable = elaborator.variable(name, type, annotation or name)
    shared: Shared = "bounds" if annotation is None else "type"
    return variable, tuple(
        elaborator.agreed(bound, (variable.type, annotation or bound), shared=shared)
        for bound in bounds.children
    )


def read_ranges(
    elaborator: Elaborator, mnemonic: str, *parts: ParseNode
) -> tuple[tuple[Value, ...], tuple[Operand, ...], tuple[Operand, ...]]:
    """Return the variables, first values and ends of a loop over several indices.

    `parts` are the lists of names, first values and ends, and that of the types, None where it is left out.
    """
    names, starts, stops, types = ([] if part is None else part.children for part in parts)
    for what, entries in (("first values", starts), ("ends", stops), ("types", types)):
        if entries and len(entries) != len(names):
            message = f"a {mnemonic} over {len(names)} indices has {len(entries)} {what}"
            elaborator.report(message, elaborator.source.span(entries[0]), "give one for each index")
    indices = list(zip_longest(names, starts, stops, types))[: len(names)]

    def type_of(start: ParseNode, stop: ParseNode, type: ParseNode) -> Type:
        return elaborator.type_of_bounds(start, stop) if type is None else elaborator.type(type)

    variables = tuple(
        elaborator.variable(name, type_of(start, stop, type), type or name) for name, start, stop, type in indices
    )

    def bound(variable: Value, bound: ParseNode, type: ParseNode) -> Operand:
        if bound is None:  # reported above
            return Constant(0, POISON)
        return elaborator.agreed(bound, (variable.type, type or bound))

    of_variables = list(zip(variables, indices, strict=True))
    first = tuple(bound(variable, start, type) for variable, (_, start, _, type) in of_variables)
    last = tuple(bound(variable, stop, type) for variable, (_, _, stop, type) in of_variables)
    return variables, first, last


def _type_text(variable: Value) -> str:
    return "" if variable.type == INDEX else f" : {variable.type}"


def loop_errors(name: str, variable: Value, bounds: Mapping[int, Operand]) -> Iterator[RuleError]:
    """Yield what is wrong with the type of a loop's variable, and with bounds, by their place among the operands."""
    if not (isinstance(variable.type, ScalarType) and variable.type.is_integer):
        yield RuleError(f"the variable of a {name} loop has type {variable.type}", "use index or another integer type")
        return
    for place, bound in bounds.items():
        yield from scalar_errors((bound,), variable.type, first=place)


@dataclass
class Branch:
    """An ``if`` under construction; `results` are the values it returns, of use behind its ``else``."""

    results: tuple[Value, ...]
    operation: If


class ControlMethods(Building):
    """What a function builder has for instructions with regions."""

    @contextmanager
    def for_(
        self, start: Argument, stop: Argument, step: Argument = 1, *, type: ScalarType = INDEX, name: str = ""
    ) -> Iterator[Value]:
        """``for`` over [start, stop), as a context; gives the loop variable."""
        variable = self._result(type, name)
        bounds = [self._operand(bound, type) for bound in (start, stop, step)]
        loop = For(variable=variable, start=bounds[0], stop=bounds[1], step=bounds[2], body=Region())
        loop = self._check(loop)
        with self._region() as body:
            yield variable
        self._regions[-1].append(replace(loop, body=Region(tuple(body))))

    @contextmanager
    def for_carrying(
        self, initial: Sequence[Value], start: Argument, stop: Argument, step: Argument = 1, *,
        type: ScalarType = INDEX, name: str = "",
    ) -> Iterator[For]:
        """``for`` that carries values, which are `initial` at first, as a context whose body ends in `yield_`.

        It gives the loop: its `variable`, the `carried` values, and `outputs`, of use behind it.
        """
        initial = tuple(map(self._value, initial))
        types = tuple(value.type for value in initial)
        bounds = [self._operand(bound, type) for bound in (start, stop, step)]
        carried, outputs = (tuple(self._result(type, "") for type in types) for _ in range(2))
        loop = self._check(For(variable=self._result(type, name), start=bounds[0], stop=bounds[1], step=bounds[2],
                               body=Region(), carried=carried, initial=initial, outputs=outputs))
        with self._region(types) as body:
            yield loop
        self._regions[-1].append(replace(loop, body=Region(tuple(body))))

    @contextmanager
    def foreach(self, start: Argument, stop: Argument, *, type: ScalarType = INDEX, name: str = "") -> Iterator[Value]:
        """``foreach`` over [start, stop), as a context; gives the loop variable."""
        with self._foreach((self._result(type, name),), (start,), (stop,)) as (variable,):
            yield variable

    @contextmanager
    def foreach_modes(
        self, starts: Sequence[Argument], stops: Sequence[Argument], *, type: ScalarType = INDEX,
        names: Sequence[str] = (),
    ) -> Iterator[tuple[Value, ...]]:
        """``foreach`` over several indices, the first of which runs fastest in memory; gives the loop variables."""
        padded = [*names, *[""] * (len(starts) - len(names))]
        with self._foreach(tuple(self._result(type, name) for name in padded), starts, stops) as variables:
            yield variables

    @contextmanager
    def _foreach(
        self, variables: tuple[Value, ...], starts: Sequence[Argument], stops: Sequence[Argument]
    ) -> Iterator[tuple[Value, ...]]:
        types = [scalar_type(variable) for variable in variables]
        first, last = (
            tuple(self._operand(bound, types[min(place, len(types) - 1)]) for place, bound in enumerate(bounds))
            for bounds in (starts, stops)
        )
        loop = self._check(Foreach(variables=variables, starts=first, stops=last, body=Region()))
        with self._region() as body:
            yield variables
        self._regions[-1].append(replace(loop, body=Region(tuple(body))))

    @contextmanager
    def if_(self, condition: Argument, *types: Type, names: Sequence[str] = ()) -> Iterator[Branch]:
        """``if``, as a context; with `types`, it returns values, and both its regions end in `yield_`."""
        for type in types:
            if not isinstance(type, Type):
                raise self._error(f"if_ takes the types that it returns, it was given {type!r}", type_hint(type))
        padded = [*names, *[""] * (len(types) - len(names))]
        outputs = tuple(self._result(type, name) for type, name in zip(types, padded, strict=True))
        operation = self._check(If(condition=self._operand(condition, I1), outputs=outputs, then=Region()))
        branch = Branch(outputs, operation)
        with self._region(types) as body:
            yield branch
        branch.operation = replace(operation, then=Region(tuple(body)))
        self._regions[-1].append(branch.operation)

    @contextmanager
    def else_(self) -> Iterator[None]:
        """``else`` of the ``if`` right before it, as a context."""
        last = self._regions[-1][-1] if self._regions[-1] else None
        if not isinstance(last, If) or last.otherwise is not None:
            raise self._error("else_ does not follow an if_", "open it right behind the with block of if_")
        with self._region(tuple(value.type for value in last.outputs)) as body:
            yield
        self._regions[-1][-1] = replace(last, otherwise=Region(tuple(body)))

    def yield_(self, *values: Argument) -> None:
        """``yield``; numbers take the types that the ``if`` or the loop returns."""
        types = self._returned[-1]
        if len(values) != len(types):
            raise self._error(f"yield_ gives {counted(len(values), 'value')}, but {len(types)} are returned here")
        self._add(Yield(values=tuple(map(self._operand, values, types))))
