"""What counts as a beta of 0: constants do, and leave the output unread."""

from __future__ import annotations

import numpy as np
import pytest

from tests.semantics.support import TARGETS

_TARGETS = [target for target in TARGETS if target.name in ("reference", "vector", "one_subgroup")]


@pytest.mark.parametrize("target", _TARGETS, ids=str)
def test_a_beta_that_is_computed_to_be_zero_reads_the_output(target):
    """Only constants leave it unread, those that have a name too; what a compiler finds out changes nothing."""
    betas = {"0.0": False, "%named": False, "%difference": True, "%cast": True, "%branch": True, "%loop": True,
             "%other": True}
    lines = [f"axpby.n 1.0, %x, {beta}, %y{number} : f32, memref<f32x5>, f32, memref<f32x5>"
             for number, beta in enumerate(betas)]
    parameters = ", ".join(f"%y{number}: memref<f32x5>" for number in range(len(betas)))
    source = f"""func @f(%x: memref<f32x5>, {parameters}) {{
        %named = constant 0.0 : f32
        %difference = arith.sub 1.0, 1.0 : f32
        %cast = cast 0 : i32 -> f32
        %branch = if true -> (f32) {{ yield 0.0 : f32 }} else {{ yield 1.0 : f32 }}
        %loop = for %i = 3, 3 init(%c=0.0) -> (f32) {{ yield (%c) }}
        %other = arith.mul %cast, %branch : f32
        {chr(10).join(lines)}
    }}"""
    outputs = [np.full(5, np.nan, np.float32) for _ in betas]
    target.run(source, np.ones(5, np.float32), *outputs, group_size=1)
    for (beta, is_read), output in zip(betas.items(), outputs, strict=True):
        assert np.isnan(output).all() if is_read else (output == 1).all(), beta
