"""Emitters of the tables: inline PTX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from llvmlite import ir

from tl_dpnp.kernels.llvm import I32
from tl_dpnp.kernels.mma.moves import AsyncCopy, MatrixLoad
from tl_dpnp.kernels.mma.rows import MmaRow, Operand
from tl_dpnp.kernels.targets.nvvm import asm

if TYPE_CHECKING:
    from tl_dpnp.kernels.mma.warpgroup import WarpgroupRow

__all__ = ["create_group", "device_async_copy", "ldmatrix", "mma", "wait", "wait_all", "warpgroup_mma", "word_type"]

_VOID = ir.VoidType()
_F32, _F64 = ir.FloatType(), ir.DoubleType()


def word_type(row: MmaRow, operand: Operand) -> ir.Type:
    """Return the LLVM type of a word of an operand."""
    element = row.element(operand)
    if element.bits == 64:
        return _F64
    return _F32 if element.name == "f32" else I32


def _letter(type_: ir.Type) -> str:
    return {str(_F32): "f", str(_F64): "d"}.get(str(type_), "r")


def mma(
    builder: ir.IRBuilder, row: MmaRow, a: Sequence[ir.Value], b: Sequence[ir.Value], c: Sequence[ir.Value],
    metadata: ir.Value | None = None, selector: int = 0,
) -> list[ir.Value]:
    """Emit an instruction on a lane's words and return those of D; a sparse one takes metadata and a selector."""
    type_ = word_type(row, "d")
    count = row.words("d")
    operands = [*a, *b, *c, *([] if metadata is None else [metadata])]
    assert [len(a), len(b), len(c)] == [row.words(operand) for operand in ("a", "b", "c")]
    lists, number = [], 0
    for length in (count, len(a), len(b), len(c)):
        lists.append("{" + ", ".join(f"${number + place}" for place in range(length)) + "}")
        number += length
    tail = "" if metadata is None else f", ${number}, {selector:#x}"
    text = f"{row.instruction} {', '.join(lists)}{tail};"
    constraints = [f"={_letter(type_)}"] * count + [_letter(value.type) for value in operands]
    return _several(builder, text, ",".join(constraints), [type_] * count, operands, side_effect=False)


def warpgroup_mma(
    builder: ir.IRBuilder, row: WarpgroupRow, a: ir.Value, b: ir.Value, sums: Sequence[ir.Value],
    a_along_k: bool = True, b_along_k: bool = True,
) -> list[ir.Value]:
    """Emit a product of a warpgroup, wait for it, and return a thread's words of D; `sums` are those before.

    `a` and `b` are descriptors of matrices in shared memory, which the asynchronous proxy must see.
    """
    assert len(sums) == row.words
    letter, count = _letter(sums[0].type), len(sums)
    results = ", ".join(f"${place}" for place in range(count))
    flags = "".join(f", {flag}" for flag in row.immediates(a_along_k, b_along_k))
    text = (f"wgmma.fence.sync.aligned; {row.instruction} {{{results}}}, ${2 * count}, ${2 * count + 1}, 1{flags}; "
            "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;")
    constraints = [f"={letter}"] * count + [str(place) for place in range(count)] + ["l", "l", "~{memory}"]
    return _several(builder, text, ",".join(constraints), [sums[0].type] * count, [*sums, a, b], side_effect=True)


def ldmatrix(builder: ir.IRBuilder, load: MatrixLoad, address: ir.Value) -> list[ir.Value]:
    """Load matrices; `address` is this lane's, as 32 bits in shared memory, a multiple of 16."""
    words = ", ".join(f"${place}" for place in range(load.count))
    text = f"{load.instruction} {{{words}}}, [${load.count}];"
    constraints = ",".join(["=r"] * load.count + ["r", "~{memory}"])
    return _several(builder, text, constraints, [I32] * load.count, [address], side_effect=True)


def device_async_copy(
    builder: ir.IRBuilder, copy: AsyncCopy, target: ir.Value, source: ir.Value, present: ir.Value | None = None,
    condition: ir.Value | None = None,
) -> None:
    """Start a copy; `target` is 32 bits in shared memory, `source` 64 in global memory, both multiples of its size.

    `present`, i32, is the number of bytes that are read, for a partial copy.  With a `condition`, i1, the copy is made
    where that holds, without a branch.
    """
    assert (present is not None) == copy.partial
    operands = [target, source, *([] if present is None else [present])]
    constraints = ["r", "l", *(["r"] if copy.partial else [])]
    text = f"{copy.instruction} [$0], [$1], {copy.bytes}{', $2' * copy.partial};"
    if condition is not None:
        text = f"{{ .reg .pred p; setp.ne.u32 p, ${len(operands)}, 0; @p {text} }}"
        operands.append(builder.zext(condition, I32))
        constraints.append("r")
    asm(builder, text, ",".join([*constraints, "~{memory}"]), _VOID, operands)


def create_group(builder: ir.IRBuilder) -> None:
    """Put this lane's copies since the last group into a group."""
    asm(builder, "cp.async.commit_group;", "~{memory}", _VOID, [])


def wait(builder: ir.IRBuilder, count: int) -> None:
    """Wait until at most the `count` latest groups of this lane are under way."""
    asm(builder, f"cp.async.wait_group {count};", "~{memory}", _VOID, [])


def wait_all(builder: ir.IRBuilder) -> None:
    """Wait for all copies of this lane, whether in groups or not."""
    asm(builder, "cp.async.wait_all;", "~{memory}", _VOID, [])


def _several(
    builder: ir.IRBuilder, text: str, constraints: str, types: Sequence[ir.Type], operands: Sequence[ir.Value], *,
    side_effect: bool,
) -> list[ir.Value]:
    """Append inline PTX with several results."""
    if len(types) == 1:
        return [asm(builder, text, constraints, types[0], operands, side_effect=side_effect)]
    result = asm(builder, text, constraints, ir.LiteralStructType(types), operands, side_effect=side_effect)
    return [builder.extract_value(result, place) for place in range(len(types))]
