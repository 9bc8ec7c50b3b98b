"""From a contraction to its loop nest: all of them are one formula.

``out[m, n] := alpha · Σ_k Π inputs + beta · out[m, n]`` — an instruction only says which axes index which operand.
A missing axis has one iteration, so that every nest has a loop ``m`` and a loop ``n``, and ``k`` where it reduces.

Products of complex numbers are two sums, ``T = Σ A re(B)`` and ``U = Σ A im(B)``, of which T + i U is made: elements of
A stay as they are in memory, pairs of a real and an imaginary part, and vectors of them need no shuffles in the loop.
"""

from __future__ import annotations

import cmath
from collections.abc import Container, Sequence
from dataclasses import replace

from tl_dpnp.language import ops
from tl_dpnp.language.types import MemrefType
from tl_dpnp.lowering.nest import (
    Access,
    Assign,
    Bound,
    Buffer,
    Convert,
    Dimension,
    Expression,
    Index,
    Loop,
    MultiplyAdd,
    Nest,
    Node,
    Number,
    Product,
    Scalar,
    TimesI,
    Total,
    leaves,
)
from tl_dpnp.lowering.rewrite import roots
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import BF16, F16, F32, ScalarType, rounded_number

__all__ = ["JAM", "JAMMED", "Contraction", "contraction_of", "contractions_of", "has_loop_nest", "only_sets"]

#: The names of the operands of a nest, inputs first, the output last.
_INPUT_NAMES = ("A", "B")
OUTPUT = "C"
#: The loop over work-groups that one nest does together, and how many these are.
JAM, JAMMED = "z", 2


@dataclass(frozen=True)
class Contraction:
    """The nest of one instruction before it is scheduled, with its sizes.

    `dimensions` maps each run-time size and stride that the nest names to (operand position, "size" or "stride",
    mode), where positions count the inputs first and the output last; (position, "step", 0) is the distance, in
    elements, to the operand of the next work-group.  The nest does `jam` work-groups at once, in its loop ``z``, and an
    element is `sums` sums.
    """

    nest: Nest
    rows: Bound
    columns: Bound
    depth: Bound | None
    element: ScalarType
    dimensions: dict[str, tuple[int, str, int]]
    scalars: tuple[Scalar, ...]
    jam: int = 1
    sums: int = 1


def _axes_of(operation: ops.Contraction) -> tuple[list[str], str]:
    """Return the axes that index each input, and those that index the output, one letter for each mode.

    The modes of the output are m and n; a mode of an input that the output lacks is summed over.
    """
    *inputs, (_, output) = operation.dimension_names
    axes = dict(zip(output, "mn", strict=False))
    return ["".join(axes.get(letter, "k") for letter in letters) for _, letters in inputs], "mn"[: len(output)]


def has_loop_nest(operation: ops.LinearAlgebra) -> bool:
    """Whether `contraction_of` knows the formula of an instruction: `m` and `n` of the output, at most one sum."""
    *inputs, (_, output) = operation.dimension_names
    letters = [names for _, names in inputs]
    summed = set("".join(letters)) - set(output)
    return (
        isinstance(operation, ops.Contraction) and len(letters) <= len(_INPUT_NAMES) and len(output) <= 2
        and len(summed) <= 1 and all(len(set(names)) == len(names) for names in (*letters, output))
    )


