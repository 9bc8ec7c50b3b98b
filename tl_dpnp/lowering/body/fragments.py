"""Regions of work-items whose matrices are in registers: a warp runs them for a sub-group of the program."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial

from llvmlite import ir

from tl_dpnp.kernels import intrinsics
from tl_dpnp.kernels.llvm import Intrinsic
from tl_dpnp.kernels.mma import fragment_code as code
from tl_dpnp.kernels.mma.fragment_memory import MatrixPart, load_fragment, store_fragment
from tl_dpnp.kernels.mma.fragments import Fragment, Layout
from tl_dpnp.language import ops
from tl_dpnp.language.instructions.componentwise import on_components
from tl_dpnp.language.types import CooperativeMatrixType
from tl_dpnp.lowering.body.building import MINIMUM, call
from tl_dpnp.lowering.body.memrefs import MemrefWriter
from tl_dpnp.lowering.body.tree import Comparison, Expression, Name, add, multiply, offset_of, subtract
from tl_dpnp.lowering.fragment_layouts import layouts_of
from tl_dpnp.lowering.fragments import product_of
from tl_dpnp.lowering.rewrite import root_of, roots
from tl_dpnp.lowering.scalar_code import scalar_intrinsic
from tl_dpnp.scalars import I32, INDEX, Precision

__all__ = ["FragmentWriter", "Held"]

#: Where a value that is passed on from one to another is held: a variable, or registers for a matrix.
Held = Name | Fragment
_Emit = Callable[..., ir.Value | None]


@dataclass(kw_only=True)
class FragmentWriter(MemrefWriter, ABC):
    """Writes regions of work-items, those that `items` says how many of there are, and what is done with matrices."""

    function: ops.Function
    items: ops.WorkItems
    precision: Precision
    registers: code.Registers = field(default_factory=code.Registers)
    fragments: dict[str, Fragment] = field(default_factory=dict)
    #: The sub-group that is run, and the memory that the region around reads and writes.
    subgroup: Expression = 0
    read: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()

    @abstractmethod
    def region(self, region: ops.Region, outputs: Sequence[Held] = ()) -> None:
        """Write the operations of a region; what it yields goes to `outputs`."""

    # --- regions -----------------------------------------------------------------------------------------------------

    def parallel(self, operation: ops.Parallel | ops.ForeachTile) -> None:
        """Write a region: each sub-group of the device runs it for its share of those of the program."""
        inner = [*operation.body.walk()]
        self.read = self._roots_of(value for each in inner for value in each.reads)
        self.written = self._roots_of(value for each in inner for value in each.writes)
        count, own = self.items.rows * self.items.columns, self.mapping.layout.subgroups
        self.spmd, self.subgroup = True, self.define(call(intrinsics.sub_group()))
        if count == own:
            self._share(operation)
        else:
            with self._turns(self.subgroup, count, own) as self.subgroup:
                self._share(operation)
        self.spmd = False

    def _share(self, operation: ops.Parallel | ops.ForeachTile) -> None:
        """Write what a sub-group of the program does of a region."""
        if isinstance(operation, ops.ForeachTile):
            self.tiles(operation)
        else:
            self.region(operation.body)

    @contextmanager
    def _turns(self, first: Expression, stop: Expression, step: int) -> Iterator[Name]:
        """Write a loop over numbers that are so far apart."""
        counter = self.variable(first)
        with self.loop(Comparison("<", counter, stop)):
            yield self.define(counter)
            self.count_up(counter, step)

    def tiles(self, operation: ops.ForeachTile) -> None:
        """Write the tiles that the sub-group gets: one after another, the first mode runs fastest."""
        starts, stops = ([self.bind(self.wide(bound)) for bound in bounds]
                         for bounds in (operation.starts, operation.stops))
        trips = intrinsics.trip_count(INDEX)
        counts = [self.bind(call(trips, start, stop, tile))
                  for start, stop, tile in zip(starts, stops, operation.tiles, strict=True)]
        total: Expression = 1
        for count in counts:
            total = multiply(total, count)
        subgroups = self.items.rows * self.items.columns
        with self._turns(self.subgroup, self.bind(total), subgroups) as number:
            left: Expression = number
            for mode, (start, stop, tile) in enumerate(zip(starts, stops, operation.tiles, strict=True)):
                place = left
                if mode + 1 < len(counts):
                    place = self.define(call(intrinsics.arithmetic("rem", INDEX), left, counts[mode]))
                    left = self.define(call(intrinsics.arithmetic("div", INDEX), left, counts[mode]))
                first = self.define(add(start, multiply(place, tile)))
                extent = self.define(call(MINIMUM, subtract(stop, first), tile))
                for value, known in ((operation.firsts[mode], first), (operation.extents[mode], extent)):
                    self.values[value.name] = self.define(
                        call(intrinsics.conversion(INDEX, ops.scalar_type(value)), known))
            self.region(operation.body)

    def work_item_place(self, operation: ops.WorkItemPlace) -> None:
        """Define where a work-item is, as an instruction tells it."""
        place: Expression = self.subgroup
        match operation:
            case ops.SubgroupLocalId():
                place = call(intrinsics.lane())
            case ops.SubgroupId(axis="x"):
                place = call(intrinsics.arithmetic("rem", INDEX), place, self.items.rows)
            case ops.SubgroupId(axis="y"):
                place = call(intrinsics.arithmetic("div", INDEX), place, self.items.rows)
            case ops.SubgroupId():
                place = 0
        result = operation.results[0]
        self.values[result.name] = self.define(call(intrinsics.conversion(INDEX, ops.scalar_type(result)), place))

    # --- values that are passed on -----------------------------------------------------------------------------------

    def holder(self, value: ops.Value) -> Held:
        """Return what holds a value that is passed on, from now on, so that the value is what it has then."""
        if isinstance(value.type, CooperativeMatrixType):
            return self._fragment(value)
        return self.fresh(ops.scalar_type(value))

    def pass_on(self, holder: Held, operand: ops.Operand) -> None:
        """Have a value held."""
        if isinstance(holder, Name):
            self.assign(holder, self.operand(operand))
        else:
            assert isinstance(operand, ops.Value)
            self._copy(self.fragments[operand.name], holder)

    def take(self, value: ops.Value, holder: Held, is_fixed: bool = False) -> None:
        """Define a value as what is held; where that may change while it is used, as a copy."""
        if isinstance(holder, Name):
            self.values[value.name] = holder if is_fixed else self.define(holder)
        elif is_fixed:
            self.fragments[value.name] = holder
        else:
            self.fragments[value.name] = self._fragment(value)
            self._copy(holder, self.fragments[value.name])

    def _fragment(self, value: ops.Value) -> Fragment:
        """Return new registers for a matrix."""
        type = ops.matrix_type(value)
        self.count += 1
        return Fragment(f"m{self.count}", type.component, *type.shape, self._layouts[value.name])

    @cached_property
    def _layouts(self) -> dict[str, Layout]:
        return layouts_of(self.function)

    @cached_property
    def _roots(self) -> dict[str, str]:
        return roots(self.function)

    def _roots_of(self, values: Iterable[ops.Value]) -> frozenset[str]:
        return frozenset(root_of(value, self._roots) for value in values)

    def _copy(self, source: Fragment, target: Fragment) -> None:
        assert source.layout == target.layout, (source, target)
        self._evaluate("copy", (source, target), partial(code.copy_fragment, registers=self.registers, source=source,
                                                          target=target))

    def _evaluate(
        self, what: str, fragments: Sequence[Fragment], emit: Callable[[ir.IRBuilder], None], comment: str = ""
    ) -> None:
        """Call an intrinsic that has no other arguments than fragments."""
        name = "_".join([what, *(fragment.name for fragment in fragments)])
        self.evaluate(call(Intrinsic(name, (), None, lambda b, _: emit(b))), comment)

    # --- instructions ------------------------------------------------------------------------------------------------

    def cooperate(self, operation: ops.Operation) -> None:
        """Write an instruction on matrices."""
        result = next(iter(operation.results), None)
        target = None if result is None else self._fragment(result)
        match operation:
            case ops.CooperativeMatrixStore(A=matrix):
                self._access(operation, self.fragments[matrix.name], store_fragment)
            case ops.CooperativeMatrixLoad():
                assert target is not None
                self._access(operation, target, load_fragment)
            case ops.CooperativeMatrixMulAdd():
                assert target is not None
                self._product(operation, target)
            case ops.CooperativeMatrixApply():
                assert target is not None
                self._apply(operation, target)
            case _:
                assert target is not None
                self._map(operation, target)
        if result is not None and target is not None:
            self.fragments[result.name] = target

    def _map(self, operation: ops.Operation, target: Fragment) -> None:
        """Write what is done to each element by itself."""
        scalars = [operand for operand in operation.operands if not self._is_matrix(operand)]
        sources = [self.fragments[operand.name] for operand in operation.operands
                   if isinstance(operand, ops.Value) and self._is_matrix(operand)]
        single: Intrinsic | None = None
        if isinstance(operation, ops.CooperativeMatrixScale):
            single = intrinsics.arithmetic("mul", target.element)
        elif isinstance(operation, ops.ScalarOperation):
            single = scalar_intrinsic(on_components(operation))

        def emit(b: ir.IRBuilder, given: Sequence[ir.Value]) -> None:
            def function(values: list[ir.Value]) -> ir.Value:
                arguments = [*given, *values]  # a factor comes before the matrix
                return arguments[0] if single is None else single.emit(b, arguments)

            code.map_elements(b, self.registers, sources, target, function)

        name = "_".join([operation.mnemonic if single is None else single.name, target.name,
                         *(source.name for source in sources)])
        types = tuple(ops.scalar_type(scalar) for scalar in scalars)
        self.evaluate(call(Intrinsic(name, types, None, emit, operation.span), *map(self.operand, scalars)))

    @staticmethod
    def _is_matrix(operand: ops.Operand) -> bool:
        return isinstance(operand.type, CooperativeMatrixType)

    def _product(self, operation: ops.CooperativeMatrixMulAdd, target: Fragment) -> None:
        product = product_of(operation, self.precision)
        assert product is not None
        left, right, added = (self.fragments[value.name] for value in (operation.A, operation.B, operation.C))
        if not right.layout.by_columns:
            other = right._replace(name=f"{right.name}_turned", layout=Layout(by_columns=True))
            self._evaluate("turn", (right, other), partial(
                code.convert_fragment, registers=self.registers, source=right, target=other))
            right = other
        self._evaluate("mul_add", (left, right, added, target), partial(
            code.multiply_fragments, registers=self.registers, row=product.row, is_split=product.is_split,
            kept=operation.kept, factors=(left, right), added=added, target=target), f"by {product.row}")

    def _access(
        self, operation: ops.CooperativeMatrixLoad | ops.CooperativeMatrixStore, fragment: Fragment, access: _Emit
    ) -> None:
        memref = self.memrefs[operation.memref.name]
        root = root_of(operation.memref, self._roots)
        if root in self.written and (isinstance(operation, ops.MatrixLoad) or root in self.read):
            self._evaluate("synchronize", (), code.synchronize)  # lanes do not see what others store before that
        indices = [self.index(each) for each in operation.indices]
        checked = [mode for mode, is_checked in enumerate(operation.checked_modes) if is_checked]
        order = (1, 0) if operation.transpose else (0, 1)
        arguments = [memref.address, offset_of(zip(indices, memref.strides, strict=True)),
                     *(memref.strides[mode] for mode in order),
                     *(entry for mode in checked for entry in (indices[mode], memref.sizes[mode]))]

        def emit(b: ir.IRBuilder, given: Sequence[ir.Value]) -> None:
            address, offset, rows, columns, *limits = given
            pointer = intrinsics.memory_pointer(b, memref.type.element, memref.space, address, self.local_memory)
            type_ = code.element_type(memref.type.element).as_pointer(pointer.type.addrspace)
            known = {mode: (limits[2 * number], limits[2 * number + 1]) for number, mode in enumerate(checked)}
            bounds = known.get(order[0]), known.get(order[1])
            access(b, self.registers, fragment, MatrixPart(b.gep(b.bitcast(pointer, type_), [offset]),
                                                           (rows, columns), bounds))

        word = "load" if isinstance(operation, ops.MatrixLoad) else "store"
        name = f"{word}_{fragment.name}_{len(self.statements)}_{self.count}"
        self.evaluate(call(Intrinsic(name, (INDEX,) * len(arguments), None, emit, operation.span), *arguments))

    def _apply(self, operation: ops.CooperativeMatrixApply, target: Fragment) -> None:
        """Write the body for each element that a lane has."""
        sources = [self.fragments[matrix.name] for matrix in operation.matrices]
        row, column, *components = operation.variables
        for block in target.blocks:
            for part in range(target.layout.run):
                for axis, variable in enumerate((row, column)):
                    name = f"{('row', 'column')[axis]}_{target.name}_{block[axis]}_{part}"
                    emit = partial(_place, fragment=target, axis=axis, block=block[axis], part=part)
                    self.values[variable.name] = self.define(call(Intrinsic(name, (), I32, emit)))
                where = f"{block[0]}_{block[1]}_{part}"
                for variable, source in zip(components, sources, strict=True):
                    emit = partial(self._element, fragment=source, block=block, part=part)
                    self.values[variable.name] = self.define(
                        call(Intrinsic(f"{source.name}_{where}", (), source.element, emit)))
                found = self.fresh(target.element)
                self.region(operation.body, [found])
                emit = partial(self._set_element, fragment=target, block=block, part=part)
                self.evaluate(call(Intrinsic(f"set_{target.name}_{where}", (target.element,), None, emit), found))

    def _element(
        self, b: ir.IRBuilder, _: Sequence[ir.Value], fragment: Fragment, block: tuple[int, int], part: int
    ) -> ir.Value:
        return self.registers.value(b, fragment, block, part)

    def _set_element(
        self, b: ir.IRBuilder, given: Sequence[ir.Value], fragment: Fragment, block: tuple[int, int], part: int
    ) -> None:
        self.registers.set_value(b, fragment, block, part, given[0])


def _place(
    b: ir.IRBuilder, _: Sequence[ir.Value], fragment: Fragment, axis: int, block: int, part: int
) -> ir.Value:
    return code.place_of(b, fragment, axis, block, part)
