"""Kernels of one linear-algebra instruction each, and kernels with all scalar instructions of a type."""

from __future__ import annotations

import random
from collections.abc import Iterator

from tl_dpnp.language import ops
from tl_dpnp.scalars import SCALAR_TYPES, ScalarType
from tools.same_code.definitions import Definition

__all__ = ["linear_algebra", "scalar_code"]

#: Instructions and the modes of their operands, the last one the result.
_INSTRUCTIONS = {
    "gemm.n.n": ("mk", "kn", "mn"), "gemm.n.t": ("mk", "nk", "mn"), "gemm.t.n": ("km", "kn", "mn"),
    "gemm.t.t": ("km", "nk", "mn"), "gemv.n": ("mk", "k", "m"), "gemv.t": ("km", "k", "m"), "ger": ("m", "n", "mn"),
    "hadamard": ("m", "m", "m"), "sum.n": ("mk", "m"), "sum.t": ("km", "m"), "axpby.n": ("mn", "mn"),
    "axpby.t": ("nm", "mn"),
}
#: Types of the inputs and of the result, and what products of f32 may lose.  What cannot be multiplied is refused, and
#: the refusal is what is compared.
_TYPES = (
    *((name, "i32" if scalar.is_subbyte else name, "highest") for name, scalar in SCALAR_TYPES.items()
      if not scalar.is_boolean and name != "c32"),
    ("f16", "f32", "highest"), ("bf16", "f32", "highest"), ("i8", "i32", "highest"), ("u8", "i32", "highest"),
    ("f32", "f32", "high"), ("f32", "f32", "default"),
)
#: How operands come: as they are, with sizes or strides of the call, as slices of a batch, from a group.
_LAYOUTS = ("static", "dynamic", "strided", "batch", "group")
_TARGETS: tuple[tuple[str, str | None], ...] = (
    ("avx512", "vector"), ("sm_90a", None), ("avx512", "subgroup"), ("avx2", "vector"), ("pvc", None),
)
#: One of these is added to each instruction: alpha and beta, parameters where they are names.
_FACTORS = (("1", "0"), ("%p", "1"), ("2", "%q"), ("-1", "3"), ("0", "1"), ("1", "1"))


def linear_algebra() -> Iterator[Definition]:
    """Yield a kernel for each instruction, type and layout, on targets in turn; sizes are drawn at random."""
    for row, instruction in enumerate(_INSTRUCTIONS):
        for number, (element, result, precision) in enumerate(_TYPES):
            layout = _LAYOUTS[(number + row) % len(_LAYOUTS)]
            turn = number // len(_LAYOUTS) + 2 * row + number
            device, form = _TARGETS[turn % len(_TARGETS)]
            atomic = ".atomic" if (number + 3 * row) % 4 == 0 else ""
            name = f"linear/{instruction}{atomic}/{element}-{result}-{precision}/{layout}/{device}-{form or 'default'}"
            text = _program(instruction, atomic, element, result, layout, _FACTORS[(row + number) % len(_FACTORS)],
                            random.Random(name))
            options = {"form": form, "debug": (number + row) % 4 == 0, "precision": precision}
            yield Definition(name, text, device, tuple(options.items()))


def _program(
    instruction: str, atomic: str, element: str, result: str, layout: str, factors: tuple[str, str],
    draw: random.Random,
) -> str:
    packed = SCALAR_TYPES[element].is_subbyte
    sizes = {mode: 4 * draw.randint(1, 12) if packed else draw.choice((draw.randint(1, 9), draw.randint(1, 48)))
             for mode in "mnk"}
    *inputs, output = _INSTRUCTIONS[instruction]
    names = (*("%A", "%B")[: len(inputs)], "%C")
    scalar = SCALAR_TYPES[result]
    parameters, lines, types, operands = [f"%p: {scalar}", f"%q: {scalar}"], ["%g = group_id"], [], []
    for name, modes in zip(names, (*inputs, output), strict=True):
        kind = result if name == "%C" else element
        shape = "".join(f"x{'?' if layout in ('dynamic', 'strided') else sizes[mode]}" for mode in modes)
        strides = "" if layout != "strided" else f",strided<{'1' if packed else '?'}{',?' * (len(modes) - 1)}>"
        type_ = f"memref<{kind}{shape}{strides}>"
        types.append(type_)
        match layout:
            case "batch":
                whole = f"memref<{kind}{shape}x?>"
                lines.append(f"{name.lower()} = subview {name}[{':,' * len(modes)}%g] : {whole}")
            case "group":
                whole = f"group<{type_}>"
                lines.append(f"{name.lower()} = load {name}[%g] : {whole}")
            case _:
                whole = type_
        parameters.append(f"{name}: {whole}")
        operands.append(name.lower() if whole != type_ else name)
    alpha, beta = (_constant(factor, scalar) for factor in factors)
    if atomic:
        beta = _constant("1", scalar)
    lines.append(f"{instruction}{atomic} {alpha}, {', '.join(operands[:-1])}, {beta}, {operands[-1]} : {result}, "
                 f"{', '.join(types[:-1])}, {result}, {types[-1]}")
    return f"func @f({', '.join(parameters)}) {{\n  " + "\n  ".join(lines) + "\n}\n"


