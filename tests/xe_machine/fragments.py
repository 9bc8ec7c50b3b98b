"""Random programs on cooperative matrices as machine code, executed, and compared with the interpreter."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np

from tests.strategies.dpas_fragments import DpasFragmentProgram
from tests.xe_machine.launch import global_memory, run
from tests.xe_machine.products import binary_of
from tl_dpnp.language.types import MemrefType
from tl_dpnp.scalars import BF16

__all__ = ["wrong_arrays"]

#: Work-items of a work-group: six sub-groups.
_LAYOUT, _LANES = (48, 2), 16


def wrong_arrays(program: DpasFragmentProgram) -> list[int] | None:
    """Return which arrays the machine computes otherwise; None where the matrices of a program are not in registers.

    Raises `MachineError` for what machine code must not do, or what is not known.
    """
    import tl_dpnp
    from tl_dpnp.language import ops, parse
    from tl_dpnp.language.interpreter import interpret

    (function,) = parse(program.source)
    function = replace(function, work_group_size=_LAYOUT, subgroup_size=_LANES)
    compiled = tl_dpnp.compile(ops.Module((function,)), cache=False).compile_offline("pvc")
    if "are in registers" not in compiled.remarks[0]:
        return None
    arrays, memory, flat = program.arguments(), global_memory(), list[float | int]()
    places = [memory.place(str(number), array.T) for number, array in enumerate(arrays)]
    for address, array in zip(places, arrays, strict=True):
        flat += [address, array.shape[1]]
    expected = copy.deepcopy(arrays)
    interpret(function, expected, (1, 1, 1), order_seed=0)
    run(binary_of(compiled), [*flat, 1, 1, 0], memory, (1, 1, 1), program.seed)
    found = [memory.content(address, array.nbytes).view(array.dtype).reshape(array.shape[::-1]).T
             for address, array in zip(places, arrays, strict=True)]
    return [number for number, (parameter, *pair) in enumerate(zip(function.parameters, found, expected, strict=True))
            if not np.array_equal(*(_numbers(parameter.type, array) for array in pair), equal_nan=True)]


def _numbers(memref: object, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return what is compared: numbers, among which zeros of both signs are equal.

    Intel's compiler makes -x of 0 - x, which is -0 where it should be 0.
    """
    is_bf16 = isinstance(memref, MemrefType) and memref.element == BF16
    return (array.astype(np.uint32) << 16).view(np.float32) if is_bf16 else array
