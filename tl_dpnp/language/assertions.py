"""What a program asserts of the arrays that it is called with: what is legal, and whether an array keeps it.

Source: language 0.4, section "Attributes".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tl_dpnp.language.ir import Assertion
from tl_dpnp.language.rule_error import RuleError
from tl_dpnp.language.type_rules import describe
from tl_dpnp.language.types import GroupType, MemrefType, Size, Type

__all__ = ["alignment_error", "assertion_errors", "assertion_text", "violation"]


def alignment_error(alignment: int, memref: MemrefType) -> RuleError | None:
    """Return what is wrong with an alignment in bytes, or None."""
    element = memref.element.bytes_of(1)
    if alignment > 0 and alignment % element == 0:
        return None
    message = f"the alignment {alignment} is no multiple of the {element} bytes of an element of {memref.element}"
    return RuleError(message, f"write alignment={max(-(-alignment // element), 1) * element}")


def assertion_errors(assertion: Assertion, type: Type) -> Iterator[RuleError]:
    """Yield what is wrong with an assertion about a parameter of a type, also what the type itself contradicts."""
    memref = type.memref if isinstance(type, GroupType) else type
    if not isinstance(memref, MemrefType):
        yield RuleError(f"{describe(type)} has no attributes", "those of memrefs and groups are alignment, shape_gcd "
                        "and stride_gcd")
        return
    if assertion.alignment is not None:
        error = alignment_error(assertion.alignment, memref)
        if error is not None:
            yield error
    for name, numbers, known in (("shape_gcd", assertion.shape_gcd, memref.shape),
                                 ("stride_gcd", assertion.stride_gcd, memref.strides)):
        if len(numbers) > memref.order:
            modes = f"{memref.order} mode{'s' * (memref.order != 1)}"
            yield RuleError(f"{name} has {len(numbers)} numbers, and {memref} has {modes}",
                            f"write at most {memref.order}")
        elif any(number < 1 for number in numbers):
            yield RuleError(f"{name} has a number below 1", "leave a mode to 1 where nothing is known")
        else:
            mode = _broken(numbers, known, memref.shape if name == "stride_gcd" else None)
            if mode is not None:
                what = "size of mode" if name == "shape_gcd" else "stride of mode"
                yield RuleError(f"{name} says that the {what} {mode} is a multiple of {numbers[mode]}, and in "
                                f"{memref} it is {known[mode]}", f"write {known[mode]}, or a divisor of it")


def violation(
    assertion: Assertion, shape: Sequence[int], strides: Sequence[int], address: int | None = None
) -> str | None:
    """Return what an array breaks of an assertion, or None.

    `shape` and `strides` are in elements; `address` is None where nobody looks at it.  An array without elements keeps
    any assertion about strides and addresses.
    """
    mode = _broken(assertion.shape_gcd, shape, None)
    if mode is not None:
        return f"shape_gcd: the size {shape[mode]} of mode {mode} is no multiple of {assertion.shape_gcd[mode]}"
    if not math.prod(shape):
        return None
    mode = _broken(assertion.stride_gcd, strides, shape)
    if mode is not None:
        return (f"stride_gcd: the stride {strides[mode]} of mode {mode}, in elements, is no multiple of "
                f"{assertion.stride_gcd[mode]}")
    if address is not None and assertion.alignment is not None and address % assertion.alignment:
        return f"alignment: the address {address:#x} is no multiple of {assertion.alignment} bytes"
    return None


def _broken(numbers: Sequence[int], known: Sequence[Size], shape: Sequence[Size] | None) -> int | None:
    """Return the first mode whose size or stride is no multiple; a mode of one element may have any stride."""
    for mode, (number, size) in enumerate(zip(numbers, known, strict=False)):
        if size is not None and size % number and (shape is None or shape[mode] != 1):
            return mode
    return None


def assertion_text(assertion: Assertion) -> str:
    """Return the attributes that say an assertion."""
    given = [] if assertion.alignment is None else [f"alignment={assertion.alignment}"]
    given += [f"{name}=[{', '.join(map(str, numbers))}]" for name, numbers in (
        ("shape_gcd", assertion.shape_gcd), ("stride_gcd", assertion.stride_gcd)) if numbers]
    return f"{{{', '.join(given)}}}"
