"""Functions all that whose work-groups do is one gemm, of parameters or of slices of batches: the tiled and the blocked
form are for these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tl_dpnp.language import ops
from tl_dpnp.language.types import MemrefType
from tl_dpnp.lowering.product_plans import Factor
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import INDEX, ScalarType

__all__ = ["Operand", "SoleProduct", "factor", "real_factor", "sole_product"]


@dataclass(frozen=True)
class Operand:
    """A matrix of the product: its parameter, and whether it is a slice of it."""

    parameter: int
    type: MemrefType
    is_batched: bool


@dataclass(frozen=True)
class SoleProduct:
    """The gemm of a function, and A, B and C; C is of a parameter of its own."""

    gemm: ops.Contraction
    a: Operand
    b: Operand
    c: Operand

    @property
    def elements(self) -> tuple[ScalarType, ScalarType, ScalarType]:
        """The types of the elements of A, B and C."""
        return self.a.type.element, self.b.type.element, self.c.type.element

    @property
    def sizes(self) -> tuple[int, int, int] | None:
        """Rows and columns of C, and the length of the sums, None where they are not known."""
        (m, n), k = self.c.type.shape, self.a.type.shape[0 if self.gemm.transposes[0] else 1]
        return None if m is None or n is None or k is None else (m, n, k)

    @property
    def multiplications(self) -> int | None:
        """The multiplications of one product, None where sizes are not known."""
        return None if self.sizes is None else math.prod(self.sizes)

    @property
    def accumulates(self) -> bool:
        """Whether C := op(A) op(B) + C, by alpha and beta that are constants."""
        factors = self.gemm.alpha, self.gemm.beta
        return all(isinstance(each, ops.Constant) and each.value == 1 for each in factors)


def sole_product(function: ops.Function) -> SoleProduct | None:
    """Return the one gemm of a canonical function, or None if there is more, or other operands."""
    parameters = {parameter.name: number for number, parameter in enumerate(function.parameters)}
    slices: dict[str, ops.Subview] = {}
    groups: set[str] = set()
    gemm: ops.Contraction | None = None
    for operation in function.body:
        match operation:
            case ops.GroupId(result=result):
                groups.add(result.name)
            case ops.Subview(source=source) if source.name in parameters and _is_slice(operation, groups):
                slices[operation.result.name] = operation
            case ops.Contraction(is_matrix_product=True, atomic=False) if gemm is None:
                gemm = operation
            case _:
                return None
    if gemm is None:
        return None
    a, b, c = (_operand(value, parameters, slices) for value in (*gemm.inputs, gemm.output))
    if a is None or b is None or c is None or c.parameter in (a.parameter, b.parameter):
        return None
    return SoleProduct(gemm, a, b, c)


def real_factor(function: ops.Function, operand: ops.Operand, bits: int) -> float | int | None:
    """Return a constant, the position of a parameter, or None for what is neither or no float of at most so many bits.
    """
    found = factor(function, operand, bits)
    return None if isinstance(found, tuple) or ops.scalar_type(operand).is_complex else found


def factor(function: ops.Function, operand: ops.Operand, bits: int) -> Factor | None:
    """Return alpha or beta, or None for what is no constant or parameter, or has parts of more than so many bits."""
    type_ = ops.scalar_type(operand)
    if not (type_.is_float or type_.is_complex) or type_.part.bits > bits:
        return None
    if isinstance(operand, ops.Constant):
        assert isinstance(operand.value, int | float | complex)
        value = complex(operand.value)
        return (value.real, value.imag) if value.imag else value.real
    names = [parameter.name for parameter in function.parameters]
    return names.index(operand.name) if operand.name in names else None


def _is_slice(operation: ops.Subview, groups: set[str]) -> bool:
    """Whether a view is a whole matrix of a batch, that of the work-group."""
    if len(operation.slices) != 3:
        return False
    *others, last = operation.slices
    zero = ops.Constant(0, INDEX)
    whole = all(not entry.is_index and entry.size is None and entry.offset == zero for entry in others)
    return whole and last.is_index and isinstance(last.offset, ops.Value) and last.offset.name in groups


def _operand(value: ops.Value, parameters: Mapping[str, int], slices: Mapping[str, ops.Subview]) -> Operand | None:
    view = slices.get(value.name)
    name = value.name if view is None else view.source.name
    type_ = ops.memref_type(value)
    if name not in parameters or type_.order != 2:
        return None
    return Operand(parameters[name], type_, view is not None)
