"""From a region of the graph to a function of the tensor language.

Each work-group computes one index of the grid.  Nodes that are stored (`partition.stored_nodes`) get a temporary, or
are written straight to their result; all others are computed where they are used, element by element.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from types import MappingProxyType

from tl_dpnp.graph.contraction import Tensor, write_contraction
from tl_dpnp.graph.elimination import Factors
from tl_dpnp.graph.functions import FUNCTIONS, REDUCTIONS
from tl_dpnp.graph.interleaved_layout import interleaved_axes, interleaved_layouts, write_transposed
from tl_dpnp.graph.layouts import preferred_layouts
from tl_dpnp.graph.memrefs import Bound, scalar_type_of
from tl_dpnp.graph.nodes import (
    Accumulate,
    Array,
    Assemble,
    Contract,
    Eliminate,
    Map,
    Node,
    Parameter,
    Reduce,
    Reshape,
    View,
    operands_of,
)
from tl_dpnp.graph.partition import Region
from tl_dpnp.graph.placement import Places, local_shape
from tl_dpnp.graph.region_elements import RegionElements
from tl_dpnp.graph.scalars import constant, converted
from tl_dpnp.graph.storage import staged_arrays, stored_nodes
from tl_dpnp.graph.sums import Term, sums_of
from tl_dpnp.graph.symbols import UNLIMITED, is_dynamic
from tl_dpnp.graph.wide_reductions import LEAST_ELEMENTS, write_wide_reduction
from tl_dpnp.graph.work_group import Buffer, Index, is_long
from tl_dpnp.language import FunctionBuilder, ops
from tl_dpnp.language.builder import ALL, memref
from tl_dpnp.language.ops import Module, Value, memref_type
from tl_dpnp.language.types import Type
from tl_dpnp.scalars import INDEX, ScalarType, is_lossless

__all__ = ["write_region"]

#: Additions that the code of a reduction without loops is as long as, at most; and the sums that one sum is made of.
_UNROLLED, _CHAINS = 64, 4
#: How much longer the code of a function is for complex numbers: products recover infinities.
_COMPLEX_CODE = 8


def write_region(
    region: Region, name: str, leaves: Sequence[tuple[Array, Places, Bound]], outputs: Sequence[Bound],
    grid_sizes: Sequence[int], parameters: Sequence[tuple[Parameter, ScalarType]],
    counted: Mapping[int, int] = MappingProxyType({}), sizes: Sequence[int] = (),
) -> Module:
    """Return the module with the kernel of a region.

    Its parameters are the given `sizes`, the scalars, the arrays that are read, then those that are written.
    `grid_sizes` are of the runs of grid axes that are counted through together; `counted` has the run of an axis whose
    index is needed.
    """
    types: dict[str, Type] = {f"n{i}": INDEX for i in range(len(sizes))}
    types |= {f"s{i}": type for i, (_, type) in enumerate(parameters)}
    types |= {f"in{i}": bound.type for i, (_, _, bound) in enumerate(leaves)}
    types |= {f"out{i}": bound.type for i, bound in enumerate(outputs)}
    builder = FunctionBuilder(name, types)
    return _Writer(region, builder, leaves, outputs, grid_sizes, parameters, counted, sizes).write()


class _Writer(RegionElements):
    """Writes the nodes of a region that are kept in memory, and the results."""

    def write(self) -> Module:
        """Write the body and return the module."""
        stored = stored_nodes(self.placement, self.region.roots)
        self.stored = {*stored, *self.region.roots}
        self.factors: dict[tuple[Node, bool], Factors] = {}
        self.sums: dict[Node, list[Term]] = {}
        if self.placement.is_interleaved:
            self.layouts = interleaved_layouts(self.placement, self.rooms)
            for array, places in staged_arrays(self.placement):
                self.leaves[array, places] = self._staged(array, places)
        else:
            self.layouts = preferred_layouts(stored, self.rooms, self.region.roots)
            self.sums = sums_of(
                self.placement, self.region.roots, stored, self.rooms, self.layouts,
                lambda array, places: self.leaves[array, places].is_plain and len(self.leaves[array, places].axes) == 2)
        for root in self.region.roots:
            self._emit(root)
        return self.b.build()

    def _staged(self, array: Array, places: Places) -> Buffer:
        """Return memory in the interleaved layout with what a work-group has of an array."""
        given = self.leaves[array, places]
        shape = local_shape(array.shape, places, self.placement.grid)
        axes = interleaved_axes(places, shape)
        assert axes is not None, "it has an axis of matrices"
        if axes == given.axes and given.is_plain:
            return given
        staged = self._allocated(shape, axes, scalar_type_of(array.dtype))
        self._move(given, staged, shape)
        return staged

    def _emit(self, node: Node) -> None:
        """Write a stored node, after what it needs."""
        if node in self.buffers:
            return
        if node not in self.sums:
            self._emit_below(node)
        if isinstance(node, Reshape):
            self.buffers[node] = self._reshaped(node)
            if node not in self.outputs:
                return
        output = self.outputs.get(node)
        target = self._temporary(node) if output is None or self._is_transposed(node, output) else output
        match node:
            case _ if node in self.sums:
                self._write_sum(node, self.sums[node], target)
            case Contract():
                self._contract(node, target)
            case Reduce():
                self._reduce(node, target)
            case Assemble():
                self._assemble(node, target)
            case Accumulate():
                self._accumulate(node, target)
            case Eliminate():
                self._eliminate(node, target)
            case _:
                self._assign(node, target)
        if output is not None and target is not output:
            self._move(target, output, self.rooms[node])
        if not isinstance(node, Array):  # what a result is a copy of is read where it lies
            self.buffers[node] = target

    def _is_transposed(self, node: Node, output: Buffer) -> bool:
        """Return whether a result is computed in the interleaved layout, and then transposed."""
        return self.placement.is_interleaved and self.layouts.get(node, output.axes) != output.axes

    def _move(self, source: Buffer, target: Buffer, rooms: Sequence[int]) -> None:
        """Copy what one buffer holds to another one, which may be transposed."""
        if not write_transposed(self.b, source, target):
            shape = self.group.held(rooms)
            with self._loops(tuple(reversed(target.axes)), shape) as index:
                where = [index[axis] for axis in target.axes]
                self.b.store(self._load(source, index, shape), target.memref, *where)

    def _emit_below(self, node: Node) -> None:
        """Write the stored nodes that a node is computed from, as late as that, so that temporaries live shortly."""
        for operand in operands_of(node):
            if operand in self.stored and not isinstance(operand, Array):
                self._emit(operand)
            else:
                self._emit_below(operand)

    # --- memory ------------------------------------------------------------------------------------------------------

    def _temporary(self, node: Node) -> Buffer:
        axes = tuple(axis for axis in reversed(range(len(node.shape))) if self.rooms[node][axis] > 1)
        if node in self.layouts:
            axes = self.layouts[node]
        return self._allocated(self.rooms[node], axes, scalar_type_of(node.dtype))

    def _allocated(self, rooms: Sequence[int], axes: tuple[int, ...], element: ScalarType) -> Buffer:
        """Return memory with some axes of a shape, the fastest first: of room for dynamic sizes, the part in use."""
        room = [int(rooms[axis]) for axis in axes]
        assert max(room, default=0) < UNLIMITED, "there are no temporaries without a limit"
        memory = self.b.alloca(memref(element, *room))
        if any(is_dynamic(rooms[axis]) for axis in axes):
            memory = self.b.subview(memory, *((0, size) for size in self.group.held([rooms[axis] for axis in axes])))
        return Buffer(memory, axes)

    def _reshaped(self, node: Reshape) -> Buffer:
        """Return the memory of the operand, which is in C order, seen with another shape."""
        memref = self.buffers[node.operand].memref
        axes = tuple(axis for axis in reversed(range(len(node.shape))) if self.rooms[node][axis] > 1)
        sizes = [self.rooms[node][axis] for axis in axes]
        assert not any(map(is_dynamic, sizes[:-1])), "what is reshaped has sizes that are known, but for the slowest"
        order = ops.memref_type(memref).order
        if order > 1:
            memref = self.b.fuse(memref, 0, order - 1)
        if len(sizes) > 1:
            memref = self.b.expand(memref, 0, *self.group.held(sizes))
        return Buffer(memref, axes)

    def _addressable(self, node: Node, places: Places) -> Buffer | None:
        """Return the memory that holds a node, seen as the node sees it; None if there is none."""
        if node in self.buffers:
            return self.buffers[node]
        match node:
            case Array():
                buffer = self.leaves[node, places]
                return buffer if buffer.is_plain else None
            case View(operand=operand, axes=axes):
                below = self._addressable(operand, self.placement.places.get(operand, ()))
                if below is None or any(step != 1 for _, step, out in axes if out is not None):
                    return None
                entries: list[Index | slice | tuple[Index, Index]] = []
                kept = []
                for axis in below.axes:
                    start, _, out = axes[axis]
                    if out is None:
                        entries.append(start)
                        continue
                    size = self.shapes[node][out]
                    entries.append(ALL if size == self.shapes[operand][axis] else start if size == 1 else (start, size))
                    if is_long(size):
                        kept.append(out)
                plain = all(entry is ALL for entry in entries)
                return Buffer(below.memref if plain else self.b.subview(below.memref, *entries), tuple(kept))
        return None

    # --- loops -------------------------------------------------------------------------------------------------------

    @contextmanager
    def _loops(self, axes: Sequence[int], shape: tuple[Index, ...]) -> Iterator[tuple[Index, ...]]:
        """Open a loop over `axes`, the slowest first, whose iterations the work-items share."""
        index: list[Index] = [0] * len(shape)
        with ExitStack() as stack:
            if axes:
                fastest = list(reversed(axes))
                loop = self.b.foreach_modes([0] * len(fastest), [shape[axis] for axis in fastest])
                for axis, variable in zip(fastest, stack.enter_context(loop), strict=True):
                    index[axis] = variable
            self.loaded = {}
            yield tuple(index)
            self.loaded = {}

    def _assign(self, node: Node, target: Buffer) -> None:
        """Compute an element-wise node into `target`, its fastest mode innermost."""
        shape, places = self._shape_of(node), self._places_of(node)
        with self._loops(tuple(reversed(target.axes)), shape) as index:
            if node in self.buffers:
                value = self._load(self.buffers[node], index, shape)
            else:
                value = self._compute(node, places, index)
            self.b.store(value, target.memref, *(index[axis] for axis in target.axes))

    def _assemble(self, node: Assemble, target: Buffer) -> None:
        """Copy each operand to its place in `target`."""
        places, element = self._places_of(node), scalar_type_of(node.dtype)
        for operand, position in zip(node.operands, node.positions, strict=True):
            shape = self.group.held(local_shape(operand.shape, places, self.placement.grid))
            axes = [axis for axis in reversed(target.axes) if is_long(shape[axis])]
            with self._loops(axes, shape) as index:
                value = converted(self.b, self._element(operand, places, index), element)
                where = [self._position((*position[axis], axis), index) for axis in target.axes]
                self.b.store(value, target.memref, *where)

    def _shape_of(self, node: Node) -> tuple[Index, ...]:
        return self.group.held(local_shape(node.shape, self._places_of(node), self.placement.grid))

    def _places_of(self, node: Node) -> Places:
        known = self.placement.places.get(node)
        if known is not None:
            return known
        return tuple(axis if axis < len(self.placement.grid) else None for axis in range(len(node.shape)))

    # --- sums --------------------------------------------------------------------------------------------------------

    def _write_sum(self, node: Node, terms: list[Term], target: Buffer) -> None:
        """Write a sum: the terms of a result are accumulated beside it, and it is written once, when all is read.

        Accumulating in the target itself, which is in global memory, took two to four times as long on a CPU.
        """
        places = self.placement.places[node]
        axes = self.layouts.get(node, target.axes)
        beside = target
        if node in self.outputs or axes != target.axes:
            beside = self._allocated(self.rooms[node], axes, scalar_type_of(node.dtype))
        for number, term in enumerate(sorted(terms, key=lambda term: isinstance(term.node, Contract))):
            if isinstance(term.node, Contract):
                self._emit_below(term.node)
                self._contract(term.node, beside, number > 0, self._scale(term, node))
            else:
                assert isinstance(term.node, Array)
                self._add(self.leaves[term.node, places], self._scale(term, node), beside, number == 0)
        if beside is not target:
            self._add(beside, 1.0, target, True)

    def _scale(self, term: Term, node: Node) -> Value | float:
        if term.parameter is None:
            return term.scale
        type_ = scalar_type_of(node.dtype)
        value = self.scalars[term.parameter.position, type_]
        return value if term.scale == 1.0 else self.b.mul(value, constant(self.b, term.scale, type_))

    def _add(self, source: Buffer, scale: Value | float, target: Buffer, first: bool) -> None:
        element = memref_type(target.memref).element
        factor = constant(self.b, scale, element) if isinstance(scale, int | float) else scale
        beta, transpose = 0.0 if first else 1.0, source.axes != target.axes
        memrefs = [source.memref, target.memref]
        if not transpose and all(memref_type(memref).is_packed and memref_type(memref).is_static for memref in memrefs):
            memrefs = [self.b.fuse(memref, 0, 1) for memref in memrefs]  # one row fills more vectors
        self.b.axpby(factor, memrefs[0], beta, memrefs[1], transpose=transpose)

    # --- reductions and products -------------------------------------------------------------------------------------

    def _reduce(self, node: Reduce, target: Buffer) -> None:
        """Put elements together in a register where they are few, else in `target`."""
        operand = node.operand
        places = self.placement.places.get(operand)
        if places is None:
            kept_places = iter(self._places_of(node))
            places = tuple(None if axis in node.axes else next(kept_places) for axis in range(len(operand.shape)))
        room = local_shape(operand.shape, places, self.placement.grid)
        shape = self.group.held(room)
        sizes = [shape[axis] for axis in node.axes]
        known = [size for size in sizes if isinstance(size, int)]
        if len(known) == len(sizes) and 0 < math.prod(known) * self._code(operand) <= _UNROLLED:
            self._reduce_unrolled(node, target, places, known)
        elif not target.axes and math.prod(room[axis] for axis in node.axes) >= LEAST_ELEMENTS:
            self._reduce_to_one(node, target, places, shape, room)
        else:
            self._reduce_in_loops(node, target, places, shape)

    def _code(self, node: Node) -> int:
        """Return the additions that the code of an element is as long as."""
        pending, seen = [node], {node}
        while pending:
            below = () if (other := pending.pop()) in self.buffers else operands_of(other)
            pending += [operand for operand in dict.fromkeys(below) if operand not in seen]
            seen.update(below)
        return sum(
            FUNCTIONS[each.kind].code * (_COMPLEX_CODE if each.compute.kind == "c" else 1)
            if isinstance(each, Map) and each not in self.buffers else 1 for each in seen)

    def _reduce_unrolled(self, node: Reduce, target: Buffer, places: Places, sizes: Sequence[int]) -> None:
        """Compute each result at once.

        A sum of floats that is not computed in several lanes is one of several sums: each addition waits for the one
        before.
        """
        b, reduction, type_ = self.b, REDUCTIONS[node.kind], scalar_type_of(node.dtype)
        order = tuple(reversed(target.axes))
        emit = FUNCTIONS[reduction.function].emit
        with self._loops(order, self._shape_of(node)) as index:
            kept, totals = iter(index), []
            where = [0 if axis in node.axes else next(kept) for axis in range(len(node.operand.shape))]
            chains = _CHAINS if node.kind == "sum" and type_.is_float and not order else 1
            if node.kind == "sum" and not type_.is_integer:  # a sum of −0 is 0
                totals.append(constant(b, reduction.start(type_), type_))
            for number, summed in enumerate(product(*map(range, sizes))):
                for axis, position in zip(node.axes, summed, strict=True):
                    where[axis] = position
                element = converted(b, self._element(node.operand, places, tuple(where)), type_)
                if len(totals) < chains:
                    totals.append(element)
                else:
                    totals[number % chains] = emit(b, type_, [totals[number % chains], element])
            while len(totals) > 1:
                totals = [emit(b, type_, totals[n : n + 2]) if len(totals[n : n + 2]) > 1 else totals[n]
                          for n in range(0, len(totals), 2)]
            b.store(totals[0], target.memref, *(index[axis] for axis in target.axes))

    def _reduce_to_one(
        self, node: Reduce, target: Buffer, places: Places, shape: Sequence[Index], room: Sequence[int]
    ) -> None:
        """Compute the only result in partial results; there is `room` for the sizes of the operand's `shape`."""
        b, reduction, type_ = self.b, REDUCTIONS[node.kind], scalar_type_of(node.dtype)
        emit = FUNCTIONS[reduction.function].emit

        def element(where: Mapping[int, Index]) -> Value:
            self.loaded = {}
            index = tuple(where.get(axis, 0) for axis in range(len(node.operand.shape)))
            return converted(b, self._element(node.operand, places, index), type_)

        held = self.buffers.get(node.operand)
        in_memory = tuple(reversed(held.axes)) if held is not None else node.axes  # the slowest first
        summed = [axis for axis in in_memory if is_long(shape[axis])]
        result = write_wide_reduction(
            b, type_, constant(b, reduction.start(type_), type_), lambda one, other: emit(b, type_, [one, other]),
            {axis: shape[axis] for axis in summed}, element, room[summed[-1]])
        self.loaded = {}
        b.store(result, target.memref)

    def _reduce_in_loops(self, node: Reduce, target: Buffer, places: Places, inner_shape: tuple[Index, ...]) -> None:
        """Accumulate in `target`: the summed axes outside, so that the inner loop runs over different results."""
        b, reduction = self.b, REDUCTIONS[node.kind]
        operand, shape, type_ = node.operand, self._shape_of(node), scalar_type_of(node.dtype)
        kept = [axis for axis in range(len(operand.shape)) if axis not in node.axes]
        order = tuple(reversed(target.axes))
        start = constant(b, reduction.start(type_), type_)
        with self._loops(order, shape) as index:
            b.store(start, target.memref, *(index[axis] for axis in target.axes))
        summed: list[Index] = [0] * len(inner_shape)
        with ExitStack() as stack:
            for axis in node.axes:
                if is_long(inner_shape[axis]):
                    summed[axis] = stack.enter_context(b.for_(0, inner_shape[axis]))
            index = stack.enter_context(self._loops(order, shape))
            for axis, position in zip(kept, index, strict=True):
                summed[axis] = position
            element = converted(self.b, self._element(operand, places, tuple(summed)), type_)
            where = [index[axis] for axis in target.axes]
            value = FUNCTIONS[reduction.function].emit(b, type_, [b.load(target.memref, *where), element])
            b.store(value, target.memref, *where)

    def _accumulate(self, node: Accumulate, target: Buffer) -> None:
        """Put each element together with the result before it: the axis outside, as that of a reduction."""
        b, places, shape = self.b, self._places_of(node), self._shape_of(node)
        type_, function = scalar_type_of(node.dtype), FUNCTIONS[REDUCTIONS[node.kind].function]
        order = [axis for axis in reversed(target.axes) if axis != node.axis]

        def element(index: tuple[Index, ...]) -> tuple[Value, list[Index]]:
            value = converted(b, self._element(node.operand, places, index), type_)
            return value, [index[axis] for axis in target.axes]

        with self._loops(order, shape) as index:
            value, where = element(index)
            b.store(value, target.memref, *where)
        if is_long(shape[node.axis]):
            with b.for_(1, shape[node.axis]) as step, self._loops(order, shape) as index:
                value, where = element((*index[: node.axis], step, *index[node.axis + 1 :]))
                before = [b.sub(step, 1) if axis == node.axis else index[axis] for axis in target.axes]
                value = function.emit(b, type_, [b.load(target.memref, *before), value])
                b.store(value, target.memref, *where)

    def _eliminate(self, node: Eliminate, target: Buffer) -> None:
        """Factor each matrix in registers, then work on its right-hand sides in any order.

        As dpnp does, determinants and inverses are those of transposed matrices: rows of any scale lose nothing.
        """
        b, matrices = self.b, node.operands[0]
        type_ = scalar_type_of(matrices.dtype)
        batch, size = len(matrices.shape) - 2, matrices.shape[-1]
        places, shape = self._places_of(node), self._shape_of(node)
        inside = (*places[:batch], None, None)
        with ExitStack() as stack:
            first: tuple[Index, ...] = tuple(
                stack.enter_context(b.for_(0, extent)) if is_long(extent) else 0 for extent in shape[:batch])
            self.loaded = {}
            transposed = node.kind in ("det", "inv")
            factors = self.factors.get((matrices, transposed))
            if factors is None:
                factors = Factors.of(b, type_, [[
                    self._element(matrices, inside, (*first, *((j, i) if transposed else (i, j)))) for j in range(size)
                ] for i in range(size)])
                if all(index == 0 for index in first):  # no loop is open, so they can be used further on
                    self.factors[matrices, transposed] = factors
            if node.kind in ("det", "singular"):
                value = factors.determinant() if node.kind == "det" else factors.singular()
                b.store(value, target.memref, *(first[axis] for axis in target.axes))
            else:
                column = stack.enter_context(b.foreach(0, shape[-1])) if is_long(shape[-1]) else 0
                if node.kind == "solve":
                    right = [self._element(node.operands[1], inside, (*first, row, column)) for row in range(size)]
                else:
                    right = [constant(b, 1.0, type_) if size == 1 else b.cast(b.cmp("eq", column, row), type_)
                             for row in range(size)]
                for row, value in enumerate(factors.solution(right)):
                    index = (*first, *((column, row) if transposed else (row, column)))
                    b.store(value, target.memref, *(index[axis] for axis in target.axes))
        self.loaded = {}

    def _contract(self, node: Contract, target: Buffer, accumulate: bool = False, alpha: Value | float = 1.0) -> None:
        element = scalar_type_of(node.dtype)
        if self.placement.is_interleaved and all(0 in self._operand_places(node, letters)
                                                 for letters in node.operand_letters):
            self._contract_lanes(node, target)
            return
        tensors = [
            self._tensor(operand, letters, node, element)
            for operand, letters in zip(node.operands, node.operand_letters, strict=True)
        ]
        sizes = node.sizes | dict(zip(node.letters, self.rooms[node], strict=True))
        out = Tensor(target.memref, "".join(node.letters[axis] for axis in target.axes))
        factor = constant(self.b, alpha, element) if isinstance(alpha, int | float) else alpha
        held = dict(zip(sizes, self.group.held(list(sizes.values())), strict=True))
        lanes = "".join(letter for letter, place in zip(node.letters, self.placement.places[node], strict=True)
                        if place == 0 and self.placement.is_interleaved)
        write_contraction(self.b, tensors[0], tensors[1], out, held, accumulate, factor, lanes)

    def _contract_lanes(self, node: Contract, target: Buffer) -> None:
        """Compute a product of matrices that lie beside one another: each lane of a vector has its own."""
        b, type_ = self.b, scalar_type_of(node.dtype)
        summed = [letter for letter in node.sizes if letter not in node.letters]
        with self._loops(tuple(reversed(target.axes)), self._shape_of(node)) as index:
            where: dict[str, Index] = dict(zip(node.letters, index, strict=True))
            total: Value | None = None
            for places in product(*(range(node.sizes[letter]) for letter in summed)):
                where.update(zip(summed, places, strict=True))
                term = b.mul(*(
                    converted(b, self._element(operand, self._operand_places(node, letters),
                                               tuple(where[letter] for letter in letters)), type_)
                    for operand, letters in zip(node.operands, node.operand_letters, strict=True)))
                total = term if total is None else b.add(total, term)
            b.store(constant(b, 0.0, type_) if total is None else total, target.memref,
                    *(index[axis] for axis in target.axes))

    def _operand_places(self, node: Contract, letters: str) -> Places:
        """Return the places of an operand of a product."""
        of = dict(zip(node.letters, self.placement.places[node], strict=True))
        return tuple(of.get(letter) for letter in letters)

    def _tensor(self, operand: Node, letters: str, node: Contract, element: ScalarType) -> Tensor:
        """Return an operand of a product in memory, copied to a temporary where it cannot be read as it is."""
        places = self._operand_places(node, letters)
        shape = local_shape(operand.shape, places, self.placement.grid)
        buffer = self._addressable(operand, places)
        if (
            buffer is None or not is_lossless(scalar_type_of(operand.dtype), element)
            or len(buffer.axes) < sum(size > 1 for size in shape)
        ):
            axes = tuple(axis for axis in reversed(range(len(shape))) if shape[axis] > 1)
            buffer = self._allocated(shape, axes, element)
            with self._loops(tuple(reversed(axes)), self.group.held(shape)) as index:
                value = converted(self.b, self._element(operand, places, index), element)
                self.b.store(value, buffer.memref, *(index[axis] for axis in axes))
        return Tensor(buffer.memref, "".join(letters[axis] for axis in buffer.axes))
