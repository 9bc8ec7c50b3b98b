"""One DPAS in a kernel: a call of the compiler's function, or of the emulation."""

from __future__ import annotations

from llvmlite import ir

from tl_dpnp.kernels.dpas.emulation import emulate
from tl_dpnp.kernels.dpas.functions import function_of, operand_types
from tl_dpnp.kernels.dpas.rows import DpasRow
from tl_dpnp.kernels.llvm import builtin

__all__ = ["multiply_add"]


def multiply_add(
    builder: ir.IRBuilder, row: DpasRow, a: ir.Value, b: ir.Value, c: ir.Value, *, emulated: bool
) -> ir.Value:
    """Emit D = C + A x B; each operand is one lane's part, of the type in `operand_types`.

    Raises UnsupportedError for a row that no function leads to, unless it is emulated.
    """
    if emulated:
        return emulate(builder, row, a, b, c)
    function = function_of(row)
    operands = [c, a, b] if function.accumulator_first else [a, b, c]
    return builtin(builder, function.name, operand_types(row)[3], operands, ("nounwind", "convergent"))
