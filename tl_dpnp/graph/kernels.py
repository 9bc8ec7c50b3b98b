"""From regions to launches: kernels are kept by the structure of their region, so a graph that differs only in the
sizes of its grid, or in where its arrays lie, needs no new one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from tl_dpnp.graph.memrefs import Bound, bind_arrays, scalar_type_of
from tl_dpnp.graph.nodes import (
    Accumulate,
    Arange,
    Array,
    Assemble,
    Contract,
    Eliminate,
    Given,
    Map,
    Node,
    Number,
    Parameter,
    Reduce,
    Reshape,
    Take,
    View,
    operands_of,
    topological,
)
from tl_dpnp.graph.partition import Region
from tl_dpnp.graph.placement import GridAxis, Places, front_places, local_shape, place
from tl_dpnp.graph.pointwise import Pointwise, pointwise, write_pointwise
from tl_dpnp.graph.scalars import rounding
from tl_dpnp.graph.symbols import DynamicSize, PartSize, actual, has_dynamic_sizes, with_actual_sizes
from tl_dpnp.graph.work_groups import WorkGroups
from tl_dpnp.graph.writer import write_region
from tl_dpnp.language.ops import Module
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.api import compile
from tl_dpnp.runtime.kernel import Kernel
from tl_dpnp.runtime.platforms import Launch
from tl_dpnp.runtime.preparation import Shape
from tl_dpnp.scalars import ScalarType
from tl_dpnp.target.targets import TargetName

__all__ = ["KernelRequest", "PreparedKernel", "clear_kernels", "request_kernel"]

Prepare = Callable[[Kernel, Sequence[Shape | None], int], Launch]

_kernels: dict[tuple[Any, ...], Kernel] = {}
_lock = threading.Lock()


@dataclass(frozen=True)
class PreparedKernel:
    """A kernel ready to be launched for a region: its arrays in order, each with an offset in bytes.

    `fixed` are scalars that come before those of the call.
    """

    kernel: Kernel
    launch: Launch
    operands: tuple[tuple[int, int], ...]
    scalars: tuple[tuple[int, Callable[[float], float]], ...]
    compiled: bool
    fixed: tuple[float, ...] = ()


@dataclass(frozen=True)
class KernelRequest:
    """A kernel before it is looked for: `key` is what its code depends on, all else is the launch.

    `region` has the sizes of the call.
    """

    region: Region
    key: tuple[Any, ...]
    write: Callable[[], Module]
    shapes: tuple[Shape | None, ...]
    groups: int
    operands: tuple[tuple[int, int], ...]
    scalars: tuple[tuple[int, Callable[[float], float]], ...]
    fixed: tuple[float, ...]

    def is_known(self, target: TargetName) -> bool:
        """Return whether the kernel for a target is there."""
        return (target, self.key) in _kernels

    def kernel(self, target: TargetName) -> tuple[Kernel, bool]:
        """Return the kernel for a target, and whether it was made just now because there was none with the key yet."""
        return _kernel((target, self.key), self.write, target)

    def prepared(self, target: TargetName, prepare: Prepare) -> PreparedKernel:
        """Return the kernel for a target and the launch that `prepare` gives for it, shapes and work-groups."""
        kernel, compiled = self.kernel(target)
        launch = prepare(kernel, self.shapes, self.groups)
        return PreparedKernel(kernel, launch, self.operands, self.scalars, compiled, self.fixed)


def request_kernel(region: Region, device: WorkGroups) -> KernelRequest:
    """Return the request for the kernel of a region, for the work-groups of a device."""
    settled = settled_region(region)
    simple = pointwise(settled.roots, settled.outputs, device, is_dynamic=settled is not region)
    if simple is not None:
        return _request_pointwise(settled, simple)
    placement = region.placement
    leaves = list(placement.leaves)
    outputs = [(array, front_places(root, placement.grid))
               for root, array in zip(region.roots, region.outputs, strict=True)]
    bound, grid_sizes, runs = bind_arrays([*leaves, *outputs], placement.grid, sorted(placement.counted))
    counted = {axis: number for number, run in enumerate(runs) for axis in run
               if placement.grid[axis].is_ragged or (axis in placement.counted and placement.grid[axis].launched > 1)}
    read, written = bound[: len(leaves)], bound[len(leaves) :]
    parameters = _parameters(region)
    sizes = _given_sizes(region)
    key = _signature(region, read, written, len(grid_sizes), parameters, sizes), tuple(counted.items())
    named = [(array, places, own) for (array, places), own in zip(leaves, read, strict=True)]
    shapes = [Shape(own.sizes, own.strides, own.array.dtype, own.offset * own.array.dtype.itemsize) for own in bound]
    return KernelRequest(
        settled, key,
        lambda: write_region(region, _name(region), named, written, grid_sizes, parameters, counted, sizes),
        (*[None] * (len(sizes) + len(parameters)), *shapes), region.groups,
        tuple((own.array.slot, own.offset * own.array.dtype.itemsize) for own in bound),
        _numbers(parameters), (*map(actual, sizes), *_constants(parameters)),
    )


def _request_pointwise(region: Region, simple: Pointwise) -> KernelRequest:
    parameters = _parameters(region)
    key = simple.signature, _expression_key(simple.expressions, parameters), tuple(type for _, type in parameters)
    shapes = [Shape(argument.sizes, argument.strides, argument.array.dtype,
                    argument.offset * argument.array.dtype.itemsize) for argument in simple.arguments]
    return KernelRequest(
        region, key, lambda: write_pointwise(simple, _name(region), parameters),
        (*[None] * (1 + len(parameters)), *shapes), simple.groups,
        tuple((a.array.slot, a.offset * a.array.dtype.itemsize) for a in simple.arguments),
        _numbers(parameters), (simple.chunk, *_constants(parameters)),
    )


def settled_region(region: Region) -> Region:
    """Return a region with the sizes of the call: the same one if no size is dynamic."""
    arrays = (*region.outputs, *region.inputs)
    if not any(map(has_dynamic_sizes, (*topological(region.roots), *arrays))):
        return region
    memo = with_actual_sizes(region.roots)
    settled = with_actual_sizes(arrays)
    roots = tuple(memo[root] for root in region.roots)
    grid = tuple(GridAxis(actual(axis.size), int(axis.chunk), axis.interleaved) for axis in region.placement.grid)
    outputs, inputs = (tuple(settled[array] for array in given) for given in (region.outputs, region.inputs))
    return Region(roots, place(roots, grid), outputs, inputs, region.reasons)  # type: ignore[arg-type]


def _given_sizes(region: Region) -> list[int]:
    """Return the sizes that the kernel of a region is given, each once: dynamic ones, and those of which parts are."""
    placement = region.placement
    shapes = [local_shape(node.shape, placement.places[node], placement.grid)
              for node in topological(region.roots) if node in placement.places]
    shapes += [local_shape(array.shape, places, placement.grid) for array, places in placement.leaves]
    found = (size for shape in shapes for size in shape if isinstance(size, DynamicSize))
    return list(dict.fromkeys(size.whole if isinstance(size, PartSize) else size for size in found))


def _expression_key(
    expressions: Sequence[Node], parameters: Sequence[tuple[Parameter, ScalarType]]
) -> tuple[Any, ...]:
    """Return element-wise expressions as a key, their shapes left out."""
    numbers: dict[Node, int] = {}
    entries: list[Any] = []
    scalars = {parameter.position: number for number, (parameter, _) in enumerate(parameters)}
    for node in topological(tuple(expressions)):
        numbers[node] = len(numbers)
        match node:
            case Number(value=value):
                entries.append((type(value), repr(value)))
            case Parameter(given=given):
                entries.append(("parameter", *(scalars[part.position] for part in given)))
            case Arange():
                entries.append("arange")  # the kernel's signature has the rest
            case Map(kind=kind, compute=compute):
                operands = tuple(numbers[operand] for operand in node.operands)
                entries.append((kind, compute.char, node.dtype.char, operands))
            case _:
                entries.append("array")
    return tuple(entries), tuple(numbers[expression] for expression in expressions)


def _kernel(key: tuple[Any, ...], write: Callable[[], Module], target: TargetName) -> tuple[Kernel, bool]:
    """Return the kernel with a key, and whether it was made just now."""
    with _lock:
        kernel = _kernels.get(key)
        if kernel is not None:
            return kernel, False
        made = compile(write(), target=target)
        assert isinstance(made, Kernel)
        _kernels[key] = made
        return made, True


def clear_kernels() -> None:
    """Forget all kernels of this process; those on disk stay."""
    with _lock:
        _kernels.clear()


def _parameters(region: Region) -> list[tuple[Parameter, ScalarType]]:
    """Return the scalars of a region with the types that they are needed in, constants first."""
    found: dict[tuple[int, ScalarType], tuple[Parameter, ScalarType]] = {}
    for node in topological(region.roots):
        if isinstance(node, Map):
            for operand in node.operands:
                if isinstance(operand, Parameter):
                    type = scalar_type_of(node.compute).part
                    found |= {(given.position, type): (given, type) for given in operand.given}
    return sorted(found.values(), key=lambda entry: not isinstance(entry[0], Given))


def _numbers(
    parameters: Sequence[tuple[Parameter, ScalarType]]
) -> tuple[tuple[int, Callable[[float], float]], ...]:
    """Return the scalars of a kernel that are numbers of the call: their positions, and how they are rounded."""
    return tuple((parameter.position, rounding(type)) for parameter, type in parameters
                 if not isinstance(parameter, Given))


def _constants(parameters: Sequence[tuple[Parameter, ScalarType]]) -> tuple[float, ...]:
    """Return the scalars of a kernel that are constants of the plan."""
    return tuple(rounding(type)(parameter.value) for parameter, type in parameters if isinstance(parameter, Given))


def _signature(
    region: Region, read: Sequence[Bound], written: Sequence[Bound], grid: int,
    parameters: Sequence[tuple[Parameter, ScalarType]], sizes: Sequence[int],
) -> tuple[Any, ...]:
    """Return what the code of a region depends on, hashable: of given `sizes`, which are equal, and their rooms."""

    def known(size: int) -> Any:
        if isinstance(size, PartSize):
            return "part", sizes.index(size.whole), int(size)
        return ("dynamic", sizes.index(size), int(size)) if isinstance(size, DynamicSize) else size

    def local(shape: tuple[int, ...], places: Places) -> tuple[Any, ...]:
        return tuple(map(known, local_shape(shape, places, placement.grid)))

    numbers: dict[Node, int] = {}
    entries: list[Any] = []
    scalars = {parameter.position: number for number, (parameter, _) in enumerate(parameters)}
    placement = region.placement
    for node in topological(region.roots):
        numbers[node] = len(numbers)
        places = placement.places.get(node)
        shape = None if places is None else local(node.shape, places)
        operands = tuple(numbers[operand] for operand in operands_of(node))
        match node:
            case Number(value=value):
                entries.append((type(value), repr(value)))
            case Parameter(given=given):
                entries.append(("parameter", *(scalars[part.position] for part in given)))
            case Map(kind=kind, compute=compute):
                entries.append((kind, compute.char, node.dtype.char, shape, places, operands))
            case Contract(operand_letters=letters):
                entries.append((letters, node.letters, node.dtype.char, shape, places, operands))
            case Reduce(kind=kind, axes=axes):
                entries.append((kind, axes, node.dtype.char, shape, places, operands))
            case View(axes=axes):
                entries.append(("view", axes, node.dtype.char, shape, places, operands))
            case Assemble(positions=positions):
                entries.append((positions, node.dtype.char, shape, places, operands))
            case Accumulate(kind=kind, axis=axis):
                entries.append(("accumulate", kind, axis, node.dtype.char, shape, places, operands))
            case Eliminate(kind=kind):
                entries.append(("eliminate", kind, node.dtype.char, shape, places, operands))
            case Take(axis=axis):
                entries.append(("take", axis, node.dtype.char, shape, places, operands))
            case Reshape():
                entries.append(("reshape", node.dtype.char, shape, places, operands))
            case Arange(strides=strides, offset=offset):
                entries.append(("arange", strides, offset, tuple(size == 1 for size in node.shape)))
            case Array():
                entries.append("array")
    leaves = tuple(  # shapes, too: the axes along which an array is broadcast are no modes of its memref
        (numbers[array], places, local(array.shape, places), own.signature)
        for (array, places), own in zip(placement.leaves, read, strict=True)
    )
    chunks = tuple((known(axis.chunk), axis.interleaved, axis.overlapping) for axis in placement.grid)
    return (
        tuple(entries), leaves, tuple(own.signature for own in written), tuple(numbers[r] for r in region.roots), grid,
        chunks, _in_place(region), tuple(type for _, type in parameters),
    )


def _in_place(region: Region) -> tuple[tuple[int, int], ...]:
    """Return which leaf is the memory of which output."""
    return tuple((number, position) for number, (leaf, _) in enumerate(region.placement.leaves)
                 for position, array in enumerate(region.outputs) if array.slot == leaf.slot)


def _name(region: Region) -> str:
    names = {Contract: "matmul", Assemble: "assemble", Accumulate: "accumulate", Take: "take"}
    kinds = [node.kind if isinstance(node, Map | Reduce | Eliminate) else names[type(node)]
             for node in topological(region.roots) if isinstance(node, Map | Reduce | Eliminate) or type(node) in names]
    return "_".join(["fused", *kinds])[:60]


