"""The ten points of docs/language.md, "Ten points that are easily got wrong", each on every target.

The checks are in the modules `*_points`; `test_mutants` shows that they fail when the point is broken.
"""

from __future__ import annotations

import pytest

from tests.semantics import algebra_points, memory_points, order_points, scalar_points
from tests.semantics.support import DTYPES, TARGETS

INTEGERS = [element for element, dtype in DTYPES.items() if "int" in dtype]
FLOATS = ["f32", "f64"]

pytestmark = pytest.mark.parametrize("target", TARGETS, ids=str)


@pytest.mark.drawn(pairs=True)
@pytest.mark.parametrize("atomic", [False, True], ids=["plain", "atomic"])
@pytest.mark.parametrize("instruction", algebra_points.ALGEBRA)
def test_1_constant_beta_zero_does_not_read_the_output(target, instruction, atomic):
    algebra_points.check_beta_zero(target, instruction, "f32", atomic)


def test_1_constant_beta_zero_in_double_precision(target):
    algebra_points.check_beta_zero(target, "gemm.n.n", "f64", atomic=False)


def test_2_foreach_runs_its_range_only(target):
    order_points.check_foreach_range(target)


@pytest.mark.parametrize("element", ["f32", "f64", "i32", "i8"])
def test_3_sum(target, element):
    algebra_points.check_sum(target, element)


@pytest.mark.parametrize("name", order_points.BARRIERS)
def test_4_conflicting_accesses_are_ordered(target, name):
    order_points.check_barriers(target, name)


@pytest.mark.parametrize("where", ["argument", "temporary"])
def test_5_views_alias(target, where):
    memory_points.check_views_alias(target, where)


def test_5_temporaries_do_not_disturb_each_other(target):
    memory_points.check_temporaries_do_not_disturb(target)


def test_5_temporaries_share_memory(target):
    if target.layout is None or target.layout[0] != "subgroup":
        pytest.skip("only the sub-group form has local memory")
    assert memory_points.local_memory(target, apart=True) == 16 * 16 * 4
    assert memory_points.local_memory(target, apart=False) >= 4 * 16 * 16 * 4


def test_6_a_replicated_store_stores_once(target):
    order_points.check_replicated_store(target)


@pytest.mark.parametrize("element", ["i32", "i64", "u32", "u64", "f32", "f64"])
def test_7_atomic_updates_are_whole(target, element):
    memory_points.check_atomic(target, element)


def test_7_every_instruction_updates_atomically(target):
    memory_points.check_atomic_instructions(target)


@pytest.mark.parametrize("element", INTEGERS)
def test_8_division_truncates(target, element):
    scalar_points.check_division(target, element)


@pytest.mark.parametrize("element", FLOATS)
def test_8_float_remainder_is_fmod(target, element):
    scalar_points.check_float_remainder(target, element)


@pytest.mark.parametrize("element", INTEGERS)
def test_8_shifts(target, element):
    scalar_points.check_shifts(target, element)


@pytest.mark.parametrize("element", ["i8", "i32", "i64", "u16"])
def test_8_wide_shifts_are_reported_under_debug(target, element):
    scalar_points.check_wide_shifts_are_reported(target, element)


def test_9_group_ids_run_from_0_to_group_size(target):
    order_points.check_group_ids(target)


def test_10_elements_of_a_group_have_their_own_sizes_and_strides(target):
    memory_points.check_group_elements_differ(target)
