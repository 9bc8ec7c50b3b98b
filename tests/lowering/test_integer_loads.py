"""Which elements a nest takes through integer registers, and that it computes the same with them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lowering.nest_interpreter import run_nest
from tests.lowering.support import gemm
from tl_dpnp.lowering.layout import SubgroupLayout
from tl_dpnp.lowering.nest import Nest
from tl_dpnp.lowering.realization import realize
from tl_dpnp.lowering.tactics.vectors import vector_schedule
from tl_dpnp.scalars import BF16, F32, F64, I32
from tl_dpnp.target.catalog import ZEN4

ONE = SubgroupLayout()


def realized(m: int, n: int, k: int, element=F64, beta: float = 1.0) -> Nest:
    return realize(vector_schedule(gemm(m, n, k, element=element, beta=beta), ZEN4).nest, ONE).nest


def script(nest: Nest) -> list[str]:
    return [line.strip() for line in str(nest).splitlines()]


def test_a_row_that_shares_vectors_is_copied_in_front_of_its_sums():
    lines = script(realized(9, 9, 9))
    copies = [i for i, line in enumerate(lines) if "= integer_load(C[" in line]
    (sums, *_) = (i for i, line in enumerate(lines) if line.endswith("= 0"))
    assert len(copies) == 1
    assert copies[0] < sums
    assert not any(line.startswith("C[") and "+ C[m''''" in line for line in lines)


def test_its_factor_is_broadcast_from_an_integer_register():
    updates = [line for line in script(realized(9, 9, 9, F32)) if "fma(" in line]
    assert [line.count("integer_load(A[") for line in updates] == [0, 1]
    assert not any("integer_load(B[" in line for line in updates)


def test_of_f64_the_first_column_of_b_is_too():
    lines = script(realized(9, 9, 9, F64))
    updates = [(lines[i - 1], line) for i, line in enumerate(lines) if "fma(" in line]
    assert [line.count("integer_load(A[") for _, line in updates] == [0, 0, 1]
    assert [line.count("integer_load(B[") for _, line in updates] == [1, 0, 0]
    assert [loop for loop, _ in updates[:2]] == ["for n.1 in unrolled(0, 1):", "for n.1 in unrolled(1, 9):"]


@pytest.mark.parametrize(("m", "element", "beta"), [
    (9, F64, 0.0),  # nothing is added
    (8, F64, 1.0),  # no row is left over
    (10, F64, 1.0),  # two are: neighbours in memory
    (17, F64, 1.0),  # a broadcast element serves two vectors
    (1, F32, 1.0),  # there is no other row
    (9, BF16, 1.0),  # not as they are
])
def test_others_load_as_they_did(m, element, beta):
    assert "integer_load" not in str(realized(m, 9, 9, element, beta))


@pytest.mark.parametrize("beta", [1.0, 3.0])
@pytest.mark.parametrize(("m", "n", "k", "element"), [(9, 9, 9, F64), (9, 20, 3, F32), (17, 5, 6, I32), (9, 8, 1, F64)])
def test_the_result_is_the_same(m, n, k, element, beta):
    nest = realized(m, n, k, element, beta)
    assert "integer_load" in str(nest)
    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(-4, 5, shape).astype(float) for shape in ((m, k), (k, n), (m, n)))
    expected = a @ b + beta * c
    run_nest(nest, {"A": a, "B": b, "C": c}, layout=ONE)
    np.testing.assert_array_equal(c, expected)
