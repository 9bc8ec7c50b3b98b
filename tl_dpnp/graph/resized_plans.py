"""Plans for calls that differ in sizes alone from one that was traced: they are made from its graph, without a trace.

Where the number of products in a batch changes from call to call, a trace of each would take longer than the call.  A
trace leaves a `Template` where everything that it recorded is the same for other sizes: the function has looked at no
size that changes, nor an operation at one of which it takes a part, and all operations are of those in `OF_ANY_SIZE`,
which are refused, or do something else, only where axes that had one size have two, or where a size becomes or ceases
to be 0 or 1.  A call that differs in that, or in the magnitude of a size, is traced; one whose kernels would have to be
compiled is, too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tl_dpnp.graph.coalescing import coalesced
from tl_dpnp.graph.functions import FUNCTIONS
from tl_dpnp.graph.kernels import request_kernel
from tl_dpnp.graph.keys import CallKey, without_sizes
from tl_dpnp.graph.nodes import Array, Assemble, Contract, Map, Node, Number, Parameter, Part, Reduce, Take, View
from tl_dpnp.graph.plan import Plan, Step
from tl_dpnp.graph.planning import Planned, kernel_steps
from tl_dpnp.graph.repartition import Partitioning
from tl_dpnp.graph.results import new_arrays
from tl_dpnp.graph.specialization import Specialization
from tl_dpnp.graph.symbols import is_dynamic, rebuilt
from tl_dpnp.graph.trace import Trace
from tl_dpnp.graph.unification import GraphValues
from tl_dpnp.graph.views import c_strides
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.array_package import TARGET

__all__ = ["OF_ANY_SIZE", "ResizedPlans"]

#: Operations that depend on sizes by their equality, and by which are 0 or 1, alone.
OF_ANY_SIZE = frozenset((
    *FUNCTIONS, "absolute", "all", "amax", "amin", "any", "around", "bitwise_not", "conj", "copy", "dot", "einsum",
    "expand_dims", "inner", "linalg.multi_dot", "matmul", "max", "mean", "min", "mod", "moveaxis", "power", "prod",
    "squeeze", "sum", "swapaxes", "tensordot", "transpose", "true_divide",
    "__getitem__", "column_stack", "concat", "concatenate", "dstack", "hstack", "stack", "take", "vstack",
))
#: Templates that a function keeps, and kinds of calls of which it knows that there was a trace; the oldest go first.
_MOST = 64


@dataclass(frozen=True)
class _Axes:
    """An array that a graph reads: the place of the call's array that it is or is a view of, and which axis of that
    each of its own is; None for new ones of size 1, and for parts of an axis."""

    place: int
    axes: tuple[int | None, ...]


@dataclass(frozen=True)
class _Template:
    """A traced call whose sizes may be others.

    `planned` is its graph and how that was partitioned, `classes` has a number for each axis of its nodes that is
    longer than 1, those with the same size the same one; `fixed` are the sizes that stay.  `inputs` are the places of
    the call's arrays with the classes that each axis is of, `leaves` what of them the graph reads.  Of arrays of which
    it reads parts, `rigid` has the sizes that stay: all, or all but the first.
    """

    specialization: Specialization
    planned: Planned
    partitioning: Partitioning
    classes: Mapping[tuple[Node, int], int]
    fixed: Mapping[int, int]
    inputs: tuple[tuple[int, tuple[tuple[int, ...], ...]], ...]
    leaves: Mapping[Node, _Axes]
    rigid: Mapping[int, tuple[int, tuple[int, ...]]]

    @classmethod
    def of_trace(cls, trace: Trace, specialization: Specialization, key: CallKey) -> _Template | None:
        """Return the template that a trace leaves, None if it is not known to be the same for other sizes."""
        plan, planned = specialization.plan, trace.planned
        if (
            planned is None or trace.sizes_are_read or trace.breaks or not trace.operations <= OF_ANY_SIZE
            or specialization.overlaps is not None or new_arrays(plan.make) is None
            or len(plan.steps) != len(planned.requests)
        ):
            return None
        regions = [request.region for request in planned.requests]
        if not all(region.originals for region in regions):  # kernels that are given sizes
            return None
        partitioning = Partitioning.of(planned.coalesced, regions)
        graph = GraphValues(planned.roots, [node for node in trace.origins if _is_computed(node)])
        try:
            inputs = _Inputs(graph, {slot: place for place, slot in enumerate(plan.inputs)}, key)
            for node, axis in trace.axes_read:
                inputs.look_at(node, axis)
        except _Refused:
            return None
        known = inputs.fixed.union(*(numbers for own in inputs.classes.values() for numbers in own))
        if partitioning is None or not known.issuperset(graph.classes.values()) or not inputs.classes:
            return None
        return cls(specialization, planned, partitioning, graph.classes,
                   {number: graph.values[number].value for number in inputs.fixed},
                   tuple((place, tuple(map(tuple, own))) for place, own in inputs.classes.items()), inputs.leaves,
                   {place: (first, tuple(key.facts[place][0][first:])) for place, first in inputs.rigid.items()})

    def resized(self, key: CallKey) -> Specialization | None:
        """Return the plan for a call; None if it has to be traced."""
        sizes = self._sizes(key)
        if sizes is None:
            return None
        planned, plan = self.planned, self.specialization.plan

        def shape(node: Node) -> tuple[int, ...]:
            return tuple([sizes.get(self.classes.get((node, axis), -1), size) for axis, size in enumerate(node.shape)])

        def strides(array: Array) -> tuple[int, ...]:
            leaf = self.leaves.get(array)
            if leaf is None:
                return array.strides if array.slot in plan.inputs else c_strides(shape(array))
            given = key.facts[leaf.place][1]
            return tuple([own if axis is None else given[axis]
                          for axis, own in zip(leaf.axes, array.strides, strict=True)])

        nodes = rebuilt((*planned.roots, *planned.roots.values()), shape, strides)
        roots: dict[Node, Array] = {nodes[root]: _array(nodes[array]) for root, array in planned.roots.items()}
        slots = planned.registers
        whole = {array.slot: array for array in roots.values()}

        def new_array(node: Node) -> Array:
            nonlocal slots
            array = whole[slots] = Array(node.shape, node.dtype, slots, c_strides(node.shape))
            slots += 1
            return array

        regions = self.partitioning.applied(coalesced(roots), new_array, lambda old, new: None)
        requests = [request_kernel(region, planned.device) for region in regions]
        if slots != plan.slots or not all(request.is_known(TARGET) for request in requests):
            return None
        made: set[int] = set()
        steps: list[Step] = []
        for step, like in zip(kernel_steps(requests, whole, planned.usm_type, planned.queue, made.__contains__),
                              plan.steps, strict=True):
            made.update(each.slot for each in step.allocations)
            step.report = like.report  # one graph is enough for all sizes
            steps.append(step)
        other = Plan(plan.slots, steps, plan.make, plan.inputs, plan.tape)
        return replace(self.specialization, plan=other)

    def _sizes(self, key: CallKey) -> dict[int, int] | None:
        """Return the size of each class of axes in a call; None if they do not go together as they did."""
        sizes = dict(self.fixed)
        for place, numbers in self.inputs:
            shape, strides = key.facts[place][:2]
            first, sizes_that_stay = self.rigid.get(place, (len(shape), ()))
            if tuple(strides) != c_strides(shape) or tuple(shape[first:]) != sizes_that_stay:
                return None
            for size, own in zip(shape, numbers, strict=True):
                if any(sizes.setdefault(number, size) != size for number in own):
                    return None
        return sizes


class ResizedPlans:
    """The templates of one function, by all that their calls have in common: keys without sizes, and magnitudes."""

    def __init__(self) -> None:
        self._seen: OrderedDict[Any, None] = OrderedDict()
        self._templates: OrderedDict[Any, _Template] = OrderedDict()

    def traced(self, key: CallKey, trace: Trace, specialization: Specialization) -> None:
        """Take in a trace.  A template is made once there was one with other sizes."""
        kind = without_sizes(key.parts)
        if kind in self._seen:
            template = _Template.of_trace(trace, specialization, key)
            if template is not None:
                self._templates[kind, _magnitudes(key)] = template
        self._seen[kind] = None
        for known in (self._seen, self._templates):
            while len(known) > _MOST:
                known.popitem(last=False)

    def plan(self, key: CallKey) -> Specialization | None:
        """Return a plan for a call for which there is none; None if it has to be traced."""
        if not self._templates:
            return None
        template = self._templates.get((without_sizes(key.parts), _magnitudes(key)))
        return None if template is None else template.resized(key)


def _magnitudes(key: CallKey) -> tuple[int, ...]:
    """Return the number of bits of each size: what is decided by sizes is decided alike where it is the same."""
    return tuple([size.bit_length() for facts in key.facts for size in facts[0]])


def _array(node: Node) -> Array:
    assert isinstance(node, Array)
    return node


class _Inputs:
    """What a graph reads of the arrays of a call.

    `classes` are those of the axes of each array, by its place, and `leaves` are the nodes of arrays; `fixed` are the
    classes whose sizes stay.  Arrays of which there are parts keep the places of their elements: those at the places
    `rigid` keep all sizes from an axis on, the first where there is not all of that.
    """

    def __init__(self, graph: GraphValues, places: Mapping[int, int], key: CallKey) -> None:
        """Raise `_Refused` for a graph that is not known to be the same for other sizes."""
        self._graph, self._places, self._key = graph, places, key
        self.classes: dict[int, list[set[int]]] = {}
        self.leaves: dict[Node, _Axes] = {}
        self.fixed: set[int] = set()
        self.rigid: dict[int, int] = {}
        for node in graph.nodes:
            if any(map(is_dynamic, node.shape)) or 0 in node.shape:
                raise _Refused
            self._take_in(node)

    def _take_in(self, node: Node) -> None:
        match node:
            case Part():
                raise _Refused
            case Map() | Contract() | Number() | Parameter():
                pass
            case Reduce(operand=operand, axes=axes):
                self._fix(operand, axes)
            case Take(operand=operand, axis=axis):
                self._fix(operand, (axis,))
            case View(operand=operand, axes=axes):
                whole = [axis for axis, (start, step, out) in enumerate(axes)
                         if out is not None and (start, step, node.shape[out]) == (0, 1, operand.shape[axis])]
                found = {axes[axis][2] for axis in whole}
                outs = {out for _, _, out in axes}
                if any(size > 1 and axis not in outs for axis, size in enumerate(node.shape)):  # broadcast
                    raise _Refused
                self._fix(operand, [axis for axis in range(len(axes)) if axis not in whole])
                self._fix(node, [axis for axis in range(len(node.shape)) if axis not in found])
            case Assemble(operands=operands, positions=positions):
                for operand, position in zip(operands, positions, strict=True):
                    parts = [axis for axis, place in enumerate(position)
                             if (place, node.shape[axis]) != ((0, 1), operand.shape[axis])]
                    self._fix(operand, parts)
                    self._fix(node, parts)
            case Array():
                self._take_in_array(node)
            case _:
                raise _Refused

    def _fix(self, node: Node, axes: Iterable[int]) -> None:
        self.fixed |= _classes_of(self._graph, node, axes)

    def _take_in_array(self, node: Array) -> None:
        place = self._places.get(node.slot)
        if place is None:
            raise _Refused
        if place >= len(self._key.facts):  # an array from outside, which a guard says is the same
            self._fix(node, range(len(node.shape)))
            return
        shape, strides = self._key.facts[place][:2]
        if tuple(strides) != c_strides(shape):
            raise _Refused
        axes = _axes_of(node, shape, strides)
        parts = [axis for axis, stride in enumerate(node.strides) if axes[axis] is None and stride]
        if parts or node.offset or any(size > 1 and axis not in axes for axis, size in enumerate(shape)):
            self.rigid[place] = min(self.rigid.get(place, 1), int(0 in axes))
            self._fix(node, parts)
        self.leaves[node] = _Axes(place, axes)
        own = self.classes.setdefault(place, [set() for _ in shape])
        for number, axis in enumerate(axes):
            if axis is not None:
                own[axis] |= _classes_of(self._graph, node, (number,))

    def look_at(self, node: Node, axis: int) -> None:
        """Take in that somebody has looked at the size of an axis, which stays; raises `_Refused` if it is not known
        which sizes are that one."""
        if node.shape[axis] <= 1:
            return
        found = _classes_of(self._graph, node, (axis,))
        if not found and isinstance(node, Array) and node.slot in self._places:
            place = self._places[node.slot]
            own = self.classes.get(place, ())
            if node.offset == 0 and len(own) == len(node.shape) and node.strides == c_strides(node.shape):
                found = own[axis]
                if axis >= self.rigid.get(place, len(own)):
                    return
        if not found:
            raise _Refused
        self.fixed |= found


class _Refused(Exception):
    """A graph is not known to be the same for other sizes."""


def _classes_of(graph: GraphValues, node: Node, axes: Iterable[int]) -> set[int]:
    """Return the classes of some axes of a node; those of size 1 have none."""
    return {graph.classes[node, axis] for axis in axes if (node, axis) in graph.classes}


def _is_computed(node: Node) -> bool:
    return not isinstance(node, Array | Number | Parameter)


def _axes_of(node: Array, shape: Sequence[int], strides: Sequence[int]) -> tuple[int | None, ...]:
    """Return which axis of an array in C order each axis of a view of it is; None for new axes, and parts of one."""
    found: list[int | None] = []
    for own in zip(node.shape, node.strides, strict=True):
        found.append(next((axis for axis, other in enumerate(zip(shape, strides, strict=True))
                           if own == other and axis not in found), None))
    return tuple(found)
