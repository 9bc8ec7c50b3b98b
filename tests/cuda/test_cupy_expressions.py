"""The expressions of dpnp's conformance suite that have a counterpart in CuPy, fused for CuPy's arrays."""

from __future__ import annotations

import pytest

from tests.cuda.cupy_support import compare, cupy, fuse, here, shares
from tests.graph.expressions import DTYPES, EXPRESSIONS, arrays_for, groups


@pytest.fixture(autouse=True)
def _cupy(monkeypatch):
    here(monkeypatch)


_fused: dict[int, bool] = {}


def operands_of(expression):
    """Return fresh operands; views of them are views in CuPy."""
    return arrays_for(expression, cupy)


def expected_of(expression):
    """Return what CuPy computes and the operands afterwards, None where it refuses an expression."""
    try:
        given = operands_of(expression)
        return expression.function(cupy, *given), given
    except Exception:
        return None


def _topic_and_dtypes(group):
    """Return what is covered by the groups of a sample: what a group is about, and the type that it is for."""
    dtypes = [word for word in group.split() if word in DTYPES]
    return " ".join(word for word in group.split() if word not in DTYPES), next(iter(dtypes), None)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.drawn(by=_topic_and_dtypes)
@pytest.mark.parametrize("group", [name for name, _ in groups()])
def test_expressions_are_what_cupy_computes(group):
    chosen = [(each, expected) for each in EXPRESSIONS if each.group == group
              and (expected := expected_of(each)) is not None]
    functions = [each.function for each, _ in chosen]

    @fuse
    def together(inputs):
        return [function(cupy, *given) for function, given in zip(functions, inputs, strict=True)]

    if not chosen:
        return
    explanation = together.explain([operands_of(each) for each, _ in chosen])
    broken = {b.file for b in explanation.breaks}
    for _ in range(2):  # the second call runs from the plan of the first
        inputs = [operands_of(each) for each, _ in chosen]
        for (each, (expected, plainly)), found, given in zip(chosen, together(inputs), inputs, strict=True):
            compare(str(each), found, expected)
            for one, other in zip(given, plainly, strict=True):
                compare(f"{each}, an operand", one, other)
            if isinstance(expected, cupy.ndarray):
                aliases = [shares(found, one) for one in given]
                assert aliases == [shares(expected, one) for one in plainly], f"{each}: aliasing"
    _fused.update({each.number: f"expression {each.number}" not in broken for each, _ in chosen})


def test_most_expressions_of_the_first_two_tiers_are_fused():
    counted = {tier: [_fused[e.number] for e in EXPRESSIONS if e.tier == tier and e.number in _fused]
               for tier in (1, 2, 3)}
    for tier, results in counted.items():
        print(f"tier {tier}: {sum(results)} of {len(results)} expressions fused")
    first_two = counted[1] + counted[2]
    if len(first_two) < 400:
        pytest.skip("only a part of the expressions ran")
    assert sum(first_two) >= 0.85 * len(first_two)
