"""CuPy, as `tl_dpnp.runtime.array_package` has packages of arrays.

Tested with CuPy 14.2.  Private is ``cupyx._ufunc_config._config``, where `cupyx.errstate` keeps its settings, and that
``cupy.ndarray`` has a base class whose ``__new__`` makes an array without memory.  An array is its own content.
Results come from CuPy's pool, and kernels run on its current stream.  They are chosen for addresses that are multiples
of 16 bytes (`cuda.arrays.MAP_ALIGNMENT`): an array that begins elsewhere is taken for a part of one that begins at the
multiple before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from math import prod
from operator import attrgetter
from typing import Any

import cupy as xp
import numpy as np

from tl_dpnp import config
from tl_dpnp.errors import LayoutError
from tl_dpnp.lowering.device import H200
from tl_dpnp.runtime.cuda.arrays import MAP_ALIGNMENT, CudaDevice, cuda_device
from tl_dpnp.runtime.kernel import Kernel
from tl_dpnp.runtime.platforms import Launch
from tl_dpnp.runtime.preparation import InterpretedLaunch, Shape, prepare_launch
from tl_dpnp.target.targets import TARGETS, TargetName

__all__ = [
    "BARE_ARRAY", "CALLS_BEFORE", "CONTENT_SLOT", "Content", "DEVICE_TYPES", "LAST_FACT", "LAZY_BASE", "POOL",
    "REVERSES_FLOOR_DIVISION", "RUNS_IN_WARPS", "SETTLES_IN_PLACE", "TARGET", "WHERE", "address_of", "array_around",
    "array_facts", "base_of_addresses", "become_plain", "common_kind", "content_of", "contents_of", "describe",
    "element_strides_of", "first_element", "is_writable", "looks_function", "maker", "new_like", "ones", "prepare",
    "quick_maker", "singular_setting", "strides_are_bytes", "viewed", "xp",
]

_interpreted: bool = TARGETS[config.get("TARGET")].is_interpreted
#: The setting may ask for the interpreter, on arrays of a stand-in for CuPy that are in the memory of the host.
TARGET: TargetName = "reference" if _interpreted else "cuda"
WHERE: tuple[str, ...] = ()
DEVICE_TYPES: tuple[type, ...] = ()
REVERSES_FLOOR_DIVISION = False
RUNS_IN_WARPS = True
POOL = None
_KIND = "device"

# --- arrays ----------------------------------------------------------------------------------------------------------

Content: Any = xp.ndarray
LAST_FACT = "elements behind an aligned address"
address_of = attrgetter("data.ptr")
_look = attrgetter("shape", "strides", "dtype", "data.device_id", "data.ptr")


def content_of(array: Any) -> Any:
    """Return the array, which is its own content."""
    return array


array_around = content_of
contents_of = list


def array_facts(array: Any) -> tuple[Any, ...]:
    """Return what plans depend on of an array; raises `LayoutError` for elements between multiples of their size."""
    shape, strides, dtype, device, address = _look(array)
    size = dtype.itemsize
    if address % min(size, MAP_ALIGNMENT) or any(stride % size for stride in strides):
        raise LayoutError(f"the elements of an array of {dtype} begin at no multiples of its {size} bytes: "
                          "copy it, array.copy()")
    first = address % MAP_ALIGNMENT // size
    return shape, tuple([stride // size for stride in strides]), dtype.num, _KIND, cuda_device(device), first


def first_element(facts: tuple[Any, ...]) -> int:
    """Return how many elements an array begins behind an aligned address."""
    return facts[5]  # type: ignore[no-any-return]


def base_of_addresses(array: Any) -> int:
    """Return the aligned address at which an array begins, or behind which it does."""
    address: int = array.data.ptr
    return address - address % MAP_ALIGNMENT


def element_strides_of(array: Any) -> tuple[int, ...]:
    """Return the strides of an array in elements."""
    size = array.itemsize
    return tuple([stride // size for stride in array.strides])


def is_writable(array: Any) -> bool:
    """Return True: CuPy has no arrays that are read-only."""
    return True


def viewed(array: Any, shape: Sequence[int], dtype: Any, strides: Sequence[int] | None = None, offset: int = 0) -> Any:
    """Return a view of an array; strides, and the offset from the address before it, are in elements of the dtype."""
    if not prod(shape):
        return xp.ndarray(shape, dtype, array.data)
    place = array.data + (base_of_addresses(array) + offset * dtype.itemsize - array.data.ptr)
    return xp.ndarray(shape, dtype, place, None if strides is None else tuple(
        [stride * dtype.itemsize for stride in strides]))


# --- new arrays ------------------------------------------------------------------------------------------------------


def _on(queue: CudaDevice, make: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function of CuPy's gives on a device."""
    if xp.cuda.device.get_device_id() == queue.ordinal:
        return make(*arguments)
    with xp.cuda.Device(queue.ordinal):
        return make(*arguments)


def maker(shape: tuple[int, ...], dtype: Any, kind: str) -> Callable[[CudaDevice], Any]:
    """Return what makes an array in C order on a device, by CuPy's allocator."""
    return lambda queue: _on(queue, xp.ndarray, shape, dtype)


def ones(shape: Any, dtype: Any, queue: CudaDevice) -> Any:
    """Return an array of ones."""
    return _on(queue, xp.ones, shape, dtype)


def new_like(dtype: Any, kind: Any = _KIND, queue: Any = None) -> tuple[Any, str, Any]:
    """Return the dtype, kind of memory and device of a new array."""
    return np.dtype(float if dtype is None else dtype), _KIND, queue or cuda_device(xp.cuda.device.get_device_id())


