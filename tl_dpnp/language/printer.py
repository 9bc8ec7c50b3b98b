"""Printer: the text of the IR, in the newer reference's spelling.

Parsing what was printed gives an equal IR.  IR that breaks rules prints as well, so that it can be looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

from tl_dpnp.language.constants import format_constant
from tl_dpnp.language.ops import (
    Alloca,
    Arith,
    Barrier,
    Cast,
    Compare,
    Constant,
    Expand,
    For,
    Foreach,
    Function,
    Fuse,
    GroupId,
    GroupSize,
    If,
    LifetimeStop,
    LinearAlgebra,
    Load,
    Math,
    Module,
    Operand,
    Operation,
    Region,
    SizeOf,
    Slice,
    Store,
    Subview,
    Unary,
    Value,
    Yield,
)
from tl_dpnp.scalars import INDEX

__all__ = ["headline", "mnemonic", "print_function", "print_module", "print_operation", "print_region"]

_INDENT = "  "


def print_module(module: Module) -> str:
    """Return the text of a module, its functions separated by empty lines."""
    return "\n".join(print_function(function) for function in module)


def print_function(function: Function) -> str:
    """Return the text of a function, ending in a newline."""
    parameters = ", ".join(f"{value}: {value.type}" for value in function.parameters)
    attributes = ""
    if function.work_group_size is not None:
        attributes += " work_group_size({}, {})".format(*function.work_group_size)
    if function.subgroup_size is not None:
        attributes += f" subgroup_size({function.subgroup_size})"
    lines = [f"func @{function.name}({parameters}){attributes} {{", *_region(function.body, 1), "}"]
    return "\n".join(lines) + "\n"


def print_region(region: Region, indent: int = 0) -> str:
    """Return the text of the operations of a region, without its braces."""
    return "\n".join(_region(region, indent))


def print_operation(operation: Operation, indent: int = 0) -> str:
    """Return the text of an operation, its regions included, without a newline at the end."""
    return "\n".join(_operation(operation, indent))


def headline(operation: Operation) -> str:
    """Return the text of an operation without its regions."""
    results = ", ".join(map(str, operation.results))
    return f"{results} = {_text(operation)}" if results else _text(operation)


def _region(region: Region, indent: int) -> Iterator[str]:
    for operation in region:
        yield from _operation(operation, indent)


def _operation(operation: Operation, indent: int) -> Iterator[str]:
    margin = _INDENT * indent
    head = margin + headline(operation)
    if not operation.regions:
        yield head
        return
    yield f"{head} {{"
    for number, region in enumerate(operation.regions):
        if number:
            yield f"{margin}}} else {{"
        yield from _region(region, indent + 1)
    yield f"{margin}}}"


def _operand(operand: Operand) -> str:
    return str(operand) if isinstance(operand, Value) else format_constant(operand.value, operand.type)


def _list(operands: tuple[Operand, ...]) -> str:
    return ", ".join(map(_operand, operands))


def _text(operation: Operation) -> str:
    """Return the text of an operation without its results and regions."""
    match operation:
        case Arith(kind=kind, lhs=lhs, rhs=rhs, result=result):
            return f"arith.{kind} {_operand(lhs)}, {_operand(rhs)} : {result.type}"
        case Unary(kind=kind, operand=operand, result=result):
            return f"arith.{kind} {_operand(operand)} : {result.type}"
        case Math(kind=kind, arguments=arguments, result=result):
            return f"math.{kind} {_list(arguments)} : {result.type}"
        case Cast(operand=operand, result=result):
            return f"cast {_operand(operand)} : {operand.type} -> {result.type}"
        case Compare(kind=kind, lhs=lhs, rhs=rhs):
            return f"cmp.{kind} {_operand(lhs)}, {_operand(rhs)} : {lhs.type}"
        case GroupId():
            return "group_id"
        case GroupSize():
            return "group_size"
        case Alloca(result=result):
            return f"alloca -> {result.type}"
        case LifetimeStop(source=source):
            return f"lifetime_stop {source}"
        case Barrier():
            return "barrier"
        case Load(source=source, indices=indices):
            return f"load {source}[{_list(indices)}] : {source.type}"
        case Store(value=value, target=target, indices=indices):
            return f"store {_operand(value)}, {target}[{_list(indices)}] : {target.type}"
        case SizeOf(source=source, mode=mode):
            return f"size {source}[{mode}] : {source.type}"
        case Expand(source=source, mode=mode, shape=shape):
            sizes = " x ".join("?" if size is None else _operand(size) for size in shape)
            return f"expand {source}[{mode} -> {sizes}] : {source.type}"
        case Fuse(source=source, first=first, last=last):
            return f"fuse {source}[{first}, {last}] : {source.type}"
        case Subview(source=source, slices=slices):
            return f"subview {source}[{', '.join(map(_slice, slices))}] : {source.type}"
        case Yield(values=values):
            return f"yield {_list(values)} : {', '.join(str(v.type) for v in values)}" if values else "yield"
        case If(condition=condition, outputs=outputs):
            types = f" -> ({', '.join(str(value.type) for value in outputs)})" if outputs else ""
            return f"if {_operand(condition)}{types}"
        case For(variable=variable, start=start, stop=stop, step=step):
            default = isinstance(step, Constant) and step.value == 1
            bounds = (start, stop) if default else (start, stop, step)
            return f"for {variable} = {_list(bounds)}{_loop_type(variable)}"
        case Foreach(variables=(variable,), starts=(start,), stops=(stop,)):
            return f"foreach {variable} = {_list((start, stop))}{_loop_type(variable)}"
        case Foreach(variables=variables, starts=starts, stops=stops):
            types = ", ".join(str(variable.type) for variable in variables)
            ranges = f"({_list(variables)}) = ({_list(starts)}), ({_list(stops)})"
            is_plain = all(variable.type == INDEX for variable in variables)
            return f"foreach {ranges}" if is_plain else f"foreach {ranges} : {types}"
        case LinearAlgebra():
            return _linear_algebra(operation)
    raise TypeError(f"{type(operation).__name__} is no operation of the tensor language")


def _loop_type(variable: Value) -> str:
    return "" if variable.type == INDEX else f" : {variable.type}"


def _slice(entry: Slice) -> str:
    offset = _operand(entry.offset)
    if entry.is_index:
        return offset
    if entry.size is not None:
        return f"{offset}:{_operand(entry.size)}"
    return ":" if isinstance(entry.offset, Constant) and entry.offset.value == 0 else f"{offset}:?"


def _linear_algebra(operation: LinearAlgebra) -> str:
    name = type(operation).__name__.lower()
    modifiers = "".join(".t" if flag else ".n" for flag in operation.transposes)
    modifiers += (f".{operation.precision}" if operation.precision else "") + ".atomic" * operation.atomic
    operands = operation.operands
    types = ", ".join(str(operand.type) for operand in operands)
    return f"{name}{modifiers} {_list(operands)} : {types}"


def mnemonic(operation: Operation) -> str:
    """Return the name of the instruction without its modifiers: ``gemm``, ``foreach``."""
    return _text(operation).split(maxsplit=1)[0].split(".")[0]
