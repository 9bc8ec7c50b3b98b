"""A sample of the sweep over whole kernels on the matrix units; ``python -m tools.xmx_sweep`` does all of it."""

import itertools
import random

import pytest

from tests.drawing import seed_of
from tests.runtime.support import needs_tools
from tools.xmx_sweep import KINDS, TYPES, Case, Result, cases, check, sweep

#: Kernels of a kind and types: as many as there are transposes, so that these are all there where sizes are open.
COUNT = 4
ROWS = [(types, kind) for types, kind in itertools.product(TYPES, KINDS) if kind != "chain"]


@needs_tools
@pytest.mark.drawn(count=1)
@pytest.mark.parametrize(("types", "kind"), ROWS)
def test_kernels_are_right_and_have_dpas(types, kind, pytestconfig):
    """Each is emulated with 8 or 16 lanes and compiled for the device of the others, in turns.

    Where sizes are open there is a kernel for each combination of transposes; of the others some are drawn.
    """
    kernels = list(cases(kind, types, 69))
    draw = random.Random(f"{seed_of(pytestconfig)} {types} {kind}")
    kernels = sorted(draw.sample(kernels, COUNT), key=kernels.index)
    result = Result()
    for number, case in enumerate(kernels, draw.randrange(2)):
        lanes, device = [(8, "pvc"), (16, "dg2")][number % 2]
        assert not list(check(case, [lanes], [device], result))
    ordinary = [len(case.shapes[::3]) if case.precision else 0 for case in kernels]
    assert sum(result.calls.values()) == sum(len(case.shapes) for case in kernels) + sum(ordinary)
    assert result.compiled == {"pvc": COUNT // 2, "dg2": COUNT // 2}


@needs_tools
def test_a_chain_is_right_and_has_dpas():
    table, wrong = sweep(["u8"], ["chain"], [8, 16], ["dg2", "pvc"], 69)
    assert not wrong
    assert "| u8 | chain | 1 of 1 | 1 of 1 | 1 of 1 (" in table


def test_the_sweep_finds_wrong_results_and_missing_dpas():
    """A kernel that does not multiply what its case says."""
    (text,) = (case.text for case in cases("dynamic", "bf16", 70) if case.transposes == "nn")
    text = text.replace("bf16", "f32")
    wrong = Case("dynamic", "f32-highest", "nn", text.replace(" %al,", " 1.0,"), ((4, 4, 4),) * 3)
    result = Result()
    messages = list(check(wrong, [8], [], result))
    assert any("alpha, beta = (2, -3) is wrong" in message for message in messages)
    assert result.calls[8] == 4
    without = Case("dynamic", "f32-high", "nn", text.replace("f32", "i32"), ())
    assert any("without DPAS" in message for message in check(without, [16], [], Result()))
