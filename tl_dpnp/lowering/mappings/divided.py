"""The divided form: several work-items of a CPU share the one product of a work-group, where there are few of those.

It is the vector form of another function, in which a work-group computes some of the columns of the result, or where
these are few, some of its rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tl_dpnp.language import ops
from tl_dpnp.language.types import MemrefType
from tl_dpnp.lowering.analysis import Analysis
from tl_dpnp.lowering.mappings.mapping import Mapping
from tl_dpnp.lowering.mappings.work_item import WorkItem
from tl_dpnp.lowering.rewrite import map_operation, replace_body
from tl_dpnp.lowering.schedules import schedule_instructions, work_of
from tl_dpnp.lowering.variants import FewGroups
from tl_dpnp.scalars import INDEX
from tl_dpnp.target.device import Device

__all__ = ["Divided", "divide"]

#: What may stand beside the product: nothing that writes, and nothing that runs in regions.
_BESIDE = (ops.GroupId, ops.Load, ops.Subview, ops.Expand, ops.Fuse, ops.SizeOf, ops.ScalarOperation)


@dataclass(frozen=True, kw_only=True)
class Divided(WorkItem):
    """The vector form of a `function` whose work-groups are `parts` of those of another, in order."""

    form = "divided"
    purpose = "one product of known sizes on CPUs, without schedules,"
    function: ops.Function

    @property
    def awaits_call(self) -> bool:
        return True

    @classmethod
    def over(cls, other: Mapping, analysis: Analysis) -> Divided | None:
        options = analysis.options
        if not isinstance(other, WorkItem) or options.debug or options.schedules:
            return None
        return divide(analysis.canonical, analysis.device)

    def condition(self, analysis: Analysis) -> FewGroups | None:
        if analysis.options.form is not None:
            return None
        return FewGroups(work_of(schedule_instructions(analysis, WorkItem()), analysis.device.core))

    def rewritten(self, analysis: Analysis) -> Analysis:
        return replace(analysis, canonical=self.function)


def divide(function: ops.Function, device: Device) -> Divided | None:
    """Return the divided form of a canonical function of one product of known size, None for others."""
    products = [operation for operation in function.body
                if isinstance(operation, ops.Contraction) and operation.is_matrix_product]
    if len(products) != 1 or not all(isinstance(operation, _BESIDE) or operation is products[0]
                                     for operation in function.body):
        return None
    (product,) = products
    rows, columns = ops.memref_type(product.output).shape
    a, b = (ops.memref_type(value) for value in product.inputs)
    if any(type_.element.is_subbyte or not type_.is_static for type_ in (a, b, ops.memref_type(product.output))):
        return None
    assert rows is not None
    assert columns is not None
    numbers = device.launches
    most = numbers.parts * device.compute_units
    vector = device.vector_bytes // ops.memref_type(product.output).element.bytes
    for mode, size, step in ((1, columns, 1), (0, rows, vector)):
        least = numbers.columns_of_a_part if mode == 1 else numbers.vectors_of_a_part * vector
        parts = max((p for p in range(1, most + 1) if size % (p * step) == 0 and size // p >= least), default=1)
        if parts > 1:
            body = _divided(function, product, mode, parts)
            return Divided(function=replace_body(function, body), parts=parts)
    return None


def _divided(function: ops.Function, product: ops.Contraction, mode: int, parts: int) -> Iterator[ops.Operation]:
    """Yield the body for the product of one of the parts along a mode of the result."""
    taken = {value.name for operation in function.body for value in operation.results}
    taken |= {parameter.name for parameter in function.parameters}

    def fresh(name: str) -> str:
        return name if name not in taken else fresh(f"{name}_")

    item, group, part, first = (ops.Value(fresh(name), INDEX) for name in ("item", "group", "part", "first"))
    yield ops.GroupId(item)
    count = ops.Constant(parts, INDEX)
    yield ops.Arith("div", item, count, group)
    yield ops.Arith("rem", item, count, part)
    size = ops.memref_type(product.output).shape[mode]
    assert size is not None
    width = ops.Constant(size // parts, INDEX)
    yield ops.Arith("mul", part, width, first)

    def slice_of(value: ops.Value, mode: int, name: str) -> ops.Subview:
        type_ = ops.memref_type(value)
        shape = tuple(size // parts if i == mode else known for i, known in enumerate(type_.shape) if known is not None)
        slices = tuple(
            ops.Slice(first, width) if i == mode else ops.Slice(ops.Constant(0, INDEX), ops.Constant(known, INDEX))
            for i, known in enumerate(shape)
        )
        result = ops.Value(name, MemrefType(type_.element, shape, type_.strides))
        return ops.Subview(value, slices, result)

    groups = {operation.result.name for operation in function.body if isinstance(operation, ops.GroupId)}

    def use(operand: ops.Operand) -> ops.Operand:
        return group if isinstance(operand, ops.Value) and operand.name in groups else operand

    for operation in function.body:
        if isinstance(operation, ops.GroupId):
            continue
        operation = map_operation(operation, use, lambda value: value, lambda region: region)
        if isinstance(operation, ops.Contraction):
            # The columns of the result are those of the second factor, its rows those of the first.
            position = 1 if mode == 1 else 0
            factor = slice_of(operation.inputs[position], mode ^ operation.transposes[position], fresh("factor"))
            result = slice_of(operation.output, mode, fresh("result"))
            yield factor
            yield result
            inputs = tuple(factor.result if i == position else value for i, value in enumerate(operation.inputs))
            operation = replace(operation, inputs=inputs, output=result.result)
        yield operation