def contraction_of(
    operation: ops.Contraction, name: str, moving: Container[str] = (), temporaries: Container[str] = ()
) -> Contraction:
    """Return the loop nest that defines `operation`; the values `temporaries` lie in memory of the work-group.

    With `moving`, the names of the values that are others in each work-group, it does two work-groups at once.
    """
    inputs, output_axes = _axes_of(operation)
    types = [ops.memref_type(v) for v in (*operation.inputs, operation.output)]
    # Sums of narrow floats are kept in f32 and rounded once, when they are stored.
    stored = types[-1].element
    element = F32 if stored in (F16, BF16) else stored
    names = (*_INPUT_NAMES[: len(inputs)], OUTPUT)
    dimensions: dict[str, tuple[int, str, int]] = {}
    sizes = _sizes([*inputs, output_axes], types, dimensions)
    buffers = [
        replace(_buffer(names[i], types[i], i, tuple(sizes[axis] for axis in axes), dimensions),
                is_temporary=isinstance(value, ops.Value) and value.name in temporaries)
        for i, (axes, value) in enumerate(
            zip([*inputs, output_axes], (*operation.inputs, operation.output), strict=True))
    ]
    axes = [*inputs, output_axes]
    for i, value in enumerate((*operation.inputs, operation.output)):
        if value.name in moving:
            axes[i] += JAM
            buffers[i] = _jammed(buffers[i], i, dimensions)
    *accesses, target = (
        Access(buffer, tuple((axis,) for axis in letters)) for buffer, letters in zip(buffers, axes, strict=True)
    )

    operands = [_factor(access, element) for access in accesses]
    product: Expression = operands[0] if len(operands) == 1 else Product(*operands)
    if element.is_complex:
        product = _complex_product(operands, element)
    depth = sizes.get("k")
    scalars: list[Scalar] = []
    # Emission leaves an alpha that is given out of sums that are empty at run time.
    is_given = isinstance(operation.alpha, ops.Constant) and not cmath.isfinite(operation.alpha.value)
    alpha = _scalar(operation.alpha, "alpha", element, scalars, is_given=is_given)
    beta = _scalar(operation.beta, "beta", element, scalars)
    body: list[Node] = []
    sums = 1
    if depth is not None:
        indices = (("m",), ("n",), *(((JAM,),) if moving else ()))
        updates, product = _summed(product, element, indices)
        sums = len(updates)
        body += [Assign(update.target, Number(0, element), "init") for update in updates]
        body.append(Loop("k", 0, depth, updates, reduction=True))
    body.append(_finish(target, element, alpha, product, beta, operation.atomic))
    rows, columns = sizes.get("m", 1), sizes.get("n", 1)
    if moving:
        body = [Loop(JAM, 0, JAMMED, tuple(body))]
    description = _description(operation) + (f", for {JAMMED} work-groups" if moving else "")
    nest = Nest(name, description, (Loop("m", 0, rows, (Loop("n", 0, columns, tuple(body)),)),))
    return Contraction(
        nest, rows, columns, depth, element, dimensions, tuple(scalars), JAMMED if moving else 1, sums
    )


def contractions_of(
    function: ops.Function, moving: Container[str] = ()
) -> list[tuple[ops.Contraction, Contraction]]:
    """Return the instructions of a canonical function in source order, with nests named gemm_0, sum_1 and so on.

    `moving` is what `contraction_of` takes; the names then end in ``_jammed``.
    """
    found = [operation for operation in function.body.walk() if isinstance(operation, ops.Contraction)]
    allocated = {operation.result.name for operation in function.body.walk() if isinstance(operation, ops.Alloca)}
    temporaries = {name for name, root in roots(function).items() if root in allocated} if allocated else set()
    suffix = "_jammed" if moving else ""
    return [
        (operation, contraction_of(operation, f"{operation.mnemonic}_{number}{suffix}", moving, temporaries))
        for number, operation in enumerate(found)
    ]


def only_sets(contraction: Contraction) -> bool:
    """Whether the output is written and not read."""
    assigns = [leaf.assign for leaf in leaves(contraction.nest.body)]
    return all(a.update == "set" and all(access.buffer.name != OUTPUT for access in a.reads) for a in assigns)


def _sizes(axes: list[str], types: list[MemrefType], dimensions: dict[str, tuple[int, str, int]]) -> dict[str, Bound]:
    """Return the size of each axis: a constant if any operand knows it, else the size of the last operand's mode."""
    sizes: dict[str, Bound] = {}
    for position in reversed(range(len(types))):
        for mode, axis in enumerate(axes[position]):
            size = types[position].shape[mode]
            if size is not None:
                sizes[axis] = size
                dimensions.pop(axis.upper(), None)
            elif axis not in sizes:
                sizes[axis] = Dimension(axis.upper())
                dimensions[axis.upper()] = (position, "size", mode)
    return sizes


def _buffer(
    name: str, type_: MemrefType, position: int, shape: tuple[Bound, ...], dimensions: dict[str, tuple[int, str, int]]
) -> Buffer:
    strides: list[int | Dimension] = []
    for mode, stride in enumerate(type_.strides):
        if stride is None:
            dimension = Dimension(f"{name}_stride{mode}")
            dimensions[dimension.name] = (position, "stride", mode)
            strides.append(dimension)
        else:
            strides.append(stride)
    return Buffer(name, type_.element, tuple(strides), shape=shape)


def _jammed(buffer: Buffer, position: int, dimensions: dict[str, tuple[int, str, int]]) -> Buffer:
    """Return the buffer with one more mode, for the work-group."""
    step = Dimension(f"{buffer.name}_step")
    dimensions[step.name] = (position, "step", 0)
    return replace(buffer, strides=(*buffer.strides, step), shape=(*buffer.shape, JAMMED))


