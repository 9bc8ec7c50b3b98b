"""What a function needs of the device that it is compiled for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tl_dpnp.errors import Diagnostic, Span, UnsupportedError
from tl_dpnp.language import ops
from tl_dpnp.language.types import CooperativeMatrixType, GroupType, MemrefType
from tl_dpnp.scalars import C64, F16, F64, ScalarType
from tl_dpnp.target.device import Device

__all__ = ["check_requirements"]

#: Types that not every device computes with: what of its description says so, and what to write instead.
_OPTIONAL: dict[ScalarType | None, tuple[str, str]] = {
    F64: ("has_fp64", "use f32"), C64: ("has_fp64", "use c32"), F16: ("has_fp16", "use f32 or bf16"),
}
_NO_ATOMICS = "use elements of 32 bits; or leave .atomic away if no two work-groups write to the same element"
_NO_ATOMIC_PRODUCTS = "use a beta of a real type; or leave .atomic away if no two work-groups write to the same element"


def check_requirements(function: ops.Function, device: Device) -> None:
    """Raise UnsupportedError, with its place, at the first parameter or instruction that needs what a device lacks.

    That is f64, f16 and atomic updates of numbers of 64 bits on some.
    """
    for message, span, hint in _unmet(function, device):
        raise UnsupportedError(message, [] if span == ops.NO_SPAN else [Diagnostic(message, span, hint)])


def _unmet(function: ops.Function, device: Device) -> Iterator[tuple[str, Span, str]]:
    """Yield what is missing, where it is needed, and what to write instead."""
    for parameter in function.parameters:
        yield from _types(f"@{function.name}", (parameter,), parameter.span, device)
    for operation in function.body.walk():
        where = f"instruction {operation.mnemonic}"
        yield from _types(where, (*operation.operands, *operation.results), operation.span, device)
        if isinstance(operation, ops.LinearAlgebra) and operation.atomic:
            yield from _atomic_update(where, operation, device)
        if isinstance(operation, ops.AtomicAccess | ops.MatrixAtomicAccess):
            yield from _atomic_access(where, operation, device)


def _atomic_update(where: str, operation: ops.LinearAlgebra, device: Device) -> Iterator[tuple[str, Span, str]]:
    """Yield an atomic update that the device does not do."""
    output = operation.output
    element, beta = ops.memref_type(output).element, operation.beta
    is_by_parts = not complex(beta.value).imag if isinstance(beta, ops.Constant) else (
        not ops.scalar_type(beta).is_complex)
    bits = (element.part if is_by_parts else element).bits
    if bits > 64:
        yield (f"{where}.atomic multiplies {output} of type {output.type} by a beta that need not be real, and "
               f"{device.name} has no atomic operations of {bits} bits", operation.span, _NO_ATOMIC_PRODUCTS)
    elif bits == 64 and not device.has_atomic64:
        yield (f"{where}.atomic updates {output} of type {output.type}, and {device.name} has no atomic "
               "operations of 64 bits", operation.span, _NO_ATOMICS)


def _atomic_access(
    where: str, operation: ops.AtomicAccess | ops.MatrixAtomicAccess, device: Device
) -> Iterator[tuple[str, Span, str]]:
    """Yield what a device lacks for an atomic access."""
    memref, bits = operation.memref, ops.memref_type(operation.memref).element.part.bits
    if bits == 64 and not device.has_atomic64:
        yield (f"{where} accesses {memref} of type {memref.type}, and {device.name} has no atomic operations of {bits} "
               "bits", operation.span, "use elements of 32 bits")
    if operation.scope == "cross_device":
        yield (f"{where} has the scope .cross_device, and kernels for {device.name} are atomic within one device",
               operation.span, "write .device, and let kernels end between accesses of several devices")


def _types(
    where: str, operands: Iterable[ops.Operand], span: Span, device: Device
) -> Iterator[tuple[str, Span, str]]:
    """Yield the operands whose types the device does not compute with."""
    for operand in operands:
        element = _element(operand.type)
        what = f"{operand} of type" if isinstance(operand, ops.Value) else "a constant of type"
        if element in _OPTIONAL and not getattr(device, _OPTIONAL[element][0]):
            message = f"{device.name} does not compute with {element}"
            yield f"{where} has {what} {operand.type}, and {message}", span, _OPTIONAL[element][1]


def _element(type_: object) -> ScalarType | None:
    match type_:
        case ScalarType():
            return type_
        case MemrefType(element=element) | GroupType(memref=MemrefType(element=element)):
            return element
        case CooperativeMatrixType(component=component):
            return component
    return None
