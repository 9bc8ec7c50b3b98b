"""Instructions that give views of memrefs, and their sizes.

Source: tensor language reference, sections "Expand", "Fuse", "Size" and "Subview"; language 0.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tl_dpnp.language.assembly import Memref, Mode, Result, Sizes, Slices, Spelled, Writing
from tl_dpnp.language.building import Argument, Building
from tl_dpnp.language.ir import Slice, Value, memref_type
from tl_dpnp.language.rule_error import RuleError, counted
from tl_dpnp.language.type_rules import check_bounds, check_index, check_mode, check_view, describe, memref_operand
from tl_dpnp.language.types import GroupType, MemrefType, Size, Type
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import I1, INDEX, ScalarType

if TYPE_CHECKING:
    from tl_dpnp.language.interpreter.machine import WorkGroup

#: The whole of a mode in a subview, written ``:`` in the language.
ALL = slice(None)
#: An entry of a subview: an index, which removes the mode; (offset, size), where the size None is the rest; or `ALL`.
Entry = Argument | tuple[Argument, Argument | None] | slice


@dataclass(frozen=True)
class SizeOf(Spelled):
    """``size %m[mode] : memref``: the size of one mode; that of mode 0 of a group is its length."""

    spelling = "size {source}[{mode}] : {source.memref_type}"
    newer_spelling = "size {source}[{mode}] : {result.scalar_type}"
    example = "%n = size %m[0] : memref<f32x?>"
    pure = True

    source: Memref
    mode: Mode
    result: Result

    def result_type(self) -> ScalarType:
        if not isinstance(self.source.type, GroupType):
            check_mode(self.mode, memref_operand(self.source.type, "size"), 1)
        elif self.mode:
            message = f"mode {self.mode} is out of range of a group, whose only size is its length"
            raise RuleError(message, "write mode 0, or load one memref of the group first", 1)
        return INDEX

    @property
    def known(self) -> int | None:
        """The size, where the type of the operand says it."""
        type = self.source.type
        return type.length if isinstance(type, GroupType) else memref_type(self.source).shape[self.mode]

    def spell(self, writing: Writing) -> str:
        if isinstance(self.source.type, GroupType):
            writing.refuse("the size of a group")
        return super().spell(writing)

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        source = group.value(self.source)
        size = len(source.arrays) if isinstance(source, group.memory.Group) else source.shape[self.mode]
        return (group.scalar.from_python(size, INDEX),)


@dataclass(frozen=True)
class Associated(Spelled):
    """``associated %m : bool``: whether there is memory: false of a parameter for which a call gave None.

    Source: language 0.4, sections "Associated" and "The call".
    """

    spelling = "associated {source} : {result.scalar_type}"
    example = "%b = associated %m : bool"
    foreign = ("none", "null", "nullptr"), "whether a call gives an array is asked by"
    is_newer = True
    pure = True

    source: Memref
    result: Result

    def result_type(self) -> ScalarType:
        if not isinstance(self.source.type, MemrefType | GroupType):
            message = f"associated asks for a memref or a group, not for {describe(self.source.type)}"
            raise RuleError(message, "name a parameter that a call may leave out", 0)
        return I1

    @property
    def asked(self) -> Value | None:
        return self.source

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        return (group.scalar.from_python(group.values[self.source.name] is not None, I1),)


@dataclass(frozen=True)
class _View(Spelled):
    """Base of the instructions whose result refers to the memory of `source`."""

    pure = True

    source: Memref

    @property
    def viewed(self) -> Value | None:
        return self.source

    @classmethod
    def annotates_result(cls, source: Type, annotation: Type) -> bool:
        """`expand` and `fuse` give another order than their operand has."""
        if not isinstance(source, MemrefType) or not isinstance(annotation, MemrefType):
            return False
        return source.order != annotation.order


@dataclass(frozen=True)
class Expand(_View):
    """``expand %m[mode -> s1 x s2 ...] : memref``: one mode viewed as several.

    `shape` holds constants, index values, and at most one `None` for ``?``, which is inferred.
    """

    spelling = "expand {source}[{mode} -> {shape}] : {source.memref_type}"
    newer_spelling = "expand {source}[{mode} -> {shape}] : {result.memref_type}"
    example = "%v = expand %m[0 -> 4 x ?] : memref<f32x32>"

    mode: Mode
    shape: Sizes
    result: Result

    def result_type(self) -> MemrefType:
        memref = memref_operand(self.source.type, "expand")
        mode, shape = self.mode, self.shape
        check_mode(mode, memref, 1 + sum(entry is not None for entry in shape))
        if len(shape) < 2:
            raise RuleError("expand needs at least two sizes", "write for example 4 x ?")
        if sum(entry is None for entry in shape) > 1:
            raise RuleError("at most one size of an expand may be ?", "write the other sizes as constants or values")
        sizes: list[Size] = []
        product, position = 1, 0
        for entry in shape:
            position += entry is not None
            value = None if entry is None else check_index(entry, position, "a size of expand")
            if value is not None and value < 1:
                raise RuleError(f"the size {value} of expand is not positive", "write a size of at least 1", position)
            sizes.append(value)
            product *= 1 if value is None else value
        _check_division(sizes, product, memref.shape[mode], mode)
        size = memref.shape[mode]
        if size is not None and None in shape and sizes.count(None) == 1:
            sizes[sizes.index(None)] = size // product
        strides: list[Size] = [memref.strides[mode]]
        for extent in sizes[:-1]:
            stride = strides[-1]
            strides.append(None if extent is None or stride is None else extent * stride)
        return check_view(
            MemrefType(
                memref.element,
                (*memref.shape[:mode], *sizes, *memref.shape[mode + 1 :]),
                (*memref.strides[:mode], *strides, *memref.strides[mode + 1 :]),
            )
        )

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        sizes = [None if size is None else group.index(size) for size in self.shape]
        view = group.memory.expand(group.value(self.source), self.mode, sizes)
        if (element := memref_type(self.source).element).is_subbyte:
            group.memory.require_whole_bytes(view, (), element)
        return (view,)


def _check_division(sizes: list[Size], product: int, size: Size, mode: int) -> None:
    """Check that the constant sizes of an expand fit into a mode of static size."""
    if size is None:
        return
    if None in sizes and size % product != 0:
        raise RuleError(
            f"{product} does not divide {size}, the size of mode {mode}",
            f"write constant sizes whose product divides {size}",
            1,
        )
    if None not in sizes and product != size:
        raise RuleError(
            f"the sizes of expand multiply to {product}, but mode {mode} has size {size}",
            f"write sizes whose product is {size}, or ? for one of them",
            1,
        )


@dataclass(frozen=True)
class Fuse(_View):
    """``fuse %m[first, last] : memref``: adjacent modes viewed as one."""

    spelling = "fuse {source}[{first}, {last}] : {source.memref_type}"
    newer_spelling = "fuse {source}[{first}, {last}] : {result.memref_type}"
    example = "%v = fuse %m[0, 1] : memref<f32x4x8>"

    first: Mode
    last: Mode
    result: Result

    def result_type(self) -> MemrefType:
        memref = memref_operand(self.source.type, "fuse")
        first, last = self.first, self.last
        check_mode(first, memref, 1)
        check_mode(last, memref, 2)
        if first >= last:
            raise RuleError(f"fuse needs rising modes, but got {first} and {last}", "write [from, to] with from < to",
                            2)
        shape, strides = memref.shape, memref.strides
        for mode in range(first, last):
            stride, size, following = strides[mode], shape[mode], strides[mode + 1]
            if stride is not None and size is not None and following is not None and stride * size != following:
                raise RuleError(
                    f"modes {mode} and {mode + 1} cannot be fused: stride {stride} x size {size} is {stride * size}, "
                    f"but the next stride is {following}",
                    "fuse only modes that lie densely in memory",
                    1,
                )
        product: Size = 1
        for size in shape[first : last + 1]:
            product = None if size is None or product is None else product * size
        return check_view(
            MemrefType(
                memref.element,
                (*shape[:first], product, *shape[last + 1 :]),
                (*strides[: first + 1], *strides[last + 1 :]),
            )
        )

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        return (group.memory.fuse(group.value(self.source), self.first, self.last),)


@dataclass(frozen=True)
class Expandc2r(_View):
    """``expandc2r %m : memref``: complex elements as pairs of reals, which are a mode of its own in front.

    Source: language 0.5, section "What 0.5 adds".
    """

    spelling = "expandc2r {source} : {result.memref_type}"
    example = "%v = expandc2r %m : memref<f32x2x8>"
    is_newer = True

    result: Result

    def result_type(self) -> MemrefType:
        memref = memref_operand(self.source.type, self.mnemonic)
        if not memref.element.is_complex:
            raise RuleError(f"{self.mnemonic} works on complex elements, not on {memref.element}",
                            "use a memref of c32 or c64", 0)
        strides = (1, *(None if stride is None else 2 * stride for stride in memref.strides))
        return check_view(MemrefType(memref.element.part, (2, *memref.shape), strides))

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        return (group.memory.parts(group.value(self.source)),)


@dataclass(frozen=True)
class Subview(_View):
    """``subview %m[slices] : memref``: a view of a part of a memref.

    An index removes its mode, a slice keeps it; strides are unchanged.
    """

    spelling = "subview {source}[{slices}] : {source.memref_type}"
    newer_spelling = "subview {source}[{slices}] : {result.memref_type}"
    example = "%v = subview %m[2:4, :, %i] : memref<f32x8x8x?>"
    remark = ", where 2:4 means 4 elements from the offset 2"

    slices: Slices
    result: Result

    @classmethod
    def annotates_result(cls, source: Type, annotation: Type) -> bool:
        return isinstance(source, MemrefType) and isinstance(annotation, MemrefType) and source != annotation

    def result_type(self) -> MemrefType:
        memref = memref_operand(self.source.type, "subview")
        slices = self.slices
        if len(slices) != memref.order:
            raise RuleError(
                f"subview of {memref} takes {counted(memref.order, 'entry', 'entries')}, but {len(slices)} given",
                "write one index or slice for each mode",
                1 + sum(1 + (s.size is not None) for s in slices[: memref.order]) if len(slices) > memref.order else 0,
            )
        shape: list[Size] = []
        strides: list[Size] = []
        position = 1
        per_byte = memref.element.per_byte
        for mode, entry in enumerate(slices):
            size = memref.shape[mode]
            offset = check_index(entry.offset, position, "an index" if entry.is_index else "an offset")
            if mode == 0 and per_byte > 1 and (entry.is_index or (offset or 0) % per_byte):
                what = "one index of mode 0" if entry.is_index else f"the offset {offset} of mode 0"
                message = f"{what} is inside a byte: {per_byte} elements of {memref.element} share one, along mode 0"
                raise RuleError(message, f"write a slice whose offset is a multiple of {per_byte}", position)
            if entry.is_index:
                if offset is not None:
                    check_bounds(offset, size, mode, position)
            else:
                shape.append(_slice_size(entry, offset, size, mode, position))
                strides.append(memref.strides[mode])
            position += 1 + (entry.size is not None)
        return check_view(MemrefType(memref.element, tuple(shape), tuple(strides)))

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        def evaluated(entry: Slice) -> int | tuple[int, int | None]:
            if entry.is_index:
                return group.index(entry.offset)
            return group.index(entry.offset), None if entry.size is None else group.index(entry.size)

        entries = list(map(evaluated, self.slices))
        view = group.memory.subview(group.value(self.source), entries)
        if (element := memref_type(self.source).element).is_subbyte:
            group.memory.require_whole_bytes(view, entries, element)
        return (view,)


def _slice_size(entry: Slice, offset: int | None, size: Size, mode: int, position: int) -> Size:
    """Return the size of what a slice keeps of a mode of size `size`."""
    if offset is not None and offset < 0:
        raise RuleError(f"the offset {offset} of mode {mode} is negative", "write an offset from 0 on", position)
    if entry.size is None:
        if size is None or offset is None:
            return size if offset == 0 else None
        if offset >= size:
            raise RuleError(
                f"the offset {offset} leaves nothing of mode {mode}, whose size is {size}",
                f"write an offset from 0 to {size - 1}",
                position,
            )
        return size - offset
    extent = check_index(entry.size, position + 1, "a size")
    if extent is None:
        return None
    if extent < 1:
        raise RuleError(
            f"the size {extent} of a slice is not positive", "write a size from 1 on, or ? for the rest", position + 1
        )
    end = extent + (offset or 0)
    if size is not None and end > size:
        raise RuleError(
            f"the slice ends at {end}, out of bounds of mode {mode}, whose size is {size}",
            "a slice is written offset : size, not from : to",
            position + 1,
        )
    return extent


class ViewMethods(Building):
    """What a function builder has for views."""

    def associated(self, source: Value, *, name: str = "") -> Value:
        """``associated``"""
        return self._add_value(Associated(source=self._value(source), result=self._result(I1, name)))

    def size(self, source: Value, mode: int, *, name: str = "") -> Value:
        """``size``"""
        number = self._integer(mode, "a mode")
        return self._add_value(SizeOf(source=self._value(source), mode=number, result=self._result(INDEX, name)))

    def expand(self, source: Value, mode: int, *shape: Argument | None, name: str = "") -> Value:
        """``expand``; a size of None is inferred, as ``?`` is."""
        sizes = tuple(None if size is None else self._operand(size, INDEX) for size in shape)
        source, result = self._value(source), self._result(None, name)
        return self._add_value(Expand(source=source, mode=self._integer(mode, "a mode"), shape=sizes, result=result))

    def expandc2r(self, source: Value, *, name: str = "") -> Value:
        """``expandc2r``"""
        return self._add_value(Expandc2r(source=self._value(source), result=self._result(None, name)))

    def fuse(self, source: Value, first: int, last: int, *, name: str = "") -> Value:
        """``fuse`` of the modes `first` to `last`, both included."""
        source, result = self._value(source), self._result(None, name)
        first, last = (self._integer(mode, "a mode") for mode in (first, last))
        return self._add_value(Fuse(source=source, first=first, last=last, result=result))

    def subview(self, source: Value, *entries: Entry, name: str = "") -> Value:
        """``subview``; an entry is an index, ``(offset, size)`` with size None for the rest, or `ALL`."""
        slices = tuple(self._slice(entry) for entry in entries)
        return self._add_value(Subview(source=self._value(source), slices=slices, result=self._result(None, name)))

    def _slice(self, entry: Entry) -> Slice:
        match entry:
            case slice(start=None, stop=None, step=None):
                return Slice(self._operand(0, INDEX))
            case slice():
                raise self._error("a Python slice means from:to", "write (offset, size) or ALL")
            case (offset, size):
                return Slice(self._operand(offset, INDEX), None if size is None else self._operand(size, INDEX))
            case tuple():
                raise self._error("a slice is a pair", "write (offset, size) or ALL")
        return Slice(self._operand(entry, INDEX), None, True)
