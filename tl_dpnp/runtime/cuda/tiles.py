"""Calls of the tiled form: whether tensor maps take the arrays, and the arguments of the kernel.

Source: CUDA Driver API reference, cuTensorMapEncodeTiled.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tl_dpnp.language.types import MemrefType
from tl_dpnp.lowering.product_plans import PARTS, BlockShape, Factor, MatrixMap, TilePlan, TileShape
from tl_dpnp.runtime.call.arguments import BoundCall, MemrefArgument
from tl_dpnp.runtime.call.binding import Binding
from tl_dpnp.runtime.call.flattening import FlatArguments, Int64, Scalar
from tl_dpnp.runtime.call.overlap import overlap_of
from tl_dpnp.runtime.cuda import driver_adapter as driver
from tl_dpnp.runtime.cuda.arrays import MAP_ALIGNMENT, is_aligned

__all__ = ["TileCall", "append_factors", "misfit", "raised_misfit", "tile_call", "units_found"]

#: Bounds of strides (in bytes) and sizes.
_MOST_STRIDE, _MOST_SIZE = 1 << 40, 1 << 32
#: Tiles of all products that the kernel counts.
_MOST_TILES = (1 << 31) - 1
_LANES = 32


class _Matrix(NamedTuple):
    """A matrix as its tensor map takes it, but for the address, which is that of array `place` of the call.

    Elements have so many `bytes`; sizes are in elements, strides, of all dimensions but the first, in bytes.
    """

    place: int
    bytes: int
    element: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]


class TileCall(NamedTuple):
    """A call of the tiled form: the arguments of the kernel before the tensor maps, the number of tiles, the maps.

    There are so many thread blocks in clusters of several, where these have something in common.
    """

    shape: TileShape
    flat: FlatArguments
    tiles: int
    cluster: int
    blocks: int
    matrices: tuple[_Matrix, ...]

    def maps(self, addresses: Sequence[int]) -> bytes:
        """Return the tensor maps for arrays at these addresses."""
        return b"".join(driver.tensor_map(addresses[matrix.place], *matrix[2:]) for matrix in self.matrices)


def _product(tiles: TilePlan, call: BoundCall) -> tuple[int, int, int]:
    """Return m, n and k of D = L R."""
    left, result = (call.arguments[entry.parameter].shape for entry in (tiles.left, tiles.result))
    return result[tiles.rows_mode], result[1 - tiles.rows_mode], left[tiles.depth_mode]  # type: ignore[return-value]


def misfit(tiles: TilePlan, binding: Binding, call: BoundCall) -> str | None:
    """Return what hinders a call from the tiled form, or None if nothing does.

    Other addresses of like arrays do not change that: whether they are aligned is among an array's facts.
    """
    m, n, k = _product(tiles, call)
    if m * n * k < max(1, tiles.least):
        return f"products of {m} x {n} x {k} are too small"
    products = tiles.products(call.groups, [argument.shape for argument in call.arguments])
    if not tiles.result.is_batched and products != 1:
        return f"{call.groups} work-groups have one result"
    if max(shape.tiles(m, n) for shape in tiles.shapes) * products * PARTS[-1] > _MOST_TILES:
        return f"{products} products of {m} x {n} have too many tiles"
    for entry, box in zip((tiles.left, tiles.right, tiles.result), tiles.shapes[0].boxes, strict=True):
        matrix = _matrix(entry, box, binding, call)
        name = f"%{binding.parameters[entry.parameter].name}"
        if any(stride % MAP_ALIGNMENT for stride in matrix.strides):
            return f"strides of {name} are no multiples of {MAP_ALIGNMENT} bytes"
        if any(not is_aligned(view.address) for view in call.arguments[entry.parameter].views):
            return f"{name} does not start at a multiple of {MAP_ALIGNMENT} bytes"
        if entry is tiles.result and matrix.sizes[0] * matrix.bytes % MAP_ALIGNMENT:
            # Seen on an H100: copies store zeros up to the next multiple, where other data may be.
            return f"columns of {name} do not end at multiples of {MAP_ALIGNMENT} bytes"
        across, *batch = matrix.strides
        if across < matrix.sizes[0] * matrix.bytes or any(stride <= 0 or stride % across for stride in batch):
            return f"parts of {name} overlap or are interleaved"
        if max(matrix.strides) >= _MOST_STRIDE or max(matrix.sizes) > _MOST_SIZE:
            return f"{name} is too large"
    return raised_misfit(binding, call) if tiles.is_raised else None


def raised_misfit(binding: Binding, call: BoundCall) -> str | None:
    """Return why the tiles that a call computes are not the product that its function was raised to.

    Which arrays overlap is looked at once for all calls with arrays like these, as elsewhere (docs/calling.md).
    """
    found = overlap_of(binding.program, call)
    if found is not None:
        return found[1]
    shapes = [argument.shape if isinstance(argument, MemrefArgument) else () for argument in call.arguments]
    return binding.program.cover.misfit(shapes, call.extents)


def units_found(shape: BlockShape | TileShape, parts: int, function: driver.Function, units: int) -> int:
    """Return how many of a device's multiprocessors blocks of a shape find, with so many of them in a cluster."""
    if parts == 1:
        return units
    blocks = function.clusters(_LANES * shape.warps, shape.local_memory, parts) * parts
    # More may have room on one than had when the speed of the shape was measured.
    return min(units, blocks // shape.resident)


def tile_call(
    tiles: TilePlan, binding: Binding, call: BoundCall, flat: FlatArguments, function: driver.Function, units: int
) -> TileCall:
    """Return a call for which there is no `misfit`; `flat` are its arguments for the other forms."""
    m, n, k = _product(tiles, call)
    products = tiles.products(call.groups, [argument.shape for argument in call.arguments])
    choice = tiles.choice(m, n, k, products, lambda number, cluster: units_found(
        tiles.shapes[number], cluster, function, units))
    shape, together = tiles.shapes[choice.shape], choice.together
    counts = [-(-size // part) for size, part in ((m, shape.rows * together), (n, shape.columns), (k, tiles.depth))]
    values: list[Any] = [*map(Int64, (choice.shape, *counts, products, together))]
    scalars = append_factors(values, (tiles.alpha, tiles.beta), flat, ctypes.c_float)
    maps = (tiles.left, tiles.right, tiles.result)
    matrices = tuple(_matrix(entry, box, binding, call) for entry, box in zip(maps, shape.boxes, strict=True))
    clusters = shape.tiles(m, n, together) * products
    if together > 1:  # they stay
        clusters = min(clusters, function.clusters(_LANES * shape.warps, shape.local_memory, together))
    return TileCall(shape, FlatArguments(values, (), scalars, ()), shape.tiles(m, n) * products, choice.cluster,
                    clusters * choice.cluster, matrices)


def append_factors(
    values: list[Any], factors: tuple[Factor, Factor], flat: FlatArguments, carrier: type[Any], is_complex: bool = False
) -> tuple[Scalar, ...]:
    """Append alpha and beta to the arguments as a kernel takes them, and then their imaginary parts if it has these.

    Return those that are parameters.
    """
    scalars = []
    given: dict[int, list[Scalar]] = {}
    for scalar in flat.scalars:
        given.setdefault(scalar.position, []).append(scalar)
    for part in range(2 if is_complex else 1):
        for factor in factors:
            parts: Sequence[float | Scalar] = (
                given[factor] if isinstance(factor, int) else factor if isinstance(factor, tuple) else (factor,))
            found = parts[part] if part < len(parts) else 0.0
            if isinstance(found, Scalar):
                scalars.append(found._replace(place=len(values), convert=_carried(found.convert, carrier)))
            values.append(None if isinstance(found, Scalar) else carrier(found))
    return tuple(scalars)


def _carried(convert: Callable[[Any], Any], carrier: type[Any]) -> Callable[[Any], Any]:
    """Return a conversion to the type that a kernel takes, which may be wider than that of the parameter."""
    return lambda value: carrier(convert(value).value)


def _matrix(entry: MatrixMap, box: tuple[int, int], binding: Binding, call: BoundCall) -> _Matrix:
    argument = call.arguments[entry.parameter]
    type_ = binding.parameters[entry.parameter].type
    assert isinstance(argument, MemrefArgument)
    assert isinstance(type_, MemrefType)
    order = 3 if entry.is_batched else 2
    before = binding.parameters[: entry.parameter]
    return _Matrix(
        sum(isinstance(parameter.type, MemrefType) for parameter in before), type_.element.bytes,
        "tf32" if entry.rounded else type_.element.name,
        argument.shape[:order], tuple(stride * type_.element.bytes for stride in argument.strides[1:order]),
        (*box, 1)[:order],
    )
