"""A gemm of the staged form on tensor cores or in registers: its operands as emitters take them, alpha and beta."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from llvmlite import ir

from tl_dpnp.kernels import scalar_ops
from tl_dpnp.kernels.complex_numbers import to_both_parts
from tl_dpnp.kernels.elements import from_storage, to_storage
from tl_dpnp.kernels.llvm import constant, index, value_type
from tl_dpnp.kernels.mma.operands import Matrix
from tl_dpnp.kernels.mma.padded_product import PaddedProduct
from tl_dpnp.kernels.mma.product import WarpProduct
from tl_dpnp.kernels.narrow_floats import NARROW
from tl_dpnp.kernels.register_product import RegisterProduct
from tl_dpnp.kernels.targets.nvvm import round_to_bf16, special_register
from tl_dpnp.language import ops
from tl_dpnp.lowering.body.memref import MemrefDescriptor
from tl_dpnp.scalars import BF16, F32, rounded_number

__all__ = ["TeamProduct", "emit_team_product"]

#: What computes an instruction in place of its loop nest.
TeamProduct = WarpProduct | PaddedProduct | RegisterProduct


def emit_team_product(
    builder: ir.IRBuilder, product: TeamProduct, operation: ops.LinearAlgebra,
    memrefs: Sequence[MemrefDescriptor], pointers: Mapping[str, ir.Value], scalars: Mapping[str, ir.Value],
) -> None:
    """Append C := alpha op(A) op(B) + beta C; `scalars` has alpha and beta where they are no constants.

    C of 16 bits is computed in f32 and rounded once, to bf16 by an instruction that devices of the staged form have.
    """
    element = ops.memref_type(operation.output).element
    computed = F32 if element in NARROW else element
    matrices = {}
    for name, memref, transposed in zip("ABC", memrefs, (*operation.transposes, False), strict=True):
        rows, columns = memref.strides
        assert isinstance(rows, int)
        assert isinstance(columns, int)
        pointer = pointers[name]
        if isinstance(product, PaddedProduct) and product.is_joined and name != "A":
            # The operands of all teams begin with those of the first one.
            own = product.n // product.teams * columns
            pointer = builder.gep(pointer, [builder.mul(special_register(builder, "tid.z"), index(-own))])
        matrix = Matrix(pointer, (rows, columns), memref.alignment)
        matrices[name] = matrix.transposed if transposed else matrix

    def factor(name: str, operand: ops.Operand) -> ir.Value | None:
        """Return a factor, or None for 1; a real one of complex numbers is one of both parts."""
        type_ = ops.scalar_type(operand)
        if not isinstance(operand, ops.Constant):
            is_whole = type_.is_complex or not computed.is_complex
            value = scalar_ops.convert(builder, type_, computed if is_whole else computed.part, scalars[name])
            return value if is_whole else to_both_parts(builder, value, 1)
        number = complex(operand.value)
        if number.imag:
            return constant(value_type(computed), number)
        return None if number == 1 else real(rounded_number(type_, number.real))

    def real(number: float) -> ir.Value:
        value = constant(value_type(computed.part), number)
        return to_both_parts(builder, value, 1) if computed.is_complex else value

    alpha, beta = factor("alpha", operation.alpha), factor("beta", operation.beta)

    def finish(total: ir.Value, old: Callable[[], ir.Value]) -> ir.Value:
        value = total if alpha is None else scalar_ops.arithmetic(builder, "mul", computed, alpha, total)
        if operation.keeps:
            one = real(1.0) if beta is None else beta
            before = from_storage(builder, element, old())
            value = scalar_ops.fused_multiply_add(builder, computed, one, before, value)
        return round_to_bf16(builder, value) if element == BF16 else to_storage(builder, element, value)

    product.emit(builder, matrices["A"], matrices["B"], matrices["C"], finish)
