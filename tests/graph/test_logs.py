"""Fused functions say where fusion ends and why they are traced again: in logs, in counts, and at the limit."""

import gc
import io
import logging
import os
import pickle
import re
import subprocess
import sys
import warnings
import weakref
from types import SimpleNamespace

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.graph.support import compare, needs_weak_references
from tl_dpnp import config
from tl_dpnp.errors import FusionWarning, TLError, UnsupportedError
from tl_dpnp.graph.breaks import HINTS
from tl_dpnp.graph.kernels import clear_kernels
from tl_dpnp.graph.rewriting import _EFFECTS
from tl_dpnp.runtime import progress

fuse = tl_dpnp.fuse
MODE = "double"


def _array(*shape, dtype="f4", seed=0):
    return dpnp.asarray(np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype))


A = _array(3, 4, 4)


@pytest.fixture
def recompiles(caplog):
    """The records of the log of recompilations, as they come."""
    caplog.set_level(logging.INFO, "tl_dpnp.recompiles")
    return lambda: [r.getMessage() for r in caplog.records if r.name == "tl_dpnp.recompiles"]


@pytest.fixture
def breaks(caplog):
    caplog.set_level(logging.INFO, "tl_dpnp.breaks")
    return lambda: [r.getMessage() for r in caplog.records if r.name == "tl_dpnp.breaks"]


# --- why a call was traced again -------------------------------------------------------------------------------------


def flat(x, n=1):
    return x * n + 1


def sliced(x, n):
    return x[:, :n] @ x + 1


def looked_at(x, dt):
    return x * dt if dt > 0 else x - dt


def nested(x, options):
    return x * options["k"][0]


def starred(*arrays, **named):
    return arrays[0] + arrays[1] if named["k"] == "a" else arrays[0]


@pytest.mark.parametrize(("function", "first", "second", "reason"), [
    (flat, (A,), (_array(5, 4, 4),), "argument x was shape (3, 4, 4) and is shape (5, 4, 4)"),
    (flat, (A,), (_array(3, 4, 4, dtype="f8"),), "argument x was dtype float32 and is dtype float64"),
    (flat, (A,), (A.T,), "argument x was shape (3, 4, 4) and is shape (4, 4, 3)"),
    (flat, (A,), (A.swapaxes(1, 2),), "argument x was strides (16, 4, 1) and is strides (16, 1, 4)"),
    (sliced, (A, 2), (A, 3), "argument n was 2 and is 3"),
    (flat, (A, 2), (A, 2.5), "argument n was 2 and is 2.5"),
    (flat, (A, 2), (A, True), "argument n was 2 and is True"),
    (flat, (A,), (A, 2), "argument n was not given and is 2"),
    (looked_at, (A, 0.5), (A, -0.5), "argument dt was 0.5 and is -0.5"),
    (nested, (A, {"k": [2]}), (A, {"k": [2, 3]}),
     "argument options was dict of 1: list of 1: 2 and is dict of 1: list of 2: 2, 3"),
    (lambda g, x: g(x), (flat, A), (lambda x: x * 3, A), "argument g was function flat and is function <lambda>"),
    (lambda x, y: x + y, (A, A), (A, A.copy()),
     "which arguments are the same array was y is x and is no two"),
])
def test_a_changed_argument_is_named_with_both_values(function, first, second, reason, recompiles):
    f = fuse(function)
    f(*first)
    assert recompiles() == []
    compare("second", f(*second), function(*second))
    (text,) = recompiles()
    assert reason in text
    assert f.name in text
    assert text.endswith("(beside trace 1)")


def test_arguments_of_a_function_with_stars_have_a_number(recompiles):
    f = fuse(starred)
    f(A, A, k="a")
    f(A, A, k="b")
    f(A, _array(1, 4, 4), k="a")
    one, other = recompiles()
    assert "argument k was 'a' and is 'b'" in one
    assert "argument arrays[1] was shape (3, 4, 4) and is shape (1, 4, 4)" in other
    assert "beside trace 1" in other  # the call that fewest arguments differ from


