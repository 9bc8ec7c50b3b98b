"""What a function does with its parameters, as far as a call has to know.

One walk over the IR finds the parameters that are written and those that are indexed directly by ``group_id``, from
which the number of work-groups is inferred (LANGUAGE.md, "The call").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tl_dpnp.errors import Span
from tl_dpnp.language import ops
from tl_dpnp.language.types import GroupType, MemrefType

__all__ = ["BatchMode", "Usage", "analyse"]


@dataclass(frozen=True)
class BatchMode:
    """A mode of a memref parameter, or the elements of a group parameter, indexed directly by ``group_id``.

    `parameter` is the position of the parameter and `mode` that of the mode, None for a group.  `conditional` is true
    if the access stands inside an ``if`` or a loop, so that not every work-group need reach it.
    """

    parameter: int
    mode: int | None
    conditional: bool
    span: Span = field(compare=False)


@dataclass(frozen=True)
class Usage:
    """The result of `analyse`: positions of written parameters, batch modes, and whether ``group_id`` is used."""

    written: frozenset[int]
    batch_modes: tuple[BatchMode, ...]
    uses_group_id: bool


@dataclass(frozen=True)
class _View:
    """A memref value as parameters know it: where it comes from, and which mode of the parameter each mode is.

    `modes` holds None for a mode that is not a whole mode of the parameter.
    """

    parameter: int
    modes: tuple[int | None, ...]


_GROUP_ID = "group_id"
#: What a name stands for: a view of a parameter or the group id; other names are of no interest.
_Scope = dict[str, "_View | str"]


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
    walk.region(function.body, scope, conditional=False)
    return Usage(frozenset(walk.written), tuple(dict.fromkeys(walk.batch_modes)), walk.uses_group_id)


@dataclass
class _Walk:
    """The state of the walk: what has been found so far."""

    written: set[int] = field(default_factory=set)
    batch_modes: list[BatchMode] = field(default_factory=list)
    uses_group_id: bool = False

    def region(self, region: ops.Region, outer: _Scope, conditional: bool) -> None:
        """Walk a region; what it defines ends with it."""
        scope = dict(outer)
        for operation in region:
            self.operation(operation, scope, conditional)
            for inner in operation.regions:
                self.region(inner, scope, conditional=True)

    def operation(self, operation: ops.Operation, scope: _Scope, conditional: bool) -> None:
        """Note what one operation writes and indexes, and what its result stands for."""
        if any(self._is_group_id(operand, scope) for operand in operation.operands):
            self.uses_group_id = True
        for result in operation.results:
            scope.pop(result.name, None)
        match operation:
            case ops.GroupId(result=result):
                scope[result.name] = _GROUP_ID
            case ops.Load(source=source, indices=indices, result=result):
                view = self._index(source, indices, scope, conditional, operation.span)
                if view is not None and isinstance(source.type, GroupType):
                    scope[result.name] = _View(view.parameter, (None,) * source.type.memref.order)
            case ops.Store(target=target, indices=indices):
                self._index(target, indices, scope, conditional, operation.span)
                self._write(target, scope)
            case ops.Subview(source=source, slices=slices, result=result):
                view = self._index(source, tuple(map(_index_of, slices)), scope, conditional, operation.span)
                if view is not None:
                    scope[result.name] = _View(view.parameter, tuple(
                        mode if entry.size is None and _is_zero(entry.offset) else None
                        for mode, entry in zip(view.modes, slices, strict=True) if not entry.is_index
                    ))
            case ops.Expand(source=source, result=result) | ops.Fuse(source=source, result=result):
                match scope.get(source.name):
                    case _View(parameter=parameter):
                        scope[result.name] = _View(parameter, (None,) * ops.memref_type(result).order)
            case ops.LinearAlgebra(output=output):
                self._write(output, scope)
            case _:
                pass

    def _index(
        self, source: ops.Value, indices: Sequence[ops.Operand | None], scope: _Scope, conditional: bool, span: Span
    ) -> _View | None:
        """Note the modes of `source` that ``group_id`` indexes and return what `source` stands for."""
        view = scope.get(source.name)
        if not isinstance(view, _View):
            return None
        is_group = isinstance(source.type, GroupType)
        modes = (None,) if is_group else view.modes
        for mode, index in zip(modes, indices, strict=True):
            if self._is_group_id(index, scope) and (is_group or mode is not None):
                self.batch_modes.append(BatchMode(view.parameter, mode, conditional, span))
        return view

    def _write(self, target: ops.Value, scope: _Scope) -> None:
        view = scope.get(target.name)
        if isinstance(view, _View):
            self.written.add(view.parameter)

    @staticmethod
    def _is_group_id(operand: ops.Operand | None, scope: _Scope) -> bool:
        return isinstance(operand, ops.Value) and scope.get(operand.name) == _GROUP_ID


def _index_of(entry: ops.Slice) -> ops.Operand | None:
    """Return the index if the slice takes one element of its mode, else None."""
    one = isinstance(entry.size, ops.Constant) and entry.size.value == 1
    return entry.offset if entry.is_index or one else None


def _is_zero(operand: ops.Operand) -> bool:
    return isinstance(operand, ops.Constant) and operand.value == 0
