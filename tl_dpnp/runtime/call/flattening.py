"""Checked arguments as the kernel takes them: a list of 64-bit integers and floats.

The order is that of the calling convention in `tl_dpnp.lowering.plan`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tl_dpnp.language.types import GroupType, MemrefType
from tl_dpnp.runtime.call.arguments import BoundCall, GroupArgument, MemrefArgument, PointersArgument
from tl_dpnp.runtime.call.arrays import ArrayKind
from tl_dpnp.runtime.call.binding import Binding
from tl_dpnp.runtime.call.group import GroupTables
from tl_dpnp.runtime.call.scalar_arguments import carrier_of, usual_values
from tl_dpnp.scalars import ScalarType

__all__ = ["FlatArguments", "Int64", "Scalar", "flatten"]

Int64 = ctypes.c_longlong


class Scalar(NamedTuple):
    """A scalar among the flattened arguments: its place there, its parameter's position and type, its conversion.

    A complex one is two of them, one for each part.
    """

    place: int
    position: int
    type: ScalarType
    convert: Callable[[Any], Any]


class FlatArguments(NamedTuple):
    """The arguments as ctypes values, and what differs from call to call: the addresses of arrays and the scalars.

    Their places are left open.  The tables of the groups must live until the kernel has run.  `measured` is that of
    the plan.
    """

    values: list[Any]
    addresses: tuple[int, ...]
    scalars: tuple[Scalar, ...]
    tables: tuple[GroupTables, ...]
    measured: tuple[int, ...] = ()

    def filled(self, arguments: Sequence[Any], addresses: Sequence[int]) -> list[Any]:
        """Return the values with the open places filled."""
        values = self.values.copy()
        for place, address in zip(self.addresses, addresses, strict=True):
            values[place] = Int64(address)
        for place, position, _, convert in self.scalars:
            values[place] = convert(arguments[position])
        return values


def flatten(binding: Binding, call: BoundCall, queue: Any, measured: tuple[int, ...] = ()) -> FlatArguments:
    """Flatten the arguments of `call`, uploading the tables of groups to `queue`; `measured` is that of the plan."""
    flat: list[Any] = []
    addresses: list[int] = []
    scalars: list[Scalar] = []
    tables: list[GroupTables] = []
    for position, (parameter, argument) in enumerate(zip(binding.parameters, call.arguments, strict=True)):
        match parameter.type, argument:
            case MemrefType() as memref, MemrefArgument(shape=shape, strides=strides):
                addresses.append(len(flat))
                flat.append(None)
                flat += [Int64(size) for declared, size in zip(memref.shape, shape, strict=True)
                         if declared is None]
                flat += [Int64(stride) for declared, stride in zip(memref.strides, strides, strict=True)
                         if declared is None]
            case GroupType() as group, PointersArgument():
                addresses.append(len(flat))
                flat.append(None)
                if group.offset is None:
                    flat.append(Int64(0))
            case GroupType() as group, GroupArgument() as elements:
                table = _tables(group.memref, elements, binding.kind, queue)
                tables.append(table)
                if table.addresses is None:
                    addresses.append(len(flat))
                    flat.append(None)
                else:
                    flat.append(Int64(table.addresses.address))
                if group.offset is None:
                    flat.append(Int64(elements.offset))
                if table.dope is not None:
                    flat.append(Int64(table.dope.address))
            case scalar_type, _:
                assert isinstance(scalar_type, ScalarType)
                for convert in _converters(binding, position):
                    scalars.append(Scalar(len(flat), position, scalar_type, convert))
                    flat.append(None)
        if position in measured:
            assert isinstance(argument, GroupArgument | PointersArgument)
            flat.append(Int64(len(argument.shape)))
    return FlatArguments(flat, tuple(addresses), tuple(scalars), tuple(tables), measured)


def _tables(memref: MemrefType, elements: GroupArgument, kind: ArrayKind, queue: Any) -> GroupTables:
    if elements.handle is None or not elements.views:
        return GroupTables(memref, elements.views, elements.strides, kind, queue, not elements.is_listed)
    return elements.handle.known_tables(memref) or elements.handle.make_tables(memref, elements.strides)


def _converters(binding: Binding, position: int) -> list[Callable[[Any], Any]]:
    """Return the functions from a scalar argument to the ctypes values that the kernel takes: two for a complex one."""
    scalar_type = binding.parameters[position].type
    assert isinstance(scalar_type, ScalarType)
    carrier = carrier_of(scalar_type)
    if scalar_type.is_complex:
        return [lambda value: carrier(binding.scalar(position, value).real),
                lambda value: carrier(binding.scalar(position, value).imag)]
    usual, lowest, highest = usual_values(scalar_type)

    def convert(value: Any) -> Any:
        # Most calls pass the very type; the comparison is false for NaN, which goes the thorough way.
        if type(value) is usual and lowest <= value <= highest:
            return carrier(value)
        return carrier(binding.scalar(position, value))

    return [convert]
