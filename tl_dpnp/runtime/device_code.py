"""What the adapters of numba-dpex and numba-cuda share: a host for bodies, a kernel of Numba that only calls one.

Numba compiles a host once for each list of argument types.  The function that it calls, `BODY_NAME`, is declared there
and defined by the module of a body, which is linked to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from llvmlite import ir

from tl_dpnp.errors import UnsupportedError
from tl_dpnp.lowering.body.emission import BODY_NAME
from tl_dpnp.lowering.body.tree import Argument

__all__ = ["MOST_HOSTS", "DeviceCode", "call_body", "host_function", "signature_of"]

#: Hosts that an adapter keeps, of 40 KB each.
MOST_HOSTS = 256
_NAMES = {"f16": "float32", "bf16": "float32", "f32": "float32", "f64": "float64", "index": "int64"}
#: The most elements of a tuple that Python makes at once; of more it makes a list first, which Numba refuses.
_MOST_ELEMENTS = 30


class DeviceCode(NamedTuple):
    """A compiled kernel: its SPIR-V module or PTX, its name in there, and the LLVM IR that it was made from."""

    binary: bytes
    entry: str
    llvm: str


def signature_of(arguments: Sequence[Argument], types: Any) -> tuple[Any, ...]:
    """Return Numba's types of the arguments of a kernel, taken from a module such as ``numba.core.types``.

    Raises `UnsupportedError` for a type that Numba lacks.
    """
    for argument in arguments:
        if argument.type.name not in _NAMES:
            raise UnsupportedError(f"no kernel takes an argument of type {argument.type}")
    return tuple(getattr(types, _NAMES[argument.type.name]) for argument in arguments)


def host_function(count: int, first: str, body: Any) -> Callable[..., None]:
    """Return a Python function of `count` arguments that calls `body` with all of them, in tuples of tuples.

    `first` is what stands in front of its parameters.
    """
    names = [f"a{number}" for number in range(count)]
    nested = names
    while len(nested) > _MOST_ELEMENTS:
        nested = [_tuple(nested[start:start + _MOST_ELEMENTS]) for start in range(0, len(nested), _MOST_ELEMENTS)]
    namespace: dict[str, Any] = {"tl_body": body}
    exec(f"def tl_kernel({first}{', '.join(names)}):\n    tl_body({_tuple(nested)})\n", namespace)
    function: Callable[..., None] = namespace["tl_kernel"]
    return function


def _tuple(entries: Sequence[str]) -> str:
    return f"({', '.join(entries)},)"


def call_body(builder: ir.IRBuilder, arguments: ir.Value, calling_convention: str) -> None:
    """Emit the call of a body with the elements of tuples."""
    values = list(_elements(builder, arguments))
    type_ = ir.FunctionType(ir.VoidType(), [value.type for value in values])
    function = ir.Function(builder.module, type_, BODY_NAME)
    function.calling_convention = calling_convention
    builder.call(function, values, cconv=calling_convention)


def _elements(builder: ir.IRBuilder, value: ir.Value) -> Iterator[ir.Value]:
    if isinstance(value.type, ir.Aggregate):
        for place in range(len(value.type)):
            yield from _elements(builder, builder.extract_value(value, place))
    else:
        yield value
