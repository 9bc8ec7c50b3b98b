"""Instructions on memory: temporaries, barriers, loads and stores of elements.

Source: tensor language reference, sections "Alloca", "Barrier", "Lifetime stop", "Load" and "Store".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tl_dpnp.language.assembly import Alignment, Element, Indices, Memref, Result, Spelled
from tl_dpnp.language.assertions import alignment_error
from tl_dpnp.language.building import Argument, Building, type_hint
from tl_dpnp.language.ir import Value, memref_type
from tl_dpnp.language.rule_error import RuleError
from tl_dpnp.language.rules import scalar_errors
from tl_dpnp.language.type_rules import check_index, check_indices, check_type, describe
from tl_dpnp.language.types import GroupType, MemrefType, Type
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import ScalarType

if TYPE_CHECKING:
    from tl_dpnp.language.interpreter.machine import Steps, WorkGroup

#: The largest alignment in bytes that temporary memory may be asked for.
MOST_ALIGNED = 128


@dataclass(frozen=True)
class Alloca(Spelled):
    """``alloca -> memref``: temporary memory of the work-group, freed at the end of the enclosing region."""

    spelling = "alloca -> {result.memref_type}"
    newer_spelling = "alloca{alignment} : {result.memref_type}"
    example = "%m = alloca -> memref<f32x16x8>"
    collective = True
    pure = True

    result: Result
    alignment: Alignment = None

    def errors(self) -> Iterator[RuleError]:
        type = self.result.type
        if not isinstance(type, MemrefType):
            element = type.name.upper() if isinstance(type, ScalarType) else "F32"
            hint = f"write memref({element}), with the sizes behind the type of an element"
            yield RuleError(f"alloca gives a memref, not {describe(type)}", hint)
            return
        if type.element.is_subbyte:
            message = f"temporary memory of {type.element} could not be written: its elements share bytes"
            yield RuleError(message, f"write {type.element.in_registers}", 0)
            return
        try:
            check_type(type)
        except RuleError as error:
            yield RuleError(error.message, error.hint)
        if not type.is_static:
            yield RuleError(
                f"alloca of {type}, which has a dynamic {'mode' if None in type.shape else 'stride'}",
                "write constant sizes and strides; only views vary",
                0,  # an alloca has no operands: the place of its type
            )
        illegal = None if self.alignment is None else alignment_error(self.alignment, type)
        if illegal is not None:
            yield illegal
        elif (self.alignment or 0) > MOST_ALIGNED:
            yield RuleError(f"the alignment {self.alignment} of temporary memory is more than {MOST_ALIGNED} bytes",
                            f"write alignment={MOST_ALIGNED}")

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        return (group.memory.allocate(memref_type(self.result)),)


@dataclass(frozen=True)
class LifetimeStop(Spelled):
    """``lifetime_stop %m``: the temporary is not used after this point."""

    spelling = "lifetime_stop {source}"
    example = "lifetime_stop %m"
    collective = True

    source: Memref

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        group.memory.poison(group.value(self.source), memref_type(self.source).element)
        return ()


class Barrier(Spelled):
    """``barrier``: orders all memory accesses of the work-group before it with those after it.

    The dialect 0.4 may name the address spaces that are meant; both are ordered.
    """

    spelling = "barrier"
    example = "barrier"
    collective = True
    among = "work-group"
    waits = True

    @classmethod
    def grammar(cls) -> dict[str, str]:
        (rule, word), = super().grammar().items()
        return {rule: f'{word} (".global" ".local"? | ".local" ".global"?)?'}

    def steps(self, group: WorkGroup) -> Steps:
        yield group.meeting(self)  # operations run one after another: everything before is done
        return ()


@dataclass(frozen=True)
class Load(Spelled):
    """``load %m[i, ...] : memref`` gives an element, ``load %g[i] : group`` gives a memref."""

    spelling = "load {source}[{indices}] : {source.type_of_load}"
    newer_spelling = "load {source}[{indices}] : {result.type_of_load}"
    example = "%a = load %m[%i, 0] : memref<f32x4x8>"
    pure = True
    gives_subbyte = True

    source: Memref
    indices: Indices
    result: Result

    @classmethod
    def annotates_result(cls, source: Type, annotation: Type) -> bool:
        if isinstance(source, GroupType):
            return isinstance(annotation, MemrefType)
        return isinstance(annotation, ScalarType)

    @property
    def reads(self) -> tuple[Value, ...]:
        return () if isinstance(self.source.type, GroupType) else (self.source,)

    @property
    def viewed(self) -> Value | None:
        return self.source if isinstance(self.source.type, GroupType) else None

    def result_type(self) -> Type:
        match self.source.type:
            case MemrefType() as memref:
                check_indices(memref, self.indices, first=1)
                return memref.element
            case GroupType(memref=memref, length=length):
                if len(self.indices) != 1:
                    message = f"a group takes one index, but {len(self.indices)} are given"
                    raise RuleError(message, "write one index", min(len(self.indices), 2))
                value = check_index(self.indices[0], 1)
                if value is not None and value < 0:
                    raise RuleError(f"the index {value} is negative", "write an index from 0 on", 1)
                if value is not None and length is not None and value >= length:
                    message = f"the index {value} is out of bounds of the group, whose length is {length}"
                    raise RuleError(message, f"write an index from 0 to {length - 1}", 1)
                return memref
        raise RuleError(f"load needs a memref or a group, but its operand is {describe(self.source.type)}", None, 0)

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        source, indices = group.value(self.source), list(map(group.index, self.indices))
        if isinstance(source, group.memory.Group):
            return (source.load(indices[0]),)
        place = group.memory.element(source, indices)
        return (group.scalar.decode(place[()], memref_type(self.source).element),)


@dataclass(frozen=True)
class Store(Spelled):
    """``store v, %m[i, ...] : memref``."""

    spelling = "store {value}, {target}[{indices}] : {target.memref_type}"
    newer_spelling = "store {value}, {target}[{indices}]"
    example = "store %a, %m[%i, 0] : memref<f32x4x8>"

    value: Element
    target: Memref
    indices: Indices

    @property
    def writes(self) -> tuple[Value, ...]:
        return (self.target,)

    def errors(self) -> Iterator[RuleError]:
        if not isinstance(self.target.type, MemrefType):
            message = f"store needs a memref, but its operand is {describe(self.target.type)}"
            yield RuleError(message, "write the name of a memref", 1)
            return
        yield from scalar_errors((self.value,), self.target.type.element, first=0)
        try:
            check_indices(self.target.type, self.indices, first=2)
        except RuleError as error:
            yield error

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        place = group.memory.element(group.value(self.target), list(map(group.index, self.indices)))
        place[...] = group.scalar.encode(group.value(self.value), memref_type(self.target).element)
        return ()


class MemoryMethods(Building):
    """What a function builder has for instructions on memory."""

    def alloca(self, type: MemrefType, *, alignment: Alignment = None, name: str = "") -> Value:
        """``alloca``; `alignment` is in bytes."""
        if not isinstance(type, Type):
            raise self._error(f"alloca takes the type of a memref, it was given {type!r}", type_hint(type))
        if alignment is not None:
            alignment = self._integer(alignment, "an alignment")
        return self._add_value(Alloca(result=self._result(type, name), alignment=alignment))

    def lifetime_stop(self, source: Value) -> None:
        """``lifetime_stop``"""
        self._add(LifetimeStop(source=self._value(source)))

    def barrier(self) -> None:
        """``barrier``"""
        self._add(Barrier())

    def load(self, source: Value, *indices: Argument, name: str = "") -> Value:
        """``load``: an element of a memref, or a memref of a group."""
        source, result = self._value(source), self._result(None, name)
        return self._add_value(Load(source=source, indices=self._indices(indices), result=result))

    def store(self, value: Argument, target: Value, *indices: Argument) -> None:
        """``store``"""
        if isinstance(value, Value) and isinstance(value.type, MemrefType):
            raise self._error("store takes the value first", f"write store(value, {value.name}, *indices)")
        element = self._memref(target).element
        self._add(Store(value=self._operand(value, element), target=target, indices=self._indices(indices)))
