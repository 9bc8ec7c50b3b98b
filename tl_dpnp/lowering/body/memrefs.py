"""What the body does to say where memrefs are: views, elements of groups, temporaries; and scalar operands."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from tl_dpnp.kernels import intrinsics
from tl_dpnp.kernels.llvm import GLOBAL, LOCAL, PRIVATE
from tl_dpnp.language import ops
from tl_dpnp.language.types import MemrefType, Size
from tl_dpnp.lowering.body.building import GROUP, GROUPS, MINIMUM, BodyBuilder, call
from tl_dpnp.lowering.body.memref import MemrefDescriptor, prefer_static
from tl_dpnp.lowering.body.tree import (
    Binary,
    Constant,
    Expression,
    Name,
    add,
    bytes_of,
    multiply,
    offset_of,
    subtract,
)
from tl_dpnp.lowering.contraction import JAMMED
from tl_dpnp.lowering.memory import Placement
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import INDEX, rounded_number

if TYPE_CHECKING:
    from tl_dpnp.lowering.mappings.mapping import LoopMapping

__all__ = ["MemrefWriter", "count", "length", "multiples_of"]


#: What is known of strides where nothing is.
_NONE: tuple[int, ...] = ()


def length(table: Name) -> Name:
    """Return the argument that is the number of elements of a group, which checks need."""
    return Name(f"{table.name}_length")


def count(table: Name) -> Name:
    """Return the argument that is the number of elements of a group, for a program that asks for it."""
    return Name(f"{table.name}_count")


def multiples_of(memref: MemrefType, assertion: ops.Assertion) -> tuple[int, ...]:
    """Return what the strides of a memref are multiples of, in elements."""
    asserted = (*assertion.stride_gcd, *(1 for _ in memref.strides))
    # A mode of one element may have any stride; nothing is moved by it but what fuses it with others.
    return tuple(number if stride is None else stride for number, stride in zip(asserted, memref.strides, strict=False))


@dataclass(kw_only=True)
class MemrefWriter(BodyBuilder):
    """What is known of values and memrefs, and the instructions that only make memrefs of others."""

    mapping: LoopMapping
    placements: Mapping[str, Placement]
    local_memory: int
    groups_ahead: int
    values: dict[str, Expression] = field(default_factory=dict)
    memrefs: dict[str, MemrefDescriptor] = field(default_factory=dict)
    #: The table of addresses of each group, the offset of its elements, and where their sizes and strides are.
    groups: dict[str, tuple[Name, Expression, Name]] = field(default_factory=dict)
    assertions: dict[str, ops.Assertion] = field(default_factory=dict)
    #: Whether two work-groups are done at once.
    jammed: bool = False
    #: The program's conditions and loops around the current position.
    nesting: int = 0

    def operand(self, operand: ops.Operand) -> Expression:
        """Return a scalar operand."""
        if isinstance(operand, ops.Value):
            return self.values[operand.name]
        value, type_ = operand.value, operand.type
        if type_ == INDEX:
            assert not isinstance(value, complex)
            return int(value)
        return Constant(rounded_number(type_, value) if isinstance(value, float) else value, type_)

    def index(self, operand: ops.Operand) -> Expression:
        """Return an index operand."""
        if isinstance(operand, ops.Constant):
            assert isinstance(operand.value, int)
            return operand.value
        return self.values[operand.name]

    def wide(self, operand: ops.Operand) -> Expression:
        """Return an integer operand as 64 bits."""
        type_ = ops.scalar_type(operand)
        if isinstance(operand, ops.Constant) or type_ == INDEX:
            return self.index(operand)
        return call(intrinsics.conversion(type_, INDEX), self.operand(operand))

    def placed_view(self, result: ops.Value) -> bool:
        """Define a memref that the mapping has a place for, and return whether it has."""
        found = self.mapping.memref(result)
        if found is not None:
            self.memrefs[result.name] = found._replace(address=self.bind(found.address))
        return found is not None

    def load_memref(self, operation: ops.Load) -> None:
        if self.placed_view(operation.result):
            return
        type_ = ops.memref_type(operation.result)
        table, offset, dope = self.groups[operation.source.name]
        index = self.index(operation.indices[0])
        self.check("bounds", operation.span, index, length(table), "index into the group")
        load = intrinsics.element_load(INDEX, GLOBAL, self.local_memory)
        address = self.define(add(call(load, table, index), bytes_of(offset, type_.element)))
        ahead: Expression | None = None
        step: Expression | None = None
        if index == GROUP and self.jammed:
            distance = subtract(call(load, table, add(index, 1)), call(load, table, index))
            step = self.define(Binary(">>", distance, type_.element.bytes.bit_length() - 1))
        elif index == GROUP and self.mapping.frame.is_alone and not self.nesting:
            # All work-groups load an element; under a condition the group may have fewer.
            following = call(MINIMUM, add(GROUP, self.groups_ahead), subtract(GROUPS, 1))
            ahead = self.define(subtract(call(load, table, following), call(load, table, index)))
        dynamic = [e for e in (*type_.shape, *type_.strides) if e is None]
        position = 0

        def resolve(entry: Size) -> Expression:
            nonlocal position
            if entry is not None:
                return entry
            value = self.define(call(load, dope, add(multiply(index, len(dynamic)), position)))
            position += 1
            return value

        sizes = tuple(resolve(entry) for entry in type_.shape)
        strides = tuple(resolve(entry) for entry in type_.strides)
        alignment, multiples = 1, _NONE
        assertion = self.assertions.get(operation.source.name)
        if assertion is not None:
            shift = offset * type_.element.bytes if isinstance(offset, int) else type_.element.bytes
            alignment, multiples = math.gcd(assertion.alignment or 1, shift), multiples_of(type_, assertion)
        self.memrefs[operation.result.name] = MemrefDescriptor(
            type_, GLOBAL, address, sizes, strides, ahead, alignment, step, multiples)

    def alloca(self, operation: ops.Alloca) -> None:
        result = operation.result
        type_ = ops.memref_type(result)
        space = PRIVATE if self.mapping.frame.is_alone else LOCAL
        sizes = tuple(size for size in type_.shape if size is not None)
        strides = tuple(stride for stride in type_.strides if stride is not None)
        address, alignment = self.mapping.temporary(self.placements[result.name])
        address = self.bind(address)
        step = self.local_memory // JAMMED // type_.element.bytes if self.jammed else None
        self.memrefs[result.name] = MemrefDescriptor(
            type_, space, address, sizes, strides, alignment=alignment, step=step,
            multiples=() if operation.alignment is None else strides)

    def view(
        self, result: ops.Value, source: MemrefDescriptor, address: Expression, sizes: Sequence[Expression],
        strides: Sequence[Expression], ahead: Expression | None, step: Expression | None = None, alignment: int = 1,
        multiples: tuple[int, ...] = (),
    ) -> None:
        """Define a view by what the body knows of it; what its type knows comes first."""
        type_ = ops.memref_type(result)
        shape, layout = prefer_static(type_.shape, sizes), prefer_static(type_.strides, strides)
        step = source.step if step is None else step
        self.memrefs[result.name] = MemrefDescriptor(
            type_, source.space, address, shape, layout, ahead, alignment, step, multiples)

    def subview(self, operation: ops.Subview) -> None:
        if self.placed_view(operation.result):
            return
        source = self.memrefs[operation.source.name]
        terms: list[tuple[Expression, Expression]] = []
        sizes: list[Expression] = []
        strides: list[Expression] = []
        for entry, size, stride in zip(operation.slices, source.sizes, source.strides, strict=True):
            offset = self.index(entry.offset)
            terms.append((offset, stride))
            if entry.is_index:
                self.check_indices(operation.span, [offset], [size], "index")
                continue
            given = None if entry.size is None else self.index(entry.size)
            self.check_slice(operation.span, offset, given, size)
            length = subtract(size, offset) if given is None else given
            sizes.append(self.bind(length))
            strides.append(stride)
        element = source.type.element
        if element.is_subbyte:
            self.check_whole_bytes(operation.span, element.per_byte, terms[0][0], sizes[0])
        address = self.bind(add(source.address, bytes_of(offset_of(terms), element)))
        # The view moves with the work-group where the group id is one of its offsets and no other depends on it.
        moves = [stride for offset, stride in terms if offset == GROUP]
        ahead = source.ahead
        if len(moves) == 1 and ahead is None:
            ahead = bytes_of(multiply(moves[0], self.groups_ahead), element)
        step = moves[0] if self.jammed and moves else None
        alignment, multiples = 1, _NONE
        if source.multiples:
            numbers = [*zip(source.multiples, terms, strict=True)]
            alignment = math.gcd(source.alignment, *(
                element.bytes * (offset if isinstance(offset, int) else 1) * (
                    stride if isinstance(stride, int) else number) for number, (offset, stride) in numbers))
            kept = [number for number, entry in zip(source.multiples, operation.slices, strict=True)
                    if not entry.is_index]
            multiples = tuple(kept)
        self.view(operation.result, source, address, sizes, strides, ahead, step, alignment, multiples)

    def expand(self, operation: ops.Expand) -> None:
        source = self.memrefs[operation.source.name]
        mode = operation.mode
        known = [None if entry is None else self.index(entry) for entry in operation.shape]
        product: Expression = 1
        for entry in known:
            product = product if entry is None else multiply(product, entry)
        divide = intrinsics.arithmetic("div", INDEX)
        inferred = self.bind(call(divide, source.sizes[mode], product)) if None in known else 0
        new = [inferred if entry is None else entry for entry in known]
        if self.debug:
            self.check_expand(operation.span, new, source.sizes[mode])
        strides: list[Expression] = [source.strides[mode]]
        for entry in new[:-1]:
            strides.append(self.bind(multiply(strides[-1], entry)))
        sizes = [*source.sizes[:mode], *new, *source.sizes[mode + 1 :]]
        if mode == 0 and source.type.element.is_subbyte:
            self.check_whole_bytes(operation.span, source.type.element.per_byte, sizes[0])
        all_strides = [*source.strides[:mode], *strides, *source.strides[mode + 1 :]]
        self.view(operation.result, source, source.address, sizes, all_strides, source.ahead)

    def parts(self, operation: ops.Expandc2r) -> None:
        """Strides count reals, of which each element has two."""
        source = self.memrefs[operation.source.name]
        strides = [self.bind(multiply(stride, 2)) for stride in source.strides]
        step = None if source.step is None else multiply(source.step, 2)
        self.view(operation.result, source, source.address, [2, *source.sizes], [1, *strides], source.ahead, step)

    def fuse(self, operation: ops.Fuse) -> None:
        source = self.memrefs[operation.source.name]
        first, last = operation.first, operation.last
        if self.debug:
            for mode in range(first, last):
                extent = multiply(source.strides[mode], source.sizes[mode])
                self.check("equal", operation.span, source.strides[mode + 1], extent, f"stride of mode {mode + 1}")
        size: Expression = 1
        for entry in source.sizes[first : last + 1]:
            size = multiply(size, entry)
        sizes = [*source.sizes[:first], self.bind(size), *source.sizes[last + 1 :]]
        strides = [*source.strides[: first + 1], *source.strides[last + 1 :]]
        self.view(operation.result, source, source.address, sizes, strides, source.ahead)
