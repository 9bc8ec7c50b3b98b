"""What a function builder has for cooperative matrices; arithmetic on them is that of scalars: `add`, `cast`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tl_dpnp.language.assembly import CHECKS, DIRECTIONS, SCOPES, SEMANTICS
from tl_dpnp.language.building import Argument, Building
from tl_dpnp.language.instructions.matrices import (
    CooperativeMatrixConstruct,
    CooperativeMatrixExtract,
    CooperativeMatrixInsert,
    CooperativeMatrixMulAdd,
    CooperativeMatrixReduceAdd,
    CooperativeMatrixReduceMax,
    CooperativeMatrixReduceMin,
    CooperativeMatrixReduction,
    CooperativeMatrixScale,
)
from tl_dpnp.language.instructions.matrix_accesses import (
    CooperativeMatrixAtomicAdd,
    CooperativeMatrixAtomicLoad,
    CooperativeMatrixAtomicMax,
    CooperativeMatrixAtomicMin,
    CooperativeMatrixAtomicStore,
    CooperativeMatrixLoad,
    CooperativeMatrixPrefetch,
    CooperativeMatrixStore,
    MatrixAtomicUpdate,
)
from tl_dpnp.language.instructions.matrix_apply import CooperativeMatrixApply
from tl_dpnp.language.ir import Region, Value
from tl_dpnp.language.type_rules import describe
from tl_dpnp.language.types import CooperativeMatrixType
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import I32, ScalarType


@dataclass
class Apply:
    """A ``cooperative_matrix_apply`` under construction: what its body uses, and its `result`, of use behind it."""

    row: Value
    column: Value
    components: tuple[Value, ...]
    result: Value


def _reduction(kind: type[CooperativeMatrixReduction]) -> Callable[..., Value]:
    def method(self: MatrixMethods, A: Value, direction: str = DIRECTIONS[0], *, name: str = "") -> Value:
        return self._add_value(kind(direction=direction, A=self._value(A), result=self._result(None, name)))

    method.__doc__ = f"``{kind.mnemonic}``; `direction` is ``row``, or ``column``."
    return method


def _update(kind: type[MatrixAtomicUpdate]) -> Callable[..., Value]:
    def method(
        self: MatrixMethods, A: Value, memref: Value, x: Argument, y: Argument, *, transpose: bool = False,
        check: str = CHECKS[0], scope: str = SCOPES[0], semantics: str = SEMANTICS[0], name: str = "",
    ) -> Value:
        return self._add_value(kind(
            A=self._value(A), **self._place(memref, x, y, transpose, check), scope=scope, semantics=semantics,
            result=self._result(None, name)))

    method.__doc__ = f"``{kind.mnemonic}``"
    return method


class MatrixMethods(Building):
    """What a function builder has for cooperative matrices.

    In accesses, `check` is ``rows``, ``cols``, ``both``, or empty.
    """

    def cooperative_matrix_construct(self, value: Argument, type: CooperativeMatrixType, *, name: str = "") -> Value:
        """``cooperative_matrix_construct``"""
        component = self._operand(value, self._matrix_type(type).component)
        return self._add_value(CooperativeMatrixConstruct(value=component, result=self._result(type, name)))

    def cooperative_matrix_load(
        self, type: CooperativeMatrixType, memref: Value, x: Argument, y: Argument, *, transpose: bool = False,
        check: str = CHECKS[0], name: str = "",
    ) -> Value:
        """``cooperative_matrix_load``"""
        return self._add_value(CooperativeMatrixLoad(
            **self._place(memref, x, y, transpose, check), result=self._result(self._matrix_type(type), name)))

    def cooperative_matrix_store(
        self, A: Value, memref: Value, x: Argument, y: Argument, *, transpose: bool = False, check: str = CHECKS[0],
    ) -> None:
        """``cooperative_matrix_store``"""
        self._add(CooperativeMatrixStore(A=self._value(A), **self._place(memref, x, y, transpose, check)))

    def cooperative_matrix_atomic_load(
        self, type: CooperativeMatrixType, memref: Value, x: Argument, y: Argument, *, transpose: bool = False,
        check: str = CHECKS[0], scope: str = SCOPES[0], semantics: str = SEMANTICS[0], name: str = "",
    ) -> Value:
        """``cooperative_matrix_atomic_load``"""
        return self._add_value(CooperativeMatrixAtomicLoad(
            **self._place(memref, x, y, transpose, check), scope=scope, semantics=semantics,
            result=self._result(self._matrix_type(type), name)))

    def cooperative_matrix_atomic_store(
        self, A: Value, memref: Value, x: Argument, y: Argument, *, transpose: bool = False, check: str = CHECKS[0],
        scope: str = SCOPES[0], semantics: str = SEMANTICS[0],
    ) -> None:
        """``cooperative_matrix_atomic_store``"""
        self._add(CooperativeMatrixAtomicStore(
            A=self._value(A), **self._place(memref, x, y, transpose, check), scope=scope, semantics=semantics))

    cooperative_matrix_atomic_add = _update(CooperativeMatrixAtomicAdd)
    cooperative_matrix_atomic_max = _update(CooperativeMatrixAtomicMax)
    cooperative_matrix_atomic_min = _update(CooperativeMatrixAtomicMin)

    def cooperative_matrix_prefetch(
        self, level: int, memref: Value, x: Argument, y: Argument, rows: int, columns: int
    ) -> None:
        """``cooperative_matrix_prefetch``"""
        level, rows, columns = (self._integer(number, what) for number, what in (
            (level, "a level"), (rows, "a number of rows"), (columns, "a number of columns")))
        self._add(CooperativeMatrixPrefetch(level=level, memref=self._value(memref), indices=self._indices((x, y)),
                                            rows=rows, columns=columns))

    def cooperative_matrix_mul_add(
        self, A: Value, B: Value, C: Value, *, type: CooperativeMatrixType | None = None, name: str = ""
    ) -> Value:
        """``cooperative_matrix_mul_add``; `type` is that of C where it is left out."""
        matrices = tuple(map(self._value, (A, B, C)))
        result = self._matrix_type(C.type if type is None else type)
        return self._add_value(CooperativeMatrixMulAdd(
            A=matrices[0], B=matrices[1], C=matrices[2], result=self._result(result, name)))

    def cooperative_matrix_scale(self, value: Argument, A: Value, *, name: str = "") -> Value:
        """``cooperative_matrix_scale``"""
        component = self._operand(value, self._matrix_type(self._value(A).type).component)
        return self._add_value(CooperativeMatrixScale(value=component, A=A, result=self._result(None, name)))

    cooperative_matrix_reduce_add = _reduction(CooperativeMatrixReduceAdd)
    cooperative_matrix_reduce_max = _reduction(CooperativeMatrixReduceMax)
    cooperative_matrix_reduce_min = _reduction(CooperativeMatrixReduceMin)

    def cooperative_matrix_extract(self, A: Value, component: int, *, name: str = "") -> Value:
        """``cooperative_matrix_extract``"""
        number = self._integer(component, "the number of a component")
        return self._add_value(CooperativeMatrixExtract(A=self._value(A), component=number,
                                                        result=self._result(None, name)))

    def cooperative_matrix_insert(self, value: Argument, A: Value, component: int, *, name: str = "") -> Value:
        """``cooperative_matrix_insert``"""
        given = self._operand(value, self._matrix_type(self._value(A).type).component)
        number = self._integer(component, "the number of a component")
        return self._add_value(CooperativeMatrixInsert(value=given, A=A, component=number,
                                                       result=self._result(None, name)))

    @contextmanager
    def cooperative_matrix_apply(
        self, *matrices: Value, type: CooperativeMatrixType | None = None, name: str = ""
    ) -> Iterator[Apply]:
        """``cooperative_matrix_apply``, as a context whose body ends in `yield_`; `type` is that of the first."""
        types = [self._matrix_type(self._value(matrix).type) for matrix in matrices]
        if not types:
            raise self._error("an apply needs a cooperative matrix", "give at least one")
        own = types[0] if type is None else self._matrix_type(type)
        scalars: list[ScalarType] = [I32, I32, *(each.component for each in types)]
        variables = tuple(self._result(each, "") for each in scalars)
        operation = self._check(CooperativeMatrixApply(variables=variables, matrices=matrices,
                                                       result=self._result(own, name), body=Region()))
        with self._region((own.component,)) as body:
            yield Apply(variables[0], variables[1], variables[2:], operation.result)
        self.append(replace(operation, body=Region(tuple(body))))

    def _place(self, memref: Value, x: Argument, y: Argument, transpose: bool, check: str) -> dict[str, Any]:
        """Return the fields that say of what part of a memref an access is."""
        return {"memref": self._value(memref), "indices": self._indices((x, y)),
                "transpose": self._flag(transpose, "transpose"), "check": check}

    def _matrix_type(self, type: object) -> CooperativeMatrixType:
        """Return the type of a cooperative matrix as it is.  Raises `TLVerifyError` for anything else."""
        if isinstance(type, CooperativeMatrixType):
            return type
        raise self._error(f"a cooperative matrix is needed, not {describe(type)}",  # type: ignore[arg-type]
                          "give the type coopmatrix(F32, 16, 8, \"matrix_acc\"), or a value of one")
