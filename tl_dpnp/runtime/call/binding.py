"""The arguments of a call, checked against the parameters.

A `Binding` is made once for each program.  `bind` checks everything and is slow; what it returns can be used again
as long as `key` of the arguments is the same, except for the scalars, which are converted at every call, and for the
addresses of the arrays.
Source: docs/calling.md.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

from tl_dpnp.errors import LayoutError, TLBindingError, TLError, TLTypeError
from tl_dpnp.language.assertions import violation
from tl_dpnp.language.extents import LaunchSize
from tl_dpnp.language.types import GroupType, MemrefType
from tl_dpnp.runtime.call.arguments import (
    Argument,
    BoundCall,
    GroupArgument,
    MemrefArgument,
    PointersArgument,
    ScalarArgument,
)
from tl_dpnp.runtime.call.arrays import HOST_ARRAYS, ArrayKind, ArrayView, NotAnArray
from tl_dpnp.runtime.call.group import Group
from tl_dpnp.runtime.call.layout import Misfit, element_layout, fitted_strides, sizes_in_elements
from tl_dpnp.runtime.call.overlap import overlap_of
from tl_dpnp.runtime.call.pointers import are_pointers, pointers_argument
from tl_dpnp.runtime.call.program import Program
from tl_dpnp.runtime.call.scalar_arguments import scalar_value
from tl_dpnp.scalars import ScalarType

__all__ = ["Binding"]


class Binding:
    """Checks the arguments of one program, whose arrays are of one kind.

    With `debug`, an array that is written may not overlap another argument.
    """

    def __init__(self, program: Program, kind: ArrayKind, *, debug: bool = False) -> None:
        self.program = program
        self.parameters = program.parameters
        self.debug = debug
        self.kind = kind
        self._view_of = kind.view_of
        self._count = len(self.parameters)
        kinds = [type(parameter.type) for parameter in self.parameters]
        self._only_arrays = all(kind is MemrefType for kind in kinds)
        self._groups = [position for position, kind in enumerate(kinds) if kind is GroupType]
        self._holders = [(position, kind) for position, kind in enumerate(kinds) if kind in (MemrefType, GroupType)]
        positions = {parameter.name: position for position, parameter in enumerate(self.parameters)}
        self._assertions = {positions[each.parameter]: each for each in program.interface.assertions}
        # Whether arrays overlap depends on where they are, and is checked under debug; so do asserted alignments.
        self._facts = kind.placed_facts if debug or program.interface.asserts_addresses else kind.facts

    # --- the quick way ---------------------------------------------------------------------------------------------

    def arrays(self, arguments: Sequence[Any]) -> list[Any]:
        """Return the array (the `usm_ndarray` of a dpnp array) of each argument for a memref, in order.

        Lists, and arrays of pointers that stand for groups, are among them.
        Raises `AttributeError` or `ValueError` for arguments that `bind` would refuse for what they are.
        """
        if len(arguments) != self._count:
            raise ValueError
        if self._only_arrays:
            return self.kind.arrays_of(arguments)
        return self.kind.arrays_of([
            arguments[position] for position, _ in self._holders if self.is_array(position, arguments[position])])

    def is_array(self, position: int, argument: Any) -> bool:
        """Whether `arrays` has an argument: one for a memref, or for a group all but a `Group`."""
        kind = type(self.parameters[position].type)
        return kind is MemrefType or (kind is GroupType and not isinstance(argument, Group))

    @property
    def written_arrays(self) -> list[int] | None:
        """Which of the arrays that `arrays` returns are written; None if there are groups, which are no arrays."""
        if self._groups:
            return None
        return [place for place, (position, _) in enumerate(self._holders) if position in self.program.usage.written]

    def owners(self, arguments: Sequence[Any], arrays: Sequence[Any]) -> tuple[object, ...]:
        """Return what keeps the memory of the arguments alive, whatever becomes of the arguments themselves.

        `arrays` is what `arrays` returned.
        """
        return *arrays, *(group for position in self._groups if isinstance(group := arguments[position], Group))

    def key(self, arguments: Sequence[Any], arrays: Sequence[Any]) -> Hashable:
        """Return all that `bind` depends on, apart from the values of scalars and, without `debug`, from addresses.

        `arrays` is what `arrays` returned.  Raises `AttributeError` or `TypeError` as that does.
        """
        facts = tuple(map(self._facts, arrays))
        if not self._groups:
            return facts
        given = [arguments[position] for position in self._groups]
        # The facts of lists are among those of the arrays.
        return facts, *[argument.serial if isinstance(argument, Group) else None for argument in given]

    # --- the thorough way ------------------------------------------------------------------------------------------

    def bind(self, arguments: Sequence[Any], group_size: LaunchSize = None) -> BoundCall:
        """Check the arguments, one for each parameter, and infer the extents of the launch.

        Raises `TLTypeError` for a wrong count, kind of argument or dtype, `TLBindingError` for wrong sizes,
        `LayoutError` for strides that do not fit, and `dpctl.utils.ExecutionPlacementError` for mixed queues.
        """
        arguments = self.program.signature.arranged(tuple(arguments), {})
        bound = tuple(self._bind_one(p, argument) for p, argument in enumerate(arguments))
        queue = self._queue(bound)
        shapes = [argument.shape for argument in bound]
        extents = self.program.extents(shapes, group_size)
        self.program.check_relations(shapes, extents)
        call = BoundCall(bound, queue, math.prod(extents), *extents[1:], is_inferred=group_size is None)
        overlap = overlap_of(self.program, call) if self.debug else None
        if overlap is not None:
            raise self.error(TLBindingError, *overlap, "pass arrays that share no memory")
        return call

    def _bind_one(self, position: int, argument: Any) -> Argument:
        parameter = self.parameters[position]
        match parameter.type:
            case MemrefType() as memref:
                return self._memref(position, memref, argument, f"{parameter}")
            case GroupType() as group:
                return self._group(position, group, argument)
            case _:
                self.scalar(position, argument)
                return ScalarArgument()

    def _memref(self, position: int, memref: MemrefType, argument: Any, name: str) -> MemrefArgument:
        try:
            view = self._view_of(argument)
        except NotAnArray as problem:
            raise self.error(TLTypeError, position, f"{name} takes an array of {memref.element.storage}, it was given "
                              f"{problem.what}", problem.hint) from None
        strides = self._strides(position, memref, view, name)
        self._check_assertion(position, memref, view, strides, name)
        return MemrefArgument(view, strides, memref.element.per_byte)

    def _strides(self, position: int, memref: MemrefType, view: ArrayView, name: str) -> tuple[int, ...]:
        """Check one array against a memref type and return its strides as the kernel may use them."""
        expected = memref.element.storage
        if view.dtype != expected:
            carried = " (bf16 travels as uint16)" if memref.element.name == "bf16" else ""
            if memref.element.is_subbyte:
                raise self.error(TLTypeError, position, f"{name} takes an array of uint8, {memref.element.per_byte} "
                                 f"elements of {memref.element} in each byte, it was given one of {view.dtype}",
                                 f'pack it on the host: tl_dpnp.pack(values, "{memref.element}")')
            # Converted to uint16 the values would be read as other ones.
            convert = ('view bf16 values as uint16 on the host: values.astype(ml_dtypes.bfloat16).view("uint16")'
                       if carried else self._conversion_hint(position, view, expected))
            raise self.error(TLTypeError, position, f"{name} takes an array of {expected}{carried}, it was given one "
                              f"of {view.dtype}", f"{convert}, or declare another type")
        shape, strides = element_layout(memref, view.shape, view.strides)
        sizes_fit = len(shape) == memref.order and all(
            declared in (None, size) for declared, size in zip(memref.shape, shape, strict=True)
        )
        if not sizes_fit:
            hint = self._layout_hint(position, view)
            per_byte = memref.element.per_byte
            declared = [size if size is None or mode else size // per_byte for mode, size in enumerate(memref.shape)]
            wanted = ", ".join("any" if size is None else str(size) for size in declared) + "," * (len(declared) == 1)
            raise self.error(
                LayoutError if hint else TLBindingError, position,
                f"{name}: {memref} takes an array of shape ({wanted}), it was given {view.shape}",
                hint or self._exchanged(position, view) or "pass an array of that shape, or declare another type")
        if not view.writable and position in self.program.usage.written:
            raise self.error(TLBindingError, position, f"{name} is written, but the array is read-only",
                              "pass a writable array")
        try:
            return fitted_strides(memref, shape, strides, self._repeatable(position))
        except Misfit as problem:
            hint = self._repeating(position, memref, shape, strides) or self._layout_hint(position, view)
            raise self.error(LayoutError, position, f"{name}: {memref} does not fit an array of shape {view.shape} "
                              f"and strides {view.strides} (in elements): {problem}", hint) from None

    def _check_assertion(
        self, position: int, memref: MemrefType, view: ArrayView, strides: Sequence[int], name: str
    ) -> None:
        """Check what the program asserts of an array."""
        assertion = self._assertions.get(position)
        if assertion is not None:
            shape = sizes_in_elements(view.shape, memref.element.per_byte)
            broken = violation(assertion, shape, strides, view.address)
            if broken is not None:
                raise self.error(TLBindingError, position, f"{name} breaks its attribute {broken}",
                                 "pass an array that keeps this, or leave the attribute out")

    def _layout_hint(self, position: int, view: ArrayView) -> str | None:
        """Return how to make an array fit that does not."""
        from tl_dpnp.runtime.call.layout_advice import layout_hint  # which looks at instructions

        return layout_hint(self.program, position, view, self.kind.package_of(view.array))

    def _conversion_hint(self, position: int, view: ArrayView, dtype: str) -> str:
        """Return how to make an array one of another dtype."""
        from tl_dpnp.runtime.call.layout_advice import conversion_hint  # as above

        return conversion_hint(dtype, position in self.program.usage.written, self.kind.package_of(view.array))

    def _repeatable(self, position: int) -> list[int]:
        """Return the modes of a memref that may have the stride 0: those that are only indexed, and only read."""
        usage, type_ = self.program.usage, self.parameters[position].type
        if not self.kind.takes_repeats or position in usage.written or not isinstance(type_, MemrefType):
            return []
        return [mode for mode in range(type_.order) if (position, mode) not in usage.whole_modes]

    def _repeating(
        self, position: int, memref: MemrefType, shape: Sequence[int], strides: Sequence[int]
    ) -> str | None:
        """Return advice for an array that would fit if strides of 0 were not declared to be others."""
        left_open = [None if stride == 0 else declared
                     for stride, declared in zip(strides, memref.strides, strict=True)]
        relaxed = MemrefType(memref.element, memref.shape, tuple(left_open))
        try:
            fitted = fitted_strides(relaxed, shape, strides, self._repeatable(position))
        except Misfit:
            return None
        return f"declare {self.parameters[position]}: {relaxed}" if 0 in fitted else None

    def _exchanged(self, position: int, view: ArrayView) -> str | None:
        """Return advice for an array that does not fit its parameter, and by its dtype and shape fits another one."""
        names = self.program.signature.names
        for other, parameter in enumerate(self.parameters):
            memref = parameter.type
            if other != position and isinstance(memref, MemrefType) and memref.element.storage == view.dtype:
                shape, _ = element_layout(memref, view.shape, view.strides)
                if len(shape) == memref.order and all(
                        wanted in (None, size) for wanted, size in zip(memref.shape, shape, strict=True)):
                    return (f"{parameter} takes such an array; if they are exchanged, give them by name: "
                            f"{names[other]}=array")
        return None

    def _group(self, position: int, group: GroupType, argument: Any) -> GroupArgument | PointersArgument:
        parameter = self.parameters[position]
        per_byte = group.memref.element.per_byte
        match argument:
            case Group():
                if argument.kind is HOST_ARRAYS is not self.kind:
                    self._name_culprit(position, group, argument.arrays)  # raises: devices take no NumPy arrays
                self._check_length(position, group, len(argument.views))
                if position in self._assertions:
                    self._elements(position, group, argument.views)
                offset = self._offset(position, group, argument.offset)
                if argument.known_tables(group.memref) is not None and position not in self.program.usage.written:
                    return GroupArgument(argument.views, (), offset, argument, per_byte)
                strides = self._elements(position, group, argument.views)
                return GroupArgument(argument.views, strides, offset, argument, per_byte)
            case list() | tuple():
                self._check_length(position, group, len(argument))
                try:
                    views = self.kind.list_views(argument)
                except NotAnArray:
                    views = self._name_culprit(position, group, argument)
                strides = self._elements(position, group, views)
                return GroupArgument(views, strides, self._offset(position, group, 0), None, per_byte)
            case _ if are_pointers(self.kind, argument):
                if position in self._assertions:
                    raise self.error(TLTypeError, position, f"{parameter} has attributes, which cannot be checked for "
                                     "arrays that the device alone knows", "pass a list of arrays")
                pointers = pointers_argument(self, position, group, argument)
                self._check_length(position, group, pointers.view.shape[0])
                return pointers
            case _:
                hint = "pass a list of arrays or tl_dpnp.group(arrays)"
                raise self.error(TLTypeError, position, f"{parameter} takes a list of arrays or a tl_dpnp.group, it "
                                  f"was given a {type(argument).__name__}", hint)

    def _check_length(self, position: int, group: GroupType, given: int) -> None:
        """Check how many arrays a group has, where its type says so."""
        if group.length not in (None, given):
            raise self.error(TLBindingError, position, f"{self.parameters[position]} takes {group.length} arrays, it "
                             f"was given {given}", "declare it with x ? to take any number")

    def _name_culprit(self, position: int, group: GroupType, arrays: Sequence[Any]) -> tuple[ArrayView, ...]:
        """Bind one element after another, so that the error names the one at fault."""
        name = self.parameters[position]
        return tuple(self._memref(position, group.memref, array, f"{name}[{element}]").view
                     for element, array in enumerate(arrays))

    def _elements(self, position: int, group: GroupType, views: Sequence[ArrayView]) -> tuple[tuple[int, ...], ...]:
        """Check the elements of a group; those that look alike are looked at once."""
        seen: dict[Hashable, tuple[int, ...]] = {}
        result: list[tuple[int, ...]] = []
        for element, view in enumerate(views):
            look = (view.shape, view.strides, view.dtype, view.writable)
            strides = seen.get(look)
            if strides is None:
                strides = self._strides(position, group.memref, view, f"{self.parameters[position]}[{element}]")
                seen[look] = strides
            if position in self._assertions:
                self._check_assertion(position, group.memref, view, strides, f"{self.parameters[position]}[{element}]")
            result.append(strides)
        return tuple(result)

    def _offset(self, position: int, group: GroupType, given: int) -> int:
        """Return the offset in effect: the type's, or where that is dynamic the argument's."""
        per_byte = group.memref.element.per_byte
        if given % per_byte:
            raise self.error(TLBindingError, position, f"the offset {given} of the group for "
                             f"{self.parameters[position]} is inside a byte, which holds {per_byte} elements of "
                             f"{group.memref.element}", f"give a multiple of {per_byte}")
        if group.offset is None:
            return given
        if given not in (0, group.offset):
            raise self.error(
                TLBindingError, position, f"{self.parameters[position]} has the offset {group.offset}, the group that "
                f"was given has {given}", 'declare it with "offset: ?" to take the offset of the argument',
            )
        return group.offset

    def _queue(self, bound: Sequence[Argument]) -> Any:
        """Return the queue that all arrays share, or None if there are none or only NumPy arrays."""
        queues = [view.queue for argument in bound for view in argument.views if view.queue is not None]
        if all(queue is queues[0] for queue in queues):
            return queues[0] if queues else None
        return self.kind.common_queue([
            (f"the array for {parameter}" + (f"[{element}]" if isinstance(argument, GroupArgument) else ""), view.queue)
            for parameter, argument in zip(self.parameters, bound, strict=True)
            for element, view in enumerate(argument.views)
        ])

    # --- scalars ---------------------------------------------------------------------------------------------------

    def scalar(self, position: int, argument: Any) -> Any:
        """Return the value of a scalar argument as a Python number; raises `TLTypeError` or `TLBindingError`."""
        parameter = self.parameters[position]
        scalar_type = parameter.type
        assert isinstance(scalar_type, ScalarType)
        try:
            return scalar_value(scalar_type, argument)
        except TypeError as problem:
            raise self.error(TLTypeError, position, f"{parameter}: {scalar_type} {problem.args[0]}",
                              problem.args[1]) from None
        except OverflowError as problem:
            raise self.error(TLBindingError, position, f"{parameter}: {scalar_type} {problem.args[0]}",
                              problem.args[1]) from None

    def error(self, kind: type[TLError], position: int, message: str, hint: str | None = None) -> TLError:
        """Return an error about one argument, which points at its parameter."""
        return self.program.error(kind, f"argument {position + 1} of @{self.program.name}: {message}", hint,
                                  self.parameters[position].span)
