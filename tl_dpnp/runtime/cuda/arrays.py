"""Arrays on CUDA devices as the runtime sees them, those of CuPy, PyTorch, Numba and others, and current streams.

Sources: Numba documentation, section "CUDA Array Interface (Version 3)"; the packages' own references.  None of the
packages is imported here: while one is not loaded there are no arrays of it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from tl_dpnp.errors import TLBindingError
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.call.arrays import JAX, ArrayKind, ArrayView, DeviceTable, NotAnArray, describe_value
from tl_dpnp.runtime.cuda.dlpack import ImportedArray, comes_by_dlpack
from tl_dpnp.runtime.cuda.lists import ArrayList
from tl_dpnp.runtime.cuda.looks import rows_of
from tl_dpnp.runtime.cuda.torch_adapter import current_stream_function

__all__ = ["CUDA_ARRAYS", "MAP_ALIGNMENT", "CudaDevice", "cuda_device", "is_aligned", "looks_function",
           "stream_function"]

#: Element types that NumPy lacks travel as integers of their size.
_CARRIED = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}
#: Bytes of which addresses and strides must be multiples for tensor maps (CUDA Driver API, cuTensorMapEncodeTiled).
MAP_ALIGNMENT = 16
_INSTEAD = "pass an array of CuPy, PyTorch or Numba on a CUDA device, or one that offers DLPack"


@dataclass(frozen=True)
class CudaDevice:
    """A CUDA device by the driver's number: where arrays are placed."""

    ordinal: int

    def __str__(self) -> str:
        return f"cuda:{self.ordinal}"


@functools.cache
def cuda_device(ordinal: int) -> CudaDevice:
    """Return the one object for a device."""
    return CudaDevice(ordinal)


def view_of(value: object) -> ArrayView:
    """Return the view of an array on a CUDA device; raises `NotAnArray`."""
    view = _view_of(value)
    if view.address % view.dtype.itemsize:
        # Devices refuse such accesses, and complex numbers are accessed as a whole, as by CUDA's own types.
        raise NotAnArray(f"an array of {view.dtype} whose address is no multiple of {view.dtype.itemsize} bytes",
                         "copy it: array.copy()")
    return view


def _view_of(value: object) -> ArrayView:
    library = type(value).__module__.partition(".")[0]
    if library == "torch":
        return _torch_view(value)
    if isinstance(value, ImportedArray):
        return _imported_view(value)
    if _is_imported(type(value)):
        return _imported_view(ImportedArray(value))
    try:
        interface = value.__cuda_array_interface__  # type: ignore[attr-defined]
    except AttributeError:
        raise NotAnArray(*describe_value(value, "cupy.asarray(array)", _INSTEAD)) from None
    if interface.get("mask") is not None:
        raise NotAnArray("an array with a mask, and kernels know no masks", "pass its data without the mask")
    dtype = np.dtype(_CARRIED.get(str(getattr(value, "dtype", "")), interface["typestr"]))
    address, read_only = interface["data"]
    shape = tuple(interface["shape"])
    steps = interface.get("strides") or _c_strides(shape, dtype.itemsize)
    if any(step % dtype.itemsize for step in steps):
        raise NotAnArray("an array whose strides are no multiples of its elements", "copy it: array.copy()")
    strides = tuple(step // dtype.itemsize for step in steps)
    return ArrayView(value, address or 0, shape, strides, dtype, cuda_device(_device_of(value)), not read_only)


def _torch_view(tensor: Any) -> ArrayView:
    if not tensor.is_cuda:
        raise NotAnArray(f"a PyTorch tensor on {tensor.device}", 'copy it to the device: tensor.to("cuda")')
    if tensor.requires_grad:
        raise NotAnArray("a PyTorch tensor that records gradients, which kernels do not", "pass tensor.detach()")
    if tensor.is_neg():
        raise NotAnArray("a PyTorch tensor whose memory has the negative values", "pass tensor.resolve_neg()")
    if tensor.is_conj():
        raise NotAnArray("a PyTorch tensor whose memory has the conjugate numbers", "pass tensor.resolve_conj()")
    name = str(tensor.dtype).rpartition(".")[2]
    dtype = np.dtype(_CARRIED.get(name, name))
    return ArrayView(tensor, tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), dtype,
                     cuda_device(tensor.device.index), True)


def _imported_view(array: ImportedArray) -> ArrayView:
    dtype = np.dtype(_CARRIED.get(array.dtype.name, array.dtype))
    return ArrayView(array, array.address, array.shape, array.strides, dtype, cuda_device(array.ordinal),
                     not array.read_only)


