"""Calls that differ in the size of their batch alone, which is how many work-groups they have.

What is made for one of them is right for all: the size of a batch is a number among the kernel's arguments, and nothing
else depends on it but the number of work-groups and how much memory the arrays take.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from tl_dpnp.language.types import MemrefType
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.call.arguments import BoundCall, MemrefArgument
from tl_dpnp.runtime.call.binding import Binding
from tl_dpnp.runtime.call.flattening import FlatArguments
from tl_dpnp.runtime.call.overlap import has_address
from tl_dpnp.runtime.call.relations import Extent, Relation

__all__ = ["Batch", "Bounds", "batch_of"]

#: Arrays of fewer have other strides: those of an axis of size 1, or of an array without elements, mean nothing.
_LEAST = 2
#: What follows the arguments of the parameters: work-groups, chunk, and what the arrays exceed.
_NUMBERS_OF_A_LAUNCH = 3


@dataclass(frozen=True)
class Bounds:
    """What limits the batches of calls that one launch is for.

    The arrays, which take `used` bytes in the launch, take more than `above` and at most `up_to`; there are `least` to
    `most` work-groups.
    """

    used: int
    above: int
    up_to: int
    least: int
    most: int


@dataclass(frozen=True)
class Batch:
    """The batch of a launch.

    It has the `size`; calls like this one have `least` to `most`.  The last mode of the memrefs at the positions in
    `arrays` is the batch, along which their elements are so many bytes apart, and `places` are those of its size among
    the kernel's arguments.  Each work-group of the language is `parts` of the device.  Calls with the same `likeness`
    differ in the size alone.
    """

    size: int
    least: int
    most: int
    arrays: Mapping[int, int]
    places: tuple[int, ...]
    parts: int
    likeness: Hashable


def batch_of(binding: Binding, call: BoundCall, flat: FlatArguments, parts: int, bounds: Bounds) -> Batch | None:
    """Return the batch of a checked call, None where another number of work-groups may make more of a difference.

    `flat` are its arguments as the kernel takes them.
    """
    modes = _batch_modes(binding, call)
    if not modes or not all(_stays_valid(relation, modes) for relation in binding.program.usage.relations):
        return None
    size, arguments = call.groups, [call.arguments[position] for position in modes]
    step = sum(argument.views[0].nbytes // size for argument in arguments)
    least = max(_LEAST, bounds.least, size - (bounds.used - bounds.above - 1) // step)
    most = min(bounds.most, size + (bounds.up_to - bounds.used) // step)
    if not least <= size <= most:
        return None
    places = _places(binding, call, flat, modes)
    values = [None if value is None or place in places else value.value
              for place, value in enumerate(flat.values[:-_NUMBERS_OF_A_LAUNCH])]
    layouts = [(view.shape[:-1] if position in modes else view.shape, view.strides)
               for position, argument in enumerate(call.arguments) if isinstance(argument, MemrefArgument)
               for view in argument.views]
    steps = {position: view.strides[-1] * view.dtype.itemsize
             for position, argument in zip(modes, arguments, strict=True) for view in argument.views}
    return Batch(size, least, most, steps, tuple(places), parts, (least, most, *values, *layouts))


def _batch_modes(binding: Binding, call: BoundCall) -> Mapping[int, int]:
    """Return the modes that are the batch, by the positions of their memrefs; none where it may not be another one."""
    program = binding.program
    if not call.is_inferred or call.groups < _LEAST:
        return {}
    asserted = {each.parameter: len(each.shape_gcd) for each in program.interface.assertions}
    modes: dict[int, int] = {}
    for batch in program.usage.batch_modes:
        position, mode = batch.parameter, batch.mode
        parameter, argument = program.parameters[position], call.arguments[position]
        if mode is None or not isinstance(parameter.type, MemrefType) or not isinstance(argument, MemrefArgument):
            return {}
        is_last = mode == parameter.type.order - 1  # on whose size no stride depends
        sizes = {argument.shape[mode], argument.view.shape[mode]}  # not the same where elements share a byte
        if (
            not is_last or parameter.type.shape[mode] is not None or (position, mode) in program.usage.open_modes
            or asserted.get(parameter.name, 0) > mode or 0 in argument.shape or sizes != {call.groups}
        ):
            return {}
        modes[position] = mode
    return modes


def _stays_valid(relation: Relation, modes: Mapping[int, int]) -> bool:
    """Return whether two sizes that must be equal are so with any size of the batch, as they are with one."""
    def depends(size: Extent | int) -> bool:
        return isinstance(size, Extent) and (isinstance(size.element, str) or modes.get(size.parameter) == size.mode)

    return depends(relation.first) == depends(relation.second)


def _places(binding: Binding, call: BoundCall, flat: FlatArguments, modes: Mapping[int, int]) -> Sequence[int]:
    """Return where the size of the batch is among the kernel's arguments (`tl_dpnp.lowering.plan`)."""
    held = [position for position, argument in enumerate(call.arguments) if has_address(argument)]
    found = []
    for place, position in zip(flat.addresses, held, strict=True):
        if position in modes:
            type_ = binding.parameters[position].type
            assert isinstance(type_, MemrefType)
            found.append(place + 1 + type_.shape[: modes[position]].count(None))
    return found
