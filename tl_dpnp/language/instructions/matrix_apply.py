"""``cooperative_matrix_apply``: a region that computes each component of a cooperative matrix.

Source: tensor language reference 0.4, section "Cooperative matrix apply", and 0.5, which gives it several matrices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tl_dpnp.language.assembly import Writing
from tl_dpnp.language.instructions.componentwise import may_become
from tl_dpnp.language.instructions.matrices import CooperativeOperation, component_place, own_components
from tl_dpnp.language.ir import MISSING, POISON, Operation, Region, Value, matrix_type
from tl_dpnp.language.rule_error import RuleError, counted
from tl_dpnp.language.types import CooperativeMatrixType, Type
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import I32

if TYPE_CHECKING:
    from tl_dpnp.language.elaborate import Elaborator, ParseTree
    from tl_dpnp.language.interpreter.machine import Steps, WorkGroup


@dataclass(frozen=True)
class CooperativeMatrixApply(CooperativeOperation):
    """``cooperative_matrix_apply (%i, %j, %v, ...) = %A, ... -> type { ... yield (%w) }``.

    The work-items run the body for the components that they hold, with row, column and the components of `matrices`.
    """

    mnemonic = "cooperative_matrix_apply"
    example = "%B = cooperative_matrix_apply (%i, %j, %v) = %A -> coopmatrix<f32x16x8,matrix_acc> { yield (%v) }"
    shared = True

    variables: tuple[Value, ...]
    matrices: tuple[Value, ...]
    result: Value
    body: Region

    @property
    def regions(self) -> tuple[Region, ...]:
        return (self.body,)

    @property
    def loop_variables(self) -> tuple[Value, ...]:
        return self.variables

    @property
    def components(self) -> tuple[Value, ...]:
        """The variables that are components of the matrices."""
        return self.variables[2:]

    @property
    def yielded(self) -> tuple[Value, ...]:
        type = self.result.type
        return (Value("", type.component if isinstance(type, CooperativeMatrixType) else POISON),)

    @classmethod
    def grammar(cls) -> dict[str, str]:
        return {"cooperativematrixapply_instruction":
                f'"{cls.mnemonic}" "(" foreach_names ")" "=" foreach_names "->" coopmatrix_type region'}

    @classmethod
    def read(cls, elaborator: Elaborator, tree: ParseTree, results: tuple[Value, ...]) -> Operation:
        names, given, annotation, body = tree.children
        matrices = tuple(map(elaborator.matrix, given.children))
        type = elaborator.type(annotation)
        elaborator.place(annotation)
        if len(names.children) != len(matrices) + 2:
            message = (f"an apply to {counted(len(matrices), 'matrix', 'matrices')} has "
                       f"{counted(len(names.children), 'name')}")
            hint = "write names for the row, the column and a component of each matrix: (%i, %j, %v)"
            elaborator.report(message, elaborator.source.span(names), hint)
            matrices = (*matrices, MISSING)
        types: list[Type] = [I32, I32, *(
            each.type.component if isinstance(each.type, CooperativeMatrixType) else POISON for each in matrices)]
        padded = [*types, *[POISON] * len(names.children)]
        variables = tuple(Value(str(name[1:]), padded[place], elaborator.source.span(name))
                          for place, name in enumerate(names.children))
        returned: tuple[Type, ...] = (type.component if isinstance(type, CooperativeMatrixType) else POISON,)
        return cls(variables=variables, matrices=matrices, result=replace(results[0], type=type),
                   body=elaborator.region(body, variables, returned))

    def spell(self, writing: Writing) -> str:
        names, matrices = ", ".join(map(str, self.variables)), ", ".join(map(str, self.matrices))
        return f"{self.mnemonic} ({names}) = {matrices} -> {writing.type_of(self.result)}"

    def errors(self) -> Iterator[RuleError]:
        try:
            types, own = tuple(map(self.matrix, self.matrices)), self.own_result()
        except RuleError as error:
            yield error
            return
        if not types or len(self.variables) != len(types) + 2:
            yield RuleError(f"an apply to {counted(len(types), 'matrix', 'matrices')} has "
                            f"{counted(len(self.variables), 'variable')}", "give row, column and a component of each")
            return
        for place, (matrix, type) in enumerate(zip(self.matrices, types, strict=True)):
            if not may_become(type, own):
                yield RuleError(f"{self.mnemonic} gives a matrix of type {own}, and {matrix} has type {type}",
                                f"use a value of type {replace(own, component=type.component)}", place)
        expected = (I32, I32, *(type.component for type in types))
        for variable, needed in zip(self.variables, expected, strict=True):
            if variable.type != needed:
                yield RuleError(f"{variable} has type {variable.type}, but type {needed} is needed")

    def steps(self, group: WorkGroup) -> Steps:
        """Compute the own components; those of all make the matrix."""
        type, lanes = matrix_type(self.result), group.launch.work_items.lanes
        arrays = [group.value(matrix) for matrix in self.matrices]
        found: dict[tuple[int, int], Any] = {}
        for number in range(own_components(type, lanes)):
            i, j = component_place(type, lanes, group.place[0], number)
            if j < type.columns:
                place = (group.scalar.from_python(index, I32) for index in (i, j))
                values = (*place, *(array[i, j] for array in arrays))
                for variable, value in zip(self.variables, values, strict=True):
                    group.values[variable.name] = value
                (found[i, j],) = group.run(self.body)

        def joined(parts: list[tuple[WorkGroup, dict[tuple[int, int], Any]]]) -> list[Any]:
            self.check_uniform([item for item, _ in parts])
            components = {place: value for _, part in parts for place, value in part.items()}
            return [group.matrices.made(type, lambda i, j: components[i, j])]

        return tuple((yield group.meeting(self, (group, found), joined)))
