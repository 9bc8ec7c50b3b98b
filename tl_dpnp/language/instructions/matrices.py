"""Cooperative matrices: matrices that a sub-group holds and computes with together.

What they have to do with memory is in `matrix_accesses`; arithmetic on them is that of `scalar`.

Source: tensor language reference 0.4, section "Cooperative matrix instructions".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from tl_dpnp.language.assembly import DIRECTIONS, Component, Direction, Matrix, Number, Result, Spelled
from tl_dpnp.language.ir import Constant, Operand, Operation, Value, matrix_type
from tl_dpnp.language.rule_error import RuleError
from tl_dpnp.language.rules import scalar_errors
from tl_dpnp.language.type_rules import check_type, describe
from tl_dpnp.language.types import CooperativeMatrixType, Type
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import BF16, F16, F32, ScalarType, is_lossless

if TYPE_CHECKING:
    from tl_dpnp.language.elaborate import Elaborator, ParseTree
    from tl_dpnp.language.interpreter.machine import Steps, WorkGroup


class CooperativeOperation(Spelled):
    """Base of the instructions that a sub-group does once, whose operands are the same for all its work-items."""

    is_newer = True
    among = "sub-group"
    waits = True

    def steps(self, group: WorkGroup) -> Steps:
        return tuple((yield group.meeting(self, group, self.jointly)))

    def jointly(self, groups: list[WorkGroup]) -> list[Any]:
        """Return the results for the sub-group of `groups`, its work-items."""
        self.check_uniform(groups)
        return list(self.execute(groups[0]))

    def check_uniform(self, groups: list[WorkGroup]) -> None:
        """Raise the error for a `Fault` where an operand is not the same for all, if undefined operations raise."""
        if groups[0].debug:
            operands = [operand for operand in self.operands if isinstance(operand, Value)]
            values = [[group.value(operand) for group in groups] for operand in operands]
            groups[0].matrices.check_uniform(operands, values, self.mnemonic)

    def matrix(self, value: Operand) -> CooperativeMatrixType:
        """Return the type of an operand.  Raises `RuleError` where it is no cooperative matrix."""
        if not isinstance(value.type, CooperativeMatrixType):
            raise RuleError(f"{self.mnemonic} needs a cooperative matrix, but {value} is {describe(value.type)}",
                            "write the name of a cooperative matrix", self.operands.index(value))
        return value.type

    def own_result(self) -> CooperativeMatrixType:
        """Return the type of the only result, which is annotated.  Raises `RuleError` for one that it cannot have."""
        type = self.results[0].type
        if not isinstance(type, CooperativeMatrixType):
            raise RuleError(f"{self.mnemonic} gives a cooperative matrix, not {describe(type)}",
                            "give the type of a cooperative matrix")
        check_type(type)
        return type


@dataclass(frozen=True)
class CooperativeMatrixConstruct(CooperativeOperation):
    """``cooperative_matrix_construct v : type``, and ``constant 1.0 : type``: all components are the same."""

    spelling = "cooperative_matrix_construct {value} : {result.coopmatrix_type}"
    example = "%A = cooperative_matrix_construct %v : coopmatrix<f32x16x8,matrix_acc>"

    value: Component
    result: Result

    @property
    def is_constant(self) -> bool:
        return isinstance(self.value, Constant)

    @property
    def is_zero(self) -> bool:
        return isinstance(self.value, Constant) and self.value.value == 0

    @classmethod
    def grammar(cls) -> dict[str, str]:
        return {**super().grammar(), "filled_instruction": '"constant" _constant ":" coopmatrix_type'}

    @classmethod
    def read(cls, elaborator: Elaborator, tree: ParseTree, results: tuple[Value, ...]) -> Operation:
        if tree.data != "filled_instruction":
            return super().read(elaborator, tree, results)
        literal, annotation = tree.children
        type = elaborator.type(annotation)
        component = type.component if isinstance(type, CooperativeMatrixType) else type
        return cls(value=elaborator.operand(literal, component), result=replace(results[0], type=type))

    def errors(self) -> Iterator[RuleError]:
        try:
            yield from scalar_errors((self.value,), self.own_result().component, first=0)
        except RuleError as error:
            yield error

    def steps(self, group: WorkGroup) -> Steps:
        return self.execute(group) if self.is_constant else (yield from super().steps(group))

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        value = group.value(self.value)
        return (group.matrices.made(matrix_type(self.result), lambda _i, _j: value),)


@dataclass(frozen=True)
class CooperativeMatrixMulAdd(CooperativeOperation):
    """``cooperative_matrix_mul_add A, B, C : type``: A · B + C."""

    spelling = "cooperative_matrix_mul_add {A}, {B}, {C} : {result.coopmatrix_type}"
    example = "%D = cooperative_matrix_mul_add %A, %B, %C : coopmatrix<f32x16x8,matrix_acc>"

    A: Matrix
    B: Matrix
    C: Matrix
    result: Result

    @property
    def kept(self) -> ScalarType:
        """The type that the result is summed up in before it is converted: f32 for narrow floats, else that of C."""
        component = matrix_type(self.C).component
        return F32 if component in (F16, BF16) else component

    def errors(self) -> Iterator[RuleError]:
        try:
            a, b, c, own = *map(self.matrix, (self.A, self.B, self.C)), self.own_result()
        except RuleError as error:
            yield error
            return
        operands = zip((self.A, self.B, self.C), (a, b, c), ("matrix_a", "matrix_b", "matrix_acc"), strict=True)
        for place, (operand, type, use) in enumerate(operands):
            if type.use != use:
                yield RuleError(f"{operand} has the use {type.use}, but {use} is needed here",
                                f"use a value of type {replace(type, use=use)}", place)
        if own.use != "matrix_acc":
            yield RuleError(f"{self.result} has the use {own.use}, but a product has matrix_acc",
                            f"write {replace(own, use='matrix_acc')}")
        if a.columns != b.rows:
            yield RuleError(f"the shapes do not fit: {self.A} has {a.columns} columns, but {self.B} {b.rows} rows",
                            "change a size", 1)
        shape = a.rows, b.columns
        for name, type in ((self.C, c), (self.result, own)):
            if type.shape != shape:
                message = f"the shapes do not fit: the product is {shape[0]}x{shape[1]}, but {name} has type {type}"
                yield RuleError(message, "change a size", 2 if name is self.C else None)
        for place, (operand, type) in enumerate(((self.A, a), (self.B, b))):
            if not is_lossless(type.component, c.component):
                message = f"{operand} has components of {type.component}, which do not convert to {c.component} " \
                          f"of {self.C} without loss"
                yield RuleError(message, f"cast {operand}, or use another type for {self.C}", place)
        if c.component.is_complex and not own.component.is_complex:
            yield RuleError(f"{c.component} does not cast to {own.component}: its imaginary part would be lost",
                            f"write {replace(own, component=c.component)}")

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        a, b, c = map(group.value, (self.A, self.B, self.C))
        return (group.matrices.multiplied(a, b, c, self.kept, matrix_type(self.result).component),)


@dataclass(frozen=True)
class CooperativeMatrixScale(CooperativeOperation):
    """``cooperative_matrix_scale v, A : type``: v · A."""

    spelling = "cooperative_matrix_scale {value}, {A} : {result.coopmatrix_type}"
    example = "%B = cooperative_matrix_scale %v, %A : coopmatrix<f32x16x8,matrix_acc>"

    value: Component
    A: Matrix
    result: Result

    def result_type(self) -> Type:
        return self.matrix(self.A)

    def errors(self) -> Iterator[RuleError]:
        if isinstance(self.A.type, CooperativeMatrixType):
            yield from scalar_errors((self.value,), self.A.type.component, first=0)

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        value, type = group.value(self.value), matrix_type(self.result)

        def scaled(values: dict[str, Any]) -> Any:
            return group.scalar.arith("mul", type.component, value, values["A"], False)

        return (group.matrices.componentwise(type, {"A": group.value(self.A)}, scaled),)


@dataclass(frozen=True)
class CooperativeMatrixReduction(CooperativeOperation):
    """Base of the reductions of each row to one component (``.row``), or of each column (``.column``)."""

    #: What two components are combined by.
    combination: ClassVar[str]

    direction: Direction
    A: Matrix
    result: Result

    @property
    def axis(self) -> int:
        """The mode that is reduced to one component."""
        return 1 if self.direction == DIRECTIONS[0] else 0

    def result_type(self) -> Type:
        type = self.matrix(self.A)
        return replace(type, columns=1) if self.axis else replace(type, rows=1)

    def errors(self) -> Iterator[RuleError]:
        if self.direction not in DIRECTIONS:
            yield RuleError(f"there is no direction {self.direction!r}", f"there are {', '.join(DIRECTIONS)}")
        if isinstance(self.A.type, CooperativeMatrixType) and self.A.type.component.is_complex:
            message = f"{self.mnemonic} does not work on components of {self.A.type.component}"
            yield RuleError(message, "reduce their real and imaginary parts, which re and im give", 0)

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        component = matrix_type(self.A).component
        return (group.matrices.reduced(self.combination, group.value(self.A), self.axis, component),)


class CooperativeMatrixReduceAdd(CooperativeMatrixReduction):
    """``cooperative_matrix_reduce_add.row A : type``: the sum of each row, or of each column."""

    spelling = "cooperative_matrix_reduce_add{direction} {A} : {result.coopmatrix_type}"
    example = "%b = cooperative_matrix_reduce_add.row %A : coopmatrix<f32x16x1,matrix_acc>"
    combination = "add"


class CooperativeMatrixReduceMax(CooperativeMatrixReduction):
    """``cooperative_matrix_reduce_max.row A : type``: the largest component of each row, or of each column."""

    spelling = "cooperative_matrix_reduce_max{direction} {A} : {result.coopmatrix_type}"
    example = "%b = cooperative_matrix_reduce_max.row %A : coopmatrix<f32x16x1,matrix_acc>"
    combination = "max"


class CooperativeMatrixReduceMin(CooperativeMatrixReduction):
    """``cooperative_matrix_reduce_min.row A : type``: the smallest component of each row, or of each column."""

    spelling = "cooperative_matrix_reduce_min{direction} {A} : {result.coopmatrix_type}"
    example = "%b = cooperative_matrix_reduce_min.row %A : coopmatrix<f32x16x1,matrix_acc>"
    combination = "min"


def own_components(type: CooperativeMatrixType, lanes: int) -> int:
    """Return how many components each of the work-items of a sub-group holds."""
    rows = min(type.rows, lanes)
    return -(-rows * type.columns // lanes) * (type.rows // rows)


def component_place(type: CooperativeMatrixType, lanes: int, lane: int, number: int) -> tuple[int, int]:
    """Return row and column of a component of a work-item; the column may be behind the last one, where there is none.

    Source: language 0.4, section "Cooperative matrices", "Layout".
    """
    rows = min(type.rows, lanes)
    block, column = divmod(number, -(-rows * type.columns // lanes))
    return lane % rows + rows * block, lane // rows + column * (lanes // rows)


class OwnComponent(CooperativeOperation):
    """Base of the instructions on a component of the work-item itself: number `component` of those that it holds."""

    if TYPE_CHECKING:
        A: Matrix
        component: Number

    def errors(self) -> Iterator[RuleError]:
        if self.component < 0:
            yield RuleError(f"there is no component {self.component}", "write a number from 0 on", len(self.operands))

    def size_errors(self, lanes: int) -> Iterator[RuleError]:
        """Yield what is wrong in a sub-group of so many work-items."""
        count = own_components(matrix_type(self.A), lanes)
        if self.component >= count:
            message = f"each of {lanes} work-items holds {count} components of {self.A}, and has no {self.component}"
            hint = f"write a number from 0 to {count - 1}" if count > 1 else "write 0"
            yield RuleError(message, hint, len(self.operands))

    def place(self, group: WorkGroup) -> tuple[int, int]:
        """Return row and column of the component of a work-item."""
        return component_place(matrix_type(self.A), group.launch.work_items.lanes, group.place[0], self.component)


@dataclass(frozen=True)
class CooperativeMatrixExtract(OwnComponent):
    """``cooperative_matrix_extract A[k] : type``: a component that the work-item holds."""

    spelling = "cooperative_matrix_extract {A}[{component}] : {result.scalar_type}"
    example = "%a = cooperative_matrix_extract %A[0] : f32"

    A: Matrix
    component: Number
    result: Result

    def result_type(self) -> Type:
        return self.matrix(self.A).component

    def steps(self, group: WorkGroup) -> Steps:
        (matrix,) = yield group.meeting(self, group, self.jointly)
        return (group.matrices.own(matrix, self.place(group)),)

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        return (group.value(self.A),)


@dataclass(frozen=True)
class CooperativeMatrixInsert(OwnComponent):
    """``cooperative_matrix_insert v, A[k] : type``: the matrix with another component in each work-item."""

    spelling = "cooperative_matrix_insert {value}, {A}[{component}] : {result.coopmatrix_type}"
    example = "%B = cooperative_matrix_insert %v, %A[0] : coopmatrix<f32x16x8,matrix_acc>"

    value: Component
    A: Matrix
    component: Number
    result: Result

    def result_type(self) -> Type:
        return self.matrix(self.A)

    def errors(self) -> Iterator[RuleError]:
        yield from super().errors()
        if isinstance(self.A.type, CooperativeMatrixType):
            yield from scalar_errors((self.value,), self.A.type.component, first=0)

    def jointly(self, groups: list[WorkGroup]) -> list[Any]:
        """Work-items give values of their own."""
        components = ((self.place(group), group.value(self.value)) for group in groups)
        return [groups[0].matrices.inserted(groups[0].value(self.A), components)]
