"""Where the matrices of the products of a function in the staged form are in local memory, for estimates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from tl_dpnp.language import ops
from tl_dpnp.lowering.mappings.persistent.operands import PipelinedOperand, ResidentOperand, trips
from tl_dpnp.lowering.memory import LOCAL_ALIGNMENT
from tl_dpnp.lowering.tactics.chains import Chain
from tl_dpnp.lowering.tactics.registers import Problem, is_product_of_numbers
from tl_dpnp.lowering.tactics.warps import sizes_of

__all__ = ["chain_of", "problem_of"]

#: Bytes of a vector.
_VECTOR = 16


class _Place(NamedTuple):
    """The bytes between what neighbouring teams have of a value, and what their addresses are multiples of."""

    pitch: int
    alignment: int


def problem_of(
    gemm: ops.Contraction, operands: Sequence[PipelinedOperand], residents: Sequence[ResidentOperand]
) -> Problem | None:
    """Return where the matrices of a product are; None where one is not as a whole in local memory."""
    places = _whole(operands, residents)
    is_read = any(operand.is_read and operand.is_written for operand in operands)
    return _problem(gemm, places, _moved(operands), is_read)


def chain_of(
    function: ops.Function, operands: Sequence[PipelinedOperand], residents: Sequence[ResidentOperand], pitch: int
) -> Chain | None:
    """Return the products of a function, whose temporaries are `pitch` bytes apart from team to team.

    None where it has other instructions, or matrices that are not in local memory.
    """
    places, moved = _whole(operands, residents), _moved(operands)
    problems: list[Problem] = []
    counts: list[int] = []
    waits = 0

    def visit(region: ops.Region, times: int) -> bool:
        nonlocal waits
        for operation in region:
            match operation:
                case ops.Alloca(result=result):
                    places[result.name] = _Place(pitch, math.gcd(pitch, LOCAL_ALIGNMENT, _VECTOR))
                case ops.Subview() | ops.Expand() | ops.Fuse() if operation.source.name in places:
                    places[operation.result.name] = _of_view(operation, places[operation.source.name])
                case ops.For(body=body):
                    if not visit(body, times * (trips(operation) or 0)):
                        return False
                case ops.Barrier():
                    waits += times
                case ops.LinearAlgebra():
                    if not is_product_of_numbers(operation):
                        return False
                    assert isinstance(operation, ops.Contraction)
                    problem = _problem(operation, places, moved, operation.keeps)
                    if problem is None:
                        return False
                    problems.append(problem)
                    counts.append(times)
        return True

    return Chain(tuple(problems), tuple(counts), waits) if visit(function.body, 1) and problems else None


def _whole(
    operands: Sequence[PipelinedOperand], residents: Sequence[ResidentOperand]
) -> dict[str, _Place]:
    """Return the places of what is copied to local memory."""
    pitches = {operand.parameter: 0 for operand in residents} | {
        name: operand.pitch for operand in operands for name in operand.values}
    return {name: _Place(pitch, math.gcd(pitch, _VECTOR) or _VECTOR) for name, pitch in pitches.items()}


def _moved(operands: Sequence[PipelinedOperand]) -> int:
    """Return the bytes of a work-group that go in and out."""
    return sum(operand.bytes * (operand.is_read + operand.is_written) for operand in operands)


def _of_view(view: ops.Subview | ops.Expand | ops.Fuse, source: _Place) -> _Place:
    """Return the place of a view, which begins at multiples of less where an offset is not known."""
    if not isinstance(view, ops.Subview):
        return source
    type_ = ops.memref_type(view.source)
    steps = []
    for entry, stride in zip(view.slices, type_.strides, strict=True):
        known = _number(entry.offset) if isinstance(entry.offset, ops.Constant) else 1
        steps.append(known * (1 if stride is None else stride) * type_.element.bytes)
    return _Place(source.pitch, math.gcd(source.alignment, *steps))


def _number(operand: ops.Operand) -> int:
    """Return a whole number that is known."""
    assert isinstance(operand, ops.Constant)
    assert isinstance(operand.value, int)
    return operand.value


def _problem(
    gemm: ops.Contraction, places: dict[str, _Place], moved: int, is_read: bool
) -> Problem | None:
    """Return where the matrices of a product are; None where one has no place."""
    left, right, result = values = (*gemm.inputs, gemm.output)
    if any(value.name not in places for value in values):
        return None

    def strides(value: ops.Value, is_transposed: bool = False) -> tuple[int, int]:
        first, second = ops.memref_type(value).strides
        assert first is not None
        assert second is not None
        return (second, first) if is_transposed else (first, second)

    of_left, of_right, of_result = (places[value.name] for value in values)
    by_rows, by_columns = gemm.transposes
    return Problem(
        (ops.memref_type(left).element, ops.memref_type(right).element, ops.memref_type(result).element),
        sizes_of(gemm), (strides(left, by_rows), strides(right, by_columns), strides(result)),
        (of_left.pitch, of_right.pitch, of_result.pitch),
        (of_left.alignment, of_right.alignment, of_result.alignment), moved, is_read)
