"""Atomic accesses to one element: loads, stores, and updates that return what was there before.

Source: tensor language reference 0.4, sections "Atomic load", "Atomic store" and "Atomic update".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from tl_dpnp.language.assembly import SCOPES, SEMANTICS, Element, Indices, Memref, Result, Scope, Semantics, Spelled
from tl_dpnp.language.building import Argument, Building
from tl_dpnp.language.instructions.mathematics import MATHEMATICS
from tl_dpnp.language.ir import Value, memref_type
from tl_dpnp.language.rule_error import RuleError
from tl_dpnp.language.rules import scalar_errors
from tl_dpnp.language.type_rules import check_indices, describe
from tl_dpnp.language.types import GroupType, MemrefType, Type
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import I1

if TYPE_CHECKING:
    from tl_dpnp.language.interpreter.machine import WorkGroup


@dataclass(frozen=True, kw_only=True)
class AtomicAccess(Spelled):
    """Base of the atomic accesses to one element of a memref.

    `scope` says for whom they are atomic, `semantics` how they order other accesses.  In a collective region each is
    done once by the work-group, and what it gives is the same for all work-items.
    """

    is_newer = True
    #: What is done to the element: ``load``, ``store``, or the name of the function of an update.
    access: ClassVar[str]
    #: The semantics that it cannot have.
    unfit: ClassVar[tuple[str, ...]] = ()
    #: The kinds of elements that it is for.
    element_kinds: ClassVar[tuple[str, ...]] = ("signed", "unsigned", "float", "complex")

    if TYPE_CHECKING:  # fields of the classes, which have them in the order in which they are written
        memref: Memref
        indices: Indices
    scope: Scope = SCOPES[0]
    semantics: Semantics = SEMANTICS[0]

    @property
    def is_ordered(self) -> bool:
        """Whether it orders other accesses."""
        return self.semantics != SEMANTICS[0]

    def checked(self) -> MemrefType:
        """Return the type of the memref.  Raises `RuleError` for one or indices that it cannot access."""
        place = self.operands.index(self.memref)
        if not isinstance(self.memref.type, MemrefType):
            hint = "write the name of a memref"
            if isinstance(self.memref.type, GroupType):
                hint = "load one memref of the group first"
            raise RuleError(f"{self.mnemonic} needs a memref, but {self.memref} is {describe(self.memref.type)}", hint,
                            place)
        element = self.memref.type.element
        if element.kind not in self.element_kinds:
            hint = "use a memref of integers or floats" if element != I1 else "use a memref of integers"
            raise RuleError(f"{self.mnemonic} does not work on elements of type {element}", hint, place)
        check_indices(self.memref.type, self.indices, first=place + 1)
        return self.memref.type

    def errors(self) -> Iterator[RuleError]:
        for what, given, known in (("scope", self.scope, SCOPES), ("semantics", self.semantics, SEMANTICS)):
            if given not in known:
                yield RuleError(f"there is no {what} {given!r}", f"there are {', '.join(known)}")
        if self.semantics in self.unfit:
            legal = ", ".join(f".{word}" for word in SEMANTICS if word not in self.unfit)
            yield RuleError(f"{self.mnemonic} cannot have .{self.semantics} semantics", f"write one of {legal}")

    def place(self, group: WorkGroup) -> Any:
        """Return the view of the one element."""
        return group.memory.element(group.value(self.memref), list(map(group.index, self.indices)))


@dataclass(frozen=True, kw_only=True)
class AtomicLoad(AtomicAccess):
    """``atomic_load %m[i, ...] : type`` gives an element."""

    spelling = "atomic_load{scope}{semantics} {memref}[{indices}] : {result.scalar_type}"
    example = "%a = atomic_load.device.acquire %m[%i] : f32"
    access = "load"
    unfit = ("release", "acquire_release")

    memref: Memref
    indices: Indices
    result: Result

    @property
    def reads(self) -> tuple[Value, ...]:
        return (self.memref,)

    def result_type(self) -> Type:
        return self.checked().element

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        return (group.scalar.decode(self.place(group)[()], memref_type(self.memref).element),)


@dataclass(frozen=True, kw_only=True)
class AtomicStore(AtomicAccess):
    """``atomic_store v, %m[i, ...]``."""

    spelling = "atomic_store{scope}{semantics} {value}, {memref}[{indices}]"
    example = "atomic_store.device.release %a, %m[%i]"
    access = "store"
    unfit = ("acquire", "acquire_release")

    value: Element
    memref: Memref
    indices: Indices

    @property
    def writes(self) -> tuple[Value, ...]:
        return (self.memref,)

    def errors(self) -> Iterator[RuleError]:
        yield from super().errors()
        try:
            yield from scalar_errors((self.value,), self.checked().element, first=0)
        except RuleError as error:
            yield error

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        self.place(group)[...] = group.scalar.encode(group.value(self.value), memref_type(self.memref).element)
        return ()


@dataclass(frozen=True, kw_only=True)
class AtomicUpdate(AtomicAccess):
    """Base of the updates ``m[i, ...] := f(m[i, ...], v)``, which give the element as it was before."""

    value: Element
    memref: Memref
    indices: Indices
    result: Result

    @property
    def reads(self) -> tuple[Value, ...]:
        return (self.memref,)

    @property
    def writes(self) -> tuple[Value, ...]:
        return (self.memref,)

    def result_type(self) -> Type:
        return self.checked().element

    def errors(self) -> Iterator[RuleError]:
        yield from super().errors()
        if isinstance(self.memref.type, MemrefType):  # else the type of the result has said so
            yield from scalar_errors((self.value,), self.memref.type.element, first=0)

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        place, element = self.place(group), memref_type(self.memref).element
        old = group.scalar.decode(place[()], element)
        place[...] = group.scalar.encode(self.combined(group, old, group.value(self.value)), element)
        return (old,)

    def combined(self, group: WorkGroup, old: Any, value: Any) -> Any:
        """Return f of two numbers of the element's type."""
        meaning = MATHEMATICS[self.access]
        return group.scalar.mathematics(meaning.meaning, memref_type(self.memref).element, (old, value),
                                        meaning.is_exact)


