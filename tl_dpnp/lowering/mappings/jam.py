"""Unroll and jam: one pass of the vector form does two work-groups where both multiply by the same matrix.

A product whose rows fill just one vector needs a broadcast element of its second factor for each multiply-add, and
CPUs load no faster than they multiply.  Where that factor is the same for all work-groups, a broadcast serves two of
them, and the multiply-adds alone set the pace.  Work-groups run at the same time by the meaning of the language, so
nothing changes but the speed.
"""

from __future__ import annotations

from tl_dpnp.language import ops
from tl_dpnp.language.types import GroupType
from tl_dpnp.lowering.contraction import Contraction, contraction_of
from tl_dpnp.lowering.tile_cycles import vector_width
from tl_dpnp.target.core import Core

__all__ = ["moving_values"]


def moving_values(function: ops.Function, core: Core) -> frozenset[str]:
    """Return the memrefs of a canonical function that are others in each work-group, if it gains from a jam; else none.

    It does if it is straight-line code of products, all of one vector's height, and most work is with factors that do
    not move.
    """
    groups: set[str] = set()
    moving: set[str] = set()
    shared = work = 0
    for operation in function.body:
        match operation:
            case ops.GroupId(result=result):
                groups.add(result.name)
            case ops.Load(source=source, indices=(index,), result=result) if isinstance(source.type, GroupType):
                if not ops.memref_type(result).is_static:
                    return frozenset()
                if _depends(index, groups):
                    moving.add(result.name)
            case ops.Subview(source=source, result=result):
                moves = sum(_depends(entry.offset, groups) for entry in operation.slices) + (source.name in moving)
                if moves > 1 or not ops.memref_type(result).is_static:
                    return frozenset()
                if moves:
                    moving.add(result.name)
            case ops.Alloca(result=result):
                moving.add(result.name)
            case ops.Contraction(is_matrix_product=True, inputs=(_, factor), output=output):
                contraction = contraction_of(operation, "")
                if operation.atomic or output.name not in moving or not (
                    _fills_one_vector(operation, contraction, core)
                ):
                    return frozenset()
                assert isinstance(contraction.columns, int)
                assert isinstance(contraction.depth, int)
                products = contraction.columns * contraction.depth
                work += products
                shared += products * (factor.name not in moving)
            case ops.Barrier() | ops.LifetimeStop():
                pass
            case _:
                return frozenset()
    return frozenset(moving if 2 * shared > work else ())


def _depends(index: ops.Operand, groups: set[str]) -> bool:
    return isinstance(index, ops.Value) and index.name in groups


def _fills_one_vector(operation: ops.Contraction, contraction: Contraction, core: Core) -> bool:
    """Whether each column of the result is one vector, and those of the first factor are loaded as they lie."""
    buffers = contraction.nest.buffers
    if not all(isinstance(size, int) for size in (contraction.rows, contraction.columns, contraction.depth)):
        return False
    if any(buffer.element.is_subbyte for buffer in buffers.values()):
        return False  # packed elements
    consecutive = buffers["A"].strides[0] == buffers["C"].strides[0] == 1 and not operation.transposes[0]
    return consecutive and contraction.rows == vector_width(contraction, core)
