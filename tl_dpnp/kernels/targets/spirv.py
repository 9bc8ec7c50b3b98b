"""SPIR-V through OpenCL's builtins.

Sources: OpenCL C specification 3.0, sections 6.15.1 (work-items), 6.15.2 (mathematics) and 6.15.8 (barrier); SPIR-V
specification, sections 3.25 (Memory Semantics), 3.27 (Scope) and 3.42.18 (Atomic Instructions);
SPV_EXT_shader_atomic_float_add for the addition of floats.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from tl_dpnp.errors import UnsupportedError
from tl_dpnp.kernels.hyperbolic import tanh
from tl_dpnp.kernels.llvm import I8, I32, I64, LOCAL, builtin, index, lanes, mangled_type, undefined, vector_of
from tl_dpnp.kernels.targets.protocol import Dimension
from tl_dpnp.scalars import ScalarType

__all__ = ["Spirv"]

_PURE = ("nounwind", "readnone")
_DEVICE, _RELAXED = 1, 0
#: SPIR-V's memory semantics: sequentially consistent, for the memory of the work-group and that of all.
_ALL_MEMORY = 0x10 | 0x100 | 0x200
_LETTERS = {32: "i", 64: "l"}
#: OpenCL's builtins; min and max follow IEEE 754 minNum and maxNum: a NaN loses.
_FUNCTIONS = {
    **{name: name for name in (
        "exp log exp2 log2 sqrt rsqrt sin cos fma expm1 log1p log10 cbrt erf tan asin acos atan atan2 sinh cosh asinh "
        "acosh atanh hypot floor ceil trunc rint copysign").split()},
    "abs": "fabs", "min": "fmin", "max": "fmax", "rem": "fmod",
}


class Spirv:
    """The target of numba-dpex; OpenCL's dimension 0 is the last one of SYCL."""

    triple = "spir64-unknown-unknown"
    #: Vectors of three elements take the space of four.  The last part says which integers there are: without it LLVM
    #: makes some of 2 or 33 bits, which SPIR-V has as an extension only and whose switches end Intel's CPU runtime
    #: (2024.2).
    data_layout = (
        "e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-n8:16:32:64"
    )
    calling_convention = "spir_func"
    backends: tuple[str, ...] = ("opencl", "level_zero")
    threads_jumps = True
    aligns_pairs = False

    def group_index(self, builder: ir.IRBuilder, dimension: Dimension) -> ir.Value:
        return builtin(builder, "_Z12get_group_idj", I64, [ir.Constant(I32, dimension)], _PURE)

    def item_index(self, builder: ir.IRBuilder, dimension: Dimension) -> ir.Value:
        return builtin(builder, "_Z12get_local_idj", I64, [ir.Constant(I32, dimension)], _PURE)

    def barrier(self, builder: ir.IRBuilder) -> None:
        builtin(builder, "_Z7barrierj", ir.VoidType(), [ir.Constant(I32, 3)], ("nounwind", "convergent"))

    def local_memory(self, builder: ir.IRBuilder, size: int) -> ir.Value:
        block = builder.module.globals.get("local_memory")
        if block is None:
            type_ = ir.ArrayType(I8, size)
            block = ir.GlobalVariable(builder.module, type_, "local_memory", addrspace=LOCAL)
            block.linkage = "internal"
            block.initializer = undefined(type_)
            block.align = 64
        return builder.gep(block, [index(0), index(0)])

    def prefetch_line(self, builder: ir.IRBuilder, pointer: ir.Value, once: bool = False, offset: int = 0) -> None:
        """x86-64 only: inline assembly, because OpenCL's ``prefetch`` becomes an indirect call in the CPU runtime."""
        instruction = "prefetchnta" if once else "prefetcht0"
        place = f"{offset}($0)" if offset else "($0)"
        builder.asm(ir.FunctionType(ir.VoidType(), [pointer.type]), f"{instruction} {place}", "r", [pointer], True)

    def stream_line(self, builder: ir.IRBuilder, value: ir.Value, pointer: ir.Value) -> None:
        """x86-64 with AVX-512 only.

        It is inline assembly, because LLVM drops the hint of a store that it merges with an ordinary one in another
        branch.
        """
        type_ = ir.FunctionType(ir.VoidType(), [pointer.type, value.type])
        builder.asm(type_, "vmovntps $1, ($0)", "r,v,~{memory}", [pointer, value], True)

    def kept(self, builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
        """x86-64 only: inline assembly of no instruction."""
        return builder.asm(ir.FunctionType(value.type, [value.type]), "", "=v,0", [value], False)

    def hold(self, builder: ir.IRBuilder, value: ir.Value) -> None:
        """x86-64 only: inline assembly of no instruction."""
        builder.asm(ir.FunctionType(ir.VoidType(), [value.type]), "", "v", [value], True)

    def opaque(self, builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
        """Inline assembly of no instruction."""
        return builder.asm(ir.FunctionType(value.type, [value.type]), "", "=r,0", [value], False)

    def extend(self, builder: ir.IRBuilder, value: ir.Value, type_: ir.Type, is_signed: bool) -> ir.Value:
        return (builder.sext if is_signed else builder.zext)(value, type_)

    def widen_half(self, builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
        return builder.fpext(value, vector_of(ir.FloatType(), lanes(value.type)))

    def narrow_half(self, builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
        return builder.fptrunc(value, vector_of(ir.HalfType(), lanes(value.type)))

    def negate(self, builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
        return builder.fneg(value)

    def mathematics(
        self, builder: ir.IRBuilder, kind: str, scalar: ScalarType, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        if kind == "tanh":
            return tanh(builder, scalar, arguments[0], lambda *terms: self.mathematics(builder, "fma", scalar, terms))
        if kind not in _FUNCTIONS:
            raise UnsupportedError(f"math.{kind} has no lowering for SPIR-V")
        width, rest = lanes(arguments[0].type), len(arguments) - 1
        function = _FUNCTIONS[kind]
        operands = mangled_type(scalar, width) + (mangled_type(scalar) if width == 1 else "S_") * rest
        name = f"_Z{len(function)}{function}{operands}"
        return builtin(builder, name, arguments[0].type, arguments, _PURE if kind != "rem" else ("nounwind",))

    def atomic_add(self, builder: ir.IRBuilder, scalar: ScalarType, pointer: ir.Value, value: ir.Value) -> None:
        self.fetch_add(builder, scalar, pointer, value)

    def fetch_add(
        self, builder: ir.IRBuilder, scalar: ScalarType, pointer: ir.Value, value: ir.Value
    ) -> ir.Value:
        if scalar.is_float:
            letter = "f" if scalar.bits == 32 else "d"
            name = f"_Z21__spirv_AtomicFAddEXTPU3AS{pointer.type.addrspace}{letter}jj{letter}"
        else:
            letter = _LETTERS[scalar.bits]
            name = f"_Z18__spirv_AtomicIAddPU3AS{pointer.type.addrspace}{letter}jj{letter}"
        return builtin(builder, name, value.type, [pointer, *_ordering(1), value])

    def atomic_load(self, builder: ir.IRBuilder, pointer: ir.Value) -> ir.Value:
        letter = _LETTERS[pointer.type.pointee.width]
        name = f"_Z18__spirv_AtomicLoadPU3AS{pointer.type.addrspace}{letter}jj"
        return builtin(builder, name, pointer.type.pointee, [pointer, *_ordering(1)])

    def fence(self, builder: ir.IRBuilder) -> None:
        operands = [ir.Constant(I32, number) for number in (_DEVICE, _ALL_MEMORY)]
        builtin(builder, "_Z21__spirv_MemoryBarrierjj", ir.VoidType(), operands)

    def atomic_exchange(self, builder: ir.IRBuilder, pointer: ir.Value, word: ir.Value) -> None:
        letter = _LETTERS[word.type.width]
        name = f"_Z22__spirv_AtomicExchangePU3AS{pointer.type.addrspace}{letter}jj{letter}"
        builtin(builder, name, word.type, [pointer, *_ordering(1), word])

    def compare_exchange(
        self, builder: ir.IRBuilder, pointer: ir.Value, expected: ir.Value, new: ir.Value
    ) -> ir.Value:
        letter = _LETTERS[new.type.width]
        name = f"_Z29__spirv_AtomicCompareExchangePU3AS{pointer.type.addrspace}{letter}jjj{letter}{letter}"
        return builtin(builder, name, new.type, [pointer, *_ordering(2), new, expected])


def _ordering(count: int) -> list[ir.Value]:
    return [ir.Constant(I32, _DEVICE), *[ir.Constant(I32, _RELAXED)] * count]
