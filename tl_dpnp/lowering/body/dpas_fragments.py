"""Instructions on matrices that are in the registers of a sub-group with DPAS."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import cached_property, partial
from typing import NamedTuple

from llvmlite import ir

from tl_dpnp.kernels import intrinsics
from tl_dpnp.kernels.dpas.accumulators import Part
from tl_dpnp.kernels.dpas.block_messages import Surface
from tl_dpnp.kernels.dpas.block_shapes import COLUMN, ROW
from tl_dpnp.kernels.dpas.factor_loads import (
    DeferredFactor,
    Fragments,
    factor_headers,
    load_block,
    load_factor,
    unbroadcast,
)
from tl_dpnp.kernels.dpas.matrix_blocks import (
    block_type,
    blocks_of,
    elements_of,
    first_factor,
    first_factor_of_sums,
    hidden,
    moved_block,
    second_factor,
    second_factor_of_sums,
    store_row,
)
from tl_dpnp.kernels.dpas.moving_headers import Header, MovingHeaders
from tl_dpnp.kernels.dpas.operands import may_be_surface
from tl_dpnp.kernels.dpas.sub_groups import uniform
from tl_dpnp.kernels.dpas.sums import COLUMNS, LANES, messages_of
from tl_dpnp.kernels.dpas.tile_blocks import TileLoads
from tl_dpnp.kernels.llvm import (
    GLOBAL,
    I32,
    Intrinsic,
    builtin,
    constant,
    index,
    storage_type,
)
from tl_dpnp.kernels.targets import target_of
from tl_dpnp.language import ops
from tl_dpnp.lowering.body.building import call
from tl_dpnp.lowering.body.dpas_blocks import BlockWriter, Place, rounds
from tl_dpnp.lowering.body.memref import MemrefDescriptor
from tl_dpnp.lowering.body.tree import Expression
from tl_dpnp.lowering.column_orders import column_of
from tl_dpnp.lowering.dpas_fragments import (
    Factor,
    deferred_loads,
    do_rows_follow,
    factor_loads,
    factors_in,
    limits_in,
    lines_along,
    order_of,
    product_row,
)
from tl_dpnp.lowering.fragment_choice import OUTSIDE, BlocksFit, regions_of
from tl_dpnp.lowering.moving_loads import MovingLoad, moving_loads
from tl_dpnp.lowering.rewrite import root_of
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import I1, INDEX

__all__ = ["DpasFragments"]

#: How many numbers say where a matrix is (`_described`).
_DESCRIBED = 4
#: OpenCL's CLK_GLOBAL_MEM_FENCE.
_GLOBAL_MEMORY = 2
_Emit = Callable[[ir.IRBuilder, Sequence[ir.Value]], None]


class _Access(NamedTuple):
    """A part of a matrix in memory; `place` is the column and the row, in elements of lines, of its first element."""

    surface: Surface
    place: tuple[ir.Value, ir.Value]


@dataclass
class DpasFragments(BlockWriter):
    """Writes what sub-groups do with matrices; factors are values, which emitters find by function and name."""

    factors: dict[tuple[ir.Function, str], Fragments | DeferredFactor] = field(default_factory=dict)
    #: The headers of factors that move, which loops change in place.
    headers: dict[tuple[ir.Function, str], MovingHeaders] = field(default_factory=dict)

    @cached_property
    def rounded(self) -> dict[str, ops.Value]:
        """What matrices of 16-bit floats are rounded from."""
        return {operation.result.name: operation.operand for operation in self.writer.function.body.walk()
                if isinstance(operation, ops.Cast) and rounds(operation) and isinstance(operation.operand, ops.Value)}

    @cached_property
    def used(self) -> dict[str, Factor]:
        """What factors that are loaded are multiplied as."""
        return {name: use for region in regions_of(self.writer.function)
                for name, uses in factors_in(region.body, self.spreads).items() for use in uses if use is not None}

    def subgroup(self) -> Expression:
        layout = self.writer.mapping.layout
        assert layout.lanes == LANES, layout
        if layout.subgroups == 1:
            return 0
        if self.emulated:
            return self.writer.define(call(intrinsics.sub_group()))
        # Intel's GPU compiler takes the id of a dimension for one that differs from lane to lane.
        own = Intrinsic("uniform_sub_group", (), INDEX, lambda b, _: uniform(b, target_of(b).item_index(b, 1)))
        return self.writer.define(call(own))

    # --- instructions ------------------------------------------------------------------------------------------------

    def cooperate(self, operation: ops.Operation) -> None:
        self._compute(operation)
        for value in operation.results:
            if value.name in self.used and not isinstance(operation, ops.CooperativeMatrixLoad):
                self._make_factor(value)

    def _compute(self, operation: ops.Operation) -> None:
        match operation:
            case ops.CooperativeMatrixConstruct() if operation.is_constant:
                pass  # what uses it fills registers
            case ops.CooperativeMatrixStore() | ops.CooperativeMatrixLoad():
                self._access(operation)
            case ops.CooperativeMatrixMulAdd() if operation.result.name in self.spreads:
                self.spread(operation)
            case ops.CooperativeMatrixMulAdd():
                self._product(operation)
            case ops.CooperativeMatrixReduction():
                self.reduce(operation)
            case ops.CooperativeMatrixApply():
                self.apply(operation)
            case ops.CooperativeMatrixExtract():
                self.extract(operation)
            case _:
                self.map(operation)

    def _product(self, operation: ops.CooperativeMatrixMulAdd) -> None:
        row = product_row(operation)
        assert row is not None
        place = Place(self.places[operation.result.name], ops.matrix_type(operation.result))
        is_kept = isinstance(operation.C, ops.Value) and self.places.get(operation.C.name) == place.name
        known = self.constants.get(operation.C.name)
        begins = known is not None and known.value == 0

        def emit(b: ir.IRBuilder, _: Sequence[ir.Value]) -> None:
            first = self.factors[b.function, operation.A.name]
            order = order_of(operation, row, first.loads if isinstance(first, DeferredFactor) else None)
            left, right = (unbroadcast(self._factor(b, matrix)) for matrix in (operation.A, operation.B))
            for step, i, j in order:
                block = place.name, i, j
                if step or is_kept:
                    self.sums.add(b, row, block, left[i, step], right[j, step])
                    continue
                added = None if begins else self._block_where_it_is(b, operation.C, (i, j))
                self.sums.multiply(b, row, block, left[i, step], right[j, step], added)

        self.evaluate(f"mul_add_{operation.result.name}", emit, operation, comment=f"by {row}")

    def _factor(self, b: ir.IRBuilder, matrix: ops.Value) -> Fragments:
        """Return a factor that was loaded or made."""
        found = self.factors[b.function, matrix.name]
        return found.fragments(messages_of(b, self.emulated)) if isinstance(found, DeferredFactor) else found

    def _make_factor(self, matrix: ops.Value) -> None:
        """Make a factor of blocks as sums have them, once for all products; of a constant, one fragment for all."""
        type, use, source = ops.matrix_type(matrix), self.used[matrix.name], self.rounded.get(matrix.name)

        def packed(b: ir.IRBuilder, i: int, step: int) -> Part:
            pair = [(i, 2 * step + j) for j in range(2)]
            if source is None or self.emulated:
                return first_factor(b, [self._block(b, matrix, number) for number in pair], self.emulated)
            blocks = [self._block_where_it_is(b, source, number) for number in pair]
            return first_factor_of_sums(b, blocks, type.component)

        def ordered(b: ir.IRBuilder, j: int, step: int) -> Part:
            if source is None or self.emulated:
                return second_factor(b, self._block(b, matrix, (step, j)), self.emulated)
            return second_factor_of_sums(b, self._block_where_it_is(b, source, (step, j)), type.component)

        def emit(b: ir.IRBuilder, _: Sequence[ir.Value]) -> None:
            lines, terms = (type.rows // LANES, type.columns) if use.is_first else (type.columns // COLUMNS, type.rows)
            places = itertools.product(range(lines), range(terms // use.row.k))
            make = packed if use.is_first else ordered
            if matrix.name in self.constants:
                self.factors[b.function, matrix.name] = dict.fromkeys(places, hidden(b, make(b, 0, 0)))
            else:
                self.factors[b.function, matrix.name] = {place: make(b, *place) for place in places}

        self.evaluate(f"factor_{matrix.name}", emit)

    # --- memory ------------------------------------------------------------------------------------------------------

    def blocks_fit(self, operation: BlocksFit) -> Expression:
        memrefs = [self.writer.memrefs[value.name] for value in operation.memrefs]
        indices, limits = ([*map(self.writer.index, values)] for values in (operation.indices, operation.limits))

        def emit(b: ir.IRBuilder, given: Sequence[ir.Value]) -> ir.Value:
            bounds = [*((">=", 0) for _ in indices), *(("<=", OUTSIDE) for _ in limits)]
            conditions = [b.icmp_signed(relation, value, index(bound))
                          for value, (relation, bound) in zip(given, bounds, strict=False)]
            for number, memref in enumerate(memrefs):
                first = len(bounds) + _DESCRIBED * number
                surface = _surface(b, memref, given[first : first + _DESCRIBED])
                if not may_be_surface(surface.bits, surface.width, surface.height, surface.pitch):
                    return constant(ir.IntType(1), 0)
                conditions += surface.conditions(b)
            return functools.reduce(b.and_, conditions)

        described = [each for memref in memrefs for each in _described(memref, memref.type.strides.index(1))]
        arguments = [*indices, *limits, *described]
        self.writer.count += 1
        whole = Intrinsic(f"blocks_fit_{self.writer.count}", (INDEX,) * len(arguments), I1, emit, operation.span)
        return call(whole, *arguments)

    @cached_property
    def limited(self) -> frozenset[str]:
        """The variables of loops that end at limits."""
        return frozenset(name for region in regions_of(self.writer.function) for name in limits_in(region.body))

    def is_limited(self, operand: ops.Operand) -> bool:
        """Whether an index is counted by a loop that ends at a limit."""
        return isinstance(operand, ops.Value) and operand.name in self.limited

    def _access(self, operation: ops.CooperativeMatrixLoad | ops.CooperativeMatrixStore) -> None:
        arguments, access_of = self._place(operation, operation.indices)
        is_load = isinstance(operation, ops.CooperativeMatrixLoad)
        root = root_of(operation.memref, self.writer.roots)
        waits = root in self.writer.written and (is_load or root in self.writer.read)

        def emit(b: ir.IRBuilder, given: Sequence[ir.Value]) -> None:
            if waits:  # lanes do not see what others stored before that
                builtin(b, "_Z17sub_group_barrierj", ir.VoidType(), [constant(I32, _GLOBAL_MEMORY)],
                        ("nounwind", "convergent"))
            access = access_of(b, given)
            if isinstance(operation, ops.CooperativeMatrixStore):
                (self._store if do_rows_follow(operation) else self._scatter)(b, operation, access)
            elif operation.result.name in self.used:
                self._load_factor(b, operation, access)
            else:
                self._load(b, operation, access)

        self.evaluate("load" if is_load else "store", emit, operation, (INDEX,) * len(arguments), arguments)

    def _place(
        self, operation: ops.CooperativeMatrixLoad | ops.CooperativeMatrixStore, indices: Sequence[ops.Operand]
    ) -> tuple[list[Expression], Callable[[ir.IRBuilder, Sequence[ir.Value]], _Access]]:
        """Return the arguments that say where an access with some indices is, and what makes one of them."""
        memref, along = self.writer.memrefs[operation.memref.name], lines_along(operation)
        assert along is not None
        # What is not checked is inside, and what loops count up to a limit is small.
        may_be_large = [operation.checked_modes[mode] and not self.is_limited(operation.indices[mode])
                        for mode in (along, 1 - along)]

        def access_of(b: ir.IRBuilder, given: Sequence[ir.Value]) -> _Access:
            *described, column, row = given
            place = _small(b, column, may_be_large[0]), _small(b, row, may_be_large[1])
            return _Access(_surface(b, memref, described), place)

        places = [self.writer.index(indices[mode]) for mode in (along, 1 - along)]
        return [*_described(memref, along), *places], access_of

    def _loads_of(self, operation: ops.CooperativeMatrixLoad) -> TileLoads | None:
        """Return the messages of a factor, None for other matrices."""
        use = self.used.get(operation.result.name)
        return None if use is None else factor_loads(operation, use, operation.result.name in self.split)

    def _load_factor(self, b: ir.IRBuilder, operation: ops.CooperativeMatrixLoad, access: _Access) -> None:
        """Load a factor; one that moves, from where it is now."""
        messages, loads, name = messages_of(b, self.emulated), self._loads_of(operation), operation.result.name
        assert loads is not None
        moving, use = self.headers.get((b.function, name)), self.used[name]
        if moving is None:
            headers = [*map(Header, factor_headers(messages, loads, access.surface, access.place))]
        else:
            moving.move(messages)
            headers = [*moving.headers]
        if name in self.deferred:
            self.factors[b.function, name] = DeferredFactor(loads, headers)
        else:
            self.factors[b.function, name] = load_factor(messages, use.row, loads, use.is_first, headers)

    @cached_property
    def deferred(self) -> frozenset[str]:
        """The factors that are loaded where they are multiplied; none where messages are emulated."""
        return frozenset() if self.emulated else frozenset(
            name for region in regions_of(self.writer.function) for name in deferred_loads(region.body, self.spreads))

    @cached_property
    def moving(self) -> dict[str, list[MovingLoad]]:
        """The factors that move, by the variables of loops; none where messages are emulated."""
        return {} if self.emulated else moving_loads(self.writer.function, self.spreads, self._loads_of)

    def before_loop(self, loop: ops.For) -> bool:
        loads = self.moving.get(loop.variable.name, ())
        for load in loads:
            indices = [loop.start if index == loop.variable else index for index in load.operation.indices]
            arguments, access_of = self._place(load.operation, indices)
            self.evaluate("headers", partial(self._begin_moving, load, access_of), load.operation,
                          (INDEX,) * len(arguments), arguments)
        return bool(loads)  # they end at a limit

    def _begin_moving(
        self, load: MovingLoad, access_of: Callable[[ir.IRBuilder, Sequence[ir.Value]], _Access], b: ir.IRBuilder,
        given: Sequence[ir.Value],
    ) -> None:
        """Make the headers of a factor, which each iteration begins by moving on."""
        messages, access = messages_of(b, self.emulated), access_of(b, given)
        headers = factor_headers(messages, load.loads, access.surface, access.place, load.field, load.distance)
        steps = [(load.field, load.distance(each.block)) for each in load.loads.loads]
        self.headers[b.function, load.operation.result.name] = MovingHeaders.of(messages, headers, steps)

    def _load(self, b: ir.IRBuilder, operation: ops.CooperativeMatrixLoad, access: _Access) -> None:
        type, messages = operation.type, messages_of(b, self.emulated)
        rows_follow = do_rows_follow(operation)
        block = moved_block(type, rows_follow)
        for i, j in blocks_of(type):
            row, column = i * LANES, j * COLUMNS
            loaded = load_block(messages, access.surface, block, block_type(type), access.place,
                                (row, column) if rows_follow else (column, row))
            if operation.result.name in self.places:
                self.sums.adopt(b, (self.places[operation.result.name], i, j), loaded)
            else:
                self.blocks[b.function, operation.result.name, (i, j)] = loaded

    def _store(self, b: ir.IRBuilder, operation: ops.CooperativeMatrixStore, access: _Access) -> None:
        type, messages = operation.type, messages_of(b, self.emulated)
        block = moved_block(type)
        first = messages.header(access.surface, block, *access.place)
        for i in range(type.rows // LANES):
            header = b.add(first, messages.step(COLUMN, i * LANES)) if i else first
            for j in range(-(-type.columns // COLUMNS)):
                messages.store(header, block, self._block(b, operation.A, (i, j)))
                header = b.add(header, messages.step(ROW, COLUMNS))

    def _scatter(self, b: ir.IRBuilder, operation: ops.CooperativeMatrixStore, access: _Access) -> None:
        """Store a matrix whose columns follow one another: no message transposes what it stores."""
        type, along = operation.type, lines_along(operation)
        assert along is not None
        column, row = access.place
        lane = target_of(b).item_index(b, 0)
        checks = operation.checked_modes[along], operation.checked_modes[1 - along]
        is_split = operation.A.name in self.split
        together = 2 if is_split else 1
        blocks = {number: self._block(b, operation.A, number) for number in blocks_of(type)}
        for i, j in blocks:
            if j % together:
                continue
            elements = [part for step in range(together) for part in elements_of(b, blocks[i, j + step])]
            columns = [column_of(number, is_split) for number in range(len(elements))]
            place = b.add(column, index(j * COLUMNS)), b.add(row, b.add(lane, index(i * LANES)))
            store_row(b, access.surface, [elements[columns.index(number)] for number in range(len(elements))], place,
                      checks)


def _described(memref: MemrefDescriptor, along: int) -> tuple[Expression, ...]:
    """Return what says where a matrix is: address, width and height of its lines, and the distance of those."""
    return memref.address, memref.sizes[along], memref.sizes[1 - along], memref.strides[1 - along]


def _surface(b: ir.IRBuilder, memref: MemrefDescriptor, described: Sequence[ir.Value]) -> Surface:
    """Return a matrix as messages take it."""
    address, *sizes = described
    element = memref.type.element
    width, height, pitch = (int(size.constant) if isinstance(size, ir.Constant) else size for size in sizes)
    pointer = b.inttoptr(address, storage_type(element).as_pointer(GLOBAL))
    return Surface(pointer, element.bits, width, height, pitch)


def _small(b: ir.IRBuilder, place: ir.Value, may_be_large: bool) -> ir.Value:
    """Return an index of a small number of bits; one that is outside of all matrices where it is too large for that."""
    if not may_be_large:
        return place
    if isinstance(place, ir.Constant):
        return index(min(place.constant, OUTSIDE))
    return b.select(b.icmp_signed("<", place, index(OUTSIDE)), place, index(OUTSIDE))
