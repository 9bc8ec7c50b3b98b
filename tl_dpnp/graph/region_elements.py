"""The elements of the nodes of a region, as values of the tensor language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tl_dpnp.graph.functions import FUNCTIONS
from tl_dpnp.graph.memrefs import Bound, scalar_type_of
from tl_dpnp.graph.nodes import Arange, Array, Map, Node, Number, Parameter, Take, View
from tl_dpnp.graph.partition import Region
from tl_dpnp.graph.placement import Places, local_shape, take_places
from tl_dpnp.graph.scalars import converted, counted, number
from tl_dpnp.graph.work_group import Buffer, Index, WorkGroup
from tl_dpnp.language import FunctionBuilder
from tl_dpnp.language.ops import Value
from tl_dpnp.scalars import I1, INDEX, ScalarType

__all__ = ["RegionElements"]


class RegionElements:
    """What a work-group knows of the nodes of a region: the memory of those that have some, in `buffers`, and values of
    single elements of all others, which are computed where they are used.
    """

    def __init__(
        self, region: Region, b: FunctionBuilder, leaves: Sequence[tuple[Array, Places, Bound]],
        outputs: Sequence[Bound], grid_sizes: Sequence[int], parameters: Sequence[tuple[Parameter, ScalarType]],
        counted: Mapping[int, int], sizes: Sequence[int],
    ) -> None:
        self.b = b
        self.region = region
        self.placement = region.placement
        values = iter(b.parameters)
        known = dict(zip(sizes, values, strict=False))
        self.scalars = {(parameter.position, type): next(values) for parameter, type in parameters}
        arguments = [(next(values), bound) for _, _, bound in leaves]
        targets = [(next(values), bound) for bound in outputs]
        group = self.group = WorkGroup(b, region.placement.grid, known, targets[0], grid_sizes, counted)
        #: The most elements that a work-group may hold of a node, by which code is chosen, and how many it holds.
        self.rooms = {node: local_shape(node.shape, places, region.placement.grid)
                      for node, places in region.placement.places.items()}
        self.shapes = {node: group.held(shape) for node, shape in self.rooms.items()}
        self.leaves = {
            (array, places): group.part_of(value, bound)
            for (array, places, _), (value, bound) in zip(leaves, arguments, strict=True)
        }
        self.outputs = {root: group.part_of(value, bound)
                        for root, (value, bound) in zip(region.roots, targets, strict=True)}
        self.buffers: dict[Node, Buffer] = {}
        self.loaded: dict[tuple[object, ...], Value] = {}

    def _element(self, node: Node, places: Places, index: tuple[Index, ...]) -> Value:
        """Return one element of a node, in the node's dtype."""
        key = (node, places, index)
        if key not in self.loaded:
            self.loaded[key] = self._compute(node, places, index)
        return self.loaded[key]

    def _compute(self, node: Node, places: Places, index: tuple[Index, ...]) -> Value:
        buffer = self.buffers.get(node)
        if buffer is not None:
            return self._load(buffer, index, self.shapes[node])
        match node:
            case Array():
                shape = self.group.held(local_shape(node.shape, places, self.placement.grid))
                return self._load(self.leaves[node, places], index, shape)
            case View(operand=operand, axes=axes):
                return self._element(operand, self.placement.places.get(operand, self._view_places(node, places)),
                                     tuple(self._position(entry, index) for entry in axes))
            case Map():
                return self._map(node, places, index)
            case Arange():
                return self._count(node, places, index)
            case Take(operand=operand, indices=indices, axis=axis):
                of_operand, of_indices = take_places(node, places)
                end = axis + len(indices.shape)
                where = self.b.cast(self._element(indices, of_indices, index[axis:end]), INDEX)
                return self._element(operand, of_operand, (*index[:axis], where, *index[end:]))
        raise AssertionError(f"{node} is stored")

    def _count(self, node: Arange, places: Places, index: tuple[Index, ...]) -> Value:
        """Return one of the numbers that count along axes."""
        terms = list(zip(index, node.strides, strict=True))
        for stride, target in zip(node.strides, places, strict=True):
            if stride and target in self.group.starts:
                terms.append((self.group.starts[target], stride))
            elif stride and target in self.group.index:
                terms.append((self.group.index[target], stride * self.placement.grid[target].chunk))
        return counted(self.b, node.offset, terms, scalar_type_of(node.dtype))

    def _view_places(self, node: View, places: Places) -> Places:
        return tuple(None if out is None else places[out] for _, _, out in node.axes)

    def _position(self, entry: tuple[int, int, int | None], index: tuple[Index, ...]) -> Index:
        start, step, out = entry
        if out is None:
            return start
        position = index[out]
        if isinstance(position, int):
            return start + step * position
        if step != 1:
            position = self.b.mul(position, step)
        return self.b.add(position, start) if start else position

    def _load(self, buffer: Buffer, index: tuple[Index, ...], shape: tuple[Index, ...]) -> Value:
        where = []
        for axis in buffer.axes:
            position = index[axis]
            if axis in buffer.flipped:
                position = self.group.minus(self.group.minus(shape[axis], 1), position)
            where.append(position)
        if buffer.steps:
            place = buffer.start
            for position, step in zip(where, buffer.steps, strict=True):
                way = position * step if isinstance(position, int) else self.b.mul(position, step)
                place = self.group.plus(place, way)
            where = [place]
        return self.b.load(buffer.memref, *where)

    def _map(self, node: Map, places: Places, index: tuple[Index, ...]) -> Value:
        function = FUNCTIONS[node.kind]
        compute = scalar_type_of(node.compute)
        arguments = []
        for position, operand in enumerate(node.operands):
            condition = node.kind == "where" and position == 0
            arguments.append(self._operand(operand, I1 if condition else compute, node, places, index))
        value = function.emit(self.b, compute, arguments)
        return converted(self.b, value, scalar_type_of(node.dtype))

    def _operand(self, operand: Node, type: ScalarType, node: Node, places: Places, index: tuple[Index, ...]) -> Value:
        match operand:
            case Number() | Parameter():
                return number(self.b, operand, self.scalars, type)
        first = len(node.shape) - len(operand.shape)
        inner = tuple(0 if size == 1 else index[first + axis] for axis, size in enumerate(operand.shape))
        below = tuple(None if size == 1 and node.shape[first + axis] != 1 else places[first + axis]
                      for axis, size in enumerate(operand.shape))
        return converted(self.b, self._element(operand, below, inner), type)
