"""Kernels that do one DPAS each: what is compiled to see whether a row becomes the instruction, and run in tests."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tl_dpnp.kernels.dpas.emit import multiply_add
from tl_dpnp.kernels.dpas.functions import operand_types
from tl_dpnp.kernels.dpas.rows import DpasRow
from tl_dpnp.kernels.llvm import GLOBAL, I32, I64, builtin, index, lanes, undefined
from tl_dpnp.kernels.targets import new_module, target_for

__all__ = ["probe_module"]


def probe_module(rows: Sequence[DpasRow], *, emulated: bool) -> str:
    """Return LLVM IR with one kernel for each row, named as the row.

    A kernel takes the addresses of A, B, C and D.  Work-group g is one sub-group; it reads and writes the g-th string
    of bits of each, laid out as in the registers, padded to whole elements.
    """
    module = new_module("dpas", target_for("opencl"))
    for row in rows:
        _probe(module, row, emulated)
    return str(module)


def _probe(module: ir.Module, row: DpasRow, emulated: bool) -> None:
    types = operand_types(row)
    elements = [getattr(type_, "element", type_) for type_ in types]
    pointers = [element.as_pointer(GLOBAL) for element in elements]
    kernel = ir.Function(module, ir.FunctionType(ir.VoidType(), pointers), row.name)
    kernel.calling_convention = "spir_kernel"
    size = module.add_metadata([ir.Constant(I32, row.execution_size)])
    kernel.set_metadata("intel_reqd_sub_group_size", size)
    builder = ir.IRBuilder(kernel.append_basic_block("entry"))
    group, lane = (
        builtin(builder, name, I64, [ir.Constant(I32, 0)], ("nounwind", "readnone"))
        for name in ("_Z12get_group_idj", "_Z12get_local_idj")
    )

    def place(number: int, element: int) -> ir.Value:
        count = lanes(types[number]) * row.execution_size
        base = builder.gep(kernel.args[number], [builder.mul(group, index(count))])
        return builder.gep(builder.gep(base, [lane]), [index(element * row.execution_size)])

    operands: list[ir.Value] = []
    for number, type_ in enumerate(types[:3]):
        value = undefined(type_)
        for element in range(lanes(type_)):
            loaded = builder.load(place(number, element))
            value = loaded if lanes(type_) == 1 else builder.insert_element(value, loaded, ir.Constant(I32, element))
        operands.append(value)
    result = multiply_add(builder, row, *operands, emulated=emulated)
    for element in range(row.repeat):
        one = result if row.repeat == 1 else builder.extract_element(result, ir.Constant(I32, element))
        builder.store(one, place(3, element))
    builder.ret_void()
