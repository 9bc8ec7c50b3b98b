"""Campaigns find defects of every sort, count them, make them small and go on."""

from __future__ import annotations

import itertools
import math
import re
import types
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.campaigns import __main__ as command
from tests.campaigns import evaluation, fusion, matrices, planted, products, programs, quick, raising, text
from tests.campaigns.campaign import run_campaign
from tests.campaigns.outcome import Outcome, case_seeds
from tests.campaigns.planted import TOO_LARGE
from tests.campaigns.snapshots import difference
from tl_dpnp.language import ops, parse

SEED = 5


def test_what_is_right_is_counted() -> None:
    outcome = run_campaign(planted.CAMPAIGN, SEED, 5, 30, kind="right", workers=2)
    assert (outcome.tried, outcome.failures) == (30, ())
    assert "right: 30 tried, 30 small numbers" in outcome.notes[0]


@pytest.mark.parametrize(("kind", "why"), [
    ("wrong", "wrong: a number is too large"), ("raises", "ValueError: too large"),
    ("dies", "about to die"), ("ends", "died: exit status 3"),
])
def test_failures_are_counted_and_made_small(kind: str, why: str) -> None:
    outcome = run_campaign(planted.CAMPAIGN, SEED, 5, 4, kind=kind, workers=1)
    seeds = list(itertools.islice(case_seeds(SEED), 4))
    failing = [seed for seed in seeds if max(planted.make(kind, seed)) >= TOO_LARGE]
    assert outcome.tried == 4
    assert len(outcome.failures) == len(failing) >= 2
    for seed, failure in zip(failing, outcome.failures, strict=True):
        assert failure.startswith(f"repeat with: python -m tests.campaigns planted --kind {kind} --seed {seed} --count")
        assert why in failure
    assert re.search(rf"reduced in \d+ steps to:\n\[{TOO_LARGE}\]", outcome.failures[0])


def test_a_process_that_dies_shows_its_signal_and_where_it_was() -> None:
    outcome = run_campaign(planted.CAMPAIGN, SEED, 5, 2, kind="dies", workers=1)
    assert "died: signal 11 (SIGSEGV)" in outcome.failures[0]
    assert re.search(r'File ".*planted.py", line \d+ in check', outcome.failures[0])


def test_a_hang_is_ended_and_shows_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.campaigns.campaign.SHRINKING", 4.0)
    outcome = run_campaign(quick.CAMPAIGN, SEED, 0.2, 1, kind="hangs", workers=1)
    (failure,) = outcome.failures
    assert "hung: no end after 1 s" in failure
    assert re.search(r'File ".*planted.py", line \d+ in check', failure)


def test_a_program_is_reduced_to_what_fails() -> None:
    whole = {seed: programs.make("vector", seed).program.function for seed in range(60)}
    seed = next(seed for seed, function in whole.items() if len(_products(function)) > 1)
    outcome = run_campaign(planted.CAMPAIGN, seed, 5, 1, kind="program", workers=1)
    (failure,) = outcome.failures
    assert "elements differ, first at 0" in failure
    reduced = failure.partition("steps to:\n")[2].partition("\n;")[0]
    (function,) = parse(reduced)
    assert len(_products(function)) == 1
    assert len(list(function.body.walk())) < len(list(whole[seed].body.walk())) / 2


def _products(function: ops.Function) -> list[ops.Operation]:
    return [operation for operation in function.body.walk() if isinstance(operation, ops.Gemm)]


def test_a_case_is_repeated_by_its_seed() -> None:
    first, second = case_seeds(SEED), case_seeds(SEED)
    assert list(itertools.islice(first, 9)) == list(itertools.islice(second, 9))
    assert next(case_seeds(77)) == 77
    for campaign in (programs.CAMPAIGN, evaluation.CAMPAIGN, matrices.CAMPAIGN, products.CAMPAIGN, text.CAMPAIGN,
                     raising.CAMPAIGN):
        for kind in campaign.kinds:
            cases = [campaign.make(kind, 3) for _ in range(2)]
            assert campaign.text(kind, cases[0]) == campaign.text(kind, cases[1])


