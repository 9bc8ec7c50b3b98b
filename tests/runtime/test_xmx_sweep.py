"""A sample of the sweep over whole kernels on the matrix units; ``python -m tools.xmx_sweep`` does all of it."""

import pytest

from tests.runtime.support import needs_tools
from tools.xmx_sweep import TYPES, Case, Result, cases, check, sweep


@needs_tools
@pytest.mark.parametrize(("types", "kind"), [("f16-f16", "dynamic"), ("f32-default", "groups"), ("u8", "chain")])
def test_whole_kernels_are_right_and_have_dpas(types, kind):
    table, wrong = sweep([types], [kind], [8, 16], ["dg2", "pvc"], 69)
    assert not wrong
    count = 1 if kind == "chain" else 24 if TYPES[types][3] is None else 32
    kernels = 1 if kind == "chain" else 4
    assert f"| {types} | {kind} | {count} of {count} | {count} of {count} | {kernels} of {kernels} (" in table


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
