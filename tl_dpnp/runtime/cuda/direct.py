"""Calls whose arguments machine code checks: those with arrays of PyTorch or CuPy.

Arrays are looked at by DLPack's C functions, or where a package has none, by their attributes (`exchange`).  Nothing is
remembered of the arrays themselves, so that other arrays of the same form cost no more.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tl_dpnp.language.types import GroupType
from tl_dpnp.runtime.call.binding import Binding
from tl_dpnp.runtime.call.flattening import FlatArguments
from tl_dpnp.runtime.cuda.arrays import is_aligned
from tl_dpnp.runtime.cuda.direct_code import CudaEmitter, CudaParameter, CudaRecord
from tl_dpnp.runtime.cuda.exchange import Exchange, Tensor, exchange_of, interned
from tl_dpnp.runtime.native_calls import ARRAY, OBJECT, describe_group, describe_scalar, native_function
from tl_dpnp.scalars import ScalarType

__all__ = ["DirectCalls", "LaunchFacts", "direct_call"]

_CUDA = 2  # kDLCUDA
_RAN_ONCE = object()


class LaunchFacts(NamedTuple):
    """What a launch is besides its arguments, as the driver takes it; `keep` is what must live as long.

    `function` and `context` are handles, `context_of` and `launch` the addresses of ``cuCtxGetCurrent`` and
    ``cuLaunchKernel``; `stream` gives the current stream where the arrays' package has no C function for that.
    """

    ordinal: int
    grid: int
    block: tuple[int, int, int]
    local_memory: int
    function: int
    context: int
    context_of: int
    launch: int
    stream: Callable[[], int]
    keep: Any


class DirectCalls:
    """The functions for the launches that a kernel repeated last.

    A function is made when a launch is run for the second time: the first one of a process takes 50 ms.
    """

    MOST_FUNCTIONS = 4

    def __init__(self) -> None:
        #: Each returns False for arguments of another form.
        self.functions: tuple[Callable[[tuple[Any, ...]], bool], ...] = ()
        #: The function of each launch that was run, None where there can be none, `_RAN_ONCE` until it is made.
        self._made: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    def notice(self, binding: Binding, launch: Any, arguments: Sequence[Any], looks: tuple[Any, ...]) -> None:
        """Note that a launch, a `cuda.platform.CudaLaunch`, was run with `arguments`, for a call with `looks`, which no
        function took."""
        if not launch.is_direct:
            return
        if launch not in self._made:
            self._made[launch] = _RAN_ONCE
            return
        if self._made[launch] is _RAN_ONCE:
            self._made[launch] = launch.direct_call(binding, looks)
        made = self._made[launch]
        if made is not None and made not in self.functions:
            self.functions = (made, *self.functions[: self.MOST_FUNCTIONS - 1])

    def clear(self) -> None:
        """Forget all functions."""
        self.functions = ()
        self._made.clear()


def direct_call(
    binding: Binding, flat: FlatArguments, facts: LaunchFacts, arguments: Sequence[Any], others: set[type]
) -> Callable[[tuple[Any, ...]], bool] | None:
    """Return a function of the arguments of a call that launches it where they are like these, else returns False.

    `flat` are the arguments of the launch, with the tables of groups, whose arrays are of the classes `others`.
    Returns None where there is an argument that machine code does not check.
    """
    classes: set[Any] = {
        type(argument) for position, argument in enumerate(arguments) if binding.is_array(position, argument)
    }
    classes |= others
    exchanges = {exchange_of(kind) for kind in classes}
    exchange = exchanges.pop() if len(exchanges) == 1 else None
    if exchange is None:
        return None
    places = iter(flat.addresses)
    scalars = {scalar.position: scalar.place for scalar in flat.scalars}
    device = facts.ordinal << 32 | _CUDA
    keep: list[Any] = []
    parameters = (CudaParameter * len(arguments))()
    for position, (argument, parameter) in enumerate(zip(arguments, binding.parameters, strict=True)):
        entry = parameters[position]
        entry.type = id(type(argument))
        match parameter.type:
            case _ if binding.is_array(position, argument):
                entry.place = next(places)
                describe = _describe_array if exchange.tensor_of else _describe_object
                known = describe(entry, argument, exchange, device, keep)
            case GroupType():
                known = describe_group(entry, argument)
            case scalar_type:
                assert isinstance(scalar_type, ScalarType)
                entry.place = scalars[position]
                known = describe_scalar(entry, scalar_type, type(argument))
        if not known:
            return None
    values = (ctypes.c_int64 * len(flat.values))()
    for place, value in enumerate(flat.values):
        if value is not None:
            ctypes.memmove(ctypes.addressof(values) + 8 * place, ctypes.addressof(value), ctypes.sizeof(value))
    names = (ctypes.c_int64 * len(exchange.compared + exchange.memory))(
        *(interned(name, keep) for name in exchange.compared + exchange.memory))
    false = [interned(name, keep) for name in exchange.false]
    record = CudaRecord(
        ctypes.addressof(parameters), len(arguments), ctypes.addressof(values), len(values), device,
        exchange.tensor_of, exchange.stream_of, *false, facts.context_of, facts.launch, facts.context,
        facts.function, facts.grid, *facts.block, facts.local_memory, id(facts.stream), ctypes.addressof(names),
    )
    return native_function(CudaEmitter, record, (parameters, values, names, keep, flat.tables, facts))


def _describe_array(entry: CudaParameter, array: Any, exchange: Exchange, device: int, keep: list[Any]) -> bool:
    """Write what an array looks like; returns False for one that is not on the device."""
    tensor = Tensor()
    look = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(exchange.tensor_of)
    try:
        look(array, ctypes.addressof(tensor))
    except BufferError:  # the package says that DLPack cannot describe the array
        return False
    if tensor.device != device or (array.ndim and not tensor.strides):
        return False
    modes = array.ndim
    dims = (ctypes.c_int64 * (2 * modes))()
    for number, start in enumerate((tensor.sizes, tensor.strides)):
        dims[number * modes : (number + 1) * modes] = (ctypes.c_int64 * modes).from_address(start)[:] if modes else ()
    keep.append(dims)
    entry.kind, entry.form, entry.dims, entry.modes = ARRAY, tensor.form, ctypes.addressof(dims), modes
    entry.aligned = is_aligned(tensor.data + tensor.offset)
    return True


def _describe_object(entry: CudaParameter, array: Any, exchange: Exchange, device: int, keep: list[Any]) -> bool:
    """Write which attributes an array has; returns False for one that is not on the device."""
    memory, place, address = exchange.memory
    if getattr(getattr(array, memory), place) != device >> 32:
        return False
    values = [getattr(array, name) for name in exchange.compared]
    dims = (ctypes.c_int64 * len(values))(*map(id, values))
    keep += [values, dims]
    entry.kind, entry.dims, entry.modes = OBJECT, ctypes.addressof(dims), len(values)
    entry.form = array.dtype.itemsize
    entry.aligned = is_aligned(getattr(getattr(array, memory), address))
    return True
