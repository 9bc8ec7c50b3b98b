"""DPAS for devices that lack it, lane for lane: the pseudo-code of the specification as LLVM IR.

Every lane computes its column of D.  The elements of A, which all lanes need, are broadcast from the lane that holds
them.  Integers are exact.  The specification leaves the order and the rounding of the sums of floats open: here each
product is added in order of K with one rounding, in f32, and a 16-bit result is rounded once, at the end.
"""

from __future__ import annotations

from llvmlite import ir

from tl_dpnp.kernels.dpas.functions import operand_types
from tl_dpnp.kernels.dpas.rows import DpasRow
from tl_dpnp.kernels.instructions import Element
from tl_dpnp.kernels.llvm import I32, builtin, constant, lanes, undefined
from tl_dpnp.kernels.narrow_floats import bf16_from_f32, f32_from_bf16

__all__ = ["called_function", "emulate"]

_F32 = ir.FloatType()
#: The bits of f32 that tf32 keeps.
_TF32_MASK = 0xFFFFE000


def emulate(
    builder: ir.IRBuilder, row: DpasRow, a: ir.Value, b: ir.Value, c: ir.Value,
    known: dict[tuple[int, int], ir.Value] | None = None,
) -> ir.Value:
    """Emit D = C + A x B by one call for each row of D.

    `known` has the elements of A that are in all lanes already, by their place and lane, and gets the others.
    The calls are not inlined: a kernel with many products would take the CPU's compiler seconds.  They take no vectors
    of three elements, which Intel's CPU runtime passes wrongly.
    """
    d_type = operand_types(row)[3]
    result = undefined(d_type)
    bits_of_a_row = row.k * row.source2.bits
    bits_of_an_element = row.execution_size * row.a_width
    known = {} if known is None else known
    for r in range(row.repeat):
        first = r * bits_of_a_row
        place, first_lane = first // bits_of_an_element, first % bits_of_an_element // row.a_width
        words = []
        for lane in range(first_lane, first_lane + _words_of_a_row(row)):
            if (place, lane) not in known:
                known[place, lane] = _in_all_lanes(builder, row, _element(builder, a, place), lane)
            words.append(known[place, lane])
        accumulator = _widened(builder, row.source0, _element(builder, c, r))
        function = _row_function(builder.module, row)
        value = builder.call(function, [*words, b, accumulator], cconv="spir_func")
        value = _narrowed(builder, row.destination, value)
        result = value if row.repeat == 1 else builder.insert_element(result, value, ir.Constant(I32, r))
    return result


def called_function(module: ir.Module, name: str, result: ir.Type, parameters: list[ir.Type]) -> ir.Function:
    """Return a function that is not inlined: kernels with many of them would take the CPU's compiler seconds."""
    function = ir.Function(module, ir.FunctionType(result, parameters), name)
    function.linkage = "internal"
    function.calling_convention = "spir_func"
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    return function


def _words_of_a_row(row: DpasRow) -> int:
    """Return how many lanes hold one row of A."""
    return -(-row.k * row.source2.bits // row.a_width)


def _in_all_lanes(builder: ir.IRBuilder, row: DpasRow, element: ir.Value, lane: int) -> ir.Value:
    """Return lane `lane`'s element of A in all lanes, in the low bits of 32.

    This stands in the kernel and not in the function of a row: SPIR-V does not say that all lanes take part in a call
    of a function, so a compiler may move one into a branch, or divide it where an argument is 0 in some lanes.
    """
    wide = builder.zext(element, I32) if row.a_width < 32 else element
    arguments = [wide, ir.Constant(I32, lane)]
    return builtin(builder, "_Z19sub_group_broadcastij", I32, arguments, ("nounwind", "convergent"))


def _row_function(module: ir.Module, row: DpasRow) -> ir.Function:
    """Return the function of one row of D: the words of the row of A, B, and C's row."""
    b_type = operand_types(row)[1]
    name = f"emulated_dpas_row_{row.source2.name}_{row.source1.name}_{row.execution_size}"
    existing = module.globals.get(name)
    if existing is not None:
        return existing
    sum_type = _F32 if row.source1.is_float else I32
    function = called_function(module, name, sum_type, [*[I32] * _words_of_a_row(row), b_type, sum_type])
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    *words, b, total = function.args
    for k in range(row.k):
        bit = k * row.source2.bits
        number, offset = bit // row.a_width, bit % row.a_width
        bits = words[number]
        if row.source2.bits > row.a_width:
            high = builder.shl(words[number + 1], ir.Constant(I32, row.a_width))
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


def _decoded(builder: ir.IRBuilder, precision: Element, word: ir.Value, offset: int) -> ir.Value:
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
