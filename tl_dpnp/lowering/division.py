"""Functions of one product in parts: each work-group computes some columns of the result of another's, or some rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tl_dpnp.language import ops
from tl_dpnp.language.types import MemrefType
from tl_dpnp.lowering.rewrite import map_operation, replace_body
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import INDEX

__all__ = ["Parts", "divisible_product", "in_parts", "static_product"]

#: What may stand beside the product: nothing that writes, and nothing that runs in regions.
_BESIDE = (ops.GroupId, ops.Load, ops.Subview, ops.Expand, ops.Fuse, ops.SizeOf, ops.ScalarOperation)


@dataclass(frozen=True)
class Parts:
    """A `function` whose work-groups are `count` parts, in order, of each one of another function.

    `group` is the number of that, and `slices` are what a part has of a factor and of the result.  The last part is
    `missing` rows or columns short: what the function has there is beyond the matrices.
    """

    function: ops.Function
    count: int
    group: ops.Value
    slices: tuple[ops.Value, ops.Value]
    missing: int = 0

    def are_columns(self, view: ops.Subview) -> bool:
        """Whether a view is what a part has of a matrix, all of which follows one another in memory."""
        return view.result in self.slices and ops.memref_type(view.result).is_packed


def divisible_product(function: ops.Function) -> ops.Contraction | None:
    """Return the product of matrices that is all that a canonical function does, None for other functions."""
    products = [operation for operation in function.body
                if isinstance(operation, ops.Contraction) and operation.is_matrix_product]
    if len(products) != 1 or not all(isinstance(operation, _BESIDE) or operation is products[0]
                                     for operation in function.body):
        return None
    return products[0]


def static_product(function: ops.Function) -> ops.Contraction | None:
    """Return the product of matrices of known sizes that is all that a canonical function does, None for others."""
    product = divisible_product(function)
    if product is None or not all(ops.memref_type(value).is_static for value in (*product.inputs, product.output)):
        return None
    return product


def in_parts(function: ops.Function, product: ops.Contraction, mode: int, count: int, step: int = 1) -> Parts:
    """Divide the one product of a canonical function, along a mode of the result, into so many parts.

    All but the last have the same size, a multiple of `step`; the last one must not begin behind the end.
    """
    taken = {value.name for operation in function.body for value in operation.results}
    taken |= {parameter.name for parameter in function.parameters}

    def fresh(name: str) -> str:
        return name if name not in taken else fresh(f"{name}_")

    item, group, part, first = (ops.Value(fresh(name), INDEX) for name in ("item", "group", "part", "first"))
    size = ops.memref_type(product.output).shape[mode]
    assert size is not None
    width = -(-size // (count * step)) * step
    # The columns of the result are those of the second factor, its rows those of the first.
    position = 1 if mode == 1 else 0
    factor = _slice_of(product.inputs[position], mode ^ product.transposes[position], first, width, fresh("factor"))
    result = _slice_of(product.output, mode, first, width, fresh("result"))
    groups = {operation.result.name for operation in function.body if isinstance(operation, ops.GroupId)}

    def use(operand: ops.Operand) -> ops.Operand:
        return group if isinstance(operand, ops.Value) and operand.name in groups else operand

    def body() -> Iterator[ops.Operation]:
        yield ops.GroupId(item)
        yield ops.Arith("div", item, ops.Constant(count, INDEX), group)
        yield ops.Arith("rem", item, ops.Constant(count, INDEX), part)
        yield ops.Arith("mul", part, ops.Constant(width, INDEX), first)
        for operation in function.body:
            if isinstance(operation, ops.GroupId):
                continue
            operation = map_operation(operation, use, lambda value: value, lambda region: region)
            if isinstance(operation, ops.Contraction):
                yield factor
                yield result
                inputs = tuple(factor.result if i == position else value for i, value in enumerate(operation.inputs))
                operation = replace(operation, inputs=inputs, output=result.result)
            yield operation

    slices = factor.result, result.result
    return Parts(replace_body(function, body()), count, group, slices, count * width - size)


def _slice_of(value: ops.Value, mode: int, first: ops.Value, width: int, name: str) -> ops.Subview:
    """Return the view of so many rows or columns of a matrix from a first one on."""
    type_ = ops.memref_type(value)
    shape = tuple(width if i == mode else known for i, known in enumerate(type_.shape) if known is not None)
    slices = tuple(
        ops.Slice(first, ops.Constant(width, INDEX)) if i == mode
        else ops.Slice(ops.Constant(0, INDEX), ops.Constant(known, INDEX)) for i, known in enumerate(shape))
    return ops.Subview(value, slices, ops.Value(name, MemrefType(type_.element, shape, type_.strides)))
