"""Makes a failing random program small, so that a person can read it.

    print(reduced(random_program(seed), lambda program: bool(disagreements(program, layout))))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from unittest import mock

from tests.strategies.arguments import differences, numpy_arguments
from tests.strategies.programs import Program
from tl_dpnp.errors import TLError
from tl_dpnp.language import ops
from tl_dpnp.language.interpreter import interpret, memory
from tl_dpnp.language.verifier import verify


def reduced(program: Program, fails: Callable[[Program], bool]) -> Program:
    """Return the program without the operations that its failure does not need; `fails` must hold for `program`."""
    assert fails(program)
    while (candidate := next(filter(fails, smaller(program)), None)) is not None:
        program = candidate
    return program


def smaller(program: Program, seed: int = 0) -> Iterator[Program]:
    """Yield programs with less operations, each of which is checked to have a defined result.

    `seed` is that of the arguments.
    """
    for body in _smaller(program.function.body):
        candidate = replace(program, seed=None, function=replace(program.function, body=body))
        if is_defined(candidate, seed):
            yield candidate


def _smaller(region: ops.Region) -> Iterator[ops.Region]:
    """Return the regions with one operation less, or with an operation replaced by its body, largest cuts first."""
    operations = region.operations
    for size in (len(operations) // 2, len(operations) // 4, 1):
        for end in range(len(operations), size - 1, -size) if size else ():
            yield ops.Region((*operations[: end - size], *operations[end:]))
    for position, operation in enumerate(operations):
        for inner, rebuild in _regions(operation):
            for smaller in _smaller(inner):
                yield ops.Region((*operations[:position], rebuild(smaller), *operations[position + 1 :]))
            if isinstance(operation, ops.If) and not operation.outputs:
                yield ops.Region((*operations[:position], *inner, *operations[position + 1 :]))


def _regions(operation: ops.Operation) -> Iterator[tuple[ops.Region, Callable[[ops.Region], ops.Operation]]]:
    match operation:
        case ops.For(body=body) | ops.Foreach(body=body) | ops.Parallel(body=body) | ops.ForeachTile(body=body):
            yield body, lambda region: replace(operation, body=region)
        case ops.If(then=then, otherwise=otherwise):
            yield then, lambda region: replace(operation, then=region)
            if otherwise is not None:
                yield otherwise, lambda region: replace(operation, otherwise=region)


def is_defined(program: Program, seed: int = 0) -> bool:
    """Whether the program is valid and its result depends neither on uninitialised memory nor on an order."""
    def run(order_seed: int | None, fill: Callable[..., None]) -> list:
        arguments = program.make_arguments(seed)
        with mock.patch.object(memory, "poison", fill):
            interpret(program.function, numpy_arguments(arguments), program.group_size, debug=True,
                      order_seed=order_seed)
        return arguments

    def zero(array, element):
        array[...] = 0

    try:
        verify(program.module)
        return not differences(run(None, memory.poison), run(1, zero), program.tolerances)
    except TLError:
        return False
