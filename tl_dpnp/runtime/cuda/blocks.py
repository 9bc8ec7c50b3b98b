"""Calls of the blocked form: whether they are large enough, and the arguments of the kernel."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

from tl_dpnp.language.types import MemrefType
from tl_dpnp.lowering.product_plans import PARTS, BlockPlan, BlockShape
from tl_dpnp.runtime.call.arguments import BoundCall, MemrefArgument
from tl_dpnp.runtime.call.binding import Binding
from tl_dpnp.runtime.call.flattening import FlatArguments, Int64
from tl_dpnp.runtime.call.scalar_arguments import carrying_type
from tl_dpnp.runtime.cuda import driver_adapter as driver
from tl_dpnp.runtime.cuda.tiles import append_factors, raised_misfit, units_found
from tl_dpnp.scalars import F64, ScalarType

__all__ = ["BlockCall", "block_call", "misfit"]

#: Sizes and tiles that the kernel counts with 32 bits.
_MOST = (1 << 31) - (1 << 12)


class BlockCall(NamedTuple):
    """A call of the blocked form: the shape of tiles, their number, the blocks that share one, the kernel's arguments.

    `is_direct` says that each parameter of the function is among these, once, and that there are no clusters.
    """

    shape: BlockShape
    tiles: int
    parts: int
    flat: FlatArguments
    is_direct: bool


def _product(blocks: BlockPlan, call: BoundCall) -> tuple[int, int, int]:
    """Return m, n and k of D = L R."""
    left, result = (call.arguments[entry.parameter].shape for entry in (blocks.left, blocks.result))
    rows = blocks.result.side_mode
    return result[rows], result[1 - rows], left[1 - blocks.left.side_mode]  # type: ignore[return-value]


def misfit(blocks: BlockPlan, binding: Binding, call: BoundCall, units: int) -> str | None:
    """Return what hinders a call from the blocked form on so many multiprocessors, or None if nothing does."""
    m, n, k = _product(blocks, call)
    products = blocks.products(call.groups, [argument.shape for argument in call.arguments])
    if m * n * k < max(1, blocks.least):
        return f"products of {m} x {n} x {k} are too small"
    if blocks.is_for_few and products > units:
        return f"{products} products are more than {units} multiprocessors"
    if not blocks.result.is_batched and products != 1:
        return f"{call.groups} work-groups have one result"
    if max(m, n, k, *(shape.tiles(m, n) * products * PARTS[-1] for shape in blocks.shapes)) > _MOST:
        return f"{products} products of {m} x {n} x {k} have too many tiles"
    return raised_misfit(binding, call) if blocks.is_raised else None


def block_call(
    blocks: BlockPlan, binding: Binding, call: BoundCall, flat: FlatArguments, function: driver.Function, units: int
) -> BlockCall:
    """Return a call for which there is no `misfit`; `flat` are its arguments for the other forms."""
    m, n, k = _product(blocks, call)
    products = blocks.products(call.groups, [argument.shape for argument in call.arguments])
    number, parts = blocks.choice(m, n, k, products, lambda number, parts: units_found(
        blocks.shapes[number], parts, function, units))
    shape = blocks.shapes[number]
    values: list[Any] = [*map(Int64, (number, m, n, k, products, blocks.keeps))]
    result = binding.parameters[blocks.result.parameter].type
    assert isinstance(result, MemrefType)
    carrier = ctypes.c_double if result.element.part == F64 else ctypes.c_float
    scalars = append_factors(values, (blocks.alpha, blocks.beta), flat, carrier, blocks.is_complex)
    for entry in (blocks.left, blocks.right, blocks.result):
        argument, type_ = call.arguments[entry.parameter], binding.parameters[entry.parameter].type
        assert isinstance(argument, MemrefArgument)
        assert isinstance(type_, MemrefType)
        side, other = argument.strides[entry.side_mode], argument.strides[1 - entry.side_mode]
        batch = argument.strides[2] if entry.is_batched else 0
        values += [Int64(stride * type_.element.bytes) for stride in (side, other, batch)]
    addresses = tuple(range(len(values), len(values) + len(flat.addresses)))
    values += [None] * len(addresses)
    positions = [scalar.position for scalar in scalars if carrying_type(scalar.type) is carrier]
    given = [number for number, parameter in enumerate(binding.parameters) if isinstance(parameter.type, ScalarType)]
    return BlockCall(shape, shape.tiles(m, n) * products, parts, FlatArguments(values, addresses, scalars, ()),
                     parts == 1 and sorted(positions) == given)
