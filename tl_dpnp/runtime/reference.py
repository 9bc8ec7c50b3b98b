"""The reference target: the interpreter, on dpnp and dpctl arrays as well as on NumPy arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tl_dpnp.language.extents import Extents, LaunchSize
from tl_dpnp.language.interpreter import interpret
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.call.arguments import Argument, BoundCall, GroupArgument, MemrefArgument, ScalarArgument
from tl_dpnp.runtime.call.arrays import HOST_ARRAYS, ON_SYCL, ArrayView, dlpack_place
from tl_dpnp.runtime.call.binding import Binding
from tl_dpnp.runtime.call.group import Group
from tl_dpnp.runtime.call.overlap import OverlapWatch
from tl_dpnp.runtime.call.program import Program
from tl_dpnp.runtime.platform_choice import platform_for
from tl_dpnp.runtime.watching import door

__all__ = ["ReferenceTarget"]


@dataclass(frozen=True)
class _HostGroup:
    """A group argument as the interpreter takes it."""

    arrays: tuple[Any, ...]
    offset: int


class ReferenceTarget:
    """Runs a program by interpretation, with the same rules for arguments as the devices have.

    NumPy arrays are used in place.  Arrays on a device are copied to the host, one copy for each allocation, so that
    views of it still share memory; afterwards the allocations that the program writes are copied back.
    """

    def __init__(self, program: Program, debug: bool) -> None:
        self.program = program
        self.debug = debug
        self._overlaps = OverlapWatch(program, debug)
        self._on_host = Binding(program, HOST_ARRAYS, debug=debug)

    @functools.cached_property
    def _on_device(self) -> Binding:
        return Binding(self.program, platform_for("sycl").arrays, debug=self.debug)

    def run(self, arguments: Sequence[Any], group_size: LaunchSize) -> None:
        """Run the program to its end; raises what binding the arguments and `interpret` raise."""
        self.prepared(arguments, group_size)()

    def prepared(self, arguments: Sequence[Any], group_size: LaunchSize) -> Callable[[], None]:
        """Return a function that runs the program with these arguments; raises what binding them raises."""
        on_host = any(map(_is_host, arguments)) and not any(map(_is_device, arguments))
        binding = self._on_host if on_host else self._on_device
        call = binding.bind(arguments, group_size)
        self._overlaps.look(call)
        scalars = {
            position: binding.scalar(position, argument)
            for position, (argument, bound) in enumerate(zip(arguments, call.arguments, strict=True))
            if isinstance(bound, ScalarArgument)
        }
        return functools.partial(self._run, call, scalars, on_host)

    def _run(self, call: BoundCall, scalars: Mapping[int, Any], on_host: bool) -> None:
        mirror = _Mirror(view for argument in call.arguments for view in argument.views)
        host_arguments = [
            scalars[position] if isinstance(bound, ScalarArgument) else _host_argument(bound, mirror)
            for position, bound in enumerate(call.arguments)
        ]
        self.interpret(host_arguments, call.extents)
        if not on_host:
            written = [call.arguments[position] for position in self.program.usage.written]
            mirror.write_back(view for argument in written for view in argument.views)

    def interpret(self, arguments: Sequence[Any], group_size: int | Extents) -> None:
        """Run the program with scalars, and NumPy arrays whose layout the caller answers for."""
        interpret(self.program.function, arguments, group_size, debug=self.debug, source=self.program.text)


door(ReferenceTarget, "interpret", lambda target: (f"@{target.program.name}", "interpreter", {}))


class _Mirror:
    """Host copies of the memory on a device that views of a call lie in.

    Memory objects may overlap, as those of arrays that other packages share with dpctl do: such are one copy.
    """

    def __init__(self, views: Iterable[ArrayView]) -> None:
        on_device = [view for view in views if view.queue is not None]
        for queue in {view.queue for view in on_device}:
            _wait_for(queue)  # what dpnp computes there may not be complete
        memories = {self._key(view): _allocation_of(view.array)[0] for view in on_device}
        self._copies: dict[tuple[int, int], np.ndarray[Any, Any]] = {}
        self._memories = memories
        together: list[tuple[int, int]] = []
        for key in sorted(memories):
            if together and key[0] >= max(map(sum, together)):
                self._copy(together)
                together = []
            together.append(key)
        if together:
            self._copy(together)

    def _copy(self, keys: Sequence[tuple[int, int]]) -> None:
        """Copy memory objects that overlap, by their keys in order."""
        first = keys[0][0]
        whole = np.empty(max(map(sum, keys)) - first, np.uint8)
        for start, size in keys:
            part = self._copies[start, size] = whole[start - first : start - first + size]
            part[:] = self._memories[start, size].copy_to_host()

    def array(self, view: ArrayView) -> np.ndarray[Any, Any]:
        """Return the host's array for a view, NumPy arrays as they are."""
        if view.queue is None:
            return view.array  # type: ignore[no-any-return]
        _, offset = _allocation_of(view.array)
        strides = tuple(stride * view.dtype.itemsize for stride in view.strides)
        if 0 in view.shape:
            return np.empty(view.shape, view.dtype, order="F")
        return np.ndarray(view.shape, view.dtype, self._copies[self._key(view)], offset, strides)

    def write_back(self, views: Iterable[ArrayView]) -> None:
        """Copy the memory of `views` back whole: the offset of a group writes outside its arrays."""
        for key in dict.fromkeys(map(self._key, views)):
            self._memories[key].copy_from_host(self._copies[key])

    @staticmethod
    def _key(view: ArrayView) -> tuple[int, int]:
        """Return what identifies the memory of a view: its address and size."""
        memory, offset = _allocation_of(view.array)
        return view.address - offset, memory.nbytes


def _allocation_of(array: Any) -> tuple[Any, int]:
    from tl_dpnp.runtime.sycl.dpctl_adapter import allocation_of  # which NumPy arrays do without

    return allocation_of(array)


def _wait_for(queue: Any) -> None:
    from tl_dpnp.runtime.sycl.dpctl_adapter import wait_for

    wait_for(queue)


def _host_argument(argument: Argument, mirror: _Mirror) -> Any:
    if isinstance(argument, MemrefArgument):
        return _fitted(mirror.array(argument.view), argument.strides, argument.per_byte)
    assert isinstance(argument, GroupArgument)
    arrays = [mirror.array(view) for view in argument.views]
    if argument.strides:
        arrays = [_fitted(array, strides, argument.per_byte)
                  for array, strides in zip(arrays, argument.strides, strict=True)]
    return _HostGroup(tuple(arrays), argument.offset)


def _fitted(array: np.ndarray[Any, Any], strides: Sequence[int], per_byte: int) -> np.ndarray[Any, Any]:
    """Return an array with the strides that a kernel uses, which differ where those of the array mean nothing."""
    return array if per_byte > 1 else as_strided(array, array.shape, [stride * array.itemsize for stride in strides])


def _is_host(argument: Any) -> bool:
    if isinstance(argument, list | tuple):
        return any(map(_is_host, argument))
    return isinstance(argument, np.ndarray) or (isinstance(argument, Group) and argument.kind is HOST_ARRAYS)


def _is_device(argument: Any) -> bool:
    if isinstance(argument, list | tuple):
        return any(map(_is_device, argument))
    if isinstance(argument, Group):
        return argument.kind is not HOST_ARRAYS
    return hasattr(argument, "__sycl_usm_array_interface__") or dlpack_place(argument) == ON_SYCL
