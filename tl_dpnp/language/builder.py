"""Builder: the same IR as the parser's, written from Python.

    b = FunctionBuilder("fused_kernel", alpha=F32, A=group(memref(F32, 16, 8)), B=memref(F32, 8, 8),
                        C=memref(F32, 8, 16), D=memref(F32, 16, 16, None))
    i = b.group_id()
    tmp = b.alloca(memref(F32, 16, 8))
    b.gemm(1.0, b.load(b.A, i), b.B, 0.0, tmp, transpose_b=True)
    b.gemm(b.alpha, tmp, b.C, 1.0, b.subview(b.D, ALL, ALL, i))
    module = b.build()

Operands are values that the builder returned, or Python numbers: these take the type that their place demands.  Every
operation is checked where it is built: what breaks a rule raises `TLVerifyError` with the file and line of the caller.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Complex, Integral, Real
from typing import TypeVar

from tl_dpnp.errors import Diagnostic, Span, TLVerifyError
from tl_dpnp.language import ops
from tl_dpnp.language.constants import convert
from tl_dpnp.language.infer import POISON, check_type, describe, result_type
from tl_dpnp.language.ops import Constant, Function, Module, Operand, Operation, Region, Slice, Value
from tl_dpnp.language.rule_error import RuleError, counted
from tl_dpnp.language.rules import operation_errors
from tl_dpnp.language.types import GroupType, MemrefType, Size, Type
from tl_dpnp.language.verifier import verify
from tl_dpnp.scalars import I1, INDEX, Precision, ScalarType

__all__ = ["ALL", "Branch", "FunctionBuilder", "build_module", "group", "memref"]

#: What an operand may be: a value, or a Python or NumPy number.
Number = bool | int | float | complex
Argument = Value | Constant | Number
#: An entry of a subview: an index, which removes the mode; (offset, size), where the size None is the rest; or `ALL`.
Entry = Argument | tuple[Argument, Argument | None] | slice

#: The whole of a mode in a subview, written ``:`` in the language.
ALL = slice(None)

_Built = TypeVar("_Built", bound=Operation)


def memref(element: ScalarType, *shape: Size, strides: Sequence[Size] | None = None) -> MemrefType:
    """Return a memref type; a size or stride of None is dynamic.  Without strides, the layout is packed."""
    return MemrefType(element, shape) if strides is None else MemrefType(element, shape, tuple(strides))


def group(memref: MemrefType, offset: Size = 0) -> GroupType:
    """Return the type of a group of memrefs; `offset` is in elements, None if it is dynamic."""
    return GroupType(memref, offset)


def build_module(*builders: FunctionBuilder) -> Module:
    """Return the verified module of several functions.

    Raises `TLVerifyError` with a diagnostic for each rule that is broken.
    """
    module = Module(tuple(builder.function() for builder in builders))
    verify(module)
    return module


@dataclass
class Branch:
    """An ``if`` under construction; `results` are the values it returns, of use behind its ``else``."""

    results: tuple[Value, ...]
    operation: ops.If


class FunctionBuilder:
    """Builds one function.

    Parameters are given by name and type, as keywords or in a mapping; each is an attribute of the builder, and all are
    in `parameters`, in order.  Results are numbered unless `name` is given.
    """

    def __init__(
        self,
        name: str,
        parameters: Mapping[str, Type] | None = None,
        /,
        *,
        work_group_size: tuple[int, int] | None = None,
        subgroup_size: int | None = None,
        **more_parameters: Type,
    ) -> None:
        self.name = name
        self.span = _caller()
        types = {**(parameters or {}), **more_parameters}
        self.parameters = tuple(Value(key, type, self.span) for key, type in types.items())
        self.work_group_size = work_group_size
        self.subgroup_size = subgroup_size
        self._regions: list[list[Operation]] = [[]]
        self._returned: list[tuple[ScalarType, ...]] = [()]  # for each open region, the types that its yield gives
        self._names = set(types)
        self._next = 0
        for value in self.parameters:
            with self._located():
                check_type(value.type)

    def __getattr__(self, name: str) -> Value:
        for value in self.__dict__.get("parameters", ()):
            if isinstance(value, Value) and value.name == name:
                return value
        raise AttributeError(f"the function builder has neither a method nor a parameter {name!r}")

    def function(self) -> Function:
        """Return the function as it stands, not verified."""
        if len(self._regions) > 1:
            raise TLVerifyError(f"the function @{self.name} is still inside a region")
        body = Region(tuple(self._regions[0]))
        return Function(self.name, self.parameters, body, self.work_group_size, self.subgroup_size, self.span)

    def build(self) -> Module:
        """Return the verified module that holds this function alone.

        Raises `TLVerifyError` with a diagnostic for each rule that is broken.
        """
        return build_module(self)

    # --- scalars -----------------------------------------------------------------------------------------------------

    def arith(
        self, kind: str, lhs: Argument, rhs: Argument | None = None, *, type: ScalarType | None = None, name: str = ""
    ) -> Value:
        """``arith.<kind>``, binary or unary; `type` is needed where no operand is a value."""
        scalar = self._scalar_type(type, lhs, rhs)
        left, result = self._operand(lhs, scalar), self._result(scalar, name)
        if rhs is None:
            return self._add_value(ops.Unary(kind=kind, operand=left, result=result))
        return self._add_value(ops.Arith(kind=kind, lhs=left, rhs=self._operand(rhs, scalar), result=result))

    def add(self, lhs: Argument, rhs: Argument, *, name: str = "") -> Value:
        """``arith.add``"""
        return self.arith("add", lhs, rhs, name=name)

    def sub(self, lhs: Argument, rhs: Argument, *, name: str = "") -> Value:
        """``arith.sub``"""
        return self.arith("sub", lhs, rhs, name=name)

    def mul(self, lhs: Argument, rhs: Argument, *, name: str = "") -> Value:
        """``arith.mul``"""
        return self.arith("mul", lhs, rhs, name=name)

    def div(self, lhs: Argument, rhs: Argument, *, name: str = "") -> Value:
        """``arith.div``"""
        return self.arith("div", lhs, rhs, name=name)

    def rem(self, lhs: Argument, rhs: Argument, *, name: str = "") -> Value:
        """``arith.rem``"""
        return self.arith("rem", lhs, rhs, name=name)

    def neg(self, operand: Argument, *, name: str = "") -> Value:
        """``arith.neg``"""
        return self.arith("neg", operand, name=name)

    def math(self, kind: str, *arguments: Argument, type: ScalarType | None = None, name: str = "") -> Value:
        """``math.<kind>``; `type` is needed where no operand is a value."""
        scalar = self._scalar_type(type, *arguments)
        values = tuple(self._operand(argument, scalar) for argument in arguments)
        return self._add_value(ops.Math(kind=kind, arguments=values, result=self._result(scalar, name)))

    def cmp(self, kind: str, lhs: Argument, rhs: Argument, *, type: ScalarType | None = None, name: str = "") -> Value:
        """``cmp.<kind>``; `type` is needed where no operand is a value."""
        scalar = self._scalar_type(type, lhs, rhs)
        left, right = self._operand(lhs, scalar), self._operand(rhs, scalar)
        return self._add_value(ops.Compare(kind=kind, lhs=left, rhs=right, result=self._result(I1, name)))

    def cast(self, operand: Argument, type: ScalarType, *, source: ScalarType | None = None, name: str = "") -> Value:
        """``cast`` to `type`; `source` is the type of the operand, needed where that is a number."""
        value = self._operand(operand, self._scalar_type(source, operand))
        return self._add_value(ops.Cast(operand=value, result=self._result(type, name)))

    def group_id(self, *, name: str = "") -> Value:
        """``group_id``"""
        return self._add_value(ops.GroupId(result=self._result(INDEX, name)))

    def group_size(self, *, name: str = "") -> Value:
        """``group_size``"""
        return self._add_value(ops.GroupSize(result=self._result(INDEX, name)))

    # --- memory and views --------------------------------------------------------------------------------------------

    def alloca(self, type: MemrefType, *, name: str = "") -> Value:
        """``alloca``"""
        return self._add_value(ops.Alloca(result=self._result(type, name)))

    def lifetime_stop(self, source: Value) -> None:
        """``lifetime_stop``"""
        self._add(ops.LifetimeStop(source=source))

    def barrier(self) -> None:
        """``barrier``"""
        self._add(ops.Barrier())

    def load(self, source: Value, *indices: Argument, name: str = "") -> Value:
        """``load``: an element of a memref, or a memref of a group."""
        return self._add_value(ops.Load(source=source, indices=self._indices(indices), result=self._result(None, name)))

    def store(self, value: Argument, target: Value, *indices: Argument) -> None:
        """``store``"""
        element = self._memref(target).element
        self._add(ops.Store(value=self._operand(value, element), target=target, indices=self._indices(indices)))

    def size(self, source: Value, mode: int, *, name: str = "") -> Value:
        """``size``"""
        return self._add_value(ops.SizeOf(source=source, mode=mode, result=self._result(INDEX, name)))

    def expand(self, source: Value, mode: int, *shape: Argument | None, name: str = "") -> Value:
        """``expand``; a size of None is inferred, as ``?`` is."""
        sizes = tuple(None if size is None else self._operand(size, INDEX) for size in shape)
        return self._add_value(ops.Expand(source=source, mode=mode, shape=sizes, result=self._result(None, name)))

    def fuse(self, source: Value, first: int, last: int, *, name: str = "") -> Value:
        """``fuse`` of the modes `first` to `last`, both included."""
        return self._add_value(ops.Fuse(source=source, first=first, last=last, result=self._result(None, name)))

    def subview(self, source: Value, *entries: Entry, name: str = "") -> Value:
        """``subview``; an entry is an index, ``(offset, size)`` with size None for the rest, or `ALL`."""
        slices = tuple(self._slice(entry) for entry in entries)
        return self._add_value(ops.Subview(source=source, slices=slices, result=self._result(None, name)))

    def _slice(self, entry: Entry) -> Slice:
        match entry:
            case slice(start=None, stop=None, step=None):
                return Slice(self._operand(0, INDEX))
            case slice():
                raise self._error("a Python slice means from:to", "write (offset, size) or ALL")
            case (offset, size):
                return Slice(self._operand(offset, INDEX), None if size is None else self._operand(size, INDEX))
            case tuple():
                raise self._error("a slice is a pair", "write (offset, size) or ALL")
        return Slice(self._operand(entry, INDEX), None, True)

    # --- control -----------------------------------------------------------------------------------------------------

    @contextmanager
    def for_(
        self, start: Argument, stop: Argument, step: Argument = 1, *, type: ScalarType = INDEX, name: str = ""
    ) -> Iterator[Value]:
        """``for`` over [start, stop), as a context; gives the loop variable."""
        variable = self._result(type, name)
        bounds = [self._operand(bound, type) for bound in (start, stop, step)]
        loop = ops.For(variable=variable, start=bounds[0], stop=bounds[1], step=bounds[2], body=Region())
        loop = self._check(loop)
        with self._region() as body:
            yield variable
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
        types = [ops.scalar_type(variable) for variable in variables]
        first, last = (
            tuple(self._operand(bound, types[min(place, len(types) - 1)]) for place, bound in enumerate(bounds))
            for bounds in (starts, stops)
        )
        loop = self._check(ops.Foreach(variables=variables, starts=first, stops=last, body=Region()))
        with self._region() as body:
            yield variables
        self._regions[-1].append(replace(loop, body=Region(tuple(body))))

    @contextmanager
    def if_(self, condition: Argument, *types: ScalarType, names: Sequence[str] = ()) -> Iterator[Branch]:
        """``if``, as a context; with `types`, it returns values, and both its regions end in `yield_`."""
        padded = [*names, *[""] * (len(types) - len(names))]
        outputs = tuple(self._result(type, name) for type, name in zip(types, padded, strict=True))
        operation = self._check(ops.If(condition=self._operand(condition, I1), outputs=outputs, then=Region()))
        branch = Branch(outputs, operation)
        with self._region(types) as body:
            yield branch
        branch.operation = replace(operation, then=Region(tuple(body)))
        self._regions[-1].append(branch.operation)

    @contextmanager
    def else_(self) -> Iterator[None]:
        """``else`` of the ``if`` right before it, as a context."""
        last = self._regions[-1][-1] if self._regions[-1] else None
        if not isinstance(last, ops.If) or last.otherwise is not None:
            raise self._error("else_ does not follow an if_", "open it right behind the with block of if_")
        with self._region(tuple(ops.scalar_type(value) for value in last.outputs)) as body:
            yield
        self._regions[-1][-1] = replace(last, otherwise=Region(tuple(body)))

    def yield_(self, *values: Argument) -> None:
        """``yield``; numbers take the types that the ``if`` returns."""
        types = self._returned[-1]
        if len(values) != len(types):
            raise self._error(f"yield_ gives {counted(len(values), 'value')}, but {len(types)} are returned here")
        self._add(ops.Yield(values=tuple(map(self._operand, values, types))))

    # --- linear algebra ----------------------------------------------------------------------------------------------
    # Numbers for alpha and beta take the element type of the output.

    def axpby(
        self, alpha: Argument, A: Value, beta: Argument, B: Value, *, transpose: bool = False, atomic: bool = False
    ) -> None:
        """``axpby``: B := alpha op(A) + beta B"""
        self._linear_algebra(ops.Axpby, alpha, (A,), beta, B, (transpose,), atomic)

    def gemm(
        self,
        alpha: Argument,
        A: Value,
        B: Value,
        beta: Argument,
        C: Value,
        *,
        transpose_a: bool = False,
        transpose_b: bool = False,
        atomic: bool = False,
        precision: Precision | None = None,
    ) -> None:
        """``gemm``: C := alpha op(A) op(B) + beta C"""
        self._linear_algebra(ops.Gemm, alpha, (A, B), beta, C, (transpose_a, transpose_b), atomic, precision)

    def gemv(
        self,
        alpha: Argument,
        A: Value,
        b: Value,
        beta: Argument,
        c: Value,
        *,
        transpose: bool = False,
        atomic: bool = False,
        precision: Precision | None = None,
    ) -> None:
        """``gemv``: c := alpha op(A) b + beta c"""
        self._linear_algebra(ops.Gemv, alpha, (A, b), beta, c, (transpose,), atomic, precision)

    def ger(self, alpha: Argument, a: Value, b: Value, beta: Argument, C: Value, *, atomic: bool = False) -> None:
        """``ger``: C := alpha a bᵀ + beta C"""
        self._linear_algebra(ops.Ger, alpha, (a, b), beta, C, (), atomic)

    def hadamard(self, alpha: Argument, a: Value, b: Value, beta: Argument, c: Value, *, atomic: bool = False) -> None:
        """``hadamard``: c := alpha a ∘ b + beta c"""
        self._linear_algebra(ops.Hadamard, alpha, (a, b), beta, c, (), atomic)

    def sum(
        self, alpha: Argument, A: Value, beta: Argument, B: Value, *, transpose: bool = False, atomic: bool = False
    ) -> None:
        """``sum``: B := alpha op(A) 1 + beta B, or the sum of a vector"""
        self._linear_algebra(ops.Sum, alpha, (A,), beta, B, (transpose,), atomic)

    def _linear_algebra(
        self,
        kind: type[ops.LinearAlgebra],
        alpha: Argument,
        inputs: tuple[Value, ...],
        beta: Argument,
        output: Value,
        transposes: tuple[bool, ...],
        atomic: bool,
        precision: Precision | None = None,
    ) -> None:
        element = self._memref(output).element
        self._add(
            kind(
                alpha=self._operand(alpha, element),
                inputs=inputs,
                beta=self._operand(beta, element),
                output=output,
                transposes=transposes,
                atomic=atomic,
                precision=precision,
            )
        )

    # --- operands and results ----------------------------------------------------------------------------------------

    def _operand(self, argument: Argument, type: ScalarType) -> Operand:
        """Return a value as it is, a number as a constant of `type`."""
        if isinstance(argument, Value | Constant):
            return argument
        with self._located():
            return Constant(convert(_number(argument), type), type, _caller())

    def _indices(self, indices: Sequence[Argument]) -> tuple[Operand, ...]:
        return tuple(self._operand(index, INDEX) for index in indices)

    def _scalar_type(self, type: ScalarType | None, *arguments: Argument | None) -> ScalarType:
        """Return the given type, or that of the first operand that has one."""
        if type is not None:
            return type
        for argument in arguments:
            if isinstance(argument, Value | Constant):
                if isinstance(argument.type, ScalarType):
                    return argument.type
                raise self._error(f"a scalar is needed, but {argument} is {describe(argument.type)}", "load an element")
        raise self._error("no operand is a value, so that the type is unknown", "give the type: type=F32")

    def _memref(self, value: Value) -> MemrefType:
        if not isinstance(value, Value):
            raise self._error(f"a memref is needed, but {value!r} given", "give a value that the builder returned")
        if not isinstance(value.type, MemrefType):
            hint = "load one memref of the group first" if isinstance(value.type, GroupType) else None
            raise self._error(f"a memref is needed, but {value} is {describe(value.type)}", hint)
        return value.type

    def _result(self, type: Type | None, name: str) -> Value:
        """Return a new value, numbered if it has no name; its type is inferred later if it is None."""
        if name in self._names:
            raise self._error(f"%{name} is already defined", "give the value a name of its own")
        while not name:
            name, self._next = str(self._next), self._next + 1
            name = "" if name in self._names else name
        self._names.add(name)
        return Value(name, POISON if type is None else type, _caller())

    def _add(self, operation: Operation) -> None:
        self._check_operands(operation)
        self._regions[-1].append(self._check(operation))

    def _add_value(self, operation: Operation) -> Value:
        """Append an operation whose only result has its type inferred where that follows from the operands."""
        self._check_operands(operation)
        with self._located():
            type = result_type(operation)
        if type is not None:
            operation = replace(operation, result=replace(operation.results[0], type=type))  # type: ignore[call-arg]
        self._add(operation)
        return operation.results[0]

    def _check_operands(self, operation: Operation) -> None:
        for operand in operation.operands:
            if not isinstance(operand, Value | Constant):
                raise self._error(f"{operand!r} is no operand", "give a value that the builder returned")

    def _check(self, operation: _Built) -> _Built:
        """Return the operation with the caller's place.  Raises `TLVerifyError` if it breaks a rule."""
        operation = replace(operation, span=_caller())
        diagnostics = [_diagnostic(error) for error in operation_errors(operation)]
        if diagnostics:
            raise TLVerifyError.from_diagnostics(diagnostics)
        return operation

    @contextmanager
    def _region(self, types: tuple[ScalarType, ...] = ()) -> Iterator[list[Operation]]:
        """Collect the operations that are built inside the context; drop them if it ends in an exception."""
        body: list[Operation] = []
        self._regions.append(body)
        self._returned.append(types)
        try:
            yield body
        finally:
            self._regions.pop()
            self._returned.pop()

    @contextmanager
    def _located(self) -> Iterator[None]:
        """Give a broken rule the caller's place."""
        try:
            yield
        except RuleError as error:
            raise TLVerifyError.from_diagnostics([_diagnostic(error)]) from None

    def _error(self, message: str, hint: str | None = None) -> TLVerifyError:
        return TLVerifyError(message, (_diagnostic(RuleError(message, hint)),))


def _number(argument: object) -> Number:
    """Return a Python number for a Python or NumPy number."""
    match argument:
        case bool() | int() | float() | complex():
            return argument
        case Integral():
            return int(argument)
        case Real():
            return float(argument)
        case Complex():
            return complex(argument)
    raise RuleError(f"{argument!r} is no operand", "give a value that the builder returned, or a number")


def _diagnostic(error: RuleError) -> Diagnostic:
    span = _caller()
    return Diagnostic(error.message, span, error.hint, linecache.getline(span.file, span.line).rstrip() or None)


def _caller() -> Span:
    """Return the line of Python code that called the builder."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename in _INTERNAL:
        frame = frame.f_back
    file, line = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(file, line).rstrip()
    first = len(text) - len(text.lstrip()) + 1
    return Span(file, line, first, line, max(len(text), first) + 1)


_INTERNAL = (__file__, contextmanager.__code__.co_filename)
