"""Random programs on cooperative matrices: devices compute what the interpreter does, whatever sizes they have."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.differential.conftest import counted
from tests.semantics.support import TARGETS, Target
from tests.semantics.test_work_items import check
from tests.strategies.matrices import MatrixProgram
from tl_dpnp.language import parse


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=200, deadline=None, database=None)
def test_programs_are_accepted(seed: int) -> None:
    program = MatrixProgram(seed)
    assert program.source == MatrixProgram(seed).source
    parse(program.source)


@pytest.mark.parametrize("target", TARGETS[1:], ids=str)
def test_matrices_agree_with_the_interpreter(target: Target, differential_programs: int) -> None:
    @given(st.integers(0, 2**32 - 1))
    @settings(
        max_examples=max(1, differential_programs // 4), deadline=None, suppress_health_check=list(HealthCheck),
        database=None,
    )
    def agree(seed: int) -> None:
        program = MatrixProgram(seed)
        check(target, program.source, *program.arguments())
        counted[target.name] += 1

    agree()
