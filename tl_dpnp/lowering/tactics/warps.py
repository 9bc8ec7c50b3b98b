"""Warps of a team compute products on tensor cores: which of a function in the staged form, and how."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence, Set

from tl_dpnp.kernels.mma.padded_product import PaddedProduct, find_packed_product, find_padded_product
from tl_dpnp.kernels.mma.product import WarpProduct, find_product
from tl_dpnp.language import ops
from tl_dpnp.lowering.memory import size_in_bytes
from tl_dpnp.lowering.tactics.rounding import rounding
from tl_dpnp.scalars import Precision
from tl_dpnp.target.launches import PersistentNumbers

__all__ = [
    "chain_products", "chain_warps", "has_known_strides", "instructions_of", "lone_product", "packed_product",
    "resident_stride", "sizes_of", "warps_of_narrow",
]

#: Warps of a team that computes a chain of products on tensor cores, and 32-bit registers that the sums of a lane take.
_WARPS, _REGISTERS = (2, 4, 8), 64
#: Types of A, B and C whose products tensor cores compute; sums of operands of 16 bits are in f32 and rounded once.
_PRODUCTS = {
    ("f64", "f64", "f64"), ("f32", "f32", "f32"),
    *((name, name, result) for name in ("f16", "bf16") for result in (name, "f32")),
}
#: Elements that columns may be further apart than they are long, at most.
_MOST_PADDING = 16


def lone_product(
    function: ops.Function, whole: Set[str], precision: Precision, numbers: PersistentNumbers
) -> WarpProduct | None:
    """Return how tensor cores compute the one instruction of a function, if they do and it is worth it.

    `whole` are the values that are whole operands in local memory, as loads of matrices of 16 bits need them.
    """
    match instructions_of(function):
        case [ops.Contraction(is_matrix_product=True, inputs=(left, right)) as gemm] if (
            all(map(has_known_strides, (left, right, gemm.output)))
        ):
            found = _rounded_type(gemm, precision)
            m, n, k = sizes_of(gemm)
            match found:
                case None:
                    return None
                case ("f64", _) if m * n < numbers.large_f64:
                    return None
                case ("f16" | "bf16", _) if not {left.name, right.name} <= whole:
                    return None
                case (name, is_split):
                    return find_product(name, m, n, k, is_split)
    return None


def chain_warps(
    function: ops.Function, precision: Precision, intensity: float, local: Set[str], numbers: PersistentNumbers
) -> int | None:
    """Return how many warps compute the products of a work-group on tensor cores; None if that is not worth it.

    `intensity` is the number of operations for each element that is copied, `local` the values in local memory.
    """
    products = [operation for operation in instructions_of(function) if operation.is_matrix_product]
    types = [_rounded_type(gemm, precision) for gemm in products]
    # Three products for one are slower than multiply-adds.
    if not products or any(type_ is None or type_[1] for type_ in types):
        return None
    if not all(value.name in local and has_known_strides(value)
               for gemm in products for value in (*gemm.inputs, gemm.output)):
        return None
    is_large = _is_large_and_padded(function, types[0], numbers) or _are_large_f64(products, types, numbers)
    if intensity <= numbers.intense and not is_large:
        return None
    for warps in _WARPS:
        found = chain_products(function, precision, warps, 1, {}, frozenset())
        if all(product.registers <= _REGISTERS for product in found if product is not None):
            return warps
    return None


def warps_of_narrow(function: ops.Function, precision: Precision, local: Set[str]) -> int | None:
    """Return how many warps compute the one product of operands of 16 bits that is all a function does.

    None for other functions.  They are as few as have registers for the sums: each loads all of one factor.
    """
    match instructions_of(function):
        case [ops.Contraction(is_matrix_product=True) as gemm]:
            values = (*gemm.inputs, gemm.output)
            if ops.memref_type(gemm.inputs[0]).element.bits != 16 or _rounded_type(gemm, precision) is None or not all(
                    value.name in local and has_known_strides(value) for value in values):
                return None
            for warps in (1, *_WARPS):
                (product,) = chain_products(function, precision, warps, 1, {}, frozenset())
                if product is not None and product.registers <= _REGISTERS:
                    return warps
    return None


def _is_large_and_padded(
    function: ops.Function, rounded: tuple[str, bool] | None, numbers: PersistentNumbers
) -> bool:
    """Whether all that a function does is a large product that no tile divides."""
    match instructions_of(function), rounded:
        case [ops.Contraction(is_matrix_product=True) as gemm], (element, _):
            m, n, k = sizes_of(gemm)
            return m * n >= dict(numbers.large_padded).get(element, math.inf) and find_product(element, m, n, k) is None
    return False


def _are_large_f64(
    products: Sequence[ops.LinearAlgebra], rounded: Sequence[tuple[str, bool] | None], numbers: PersistentNumbers
) -> bool:
    """Whether several products of f64 are large enough on the average."""
    multiplications = statistics.fmean(math.prod(sizes_of(gemm)) for gemm in products)
    return (len(products) > 1 and set(rounded) == {("f64", False)}
            and multiplications >= numbers.multiplications_of_chain)


def packed_product(gemm: ops.LinearAlgebra, precision: Precision, warps: int) -> PaddedProduct | None:
    """Return how so many warps compute a product of operands of 16 bits that are packed; None for other products."""
    found = _rounded_type(gemm, precision)
    return None if found is None else find_packed_product(found[0], *sizes_of(gemm), warps)


def has_known_strides(value: ops.Value) -> bool:
    """Whether all strides of a matrix are known."""
    return None not in ops.memref_type(value).strides


def chain_products(
    function: ops.Function, precision: Precision, warps: int, teams: int, pitches: Mapping[str, int],
    residents: Set[str],
) -> tuple[PaddedProduct | None, ...]:
    """Return how tensor cores compute each instruction of a function, with `warps` in a team; None for no product.

    `pitches` are the distances in bytes between what neighbouring teams have of a value.  Products by one of the
    `residents` from the left are joined, where the columns of teams follow one another.
    """
    found: list[PaddedProduct | None] = []
    for operation in instructions_of(function):
        if not operation.is_matrix_product:
            found.append(None)
            continue
        rounded = _rounded_type(operation, precision)
        assert rounded is not None
        element, is_split = rounded
        (left, right), output = operation.inputs, operation.output
        types = [(value.name, ops.memref_type(value)) for value in (right, output)]
        follow = all(type_.is_packed and pitches.get(name) == size_in_bytes(type_) for name, type_ in types)
        is_joined = left.name in residents and not operation.transposes[1] and follow
        joined = teams if is_joined else 1
        found.append(find_padded_product(element, *sizes_of(operation), warps, joined=joined, is_split=is_split))
    return tuple(found)


def resident_stride(
    function: ops.Function, name: str, products: tuple[PaddedProduct | None, ...]
) -> int | None:
    """Return the distance of columns of a parameter for the fewest accesses to shared memory, in elements.

    None where something other than these products reads it.
    """
    used = [(operation, product) for operation, product in zip(instructions_of(function), products, strict=True)
            if name in [value.name for value in operation.inputs]]
    others = [operation for operation in function.body.walk()
              if not isinstance(operation, ops.LinearAlgebra) and name in [value.name for value in operation.operands
                                                                           if isinstance(value, ops.Value)]]
    parameter = next(parameter for parameter in function.parameters if parameter.name == name)
    shape = ops.memref_type(parameter).shape
    if others or len(shape) != 2 or not used or any(product is None for _, product in used):
        return None
    rows = shape[0]
    assert rows is not None

    def accesses(stride: int) -> int:
        total = 0
        for operation, product in used:
            strides = []
            for value, is_transposed in zip(operation.inputs, operation.transposes, strict=True):
                _, distance = ops.memref_type(value).strides
                assert distance is not None
                own = stride if value.name == name else distance
                strides.append((own, 1) if is_transposed else (1, own))
            assert product is not None
            total += product.accesses(*strides)[0]
        return total

    # What is odd leaves no vectors of two elements.
    return min((rows + extra for extra in range(_MOST_PADDING) if extra == 0 or (rows + extra) % 2 == 0), key=accesses)


def instructions_of(function: ops.Function) -> list[ops.LinearAlgebra]:
    """Return the linear algebra of a function."""
    return [operation for operation in function.body.walk() if isinstance(operation, ops.LinearAlgebra)]


def sizes_of(gemm: ops.LinearAlgebra) -> tuple[int, int, int]:
    """Return m, n and k."""
    m, n = ops.memref_type(gemm.output).shape
    k = ops.memref_type(gemm.inputs[0]).shape[0 if gemm.transposes[0] else 1]
    assert m is not None
    assert n is not None
    assert k is not None
    return m, n, k


def _rounded_type(gemm: ops.LinearAlgebra, precision: Precision) -> tuple[str, bool] | None:
    """Return the type that tensor cores round operands to, and whether each is a sum of two; None for other types."""
    names = tuple(ops.memref_type(value).element.name for value in (*gemm.inputs, gemm.output))
    found = rounding(names, gemm.precision or precision, "mma.sync")
    if found is None or names not in _PRODUCTS:
        return None
    return found.a, found.terms > 1
