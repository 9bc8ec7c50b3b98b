"""Branches whose results have no names, and those without results, on every target."""

from __future__ import annotations

import numpy as np
import pytest

from tests.semantics.support import TARGETS

pytestmark = pytest.mark.parametrize("target", TARGETS, ids=str)


@pytest.mark.parametrize(("condition", "expected"), [(True, [1, 0]), (False, [0, 2])])
@pytest.mark.parametrize(("types", "end"), [
    ("(i32, f32)", "yield 3, 4.0 : i32, f32"), ("(i32)", "yield 3 : i32"), ("()", "yield"), ("()", ""),
])
def test_branches_without_names(target, condition, expected, types, end):
    x = np.zeros(2, np.int32)
    target.run(f"""func @f(%c: i1, %x: memref<i32x2>) {{
        if %c -> {types} {{ store 1, %x[0] : memref<i32x2> {end} }} else {{ store 2, %x[1] : memref<i32x2> {end} }}
    }}""", condition, x)
    assert x.tolist() == expected
