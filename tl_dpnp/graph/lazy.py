"""Arrays that stand for values which have not been computed yet.

A lazy array is a `dpnp.ndarray` to everything that looks at it.  Its shape, dtype, queue and USM type are known;
operations on it are recorded.  Code that reaches for the data gets it: ``_array_obj``, through which dpnp reads every
array, computes the value and reports a break.  When its trace ends, a lazy array becomes an ordinary one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tl_dpnp.graph.breaks import reader
from tl_dpnp.graph.extents import base_of
from tl_dpnp.graph.nodes import Array, Node
from tl_dpnp.graph.partition import substitute
from tl_dpnp.graph.views import c_strides
from tl_dpnp.runtime.array_package import (
    LAZY_BASE,
    NAME,
    array_around,
    array_facts,
    become_plain,
    content_of,
    content_slot,
    element_strides_of,
    strides_are_bytes,
    xp,
)

__all__ = ["LazyArray", "element_strides", "memory_of", "queue_of", "shape_of"]

#: Lazy arrays have none of their own, so that they can become plain ones; mypy is not to look for attributes in there.
_NO_SLOTS: tuple[str, ...] = ()
#: Where arrays of dpnp have their data, if they have no room for attributes.
_slot = content_slot


class _Known:
    """What a lazy array knows; `_target` is where it is to be written."""

    __slots__ = ("_node", "_queue", "_storage", "_target", "_trace", "_usm_type")


class LazyArray(LAZY_BASE):  # type: ignore[misc]  # arrays have no types
    """A `dpnp.ndarray` whose value may still have to be computed.

    What is known of it is in attributes, or in the place of the data where dpnp's arrays have no room for others.
    """

    __slots__ = _NO_SLOTS
    #: NumPy arrays and scalars leave operators to this class, and do not make arrays of objects.
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, trace: Any, node: Node, usm_type: str, queue: Any, storage: object) -> None:
        """Make the array of a node; arrays that share memory have the same `storage`, an object that stands for it."""
        if _slot is not None:
            _slot.__set__(self, _Known())
        self._trace = trace
        self._node = node
        self._usm_type = usm_type
        self._queue = queue
        self._storage = storage

    def settle(self, usm: Any) -> None:
        """Become a plain `dpnp.ndarray` of a `usm_ndarray`."""
        become_plain(self, usm, _Known.__slots__)

    @property
    def _array_obj(self) -> Any:
        trace = self._trace
        trace.note("data of an array", f"{reader() or 'something'} reads it, in code that is not followed", again=True)
        return trace.escape(self)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        self._trace.sizes_are_read = True
        return self._node.shape

    @shape.setter
    def shape(self, shape: Any) -> None:
        trace = self._trace
        trace.note("shape of an array", "it is set in place", "use reshape", again=True)
        content = trace.escape(self)
        trace.renew_register(content)  # other arrays on the same memory keep their shape
        array_around(content).shape = shape
        trace.registers.append(content)
        self._node = trace.register(len(trace.registers) - 1)._node

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._node.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of the elements."""
        return self._node.dtype

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize

    @property
    def usm_type(self) -> str:
        """Kind of memory."""
        return self._usm_type

    @property
    def sycl_queue(self) -> Any:
        """Queue that the array is allocated on."""
        return self._queue

    @property
    def sycl_device(self) -> Any:
        """Device of the queue."""
        return self.sycl_queue.sycl_device

    @property
    def sycl_context(self) -> Any:
        """Context of the queue."""
        return self.sycl_queue.sycl_context

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides as they will be, in what dpnp has them in: elements, or bytes."""
        self._trace.sizes_are_read = True
        strides = element_strides(self)
        return tuple(stride * self.itemsize for stride in strides) if strides_are_bytes() else strides

    def _axis_size(self, axis: int) -> int:
        """Return the size of one axis."""
        shape = self._node.shape
        self._trace.axes_read.append((self._node, range(len(shape))[axis] if -len(shape) <= axis < len(shape) else 0))
        return shape[axis]

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return self._axis_size(0)

    def __iter__(self) -> Any:
        if not self.shape:  # dpnp 0.15 takes it for empty
            return iter(array_around(self._trace.escape(self)))
        return (self[index] for index in range(self.shape[0]))

    @property
    def flat(self) -> Any:
        """Iterator over the elements in memory."""
        trace = self._trace
        trace.note("flat of an array", "it reads and writes memory", "use reshape(-1)", again=True)
        return trace.given_away(self).flat

    @flat.setter
    def flat(self, value: Any) -> None:
        self.flat[:] = value

    @property
    def T(self) -> Any:  # noqa: N802
        """View of the transposed array."""
        return self.transpose()


def shape_of(array: Any) -> tuple[int, ...]:
    """Return the shape of an array, lazy or not, for what does the same with other sizes: nobody has looked at them."""
    shape: tuple[int, ...] = array._node.shape if type(array) is LazyArray else array.shape
    return shape


def queue_of(array: Any) -> Any:
    """Return the queue, or the device, of an array, lazy or not."""
    return array._queue if type(array) is LazyArray else array_facts(content_of(array))[4]


def element_strides(array: Any) -> tuple[int, ...]:
    """Return the strides of an array, lazy or not, in elements."""
    if type(array) is not LazyArray:
        return tuple(element_strides_of(content_of(array)))
    # Where it is, if it is still to be written there.
    seen = memory_of(array._trace, getattr(array, "_target", array._node))
    return seen.strides if isinstance(seen, Array) else c_strides(seen.shape)


def memory_of(trace: Any, node: Node) -> Node:
    """Return the place in memory of a node that is there, or would be in dpnp as a view of its base, evenly spaced."""
    base = base_of(node)
    if isinstance(base, Array):
        return substitute(node, {})
    backwards = trace.cache.backwards.get(base, ())
    strides = tuple(-step if axis in backwards else step for axis, step in enumerate(c_strides(base.shape)))
    return substitute(node, {base: Array(base.shape, base.dtype, 0, strides)})


_GIVEN = "the data is given away"
#: Methods that only look at an array's metadata or give the data to the host; all others are recorded or left to dpnp.
_HOST = {
    **dict.fromkeys(("asnumpy", "get", "tolist", "tobytes"), "the data is copied to the host"),
    **dict.fromkeys(("__float__", "__int__", "__complex__", "item"), "its value is read"),
    **dict.fromkeys(("__repr__", "__str__"), "it is printed"),
    **dict.fromkeys(("__dlpack__", "get_array"), _GIVEN),
    "__bool__": "its truth value decides what happens",
    "__index__": "its value is used as an index",
}
_HINTS = {
    "__bool__": f"use {NAME}.where", "__repr__": "print after the function", "__str__": "print after the function",
    "asnumpy": "copy after the function", "get": "copy after the function", "tolist": "copy after the function",
}


def _host_method(name: str) -> Callable[..., Any]:
    plain = getattr(xp.ndarray, name)

    def method(self: LazyArray, *arguments: Any, **keywords: Any) -> Any:
        trace = self._trace
        given = _HOST[name] == _GIVEN
        taker = reader() if given else None
        reason = _HOST[name] if taker is None else f"{taker} takes the data, in code that is not followed"
        trace.note(f"{name} of an array", reason, _HINTS.get(name, ""), again=True)
        return plain(trace.given_away(self) if given else array_around(trace.escape(self)), *arguments, **keywords)

    method.__name__ = name
    return method


def _known(name: str) -> Any:
    """Return an attribute of lazy arrays that lies in what they know."""
    def read(self: LazyArray) -> Any:
        return getattr(_slot.__get__(self), name)

    def write(self: LazyArray, value: Any) -> None:
        setattr(_slot.__get__(self), name, value)

    def remove(self: LazyArray) -> None:
        delattr(_slot.__get__(self), name)

    return property(read, write, remove)


if _slot is not None:
    for _name in _Known.__slots__:
        setattr(LazyArray, _name, _known(_name))

LazyArray.__name__ = LazyArray.__qualname__ = xp.ndarray.__name__  # errors of Python name the class
LazyArray.__module__ = xp.ndarray.__module__  # with that of its module, from Python 3.14 on
for _name in _HOST:
    if hasattr(xp.ndarray, _name):
        setattr(LazyArray, _name, _host_method(_name))
