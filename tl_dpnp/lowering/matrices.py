"""Instructions on cooperative matrices, as linear algebra and loops over components.

A cooperative matrix is kept in a temporary, which has one matrix for each sub-group.  Whatever a sub-group does with it
is done by the whole work-group, for one sub-group after another: products are ``gemm``, so that the engines and loop
nests of the device compute them, loads and stores ``axpby``, and all else is a ``foreach`` over components.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from tl_dpnp.language import ops
from tl_dpnp.language.builder import ALL, memref
from tl_dpnp.language.building import Argument
from tl_dpnp.language.instructions.componentwise import on_components
from tl_dpnp.language.types import CooperativeMatrixType
from tl_dpnp.lowering.rewrite import map_operation
from tl_dpnp.scalars import I32

if TYPE_CHECKING:
    from tl_dpnp.lowering.phases import Phases

__all__ = ["construct", "copy", "extract", "insert", "write"]


def construct(phases: Phases, operation: ops.CooperativeMatrixConstruct, target: ops.Value | None = None) -> None:
    """Write a matrix whose components are all the same, in memory of its own or in that of another one."""
    b, value, target = phases.b, phases.use(operation.value), target or phases.made(operation.result)
    element = ops.memref_type(target).element
    with _components(phases, ops.matrix_type(operation.result)) as indices:
        b.store(value if value.type == element else b.cast(value, element), target, *indices)


def copy(phases: Phases, source: ops.Value, target: ops.Value) -> None:
    """Write a copy of a matrix in memory."""
    phases.b.axpby(1, source, 0, target)


def write(phases: Phases, operation: ops.Operation) -> None:
    """Write an instruction that a sub-group does once, where that is begun."""
    b = phases.b
    match operation:
        case ops.CooperativeMatrixConstruct():
            construct(phases, operation)
        case ops.CooperativeMatrixMulAdd():
            _product(phases, operation)
        case ops.CooperativeMatrixReduction():
            _reduction(phases, operation)
        case ops.CooperativeMatrixScale(value=value, A=matrix, result=result):
            factor, source, target = phases.use(value), phases.matrix(matrix), phases.made(result, matrix)
            with _components(phases, ops.matrix_type(result)) as indices:
                b.store(b.mul(factor, b.load(source, *indices)), target, *indices)
        case ops.CooperativeMatrixApply():
            _apply(phases, operation)
        case ops.MatrixAccess():
            _access(phases, operation)
        case ops.ScalarOperation():
            _componentwise(phases, operation)
        case _:
            raise TypeError(f"{operation.mnemonic} is no instruction on cooperative matrices")


def _components(phases: Phases, type: CooperativeMatrixType) -> AbstractContextManager[tuple[ops.Value, ...]]:
    """Write a loop over rows and columns."""
    return phases.b.foreach_modes([0, 0], type.shape)


def _componentwise(phases: Phases, operation: ops.ScalarOperation) -> None:
    b, (result,) = phases.b, operation.results
    sources = {operand.name: phases.matrix(operand) for operand in operation.operands
               if isinstance(operand, ops.Value)}
    target = phases.made(result, *operation.operands)
    with _components(phases, ops.matrix_type(result)) as indices:
        def component(operand: ops.Operand) -> ops.Operand:
            return b.load(sources[operand.name], *indices) if isinstance(operand, ops.Value) else operand

        single = map_operation(on_components(operation), component, lambda value: value, lambda region: region)
        b.append(single)
        b.store(single.results[0], target, *indices)


def _converted(phases: Phases, source: ops.Value, target: ops.Value, type: CooperativeMatrixType) -> None:
    """Write a copy of a matrix with components of another type."""
    b, element = phases.b, ops.memref_type(target).element
    if ops.memref_type(source).element == element:
        copy(phases, source, target)
        return
    with _components(phases, type) as indices:
        b.store(b.cast(b.load(source, *indices), element), target, *indices)


def _product(phases: Phases, operation: ops.CooperativeMatrixMulAdd) -> None:
    """Sum up in place of the result, or where that has another type, in a temporary of the type that is kept."""
    type = ops.matrix_type(operation.result)
    first, second = map(phases.matrix, (operation.A, operation.B))
    target = total = phases.made(operation.result, operation.C)
    if operation.kept != type.component:
        total = phases.b.alloca(memref(operation.kept, *type.shape))
    constant = phases.constant(operation.C)
    is_zero = constant is not None and constant.is_zero
    if constant is not None:
        if not is_zero:
            construct(phases, constant, total)
    elif total is not target or not phases.shares(operation.result, operation.C):
        _converted(phases, phases.matrix(operation.C), total, type)
    phases.b.gemm(1, first, second, 0 if is_zero else 1, total)
    if total is not target:
        _converted(phases, total, target, type)


def _reduction(phases: Phases, operation: ops.CooperativeMatrixReduction) -> None:
    b, type = phases.b, ops.matrix_type(operation.A)
    source, target = phases.matrix(operation.A), phases.made(operation.result)
    if operation.combination == "add":
        line = b.subview(target, ALL, 0) if operation.axis else b.subview(target, 0, ALL)
        b.sum(1, source, 0, line, transpose=not operation.axis)
        return

    def place(kept: ops.Value, along: Argument) -> tuple[Argument, Argument]:
        return (kept, along) if operation.axis else (along, kept)

    with b.foreach(0, type.shape[1 - operation.axis]) as kept:
        first = b.load(source, *place(kept, 0))
        with b.for_carrying([first], 1, type.shape[operation.axis]) as loop:
            b.yield_(b.math(operation.combination, loop.carried[0], b.load(source, *place(kept, loop.variable))))
        b.store(loop.outputs[0], target, *place(kept, 0))


# --- accesses --------------------------------------------------------------------------------------------------------


def _access(phases: Phases, operation: ops.MatrixAccess) -> None:
    b, array = phases.b, phases.use(operation.memref)
    assert isinstance(array, ops.Value)
    first = [phases.use(index) for index in operation.indices]
    stored = None if isinstance(operation, ops.MatrixLoad) else phases.matrix(_stored(operation))
    target = phases.made(operation.results[0]) if operation.results else None
    if isinstance(operation, ops.MatrixAtomicAccess):
        _by_component(phases, operation, first, array, stored, target)
    elif any(operation.checked_modes):
        if target is not None:
            with _components(phases, operation.type) as indices:
                b.store(0, target, *indices)
        ranges = [_inside(phases, operation, first, array, mode) for mode in range(2)]
        with b.foreach_modes(*zip(*ranges, strict=True)) as indices:
            place = [b.add(start, index) for start, index in zip(first, indices, strict=True)]
            own = indices[::-1] if operation.transpose else indices
            if target is not None:
                b.store(b.load(array, *place), target, *own)
            else:
                assert stored is not None
                b.store(b.load(stored, *own), array, *place)
    else:
        part = b.subview(array, *zip(first, operation.extents, strict=True))
        if target is not None:
            b.axpby(1, part, 0, target, transpose=operation.transpose)
        else:
            b.axpby(1, stored, 0, part, transpose=operation.transpose)


def _stored(operation: ops.MatrixAccess) -> ops.Value:
    assert isinstance(operation, ops.MatrixStore | ops.MatrixAtomicUpdate)
    return operation.A


def _inside(
    phases: Phases, operation: ops.MatrixAccess, first: Sequence[ops.Operand], array: ops.Value, mode: int
) -> tuple[Argument, Argument]:
    """Write the range of those indices of a tile along a mode that are inside of the array, where that is checked."""
    b, extent = phases.b, operation.extents[mode]
    if not operation.checked_modes[mode]:
        return 0, extent
    start = first[mode]
    return b.math("max", b.sub(0, start), 0), b.math("min", b.sub(b.size(array, mode), start), extent)


def _by_component(
    phases: Phases, operation: ops.MatrixAtomicAccess, first: Sequence[ops.Operand], array: ops.Value,
    stored: ops.Value | None, target: ops.Value | None,
) -> None:
    """Write an atomic access to each component that is inside of what is checked; the result of others is 0."""
    b = phases.b
    sizes = [b.size(array, mode) if checked else None for mode, checked in enumerate(operation.checked_modes)]
    with b.foreach_modes([0, 0], operation.extents) as indices:
        place = [b.add(start, index) for start, index in zip(first, indices, strict=True)]
        own = indices[::-1] if operation.transpose else indices
        _where_inside(phases, operation, place, sizes, lambda: (
            None if stored is None else b.load(stored, *own)), array, target, own)


def _where_inside(
    phases: Phases, operation: ops.MatrixAtomicAccess, place: Sequence[ops.Value], sizes: Sequence[ops.Value | None],
    value: Callable[[], ops.Value | None], array: ops.Value, target: ops.Value | None, own: Sequence[ops.Value],
) -> None:
    """Write the access to one element, where it is inside of what is checked; else the result is 0."""
    b = phases.b
    inside: ops.Value | None = None
    for index, size in zip(place, sizes, strict=True):
        if size is not None:
            fits = b.arith("and", b.cmp("ge", index, 0), b.cmp("lt", index, size))
            inside = fits if inside is None else b.arith("and", inside, fits)

    def access() -> ops.Value | None:
        given, method = value(), getattr(b, operation.single.mnemonic)
        found: ops.Value | None = method(*(() if given is None else (given,)), array, *place,
                                         scope=operation.scope, semantics=operation.semantics)
        return found

    if inside is None:
        found = access()
    elif target is None:
        with b.if_(inside):
            access()
        return
    else:
        component = operation.type.component
        with b.if_(inside, component) as branch:
            got = access()
            assert got is not None
            b.yield_(got)
        with b.else_():
            b.yield_(0)
        found = branch.results[0]
    if target is not None:
        assert found is not None
        b.store(found, target, *own)


# --- components of work-items ----------------------------------------------------------------------------------------


def _apply(phases: Phases, operation: ops.CooperativeMatrixApply) -> None:
    """Loop over components; by the work-items that hold them where the body uses values of those."""
    b, type = phases.b, ops.matrix_type(operation.result)
    sources = [phases.matrix(matrix) for matrix in operation.matrices]
    target = phases.made(operation.result, *operation.matrices)

    def compute(i: ops.Value, j: ops.Value) -> None:
        row, column, *components = operation.variables
        phases.here[row.name], phases.here[column.name] = b.cast(i, I32), b.cast(j, I32)
        for variable, source in zip(components, sources, strict=True):
            phases.here[variable.name] = b.load(source, i, j)
        for inner in operation.body:
            if isinstance(inner, ops.Yield):
                b.store(phases.use(inner.values[0]), target, i, j)
            else:
                b.append(phases.mapped(inner))

    outside, saved = phases.indices, dict(phases.here)
    if phases.are_uniform(*_uses(operation.body)):
        with _components(phases, type) as (i, j):
            compute(i, j)
            phases.here = saved
        return
    rows, lanes = min(type.rows, phases.items.lanes), phases.items.lanes
    with b.foreach(0, lanes) as lane:
        phases.indices, phases.here = (lane, outside[1]), {}
        with b.for_(0, type.rows // rows) as block, b.for_(0, -(-rows * type.columns // lanes)) as number:
            i = b.add(b.rem(lane, rows), b.mul(block, rows))
            j = b.add(b.div(lane, rows), b.mul(number, lanes // rows))
            with b.if_(b.cmp("lt", j, type.columns)):
                phases.here = {}
                compute(i, j)
    phases.indices, phases.here = outside, saved


def _uses(region: ops.Region) -> list[ops.Operand]:
    """Return all operands in a region."""
    return [operand for operation in region.walk() for operand in operation.operands]


def component_of(phases: Phases, operation: ops.OwnComponent) -> tuple[ops.Value, ops.Value, ops.Value | None]:
    """Return row and column of a component of the work-item, and whether there is one where that is open."""
    b, type, lanes = phases.b, ops.matrix_type(operation.A), phases.items.lanes
    rows = min(type.rows, lanes)
    block, number = divmod(operation.component, -(-rows * type.columns // lanes))
    phases.enter()
    lane = phases.indices[0]
    i = b.add(b.rem(lane, rows), rows * block)
    j = b.add(b.div(lane, rows), number * (lanes // rows))
    last = (lanes - 1) // rows + number * (lanes // rows)
    return i, j, None if last < type.columns else b.cmp("lt", j, type.columns)


def extract(phases: Phases, operation: ops.CooperativeMatrixExtract) -> ops.Value:
    """Write the load of a component of each work-item."""
    i, j, exists = component_of(phases, operation)
    source = phases.matrix(operation.A)
    if exists is None:
        return phases.b.load(source, i, j)
    with phases.b.if_(exists, ops.matrix_type(operation.A).component) as branch:
        phases.b.yield_(phases.b.load(source, i, j))
    with phases.b.else_():
        phases.b.yield_(0)
    return branch.results[0]


def insert(phases: Phases, operation: ops.CooperativeMatrixInsert) -> None:
    """Write the store of a component of each work-item."""
    value = phases.use(operation.value)
    i, j, exists = component_of(phases, operation)
    target = phases.made(operation.result)
    if exists is None:
        phases.b.store(value, target, i, j)
        return
    with phases.b.if_(exists):
        phases.b.store(value, target, i, j)
