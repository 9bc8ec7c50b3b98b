"""Runs a random program on the device, in each form, and compares it with the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import dpctl
import numpy as np

import tl_dpnp
from tests.strategies.arguments import (
    Argument,
    ArrayArgument,
    GroupArgument,
    ScalarArgument,
    differences,
    numpy_arguments,
)
from tests.strategies.programs import Program
from tl_dpnp.language import ops
from tl_dpnp.language.interpreter import interpret
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt

#: How a program is run: the form, the work-group size and the sub-group size.
Layout = tuple[str, tuple[int, int] | None, int | None]

#: The vector form, and the sub-group form with one and with several sub-groups along each mode.
LAYOUTS: dict[str, Layout] = {
    "vector": ("vector", None, None),
    "one_subgroup": ("subgroup", (16, 1), 16),
    "several_subgroups": ("subgroup", (16, 2), 8),
    "many_subgroups": ("subgroup", (48, 3), 16),
}

_queue: dpctl.SyclQueue | None = None


def queue() -> dpctl.SyclQueue:
    """Return the queue of all arrays, made at its first use."""
    global _queue
    _queue = _queue or dpctl.SyclQueue()
    return _queue


#: What may be done with a kernel and the arguments of its call before the call.
Preparation = Callable[..., None]


def with_layout(program: Program, layout: Layout) -> ops.Function:
    """Return the function of a program with the sizes of a layout."""
    _, work_group_size, subgroup_size = layout
    return replace(program.function, work_group_size=work_group_size, subgroup_size=subgroup_size)


def run_on_device(
    program: Program, layout: Layout, arguments: Sequence[Argument], debug: bool = False,
    prepare: Preparation | None = None, **options: Any,
) -> list[Argument]:
    """Run `program` on copies of the arguments and return them as they are afterwards.

    `options` are those of `tl_dpnp.compile`; `prepare` is called before the kernel is, with the kernel, its arguments
    and its group size.
    """
    function = with_layout(program, layout)
    kernel = tl_dpnp.compile(ops.Module((function,)), form=layout[0], cache=False, debug=debug, **options)
    return call(kernel, arguments, program.group_size, prepare)


def call(
    kernel: Any, arguments: Sequence[Argument], group_size: int, prepare: Preparation | None = None
) -> list[Argument]:
    """Call a kernel on copies of the arguments and return them as they are afterwards."""
    held: list[tuple[ArrayArgument, Any]] = []

    def make(array: ArrayArgument) -> Any:
        assert array.buffer is not None
        memory = dpt.asarray(array.buffer, sycl_queue=queue())
        held.append((array, memory))
        return dpt.usm_ndarray(
            array.shape, dtype=array.buffer.dtype, buffer=memory, strides=array.strides, offset=array.offset
        )

    def group(argument: GroupArgument) -> Any:
        return tl_dpnp.group([make(array) for array in argument.arrays], offset=argument.offset)

    given: list[Any] = []
    for argument in arguments:
        match argument:
            case ScalarArgument(value=value):
                given.append(value)
            case ArrayArgument():
                given.append(make(argument))
            case GroupArgument():
                given.append(group(argument))
    if prepare is not None:
        prepare(kernel, *given, group_size=group_size)
    kernel(*given, group_size=group_size)
    results = iter(replace(array, buffer=dpt.asnumpy(memory)) for array, memory in held)
    after: list[Argument] = []
    for argument in arguments:
        match argument:
            case ScalarArgument():
                after.append(argument)
            case ArrayArgument():
                after.append(next(results))
            case GroupArgument(arrays=arrays):
                after.append(replace(argument, arrays=tuple(next(results) for _ in arrays)))
    return after


#: A thread of its own, whose stack is shallow: CPython 3.11 allocates frames in blocks, and calls that cross the end of
#: one map and unmap memory each time.  Numba's compiler does that thousands of times if it starts at an unlucky depth.
_compiling = ThreadPoolExecutor(max_workers=1)


def disagreements(
    program: Program, layout: Layout, debug: bool = False, *, seed: int | None = None,
    prepare: Preparation | None = None, **options: Any,
) -> list[str]:
    """Return what the device computes differently from the interpreter, one line for each buffer.

    `seed` is that of the arguments, by default the program's own; the others are as for `run_on_device`.
    """
    seed = seed if seed is not None else program.seed or 0
    expected = program.make_arguments(seed)
    with np.errstate(all="ignore"):  # of the layout, which says how many work-items there are
        interpret(with_layout(program, layout), numpy_arguments(expected), program.group_size)
    actual = _compiling.submit(
        run_on_device, program, layout, program.make_arguments(seed), debug, prepare, **options).result()
    return differences(expected, actual, program.tolerances)
