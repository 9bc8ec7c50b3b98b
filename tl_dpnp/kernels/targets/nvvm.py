"""NVIDIA's NVVM IR: special registers, libdevice and inline PTX.

Sources: PTX ISA 9.0, sections 10 (Special Registers), 9.7.13.1 (bar), 9.7.13.6 (atom) and 9.7.9.16 (prefetch); NVVM IR
specification, sections "Data Layout" and "Intrinsic Functions"; libdevice User's Guide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from tl_dpnp.errors import LoweringError, UnsupportedError
from tl_dpnp.kernels.llvm import I8, I32, I64, LOCAL, constant, index, lanes, undefined
from tl_dpnp.kernels.targets.protocol import Dimension
from tl_dpnp.scalars import ScalarType

__all__ = ["Nvvm", "asm", "load_where", "round_to_bf16", "special_register"]

_I16 = ir.IntType(16)
_LETTERS = "xy"
_SPACES = {1: "global", 3: "shared"}
#: The constraint, the type and the zero of what registers hold.
_WORDS = {"i16": ("h", "b16", "0"), "i32": ("r", "b32", "0"), "i64": ("l", "b64", "0"),
          "float": ("f", "f32", "0f00000000"), "double": ("d", "f64", "0d0000000000000000")}
#: libdevice's functions for f64; those for f32 end in f.  min and max follow IEEE 754 minNum and maxNum.
_LIBDEVICE = {
    **{name: name for name in (
        "exp log exp2 log2 sqrt rsqrt sin cos tanh expm1 log1p log10 cbrt erf tan asin acos atan atan2 sinh cosh asinh "
        "acosh atanh hypot floor ceil trunc rint copysign").split()},
    "abs": "fabs", "min": "fmin", "max": "fmax", "rem": "fmod",
}


def asm(
    builder: ir.IRBuilder,
    text: str,
    constraints: str,
    result: ir.Type,
    arguments: Sequence[ir.Value],
    *,
    side_effect: bool = True,
) -> ir.Value:
    """Append inline PTX; ``$0`` and so on are the results, then the arguments."""
    function = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.asm(function, text, constraints, list(arguments), side_effect)


class Nvvm:
    """The target of numba-cuda: a work-group is a thread block, a sub-group a warp."""

    triple = "nvptx64-nvidia-cuda"
    data_layout = (
        "e-p:64:64:64-i1:8:8-i8:8:8-i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-v16:16:16-v32:32:32-"
        "v64:64:64-v128:128:128-n16:32:64"
    )
    calling_convention = ""
    backends: tuple[str, ...] = ("cuda",)
    threads_jumps = False
    aligns_pairs = True

    def group_index(self, builder: ir.IRBuilder, dimension: Dimension) -> ir.Value:
        # The body counts work-groups along dimension 1 in SYCL's sense; grids are large along x only.
        return special_register(builder, "ctaid.x")

    def item_index(self, builder: ir.IRBuilder, dimension: Dimension) -> ir.Value:
        return special_register(builder, f"tid.{_LETTERS[dimension]}")

    def barrier(self, builder: ir.IRBuilder) -> None:
        _call(builder, "llvm.nvvm.barrier0", ir.VoidType(), [], ("convergent", "nounwind"))

    def local_memory(self, builder: ir.IRBuilder, size: int) -> ir.Value:
        """Shared memory whose size the launch gives: a static array could not exceed 48 KB."""
        block = builder.module.globals.get("local_memory")
        if block is None:
            block = ir.GlobalVariable(builder.module, ir.ArrayType(I8, 0), "local_memory", addrspace=LOCAL)
            block.linkage = "external"
            block.align = 128
        return builder.gep(block, [index(0), index(0)])

    def prefetch_line(self, builder: ir.IRBuilder, pointer: ir.Value, once: bool = False, offset: int = 0) -> None:
        place = f"$0+{offset}" if offset else "$0"
        asm(builder, f"prefetch.global.L2 [{place}];", "l", ir.VoidType(), [builder.ptrtoint(pointer, I64)])

    def stream_line(self, builder: ir.IRBuilder, value: ir.Value, pointer: ir.Value) -> None:
        raise LoweringError("a work-item of a GPU stores no whole line")

    def kept(self, builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
        return value

    def hold(self, builder: ir.IRBuilder, value: ir.Value) -> None:
        pass

    def opaque(self, builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
        return value

    def extend(self, builder: ir.IRBuilder, value: ir.Value, type_: ir.Type, is_signed: bool) -> ir.Value:
        """Inline PTX to 64 bits: libNVVM 13 sums products of extended bytes with dp4a, and extends some sums unsigned.

        It does so where a sum is subtracted, with dp2a too; then it is off by 2³² where it is negative.
        """
        if lanes(value.type) > 1:
            return _by_lanes(builder, [value], lambda one: self.extend(builder, one[0], type_.element, is_signed))
        extend = builder.sext if is_signed else builder.zext
        if type_ != I64:
            return extend(value, type_)
        kind, word = "su"[not is_signed], value if value.type == I32 else extend(value, I32)
        return asm(builder, f"cvt.{kind}64.{kind}32 $0, $1;", "=l,r", I64, [word], side_effect=False)

    # Conversions of halves are inline PTX on 16-bit integers: libNVVM 13 gathers neighbouring loads of halves from
    # shared memory into vectors, and then refuses those.

    def widen_half(self, builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
        if lanes(value.type) > 1:
            return _by_lanes(builder, [value], lambda one: self.widen_half(builder, *one))
        bits = builder.bitcast(value, _I16)
        return asm(builder, "cvt.f32.f16 $0, $1;", "=f,h", ir.FloatType(), [bits], side_effect=False)

    def narrow_half(self, builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
        if lanes(value.type) > 1:
            return _by_lanes(builder, [value], lambda one: self.narrow_half(builder, *one))
        bits = asm(builder, "cvt.rn.f16.f32 $0, $1;", "=h,f", _I16, [value], side_effect=False)
        return builder.bitcast(bits, ir.HalfType())

    def negate(self, builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
        # LLVM 7, which libNVVM reads, has no fneg.
        return builder.fsub(constant(value.type, -0.0), value)

    def mathematics(
        self, builder: ir.IRBuilder, kind: str, scalar: ScalarType, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        type_ = arguments[0].type
        if kind == "fma" and lanes(type_) == 1:
            return _call(builder, f"llvm.fma.{scalar}", type_, arguments, ("nounwind", "readnone"))
        if lanes(type_) > 1:
            return _by_lanes(
                builder, arguments, lambda values: self.mathematics(builder, kind, scalar, values)
            )
        if kind not in _LIBDEVICE:
            raise UnsupportedError(f"math.{kind} has no lowering for NVVM")
        name = f"__nv_{_LIBDEVICE[kind]}{'f' if scalar.bits == 32 else ''}"
        return _call(builder, name, type_, arguments, ("nounwind", "readnone"))

    def atomic_add(self, builder: ir.IRBuilder, scalar: ScalarType, pointer: ir.Value, value: ir.Value) -> None:
        if scalar.is_float:
            letter = "f" if scalar.bits == 32 else "d"
            space = _SPACES[pointer.type.addrspace]
            text = f"red.relaxed.gpu.{space}.add.f{scalar.bits} [$0], $1;"
            asm(builder, text, f"{_address(pointer)},{letter},~{{memory}}", ir.VoidType(),
                [_integer(builder, pointer), value])
        else:
            builder.atomic_rmw("add", pointer, value, "monotonic")

    def fetch_add(
        self, builder: ir.IRBuilder, scalar: ScalarType, pointer: ir.Value, value: ir.Value
    ) -> ir.Value:
        if not scalar.is_float:
            return builder.atomic_rmw("add", pointer, value, "monotonic")
        letter, space = "f" if scalar.bits == 32 else "d", _SPACES[pointer.type.addrspace]
        text = f"atom.relaxed.gpu.{space}.add.f{scalar.bits} $0, [$1], $2;"
        return asm(builder, text, f"={letter},{_address(pointer)},{letter},~{{memory}}", value.type,
                   [_integer(builder, pointer), value])

    def atomic_load(self, builder: ir.IRBuilder, pointer: ir.Value) -> ir.Value:
        bits, space = pointer.type.pointee.width, _SPACES[pointer.type.addrspace]
        return asm(builder, f"ld.relaxed.gpu.{space}.b{bits} $0, [$1];",
                   f"={'r' if bits == 32 else 'l'},{_address(pointer)},~{{memory}}", pointer.type.pointee,
                   [_integer(builder, pointer)])

    def fence(self, builder: ir.IRBuilder) -> None:
        asm(builder, "fence.sc.gpu;", "~{memory}", ir.VoidType(), [])

    def atomic_exchange(self, builder: ir.IRBuilder, pointer: ir.Value, word: ir.Value) -> None:
        builder.atomic_rmw("xchg", pointer, word, "monotonic")

    def compare_exchange(
        self, builder: ir.IRBuilder, pointer: ir.Value, expected: ir.Value, new: ir.Value
    ) -> ir.Value:
        pair = builder.cmpxchg(pointer, expected, new, "monotonic", "monotonic")
        return builder.extract_value(pair, 0)


def round_to_bf16(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """Return an f32 rounded to the nearest bf16, ties to even; a NaN becomes the canonical one (PTX ISA, sm_80)."""
    return asm(builder, "cvt.rn.bf16.f32 $0, $1;", "=h,f", ir.IntType(16), [value])


def load_where(builder: ir.IRBuilder, condition: ir.Value, pointer: ir.Value) -> ir.Value:
    """Return what a pointer points to where a condition holds, else zeros, without a branch.

    It is a number of 16 to 64 bits, or a vector of up to 16 bytes, at a multiple of its size.
    Source: PTX ISA 9.0, sections 9.7.9.8 (ld) and 9.3 (Predicated Execution).
    """
    type_ = pointer.type.pointee
    element, count = (type_.element, type_.count) if isinstance(type_, ir.VectorType) else (type_, 1)
    letter, kind, zero = _WORDS[str(element)]
    results = [f"${place}" for place in range(count)]
    target = results[0] if count == 1 else f"{{{', '.join(results)}}}"
    zeros = " ".join(f"@!p mov.{kind} {result}, {zero};" for result in results)
    vector = "" if count == 1 else f".v{count}"
    text = (f"{{ .reg .pred p; setp.ne.u32 p, ${count + 1}, 0; {zeros} "
            f"@p ld.{_SPACES[pointer.type.addrspace]}{vector}.{kind} {target}, [${count}]; }}")
    constraints = ",".join([f"={letter}"] * count + [_address(pointer), "r", "~{memory}"])
    arguments = [_integer(builder, pointer), builder.zext(condition, I32)]
    if count == 1:
        return asm(builder, text, constraints, element, arguments)
    found = asm(builder, text, constraints, ir.LiteralStructType([element] * count), arguments)
    result: ir.Value = undefined(type_)
    for place in range(count):
        result = builder.insert_element(result, builder.extract_value(found, place), ir.Constant(I32, place))
    return result


def special_register(builder: ir.IRBuilder, name: str) -> ir.Value:
    """Return a 32-bit special register, such as ``tid.x``, as i64."""
    value = _call(builder, f"llvm.nvvm.read.ptx.sreg.{name}", I32, [], ("nounwind", "readnone"))
    return builder.zext(value, I64)


def _call(
    builder: ir.IRBuilder, name: str, result: ir.Type, arguments: Sequence[ir.Value], attributes: Sequence[str]
) -> ir.Value:
    """Call a function by name, declaring it in the module where it is missing."""
    function = builder.module.globals.get(name)
    if function is None:
        function = ir.Function(builder.module, ir.FunctionType(result, [a.type for a in arguments]), name)
        for attribute in attributes:
            function.attributes.add(attribute)
    return builder.call(function, list(arguments))


def _address(pointer: ir.Value) -> str:
    """Return the constraint of an address: 32 bits in shared memory, 64 in global memory."""
    return "r" if pointer.type.addrspace == LOCAL else "l"


def _integer(builder: ir.IRBuilder, pointer: ir.Value) -> ir.Value:
    return builder.ptrtoint(pointer, I32 if pointer.type.addrspace == LOCAL else I64)


def _by_lanes(
    builder: ir.IRBuilder, vectors: Sequence[ir.Value], scalar: Callable[[list[ir.Value]], ir.Value]
) -> ir.Value:
    """Apply a function of scalars to each lane of vectors."""
    numbers = [ir.Constant(I32, lane) for lane in range(lanes(vectors[0].type))]
    values = [scalar([builder.extract_element(vector, number) for vector in vectors]) for number in numbers]
    result: ir.Value = undefined(ir.VectorType(values[0].type, len(values)))
    for number, value in zip(numbers, values, strict=True):
        result = builder.insert_element(result, value, number)
    return result
