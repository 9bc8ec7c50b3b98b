"""Which products of a function in the staged form run on tensor cores, and how."""

from __future__ import annotations

from collections.abc import Mapping, Set

from tl_dpnp.kernels.mma.padded_product import PaddedProduct, find_padded_product
from tl_dpnp.kernels.mma.product import WarpProduct, find_product
from tl_dpnp.language import ops
from tl_dpnp.lowering.memory import size_in_bytes
from tl_dpnp.scalars import Precision

__all__ = ["CHAIN_WARPS", "chain_products", "lone_product", "resident_stride", "runs_on_tensor_cores"]

#: Warps of a team that computes several products on tensor cores.
CHAIN_WARPS = 2
#: Products of f64 with so many elements are bound by arithmetic without tensor cores.
_LARGE_F64 = 1024
#: Elements that columns may be further apart than they are long, at most.
_MOST_PADDING = 16


def lone_product(function: ops.Function, whole: Set[str], precision: Precision) -> WarpProduct | None:
    """Return how tensor cores compute the one instruction of a function, if they do and it is worth it.

    `whole` are the values that are whole operands in local memory, as loads of matrices of 16 bits need them.
    """
    match _instructions(function):
        case [ops.Gemm(inputs=(left, right)) as gemm]:
            found = _rounded_type(gemm, precision)
            m, n, k = _sizes(gemm)
            match found:
                case None:
                    return None
                case ("f64", _) if m * n < _LARGE_F64:
                    return None
                case ("f16" | "bf16", _) if not {left.name, right.name} <= whole:
                    return None
                case (name, is_split):
                    return find_product(name, m, n, k, is_split)
    return None


def runs_on_tensor_cores(function: ops.Function, precision: Precision) -> bool:
    """Whether tensor cores can compute all products of a function, and there are some."""
    products = [operation for operation in _instructions(function) if isinstance(operation, ops.Gemm)]
    return bool(products) and all(_rounded_type(gemm, precision) is not None for gemm in products)


def chain_products(
    function: ops.Function, precision: Precision, teams: int, pitches: Mapping[str, int], residents: Set[str]
) -> tuple[PaddedProduct | None, ...]:
    """Return how tensor cores compute each instruction of a function; None for what is no product.

    `pitches` are the distances in bytes between what neighbouring teams have of a value.  Products by one of the
    `residents` from the left are joined, where the columns of teams follow one another.
    """
    found: list[PaddedProduct | None] = []
    for operation in _instructions(function):
        if not isinstance(operation, ops.Gemm):
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
        found.append(find_padded_product(element, *_sizes(operation), CHAIN_WARPS, joined=joined, is_split=is_split))
    return tuple(found)


def resident_stride(
    function: ops.Function, name: str, products: tuple[PaddedProduct | None, ...]
) -> int | None:
    """Return the distance of columns of a parameter for the fewest accesses to shared memory, in elements.

    None where something other than these products reads it.
    """
    used = [(operation, product) for operation, product in zip(_instructions(function), products, strict=True)
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


def _instructions(function: ops.Function) -> list[ops.LinearAlgebra]:
    return [operation for operation in function.body.walk() if isinstance(operation, ops.LinearAlgebra)]


def _sizes(gemm: ops.Gemm) -> tuple[int, int, int]:
    """Return m, n and k."""
    m, n = ops.memref_type(gemm.output).shape
    k = ops.memref_type(gemm.inputs[0]).shape[0 if gemm.transposes[0] else 1]
    assert m is not None
    assert n is not None
    assert k is not None
    return m, n, k


def _rounded_type(gemm: ops.Gemm, precision: Precision) -> tuple[str, bool] | None:
    """Return the type that tensor cores round operands to, and whether each is a sum of two; None for other types."""
    names = [ops.memref_type(value).element.name for value in (*gemm.inputs, gemm.output)]
    own = gemm.precision or precision
    match names:
        case ["f64", "f64", "f64"]:
            return "f64", False
        case ["f32", "f32", "f32"] if own != "highest":
            return "tf32", own == "high"
        case ["f16" | "bf16" as name, other, "f32"] if other == name:
            return name, False
    return None
