"""Headers of messages that move on by pairs: which of them, and the registers of their steps."""

from __future__ import annotations

import pytest

from tl_dpnp.kernels.dpas.moving_headers import pairs_of, step_registers

A, B, C = (6, 16), (5, 32), (6, 8)


@pytest.mark.parametrize(("steps", "pairs", "registers"), [
    ([], [], 0), ([A], [(0,)], 0), ([A, A], [(0, 1)], 1), ([A, B], [(0, 1)], 2), ([A, B, A], [(0, 2), (1,)], 1),
    ([A, A, A, B, B], [(0, 1), (3, 4), (2,)], 2), ([A, B, A, C, B, B], [(0, 2), (1, 4), (5, 3)], 4),
    ([A, A, A, A], [(0, 1), (2, 3)], 1),
])
def test_headers_that_move_alike_are_paired_first(steps, pairs, registers):
    assert pairs_of(steps) == pairs
    assert step_registers(steps) == registers
