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

from collections.abc import Mapping, Sequence
from typing import Any

from tl_dpnp.errors import TLVerifyError
from tl_dpnp.language.building import caller
from tl_dpnp.language.instructions.algebra import AlgebraMethods
from tl_dpnp.language.instructions.control import Branch, ControlMethods
from tl_dpnp.language.instructions.memory import MemoryMethods
from tl_dpnp.language.instructions.scalar import ScalarMethods
from tl_dpnp.language.instructions.views import ALL, ViewMethods
from tl_dpnp.language.ir import Function, Module, Operation, Region, Value
from tl_dpnp.language.type_rules import check_type
from tl_dpnp.language.types import GroupType, MemrefType, Size, Type
from tl_dpnp.language.verifier import verify
from tl_dpnp.scalars import ScalarType

__all__ = ["ALL", "Branch", "FunctionBuilder", "build_module", "group", "memref"]


def memref(element: ScalarType, *shape: Size, strides: Sequence[Size] | None = None) -> MemrefType:
    """Return a memref type; a size or stride of None is dynamic.  Without strides, the layout is packed."""
    return MemrefType(element, shape) if strides is None else MemrefType(element, shape, tuple(strides))


def group(memref: MemrefType, offset: Size = 0, length: Size = None) -> GroupType:
    """Return the type of a group of memrefs; `offset` is in elements, None if dynamic, `length` None for any."""
    return GroupType(memref, offset, length)


def build_module(*builders: FunctionBuilder) -> Module:
    """Return the verified module of several functions.

    Raises `TLVerifyError` with a diagnostic for each rule that is broken.
    """
    module = Module(tuple(builder.function() for builder in builders))
    verify(module)
    return module


class FunctionBuilder(ScalarMethods, MemoryMethods, ViewMethods, ControlMethods, AlgebraMethods):
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
        self.span = caller()
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

    def __getattr__(self, name: str) -> Any:
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
