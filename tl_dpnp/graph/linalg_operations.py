"""Recorders of determinants, inverses and linear systems of small matrices (`tl_dpnp.graph.operations`)."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tl_dpnp.graph.breaks import NotFused
from tl_dpnp.graph.composed_operations import as_floating
from tl_dpnp.graph.dpnp_rules import raise_singular, singular_is_an_error, solves_stacks_of_vectors
from tl_dpnp.graph.elimination import LARGEST_MATRIX
from tl_dpnp.graph.nodes import Eliminate
from tl_dpnp.graph.recorders import check_arrays, recorded, records, result_array, static_integer
from tl_dpnp.graph.trace import Trace
from tl_dpnp.runtime.array_package import singular_setting, xp
from tl_dpnp.runtime.package_name import NAME

__all__: list[str] = []


def _floats(trace: Trace, a: Any) -> Any:
    """Return an array in the dtype that dpnp computes with; raises `NotFused` for complex numbers."""
    x = as_floating(trace, a)
    if x.dtype.kind == "c":
        raise NotFused(f"matrices of {x.dtype} are left to LAPACK")
    return x


def _matrices(trace: Trace, a: Any, ndim: int) -> Any:
    """Return small square matrices in the dtype that dpnp factors them in; raises `NotFused` for others."""
    x = _floats(trace, a)
    if x.dtype.itemsize < 4:
        raise NotFused(f"{NAME} factors no half floats")
    if x.ndim < 2 or x.shape[-1] != x.shape[-2] or not x.size:
        raise NotFused("the operand has no square matrices")
    if x.shape[-1] > LARGEST_MATRIX:
        raise NotFused(f"matrices larger than {LARGEST_MATRIX}×{LARGEST_MATRIX} are left to LAPACK")
    _look_at_setting(trace)
    if x.ndim < ndim and singular_is_an_error("solve"):
        raise NotFused("a single matrix that is singular is an error", "give it a batch axis")
    return x


def _look_at_setting(trace: Trace) -> None:
    """Raise `NotFused` where a setting makes errors of singular matrices; plans depend on it."""
    found = singular_setting()
    if found is None:
        return
    owner, name, expected = found
    value = getattr(owner, name)
    if trace.observed:
        guards = trace.interceptor.guards
        trace.interceptor.read(value, guards.child(guards.constant(owner), "attribute", name))
    if value != expected:
        raise NotFused(f"{NAME} is set to look for singular matrices")


@records("linalg.matrix_power")
def _matrix_power(trace: Trace, a: Any, n: Any) -> Any:
    """Record the products of repeated squaring, as dpnp does it."""
    check_arrays(a)
    exponent = static_integer(n)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2] or not exponent or type(n) is bool:
        raise NotFused("the arguments are not fused")
    x = recorded(trace, "linalg.inv", a) if exponent < 0 else a
    if abs(exponent) == 3:
        return recorded(trace, "matmul", recorded(trace, "matmul", x, x), x)
    result, rest = None, abs(exponent)
    while True:
        rest, bit = divmod(rest, 2)
        if bit:
            result = x if result is None else recorded(trace, "matmul", result, x)
        if not rest:
            return result
        x = recorded(trace, "matmul", x, x)


@records("linalg.det")
def _det(trace: Trace, a: Any) -> Any:
    operand = trace.operand(_matrices(trace, a, 2))
    return result_array(trace, Eliminate(operand[0].shape[:-2], operand[0].dtype, "det", (operand[0],)), [operand])


@records("linalg.inv")
def _inv(trace: Trace, a: Any) -> Any:
    """Record the inverses of a batch, in which dpnp 0.15 has infinities and NaN for singular matrices."""
    x = _matrices(trace, a, 3)
    inverse = trace.record("inverse", _inverse, (x,), {})
    if singular_is_an_error("inv"):
        _check_singular(trace, "inv", x, inverse, "solve several systems by one call")
    return inverse


@records("linalg.solve")
def _solve(trace: Trace, a: Any, b: Any) -> Any:
    """Record the solutions of a batch; they are computed at once, to raise the error for a singular matrix."""
    x, y = _matrices(trace, a, 3), _floats(trace, b)
    is_vector = y.ndim == 1 or (y.ndim == x.ndim - 1 and solves_stacks_of_vectors())
    if y.ndim != x.ndim - is_vector or y.shape[: x.ndim - 1] != x.shape[:-1] or not y.size:
        raise NotFused("the right-hand sides do not fit")
    columns = recorded(trace, "expand_dims", y, -1) if is_vector else y
    solution = trace.record("solution", _solution, (x, columns), {})
    hint = "" if singular_is_an_error("inv") else "multiply by linalg.inv"
    if singular_is_an_error("solve"):
        _check_singular(trace, "solve", x, solution, hint)
    return recorded(trace, "squeeze", solution, -1) if is_vector else solution


def _check_singular(trace: Trace, name: str, x: Any, result: Any, hint: str) -> None:
    """Have a result computed at once, and dpnp's error raised if a matrix is singular."""
    singular = trace.record("singular", _singular, (x,), {})
    trace.note(f"linalg.{name}", "a singular matrix is an error, so a kernel ends here", hint)
    trace.materialize([result, singular])
    trace.call(functools.partial(_raise_if_any, name), f"linalg.{name}", (singular,), {})


def _inverse(trace: Trace, x: Any) -> Any:
    operand = trace.operand(x)
    return result_array(trace, Eliminate(operand[0].shape, operand[0].dtype, "inv", (operand[0],)), [operand])


def _solution(trace: Trace, x: Any, y: Any) -> Any:
    dtype = np.promote_types(x.dtype, y.dtype)
    operands = [trace.operand(recorded(trace, "astype", array, dtype, copy=False)) for array in (x, y)]
    nodes = tuple(node for node, _, _ in operands)
    return result_array(trace, Eliminate(nodes[1].shape, dtype, "solve", nodes), operands)


def _singular(trace: Trace, x: Any) -> Any:
    operand = trace.operand(x)
    return result_array(trace, Eliminate(x.shape[:-2], np.dtype(bool), "singular", (operand[0],)), [operand])


def _raise_if_any(name: str, singular: Any) -> None:
    """Raise dpnp's error if a matrix is singular."""
    found = xp.asnumpy(singular)
    if found.any():
        raise_singular(name, found)
