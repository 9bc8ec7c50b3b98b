"""Matrices that sub-groups with DPAS hold as its sums are: what passes them on, and what computes their elements."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import cached_property, partial
from typing import NamedTuple

from llvmlite import ir

from tl_dpnp.kernels import intrinsics
from tl_dpnp.kernels.dpas.block_arithmetic import Form, Source, combined, folded, folded_lanes, is_combined
from tl_dpnp.kernels.dpas.matrix_blocks import (
    block_columns,
    block_type,
    blocks_of,
    element_of,
    filled_block,
    with_element,
)
from tl_dpnp.kernels.dpas.sub_groups import broadcast, subgroup_reduction
from tl_dpnp.kernels.dpas.sums import COLUMNS, LANES, SumRegisters, registers_for
from tl_dpnp.kernels.llvm import I32, Intrinsic, constant, index, lanes, splat, undefined, value_type
from tl_dpnp.kernels.targets import target_of
from tl_dpnp.language import ops
from tl_dpnp.language.instructions.componentwise import on_components
from tl_dpnp.language.instructions.matrices import component_place
from tl_dpnp.language.types import CooperativeMatrixType
from tl_dpnp.lowering.body.building import call
from tl_dpnp.lowering.body.regions import MatrixWriter, RegionWriter
from tl_dpnp.lowering.body.tree import Constant, Expression
from tl_dpnp.lowering.coalescing import holder_of, places_in
from tl_dpnp.lowering.column_orders import column_of, place_of, split_columns
from tl_dpnp.lowering.fragment_choice import regions_of
from tl_dpnp.lowering.matrix_spreads import Spreads, held_type, spreads_in
from tl_dpnp.lowering.scalar_code import scalar_intrinsic
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import BF16, F16, F32, ScalarType
from tl_dpnp.scalars import I32 as SCALAR_I32

__all__ = ["BlockWriter", "Place", "rounds"]

_Emit = Callable[[ir.IRBuilder, Sequence[ir.Value]], None]


class Place(NamedTuple):
    """Registers that are changed in place, by their name."""

    name: str
    type: CooperativeMatrixType


@dataclass
class BlockWriter(MatrixWriter[Place]):
    """Writes what sub-groups do with matrices that are held as sums are.

    Sums of products, and what loops and branches pass on, are changed in place.  Others are values, which emitters find
    by function and name.
    """

    writer: RegionWriter
    sums: SumRegisters = field(init=False)
    blocks: dict[tuple[ir.Function, str, tuple[int, int]], ir.Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sums = registers_for(self.emulated)

    @property
    def emulated(self) -> bool:
        """Whether DPAS and messages are emulated."""
        return self.writer.engine.emulated

    @cached_property
    def spreads(self) -> Spreads:
        """The products that spread columns and rows."""
        return spreads_in(self.writer.function)

    @cached_property
    def places(self) -> dict[str, str]:
        """The registers of what is changed in place."""
        return {name: place for region in regions_of(self.writer.function)
                for name, place in places_in(region.body, self.spreads).items()}

    @cached_property
    def constants(self) -> dict[str, ops.Constant]:
        """The values of matrices that are filled with known ones."""
        return {each.result.name: each.value for each in self.writer.function.body.walk()
                if isinstance(each, ops.CooperativeMatrixConstruct) and isinstance(each.value, ops.Constant)}

    @cached_property
    def split(self) -> frozenset[str]:
        """The matrices whose even columns come before odd ones."""
        return frozenset[str]().union(*(split_columns(self.writer.function, region.body, self.spreads)
                                        for region in regions_of(self.writer.function)))

    @abstractmethod
    def cooperate(self, operation: ops.Operation) -> None: ...

    def evaluate(
        self, what: str, emit: _Emit, operation: ops.Operation | None = None, types: Sequence[ScalarType] = (),
        arguments: Sequence[Expression] = (), comment: str = "",
    ) -> None:
        """Write a call of an intrinsic, whose name is its own."""
        self.writer.count += 1
        span = None if operation is None else operation.span
        whole = Intrinsic(f"{what}_{self.writer.count}", tuple(types), None, emit, span)
        self.writer.evaluate(call(whole, *arguments), comment)

    # --- values that are passed on -----------------------------------------------------------------------------------

    def holder(self, value: ops.Value) -> Place:
        carried = holder_of(value.name)
        return Place(self.places[carried if carried in self.places else value.name], ops.matrix_type(value))

    def pass_on(self, holder: Place, matrix: ops.Value) -> None:
        if self.places.get(matrix.name) != holder.name:
            self.evaluate(f"pass_{matrix.name}", lambda b, _: self._set(b, holder, matrix))

    def take(self, value: ops.Value, holder: Place, is_fixed: bool) -> None:
        own = Place(self.places[value.name], holder.type)

        def emit(b: ir.IRBuilder, _: Sequence[ir.Value]) -> None:
            for number in blocks_of(holder.type):
                self.sums.define(b, (holder.name, *number), block_type(holder.type))
                if own != holder:
                    self.sums.write(b, (own.name, *number), self.sums.read(b, (holder.name, *number)))

        self.evaluate(f"take_{value.name}", emit)

    def _set(self, b: ir.IRBuilder, place: Place, matrix: ops.Operand) -> None:
        """Set registers to a matrix that is not in them."""
        known = self.constants.get(matrix.name) if isinstance(matrix, ops.Value) else None
        for number in blocks_of(place.type):
            if known is not None and known.value == 0:
                self.sums.clear(b, (place.name, *number), block_type(place.type))
            else:
                self.sums.write(b, (place.name, *number), self._block(b, matrix, number))

    def _block(self, b: ir.IRBuilder, matrix: ops.Operand, number: tuple[int, int]) -> ir.Value:
        """Return a block of a matrix that is no factor, as a vector of its columns as they are in memory."""
        assert isinstance(matrix, ops.Value)
        type = ops.matrix_type(matrix)
        if matrix.name in self.constants:
            return filled_block(b, type, self.constants[matrix.name].value)
        if matrix.name in self.places:
            return self.sums.read(b, (self.places[matrix.name], *number))
        held = held_type(matrix, self.spreads)
        block = self.blocks[b.function, matrix.name, _within(number, held)]
        return splat(b, block, COLUMNS) if held.columns != type.columns else block

    def _define(self, b: ir.IRBuilder, result: ops.Value, number: tuple[int, int], block: ir.Value) -> None:
        """Define a block of a matrix that is computed."""
        if result.name in self.places:
            self.sums.write(b, (self.places[result.name], *number), block)
        else:
            self.blocks[b.function, result.name, number] = block

    # --- by registers ------------------------------------------------------------------------------------------------

    def _is_by_registers(self, kind: str, type: CooperativeMatrixType) -> bool:
        """Whether instructions on registers, which have no emulation, compute blocks of a matrix."""
        return not self.emulated and type.columns >= COLUMNS and is_combined(kind, type.component)

    def _source(self, b: ir.IRBuilder, matrix: ops.Operand, number: tuple[int, int]) -> Source:
        """Return a block of a matrix, of which nothing is copied, as what is computed with."""
        assert isinstance(matrix, ops.Value)
        if matrix.name in self.constants:
            return Source("constant", self.constants[matrix.name].value)
        held = held_type(matrix, self.spreads)
        if matrix.name in self.places:
            value = self.sums.where(b, (self.places[matrix.name], *number))
        else:
            value = self.blocks[b.function, matrix.name, _within(number, held)]
        return Source("column" if held.columns == 1 else "block", value)

    def _combine(
        self, b: ir.IRBuilder, kind: str, result: ops.Value, number: tuple[int, int], sources: Sequence[Source]
    ) -> None:
        """Define a block of a matrix that is computed of others; registers that are changed in place, at once."""
        type_ = block_type(ops.matrix_type(result))
        if result.name in self.places:
            self.sums.combine(b, kind, (self.places[result.name], *number), type_, sources)
        else:
            self.blocks[b.function, result.name, number] = combined(b, kind, type_, sources)

    # --- instructions ------------------------------------------------------------------------------------------------

    def spread(self, operation: ops.CooperativeMatrixMulAdd) -> None:
        """Write a product of a column and a row of which one has equal components: a sum for each register.

        If that is not 1, each number that is spread is multiplied by it.
        """
        spread, type = self.spreads[operation.result.name], held_type(operation.result, self.spreads)
        component, own = type.component, operation.B if spread.is_row else operation.A
        product, total = (intrinsics.arithmetic(kind, component) for kind in ("mul", "add"))
        by_registers = self._is_by_registers("add", type)
        form: Form = "block" if spread.is_row else "column"

        def emit(b: ir.IRBuilder, _: Sequence[ir.Value]) -> None:
            for number in blocks_of(type):
                scaled = self._block(b, own, _within(number, ops.matrix_type(own)))
                if spread.factor != 1:
                    factor = filled_block(b, ops.matrix_type(own), spread.factor)
                    scaled = self._each(b, ops.matrix_type(own), product, [scaled, factor])
                if by_registers:
                    added = self._source(b, operation.C, number)
                    self._combine(b, "add", operation.result, number, [added, Source(form, scaled)])
                    continue
                added = self._each(b, type, total, [self._block(b, operation.C, number), scaled])
                self._define(b, operation.result, number, added)

        self.evaluate(f"spread_{operation.result.name}", emit, operation)

    def reduce(self, operation: ops.CooperativeMatrixReduction) -> None:
        """Write a reduction of rows, which lanes have, or of columns: pairs of registers are combined, then of those.
        """
        source, kind = ops.matrix_type(operation.A), operation.combination
        component = source.component
        by_registers = self._is_by_registers(kind, source)
        combination = intrinsics.arithmetic("add", component) if kind == "add" else (
            intrinsics.mathematics(kind, component, 2))

        def both(b: ir.IRBuilder, values: Sequence[ir.Value]) -> ir.Value:
            if not by_registers:
                return combination.emit(b, values)
            return combined(b, kind, block_type(source), [Source("block", value) for value in values])

        def emit(b: ir.IRBuilder, _: Sequence[ir.Value]) -> None:
            rows: dict[int, list[ir.Value]] = {}
            for i, j in blocks_of(source):
                row = rows.setdefault(i, [])
                if by_registers:
                    row.append(self._block_where_it_is(b, operation.A, (i, j)))
                    continue
                block = self._block(b, operation.A, (i, j))
                row.extend(element_of(b, component, block, column) for column in range(block_columns(source)))
            for i, values in rows.items():
                while len(values) > 1:
                    values = [both(b, values[first : first + 2]) if first + 1 < len(values) else
                              values[first] for first in range(0, len(values), 2)]
                column = folded(b, kind, values[0]) if by_registers else values[0]
                self._define(b, operation.result, (i, 0), column)

        def emit_columns(b: ir.IRBuilder, _: Sequence[ir.Value]) -> None:
            for j in range(-(-source.columns // COLUMNS)):
                values = [self._block_where_it_is(b, operation.A, (i, j)) for i in range(-(-source.rows // LANES))]
                while len(values) > 1:
                    first, second, *values = values
                    values.append(both(b, [first, second]) if by_registers else
                                  self._each(b, source, combination, [first, second]))
                if source.rows == 1:
                    row = self._block(b, operation.A, (0, j))
                elif self.emulated:
                    row = self._each(b, source, subgroup_reduction(kind, component), values)
                else:
                    row = folded_lanes(b, kind, values[0])
                self._define(b, operation.result, (0, j), row)

        self.evaluate(f"reduce_{operation.result.name}", emit if operation.axis else emit_columns, operation)

    def _each(
        self, b: ir.IRBuilder, type: CooperativeMatrixType, single: Intrinsic, blocks: Sequence[ir.Value]
    ) -> ir.Value:
        """Return a block whose elements are computed of those of others, one of which may have a single one for all."""
        made, component = undefined(block_type(type)), type.component
        for place in range(block_columns(type)):
            values = [element_of(b, component, block, min(place, lanes(block.type) - 1)) for block in blocks]
            made = with_element(b, component, made, place, single.emit(b, values), self.emulated)
        return made

    def exchange(self, operation: ops.SubgroupReduce) -> Expression:
        reduction = subgroup_reduction(operation.combination, ops.scalar_type(operation.result))
        return call(reduction, self.writer.operand(operation.operand))

    def extract(self, operation: ops.CooperativeMatrixExtract) -> None:
        """Write what a work-item holds of a matrix, as the language says which component that is."""
        type = ops.matrix_type(operation.A)
        places = [component_place(type, LANES, lane, operation.component) for lane in range(LANES)]

        def emit(b: ir.IRBuilder, _: Sequence[ir.Value]) -> ir.Value:
            own = constant(value_type(type.component), 0)
            for column in dict.fromkeys(column for _, column in places if column < type.columns):
                block, place = divmod(place_of(column, operation.A.name in self.split), COLUMNS)
                held = self._block(b, operation.A, (places[0][0] // LANES, block))
                element = element_of(b, type.component, held, place)
                # Rows are in lanes, so that all have one column; of a single row each lane has all columns.
                mine = [lane for lane, (_, other) in enumerate(places) if other == column]
                is_mine = b.icmp_unsigned("==", target_of(b).item_index(b, 0), index(mine[0]))
                own = element if len(mine) == LANES else b.select(is_mine, element, own)
            return own

        self.writer.count += 1
        name = f"extract_{operation.result.name}_{self.writer.count}"
        self.writer.values[operation.result.name] = self.writer.define(
            call(Intrinsic(name, (), type.component, emit, operation.span)))

    def _block_where_it_is(self, b: ir.IRBuilder, matrix: ops.Operand, number: tuple[int, int]) -> ir.Value:
        """Return a block as a value that nothing may change before it is used."""
        if isinstance(matrix, ops.Value) and matrix.name in self.places and not self.emulated:
            return self.sums.where(b, (self.places[matrix.name], *number))
        return self._block(b, matrix, number)

    def map(self, operation: ops.Operation) -> None:
        """Write what is done to each element by itself."""
        (result,) = operation.results
        scalars = [operand for operand in operation.operands if not isinstance(operand.type, CooperativeMatrixType)]
        kind = _kind_of(operation)
        emit = partial(self._map_registers, operation, kind) if self._is_by_registers(
            kind, ops.matrix_type(result)) else self._map_elements(operation)
        types = [ops.scalar_type(scalar) for scalar in scalars]
        self.evaluate(f"{operation.mnemonic}_{result.name}", emit, operation, types,
                      [*map(self.writer.operand, scalars)])

    def _map_registers(
        self, operation: ops.Operation, kind: str, b: ir.IRBuilder, given: Sequence[ir.Value]
    ) -> None:
        """Compute blocks of matrices; a factor that is given comes before the matrix."""
        (result,) = operation.results
        numbers = [_number(b, value) for value in given]
        matrices = [operand for operand in operation.operands if isinstance(operand.type, CooperativeMatrixType)]
        for number in blocks_of(ops.matrix_type(result)):
            self._combine(b, kind, result, number, [
                *numbers, *(self._source(b, matrix, number) for matrix in matrices)])

    def _map_elements(self, operation: ops.Operation) -> _Emit:
        """Return what computes elements one by one."""
        (result,) = operation.results
        type = ops.matrix_type(result)
        sources = [operand for operand in operation.operands if isinstance(operand.type, CooperativeMatrixType)]
        single: Intrinsic | None = None
        if isinstance(operation, ops.CooperativeMatrixScale):
            single = intrinsics.arithmetic("mul", type.component)
        elif isinstance(operation, ops.ScalarOperation) and not rounds(operation):  # components are rounded anyway
            single = scalar_intrinsic(on_components(operation))

        def emit(b: ir.IRBuilder, given: Sequence[ir.Value]) -> None:
            for number in blocks_of(type):
                blocks = [(ops.matrix_type(source).component, self._block(b, source, number)) for source in sources]
                block = undefined(block_type(type))
                for column in range(block_columns(type)):
                    # A factor comes before the matrix.
                    values = [*given, *(element_of(b, component, held, column) for component, held in blocks)]
                    value = values[0] if single is None else single.emit(b, values)
                    block = with_element(b, type.component, block, column, value, self.emulated)
                self._define(b, result, number, block)

        return emit

    def apply(self, operation: ops.CooperativeMatrixApply) -> None:
        """Write the body for each element that a lane has."""
        if self._is_straight(operation):
            self._apply_registers(operation)
        else:
            self._apply_elements(operation)

    def _is_straight(self, operation: ops.CooperativeMatrixApply) -> bool:
        """Whether a body is instructions on registers, each of which computes with something that has components."""
        *body, last = operation.body.operations
        varying = {value.name for value in operation.components}
        inside = {value.name for value in operation.loop_variables}
        if not body or not all(self._is_by_registers("add", ops.matrix_type(each)) for each in operation.matrices):
            return False
        for each in body:
            kind, result = _kind_of(each), next(iter(each.results), None)
            names = {operand.name for operand in each.operands if isinstance(operand, ops.Value)}
            if result is None or not isinstance(result.type, ScalarType) or not is_combined(kind, result.type) or (
                not names & varying or names & inside - varying
            ):
                return False
            varying.add(result.name)
            inside.add(result.name)
        return isinstance(last.operands[0], ops.Value) and last.operands[0].name == body[-1].results[0].name

    def _apply_registers(self, operation: ops.CooperativeMatrixApply) -> None:
        """Write the instructions of a body one after another, each for all columns of a block."""
        *body, _ = operation.body.operations
        inside = {value.name for each in body for value in each.results}
        inside |= {value.name for value in operation.components}
        scalars = {operand.name: operand for each in body for operand in each.operands
                   if isinstance(operand, ops.Value) and operand.name not in inside}

        def emit(b: ir.IRBuilder, given: Sequence[ir.Value]) -> None:
            numbers = {name: _number(b, value) for name, value in zip(scalars, given, strict=True)}
            type_ = block_type(ops.matrix_type(operation.result))
            for number in blocks_of(ops.matrix_type(operation.result)):
                known = {**numbers, **{value.name: self._source(b, matrix, number) for value, matrix in zip(
                    operation.components, operation.matrices, strict=True)}}
                for each in body:
                    sources = [known[operand.name] if isinstance(operand, ops.Value) else
                               Source("constant", operand.value) for operand in each.operands]
                    if each is body[-1]:
                        self._combine(b, _kind_of(each), operation.result, number, sources)
                    else:
                        block = combined(b, _kind_of(each), type_, sources)
                        known[each.results[0].name] = Source("block", block)

        self.evaluate(f"apply_{operation.result.name}", emit, operation,
                      [ops.scalar_type(scalar) for scalar in scalars.values()],
                      [*map(self.writer.operand, scalars.values())])

    def _apply_elements(self, operation: ops.CooperativeMatrixApply) -> None:
        """Write the body for one element after another."""
        writer, result, type = self.writer, operation.result, ops.matrix_type(operation.result)
        row, column, *variables = operation.variables
        for number in blocks_of(type):
            # Registers are read here, once for all columns, and set behind them.
            held: list[ir.Value] = []
            self.evaluate("take", partial(self._take_blocks, held, operation, number))
            first = Intrinsic(f"row_{number[0]}", (), SCALAR_I32, partial(_row, number[0] * LANES))
            writer.values[row.name] = writer.define(call(first)) if type.rows > 1 else Constant(0, SCALAR_I32)
            for place in range(block_columns(type)):
                own = column_of(number[1] * COLUMNS + place, result.name in self.split)
                writer.values[column.name] = Constant(own, SCALAR_I32)
                for source, variable in enumerate(variables):
                    component = ops.scalar_type(variable)
                    get = partial(_component, held, source, place, component)
                    writer.count += 1
                    name = f"{variable.name}_{writer.count}"
                    writer.values[variable.name] = writer.define(call(Intrinsic(name, (), component, get)))
                found = writer.fresh(type.component)
                writer.region(operation.body, [found])
                store = partial(_set_element, held, place, type.component, self.emulated)
                self.evaluate(f"set_{result.name}", store, None, (type.component,), (found,))
            self.evaluate(f"set_{result.name}", partial(self._define_last, held, result, number))

    def _take_blocks(
        self, held: list[ir.Value], operation: ops.CooperativeMatrixApply, number: tuple[int, int],
        b: ir.IRBuilder, _: Sequence[ir.Value],
    ) -> None:
        """Have the blocks of all matrices, and behind them a new one, for what is computed of them."""
        held[:] = [*(self._block(b, matrix, number) for matrix in operation.matrices),
                   undefined(block_type(ops.matrix_type(operation.result)))]

    def _define_last(
        self, held: Sequence[ir.Value], result: ops.Value, number: tuple[int, int], b: ir.IRBuilder,
        _: Sequence[ir.Value],
    ) -> None:
        self._define(b, result, number, held[-1])


def _within(number: tuple[int, int], held: CooperativeMatrixType) -> tuple[int, int]:
    """Return the block that holds one of a matrix, all of whose rows or columns may be one."""
    return number[0] if held.rows > 1 else 0, number[1] if held.columns > 1 else 0


def _kind_of(operation: ops.Operation) -> str:
    """Return what is computed by the name that instructions on registers have for it; nothing where none has."""
    match operation:
        case ops.CooperativeMatrixScale():
            return "mul"
        case ops.Arith(kind=kind):
            return kind
        case ops.Math(function=function):
            return function
    return ""


def _number(b: ir.IRBuilder, value: ir.Value) -> Source:
    """Return a number of the sub-group as what is computed with."""
    return Source("constant", value.constant) if isinstance(value, ir.Constant) else Source(
        "number", broadcast(b, value))


def rounds(operation: ops.Operation) -> bool:
    """Return whether an operation makes f32 floats of 16 bits, each component by itself."""
    if not isinstance(operation, ops.Cast) or not isinstance(operation.result.type, CooperativeMatrixType):
        return False
    return operation.result.type.component in (BF16, F16) and ops.matrix_type(operation.operand).component == F32


def _row(first: int, b: ir.IRBuilder, _: Sequence[ir.Value]) -> ir.Value:
    """Return the row of a lane's elements."""
    return b.add(b.trunc(target_of(b).item_index(b, 0), I32), constant(I32, first))


def _component(
    held: Sequence[ir.Value], source: int, place: int, component: ScalarType, b: ir.IRBuilder, _: Sequence[ir.Value]
) -> ir.Value:
    """Return an element of a block, as a value."""
    return element_of(b, component, held[source], place)


def _set_element(
    held: list[ir.Value], place: int, component: ScalarType, emulated: bool, b: ir.IRBuilder,
    given: Sequence[ir.Value],
) -> None:
    """Set an element of the last block to a value."""
    held[-1] = with_element(b, component, held[-1], place, given[0], emulated)