def test_what_else_changed_is_named_as_it_is_written(recompiles, monkeypatch):
    local, model = "c", SimpleNamespace(name="a", parts=["x", "y"])

    def f(x, model):
        k = 2 if MODE == "double" else 3
        k += local == "c"
        k += model.parts[1] == "y"
        return x * k if model.name == "a" else x

    f = fuse(f)
    f(A, model)
    for change, expected in [
        (lambda: monkeypatch.setitem(globals(), "MODE", "triple"), "global MODE was 'double' and is 'triple'"),
        (lambda: model.parts.__setitem__(1, "z"), "argument model.parts[1] was 'y' and is 'z'"),
        (lambda: setattr(model, "name", "b"), "argument model.name was 'a' and is 'b'"),
        (lambda: setattr(model, "parts", ("x", "z")), "argument model.parts was list of 2 and is tuple of 2: 'x', 'z'"),
    ]:
        change()
        compare(expected, f(A, model), f.function(A, model))
        assert recompiles()[-1].endswith(f"{expected} (beside trace {f.stats.traces - 1})")
    local = "d"
    f(A, model)
    assert "closure variable local was 'c' and is 'd'" in recompiles()[-1]


def test_numbers_computed_from_others_and_arrays_that_overlap(recompiles):
    f = fuse(lambda x, dt, k: x * 2 if dt * k > 1 else x * 3)
    f(A, 1.0, 2.0)
    f(A, 0.1, 2.0)
    assert "a number computed from argument dt and argument k was 2.0 and is 0.2" in recompiles()[-1]

    @fuse
    def update(q, p):
        q += p

    q = A.copy()
    update(q[1:], A[1:])
    update(q[1:], q[:-1])
    assert "which arrays share memory" in recompiles()[-1]


def test_nothing_is_printed_unless_it_is_asked_for(capsys):
    f = fuse(lambda x, n: dpnp.sort(x, axis=n))
    f(A, 0)
    f(A, 1)
    assert capsys.readouterr().err == ""
    assert not logging.getLogger("tl_dpnp").handlers
    with config.scope(LOGS="breaks,recompiles"):
        g = fuse(lambda x, n: dpnp.sort(x, axis=n))
        g(A, 0)
        g(A, 1)
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["tl_dpnp.breaks:", "tl_dpnp.recompiles:"]
    assert "sort" in lines[0]
    assert "argument n was 0 and is 1" in lines[1]


def test_the_variable_prints_on_standard_error():
    program = (
        "import dpnp, tl_dpnp\n"
        "f = tl_dpnp.fuse(lambda x, n: dpnp.sort(x, axis=n))\n"
        "f(dpnp.ones((2, 2)), 0); f(dpnp.ones((2, 2)), 1)\n"
    )

    def run(logs):
        return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300,
                              env={**os.environ, "TL_DPNP_LOGS": logs})

    result = run("recompiles")
    assert result.returncode == 0, result.stderr
    assert "tl_dpnp.recompiles: <lambda>: trace 2" in result.stderr
    assert "tl_dpnp.breaks" not in result.stderr
    refused = run("recompile")
    assert "did you mean recompiles?" in refused.stderr
    assert "TLError" in refused.stderr


@pytest.mark.parametrize(("value", "hint"), [
    ("break", r"knows no 'break', did you mean breaks\?"), ("breaks,", "knows no ''"),
    ("recompiles, Braeks", r"knows no 'braeks', did you mean breaks\?"), ("everything", "knows no 'everything'$"),
])
def test_unknown_logs_are_refused_with_the_nearest(value, hint, monkeypatch):
    monkeypatch.setenv("TL_DPNP_LOGS", value)
    with pytest.raises(TLError, match=f"it takes breaks, recompiles, .*tune, or several; it {hint}"):
        fuse(flat)
    monkeypatch.setenv("TL_DPNP_LOGS", " Breaks , recompiles ")
    assert config.get("LOGS") == ("breaks", "recompiles")


# --- breaks ----------------------------------------------------------------------------------------------------------


def summed(x):
    return dpnp.sort(x, axis=0)  # helper


def test_the_same_break_is_one_line_with_a_count_and_names_the_helper(breaks):
    @fuse
    def f(a):
        for _ in range(10):
            a = summed(a @ a)
        return a

    text = str(tl_dpnp.explain(f)(A))
    line = summed.__code__.co_firstlineno + 1
    expected = (f"{__file__}:{line}: sort in summed: dpnp.sort is not fused, 10 times "
                "(call it first or last, so that the rest is one kernel)")
    assert text.count("sort in summed") == 1
    assert expected in text
    f(A)
    (logged,) = breaks()  # once for the function
    assert logged.endswith(expected)
    with pytest.warns(FusionWarning, match="sort in summed: dpnp.sort is not fused, 10 times"):
        fuse(on_break="warn")(f.function)(A)


