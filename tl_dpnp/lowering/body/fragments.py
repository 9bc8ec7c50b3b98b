"""Instructions on matrices that are in the registers of a warp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
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
from tl_dpnp.lowering.body.building import call
from tl_dpnp.lowering.body.regions import MatrixWriter, RegionWriter
from tl_dpnp.lowering.body.tree import Expression, offset_of
from tl_dpnp.lowering.fragment_choice import BlocksFit
from tl_dpnp.lowering.fragment_layouts import layouts_of
from tl_dpnp.lowering.fragments import product_of
from tl_dpnp.lowering.rewrite import root_of
from tl_dpnp.lowering.scalar_code import scalar_intrinsic
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import I32, INDEX

__all__ = ["WarpFragments"]

_Emit = Callable[..., ir.Value | None]


@dataclass
class WarpFragments(MatrixWriter[Fragment]):
    """Writes what warps do with matrices."""

    writer: RegionWriter
    registers: code.Registers = field(default_factory=code.Registers)
    fragments: dict[str, Fragment] = field(default_factory=dict)

    def subgroup(self) -> Expression:
        return self.writer.define(call(intrinsics.sub_group()))

    # --- values that are passed on -----------------------------------------------------------------------------------

    def holder(self, value: ops.Value) -> Fragment:
        return self._fragment(value)

    def pass_on(self, holder: Fragment, matrix: ops.Value) -> None:
        self._copy(self.fragments[matrix.name], holder)

    def take(self, value: ops.Value, holder: Fragment, is_fixed: bool) -> None:
        if is_fixed:
            self.fragments[value.name] = holder
        else:
            self.fragments[value.name] = self._fragment(value)
            self._copy(holder, self.fragments[value.name])

    def _fragment(self, value: ops.Value) -> Fragment:
        """Return new registers for a matrix."""
        type = ops.matrix_type(value)
        self.writer.count += 1
        return Fragment(f"m{self.writer.count}", type.component, *type.shape, self._layouts[value.name])

    @cached_property
    def _layouts(self) -> dict[str, Layout]:
        return layouts_of(self.writer.function)

    def _copy(self, source: Fragment, target: Fragment) -> None:
        assert source.layout == target.layout, (source, target)
        self._evaluate("copy", (source, target), partial(code.copy_fragment, registers=self.registers, source=source,
                                                          target=target))

    def _evaluate(
        self, what: str, fragments: Sequence[Fragment], emit: Callable[[ir.IRBuilder], None], comment: str = ""
    ) -> None:
        """Call an intrinsic that has no other arguments than fragments."""
        name = "_".join([what, *(fragment.name for fragment in fragments)])
        self.writer.evaluate(call(Intrinsic(name, (), None, lambda b, _: emit(b))), comment)

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
        whole = Intrinsic(name, types, None, emit, operation.span)
        self.writer.evaluate(call(whole, *map(self.writer.operand, scalars)))

    @staticmethod
    def _is_matrix(operand: ops.Operand) -> bool:
        return isinstance(operand.type, CooperativeMatrixType)

    def blocks_fit(self, operation: BlocksFit) -> Expression:
        raise TypeError("warps access matrices of any layout")

    def _product(self, operation: ops.CooperativeMatrixMulAdd, target: Fragment) -> None:
        product = product_of(operation, self.writer.precision)
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
        memref = self.writer.memrefs[operation.memref.name]
        root = root_of(operation.memref, self.writer.roots)
        if root in self.writer.written and (isinstance(operation, ops.MatrixLoad) or root in self.writer.read):
            self._evaluate("synchronize", (), code.synchronize)  # lanes do not see what others store before that
        indices = [self.writer.index(each) for each in operation.indices]
        checked = [mode for mode, is_checked in enumerate(operation.checked_modes) if is_checked]
        order = (1, 0) if operation.transpose else (0, 1)
        arguments = [memref.address, offset_of(zip(indices, memref.strides, strict=True)),
                     *(memref.strides[mode] for mode in order),
                     *(entry for mode in checked for entry in (indices[mode], memref.sizes[mode]))]

        def emit(b: ir.IRBuilder, given: Sequence[ir.Value]) -> None:
            address, offset, rows, columns, *limits = given
            pointer = intrinsics.memory_pointer(
                b, memref.type.element, memref.space, address, self.writer.local_memory)
            type_ = code.element_type(memref.type.element).as_pointer(pointer.type.addrspace)
            known = {mode: (limits[2 * number], limits[2 * number + 1]) for number, mode in enumerate(checked)}
            bounds = known.get(order[0]), known.get(order[1])
            access(b, self.registers, fragment, MatrixPart(b.gep(b.bitcast(pointer, type_), [offset]),
                                                           (rows, columns), bounds))

        word = "load" if isinstance(operation, ops.MatrixLoad) else "store"
        name = f"{word}_{fragment.name}_{len(self.writer.statements)}_{self.writer.count}"
        self.writer.evaluate(call(Intrinsic(name, (INDEX,) * len(arguments), None, emit, operation.span), *arguments))

    def _apply(self, operation: ops.CooperativeMatrixApply, target: Fragment) -> None:
        """Write the body for each element that a lane has."""
        sources = [self.fragments[matrix.name] for matrix in operation.matrices]
        row, column, *components = operation.variables
        for block in target.blocks:
            for part in range(target.layout.run):
                for axis, variable in enumerate((row, column)):
                    name = f"{('row', 'column')[axis]}_{target.name}_{block[axis]}_{part}"
                    emit = partial(_place, fragment=target, axis=axis, block=block[axis], part=part)
                    self.writer.values[variable.name] = self.writer.define(call(Intrinsic(name, (), I32, emit)))
                where = f"{block[0]}_{block[1]}_{part}"
                for variable, source in zip(components, sources, strict=True):
                    emit = partial(self._element, fragment=source, block=block, part=part)
                    self.writer.values[variable.name] = self.writer.define(
                        call(Intrinsic(f"{source.name}_{where}", (), source.element, emit)))
                found = self.writer.fresh(target.element)
                self.writer.region(operation.body, [found])
                emit = partial(self._set_element, fragment=target, block=block, part=part)
                self.writer.evaluate(
                    call(Intrinsic(f"set_{target.name}_{where}", (target.element,), None, emit), found))

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
