"""Printer: the text of the IR, in the newer reference's spelling.

Each operation says how it is written; parsing what was printed gives an equal IR.  IR that breaks rules prints as well,
so that it can be looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

from tl_dpnp.language.ir import Function, Module, Operation, Region

__all__ = ["headline", "print_function", "print_module", "print_operation", "print_region"]

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
    return f"{results} = {operation.text}" if results else operation.text


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
