"""Random programs on a CUDA device against the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

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

__all__ = ["AXPY", "LAYOUTS", "OnDevice", "disagreements", "with_layout"]

AXPY = """
func @axpy(%alpha: f32, %x: memref<f32x?>, %y: memref<f32x?>) {
  axpby.n %alpha, %x, 1.0, %y : f32, memref<f32x?>, f32, memref<f32x?>
}
"""

#: Work-group sizes: the default, one warp, and several along each mode.
LAYOUTS: dict[str, tuple[int, int] | None] = {"default": None, "one_warp": (32, 1), "several_warps": (64, 3)}


def with_layout(program: Program, layout: str) -> ops.Function:
    """Return the function of a program with the work-group size of a layout."""
    return replace(program.function, work_group_size=LAYOUTS[layout], subgroup_size=None)


def run_on_device(program: Program, layout: str, arguments: Sequence[Argument], debug: bool) -> list[Argument]:
    """Run `program` on copies of the arguments, as tensors of PyTorch, and return them as they are afterwards."""
    import torch

    kernel = tl_dpnp.compile(ops.Module((with_layout(program, layout),)), target="cuda", cache=False, debug=debug)
    held: list[tuple[ArrayArgument, Any]] = []

    def make(array: ArrayArgument) -> Any:
        assert array.buffer is not None
        memory = torch.from_numpy(array.buffer).cuda()
        held.append((array, memory))
        return torch.as_strided(memory, array.shape, array.strides, array.offset)

    given: list[Any] = []
    for argument in arguments:
        match argument:
            case ScalarArgument(value=value):
                given.append(value)
            case ArrayArgument():
                given.append(make(argument))
            case GroupArgument(arrays=arrays, offset=offset):
                given.append(tl_dpnp.group([make(array) for array in arrays], offset=offset))
    kernel(*given, group_size=program.group_size)
    results = iter(replace(array, buffer=memory.cpu().numpy()) for array, memory in held)
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


@dataclass(frozen=True)
class OnDevice:
    """The CUDA device as a target of the tests that take one; `form` is None for the default."""

    form: str | None = None

    def run(self, source: str, *arguments: Any, group_size: int | None = None, **options: Any) -> None:
        """Run the one function in `source`, in place on dense NumPy arrays, lists of them, and scalars."""
        import torch

        held: list[tuple[np.ndarray, Any]] = []

        def given(argument: Any) -> Any:
            if isinstance(argument, list):
                return [given(array) for array in argument]
            if not isinstance(argument, np.ndarray):
                return argument
            held.append((argument, torch.from_numpy(np.ascontiguousarray(argument.T)).cuda()))
            return tl_dpnp.rev(held[-1][1])

        kernel = tl_dpnp.compile(source, target="cuda", form=self.form, cache=False, **options)
        kernel(*map(given, arguments), group_size=group_size)
        for array, memory in held:
            array[...] = memory.cpu().numpy().T


def disagreements(program: Program, layout: str, debug: bool = False, seed: int | None = None) -> list[str]:
    """Return what the device computes differently from the interpreter, one line for each buffer.

    `seed` is that of the arguments, by default the program's own.
    """
    seed = (program.seed or 0) if seed is None else seed
    expected = program.make_arguments(seed)
    with np.errstate(all="ignore"):
        interpret(with_layout(program, layout), numpy_arguments(expected), program.group_size)
    actual = run_on_device(program, layout, program.make_arguments(seed), debug)
    return differences(expected, actual, program.tolerances)


def called(kernel: Any, arguments: Sequence[np.ndarray], group_size: tuple[int, int, int] = (1, 1, 1)) -> None:
    """Call a kernel on copies of arrays of NumPy on the device, and copy them back."""
    from numba import cuda

    copies = [cuda.to_device(array) for array in arguments]
    kernel(*copies, group_size=group_size)
    for array, moved in zip(arguments, copies, strict=True):
        moved.copy_to_host(array)
