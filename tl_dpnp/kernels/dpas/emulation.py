"""DPAS for devices that lack it, lane for lane: the pseudo-code of the specification as LLVM IR.

Every lane computes its column of D.  The elements of A, which all lanes need, are broadcast from the lane that holds
them.  Integers are exact.  The specification leaves the order and the rounding of the sums of floats open: here each
product is added in order of K with one rounding, in f32, and a 16-bit result is rounded once, at the end.
"""

from __future__ import annotations

from llvmlite import ir

from tl_dpnp.kernels.dpas.functions import operand_types
from tl_dpnp.kernels.dpas.rows import DpasRow, Precision
from tl_dpnp.kernels.llvm import I32, builtin, constant, lanes
from tl_dpnp.kernels.narrow_floats import bf16_from_f32, f32_from_bf16

__all__ = ["emulate"]

_F32 = ir.FloatType()
#: The bits of f32 that tf32 keeps.
_TF32_MASK = 0xFFFFE000


def emulate(builder: ir.IRBuilder, row: DpasRow, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """Emit D = C + A x B by one call for each row of D.

    The calls are not inlined: a kernel with many products would take the CPU's compiler seconds.  They take no vectors
    of three elements, which Intel's CPU runtime passes wrongly.
    """
    d_type = operand_types(row)[3]
    result = ir.Constant(d_type, ir.Undefined)
    bits_of_a_row = row.k * row.source2.bits
    bits_of_an_element = row.execution_size * row.a_width
    for r in range(row.repeat):
        first = r * bits_of_a_row
        element = _element(builder, a, first // bits_of_an_element)
        first_lane = first % bits_of_an_element // row.a_width
        accumulator = _widened(builder, row.source0, _element(builder, c, r))
        function = _row_function(builder.module, row, first_lane)
        value = builder.call(function, [element, b, accumulator], cconv="spir_func")
        value = _narrowed(builder, row.destination, value)
        result = value if row.repeat == 1 else builder.insert_element(result, value, ir.Constant(I32, r))
    return result


def _new_function(module: ir.Module, name: str, result: ir.Type, parameters: list[ir.Type]) -> ir.Function:
    function = ir.Function(module, ir.FunctionType(result, parameters), name)
    function.linkage = "internal"
    function.calling_convention = "spir_func"
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    return function


def _row_function(module: ir.Module, row: DpasRow, first_lane: int) -> ir.Function:
    """Return the function of one row of D: the element of A that holds the row from `first_lane` on, B, and C's row."""
    a_type, b_type, *_ = operand_types(row)
    name = f"emulated_dpas_row_{row.source2.name}_{row.source1.name}_{row.execution_size}_{first_lane}"
    existing = module.globals.get(name)
    if existing is not None:
        return existing
    sum_type = _F32 if row.source1.is_float else I32
    function = _new_function(module, name, sum_type, [getattr(a_type, "element", a_type), b_type, sum_type])
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    a, b, total = function.args
    words: dict[int, ir.Value] = {}

    def word(lane: int) -> ir.Value:
        """Lane `lane`'s element of A in all lanes, in the low bits of 32."""
        if lane not in words:
            wide = builder.zext(a, I32) if row.a_width < 32 else a
            words[lane] = builtin(builder, "_Z19sub_group_broadcastij", I32, [wide, ir.Constant(I32, lane)],
                                  ("nounwind", "convergent"))
        return words[lane]

    for k in range(row.k):
        bit = k * row.source2.bits
        lane, offset = first_lane + bit // row.a_width, bit % row.a_width
        bits = word(lane)
        if row.source2.bits > row.a_width:
            high = builder.shl(word(lane + 1), ir.Constant(I32, row.a_width))
            bits = builder.or_(bits, high)
        x = _decoded(builder, row.source2, bits, offset)
        packed = k * row.source1.bits
        y = _decoded(builder, row.source1, _element(builder, b, packed // 32), packed % 32)
        if row.source1.is_float:
            total = builtin(builder, "_Z3fmafff", _F32, [x, y, total], ("nounwind", "readnone"))
        else:
            total = builder.add(builder.mul(x, y), total)
    builder.ret(total)
    return function


def _element(builder: ir.IRBuilder, value: ir.Value, number: int) -> ir.Value:
    return value if lanes(value.type) == 1 else builder.extract_element(value, ir.Constant(I32, number))


def _decoded(builder: ir.IRBuilder, precision: Precision, word: ir.Value, offset: int) -> ir.Value:
    """Return the element that starts at bit `offset` of a 32-bit word, as i32 or f32."""
    rest = 32 - precision.bits
    if precision.name == "tf32":
        return builder.bitcast(builder.and_(word, constant(I32, _TF32_MASK)), _F32)
    if precision.is_float:
        narrow = builder.trunc(builder.lshr(word, constant(I32, offset)) if offset else word, ir.IntType(16))
        if precision.name == "bf16":
            return f32_from_bf16(builder, narrow)
        return builder.fpext(builder.bitcast(narrow, ir.HalfType()), _F32)
    high = builder.shl(word, constant(I32, rest - offset)) if rest != offset else word
    return (builder.ashr if precision.kind == "signed" else builder.lshr)(high, constant(I32, rest))


def _widened(builder: ir.IRBuilder, accumulator: str, value: ir.Value) -> ir.Value:
    if accumulator == "bf16":
        return f32_from_bf16(builder, value)
    return builder.fpext(value, _F32) if accumulator == "f16" else value


def _narrowed(builder: ir.IRBuilder, accumulator: str, value: ir.Value) -> ir.Value:
    if accumulator == "bf16":
        return bf16_from_f32(builder, value)
    return builder.fptrunc(value, ir.HalfType()) if accumulator == "f16" else value