@pytest.mark.parametrize("campaign", [programs.CAMPAIGN, evaluation.CAMPAIGN, matrices.CAMPAIGN, products.CAMPAIGN],
                         ids=lambda campaign: campaign.name)
def test_cases_can_be_made_smaller(campaign) -> None:
    for kind in campaign.kinds:
        smaller = next(iter(campaign.smaller(kind, campaign.make(kind, 3))))
        assert campaign.text(kind, smaller) != campaign.text(kind, campaign.make(kind, 3))


def test_an_unknown_kind_and_one_that_cannot_be_tried() -> None:
    with pytest.raises(SystemExit, match="planted has no kind 'write'; it has right, wrong,"):
        run_campaign(planted.CAMPAIGN, SEED, 5, kind="write")
    outcome = run_campaign(planted.CAMPAIGN, SEED, 5, kind="right", without={"right": "no device"})
    assert outcome == Outcome(0, (), ("right skipped: no device",))


def test_a_worker_that_cannot_start_ends_the_campaign() -> None:
    with pytest.raises(RuntimeError, match=r"No module named 'tests.campaigns.missing'"):
        run_campaign(replace(planted.CAMPAIGN, module="tests.campaigns.missing"), SEED, 1, workers=1)


@pytest.mark.parametrize("kind", evaluation.CAMPAIGN.kinds)
def test_a_program_is_evaluated_twice_and_read_from_what_can_say_it(kind: str) -> None:
    verdicts = [evaluation.check(kind, evaluation.make(kind, seed)) for seed in range(8)]
    assert not any(verdict.failure for verdict in verdicts)
    labels = [label for verdict in verdicts for label in verdict.labels]
    assert labels.count("evaluated twice") == labels.count("read from 0.4") == 8
    assert (labels.count("read from 0.3") == 8) == (kind == "older")


def test_lowering_that_loses_an_operation_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_last(function: ops.Function) -> ops.Function:
        return replace(function, body=ops.Region(function.body.operations[:-1]))

    monkeypatch.setattr(evaluation, "decompose", without_last)
    verdicts = [evaluation.check("older", evaluation.make("older", seed)) for seed in range(12)]
    wrong = [verdict.failure for verdict in verdicts if verdict.failure]
    assert wrong
    assert all(failure.startswith("wrong:\nargument ") for failure in wrong)


def test_a_printer_that_changes_a_program_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = evaluation.print_module
    monkeypatch.setattr(evaluation, "print_module", lambda *given: plain(*given).replace("mul", "add"))
    verdicts = [evaluation.check("older", evaluation.make("older", seed)) for seed in range(12)]
    assert any(verdict.failure == "read differently: the dialects 0.3, 0.4" for verdict in verdicts)


