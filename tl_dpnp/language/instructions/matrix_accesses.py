"""Loads, stores, atomic accesses and prefetches of cooperative matrices.

Source: tensor language reference 0.4, sections "Cooperative matrix load", "Cooperative matrix store",
"Cooperative matrix atomic load" and the like.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tl_dpnp.language.assembly import (
    CHECKS,
    SCOPES,
    SEMANTICS,
    Check,
    Indices,
    Matrix,
    Memref,
    Number,
    Result,
    Scope,
    Semantics,
    Transpose,
)
from tl_dpnp.language.instructions.atomics import (
    AtomicAccess,
    AtomicAdd,
    AtomicLoad,
    AtomicMax,
    AtomicMin,
    AtomicStore,
    AtomicUpdate,
)
from tl_dpnp.language.instructions.matrices import CooperativeOperation
from tl_dpnp.language.instructions.memory import Load, Store
from tl_dpnp.language.ir import Constant, Operand, Operation, Value, matrix_type
from tl_dpnp.language.rule_error import RuleError, counted
from tl_dpnp.language.type_rules import check_index, describe
from tl_dpnp.language.types import CooperativeMatrixType, GroupType, MemrefType, Type
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import INDEX

if TYPE_CHECKING:
    from tl_dpnp.language.interpreter.machine import WorkGroup


class CooperativeAccess(CooperativeOperation):
    """Base of the accesses to a part of a memref of order 2 whose first element has the `indices`.

    Component (i, j) is element (x + i, y + j), or (x + j, y + i) where it is transposed.  What `check` names, the index
    i for ``rows`` and j for ``cols``, may be outside of the memref.
    """

    if TYPE_CHECKING:
        memref: Memref
        indices: Indices

    def checked_memref(self) -> MemrefType:
        """Return the type of the memref.  Raises `RuleError` for one that cannot be accessed, or for indices."""
        place, type = self.operands.index(self.memref), self.memref.type
        if not isinstance(type, MemrefType):
            hint = "load one memref of the group first" if isinstance(type, GroupType) else "write the name of a memref"
            raise RuleError(f"{self.mnemonic} needs a memref, but {self.memref} is {describe(type)}", hint, place)
        if type.order != 2:
            raise RuleError(f"{self.mnemonic} needs a memref of order 2, but {self.memref} has type {type}",
                            "take a subview of two modes, or expand it", place)
        if len(self.indices) != 2:
            raise RuleError(f"{self.mnemonic} takes 2 indices, but {len(self.indices)} given",
                            "write one index for each mode", place)
        for position, index in enumerate(self.indices, place + 1):
            check_index(index, position)
        return type


@dataclass(frozen=True, kw_only=True)
class MatrixAccess(CooperativeAccess):
    """Base of the accesses to the components of a matrix, each of which is one by an instruction on elements."""

    #: The instruction on elements.
    single: ClassVar[type[Operation]]

    transpose: Transpose = False
    check: Check = CHECKS[0]

    @property
    def type(self) -> CooperativeMatrixType:
        """The type of the matrix that is loaded or stored."""
        stored = getattr(self, "A", None)
        return matrix_type(self.results[0] if stored is None else stored)

    @property
    def checked_modes(self) -> tuple[bool, bool]:
        """For each mode of the memref, whether indices outside of it are left out."""
        rows, columns = self.check in ("rows", "both"), self.check in ("cols", "both")
        return (columns, rows) if self.transpose else (rows, columns)

    @property
    def extents(self) -> tuple[int, int]:
        """How many elements are accessed along each mode of the memref."""
        rows, columns = self.type.shape
        return (columns, rows) if self.transpose else (rows, columns)

    def on_element(self, memref: Value, indices: tuple[Operand, ...], value: Operand | None, name: str) -> Operation:
        """Return the access to one element, which has `value` stored, and gives a result `name` if it gives any."""
        raise NotImplementedError(self.mnemonic)

    def errors(self) -> Iterator[RuleError]:
        if self.check not in CHECKS:
            yield RuleError(f"there is no check {self.check!r}", f"there are {', '.join(CHECKS[1:])}")
            return
        try:
            memref = self.checked_memref()
            stored = getattr(self, "A", None)
            type = self.own_result() if stored is None else self.matrix(stored)
        except RuleError as error:
            yield error
            return
        place = self.operands.index(self.memref)
        if memref.element != type.component:
            hint = f"use a memref of {type.component}, or a cooperative matrix of {memref.element}"
            yield RuleError(f"{self.memref} has elements of type {memref.element}, and the matrix components of "
                            f"{type.component}", hint, place)
        modes = zip(self.indices, self.extents, memref.shape, self.checked_modes, strict=True)
        for mode, (index, extent, size, is_checked) in enumerate(modes):
            first = int(index.value.real) if isinstance(index, Constant) else 0
            if is_checked:
                continue
            if first < 0:
                yield RuleError(f"the index {first} of mode {mode} is negative", "write an index from 0 on",
                                place + 1 + mode)
            elif size is not None and first + extent > size:
                check = "rows" if (mode == 0) != self.transpose else "cols"
                yield RuleError(f"{extent} elements from index {first} on end outside of mode {mode}, whose size is "
                                f"{size}", f"write .{check}_checked to leave those outside out", place + 1 + mode)

    def access(self, group: WorkGroup, matrix: Any = None) -> Any:
        """Access all components, those of a matrix if there is one; return the matrix of the results."""
        memref, operand = Value("memref", self.memref.type), Value("value", self.type.component)
        array = group.value(self.memref)
        first = tuple(map(group.index, self.indices))

        def component(i: int, j: int) -> Any:
            place = tuple(start + index for start, index in zip(first, (j, i) if self.transpose else (i, j),
                                                                strict=True))
            outside = [not 0 <= index < size for index, size in zip(place, array.shape, strict=True)]
            if any(out and is_checked for out, is_checked in zip(outside, self.checked_modes, strict=True)):
                return group.scalar.from_python(0, self.type.component)
            values = {"memref": array} if matrix is None else {"memref": array, "value": matrix[i, j]}
            single = self.on_element(memref, tuple(Constant(index, INDEX) for index in place),
                                     None if matrix is None else operand, "result")
            results = single.execute(group.with_values(values))
            return results[0] if results else group.scalar.from_python(0, self.type.component)

        return group.matrices.made(self.type, component)


class MatrixLoad(MatrixAccess):
    """Base of the loads."""

    @property
    def reads(self) -> tuple[Value, ...]:
        return (self.memref,)

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        return (self.access(group),)


class MatrixStore(MatrixAccess):
    """Base of the stores."""

    if TYPE_CHECKING:
        A: Matrix

    @property
    def writes(self) -> tuple[Value, ...]:
        return (self.memref,)

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        self.access(group, group.value(self.A))
        return ()


@dataclass(frozen=True, kw_only=True)
class MatrixAtomicAccess(MatrixAccess):
    """Base of the accesses that are atomic for each component."""

    single: ClassVar[type[AtomicAccess]]

    scope: Scope = SCOPES[0]
    semantics: Semantics = SEMANTICS[0]

    def errors(self) -> Iterator[RuleError]:
        yield from super().errors()
        element = self.memref.type.element if isinstance(self.memref.type, MemrefType) else None
        if element is not None and element.kind not in self.single.element_kinds:
            yield RuleError(f"{self.mnemonic} does not work on elements of type {element}",
                            "use a memref of integers or floats", self.operands.index(self.memref))
        for what, given, known in (("scope", self.scope, SCOPES), ("semantics", self.semantics, SEMANTICS)):
            if given not in known:
                yield RuleError(f"there is no {what} {given!r}", f"there are {', '.join(known)}")
        if self.semantics in self.single.unfit:
            legal = ", ".join(f".{word}" for word in SEMANTICS if word not in self.single.unfit)
            yield RuleError(f"{self.mnemonic} cannot have .{self.semantics} semantics", f"write one of {legal}")


@dataclass(frozen=True, kw_only=True)
class MatrixAtomicUpdate(MatrixAtomicAccess):
    """Base of the updates, which give the components as they were before; those that are left out give 0."""

    single: ClassVar[type[AtomicUpdate]]

    A: Matrix
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
        return self.matrix(self.A)

    def on_element(self, memref: Value, indices: tuple[Operand, ...], value: Operand | None, name: str) -> Operation:
        assert value is not None
        return self.single(value=value, memref=memref, indices=indices, scope=self.scope, semantics=self.semantics,
                           result=Value(name, self.type.component))

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        return (self.access(group, group.value(self.A)),)


@dataclass(frozen=True, kw_only=True)
class CooperativeMatrixLoad(MatrixLoad):
    """``cooperative_matrix_load %M[x, y] : type``."""

    spelling = "cooperative_matrix_load{transpose}{check} {memref}[{indices}] : {result.coopmatrix_type}"
    example = "%A = cooperative_matrix_load.rows_checked %M[%x, %y] : coopmatrix<f32x16x8,matrix_a>"
    single = Load

    memref: Memref
    indices: Indices
    result: Result

    def on_element(self, memref: Value, indices: tuple[Operand, ...], value: Operand | None, name: str) -> Operation:
        return Load(source=memref, indices=indices, result=Value(name, self.type.component))


@dataclass(frozen=True, kw_only=True)
class CooperativeMatrixStore(MatrixStore):
    """``cooperative_matrix_store %A, %M[x, y]``."""

    spelling = "cooperative_matrix_store{transpose}{check} {A}, {memref}[{indices}]"
    example = "cooperative_matrix_store.rows_checked %A, %M[%x, %y]"
    single = Store

    A: Matrix
    memref: Memref
    indices: Indices

    def on_element(self, memref: Value, indices: tuple[Operand, ...], value: Operand | None, name: str) -> Operation:
        assert value is not None
        return Store(value=value, target=memref, indices=indices)


@dataclass(frozen=True, kw_only=True)
class CooperativeMatrixAtomicLoad(MatrixLoad, MatrixAtomicAccess):
    """``cooperative_matrix_atomic_load %M[x, y] : type``."""

    spelling = ("cooperative_matrix_atomic_load{transpose}{check}{scope}{semantics} {memref}[{indices}] : "
                "{result.coopmatrix_type}")
    example = "%A = cooperative_matrix_atomic_load.device %M[%x, %y] : coopmatrix<f32x16x8,matrix_acc>"
    single = AtomicLoad

    memref: Memref
    indices: Indices
    result: Result

    def on_element(self, memref: Value, indices: tuple[Operand, ...], value: Operand | None, name: str) -> Operation:
        return AtomicLoad(memref=memref, indices=indices, scope=self.scope, semantics=self.semantics,
                          result=Value(name, self.type.component))


@dataclass(frozen=True, kw_only=True)
class CooperativeMatrixAtomicStore(MatrixStore, MatrixAtomicAccess):
    """``cooperative_matrix_atomic_store %A, %M[x, y]``."""

    spelling = "cooperative_matrix_atomic_store{transpose}{check}{scope}{semantics} {A}, {memref}[{indices}]"
    example = "cooperative_matrix_atomic_store.device %A, %M[%x, %y]"
    single = AtomicStore

    A: Matrix
    memref: Memref
    indices: Indices

    def on_element(self, memref: Value, indices: tuple[Operand, ...], value: Operand | None, name: str) -> Operation:
        assert value is not None
        return AtomicStore(value=value, memref=memref, indices=indices, scope=self.scope, semantics=self.semantics)


_UPDATE = "{transpose}{check}{scope}{semantics} {A}, {memref}[{indices}] : {result.coopmatrix_type}"


class CooperativeMatrixAtomicAdd(MatrixAtomicUpdate):
    """``cooperative_matrix_atomic_add %A, %M[x, y] : type`` adds to elements, and gives them as they were before."""

    spelling = f"cooperative_matrix_atomic_add{_UPDATE}"
    example = "%B = cooperative_matrix_atomic_add.device %A, %M[%x, %y] : coopmatrix<f32x16x8,matrix_acc>"
    single = AtomicAdd


class CooperativeMatrixAtomicMax(MatrixAtomicUpdate):
    """``cooperative_matrix_atomic_max %A, %M[x, y] : type``: the larger ones; gives them as they were before."""

    spelling = f"cooperative_matrix_atomic_max{_UPDATE}"
    example = "%B = cooperative_matrix_atomic_max.device %A, %M[%x, %y] : coopmatrix<f32x16x8,matrix_acc>"
    single = AtomicMax


class CooperativeMatrixAtomicMin(MatrixAtomicUpdate):
    """``cooperative_matrix_atomic_min %A, %M[x, y] : type``: the smaller ones; gives them as they were before."""

    spelling = f"cooperative_matrix_atomic_min{_UPDATE}"
    example = "%B = cooperative_matrix_atomic_min.device %A, %M[%x, %y] : coopmatrix<f32x16x8,matrix_acc>"
    single = AtomicMin


@dataclass(frozen=True, kw_only=True)
class CooperativeMatrixPrefetch(CooperativeAccess):
    """``cooperative_matrix_prefetch level, %M[x, y], rows, columns``: these elements are loaded soon, a hint."""

    spelling = "cooperative_matrix_prefetch {level}, {memref}[{indices}], {rows}, {columns}"
    example = "cooperative_matrix_prefetch 0, %M[%x, %y], 16, 8"

    level: Number
    memref: Memref
    indices: Indices
    rows: Number
    columns: Number

    def errors(self) -> Iterator[RuleError]:
        try:
            self.checked_memref()
        except RuleError as error:
            yield error
        numbers: Sequence[tuple[str, int, int]] = (("level", self.level, 0), ("rows", self.rows, 1),
                                                   ("columns", self.columns, 1))
        for place, (what, number, least) in enumerate(numbers, len(self.operands)):
            if number < least:
                message = f"the level of a prefetch is {number}" if what == "level" else (
                    f"a prefetch of {counted(number, what[:-1], what)}")
                yield RuleError(message, f"write at least {least}", place)

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        return ()
