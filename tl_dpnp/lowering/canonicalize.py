"""Canonical form: instructions that loops are made of, unique names, folded constants, no dead or known code.

The passes after this one may use a value's name as its identity.
"""

from __future__ import annotations

import operator
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace

from tl_dpnp.language import ops
from tl_dpnp.language.interpreter import scalar as semantics
from tl_dpnp.lowering.decomposition import decompose
from tl_dpnp.lowering.fragment_choice import BlocksFit
from tl_dpnp.lowering.rewrite import map_operation, with_regions
from tl_dpnp.lowering.work_items import has_work_items, spread_work_items
from tl_dpnp.scalars import I1, ScalarType

__all__ = ["canonicalize", "fold_constants", "remove_dead_code", "rename_uniquely"]


def canonicalize(
    function: ops.Function, kept: Mapping[int, BlocksFit | None] | None = None,
    unrolled: Mapping[int, tuple[ops.Operation, ...]] | None = None,
) -> ops.Function:
    """Return `function` in canonical form; it computes the same.

    Regions of work-items stay whose numbers are `kept` (`fragments.py`), or become what they are `unrolled` to.
    """
    if has_work_items(function):
        function = spread_work_items(rename_uniquely(function), kept or {}, unrolled or {})
    return remove_dead_code(fold_constants(rename_uniquely(decompose(function))))


# --- unique names ----------------------------------------------------------------------------------------------------


def rename_uniquely(function: ops.Function) -> ops.Function:
    """Give each value a name of its own, where two regions use the same one."""
    taken = {parameter.name for parameter in function.parameters}
    visible: dict[str, ops.Operand] = {parameter.name: parameter for parameter in function.parameters}
    body = ops.Region(tuple(_rename_all(function.body, visible, taken)))
    return replace(function, body=body)


def _rename_all(
    region: ops.Region, outer: Mapping[str, ops.Operand], taken: set[str]
) -> Iterator[ops.Operation]:
    visible = dict(outer)

    def use(operand: ops.Operand) -> ops.Operand:
        return visible[operand.name] if isinstance(operand, ops.Value) else operand

    for operation in region:
        inner = dict(visible) if operation.regions else {}
        hidden = frozenset(map(id, operation.results))  # from the regions, which may use their names

        def define(
            value: ops.Value, inner: dict[str, ops.Operand] = inner, hidden: frozenset[int] = hidden
        ) -> ops.Value:
            name = _unused(value.name, taken)
            new = value if name == value.name else replace(value, name=name)
            if id(value) not in hidden:
                inner[value.name] = new
            return new

        def nested(body: ops.Region, inner: dict[str, ops.Operand] = inner) -> ops.Region:
            return ops.Region(tuple(_rename_all(body, inner, taken)))

        renamed = map_operation(operation, use, define, nested)
        for old, new in zip(operation.results, renamed.results, strict=True):
            visible[old.name] = new
        yield renamed


def _unused(name: str, taken: set[str]) -> str:
    new, count = name, 0
    while new in taken:
        count += 1
        # A number stays a number: an unnamed identifier has no letters.
        new = str(int(name) + count) if name.isdigit() else f"{name}_{count}"
    taken.add(new)
    return new


# --- constants -------------------------------------------------------------------------------------------------------


def fold_constants(function: ops.Function) -> ops.Function:
    """Compute what is known at compile time, with the interpreter's arithmetic.

    A beta that turns out to be 0 stays a value: the output is read then, which a constant 0 says that it is not.
    """
    betas = {operation.beta.name for operation in function.body.walk()
             if isinstance(operation, ops.LinearAlgebra) and isinstance(operation.beta, ops.Value)}
    return replace(function, body=ops.Region(tuple(_fold_all(function.body, {}, betas))))


def _fold_all(
    region: ops.Region, outer: Mapping[str, ops.Operand], betas: Container[str]
) -> Iterator[ops.Operation]:
    known: dict[str, ops.Operand] = dict(outer)

    def use(operand: ops.Operand) -> ops.Operand:
        return known.get(operand.name, operand) if isinstance(operand, ops.Value) else operand

    def nested(body: ops.Region) -> ops.Region:
        return ops.Region(tuple(_fold_all(body, known, betas)))

    def define(results: Sequence[ops.Value], values: Sequence[ops.Operand]) -> Iterator[ops.Operation]:
        for result, value in zip(results, values, strict=True):
            if result.name in betas and isinstance(value, ops.Constant) and value.value == 0:
                yield ops.Cast(operand=value, result=result)
            else:
                known[result.name] = value

    for operation in region:
        folded = map_operation(operation, use, lambda value: value, nested)
        constant = _value_of(folded)
        if constant is not None:
            yield from define(folded.results, (constant,))
        elif isinstance(folded, ops.If) and isinstance(folded.condition, ops.Constant):
            taken = (folded.then if folded.condition.value else folded.otherwise) or ops.Region()
            yield from (inner for inner in taken if not isinstance(inner, ops.Yield))
            for inner in taken:
                if isinstance(inner, ops.Yield):
                    yield from define(folded.outputs, inner.values)
        elif isinstance(folded, (ops.For, ops.Foreach)) and _never_runs(folded):
            if isinstance(folded, ops.For):
                yield from define(folded.outputs, folded.initial)
        else:
            yield folded


