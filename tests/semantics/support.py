"""Run the same source, on the same NumPy arrays, on every target.

`TARGETS` is the table of targets that the tests of this folder are run on: the interpreter, and each way in which a
work-group may run on the device.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import tl_dpnp
from tests.differential.device import LAYOUTS, Layout, queue
from tests.strategies.values import DTYPES, fortran, memref, typed, whole
from tl_dpnp.language.parser import parse
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt

__all__ = ["DTYPES", "TARGETS", "Group", "Target", "fortran", "memref", "typed", "whole"]


@dataclass(frozen=True)
class Target:
    """One way to run a program; `layout` is None for the interpreter."""

    name: str
    layout: Layout | None = None

    def __str__(self) -> str:
        return self.name

    def compile(self, source: str, **options: Any) -> Any:
        """Return the kernel of the one function in `source`."""
        if self.layout is None:
            return tl_dpnp.compile(source, target="reference", **options)
        form, work_group_size, subgroup_size = self.layout
        (function,) = parse(source)
        function = replace(function, work_group_size=work_group_size, subgroup_size=subgroup_size)
        return tl_dpnp.compile(function, target="sycl", form=form, cache=False, **options)

    def run(self, source: str, *arguments: Any, group_size: int | None = None, **options: Any) -> None:
        """Run the one function in `source`, in place on NumPy arrays, lists of them, `Group` objects and scalars."""
        self.call(compiled(self, source, **options), *arguments, group_size=group_size)

    def call(self, kernel: Any, *arguments: Any, group_size: int | None = None) -> None:
        """Call a kernel as `run` does."""
        if self.layout is None and not any(isinstance(argument, Group) for argument in arguments):
            kernel(*arguments, group_size=group_size)
        else:  # `tl_dpnp.group` takes arrays of the device only, for every target
            _run_on_device(kernel, arguments, group_size)


@functools.lru_cache(maxsize=32)
def compiled(target: Target, source: str, **options: Any) -> Any:
    """Return ``target.compile(source)``, once for tests that run a source several times; they may clear this."""
    return target.compile(source, **options)


@dataclass(frozen=True)
class Group:
    """A list of NumPy arrays with an offset, in elements."""

    arrays: list[np.ndarray]
    offset: int


def _run_on_device(kernel: Any, arguments: tuple[Any, ...], group_size: int | None) -> None:
    """Copy the buffers that the arrays view to the device, each once, so that arrays that overlap still do."""
    copies: dict[int, tuple[np.ndarray, Any]] = {}

    def place(array: np.ndarray) -> Any:
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        flat = owner.reshape(-1, order="A")
        assert flat.size == 0 or np.shares_memory(flat, owner), "the tests use dense buffers"
        address = owner.ctypes.data
        if address not in copies:
            copies[address] = flat, dpt.asarray(flat, sycl_queue=queue())
        strides = [stride // array.itemsize for stride in array.strides]
        offset = (array.ctypes.data - address) // array.itemsize
        return dpt.usm_ndarray(array.shape, dtype=array.dtype, buffer=copies[address][1], strides=strides,
                               offset=offset)

    def argument(value: Any) -> Any:
        match value:
            case np.ndarray():
                return place(value)
            case list():
                return [place(array) for array in value]
            case Group(arrays=arrays, offset=offset):
                return tl_dpnp.group([place(array) for array in arrays], offset=offset)
        return value

    kernel(*map(argument, arguments), group_size=group_size)
    for flat, copy in copies.values():
        if flat.flags.writeable:
            flat[...] = dpt.asnumpy(copy)


TARGETS = [Target("reference"), *(Target(name, layout) for name, layout in LAYOUTS.items())]