def test_a_call_that_is_not_compared_with_its_product_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = [raising.check(kind, raising.make(kind, seed)) for kind in raising.CAMPAIGN.kinds for seed in range(12)]
    assert not any(verdict.failure for verdict in verdicts)
    monkeypatch.setattr(raising.Cover, "misfit", lambda *_: None)
    assert any(raising.check("mistaken", raising.make("mistaken", seed)).failure for seed in range(12))


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_list(capsys: pytest.CaptureFixture) -> None:
    assert command.main(["list"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert {"matrices", "products", "programs", "text"} <= set(names)
    assert not {"campaign", "outcome", "planted", "quick", "worker"} & set(names)


def test_the_closing_line(capsys: pytest.CaptureFixture) -> None:
    assert command.main(["text", "--seed", "7", "--count", "40", "--minutes", "5", "--workers", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "text: seed 7"
    assert lines[-1] == "text: 40 tried, 0 failed, seed 7"


def test_a_failure_is_the_exit_status(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "run", lambda seed, minutes, count=None: Outcome(3, ("what failed",), ("a note",)))
    assert command.main(["text", "--seed", "7"]) == 1
    output = capsys.readouterr().out
    assert "failure 1 of 1 ---\nwhat failed" in output
    assert output.splitlines()[-1] == "text: 3 tried, 1 failed, seed 7"
    with pytest.raises(SystemExit, match="the campaign 'text' takes no --workers"):
        command.main(["text", "--workers", "2"])


@pytest.mark.parametrize(("given", "minutes"), [
    ([], 1.0), (["--minutes", "3"], 3.0), (["--count", "9"], math.inf), (["--count", "9", "--minutes", "3"], 3.0)])
def test_a_count_alone_is_reached(monkeypatch: pytest.MonkeyPatch, given: list[str], minutes: float) -> None:
    seen = []
    monkeypatch.setattr(text, "run", lambda seed, minutes, count=None: seen.append(minutes) or Outcome(0))
    command.main(["text", *given])
    assert seen == [minutes]


def test_a_seed_is_drawn_and_printed(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "run", lambda seed, minutes, count=None: Outcome(0))
    assert command.main(["text"]) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"text: seed \d+", first)
    assert last == f"text: 0 tried, 0 failed, {first[6:]}"


@pytest.mark.parametrize(("plain", "fused", "is_same"), [
    (np.float32(np.nan), np.float32(-np.nan), True),
    (np.float64(0.0), np.float64(-0.0), False),
    (np.float64(1.0), np.float64(np.nan), False),
    (np.complex128(complex(1.0, -0.02661288)), np.complex128(complex(1.0, -0.02661289)), True),  # it was a complex64
    (np.complex128(complex(1.0, -1e-9)), np.complex128(complex(1.0, 1e-9)), True),
    (np.complex128(complex(1.0, 0.0)), np.complex128(complex(1.0, -0.0)), False),
    (np.complex128(complex(1.0, np.inf)), np.complex128(complex(1.0, -np.inf)), False),
    (np.complex128(complex(1.0, 2.0)), np.complex128(complex(1.0, 2.1)), False),
    (np.complex128(1.0), np.float64(1.0), False),
])
def test_scalars_are_compared_with_their_signs_but_for_nan(plain: Any, fused: Any, is_same: bool) -> None:
    assert (difference(plain, fused) == "") == is_same


@pytest.mark.parametrize(("depth", "is_without_end"), [(10, False), (900, True)])
def test_a_call_that_ends_near_the_limit_of_recursion_is_not_compared(depth: int, is_without_end: bool) -> None:
    """Packages make other errors of a `RecursionError`."""
    def even(depth: int) -> None:
        if not depth:
            raise ValueError("could not be copied")
        odd(depth - 1)

    def odd(depth: int) -> None:  # another function, because tracebacks leave out lines that repeat
        even(depth - 1)

    module = types.SimpleNamespace(f=even)
    state = fusion._called(module, (depth,), {}, types.SimpleNamespace(of=list, globals=dict))
    assert fusion._is_without_end(state) == is_without_end


_CUT = "a[..., ::2] = ((a ** 0.5) ** 2)[..., 1::2]"
_CANCELLED = "return dpnp.clip((a * 7561.7) @ (a * 7561.7), -4, 4)"
_TAIL = "return dpnp.tanh(a * 0.3) * 2097152.0 % 1.0"
_LEFT = "b = a * 756170.3\n    return dpnp.clip((b - b[::-1, ::-1]).sum(), -4, 4)"


@pytest.mark.parametrize(("line", "dtype"), [(_CUT, "i4"), (_CANCELLED, "f4"), (_TAIL, "f4"), (_LEFT, "f4")])
@pytest.mark.parametrize("is_wrong", [False, True])
def test_what_rounding_decides_is_no_difference_and_what_is_wrong_is(
    line: str, dtype: str, is_wrong: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"import dpnp\n\n@fused\ndef f(a):\n    {line}\n\ndef before_0():\n    " \
             f"return (random_array({43 if dtype == 'i4' else 91}, 3, 4, 4, dtype={dtype!r}),), {{}}\n"

    def wrong(function: Any) -> Any:
        def changed(a: Any) -> Any:
            result = function(a)
            a += 1
            return result

        return changed

    if is_wrong:
        monkeypatch.setattr(fusion, "_fusing", lambda functions, case: lambda f: functions.append(f) or wrong(f))
        monkeypatch.setattr(fusion, "_kept", lambda functions: {})
    verdict = fusion.check("modules", module)
    assert bool(verdict.failure) == is_wrong, verdict