def _never_runs(loop: ops.For | ops.Foreach) -> bool:
    bounds = [(loop.start, loop.stop)] if isinstance(loop, ops.For) else zip(loop.starts, loop.stops, strict=True)
    return any(
        # Both are integers: the verifier saw to it.
        isinstance(start, ops.Constant) and isinstance(stop, ops.Constant)
        and start.value >= stop.value  # type: ignore[operator]
        for start, stop in bounds
    )


def _value_of(operation: ops.Operation) -> ops.Operand | None:
    """Return the constant, or the other value, that an operation's result is known to be."""
    match operation:
        case ops.Arith(kind=kind, lhs=ops.Constant() as lhs, rhs=ops.Constant() as rhs):
            if kind in ("div", "rem") and lhs.type.is_integer and rhs.value == 0:
                return None
            a, b = (semantics.from_python(c.value, c.type) for c in (lhs, rhs))
            if kind in ("shl", "shr") and not 0 <= int(b) < lhs.type.bits:
                return None
            return _constant(semantics.arith(kind, lhs.type, a, b), operation.result)
        case ops.Arith(kind=kind, lhs=lhs, rhs=ops.Constant(value=value, type=type_)) if type_.is_integer:
            neutral = {"add": 0, "sub": 0, "mul": 1, "div": 1, "shl": 0, "shr": 0, "or": 0, "xor": 0}
            return lhs if neutral.get(kind) == value else None
        case ops.Arith(kind=kind, lhs=ops.Constant(value=value, type=type_), rhs=rhs) if type_.is_integer:
            return rhs if {"add": 0, "mul": 1, "or": 0, "xor": 0}.get(kind) == value else None
        case ops.Arith(kind="and" | "or" as kind, lhs=lhs, rhs=rhs) if lhs.type == I1 and (
            isinstance(lhs, ops.Constant) or isinstance(rhs, ops.Constant)
        ):
            known, other = (lhs, rhs) if isinstance(lhs, ops.Constant) else (rhs, lhs)
            assert isinstance(known, ops.Constant)
            return known if bool(known.value) == (kind == "or") else other
        case ops.Unary(kind=kind, operand=ops.Constant() as operand):
            given = semantics.from_python(operand.value, operand.type)
            return _constant(semantics.unary(kind, operand.type, given), operation.result)
        case ops.Part(part=part, operand=ops.Constant() as operand, result=result):
            return _constant(semantics.part(part, semantics.from_python(operand.value, operand.type)), result)
        case ops.Cast(operand=ops.Constant() as operand, result=result):
            given = semantics.from_python(operand.value, operand.type)
            if not semantics.is_in_range(given, operand.type, ops.scalar_type(result)):
                return None
            return _constant(semantics.convert(given, operand.type, ops.scalar_type(result)), result)
        case ops.Cast(operand=operand, result=result) if operand.type == result.type:
            return operand
        case ops.Compare(kind=kind, lhs=ops.Constant() as lhs, rhs=ops.Constant() as rhs):
            a, b = (semantics.from_python(c.value, c.type) for c in (lhs, rhs))
            return ops.Constant(bool(semantics.compare(kind, a, b)), I1)
        case ops.Associated():  # the parameters that a call gives nothing for are gone (`presence.py`)
            return ops.Constant(True, I1)
        case ops.SizeOf(known=size, result=result):
            return None if size is None else _constant(size, result)
        case _:
            return None


def _constant(value: object, result: ops.Value) -> ops.Constant | None:
    """Return a constant of the result's type, or None for an integer that the language cannot spell."""
    type_ = result.type
    assert isinstance(type_, ScalarType)
    plain = value.item() if hasattr(value, "item") else value
    kind = bool if type_.is_boolean else int if type_.is_integer else float if type_.is_float else complex
    if type_.is_integer and abs(int(plain)) >= 1 << 63:  # type: ignore[arg-type]
        return None
    return ops.Constant(kind(plain), type_)  # type: ignore[arg-type]


# --- dead code -------------------------------------------------------------------------------------------------------

def remove_dead_code(function: ops.Function) -> ops.Function:
    """Drop operations whose results nobody uses, and temporaries that are only declared."""
    while True:
        used = {
            operand.name
            for operation in function.body.walk()
            if not isinstance(operation, ops.LifetimeStop)
            for operand in operation.operands
            if isinstance(operand, ops.Value)
        }
        body = _live(function.body, used)
        if body is function.body:
            return function
        function = replace(function, body=body)


def _live(region: ops.Region, used: set[str]) -> ops.Region:
    """Return a region without what nobody uses; the same one, if that is nothing."""
    kept: list[ops.Operation] = []
    for operation in region:
        if operation.pure and not any(result.name in used for result in operation.results):
            continue
        if isinstance(operation, ops.LifetimeStop) and operation.source.name not in used:
            continue
        kept.append(with_regions(operation, [_live(inner, used) for inner in operation.regions]))
    is_whole = len(kept) == len(region.operations) and all(map(operator.is_, kept, region))
    return region if is_whole else ops.Region(tuple(kept))