def with_eval(x):
    return x * eval("2")


def with_locals(x):
    return x * len(locals())


def test_functions_that_look_at_variables_are_named(breaks):
    for function, name in ((with_eval, "eval"), (with_locals, "locals")):
        with pytest.warns(FusionWarning, match=f"{function.__name__} runs in dpnp as it is.*it uses {name}") as caught:
            compare("plain", fuse(function)(A), function(A))
        assert [w.filename for w in caught] == [__file__]
        assert f"it uses {name}" in breaks()[-1]
        assert "source cannot be found" not in breaks()[-1]
        with pytest.warns(FusionWarning):
            assert f"it uses {name}" in str(tl_dpnp.explain(fuse(function))(A))
        inside = tl_dpnp.explain(lambda x, g=function: g(x) + 1)(A)
        assert any(b.what.endswith(function.__name__) and f"it uses {name}" in b.reason for b in inside.again)


def test_functions_without_source_are_named_where_they_are_called():
    names = {"dpnp": dpnp}
    exec("def hidden(x):\n    return dpnp.sort(x, axis=0)\n", names)
    explanation = tl_dpnp.explain(lambda x: names["hidden"](x @ x))(A)
    texts = [str(b) for b in explanation.again]
    assert any("hidden" in text and "its source cannot be found" in text for text in texts)
    assert any("dpnp.sort takes the data, in code that is not followed" in text for text in texts)
    with pytest.raises(UnsupportedError, match="its source cannot be found"):
        fuse(fullgraph=True)(names["hidden"])(A)


def test_each_known_reason_is_one_that_is_given():
    from pathlib import Path

    import tl_dpnp.graph as graph

    sources = "".join(p.read_text() for p in Path(graph.__file__).parent.glob("*.py") if p.name != "breaks.py")
    assert [reason for reason in HINTS if reason not in sources] == []
    assert set(_EFFECTS.values()) <= set(HINTS)


@pytest.mark.parametrize(("function", "hint"), [
    (lambda x: dpnp.sort(x, axis=0), "call it first or last"),
    (lambda x: dpnp.sqrt(x.astype("c8")), "so that the rest is one kernel"),
    (lambda x: x[x > 0], "use dpnp.where"),
    (lambda x: float(x[0, 0, 0]), "compute with the array itself"),
    (lambda x: print(x), "print after the function"),
])
def test_breaks_say_what_to_write_instead(function, hint, capsys):
    texts = str(tl_dpnp.explain(function)(A))
    assert hint in texts


# --- the limit -------------------------------------------------------------------------------------------------------


def test_after_the_limit_everything_names_what_changes():
    f = fuse(sliced, recompile_limit=2)
    clear_kernels()
    for n in (1, 2):
        f(A, n)
    with pytest.warns(FusionWarning, match=r"compiled 2 times, and argument n was of 2 kinds \(1, 2\); argument n: "):
        compare("3", f(A, 3), sliced(A, 3))
    text = str(tl_dpnp.explain(f)(A, 3))
    assert "runs in dpnp as it is" in text
    assert "argument n was of 2 kinds (1, 2)" in text
    assert "or raise recompile_limit=2" in text
    assert len(tl_dpnp.explain(f)(A, 2).kernels) == 1  # what has a plan keeps it
    strict = fuse(recompile_limit=1, fullgraph=True)(f.function)
    clear_kernels()
    strict(A, 3)
    with pytest.raises(UnsupportedError, match="compiled 1 times"):
        strict(A, 4)


@pytest.mark.parametrize(("function", "argument", "words"), [
    (lambda x, g: g(x), lambda k: lambda x: x * 2, "argument g was function .*: define it once, not for each call"),
    (lambda x, s: x * len(s), str, "argument s was '63' and is '64': keep to few values"),
    (lambda x, v: x * len(v), lambda k: [1] * k, "argument v was list of 63.*: pass containers of one length"),
], ids=["function", "string", "list"])
def test_what_keeps_changing_without_new_kernels_is_named_once(function, argument, words):
    f = tl_dpnp.fuse(function)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for k in range(75):
            f(A, argument(k))
    assert [bool(re.search(f"has been traced 64 times because {words}", str(w.message))) for w in said] == [True]


