"""Scalar instructions: arithmetic, comparisons, casts, and the place in the launch.

Source: tensor language reference, sections "Arithmetic", "Cast", "Comparison", "Group id" and "Group size".
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from tl_dpnp.language.assembly import Kind, Result, Spelled, axis_errors
from tl_dpnp.language.building import Argument, Building
from tl_dpnp.language.extents import AXES, Axis
from tl_dpnp.language.instructions.componentwise import matrix_errors, on_components
from tl_dpnp.language.ir import MISSING, POISON, Constant, Operand, Operation, Value, matrix_type, scalar_type
from tl_dpnp.language.rule_error import RuleError
from tl_dpnp.language.rules import kind_errors, scalar_errors
from tl_dpnp.language.type_rules import describe
from tl_dpnp.language.types import CooperativeMatrixType
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import I1, INDEX, SCALAR_TYPES, ScalarType

if TYPE_CHECKING:
    from tl_dpnp.language.elaborate import Elaborator, ParseTree
    from tl_dpnp.language.interpreter.machine import Steps, WorkGroup

#: Binary arithmetic: name → the kinds of scalar that it accepts.
ARITHMETIC: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("add", "sub", "mul", "div"), ("signed", "unsigned", "float", "complex")),
    "rem": ("signed", "unsigned", "float"),
    **dict.fromkeys(("shl", "shr"), ("signed", "unsigned")),
    **dict.fromkeys(("and", "or", "xor"), ("signed", "unsigned", "boolean")),
}
#: Unary arithmetic: name → the kinds of scalar that it accepts.
UNARY: dict[str, tuple[str, ...]] = {
    "neg": ("signed", "unsigned", "float", "complex"),
    "not": ("signed", "unsigned", "boolean"),
    "conj": ("complex",),
}
#: Comparisons: name → the word that stands for ``cmp.<name>`` in the dialect 0.4, which annotates the result.
COMPARISONS: dict[str, str] = {
    "eq": "equal", "ne": "not_equal", "gt": "greater_than", "ge": "greater_than_equal", "lt": "less_than",
    "le": "less_than_equal",
}


def named(kinds: Iterable[str]) -> dict[str, str]:
    """Return words that are the kinds themselves."""
    return {kind: kind for kind in kinds}


class ScalarOperation(Spelled):
    """Base of the instructions that compute a scalar of scalars and do nothing else, on each lane of vectors alike.

    Those that are `on_matrices` compute cooperative matrices as well, component by component; such a one `converts`
    components, and keeps the use of its operand if it `keeps_use`.
    """

    pure = True
    on_matrices: ClassVar[bool] = True
    converts: ClassVar[bool] = False
    keeps_use: ClassVar[bool] = True

    @property
    def is_total(self) -> bool:
        """Whether it ends well for all operands, so that it may be done where the program does not do it."""
        return True

    @property
    def changes_components(self) -> bool:
        """Whether components of a matrix may have another type than those of its operands."""
        return self.converts

    @property
    def name(self) -> str:
        """What errors call it."""
        kind: str = getattr(self, "kind", self.mnemonic)
        return kind

    def rules(self) -> Iterator[RuleError]:
        """Yield an error for every rule that the operation breaks on scalars."""
        yield from ()

    def errors(self) -> Iterator[RuleError]:
        if not self.is_cooperative or not self.on_matrices:
            yield from self.rules()
            return
        errors = list(matrix_errors(self, self.name, converts=self.changes_components, keeps_use=self.keeps_use))
        yield from errors or on_components(self).rules()

    def steps(self, group: WorkGroup) -> Steps:
        """Compute a cooperative matrix."""
        operands = [operand for operand in self.operands if isinstance(operand, Value)]
        matrices = {operand.name: group.value(operand) for operand in operands}
        single = on_components(self)

        def computed(_: list[Any]) -> list[Any]:
            return [group.matrices.componentwise(matrix_type(self.results[0]), matrices,
                                                 lambda values: single.execute(group.with_values(values))[0])]

        return tuple((yield group.meeting(self, None, computed)))


@dataclass(frozen=True)
class Arith(ScalarOperation):
    """``arith.<kind> a, b : type`` — both operands and the result have one scalar type; `kind` is in `ARITHMETIC`."""

    spelling = "arith{kind} {lhs}, {rhs} : {result.scalar_type}"
    newer_spelling = "{kind} {lhs}, {rhs} : {result._value_type}"
    example = "%c = arith.add %a, %b : f32"
    kinds = tuple(ARITHMETIC)
    words = named(ARITHMETIC)

    kind: Kind
    lhs: Operand
    rhs: Operand
    result: Result

    @property
    def is_total(self) -> bool:
        type = self.result.type
        if self.kind not in ("div", "rem") or not isinstance(type, ScalarType) or not type.is_integer:
            return True
        return isinstance(self.rhs, Constant) and self.rhs.value not in (0, -1)

    def rules(self) -> Iterator[RuleError]:
        yield from kind_errors(f"arith.{self.kind}", self.result.type, ARITHMETIC.get(self.kind))
        yield from scalar_errors((self.lhs, self.rhs), self.result.type, first=0)
        divisor = self.rhs
        if self.kind in ("div", "rem") and isinstance(divisor, Constant) and divisor.type.is_integer and (
            divisor.value == 0
        ):
            yield RuleError("integer division by zero", "write a divisor other than 0", 1)

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        lhs, rhs = group.value(self.lhs), group.value(self.rhs)
        return (group.scalar.arith(self.kind, scalar_type(self.result), lhs, rhs, group.debug),)


@dataclass(frozen=True)
class Unary(ScalarOperation):
    """``arith.neg``, ``arith.not`` and ``arith.conj``; `kind` is in `UNARY`."""

    spelling = "arith{kind} {operand} : {result.scalar_type}"
    newer_spelling = "{kind} {operand} : {result._value_type}"
    example = "%b = arith.neg %a : f32"
    kinds = tuple(UNARY)
    words = named(UNARY)

    kind: Kind
    operand: Operand
    result: Result

    def rules(self) -> Iterator[RuleError]:
        yield from kind_errors(f"arith.{self.kind}", self.result.type, UNARY.get(self.kind))
        yield from scalar_errors((self.operand,), self.result.type, first=0)

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        return (group.scalar.unary(self.kind, scalar_type(self.result), group.value(self.operand)),)


@dataclass(frozen=True)
class Cast(ScalarOperation):
    """``cast a : from -> to``; a cast to i1 asks whether the value differs from zero."""

    spelling = "cast {operand} : {operand.scalar_type} -> {result.scalar_type}"
    newer_spelling = "cast {operand} : {result._value_type}"
    example = "%b = cast %a : i32 -> f32"
    takes_subbyte = True
    converts = True
    keeps_use = False

    operand: Operand
    result: Result

    def rules(self) -> Iterator[RuleError]:
        source, target = self.operand.type, self.result.type
        if not isinstance(source, ScalarType) or not isinstance(target, ScalarType):
            yield RuleError(f"cast works on scalars, not on {describe(source)}", None, 0)
        elif source.is_complex and not (target.is_complex or target.is_boolean):
            message = f"{source} does not cast to {target}: its imaginary part would be lost"
            yield RuleError(message, "cast it to c32, c64 or i1", 0)

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        source, target = scalar_type(self.operand), scalar_type(self.result)
        return (group.scalar.convert(group.value(self.operand), source, target, group.debug),)


@dataclass(frozen=True)
class Bitcast(ScalarOperation):
    """``bitcast a : from -> to`` — the bits of an integer as a float of its size, or the other way round.

    Source: language 0.5, which annotates the result alone; to write it as 0.3 writes a cast is an extension.  The bits
    of a NaN of f16 or bf16 may become those of another NaN: both are computed with in f32.
    """

    spelling = "bitcast {operand} : {operand.scalar_type} -> {result.scalar_type}"
    newer_spelling = "bitcast {operand} : {result._value_type}"
    example = "%b = bitcast %a : f32 -> i32"
    converts = True
    keeps_use = False

    operand: Operand
    result: Result

    def rules(self) -> Iterator[RuleError]:
        source, target = self.operand.type, self.result.type
        if not isinstance(source, ScalarType) or not isinstance(target, ScalarType):
            yield RuleError(f"bitcast works on scalars, not on {describe(source)}", None, 0)
        elif not is_bitcast(source, target):
            others = [to.name for to in SCALAR_TYPES.values() if is_bitcast(source, to)]
            hint = f"the bits of {source} are those of {' and '.join(others)}" if others else None
            yield RuleError(f"there is no bitcast from {source} to {target}", hint, 0)

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        source, target = scalar_type(self.operand), scalar_type(self.result)
        return (group.scalar.reinterpret(group.value(self.operand), source, target),)


def is_bitcast(source: ScalarType, target: ScalarType) -> bool:
    """Return whether one of two types is a signed integer of 16 to 64 bits and the other a float of its size.

    Source: language 0.5, section "What 0.5 adds"; the complex type c32 besides, whose real part is in the low bits.
    """
    integer, other = (source, target) if source.is_integer else (target, source)
    return (integer.kind == "signed" and integer != INDEX and other.bits == integer.bits
            and (other.is_float or other.is_complex))


@dataclass(frozen=True)
class Part(ScalarOperation):
    """Base of ``re`` and ``im``, which give a part of a complex number.

    Source: language 0.4, section "Arithmetic (unary)", which annotates the result alone; to write it as 0.3 writes a
    cast is an extension.
    """

    #: 0 for the real part and 1 for the imaginary one.
    part: ClassVar[int]
    converts = True

    operand: Operand
    result: Result

    def rules(self) -> Iterator[RuleError]:
        source, target = self.operand.type, self.result.type
        if not isinstance(source, ScalarType):
            yield RuleError(f"{self.mnemonic} works on scalars, not on {describe(source)}", None, 0)
        elif not source.is_complex:
            yield RuleError(f"{self.mnemonic} works on complex numbers, not on {source}", "use c32 or c64", 0)
        elif target != source.part:
            hint = f"the parts of {source} are of type {source.part}"
            yield RuleError(f"{self.mnemonic} of {source} is not of type {target}", hint)

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        return (group.scalar.part(self.part, group.value(self.operand)),)


class Re(Part):
    """``re a : from -> to``; `to` is the type of the part."""

    spelling = "re {operand} : {operand.scalar_type} -> {result.scalar_type}"
    newer_spelling = "re {operand} : {result._value_type}"
    example = "%b = re %a : c32 -> f32"
    part = 0


class Im(Part):
    """``im a : from -> to``; `to` is the type of the part."""

    spelling = "im {operand} : {operand.scalar_type} -> {result.scalar_type}"
    newer_spelling = "im {operand} : {result._value_type}"
    example = "%b = im %a : c32 -> f32"
    part = 1


@dataclass(frozen=True)
class Cmplx(ScalarOperation):
    """``cmplx a, b : from -> to`` (an extension): the complex number a + b i, of floats of the type of its parts."""

    spelling = "cmplx {real}, {imaginary} : {real.scalar_type} -> {result.scalar_type}"
    newer_spelling = "cmplx {real}, {imaginary} : {result.scalar_type}"
    example = "%c = cmplx %a, %b : f32 -> c32"
    on_matrices = False

    real: Operand
    imaginary: Operand
    result: Result

    def rules(self) -> Iterator[RuleError]:
        target = self.result.type
        if not isinstance(target, ScalarType) or not target.is_complex:
            yield RuleError(f"cmplx makes complex numbers, not {describe(target)}", "use c32 or c64")
        else:
            yield from scalar_errors((self.real, self.imaginary), target.part, first=0)

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        parts = group.value(self.real), group.value(self.imaginary)
        return (group.scalar.cmplx(scalar_type(self.result), *parts),)


@dataclass(frozen=True)
class Compare(ScalarOperation):
    """``cmp.<kind> a, b : type``; the result is i1; `kind` is in `COMPARISONS`."""

    spelling = "cmp{kind} {lhs}, {rhs} : {lhs.scalar_type}"
    newer_spelling = "{kind} {lhs}, {rhs} : {result.scalar_type}"
    example = "%c = cmp.lt %a, %b : i32"
    newer_example = "%c = less_than %a, %b : bool"
    kinds = tuple(COMPARISONS)
    words = COMPARISONS
    on_matrices = False

    kind: Kind
    lhs: Operand
    rhs: Operand
    result: Result

    @classmethod
    def read(cls, elaborator: Elaborator, tree: ParseTree, results: tuple[Value, ...]) -> Operation:
        """The types of the operands and of the result are easily mixed up."""
        kind, *operands, annotation = tree.children
        own = next((type for type in map(elaborator.type_of, operands) if type is not POISON), POISON)
        word = elaborator.word(kind)
        if word in cls.kinds and elaborator.type(annotation) == I1 and own not in (I1, POISON):
            message = f"cmp.{word} is annotated with the type of its operands, {own}, not with that of the result"
            hint = f"write {cls.words[word]} ... : bool, or cmp.{word} ... : {own}"
            elaborator.report(message, elaborator.source.span(annotation), hint)
            return cls(kind=word, lhs=MISSING, rhs=MISSING, result=results[0])
        return super().read(elaborator, tree, results)

    def result_type(self) -> ScalarType:
        return I1

    def rules(self) -> Iterator[RuleError]:
        type = self.lhs.type
        if self.kind not in COMPARISONS:
            yield RuleError(f"there is no instruction cmp.{self.kind}")
        if not isinstance(type, ScalarType):
            yield RuleError(f"cmp.{self.kind} works on scalars, not on {describe(type)}", None, 0)
            return
        if type.is_complex and self.kind not in ("eq", "ne"):
            message = f"cmp.{self.kind} does not work on {type}: complex numbers have no order"
            yield RuleError(message, "use cmp.eq or cmp.ne")
        yield from scalar_errors((self.rhs,), type, first=1)

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        return (group.scalar.compare(self.kind, group.value(self.lhs), group.value(self.rhs)),)


@dataclass(frozen=True)
class LaunchPlace(Spelled):
    """Base of what says which work-group this is, and of how many; 0.3 knows the first axis of a launch only."""

    pure = True

    result: Result
    axis: Axis = AXES[0]

    def errors(self) -> Iterator[RuleError]:
        yield from axis_errors(self.mnemonic, self.axis)

    def result_type(self) -> ScalarType:
        return INDEX


class GroupId(LaunchPlace):
    """``group_id``: index of this work-group along an axis, from 0 to the number of work-groups there − 1."""

    spelling = "group_id"
    newer_spelling = "group_id{axis} : {result.scalar_type}"
    example = "%i = group_id"
    remark = " or %i = group_id.x : index"

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        return (group.scalar.from_python(group.group_place[AXES.index(self.axis)], INDEX),)


class GroupSize(LaunchPlace):
    """``group_size``, in 0.4 ``num_groups.x``: number of work-groups of the launch along an axis."""

    spelling = "group_size"
    newer_spelling = "num_groups{axis} : {result.scalar_type}"
    example = "%n = group_size"
    remark = " or %n = num_groups.x : index"
    newer_example = "%n = num_groups.x : index"

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        return (group.scalar.from_python(group.launch.extents[AXES.index(self.axis)], INDEX),)


def part_type(whole: ScalarType | CooperativeMatrixType) -> ScalarType | CooperativeMatrixType:
    """Return the type of the parts of complex numbers, or of the matrix of them; of others the type itself."""
    return whole.part if isinstance(whole, ScalarType) else replace(whole, component=whole.component.part)


class ScalarMethods(Building):
    """What a function builder has for scalar instructions."""

    def arith(
        self, kind: str, lhs: Argument, rhs: Argument | None = None, *, type: ScalarType | None = None, name: str = ""
    ) -> Value:
        """``arith.<kind>``, binary or unary; `type` is needed where no operand is a value."""
        value_type = self._value_type(type, lhs, rhs)
        left, result = self._operand(lhs, value_type), self._result(value_type, name)
        if rhs is None:
            return self._add_value(Unary(kind=kind, operand=left, result=result))
        return self._add_value(Arith(kind=kind, lhs=left, rhs=self._operand(rhs, value_type), result=result))

    def add(self, lhs: Argument, rhs: Argument, *, type: ScalarType | None = None, name: str = "") -> Value:
        """``arith.add``"""
        return self.arith("add", lhs, rhs, type=type, name=name)

    def sub(self, lhs: Argument, rhs: Argument, *, type: ScalarType | None = None, name: str = "") -> Value:
        """``arith.sub``"""
        return self.arith("sub", lhs, rhs, type=type, name=name)

    def mul(self, lhs: Argument, rhs: Argument, *, type: ScalarType | None = None, name: str = "") -> Value:
        """``arith.mul``"""
        return self.arith("mul", lhs, rhs, type=type, name=name)

    def div(self, lhs: Argument, rhs: Argument, *, type: ScalarType | None = None, name: str = "") -> Value:
        """``arith.div``"""
        return self.arith("div", lhs, rhs, type=type, name=name)

    def rem(self, lhs: Argument, rhs: Argument, *, type: ScalarType | None = None, name: str = "") -> Value:
        """``arith.rem``"""
        return self.arith("rem", lhs, rhs, type=type, name=name)

    def neg(self, operand: Argument, *, type: ScalarType | None = None, name: str = "") -> Value:
        """``arith.neg``"""
        return self.arith("neg", operand, type=type, name=name)

    def cmp(self, kind: str, lhs: Argument, rhs: Argument, *, type: ScalarType | None = None, name: str = "") -> Value:
        """``cmp.<kind>``; `type` is needed where no operand is a value."""
        scalar = self._scalar_type(type, lhs, rhs)
        left, right = self._operand(lhs, scalar), self._operand(rhs, scalar)
        return self._add_value(Compare(kind=kind, lhs=left, rhs=right, result=self._result(I1, name)))

    def cast(
        self, operand: Argument, type: ScalarType | CooperativeMatrixType, *, source: ScalarType | None = None,
        name: str = "",
    ) -> Value:
        """``cast`` to `type`; `source` is the type of the operand, needed where that is a number."""
        value = self._operand(operand, self._value_type(source, operand))
        return self._add_value(Cast(operand=value, result=self._result(self._checked_value_type(type), name)))

    def bitcast(
        self, operand: Argument, type: ScalarType | CooperativeMatrixType, *, source: ScalarType | None = None,
        name: str = "",
    ) -> Value:
        """``bitcast`` to `type`; `source` is the type of the operand, needed where that is a number."""
        value = self._operand(operand, self._value_type(source, operand))
        return self._add_value(Bitcast(operand=value, result=self._result(self._checked_value_type(type), name)))

    def conj(self, operand: Argument, *, type: ScalarType | None = None, name: str = "") -> Value:
        """``arith.conj``"""
        return self.arith("conj", operand, type=type, name=name)

    def re(self, operand: Argument, *, type: ScalarType | None = None, name: str = "") -> Value:
        """``re``, the real part; `type` is the complex type, needed where the operand is a number."""
        return self._part(Re, operand, type, name)

    def im(self, operand: Argument, *, type: ScalarType | None = None, name: str = "") -> Value:
        """``im``, the imaginary part; `type` is the complex type, needed where the operand is a number."""
        return self._part(Im, operand, type, name)

    def cmplx(self, real: Argument, imaginary: Argument, type: ScalarType, *, name: str = "") -> Value:
        """``cmplx`` of the complex type `type`"""
        whole = self._checked_type(type)
        first, second = (self._operand(part, whole.part) for part in (real, imaginary))
        return self._add_value(Cmplx(real=first, imaginary=second, result=self._result(whole, name)))

    def _part(self, kind: builtins.type[Part], operand: Argument, type: ScalarType | None, name: str) -> Value:
        whole = self._value_type(type, operand)
        return self._add_value(kind(operand=self._operand(operand, whole), result=self._result(part_type(whole), name)))

    def group_id(self, axis: Axis = AXES[0], *, name: str = "") -> Value:
        """``group_id``"""
        return self._add_value(GroupId(result=self._result(INDEX, name), axis=axis))

    def group_size(self, axis: Axis = AXES[0], *, name: str = "") -> Value:
        """``group_size``, in 0.4 ``num_groups``"""
        return self._add_value(GroupSize(result=self._result(INDEX, name), axis=axis))