def common_kind(kinds: Iterable[str]) -> str:
    """Return the one kind of memory."""
    return _KIND


def singular_setting() -> tuple[Any, str, Any] | None:
    """Return where ``cupyx.errstate(linalg=...)`` is kept in this thread; a stand-in for CuPy has none."""
    try:
        from cupyx import _ufunc_config
    except ModuleNotFoundError:
        return None
    _ufunc_config.get_config_linalg()  # which sets it
    return _ufunc_config._config, "linalg", "ignore"


# --- lazy arrays -----------------------------------------------------------------------------------------------------


class _Posing:
    """What is an array of CuPy's to whoever asks for its class, and has all that these have by its `_array_obj`.

    It is none in C, where CuPy reads fields that only computed arrays have: code there is given the content by
    ``__cupy_get_ndarray__`` or ``__cuda_array_interface__``, or refuses it with a `TypeError`.
    """

    _array_obj: Any
    __class__ = property(lambda self: xp.ndarray)
    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = getattr(xp.ndarray, "__array_priority__", 0)

    def __cupy_get_ndarray__(self) -> Any:
        return self._array_obj


class _Settled(_Posing):
    """What was a lazy array, where something holds it that no array could be put into: all it does, its array does."""


def _forwarding(name: str) -> Any:
    """Return a method, or an attribute, that is that of the content."""
    if callable(getattr(xp.ndarray, name)):
        def method(self: _Posing, *arguments: Any, **keywords: Any) -> Any:
            return getattr(self._array_obj, name)(*arguments, **keywords)

        method.__name__ = name
        return method
    return property(lambda self: getattr(self._array_obj, name),
                    lambda self, value: setattr(self._array_obj, name, value))


#: What Python needs of an object itself.
_OF_OBJECTS = frozenset(
    "__class__ __new__ __init__ __init_subclass__ __subclasshook__ __class_getitem__ __getattribute__ __setattr__ "
    "__delattr__ __dict__ __doc__ __module__ __slots__ __weakref__ __dir__ __hash__ __getstate__ __sizeof__ "
    "__array_finalize__ __pyx_vtable__ __array_priority__".split())
for _name in dir(xp.ndarray):
    if _name not in _OF_OBJECTS and (_name.startswith("__") or not _name.startswith("_")):
        setattr(_Posing, _name, _forwarding(_name))

LAZY_BASE: Any = _Posing
SETTLES_IN_PLACE = False
CONTENT_SLOT = None
#: CuPy makes none without memory: this one has no shape, dtype or data.
BARE_ARRAY = xp.ndarray.__mro__[-2].__new__(xp.ndarray)
_class_of_objects: Any = object.__dict__["__class__"]


def become_plain(array: Any, content: Any, names: Iterable[str]) -> None:
    """Have a lazy array that has ended do what its array does."""
    array.__dict__.clear()
    _class_of_objects.__set__(array, _Settled)
    array._array_obj = content


def strides_are_bytes() -> bool:
    """Return True: arrays have their strides in bytes."""
    return True


# --- kernels ---------------------------------------------------------------------------------------------------------


@functools.cache
def describe(queue: CudaDevice) -> Any:
    """Return the description of a device; for the interpreter that of an H200."""
    if _interpreted:
        return H200
    from tl_dpnp.runtime.cuda.platform import describe as describe_device

    return describe_device(queue.ordinal)


def prepare(kernel: Kernel, shapes: Sequence[Shape | None], groups: int, queue: CudaDevice) -> Launch:
    """Return a launch on CuPy's current stream of a device; see `prepare_launch`."""
    if _interpreted:
        return InterpretedLaunch(kernel, shapes, groups)
    return prepare_launch(kernel, shapes, groups, queue, _on(queue, xp.empty, 0))


def direct_call(launch: Any, arguments: tuple[Any, ...]) -> Callable[[tuple[Any, ...]], bool] | None:
    """Return what launches a kernel with arguments like these, by machine code."""
    if not _interpreted:
        found: Callable[[tuple[Any, ...]], bool] | None = (
            launch.direct_call(launch.binding, arguments) if launch.is_direct else None)
        return found
    looks = looks_function(arguments, None)
    arrays = [place for place, value in enumerate(arguments) if type(value) is xp.ndarray]

    def interpreted(others: tuple[Any, ...]) -> bool:
        if looks(others):
            launch.run(others[: arrays[0]], [base_of_addresses(others[place]) for place in arrays])
            return True
        return False

    return interpreted


def quick_maker(shape: tuple[int, ...], dtype: Any) -> Callable[[], Any]:
    """Return what makes an array on the current device; machine code finds out whether that is the one of a launch."""
    return functools.partial(xp.ndarray, shape, dtype)


CALLS_BEFORE = 2


def looks_function(values: Sequence[Any], queue: Any) -> Callable[[Sequence[Any]], bool]:
    """Return a function that says whether arrays, none of them twice, and numbers look like these."""
    kinds = [*map(type, values)]
    arrays = [place for place, value in enumerate(values) if type(value) is xp.ndarray]
    facts = [(place, _facts_of_call(values[place])) for place in arrays]

    def looks(others: Sequence[Any]) -> bool:
        return (len(others) == len(kinds) and [*map(type, others)] == kinds
                and all(_facts_of_call(others[place]) == known for place, known in facts)
                and (len(arrays) < 2 or len({id(others[place]) for place in arrays}) == len(arrays)))

    return looks


def _facts_of_call(array: Any) -> tuple[Any, ...]:
    shape, strides, dtype, device, address = _look(array)
    return shape, strides, dtype.num, device, address % MAP_ALIGNMENT
