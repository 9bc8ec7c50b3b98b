"""What a function needs of the device that it is compiled for."""

from __future__ import annotations

from tl_dpnp.errors import Diagnostic, Span, UnsupportedError
from tl_dpnp.language import ops
from tl_dpnp.language.types import GroupType, MemrefType
from tl_dpnp.lowering.device import DeviceDescription
from tl_dpnp.scalars import F64, ScalarType

__all__ = ["check_requirements"]


def check_requirements(function: ops.Function, device: DeviceDescription) -> None:
    """Raise UnsupportedError, with its place, at the first use of f64 on a device that does not compute with it."""
    if device.has_fp64:
        return
    for value in function.parameters:
        _check(value, function.span, device)
    for operation in function.body.walk():
        for operand in (*operation.operands, *operation.results):
            _check(operand, operation.span, device)


def _check(operand: ops.Operand, span: Span, device: DeviceDescription) -> None:
    if _element(operand.type) == F64:
        message = f"{operand} has type {operand.type}, and {device.name} does not compute with f64"
        place = [] if span == ops.NO_SPAN else [Diagnostic(message, span, "use f32")]
        raise UnsupportedError(message, place)


def _element(type_: object) -> ScalarType | None:
    match type_:
        case ScalarType():
            return type_
        case MemrefType(element=element) | GroupType(memref=MemrefType(element=element)):
            return element
    return None
