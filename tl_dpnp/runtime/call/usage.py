"""What a function does with its parameters, as far as a call has to know.

One walk over the IR finds the parameters that are written, those that are indexed directly by ``group_id``, from which
the number of work-groups is inferred, and the dynamic sizes that must be equal (docs/calling.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Literal

from tl_dpnp.errors import Span
from tl_dpnp.language import ops
from tl_dpnp.language.extents import AXES
from tl_dpnp.language.types import GroupType, MemrefType
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.call.interface import BatchMode, Interface, Usage
from tl_dpnp.runtime.call.relations import UNKNOWN, Element, Extent, Relation

__all__ = ["analyse", "interface_of"]


@dataclass(frozen=True)
class _View:
    """A memref or group value as parameters know it: where it comes from, and which mode each of its modes is.

    `modes` holds None for a mode that is not a whole mode of the parameter or, after a load from a group, of its
    element; `element` says which.
    """

    parameter: int
    modes: tuple[int | None, ...]
    element: Element = None


#: What a name stands for: a view of a parameter, or the group id along an axis; other names are of no interest.
_Scope = dict[str, "_View | str"]
#: Where an operation stands: every work-group reaches it, unless a loop has no iterations or a branch is not taken.
_Reach = Literal["always", "loop", "branch"]


def analyse(function: ops.Function) -> Usage:
    """Return how `function` uses its parameters."""
    walk = _Walk()
    scope: _Scope = {}
    for position, parameter in enumerate(function.parameters):
        match parameter.type:
            case MemrefType(order=order) | GroupType(memref=MemrefType(order=order)):
                scope[parameter.name] = _View(position, tuple(range(order)))
            case _:
                pass
    walk.region(function.body, scope, "always")
    asked = {operation.asked.name for operation in function.body.walk() if operation.asked is not None}
    return Usage(frozenset(walk.written), frozenset(walk.read), frozenset(walk.open_modes),
                 frozenset(walk.whole_modes), tuple(dict.fromkeys(walk.batch_modes)), frozenset(walk.indexing_axes),
                 any(isinstance(operation, ops.LaunchPlace) and operation.axis != AXES[0]
                     for operation in function.body.walk()),
                 frozenset(position for position, each in enumerate(function.parameters) if each.name in asked),
                 tuple(dict.fromkeys(walk.relations)), _has_fixed_work(function), any(
                     isinstance(operation, ops.Contraction) and operation.is_matrix_product
                     for operation in function.body.walk()),
                 any(isinstance(operation, ops.CooperativeMatrixMulAdd) for operation in function.body.walk()))


def interface_of(function: ops.Function) -> Interface:
    """Return what calls have to know of `function`."""
    return Interface(function.name, function.parameters, function.defaults, function.span, analyse(function),
                     function.assertions)


def _has_fixed_work(function: ops.Function) -> bool:
    def is_fixed(operation: ops.Operation) -> bool:
        match operation:
            case ops.For() | ops.Foreach() | ops.Parallel() | ops.ForeachTile():
                return False
            case ops.LinearAlgebra(operands=operands):
                types = (operand.type for operand in operands)
                return all(None not in memref.shape for memref in types if isinstance(memref, MemrefType))
        return True

    return all(map(is_fixed, function.body.walk()))


@dataclass
class _Walk:
    """The state of the walk: what has been found so far."""

    written: set[int] = field(default_factory=set)
    read: set[int] = field(default_factory=set)
    open_modes: set[tuple[int, int]] = field(default_factory=set)
    whole_modes: set[tuple[int, int]] = field(default_factory=set)
    batch_modes: list[BatchMode] = field(default_factory=list)
    indexing_axes: set[str] = field(default_factory=set)
    relations: list[Relation] = field(default_factory=list)

    def region(self, region: ops.Region, outer: _Scope, reach: _Reach) -> None:
        """Walk a region; what it defines ends with it."""
        scope = dict(outer)
        for operation in region:
            self.operation(operation, scope, reach)
            inside: _Reach = "branch" if isinstance(operation, ops.If) or reach == "branch" else "loop"
            for inner in operation.regions:
                self.region(inner, scope, inside)

    def operation(self, operation: ops.Operation, scope: _Scope, reach: _Reach) -> None:
        """Note what one operation writes and indexes, and what its result stands for."""
        self.indexing_axes.update(
            axis for operand in operation.operands if (axis := self._axis(operand, scope)) is not None)
        self._note_whole_modes(operation, scope)
        for result in operation.results:
            scope.pop(result.name, None)
        match operation:
            case ops.GroupId(result=result, axis=axis):
                scope[result.name] = axis
            case ops.Load(source=source, indices=indices, result=result):
                view = self._index(source, indices, scope, reach, operation.span)
                if view is not None and isinstance(source.type, GroupType):
                    scope[result.name] = _View(view.parameter, view.modes, self._element(indices[0], scope))
                elif view is not None:
                    self.read.add(view.parameter)
            case ops.AtomicAccess(memref=memref, indices=indices):
                self._index(memref, indices, scope, reach, operation.span)
                for written in operation.writes:
                    self._write(written, scope)
                for read in operation.reads:
                    self._read(read, scope)
            case ops.CooperativeAccess():  # of many elements from the indices on
                for written in operation.writes:
                    self._write(written, scope)
                for read in operation.reads:
                    self._read(read, scope)
            case ops.Store(target=target, indices=indices):
                self._index(target, indices, scope, reach, operation.span)
                self._write(target, scope)
            case ops.Subview(source=source, slices=slices, result=result):
                view = self._index(source, tuple(map(_index_of, slices)), scope, reach, operation.span)
                if view is not None:
                    scope[result.name] = _View(view.parameter, tuple(
                        mode if entry.size is None and _is_zero(entry.offset) else None
                        for mode, entry in zip(view.modes, slices, strict=True) if not entry.is_index
                    ), view.element)
            case ops.Expand(source=source, mode=mode, shape=shape, result=result):
                self._reshape(source, result, mode, mode, len(shape), scope)
            case ops.Fuse(source=source, first=first, last=last, result=result):
                self._reshape(source, result, first, last, 1, scope)
            case ops.Expandc2r(source=source, result=result):
                self._reshape(source, result, 0, -1, 1, scope)
            case ops.LinearAlgebra(output=output):
                self._write(output, scope)
                if operation.has_precision:  # it sums products
                    for memref in (*operation.inputs, output):
                        self._open(memref, scope)
                for memref in operation.reads:
                    self._read(memref, scope)
                if reach != "branch":
                    self._relate(operation, scope)
            case _:
                pass

    def _note_whole_modes(self, operation: ops.Operation, scope: _Scope) -> None:
        """Note the modes of parameters that an operation uses, and not only indexes."""
        if isinstance(operation, ops.Load | ops.Store | ops.AtomicAccess | ops.SizeOf):
            return
        indexed = [entry.is_index for entry in operation.slices] if isinstance(operation, ops.Subview) else None
        for operand in operation.operands:
            view = scope.get(operand.name) if isinstance(operand, ops.Value) else None
            if isinstance(view, _View) and view.element is None:
                self.whole_modes.update(
                    (view.parameter, mode) for place, mode in enumerate(view.modes)
                    if mode is not None and not (indexed and indexed[place]))

    def _index(
        self, source: ops.Value, indices: Sequence[ops.Operand | None], scope: _Scope, reach: _Reach, span: Span
    ) -> _View | None:
        """Note the modes of `source` that ``group_id`` indexes and return what `source` stands for."""
        view = scope.get(source.name)
        if not isinstance(view, _View):
            return None
        is_group = isinstance(source.type, GroupType)
        modes = (None,) if is_group else view.modes
        for mode, index in zip(modes, indices, strict=True):
            axis = self._axis(index, scope)
            if axis is not None and (is_group or mode is not None) and view.element is None:
                self.batch_modes.append(BatchMode(view.parameter, mode, reach != "always", axis, span))
        return view

    @staticmethod
    def _reshape(source: ops.Value, result: ops.Value, first: int, last: int, count: int, scope: _Scope) -> None:
        """Note that modes `first` to `last` of `source` became `count` other modes."""
        view = scope.get(source.name)
        if isinstance(view, _View):
            modes = (*view.modes[:first], *(None,) * count, *view.modes[last + 1 :])
            scope[result.name] = _View(view.parameter, modes, view.element)

    def _relate(self, operation: ops.LinearAlgebra, scope: _Scope) -> None:
        """Note the dynamic sizes of a linear-algebra instruction that must equal another of its sizes."""
        known: dict[str, tuple[Extent | int, ops.Value]] = {}
        sizes = [(letter, self._extent(memref, mode, scope), memref)
                 for memref, letters in operation.dimension_names for mode, letter in enumerate(letters)]
        for letter, extent, memref in sizes:
            if extent is None:
                continue
            first, owner = known.setdefault(letter, (extent, memref))
            if first != extent:
                self.relations.append(Relation(letter, first, owner, extent, memref, operation.span))

    @staticmethod
    def _extent(memref: ops.Value, mode: int, scope: _Scope) -> Extent | int | None:
        """Return a size as a constant or as that of a parameter, or None if it is neither."""
        size = ops.memref_type(memref).shape[mode]
        if size is not None:
            return size
        view = scope.get(memref.name)
        if not isinstance(view, _View) or view.element == UNKNOWN:
            return None
        source = view.modes[mode]
        return None if source is None else Extent(view.parameter, source, view.element)

    def _open(self, memref: ops.Value, scope: _Scope) -> None:
        """Note the modes of an operand that are modes of a memref parameter, and open."""
        view, type_ = scope.get(memref.name), ops.memref_type(memref)
        if isinstance(view, _View) and view.element is None:
            self.open_modes.update((view.parameter, mode) for mode, size, stride in zip(
                view.modes, type_.shape, type_.strides, strict=True) if mode is not None and None in (size, stride))

    def _element(self, index: ops.Operand, scope: _Scope) -> Element:
        """Return which element of a group an index takes."""
        match index:
            case ops.Constant(value=int(value)):
                return value
            case _:
                return self._axis(index, scope) or UNKNOWN

    def _write(self, target: ops.Value, scope: _Scope) -> None:
        view = scope.get(target.name)
        if isinstance(view, _View):
            self.written.add(view.parameter)

    def _read(self, source: ops.Value, scope: _Scope) -> None:
        view = scope.get(source.name)
        if isinstance(view, _View):
            self.read.add(view.parameter)

    @staticmethod
    def _axis(operand: ops.Operand | None, scope: _Scope) -> str | None:
        """Return the axis along which an operand is the group id, None for any other one."""
        known = scope.get(operand.name) if isinstance(operand, ops.Value) else None
        return known if isinstance(known, str) else None


def _index_of(entry: ops.Slice) -> ops.Operand | None:
    """Return the index if the slice takes one element of its mode, else None."""
    one = isinstance(entry.size, ops.Constant) and entry.size.value == 1
    return entry.offset if entry.is_index or one else None


def _is_zero(operand: ops.Operand) -> bool:
    return isinstance(operand, ops.Constant) and operand.value == 0
