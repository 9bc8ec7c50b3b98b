"""The table of DPAS: what the specification allows, the names that the compiler knows, and what is out of reach."""

import pytest

from tl_dpnp.errors import UnsupportedError
from tl_dpnp.kernels.dpas.functions import function_of
from tl_dpnp.kernels.dpas.rows import EXECUTION_SIZES, find_row, rows


def test_the_table_holds_every_legal_combination_once():
    integers = 8 * 8
    floats = 2 * 2 + 2 * 2 + 1 + 2 * 2  # accumulators of bf16, of f16, tf32, and the 8-bit floats with one another
    for size in EXECUTION_SIZES:
        names = [row.name for row in rows(size)]
        assert len(names) == len(set(names)) == (integers + floats) * 8


@pytest.mark.parametrize(
    ("size", "types", "repeat", "name"),
    [
        (16, ("f32", "bf16", "bf16"), 8, "_Z40intel_sub_group_bf16_bf16_matrix_mad_k16Dv8_sDv8_iDv8_f"),
        (16, ("bf16", "bf16", "bf16"), 8, "_Z40intel_sub_group_bf16_bf16_matrix_mad_k16Dv8_sDv8_iS_"),
        (16, ("f16", "f16", "f16"), 2, "_Z38intel_sub_group_f16_f16_matrix_mad_k16Dv2_sDv8_iDv2_Dh"),
        (16, ("f32", "tf32", "tf32"), 4, "_Z43intel_sub_group_tf32_tf32_matrix_mad_k8_f32Dv4_sDv8_iDv4_f"),
        (8, ("f32", "f16", "f16"), 8, "_Z38intel_sub_group_f16_f16_matrix_mad_k16Dv8_iS_Dv8_f"),
        (8, ("i32", "i8", "i8"), 8, "_Z36intel_sub_group_i8_i8_matrix_mad_k32Dv8_iS_S_"),
        (16, ("i32", "i8", "u8"), 1, "_Z36intel_sub_group_i8_u8_matrix_mad_k32sDv8_ji"),
        (16, ("i32", "u4", "i2"), 8, "_Z36intel_sub_group_u4_i2_matrix_mad_k64Dv8_tDv4_iDv8_i"),
    ],
)
def test_names_are_those_of_the_opencl_extensions(size, types, repeat, name):
    assert function_of(find_row(size, *types, repeat)).name == name


@pytest.mark.parametrize(
    ("size", "types", "repeat", "reason"),
    [
        (8, ("f32", "tf32", "tf32"), 8, "Xe-HPG has no tf32"),
        (8, ("bf16", "bf16", "bf16"), 8, "accumulates floats in f32 only"),
        (16, ("f32", "bf16", "bf16"), 5, "use repeat counts 4, 2 and 1"),
        (16, ("i32", "u1", "i8"), 8, "1-bit"),
        (16, ("f32", "bf8", "hf8"), 8, "8-bit floats"),
        (16, ("i32", "i2", "i8"), 1, "A has 4 bits for each lane"),
    ],
)
def test_rows_out_of_reach_say_why(size, types, repeat, reason):
    with pytest.raises(UnsupportedError, match=reason):
        function_of(find_row(size, *types, repeat))


def test_floats_of_different_precision_do_not_multiply():
    assert find_row(16, "f32", "bf16", "f16", 8) is None
