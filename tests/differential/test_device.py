"""The device computes what the interpreter computes, on random programs, in every form.

A failure shows the program and ``random_program(seed)``, which reproduces it; so does hypothesis's own database.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.campaigns.programs import WITH_COMPLEX, WITH_WORK_ITEMS
from tests.differential.conftest import counted
from tests.differential.device import LAYOUTS, disagreements
from tests.strategies.programs import Program, random_program
from tl_dpnp.lowering.plan import EXCEEDS_ALL

seeds = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_device_agrees_with_the_interpreter(layout: str, differential_programs: int) -> None:
    @given(seeds)
    @settings(max_examples=differential_programs, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    def agree(seed: int) -> None:
        check(random_program(seed), layout)

    agree()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_programs_with_complex_numbers(layout: str, differential_programs: int) -> None:
    @given(seeds)
    @settings(
        max_examples=max(1, differential_programs // 2), deadline=None, suppress_health_check=list(HealthCheck),
        database=None,
    )
    def agree(seed: int) -> None:
        check(random_program(seed, WITH_COMPLEX), layout)

    agree()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_programs_with_work_items(layout: str, differential_programs: int) -> None:
    """Regions that each work-item runs for itself, of as many as the layout has."""
    @given(seeds, st.booleans())
    @settings(
        max_examples=max(1, differential_programs // 2), deadline=None, suppress_health_check=list(HealthCheck),
        database=None,
    )
    def agree(seed: int, debug: bool) -> None:
        check(random_program(seed, WITH_WORK_ITEMS), layout, debug)

    agree()


@pytest.mark.parametrize("layout", ["vector", "several_subgroups"])
def test_bounds_checks_pass_on_programs_without_errors(layout: str, differential_programs: int) -> None:
    @given(seeds)
    @settings(
        max_examples=max(1, differential_programs // 4), deadline=None, suppress_health_check=list(HealthCheck),
        database=None,
    )
    def agree(seed: int) -> None:
        check(random_program(seed), layout, debug=True)

    agree()


def test_prefetching_and_streaming_change_no_result(
    differential_programs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small arrays are in the cache: here all kernels prefetch and stream as if theirs were not."""
    monkeypatch.setattr("tl_dpnp.runtime.sycl.launch.exceeded_caches", lambda *_: EXCEEDS_ALL)

    @given(seeds)
    @settings(
        max_examples=max(1, differential_programs // 4), deadline=None, suppress_health_check=list(HealthCheck),
        database=None,
    )
    def agree(seed: int) -> None:
        check(random_program(seed), "vector")

    agree()


def check(program: Program, layout: str, debug: bool = False) -> None:
    found = disagreements(program, LAYOUTS[layout], debug)
    counted[layout] += 1
    assert not found, "\n".join([*found, repr(program)])
