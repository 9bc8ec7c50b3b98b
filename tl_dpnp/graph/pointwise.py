"""Regions of element-wise functions alone: one loop nest over the axes of the result.

Axes that lie evenly in all arrays are joined, so that most such regions are a single loop.  Sizes are dynamic, and a
kernel serves every shape with the same joined axes, but for axes within others that are short: a loop of a few
iterations takes up to twice as long where it is not known how many they are.  A work-group does a chunk of the
outermost axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from tl_dpnp.graph.functions import FUNCTIONS
from tl_dpnp.graph.memrefs import fits_memref, scalar_type_of
from tl_dpnp.graph.nodes import (
    NOT_ELEMENTWISE,
    Arange,
    Array,
    Map,
    Node,
    Number,
    Parameter,
    View,
    topological,
)
from tl_dpnp.graph.scalars import converted, counted, number
from tl_dpnp.graph.views import broadcast, view
from tl_dpnp.graph.work_groups import WorkGroups
from tl_dpnp.language import FunctionBuilder
from tl_dpnp.language.ops import Module, Value
from tl_dpnp.language.types import MemrefType, Type
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import I1, INDEX, ScalarType

__all__ = ["Pointwise", "pointwise", "write_pointwise"]

#: The size from which on loops of one work-item gain nothing by knowing it; where several share all loops, they need it
#: to find their indices.
_LONG = 32


@dataclass(frozen=True)
class _Axis:
    """A joined axis: its size, and for each array its stride, 0 where the array lacks it; whether kernels know them."""

    size: int
    strides: tuple[int, ...]
    is_known: bool = False


@dataclass(frozen=True)
class Argument:
    """An array as the kernel takes it; `flipped` are the modes that are read from their end."""

    array: Array
    type: MemrefType
    axes: tuple[int, ...]
    flipped: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


@dataclass(frozen=True)
class Pointwise:
    """A kernel of element-wise functions: expressions over arrays of one shape, and where they are written.

    `counters` are the nodes that count, each with its stride on every joined axis.  So many `work_items` share a
    work-group's elements.
    """

    expressions: tuple[Node, ...]
    arguments: tuple[Argument, ...]
    outputs: int
    axes: tuple[_Axis, ...]
    chunk: int
    counters: tuple[tuple[Arange, tuple[int, ...]], ...]
    work_items: int

    @property
    def groups(self) -> int:
        """The number of work-groups."""
        return -(-self.axes[0].size // self.chunk) if self.axes else 1

    @property
    def signature(self) -> tuple[Any, ...]:
        """What generated code depends on."""
        counters = tuple((node.offset, strides) for node, strides in self.counters)
        known = tuple(axis.size if axis.is_known else None for axis in self.axes)
        arguments = tuple((a.type, a.axes, a.flipped) for a in self.arguments)
        return known, self.outputs, arguments, counters, self.work_items


def pointwise(
    roots: Sequence[Node], outputs: Sequence[Array], device: WorkGroups, *, is_dynamic: bool
) -> Pointwise | None:
    """Return the kernel for results that are element-wise functions of arrays, None where they are something else.

    It serves all sizes if it `is_dynamic`.
    """
    shape = roots[0].shape
    if any(root.shape != shape for root in roots) or any(
        isinstance(node, NOT_ELEMENTWISE)
        or (isinstance(node, Array) and not fits_memref(node))
        for node in topological(tuple(roots))
    ):
        return None
    memo: dict[Node, Node] = {}
    expressions = tuple(_spread(root, shape, memo) for root in roots)
    read = [node for node in topological(expressions) if isinstance(node, Array)]
    arrays = [*read, *outputs]
    counters = [node for node in topological(expressions) if isinstance(node, Arange)]
    axes = tuple(replace(axis, is_known=place > 0 and (axis.size < _LONG or device.work_items > 1) and not is_dynamic)
                 for place, axis in enumerate(_joined_axes(shape, [*counters, *arrays])))
    inner = math.prod(axis.size for axis in axes[1:])
    arguments = tuple(_argument(array, len(counters) + number, axes) for number, array in enumerate(arrays))
    counted = tuple((node, tuple(axis.strides[number] for axis in axes)) for number, node in enumerate(counters))
    return Pointwise(expressions, arguments, len(outputs), axes, max(1, device.elements // inner), counted,
                     device.work_items)


def _spread(node: Node, shape: tuple[int, ...], memo: dict[Node, Node]) -> Node:
    """Return a node with index maps moved to the arrays below, each broadcast to the shape of the result."""
    match node:
        case Number() | Parameter():
            return node
        case Arange():
            return broadcast(node, shape)
        case Array():
            return _known(broadcast(node, shape), memo)
        case Map():
            key = node
            if node.shape == shape and key in memo:
                return memo[key]
            operands = tuple(_spread(operand, shape, memo) for operand in node.operands)
            result = replace(node, shape=shape, operands=operands)
            if node.shape == shape:
                memo[key] = result
            return result
        case View(operand=operand, axes=axes):
            return _spread(_moved(operand, node.shape, axes), shape, memo)
    raise TypeError(node)


def _known(array: Node, memo: dict[Node, Node]) -> Node:
    """Return one node for all arrays with the same memory."""
    assert isinstance(array, Array)
    for other in memo.values():
        if isinstance(other, Array) and (other.slot, other.offset, other.strides, other.dtype) == (
            array.slot, array.offset, array.strides, array.dtype
        ):
            return other
    memo[array] = array
    return array


def _moved(node: Node, shape: tuple[int, ...], axes: tuple[tuple[int, int, int | None], ...]) -> Node:
    """Return the view of a node as a node whose operands are views."""
    if not isinstance(node, Map):
        return view(node, shape, axes)
    operands: list[Node] = []
    for operand in node.operands:
        if isinstance(operand, Number | Parameter):
            operands.append(operand)
        else:
            operands.append(view(broadcast(operand, node.shape), shape, axes))
    return replace(node, shape=shape, operands=tuple(operands))


def _joined_axes(shape: tuple[int, ...], arrays: Sequence[Array | Arange]) -> tuple[_Axis, ...]:
    axes = [_Axis(size, tuple(array.strides[place] for array in arrays))
            for place, size in enumerate(shape) if size > 1]
    order = sorted(range(len(axes)), key=lambda place: -abs(axes[place].strides[-1]))
    sorted_axes = [axes[place] for place in order]
    joined: list[_Axis] = []
    for axis in sorted_axes:
        outer = joined[-1] if joined else None
        if outer is not None and all(far == near * axis.size
                                     for far, near in zip(outer.strides, axis.strides, strict=True)):
            joined[-1] = _Axis(outer.size * axis.size, axis.strides)
        else:
            joined.append(axis)
    return tuple(joined)


def _argument(array: Array, number: int, axes: Sequence[_Axis]) -> Argument:
    own = [(abs(axis.strides[number]), axis.size, place, axis.strides[number] < 0)
           for place, axis in enumerate(axes) if axis.strides[number]]
    own.sort()
    offset = array.offset - sum((size - 1) * stride for stride, size, _, flipped in own if flipped)
    known = {place for place, axis in enumerate(axes) if axis.is_known and fits_memref(array)}
    shape = tuple(size if place in known else None for _, size, place, _ in own)
    strides = tuple(stride if place in known or (mode == 0 and stride == 1) else None
                    for mode, (stride, _, place, _) in enumerate(own))
    type_ = MemrefType(scalar_type_of(array.dtype), shape, strides)
    return Argument(
        array, type_, tuple(place for _, _, place, _ in own),
        tuple(mode for mode, (_, _, _, flipped) in enumerate(own) if flipped),
        tuple(size for _, size, _, _ in own), tuple(stride for stride, _, _, _ in own), offset,
    )


def write_pointwise(
    kernel: Pointwise, name: str, parameters: Sequence[tuple[Parameter, ScalarType]]
) -> Module:
    """Return the module: its parameters are the chunk, the scalars, the arrays read and those written."""
    types: dict[str, Type] = {"chunk": INDEX}
    types |= {f"s{i}": type for i, (_, type) in enumerate(parameters)}
    first_output = len(kernel.arguments) - kernel.outputs
    types |= {f"in{i}": argument.type for i, argument in enumerate(kernel.arguments[:first_output])}
    types |= {f"out{i}": argument.type for i, argument in enumerate(kernel.arguments[first_output:])}
    alone = kernel.work_items == 1
    b = FunctionBuilder(name, types, work_group_size=None if alone else (kernel.work_items, 1))
    chunk, *values = b.parameters
    scalars = {(parameter.position, type): value
               for (parameter, type), value in zip(parameters, values, strict=False)}
    memrefs = values[len(parameters) :]
    output, written = memrefs[first_output], kernel.arguments[first_output]
    index: list[Value] = []
    ranges: list[tuple[Value | int, Value | int]] = []
    for place, axis in enumerate(kernel.axes):
        stop: Value | int = axis.size if axis.is_known else b.size(output, written.axes.index(place))
        start: Value | int = 0
        if place == 0:
            start = b.mul(b.group_id(), chunk)
            stop = b.math("min", b.add(start, chunk), stop)
        ranges.append((start, stop))
    with ExitStack() as stack:
        if alone:
            for place, (start, stop) in enumerate(ranges):
                loop = b.foreach if place == len(ranges) - 1 else b.for_
                index.append(stack.enter_context(loop(start, stop)))
        elif ranges:
            starts, stops = zip(*reversed(ranges), strict=True)
            index += reversed(stack.enter_context(b.foreach_modes(starts, stops)))
        writer = _Elements(b, kernel, memrefs, scalars, index)
        results = [writer.value(expression) for expression in kernel.expressions]
        for result, memref, argument in zip(
            results, memrefs[first_output:], kernel.arguments[first_output:], strict=True
        ):
            b.store(result, memref, *(writer.indices(memref, argument)))
    return b.build()


class _Elements:
    """Writes the expressions for one element."""

    def __init__(
        self, b: FunctionBuilder, kernel: Pointwise, memrefs: Sequence[Value],
        scalars: dict[tuple[int, ScalarType], Value], index: Sequence[Value],
    ) -> None:
        self.b, self.scalars, self.index = b, scalars, index
        read = len(kernel.arguments) - kernel.outputs  # what is written may be the same array, but is another argument
        self.arguments = {argument.array: (memref, argument)
                          for memref, argument in zip(memrefs[:read], kernel.arguments[:read], strict=True)}
        self.counters = dict(kernel.counters)
        self.known: dict[Node, Value] = {}

    def indices(self, memref: Value, argument: Argument) -> list[Value]:
        """Return where the element is in an array."""
        where = []
        for mode, axis in enumerate(argument.axes):
            position = self.index[axis]
            if mode in argument.flipped:
                position = self.b.sub(self.b.sub(self.b.size(memref, mode), 1), position)
            where.append(position)
        return where

    def value(self, node: Node) -> Value:
        """Return the element of a node."""
        if node not in self.known:
            if isinstance(node, Array):
                memref, argument = self.arguments[node]
                self.known[node] = self.b.load(memref, *self.indices(memref, argument))
            elif isinstance(node, Arange):
                self.known[node] = self.count(node)
            else:
                assert isinstance(node, Map)
                self.known[node] = self.map(node)
        return self.known[node]

    def count(self, node: Arange) -> Value:
        """Return one of the numbers that count along axes."""
        terms = zip(self.index, self.counters[node], strict=True)
        return counted(self.b, node.offset, terms, scalar_type_of(node.dtype))

    def map(self, node: Map) -> Value:
        """Return the element of an element-wise function."""
        compute = scalar_type_of(node.compute)
        arguments = []
        for position, operand in enumerate(node.operands):
            type = I1 if node.kind == "where" and position == 0 else compute
            match operand:
                case Number() | Parameter():
                    arguments.append(number(self.b, operand, self.scalars, type))
                case _:
                    arguments.append(converted(self.b, self.value(operand), type))
        return converted(self.b, FUNCTIONS[node.kind].emit(self.b, compute, arguments), scalar_type_of(node.dtype))


