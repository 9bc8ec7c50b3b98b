"""What varies between the graphs that a function has recorded, and is therefore given to kernels.

The first graph of a structure becomes kernels that know all sizes.  What has another value in a later graph of that
structure, a size, a constant or a stride of an array, is an argument of the kernels from then on.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from tl_dpnp.graph.nodes import Array, Given, Node, Number
from tl_dpnp.graph.repartition import Partitioning
from tl_dpnp.graph.symbols import DynamicSize, DynamicStride, rebuilt, room_for
from tl_dpnp.graph.unification import Axis, GraphValues, Value
from tl_dpnp.graph.work_groups import WorkGroups
from tl_dpnp.records import dataclass

__all__ = ["Choice", "NamedArray", "Varying"]

#: Structures that are remembered; the oldest go first.
_MOST = 256
#: Partitionings that are remembered for one structure.
_MOST_PARTITIONINGS = 64


#: How graphs were partitioned whose kernels are given the same values, for each kind of work-groups.
Partitionings = dict[WorkGroups, Partitioning | None]


@dataclass
class _Record:
    """The values of the first graph of a structure, which of them have changed since, and the rooms of sizes.

    `partitionings` are by what kernels are given and by all other values; those of graphs whose kernels are given
    nothing are by the magnitudes of sizes.
    """

    first: tuple[Any, ...]
    changed: set[int] = field(default_factory=set)
    rooms: dict[int, int] = field(default_factory=dict)
    partitionings: OrderedDict[Any, Partitionings] = field(default_factory=OrderedDict)

    def kept(self, key: Any) -> Partitionings:
        """Return the partitionings that are kept for a key; the oldest go first."""
        found = self.partitionings.setdefault(key, {})
        while len(self.partitionings) > _MOST_PARTITIONINGS:
            self.partitionings.popitem(last=False)
        return found


#: An array that the user has a name for: the name, the shape and the strides in elements.
NamedArray = tuple[str, tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Choice:
    """What kernels of a graph are to be given: `sizes` by the class of axes, and values by their number.

    `static` are sizes that have changed and that kernels have to know nevertheless, with the reason.  `is_new` says
    that there was no graph of this structure before; `partitionings` are of those that differ in what is given, and
    those of graphs `alike` have kernels that are given nothing, and sizes of the same magnitudes.
    """

    graph: GraphValues
    sizes: dict[int, DynamicSize]
    others: frozenset[int]
    static: dict[int, str]
    is_new: bool = False
    partitionings: Partitionings = field(default_factory=dict)
    alike: Partitionings = field(default_factory=dict)

    @property
    def is_static(self) -> bool:
        """Whether kernels are given nothing."""
        return not self.sizes and not self.others

    def refused(self, reason: str) -> Choice:
        """Return the choice of kernels that know all sizes, for a reason."""
        return Choice(self.graph, {}, frozenset(), {**dict.fromkeys(self.sizes, reason), **self.static})

    def described(self, named: Mapping[int, NamedArray]) -> tuple[list[str], dict[str, str]]:
        """Return the axes whose sizes kernels are given, and those that changed and are known to them, with the reason.

        `named` has the names of arrays by their registers.
        """
        return [name for number in self.sizes for name in self._axes(number, named)], {
            name: reason for number, reason in self.static.items() for name in self._axes(number, named)}

    def _axes(self, number: int, named: Mapping[int, NamedArray]) -> list[str]:
        """Return the axes of named arrays that have a size."""
        found: dict[str, None] = {}
        for (node, axis), other in self.graph.classes.items():
            if other == number and isinstance(node, Array) and node.slot in named:
                name, shape, strides = named[node.slot]
                facts = node.shape[axis], abs(node.strides[axis])
                base = [i for i, own in enumerate(zip(shape, map(abs, strides), strict=True)) if own == facts]
                found[f"axis {base[0]} of {name}" if len(base) == 1 else f"an axis of a view of {name}"] = None
        return list(found)

    def applied(self, renamed: Callable[[Node, Node], None]) -> dict[Node, Array]:
        """Return the roots of the graph with dynamic sizes, each with its array."""
        values = self.graph.values
        given: dict[Node, Given] = {}
        strides: set[Axis] = set()
        for number in sorted(self.others):
            value = values[number]
            if value.kind == "stride":
                strides.add((value.node, value.axis))
            elif isinstance(value.node, Number) and value.kind == "number":
                given[value.node] = Given((), None, -1 - len(given), value.value)  # type: ignore[arg-type]

        dynamic: dict[Node, dict[int, DynamicSize]] = {}
        for (node, axis), number in self.graph.classes.items():
            if number in self.sizes:
                dynamic.setdefault(node, {})[axis] = self.sizes[number]

        def shape(node: Node) -> tuple[int, ...]:
            found = dynamic.get(node)
            return node.shape if found is None else tuple(
                found.get(axis, size) for axis, size in enumerate(node.shape))

        def strides_of(array: Array) -> tuple[int, ...]:
            return tuple(DynamicStride(stride) if (array, axis) in strides else stride
                         for axis, stride in enumerate(array.strides))

        arrays = rebuilt(tuple(self.graph.roots.values()), shape, strides_of)
        memo = rebuilt(tuple(self.graph.roots), shape, strides_of, given, renamed)
        result: dict[Node, Array] = {}
        for root, array in self.graph.roots.items():
            other = arrays[array]
            assert isinstance(other, Array)
            result[memo[root]] = other
        return result


class Varying:
    """The values of the graphs of one function.

    `dynamic` is the option of `tl_dpnp.fuse`: with True, all sizes are given from the first graph on; with None, those
    that have changed; with False, none.
    """

    def __init__(self, dynamic: bool | None) -> None:
        self.dynamic = dynamic
        self._records: OrderedDict[tuple[Any, ...], _Record] = OrderedDict()
        self._lock = threading.Lock()

    def choose(self, roots: Mapping[Node, Array]) -> Choice | None:
        """Take in a graph and return what its kernels are to be given, None if nothing ever is."""
        if self.dynamic is False:
            return None
        graph = GraphValues(roots)
        with self._lock:
            return self._chosen(graph)

    def _chosen(self, graph: GraphValues) -> Choice:
        values = tuple(value.value for value in graph.values)
        record = self._records.get(graph.structure)
        is_new = record is None
        if record is None:
            record = self._records[graph.structure] = _Record(values)
            if self.dynamic:
                record.changed |= _all(graph)
            while len(self._records) > _MOST:
                self._records.popitem(last=False)
        self._records.move_to_end(graph.structure)
        record.changed |= {number for number, (value, first) in enumerate(zip(values, record.first, strict=True))
                           if value != first}
        sizes: dict[int, DynamicSize] = {}
        for number in sorted(record.changed):
            if graph.values[number].kind == "size" and number not in graph.static:
                room = record.rooms[number] = max(room_for(values[number]), record.rooms.get(number, 0))
                sizes[number] = DynamicSize(room, number, values[number])
        others = frozenset(number for number in record.changed if graph.values[number].kind in ("number", "stride"))
        static = {number: reason for number, reason in graph.static.items() if number in record.changed}
        slots = tuple(array.slot for array in graph.roots.values())
        alike = record.kept((tuple(map(_magnitude, graph.values)), slots))
        if not sizes and not others:
            return Choice(graph, sizes, others, static, is_new, alike=alike)
        given = {*sizes, *others}
        key = (tuple((number, int(size)) for number, size in sizes.items()), others,
               tuple(value for number, value in enumerate(values) if number not in given), slots)
        return Choice(graph, sizes, others, static, is_new, record.kept(key), alike)


def _magnitude(value: Value) -> Any:
    """Return the number of bits of a size or a stride, and any other value as it is."""
    return int(value.value).bit_length() if value.kind in ("size", "stride") else (type(value.value), value.value)


def _all(graph: GraphValues) -> set[int]:
    """Return all sizes, and the constants that are one of them, such as the divisor of a mean."""
    sizes = {number for number, value in enumerate(graph.values)
             if value.kind == "size" and number not in graph.static}
    known = {graph.values[number].value for number in sizes}
    return sizes | {number for number, value in enumerate(graph.values)
                    if value.kind == "number" and value.value in known}
