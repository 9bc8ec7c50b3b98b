"""The functions that become DPAS in Intel's compiler, for each row: their names and the types of their operands.

Two families lead there.  The OpenCL functions ``intel_sub_group_<A>_<B>_matrix_mad_k<K>`` (extension
cl_intel_subgroup_matrix_multiply_accumulate) take A, B and C, with repeat counts 1, 2, 4 and 8 and equal types of C
and D.  For the other forms there are the functions that they are made of, ``__builtin_IB_sub_group*dpas_*``, which
take C first.  The compiler resolves both by name only and drops calls of names that it does not know, or leaves them
undefined; what it made of them has to be read (`tl_dpnp.runtime.offline`).  The names are those of the Intel Graphics
Compiler 1.0.12504; the spelling of tf32 there (A as 16-bit elements) is older than the extension's.
"""

from __future__ import annotations

from llvmlite import ir

from tl_dpnp.errors import UnsupportedError
from tl_dpnp.kernels.dpas.rows import DpasRow
from tl_dpnp.kernels.llvm import I32, vector_of
from tl_dpnp.records import dataclass

__all__ = ["DpasFunction", "assembly_of", "function_of", "operand_types"]

_OPENCL_REPEATS = (1, 2, 4, 8)
_ELEMENTS = {"f32": ir.FloatType(), "i32": I32, "bf16": ir.IntType(16), "f16": ir.HalfType()}
_MANGLED = {"f32": "f", "i32": "i", "bf16": "s", "f16": "Dh"}
#: Letters of integers in mangled names, by width, signed and unsigned.
_INTEGERS = {8: "ch", 16: "st", 32: "ij"}
#: Accumulators in the names of the inner functions.
_TEXTS = {"f32": "f", "bf16": "bf", "f16": "hf"}


@dataclass(frozen=True)
class DpasFunction:
    """A function of the compiler; `accumulator_first` says whether it takes (C, A, B) instead of (A, B, C)."""

    name: str
    accumulator_first: bool


def operand_types(row: DpasRow) -> tuple[ir.Type, ir.Type, ir.Type, ir.Type]:
    """Return the LLVM types of one lane's part of A, B, C and D."""
    return (
        vector_of(ir.IntType(row.a_width), row.a_elements),
        vector_of(I32, row.b_elements),
        vector_of(_ELEMENTS[row.source0], row.repeat),
        vector_of(_ELEMENTS[row.destination], row.repeat),
    )


def function_of(row: DpasRow) -> DpasFunction:
    """Return the function for a row; raises UnsupportedError, with the reason, for a row out of reach."""
    if row.unreachable is not None:
        raise UnsupportedError(f"{row.name} cannot be reached: {row.unreachable}")
    if row.repeat in _OPENCL_REPEATS and row.destination == row.source0 and row.a_elements == row.repeat:
        return DpasFunction(_opencl_name(row), False)
    return DpasFunction(_inner_name(row), True)


def assembly_of(row: DpasRow) -> str:
    """Return how inline assembly says the instruction of a row, in front of its operands."""
    return f"dpas.{row.source1.text}.{row.source2.text}.8.{row.repeat} (M1,{row.execution_size})"


def _opencl_name(row: DpasRow) -> str:
    a, b = row.source2, row.source1
    name = f"intel_sub_group_{a.name}_{b.name}_matrix_mad_k{row.k}" + ("_f32" if a.name == "tf32" else "")
    types = [
        (row.a_elements, _INTEGERS[row.a_width][a.kind == "unsigned"]),
        (row.b_elements, _INTEGERS[32][b.kind == "unsigned"]),
        (row.repeat, _MANGLED[row.destination]),
    ]
    return f"_Z{len(name)}{name}{_mangled(types)}"


def _mangled(types: list[tuple[int, str]]) -> str:
    """Return the parameter types as Itanium C++ ABI, section 5.1, spells them: repeated vectors by reference."""
    seen: list[str] = []
    result = ""
    for count, letter in types:
        text = letter if count == 1 else f"Dv{count}_{letter}"
        if text in seen:
            number = seen.index(text)
            result += "S_" if number == 0 else f"S{number - 1}_"
            continue
        result += text
        if count > 1:
            seen.append(text)
    return result


def _inner_name(row: DpasRow) -> str:
    """Return the inner function's name; the precision of A comes before that of B."""
    wide = row.execution_size == 16
    kind = "f" if row.source1.is_float else "i"
    accumulators = f"{_TEXTS[row.destination]}_{_TEXTS[row.source0]}_" if wide and kind == "f" else ""
    precisions = f"{row.source2.text}_{row.source1.text}"
    return f"__builtin_IB_sub_group{16 if wide else ''}_{kind}dpas_{accumulators}{precisions}_8_{row.repeat}"