def _constant(text: str, scalar: ScalarType) -> str:
    if text.startswith("%"):
        return text
    if scalar.kind == "unsigned" and text.startswith("-"):
        text = "5"
    if scalar.is_complex:
        return f"[{text}.0, 0.5]"
    return f"{text}.0" if scalar.is_float else text


def scalar_code() -> Iterator[Definition]:
    """Yield kernels that do all scalar instructions of a type, as vectors of iterations and one by one."""
    for number, scalar in enumerate(dict.fromkeys(SCALAR_TYPES.values())):
        for place, (device, form) in enumerate(_TARGETS[:3]):
            for looped in (True, False) if place == number % 3 else (True,):
                name = f"scalar/{scalar}/{'foreach' if looped else 'plain'}/{device}-{form or 'default'}"
                options = {"form": form, "debug": number % 5 == 0}
                yield Definition(name, _scalars(scalar, looped), device, tuple(options.items()))


def _scalars(scalar: ScalarType, looped: bool) -> str:
    """Return a function z[i, j] := the result of the j-th instruction on x[i] and y[i]."""
    own = scalar.in_registers
    calls: list[tuple[str, str]] = []
    for kinds, operands, mnemonic, result in (
        *((kinds, 2, f"arith.{kind}", own) for kind, kinds in ops.ARITHMETIC.items()),
        *((kinds, 1, f"arith.{kind}", own) for kind, kinds in ops.UNARY.items()),
        *((function.kinds, function.operands, f"math.{kind}", own.part if function.is_real else own)
          for kind, function in ops.MATHEMATICS.items()),
    ):
        if own.kind in kinds:
            calls.append((f"{mnemonic} {', '.join(['%x', '%y', '%x'][:operands])} : {result}", str(result)))
    ordered = own.is_integer or own.is_float
    calls += [(f"cmp.{kind} %x, %y : {own}", "i1") for kind in ops.COMPARISONS if ordered or kind in ("eq", "ne")]
    for other in dict.fromkeys(SCALAR_TYPES.values()):
        if other != own and not other.is_subbyte and other.is_complex == own.is_complex:
            calls.append((f"cast %x : {own} -> {other}", str(other)))
    results = sorted({result for _, result in calls})
    vector = f"memref<{scalar}x64>"
    parameters = [f"%X: {vector}", f"%Y: {vector}", *(f"%R{name}: memref<{name}x64x{len(calls)}>" for name in results)]
    lines = [f"%x = load %X[%i] : {vector}", f"%y = load %Y[%i] : {vector}"]
    if scalar.is_subbyte:  # an element in memory, widened before it is computed with
        lines = [line.replace("=", "_loaded =", 1).replace(" _", "_") for line in lines]
        lines += [f"%{value} = cast %{value}_loaded : {scalar} -> {own}" for value in "xy"]
    for place, (call, result) in enumerate(calls):
        lines += [f"%v{place} = {call}", f"store %v{place}, %R{result}[%i, {place}] : memref<{result}x64x{len(calls)}>"]
    body = "\n    ".join(lines)
    body = f"foreach %i = 0, 64 {{\n    {body}\n  }}" if looped else f"%i = group_id\n    {body}"
    return f"func @f({', '.join(parameters)}) {{\n  {body}\n}}\n"
