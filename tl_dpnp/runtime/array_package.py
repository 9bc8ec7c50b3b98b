"""The package whose arrays `tl_dpnp.fuse` follows in a process: dpnp, or CuPy where dpnp is not installed.

Each has a module with the names below, so that recording knows no package: `tl_dpnp.runtime.sycl.dpnp_package` and
`tl_dpnp.runtime.cuda.cupy_adapter`.  What an array consists of in memory is its *content*: dpnp's arrays have a
`usm_ndarray`, those of CuPy are theirs themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any

from tl_dpnp.runtime.package_name import NAME
from tl_dpnp.target.targets import TargetName

__all__ = [
    "CALLS_BEFORE", "Content", "DEVICE_TYPES", "LAST_FACT", "LAZY_BASE", "NAME", "POOL", "TARGET", "WHERE",
    "address_of", "array_around", "array_facts", "bare_array", "base_of_addresses", "become_plain", "common_kind",
    "content_of", "content_slot", "contents_of", "describe", "direct_call", "element_strides_of", "first_element",
    "is_writable", "looks_function", "maker", "new_like", "ones", "prepare", "quick_maker", "reverses_floor_division",
    "runs_in_warps", "settles_in_place", "singular_setting", "strides_are_bytes", "takes_over_numpy", "viewed", "xp",
]

_package: Any = import_module(
    "tl_dpnp.runtime.sycl.dpnp_package" if NAME == "dpnp" else "tl_dpnp.runtime.cuda.cupy_adapter")

#: The module itself.
xp: Any = _package.xp
#: Where its kernels run.
TARGET: TargetName = _package.TARGET

#: What its functions that create arrays take to say where.
WHERE: tuple[str, ...] = _package.WHERE

# --- arrays and their contents ---------------------------------------------------------------------------------------

#: The class of contents.
Content: Any = _package.Content
content_of: Callable[[Any], Any] = _package.content_of
contents_of: Callable[[Sequence[Any]], list[Any]] = _package.contents_of
#: Returns the array that has a content.
array_around: Callable[[Any], Any] = _package.array_around
#: Returns what plans depend on of a content: shape, strides in elements, number of the dtype, kind of memory, queue,
#: and a last fact, which has a name.
array_facts: Callable[[Any], tuple[Any, ...]] = _package.array_facts
LAST_FACT: str = _package.LAST_FACT
#: Returns how many elements the first one lies behind the place that offsets count from, by the facts.
first_element: Callable[[tuple[Any, ...]], int] = _package.first_element
#: The address of the first element, and the one that offsets of kernels' operands count from.
address_of: Callable[[Any], int] = _package.address_of
base_of_addresses: Callable[[Any], int] = _package.base_of_addresses
element_strides_of: Callable[[Any], tuple[int, ...]] = _package.element_strides_of
is_writable: Callable[[Any], bool] = _package.is_writable
#: Returns a view of a content: shape, dtype, strides and offset in elements of that, from `base_of_addresses`.
viewed: Callable[..., Any] = _package.viewed
#: Returns a function of a queue that gives new contents of a shape, a dtype and a kind of memory, in C order.
maker: Callable[..., Callable[[Any], Any]] = _package.maker
#: Memory for those, where the package has no pool of its own.
POOL: Any = _package.POOL
#: Returns an array of ones of a shape and dtype on a queue.
ones: Callable[..., Any] = _package.ones
#: Returns what functions that create arrays give them: the dtype, the kind of memory and the queue.
new_like: Callable[..., tuple[Any, str, Any]] = _package.new_like
#: Returns the kind of memory of results of operands of several kinds.
common_kind: Callable[[Iterable[str]], str] = _package.common_kind
#: Classes of what stands for queues and devices: equal ones are the same.
DEVICE_TYPES: tuple[type, ...] = _package.DEVICE_TYPES

#: Returns the object and the attribute that say what becomes of singular matrices, and what it is where they are no
#: error; None where nothing says so.
singular_setting: Callable[[], tuple[Any, str, Any] | None] = _package.singular_setting

# --- lazy arrays -----------------------------------------------------------------------------------------------------

#: The class of those, to which arrays of a trace that ended belong no more if they can settle in place.
LAZY_BASE: Any = _package.LAZY_BASE
settles_in_place: bool = _package.SETTLES_IN_PLACE
become_plain: Callable[..., None] = _package.become_plain
content_slot: Any = _package.CONTENT_SLOT
strides_are_bytes: Callable[[], bool] = _package.strides_are_bytes
reverses_floor_division: bool = _package.REVERSES_FLOOR_DIVISION
#: Whether functions of NumPy with its arrays are those of the package.
takes_over_numpy: bool = hasattr(xp.ndarray, "__array_function__")
#: An array without content, for whoever asks for no more than its class.
bare_array: Any = _package.BARE_ARRAY

# --- kernels ---------------------------------------------------------------------------------------------------------

#: Returns the device of a queue.
describe: Callable[[Any], Any] = _package.describe
#: Whether these have sub-groups whose lanes take one instruction after another together.
runs_in_warps: bool = _package.RUNS_IN_WARPS
#: Returns the launch of a kernel, as `tl_dpnp.runtime.preparation.prepare_launch` does.
prepare: Callable[..., Any] = _package.prepare
#: Returns what launches a kernel with numbers and arrays that are like some, and returns whether they are; None where
#: there is no quicker way than its launch.  It is None itself for packages that have none at all.
direct_call: Callable[[Any, tuple[Any, ...]], Callable[[tuple[Any, ...]], bool] | None] | None = _package.direct_call
#: Returns what makes a new array in C order on the current device, whichever that is; None where `direct_call` is.
quick_maker: Callable[..., Callable[[], Any]] | None = _package.quick_maker
#: After how many calls of a kind these are looked at by a function of their own, and what returns that.
CALLS_BEFORE: int = _package.CALLS_BEFORE
looks_function: Callable[..., Any] = _package.looks_function
