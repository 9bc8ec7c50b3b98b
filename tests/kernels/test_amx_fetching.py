"""What products on tiles fetch ahead: each line of later operands, and of a block of C, once."""

from __future__ import annotations

import re

import pytest
from llvmlite import ir

from tl_dpnp.kernels.amx.fetching import Fetching, Later
from tl_dpnp.kernels.dpas.fragments import Matrix
from tl_dpnp.kernels.llvm import GLOBAL, I8, I64
from tl_dpnp.kernels.targets import new_module, target_for
from tl_dpnp.scalars import F32
from tl_dpnp.target.core import CACHE_LINE


def builder_and_pointer(pointee):
    type_ = ir.FunctionType(ir.VoidType(), [pointee.as_pointer(GLOBAL), I64])
    function = ir.Function(new_module("test", target_for("opencl")), type_, "f")
    return ir.IRBuilder(function.append_basic_block("entry")), *function.args


def fetched(builder):
    """Return the places that are fetched: where each begins, as it is written, and the bytes from there on."""
    text = str(builder.function)
    return [(pointer, int(offset or 0)) for offset, pointer in re.findall(
        r'asm sideeffect "prefetcht0 (\d*)\(\$0\)", "r"\s*\([^%]*(%\S+)\)', text)]


@pytest.mark.parametrize("size", [1, 64, 65, 1000, 4096])
@pytest.mark.parametrize("count", [1, 3, 16, 100])
def test_shares_are_all_lines_of_later_operands(size, count):
    builder, pointer, _ = builder_and_pointer(I8)
    fetching = Fetching(builder, None, [Later(pointer, size)])
    for number in range(count):
        fetching.share(number, count)
    places = fetched(builder)
    assert len({place for place, _ in places}) == 1
    assert [offset for _, offset in places] == [*range(0, size, CACHE_LINE)]


def test_a_share_of_a_loop_stays_within_the_operand():
    builder, pointer, number = builder_and_pointer(I8)
    Fetching(builder, None, [Later(pointer, 10 * CACHE_LINE)]).share(number, 4)
    assert [offset for _, offset in fetched(builder)] == [0, CACHE_LINE, 2 * CACHE_LINE]
    assert "7" in re.search(r"icmp slt i64 %\S+, (\d+)", str(builder.function)).groups(), "the last share begins at 7"


@pytest.mark.parametrize(("stride", "rows", "lines"), [
    (32, 32, 8), (64, 32, 8), (35, 35, 10), (40, 20, 12), (40, 9, 8)])
def test_blocks_of_results(stride, rows, lines):
    """Four columns of f32: pieces of memory that follow one another are one, and ends within lines count."""
    builder, pointer, _ = builder_and_pointer(ir.FloatType())
    Fetching(builder, Matrix(pointer, F32, (1, stride))).block(0, 0, rows, 4)
    assert len(fetched(builder)) == lines


def test_what_exceeds_the_caches_of_a_core_is_fetched_with_the_others():
    builder, pointer, number = builder_and_pointer(I8)
    later, beyond = Later(pointer, CACHE_LINE), builder.icmp_signed("<", number, ir.Constant(I64, 1))
    Fetching(builder, None, [later], [later], False, beyond, beyond).share(0, 1)
    assert len(fetched(builder)) == 2
    assert str(builder.function).count("br i1") == 2, "C is fetched unless it is stored past the caches"