def test_a_function_with_effects_keeps_its_kernels_after_the_limit():
    log = []

    @fuse(recompile_limit=2, dynamic=False)
    def f(x):
        log.append(x.shape)
        return x @ x

    clear_kernels()
    arrays = [_array(size, size) for size in (2, 3, 5)]
    f(arrays[0])
    f(arrays[1])
    with pytest.warns(FusionWarning, match="compiled 2 times"):
        f(arrays[2])
    for a in arrays:
        compare(f"{a.shape}", f(a), a @ a)
    assert (f.stats.traced_calls, f.stats.dpnp_calls, len(log)) == (4, 2, 6)


def test_a_change_of_shape_says_what_may_change():
    f = fuse(recompile_limit=2, dynamic=False)(lambda x: x @ x)
    clear_kernels()
    for size in (2, 3):
        f(_array(size, size))
    with pytest.warns(FusionWarning, match=r"axis 0 of argument x had the sizes 2, 3.*pad axes to few sizes"):
        f(_array(5, 5))


# --- the line on a terminal ------------------------------------------------------------------------------------------


def test_a_first_call_shows_that_it_compiles_and_erases_that(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)

    @fuse
    def first(x):
        return dpnp.exp(x @ x) - 3

    clear_kernels()
    with config.scope(CACHE=False):
        first(A)
    shown = stream.getvalue()
    assert "tl_dpnp: compiling test_a_first_call_shows" in shown
    assert shown.endswith("\r\x1b[K")
    first(A)
    assert stream.getvalue() == shown


# --- counts ----------------------------------------------------------------------------------------------------------


def test_stats_count_what_became_of_the_calls():
    f = fuse(lambda x: x @ x, recompile_limit=2, dynamic=False)
    clear_kernels()
    assert f.stats.calls == 0
    for size in (3, 3, 4, 3):
        f(_array(size, size))
    with pytest.warns(FusionWarning):
        f(_array(5, 5))
    stats = f.stats
    assert (stats.calls, stats.plan_hits, stats.traced_calls, stats.dpnp_calls) == (5, 2, 2, 1)
    assert (stats.traces, stats.plans, stats.compilations, stats.kernels) == (2, 2, 2, 2)
    assert stats.compile_seconds > 0
    assert repr(stats).startswith("FusionStats(calls=5, plan_hits=2, traced_calls=2, dpnp_calls=1,")
    assert pickle.loads(pickle.dumps(stats)) == stats


def test_stats_of_plans_that_were_dropped_and_of_functions_with_effects(capsys, monkeypatch):
    f = fuse(lambda x: x * len(MODE), recompile_limit=100)
    for number in range(12):
        monkeypatch.setitem(globals(), "MODE", "x" * number)
        f(A)
        f(A)
    assert (f.stats.calls, f.stats.plan_hits) == (24, 12)
    assert f.stats.plans < 12
    g = fuse(lambda x: print("here") or x * 2)
    for _ in range(3):
        g(A)
    assert (g.stats.calls, g.stats.plan_hits, g.stats.traced_calls, g.stats.plans) == (3, 0, 3, 0)
    with config.scope(FUSE=False):
        off = fuse(flat)
    off(A)
    assert (off.stats.calls, off.stats.dpnp_calls) == (1, 1)


@needs_weak_references
def test_clear_forgets_plans_and_counts_and_releases_what_they_hold():
    class Model:
        def __init__(self):
            self.weight = _array(4, 4)

        def __call__(self, x):
            return x @ self.weight

    f = fuse(lambda g, x: g(x) * 2, recompile_limit=1)
    clear_kernels()
    model = Model()
    compare("model", f(model, A), A @ model.weight * 2)
    weight, function = weakref.ref(model.weight), lambda x: x + 1
    alive = weakref.ref(function)
    f.clear()
    f(function, A)  # the limit is as far away as before
    assert (f.stats.traced_calls, f.stats.dpnp_calls) == (1, 0)
    del model, function
    gc.collect()
    assert alive() is not None  # its identity is part of a key
    f.clear()
    gc.collect()
    assert (alive(), weight()) == (None, None)
    assert f.stats == fuse(flat).stats


def test_explain_leaves_one_plan():
    f = fuse(flat)
    for _ in range(3):
        f.explain(A)
        f(A)
    assert (f.stats.plans, f.stats.traces, f.stats.plan_hits) == (1, 3, 3)
