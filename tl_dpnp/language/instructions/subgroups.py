"""Sub-group instructions: what the work-items of a sub-group compute of a value of each.

Source: tensor language reference 0.4, sections "Subgroup broadcast", "Subgroup reduce" and "Subgroup scan".
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar

from tl_dpnp.language.assembly import Lane, Result, Spelled
from tl_dpnp.language.building import Argument, Building
from tl_dpnp.language.instructions.mathematics import MATHEMATICS
from tl_dpnp.language.instructions.scalar import ARITHMETIC
from tl_dpnp.language.ir import Constant, Operand, Value, scalar_type
from tl_dpnp.language.rule_error import RuleError
from tl_dpnp.language.rules import kind_errors, scalar_errors
from tl_dpnp.language.type_rules import describe
from tl_dpnp.language.types import Type
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import I32, ScalarType

if TYPE_CHECKING:
    from tl_dpnp.language.interpreter.machine import Steps, WorkGroup
    from tl_dpnp.language.interpreter.scalar import Scalar


@dataclass(frozen=True)
class SubgroupExchange(Spelled):
    """Base of the instructions for which all work-items of a sub-group give a value, their `operand`."""

    is_newer = True
    among = "sub-group"
    waits = True

    operand: Operand

    def result_type(self) -> Type:
        if not isinstance(self.operand.type, ScalarType):
            raise RuleError(f"{self.mnemonic} works on scalars, not on {describe(self.operand.type)}", None, 0)
        return self.operand.type

    def steps(self, group: WorkGroup) -> Steps:
        """Give the own value; get those of all work-items of the sub-group."""
        values = yield group.meeting(self, group.value(self.operand))
        return (self.result_of(group, values),)

    def result_of(self, group: WorkGroup, values: list[Scalar]) -> Scalar:
        """Return the result of the work-item of `group` from the values of its sub-group."""
        raise NotImplementedError(self.mnemonic)


@dataclass(frozen=True)
class SubgroupBroadcast(SubgroupExchange):
    """``subgroup_broadcast a, l : type``: the value of the work-item l of the sub-group, in all of them."""

    spelling = "subgroup_broadcast {operand}, {lane} : {operand.scalar_type}"
    example = "%b = subgroup_broadcast %a, %l : f32"

    lane: Lane
    result: Result

    def errors(self) -> Iterator[RuleError]:
        yield from kind_errors(self.mnemonic, self.operand.type, ARITHMETIC["add"])
        yield from scalar_errors((self.lane,), I32, first=1)
        if isinstance(self.lane, Constant) and not isinstance(self.lane.value, complex) and self.lane.value < 0:
            yield RuleError(f"there is no work-item {self.lane.value} in a sub-group", "write a number from 0 on", 1)

    def result_of(self, group: WorkGroup, values: list[Scalar]) -> Scalar:
        lane = group.index(self.lane)
        if not 0 <= lane < len(values):
            raise group.fault(f"a sub-group of {len(values)} work-items has no work-item {lane}",
                              f"write a number from 0 to {len(values) - 1}")
        return values[lane]


@dataclass(frozen=True)
class SubgroupReduction(SubgroupExchange):
    """Base of the instructions that combine the values of work-items by an operation on two of them, `combination`.

    They are all those of the sub-group, or where it `is_scan` those before the own one, and that if it `has_own`.
    """

    combination: ClassVar[str]
    is_scan: ClassVar[bool] = True
    has_own: ClassVar[bool] = True

    result: Result

    def errors(self) -> Iterator[RuleError]:
        kinds = ARITHMETIC["add"] if self.combination == "add" else MATHEMATICS[self.combination].kinds
        for error in kind_errors(self.mnemonic, self.operand.type, kinds):
            is_truth = scalar_type(self.operand).is_boolean
            yield RuleError(error.message, "cast it to i32 first" if is_truth else "complex numbers have no order", 0)

    @property
    def neutral(self) -> int | float | complex:
        """What changes no number that it is combined with: 0, or the greatest or the least of the type."""
        type = scalar_type(self.operand)
        if self.combination == "add":
            return 0j if type.is_complex else 0 if type.is_integer else 0.0
        is_least = self.combination == "max"
        if type.is_integer:
            return type.minimum if is_least else type.maximum
        return -math.inf if is_least else math.inf

    def result_of(self, group: WorkGroup, values: list[Scalar]) -> Scalar:
        type, count = scalar_type(self.operand), group.place[0] + self.has_own if self.is_scan else len(values)
        if count == 0:
            return group.scalar.from_python(self.neutral, type)

        def combined(a: Scalar, b: Scalar) -> Scalar:
            if self.combination == "add":
                return group.scalar.arith("add", type, a, b, False)
            meaning = MATHEMATICS[self.combination]
            return group.scalar.mathematics(meaning.meaning, type, (a, b), meaning.is_exact)

        return functools.reduce(combined, values[:count])


class SubgroupReduce(SubgroupReduction):
    """Base of the reductions over the whole sub-group, whose result all its work-items get."""

    is_scan = False


class SubgroupInclusiveScan(SubgroupReduction):
    """Base of the reductions over the work-items up to the own one."""


class SubgroupExclusiveScan(SubgroupReduction):
    """Base of the reductions over the work-items before the own one."""

    has_own = False


class SubgroupReduceAdd(SubgroupReduce):
    """``subgroup_reduce_add a : type``: the sum of all work-items of the sub-group."""

    spelling = "subgroup_reduce_add {operand} : {operand.scalar_type}"
    example = "%b = subgroup_reduce_add %a : f32"
    combination = "add"


class SubgroupReduceMax(SubgroupReduce):
    """``subgroup_reduce_max a : type``: the largest of all work-items of the sub-group."""

    spelling = "subgroup_reduce_max {operand} : {operand.scalar_type}"
    example = "%b = subgroup_reduce_max %a : f32"
    combination = "max"


class SubgroupReduceMin(SubgroupReduce):
    """``subgroup_reduce_min a : type``: the smallest of all work-items of the sub-group."""

    spelling = "subgroup_reduce_min {operand} : {operand.scalar_type}"
    example = "%b = subgroup_reduce_min %a : f32"
    combination = "min"


class SubgroupInclusiveScanAdd(SubgroupInclusiveScan):
    """``subgroup_inclusive_scan_add a : type``: the sum of the work-items up to the own one."""

    spelling = "subgroup_inclusive_scan_add {operand} : {operand.scalar_type}"
    example = "%b = subgroup_inclusive_scan_add %a : f32"
    combination = "add"


class SubgroupInclusiveScanMax(SubgroupInclusiveScan):
    """``subgroup_inclusive_scan_max a : type``: the largest of the work-items up to the own one."""

    spelling = "subgroup_inclusive_scan_max {operand} : {operand.scalar_type}"
    example = "%b = subgroup_inclusive_scan_max %a : f32"
    combination = "max"


class SubgroupInclusiveScanMin(SubgroupInclusiveScan):
    """``subgroup_inclusive_scan_min a : type``: the smallest of the work-items up to the own one."""

    spelling = "subgroup_inclusive_scan_min {operand} : {operand.scalar_type}"
    example = "%b = subgroup_inclusive_scan_min %a : f32"
    combination = "min"


class SubgroupExclusiveScanAdd(SubgroupExclusiveScan):
    """``subgroup_exclusive_scan_add a : type``: the sum of the work-items before the own one."""

    spelling = "subgroup_exclusive_scan_add {operand} : {operand.scalar_type}"
    example = "%b = subgroup_exclusive_scan_add %a : f32"
    combination = "add"


class SubgroupExclusiveScanMax(SubgroupExclusiveScan):
    """``subgroup_exclusive_scan_max a : type``: the largest of the work-items before the own one."""

    spelling = "subgroup_exclusive_scan_max {operand} : {operand.scalar_type}"
    example = "%b = subgroup_exclusive_scan_max %a : f32"
    combination = "max"


class SubgroupExclusiveScanMin(SubgroupExclusiveScan):
    """``subgroup_exclusive_scan_min a : type``: the smallest of the work-items before the own one."""

    spelling = "subgroup_exclusive_scan_min {operand} : {operand.scalar_type}"
    example = "%b = subgroup_exclusive_scan_min %a : f32"
    combination = "min"


def _method(kind: type[SubgroupReduction]) -> Callable[..., Value]:
    """Return the method of the builder for a reduction."""
    def method(
        self: Building, operand: Argument, *, type: ScalarType | None = None, name: str = ""
    ) -> Value:
        value = self._operand(operand, self._scalar_type(type, operand))
        return self._add_value(kind(operand=value, result=self._result(None, name)))

    method.__doc__ = f"``{kind.mnemonic}``; `type` is needed where the operand is a number."
    return method


class SubgroupMethods(Building):
    """What a function builder has for sub-group instructions."""

    def subgroup_broadcast(
        self, operand: Argument, lane: Argument, *, type: ScalarType | None = None, name: str = ""
    ) -> Value:
        """``subgroup_broadcast``; `type` is needed where the operand is a number."""
        value = self._operand(operand, self._scalar_type(type, operand))
        return self._add_value(SubgroupBroadcast(operand=value, lane=self._operand(lane, I32),
                                                 result=self._result(None, name)))

    subgroup_reduce_add = _method(SubgroupReduceAdd)
    subgroup_reduce_max = _method(SubgroupReduceMax)
    subgroup_reduce_min = _method(SubgroupReduceMin)
    subgroup_inclusive_scan_add = _method(SubgroupInclusiveScanAdd)
    subgroup_inclusive_scan_max = _method(SubgroupInclusiveScanMax)
    subgroup_inclusive_scan_min = _method(SubgroupInclusiveScanMin)
    subgroup_exclusive_scan_add = _method(SubgroupExclusiveScanAdd)
    subgroup_exclusive_scan_max = _method(SubgroupExclusiveScanMax)
    subgroup_exclusive_scan_min = _method(SubgroupExclusiveScanMin)