def _c_strides(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    strides: list[int] = []
    step = itemsize
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    return tuple(strides)


def _device_of(array: Any) -> int:
    match type(array).__module__.partition(".")[0]:
        case "cupy":
            return int(array.device.id)
        case "numba":
            return int(array.gpu_data.context.device.id)
    from tl_dpnp.runtime.cuda.driver_adapter import ordinal_of

    return ordinal_of(array.__cuda_array_interface__["data"][0])


def is_aligned(address: int) -> bool:
    """Whether tensor maps take an address."""
    return address % MAP_ALIGNMENT == 0


def _alignment(address: int, size: int) -> tuple[bool, int]:
    """Return what matters of the address of elements of a size: whether tensor maps take it, and what elements do."""
    return is_aligned(address), address % size


class _Access(NamedTuple):
    """Quick ways to what a call depends on, for the arrays of one package.

    `facts` are all but the address, of which only matters whether it is aligned.  Where there is a `stand_in`, which
    makes what stands for an array in a call, they are ways to what that is of the result.
    """

    address: Callable[[Any], int]
    facts: Callable[[Any], Hashable]
    look: Callable[[Any], tuple[Any, ...]]
    stand_in: Callable[[Any], Any] | None = None


def _interface_facts(array: Any) -> Hashable:
    interface = array.__cuda_array_interface__
    (address, read_only), dtype = interface["data"], str(getattr(array, "dtype", ""))
    return (read_only, interface["shape"], interface.get("strides"), interface["typestr"], dtype, _device_of(array),
            interface.get("mask") is None, *_alignment(address or 0, np.dtype(interface["typestr"]).itemsize))


def _interface_address(array: Any) -> int:
    return array.__cuda_array_interface__["data"][0] or 0


def _interface_look(array: Any) -> tuple[Any, ...]:
    interface = array.__cuda_array_interface__
    return interface["data"][0] or 0, interface["shape"], interface.get("strides"), interface["typestr"]


def _torch_facts(tensor: Any) -> Hashable:
    return (tensor.shape, tensor.stride(), tensor.dtype, tensor.get_device(), tensor.requires_grad, tensor.is_neg(),
            tensor.is_conj(), *_alignment(tensor.data_ptr(), tensor.itemsize))


def _torch_look(tensor: Any) -> tuple[Any, ...]:
    return tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.requires_grad, tensor.is_neg()


def _complex_look(tensor: Any) -> tuple[Any, ...]:
    return *_torch_look(tensor), tensor.is_conj()


def _torch_looks(tensors: Sequence[Any]) -> list[Any]:
    # As `_torch_look`, without a call for each: most of the time of a call that was seen before is spent here.
    return [(tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.requires_grad, tensor.is_neg())
            for tensor in tensors]


def _cupy_facts(array: Any) -> Hashable:
    return (array.shape, array.strides, array.dtype.char, array.data.device_id,
            *_alignment(array.data.ptr, array.itemsize))


def _imported_facts(array: ImportedArray) -> Hashable:
    return (array.read_only, array.shape, array.strides, array.dtype, array.ordinal,
            *_alignment(array.address, array.dtype.itemsize))


def _list_of(arrays: Sequence[Any]) -> ArrayList:
    """Return what stands for a list of arrays in a call."""
    rows = rows_of(arrays)
    if rows is not None:
        facts = type(arrays[0]), rows.shape, rows[:, 1:].tobytes()
        return ArrayList(facts, rows[:, 0].copy(), int(rows[0, 1]) >> 32, tuple(arrays))
    held = _arrays_of(arrays)
    device = view_of(held[0]).queue.ordinal if held else 0
    return ArrayList(tuple(map(_facts, held)), np.array([*map(_address_of, held)], np.int64), device, tuple(held))


_LISTED = _Access(attrgetter("address"), attrgetter("facts"), attrgetter("address", "facts"))
_IMPORTED = _Access(attrgetter("address"), _imported_facts, attrgetter("address", "shape", "strides"))
_EXPORTING, _LIST = _IMPORTED._replace(stand_in=ImportedArray), _LISTED._replace(stand_in=_list_of)
_INTERFACE = _Access(_interface_address, _interface_facts, _interface_look)
_ACCESS = {
    "torch": _Access(lambda tensor: tensor.data_ptr(), _torch_facts, _torch_look),
    "cupy": _Access(attrgetter("data.ptr"), _cupy_facts, attrgetter("data.ptr", "shape", "strides")),
}


class _Known(dict[type, _Access]):
    """The access to the arrays of a class, looked up by its package where it is met first.

    Of what has a stand-in in a call, it is that to the stand-in.
    """

    def __missing__(self, kind: type) -> _Access:
        if issubclass(kind, list | tuple):
            way = _LIST
        elif kind is ArrayList:
            way = _LISTED
        else:
            way = _EXPORTING if _is_imported(kind) else _IMPORTED if kind is ImportedArray else _INTERFACE
        self[kind] = _ACCESS.get(kind.__module__.partition(".")[0], way)
        return self[kind]


def _is_imported(kind: type) -> bool:
    """Whether an `ImportedArray` must stand for arrays of a class."""
    return comes_by_dlpack(kind) and not issubclass(kind, np.ndarray)


_known = _Known()


def _address_of(array: Any) -> int:
    """Return the address of the first element."""
    return _known[type(array)].address(array)


def _arrays_of(arguments: Sequence[Any]) -> list[Any]:
    """Return the arguments, with an `ArrayList` for a list and what was exported for this call for arrays of DLPack."""
    try:
        return [argument if (stand_in := _known[type(argument)].stand_in) is None else stand_in(argument)
                for argument in arguments]
    except NotAnArray:
        raise TypeError from None  # binding says which argument it is


def _views_of(arrays: Sequence[Any]) -> tuple[ArrayView, ...]:
    """Return the views of many arrays; what is known of one is known of all that look alike."""
    rows = rows_of(arrays)
    if rows is None:
        return tuple(map(view_of, arrays))
    addresses, facts = rows[:, 0].tolist(), rows[:, 1:]
    if (facts == facts[0]).all():
        _, _, *others = view_of(arrays[0])
        return tuple([ArrayView(array, address, *others) for array, address in zip(arrays, addresses, strict=True)])
    alike: dict[bytes, ArrayView] = {}
    views: list[ArrayView] = []
    for array, address, look in zip(arrays, addresses, map(bytes, facts.copy()), strict=True):
        if look not in alike:
            alike[look] = view_of(array)
        _, _, *others = alike[look]
        views.append(ArrayView(array, address, *others))
    return tuple(views)


def looks_function(arrays: Sequence[Any]) -> Callable[[Sequence[Any]], list[Any]]:
    """Return a function of arrays of these types that gives, for each, what can change in its life.

    That is a tuple of its address, which comes first, its shape, its strides and more.
    """
    ways = [_look_of(array) for array in arrays]
    if all(way is _torch_look for way in ways):
        return _torch_looks
    return lambda others: [way(array) for way, array in zip(ways, others, strict=True)]


def _look_of(array: Any) -> Callable[[Any], tuple[Any, ...]]:
    look = _known[type(array)].look
    return _complex_look if look is _torch_look and array.is_complex() else look


def _facts(array: Any) -> Hashable:
    return _known[type(array)].facts(array)


def _placed_facts(array: Any) -> Hashable:
    where = array.addresses.tobytes() if type(array) is ArrayList else _address_of(array)
    return where, _facts(array)


def _common_device(named: Sequence[tuple[str, Any]]) -> Any | None:
    """Return the device that all of `named` share, None if there is none; raises `TLBindingError`."""
    for name, device in named[1:]:
        if device != named[0][1]:
            raise TLBindingError(f"{named[0][0]} is on {named[0][1]} and {name} on {device}: all arrays of a call must "
                                 "be on one device; copy one to the other's")
    return named[0][1] if named else None


def _upload(values: Any, queue: CudaDevice) -> DeviceTable:
    from tl_dpnp.runtime.cuda import driver_adapter as driver

    host = np.ascontiguousarray(values, dtype=np.int64)
    if host.size == 0:
        return DeviceTable(None, 0)
    memory = driver.Memory(queue.ordinal, host.nbytes)
    memory.write(host)
    return DeviceTable(memory, memory.address)


def stream_function(arrays: Sequence[Any], ordinal: int) -> Callable[[], int]:
    """Return a function that gives the stream to run on: the current one of the package that the arrays are from.

    Arrays of several packages must share it: the function raises `TLBindingError` where their current streams differ.
    """
    functions = {
        library: _STREAMS.get(library, _default_stream)
        for library in dict.fromkeys(map(_package_of, arrays))
    }
    made = [function(ordinal) for function in functions.values()] or [_default_stream(ordinal)]
    if len(made) == 1:
        return made[0]

    def common() -> int:
        streams = [stream() for stream in made]
        if any(stream != streams[0] for stream in streams):
            raise TLBindingError(f"the arrays are from {', '.join(functions)}, whose current streams differ "
                                 f"({', '.join(map(hex, streams))}): make one the current stream of all")
        return streams[0]

    return common


def _package_of(array: Any) -> str:
    return array.package if isinstance(array, ImportedArray) else type(array).__module__.partition(".")[0]


@functools.cache
def _cupy_stream(ordinal: int) -> Callable[[], int]:
    current = sys.modules["cupy"].cuda.get_current_stream
    return lambda: int(current(ordinal).ptr)


@functools.cache
def _default_stream(_ordinal: int) -> Callable[[], int]:
    return lambda: 0


def _words_of(array: Any) -> str:
    """See `ArrayKind.package_of`."""
    package = _package_of(array)
    if package in ("torch", "cupy", "numba"):
        return package
    if package in JAX:
        return "jax"
    return "DLPack" if isinstance(array, ImportedArray) else "interface"


CUDA_ARRAYS = ArrayKind(view_of, _arrays_of, _facts, _placed_facts, _address_of, _common_device, _upload,
                        takes_repeats=True, package_of=_words_of, views_of=_views_of, takes_pointers=True)


_STREAMS = {"torch": current_stream_function, "cupy": _cupy_stream}
