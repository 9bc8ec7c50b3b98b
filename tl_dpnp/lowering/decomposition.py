"""Instructions that are lowered to other instructions, before any other pass.

A contraction needs nothing here where its loop nest follows from its shapes (`contraction.has_loop_nest`).  Of any
other instruction on memrefs, a function of this module builds what it is lowered to, with the builder of the language;
scalar instructions and those with regions are written by `body.writer`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from tl_dpnp.errors import Diagnostic, LoweringError
from tl_dpnp.language import ops
from tl_dpnp.language.builder import ALL, FunctionBuilder, memref
from tl_dpnp.lowering.complex_functions import complex_function
from tl_dpnp.lowering.contraction import has_loop_nest
from tl_dpnp.lowering.rewrite import replace_body, with_regions
from tl_dpnp.scalars import BF16, F16, F32, INDEX, ScalarType

__all__ = ["decompose", "lowers", "no_lowering"]

_Function = TypeVar("_Function", bound=Callable[..., None])

#: From the class of an instruction to the function that builds what it is lowered to.
_DECOMPOSITIONS: dict[type[ops.Operation], Callable[[FunctionBuilder, Any], None]] = {}


def lowers(kind: type[ops.Operation]) -> Callable[[_Function], _Function]:
    """Mark the function that is called with a builder and an instruction of a class, and builds what replaces it."""
    def mark(function: _Function) -> _Function:
        _DECOMPOSITIONS[kind] = function
        return function

    return mark


@lowers(ops.Cumsum)
def _cumsum(b: FunctionBuilder, operation: ops.Cumsum) -> None:
    """Work-items share the lines along the mode; an atomic update is done by all of them together."""
    (source,), output, alpha, beta = operation.inputs, operation.output, operation.alpha, operation.beta
    element, mode = ops.memref_type(output).element, operation.mode
    source, output = _of_sizes(b, source, output), _of_sizes(b, output, source)
    others = [b.size(output, other) for other in range(ops.memref_type(output).order) if other != mode]
    # Sums of narrow floats are kept in f32 and rounded once, as those of contractions are.
    kept = F32 if element in (F16, BF16) else element
    if operation.atomic:
        total = b.alloca(memref(element))
        with ExitStack() as loops:
            outer = [loops.enter_context(b.for_(0, size)) for size in others]
            indices, value = loops.enter_context(_running_sum(b, source, outer, mode, kept))
            b.store(b.cast(b.mul(b.cast(alpha, kept), value), element), total)
            b.axpby(1, total, beta, b.subview(output, *indices), atomic=True)
        return
    with (
        b.foreach_modes([0] * max(len(others), 1), others or [1]) as variables,
        _running_sum(b, source, list(variables[: len(others)]), mode, kept) as (indices, value),
    ):
        value = b.mul(b.cast(alpha, kept), value)
        if not (isinstance(beta, ops.Constant) and beta.value == 0):
            value = b.add(value, b.mul(b.cast(beta, kept), b.cast(b.load(output, *indices), kept)))
        b.store(b.cast(value, element), output, *indices)


def _changing_inputs(operation: ops.Contraction) -> set[int]:
    """Return which inputs are the output where more is read of them than the element that is written, as in A := A A:
    a loop nest would read what it has written.
    """
    *inputs, (output, written) = operation.dimension_names
    sizes = ops.memref_type(output).shape
    return {number for number, (value, read) in enumerate(inputs) if value.name == output.name and any(
        one != other and size != 1 for one, other, size in zip(read, written, sizes, strict=True))}


def _with_one_name(operation: ops.Operation, views: Mapping[str, ops.Operation]) -> ops.Operation:
    """Return an instruction whose inputs are the output by its name where they are the same view by another one."""
    if not isinstance(operation, ops.Contraction):
        return operation
    return replace(operation, inputs=tuple(
        operation.output if _is_same_view(value, operation.output, views) else value for value in operation.inputs))


def _is_same_view(one: ops.Value, other: ops.Value, views: Mapping[str, ops.Operation]) -> bool:
    """Whether two memrefs are made alike, with the same operands; `views` has what makes memrefs of others."""
    if one == other or one.type != other.type:
        return one == other
    first, second = views.get(one.name), views.get(other.name)
    if first is None or second is None or type(first) is not type(second):
        return False
    assert first.viewed is not None
    assert second.viewed is not None
    return _is_same_view(first.viewed, second.viewed, views) and replace(
        first, source=second.viewed, result=other) == second  # type: ignore[call-arg]


def _with_copies(b: FunctionBuilder, operation: ops.Contraction) -> None:
    """Copy the inputs that change while they are read; raises LoweringError where there is no memory for that."""
    type = ops.memref_type(operation.output)
    if None in type.shape:
        message = (f"{operation.mnemonic} writes {operation.output} while it reads other elements of it, and only what "
                   "has known sizes is copied before")
        hint = "write to another memref, or give the sizes in the type"
        raise LoweringError(message, [Diagnostic(message, operation.span, hint)])
    copy = b.alloca(memref(type.element, *type.shape))
    b.axpby(1, operation.output, 0, copy)
    changing = _changing_inputs(operation)
    b.append(replace(operation, inputs=tuple(
        copy if number in changing else value for number, value in enumerate(operation.inputs))))


def _of_sizes(b: FunctionBuilder, memref: ops.Value, other: ops.Value) -> ops.Value:
    """Return a view of a memref with the sizes of another one, which are its own: ``debug=True`` checks the view."""
    shapes = zip(ops.memref_type(memref).shape, ops.memref_type(other).shape, strict=True)
    slices = [ALL if None not in sizes else (0, b.size(other, mode)) for mode, sizes in enumerate(shapes)]
    return memref if slices.count(ALL) == len(slices) else b.subview(memref, *slices)


def _access_once(b: FunctionBuilder, operation: ops.AtomicAccess) -> None:
    """One work-item accesses the element; it gives what was there to the others through a temporary."""
    if not operation.results:
        with b.foreach(0, 1):
            b.append(operation)
        return
    (result,) = operation.results
    found = b.alloca(memref(ops.scalar_type(result)))
    with b.foreach(0, 1):
        b.append(operation)  # whose result is visible in this region alone
        b.store(result, found)
    b.append(ops.Load(source=found, indices=(), result=result))


@contextmanager
def _running_sum(
    b: FunctionBuilder, source: ops.Value, others: list[ops.Value], mode: int, kept: ScalarType
) -> Iterator[tuple[list[ops.Value], ops.Value]]:
    """Write a loop along a mode; give the indices of each element, and the sum up to it in the type `kept`."""
    with b.for_carrying([b.cast(0, kept, source=kept)], 0, b.size(source, mode)) as loop:
        indices = [*others[:mode], loop.variable, *others[mode:]]
        total = b.add(loop.carried[0], b.cast(b.load(source, *indices), kept))
        yield indices, total
        b.yield_(total)


def decompose(function: ops.Function) -> ops.Function:
    """Return a function without the instructions that are lowered to others.

    Raises LoweringError, with its place, at linear algebra that has no loop nest and is not lowered to others.
    """
    if not any(_built_of_others(operation) is not None or isinstance(operation, ops.AtomicAccess)
               or _lacks_loops(operation) or _may_read_what_it_writes(operation) for operation in function.body.walk()):
        return function
    taken = {parameter.name for parameter in function.parameters}
    for operation in function.body.walk():
        taken.update(value.name for value in (*operation.results, *operation.loop_variables))
    return replace_body(function, _decomposed(function.body, taken))


def _built_of_others(operation: ops.Operation) -> Callable[[FunctionBuilder, Any], None] | None:
    """Return what builds an instruction of others; None where it stays."""
    if isinstance(operation, ops.Contraction) and _changing_inputs(operation):
        return _with_copies
    return _DECOMPOSITIONS.get(type(operation)) or complex_function(operation)


def _lacks_loops(operation: ops.Operation) -> bool:
    return isinstance(operation, ops.LinearAlgebra) and not has_loop_nest(operation)


def _may_read_what_it_writes(operation: ops.Operation) -> bool:
    return isinstance(operation, ops.Contraction) and any(
        value.type == operation.output.type for value in operation.inputs)


def _decomposed(
    region: ops.Region, taken: Set[str], is_collective: bool = True, outer: Mapping[str, ops.Operation] | None = None
) -> Iterator[ops.Operation]:
    """Yield the instructions of a region; `outer` has the views that are made outside of it."""
    views = dict(outer or {})
    for given in region:
        operation = _with_one_name(given, views)
        if operation.viewed is not None:
            views |= {result.name: operation for result in operation.results}
        build = _built_of_others(operation)
        if isinstance(operation, ops.AtomicAccess) and is_collective:
            build = _access_once
        if build is not None:
            # Parameters of these names keep the builder from giving them to other values.
            builder = FunctionBuilder("decomposition", dict.fromkeys(taken, INDEX))
            build(builder, operation)
            yield from _placed(builder.function().body, operation)
        elif _lacks_loops(operation):
            raise no_lowering(operation)
        else:
            inner = is_collective and not isinstance(operation, ops.Foreach)
            regions = [ops.Region(tuple(_decomposed(each, taken, inner, views))) for each in operation.regions]
            yield with_regions(operation, regions)


def _placed(region: ops.Region, origin: ops.Operation) -> Iterator[ops.Operation]:
    """Yield what was built for an instruction, at the place of that."""
    for operation in region:
        regions = [ops.Region(tuple(_placed(inner, origin))) for inner in operation.regions]
        yield replace(with_regions(operation, regions), span=origin.span)


def no_lowering(operation: ops.Operation) -> LoweringError:
    """Return the error for an instruction that the compiler has nothing for."""
    message = f"the instruction {operation.mnemonic} has no lowering: it runs on the reference target only"
    hint = 'use target="reference", or write it with other instructions'
    return LoweringError(message, [] if operation.span == ops.NO_SPAN else [Diagnostic(message, operation.span, hint)])