def _factor(value: Access | Scalar, element: ScalarType) -> Access | Scalar | Convert:
    """Return a factor as the element type computes with it: one that is real stays so."""
    type_ = element if value.type.is_complex else element.part
    return value if value.type == type_ else Convert(value, type_)


def _complex_product(operands: Sequence[Access | Scalar | Convert], element: ScalarType) -> Expression:
    """Return the product of factors, one of which at least is complex, or becomes so, and stands first."""
    first, *others = sorted(operands, key=lambda operand: not operand.type.is_complex)
    product = first if first.type.is_complex else Convert(first, element)
    return Product(product, others[0]) if others else product


def _summed(
    product: Expression, element: ScalarType, indices: tuple[Index, ...]
) -> tuple[tuple[Assign, ...], Expression]:
    """Return what adds a product to its sums, which have these indices, and the result in terms of these."""
    total, turned = (Access(Buffer(name, element, scope="registers"), indices) for name in "TU")
    parts = _in_parts(product)
    if parts is None:
        return (Assign(total, _added(product, total), "update"),), total
    updates = (Assign(sums, _added(part, sums), "update") for sums, part in zip((total, turned), parts, strict=True))
    return tuple(updates), Total(total, TimesI(turned))


def _in_parts(product: Expression) -> tuple[Expression, Expression] | None:
    """Return the products with the real and with the imaginary part of the second factor; None if that is none."""
    match product:
        case Product(lhs, Access() as rhs) if rhs.type.is_complex:
            return Product(lhs, replace(rhs, part="re")), Product(lhs, replace(rhs, part="im"))
        case Product(lhs, Convert(Access() as rhs, type_)) if type_.is_complex:
            real, imaginary = (Convert(replace(rhs, part=part), type_.part) for part in ("re", "im"))
            return Product(lhs, real), Product(lhs, imaginary)
    return None


def _added(value: Expression, total: Expression) -> Expression:
    return MultiplyAdd(value.lhs, value.rhs, total) if isinstance(value, Product) else Total(total, value)


def _converted(value: Expression, source: ScalarType, target: ScalarType) -> Expression:
    return value if source == target else Convert(value, target)


def _scalar(
    operand: ops.Operand, name: str, element: ScalarType, scalars: list[Scalar], *, is_given: bool = False
) -> Expression:
    """Return a factor; it `is_given` where it is among the scalars although it is a constant."""
    if isinstance(operand, ops.Constant) and not is_given:
        if isinstance(operand.value, complex):
            is_real = not operand.value.imag
            return Number(operand.value.real, element.part) if is_real else Number(operand.value, element)
        if not (element.is_float or element.is_complex):
            return Number(int(operand.value), element)
        return Number(rounded_number(operand.type, float(operand.value)), element.part)
    scalar = Scalar(name, ops.scalar_type(operand))
    scalars.append(scalar)
    return _factor(scalar, element)


def _is(expression: Expression, value: int) -> bool:
    return isinstance(expression, Number) and expression.value == value


def _finish(
    target: Access, computed: ScalarType, alpha: Expression, product: Expression, beta: Expression, atomic: bool
) -> Assign:
    element = target.buffer.element
    value = product if _is(alpha, 1) else Product(alpha, product)
    if _is(beta, 0):
        # The output is not read, so that a NaN or garbage in it does not survive.
        return Assign(target, _converted(value, computed, element), "finish", "exchange" if atomic else "set")
    if atomic:
        value = _converted(value, computed, element)
        return Assign(target, value, "finish", "add") if _is(beta, 1) else Assign(
            target, value, "finish", "combine", scale=_converted(beta, computed, element)
        )
    old = _converted(target, element, computed)
    if not _is(beta, 1):
        added: Expression = MultiplyAdd(beta, old, value)
    else:
        added = Total(value, old) if _is(alpha, 1) else MultiplyAdd(alpha, product, old)
    return Assign(target, _converted(added, computed, element), "finish")


def _description(operation: ops.Contraction) -> str:
    """Return the operation in one line: the shapes of its operands as they enter."""
    def shape(position: int, value: ops.Value) -> str:
        transposed = position < len(operation.transposes) and operation.transposes[position]
        type_ = ops.memref_type(value)
        sizes = "x".join("?" if size is None else str(size) for size in type_.shape) or "scalar"
        return f"({sizes})ᵀ" if transposed and type_.order == 2 else sizes

    inputs = " · ".join(shape(i, v) for i, v in enumerate(operation.inputs))
    element = ops.memref_type(operation.output).element
    sign = "atomic" if operation.atomic else ":="
    return f"{operation.mnemonic} {element} {shape(len(operation.inputs), operation.output)} {sign} {inputs}"
