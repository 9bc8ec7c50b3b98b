"""The arguments of a call as the interpreter's values, checked against the parameters' types.

Source: docs/calling.md: scalar; one array for a memref (mode i is axis i); a sequence of arrays for a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tl_dpnp.errors import Diagnostic, LayoutError, TLBindingError, TLError, TLTypeError
from tl_dpnp.language import ops
from tl_dpnp.language.assertions import violation
from tl_dpnp.language.interpreter.memory import Group, allocate_with, restride, shifted
from tl_dpnp.language.interpreter.scalar import Array, Scalar, from_python, unpacked
from tl_dpnp.language.types import GroupType, MemrefType
from tl_dpnp.scalars import ScalarType

__all__ = ["bind"]


def bind(function: ops.Function, arguments: Sequence[object]) -> dict[str, Any]:
    """Return the parameters' values by name.

    Raises `TLTypeError`, `TLBindingError` or `LayoutError`, naming the parameter.
    """
    if len(arguments) != len(function.parameters):
        raise TLBindingError(
            f"@{function.name} takes {len(function.parameters)} arguments, {len(arguments)} were given"
        )
    asked = {operation.asked.name for operation in function.body.walk() if operation.asked is not None}
    values = {p.name: None if argument is None and p.name in asked else _bind_one(p, argument)
              for p, argument in zip(function.parameters, arguments, strict=True)}
    for assertion in function.assertions:
        _check(assertion, next(p for p in function.parameters if p.name == assertion.parameter), values)
    return values


def _check(assertion: ops.Assertion, parameter: ops.Value, values: dict[str, Any]) -> None:
    """Check sizes and strides; where arrays lie on the host says nothing of where they lie on a device."""
    value = values[assertion.parameter]
    for array in () if value is None else value.arrays if isinstance(value, Group) else [value]:
        strides = [stride // array.itemsize for stride in array.strides]
        broken = violation(assertion, array.shape, strides)
        if broken is not None:
            raise _refuse(TLBindingError, parameter, broken)


def _bind_one(parameter: ops.Value, argument: Any) -> Any:
    match parameter.type:
        case ScalarType() as scalar_type:
            return _scalar(parameter, scalar_type, argument)
        case MemrefType() as memref:
            return _memref(parameter, memref, argument)
        case GroupType() as group:
            return _group(parameter, group, argument)


def _refuse(error: type[TLError], parameter: ops.Value, message: str) -> TLError:
    return error.from_diagnostics([Diagnostic(f"argument for {parameter} : {parameter.type}: {message}",
                                              parameter.span)])


def _scalar(parameter: ops.Value, scalar_type: ScalarType, argument: Any) -> Scalar:
    kinds = {"boolean": "biu", "signed": "iu", "unsigned": "iu", "float": "fiu", "complex": "cfiu"}[scalar_type.kind]
    number = np.asarray(argument)
    if number.ndim != 0 or number.dtype.kind not in kinds:
        raise _refuse(TLTypeError, parameter, f"{argument!r} is no {scalar_type}")
    value = number.item()
    if (scalar_type.is_integer or scalar_type.is_boolean) and not scalar_type.minimum <= value <= scalar_type.maximum:
        raise _refuse(TLBindingError, parameter,
                      f"{value} is outside {scalar_type.minimum} to {scalar_type.maximum}")
    return from_python(value, scalar_type)


def _memref(parameter: ops.Value, memref: MemrefType, array: Any) -> Array:
    if not isinstance(array, np.ndarray):
        raise _refuse(TLTypeError, parameter, f"a {type(array).__name__} is no NumPy array")
    if memref.element.name == "bf16" and array.dtype.name == "bfloat16":
        array = array.view(np.uint16)
    if array.dtype != np.dtype(memref.element.storage):
        raise _refuse(TLTypeError, parameter, f"the array's dtype is {array.dtype}, not {memref.element.storage}")
    if memref.element.is_subbyte:
        array = _unpacked(parameter, memref, array)
    if array.ndim != memref.order or any(
        size not in (None, actual) for size, actual in zip(memref.shape, array.shape, strict=True)
    ):
        raise _refuse(TLBindingError, parameter, f"the array's shape is {array.shape}")
    if any(stride % array.itemsize for stride in array.strides):
        raise _refuse(LayoutError, parameter, f"the array's strides {array.strides} are no multiples of its elements")
    actual_strides = tuple(stride // array.itemsize for stride in array.strides)
    # NumPy gives a mode of at most one element any stride; there, and only there, the declared one is taken instead.
    for size, declared, actual in zip(array.shape, memref.strides, actual_strides, strict=True):
        if size > 1 and array.size and declared not in (None, actual):
            raise _refuse(LayoutError, parameter, f"the array's strides, in elements, are {actual_strides}, "
                                                  f"the layout's are {memref.strides}")
    strides = [actual if declared is None else declared
               for declared, actual in zip(memref.strides, actual_strides, strict=True)]
    return restride(array, array.shape, strides)


def _unpacked(parameter: ops.Value, memref: MemrefType, array: Array) -> Array:
    """Return the elements of an array of bytes, at the strides in elements that the bytes have."""
    if array.ndim == 0 or (array.shape[0] > 1 and array.strides[0] != 1):
        raise _refuse(LayoutError, parameter, f"{memref.element.per_byte} elements share a byte along axis 0, whose "
                                              "stride must be 1")
    values = unpacked(array, memref.element)
    strides = [1, *(stride * memref.element.per_byte for stride in array.strides[1:])]
    if not array.size:
        return values
    result = allocate_with(values.shape, [max(stride, 1) for stride in strides], values.dtype)
    result[...] = values
    return result


def _group(parameter: ops.Value, group: GroupType, argument: Any) -> Group:
    arrays = getattr(argument, "arrays", argument)
    given = getattr(argument, "offset", None)
    if not isinstance(arrays, Sequence):
        raise _refuse(TLTypeError, parameter, f"a {type(argument).__name__} is no list of arrays")
    if group.length not in (None, len(arrays)):
        raise _refuse(TLBindingError, parameter, f"it takes {group.length} arrays, it was given {len(arrays)}")
    if group.offset is not None and given not in (None, 0, group.offset):
        raise _refuse(TLBindingError, parameter, f"its offset is {given}, the type's is {group.offset}")
    offset = group.offset if group.offset is not None else given or 0
    if group.memref.element.is_subbyte:
        # An offset may reach out of an array, which has to be unpacked behind it then.
        per_byte = group.memref.element.per_byte
        if offset % per_byte:
            raise _refuse(TLBindingError, parameter, f"its offset {offset} is inside a byte of {per_byte} elements")
        arrays, offset = [shifted(array, offset // per_byte) for array in arrays], 0
    return Group(tuple(_memref(parameter, group.memref, array) for array in arrays), offset)
