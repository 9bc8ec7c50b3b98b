"""The emitter's decisions that need no device."""

from __future__ import annotations

import pytest

from tl_dpnp.lowering.emission.variables import pieces


@pytest.mark.parametrize(
    ("count", "reach", "expected"),
    [
        (32, None, [(0, 16), (16, 16)]),
        (35, None, [(0, 16), (16, 16), (32, 2), (34, 1)]),
        (35, 0, [(0, 16), (16, 16), (31, 4)]),
        (3, 32, [(-1, 4)]),
        (3, 0, [(0, 2), (2, 1)]),
        (1, 0, [(0, 1)]),
    ],
)
def test_rows_are_cut_into_vectors(count, reach, expected):
    assert pieces(count, 16, reach) == expected