class AtomicAdd(AtomicUpdate):
    """``atomic_add v, %m[i, ...] : type`` adds to an element, and gives it as it was before."""

    spelling = "atomic_add{scope}{semantics} {value}, {memref}[{indices}] : {result.scalar_type}"
    example = "%b = atomic_add.device %a, %m[%i] : f32"
    access = "add"

    def combined(self, group: WorkGroup, old: Any, value: Any) -> Any:
        return group.scalar.arith(self.access, memref_type(self.memref).element, old, value, False)


class AtomicMin(AtomicUpdate):
    """``atomic_min v, %m[i, ...] : type`` makes an element the smaller of the two, and gives it as it was before."""

    spelling = "atomic_min{scope}{semantics} {value}, {memref}[{indices}] : {result.scalar_type}"
    example = "%b = atomic_min.device %a, %m[%i] : f32"
    access = "min"
    element_kinds = ("signed", "unsigned", "float")


class AtomicMax(AtomicUpdate):
    """``atomic_max v, %m[i, ...] : type`` makes an element the larger of the two, and gives it as it was before."""

    spelling = "atomic_max{scope}{semantics} {value}, {memref}[{indices}] : {result.scalar_type}"
    example = "%b = atomic_max.device %a, %m[%i] : f32"
    access = "max"
    element_kinds = ("signed", "unsigned", "float")


class AtomicMethods(Building):
    """What a function builder has for atomic accesses."""

    def atomic_load(
        self, memref: Value, *indices: Argument, scope: str = SCOPES[0], semantics: str = SEMANTICS[0], name: str = ""
    ) -> Value:
        """``atomic_load``"""
        memref, result = self._value(memref), self._result(None, name)
        return self._add_value(AtomicLoad(memref=memref, indices=self._indices(indices), result=result, scope=scope,
                                          semantics=semantics))

    def atomic_store(
        self, value: Argument, memref: Value, *indices: Argument, scope: str = SCOPES[0],
        semantics: str = SEMANTICS[0],
    ) -> None:
        """``atomic_store``"""
        operand = self._operand(value, self._memref(memref).element)
        self._add(AtomicStore(value=operand, memref=memref, indices=self._indices(indices), scope=scope,
                              semantics=semantics))

    def atomic_add(self, value: Argument, memref: Value, *indices: Argument, **modifiers: str) -> Value:
        """``atomic_add``; `scope`, `semantics` and `name` by keyword, as of `atomic_load`."""
        return self._update(AtomicAdd, value, memref, indices, **modifiers)

    def atomic_min(self, value: Argument, memref: Value, *indices: Argument, **modifiers: str) -> Value:
        """``atomic_min``; as `atomic_add`."""
        return self._update(AtomicMin, value, memref, indices, **modifiers)

    def atomic_max(self, value: Argument, memref: Value, *indices: Argument, **modifiers: str) -> Value:
        """``atomic_max``; as `atomic_add`."""
        return self._update(AtomicMax, value, memref, indices, **modifiers)

    def _update(
        self, kind: type[AtomicUpdate], value: Argument, memref: Value, indices: tuple[Argument, ...], *,
        scope: str = SCOPES[0], semantics: str = SEMANTICS[0], name: str = "",
    ) -> Value:
        operand = self._operand(value, self._memref(memref).element)
        return self._add_value(kind(value=operand, memref=memref, indices=self._indices(indices), scope=scope,
                                    semantics=semantics, result=self._result(None, name)))
