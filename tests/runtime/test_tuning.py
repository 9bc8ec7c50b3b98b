"""Kernels that are tuned: data stay, results stay right, and what was found is used again."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys

import dpnp
import numpy as np
import pytest

import tl_dpnp
from tests.runtime.support import COUNT, FUSED, on_device, random
from tl_dpnp import config
from tl_dpnp.lowering import space
from tl_dpnp.runtime.sycl.tensor_adapter import tensor as dpt
from tl_dpnp.runtime.tune import tuning

#: Seconds that no search needs, however slow the machine is.
LONG = 600
SOURCE = """
func @product(%A: memref<f32x16x12x?>, %B: memref<f32x12x8>, %C: memref<f32x16x8x?>) {
  %g = group_id
  %a = subview %A[:,:,%g] : memref<f32x16x12x?>
  %c = subview %C[:,:,%g] : memref<f32x16x8x?>
  gemm.n.n 1.0, %a, %B, 1.0, %c : f32, memref<f32x16x12>, memref<f32x12x8>, f32, memref<f32x16x8>
}
"""


def arguments():
    return on_device(random(16, 12, 3)), on_device(random(12, 8, seed=1)), on_device(random(16, 8, 3, seed=2))


def check(kernel):
    a, b, c = arguments()
    expected = c.asnumpy() + np.einsum("mkg,kn->mng", a.asnumpy(), b.asnumpy())
    kernel(a, b, c)
    np.testing.assert_array_equal(c.asnumpy(), expected)


@pytest.fixture(autouse=True)
def small_space(monkeypatch):
    """Few candidates, since each is compiled."""
    monkeypatch.setattr(space, "_MOST_SHAPES", 3)
    monkeypatch.setattr(space, "_UNROLLINGS", (2,))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache folder of the test's own."""
    monkeypatch.setenv("TL_DPNP_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def timings(monkeypatch):
    """Timings that are made up: a tile of few columns is fast; a test can set how fast."""
    speeds = {"of a column": 1e-4}

    def sample(workbench, choice):
        workbench._run(choice)
        return sum(1e-4 + speeds["of a column"] * tiling.columns for tiling in choice)

    monkeypatch.setattr(tuning.Workbench, "sample", sample)
    return speeds


def test_the_best_is_used(folder, timings):
    kernel = tl_dpnp.compile(SOURCE)
    before = kernel.schedules()["gemm_0"]
    report = kernel.tune(*arguments(), budget=LONG)
    assert report.best is not report.tried[0]
    assert report.best.ratio == min(tried.ratio for tried in report.tried)
    assert report.gain == 1 / report.best.ratio > 1.02
    assert kernel.schedules()["gemm_0"] != before
    assert kernel.stats.tuned == 1
    assert str(report.best) in kernel.diagnostics()
    check(kernel)


def test_the_default_stays_where_nothing_is_faster(folder, timings):
    timings["of a column"] = 0.0
    kernel = tl_dpnp.compile(SOURCE)
    before = kernel.schedules()
    report = kernel.tune(*arguments(), budget=LONG)
    assert (report.best, report.gain) == (report.tried[0], 1.0)
    assert kernel.schedules() == before
    assert kernel.stats.tuned == 0
    assert "tuned" not in kernel.diagnostics()
    check(kernel)


def test_tuning_again_may_go_back_to_the_default(folder, timings):
    kernel = tl_dpnp.compile(SOURCE)
    before = kernel.schedules()
    kernel.tune(*arguments(), budget=LONG)
    assert kernel.schedules() != before
    timings["of a column"] = 0.0
    kernel.tune(*arguments(), budget=LONG)
    assert kernel.schedules() == before == tl_dpnp.compile(SOURCE).schedules()


def test_the_report(folder, timings):
    kernel = tl_dpnp.compile(SOURCE)
    report = kernel.tune(*arguments(), budget=LONG)
    data = json.loads(json.dumps(report.to_dict()))
    assert data["gain"] == report.gain
    assert data["tried"][data["best"]]["tilings"] == {"gemm_0": vars(report.best.tilings["gemm_0"])}
    assert data["tried"][0]["ratio"] == 1.0
    lines = repr(report).splitlines()
    assert lines[0].startswith(f"@product on {kernel.signatures[0].device}: gain {report.gain:.2f} in ")
    assert len(lines) == 2 + len(report.tried)
    assert [line for line in lines if line.startswith("*")] == [line for line in lines if str(report.best) in line]
    assert "(default)" in lines[2]


def test_each_instruction_is_searched_the_largest_first(folder, timings, monkeypatch):
    timings["of a column"] = 1e-3
    built = []
    build = tuning.Workbench.build
    monkeypatch.setattr(tuning.Workbench, "build", lambda self, choice: (built.append(choice), build(self, choice)))
    kernel = tl_dpnp.compile(FUSED)
    batch = [on_device(random(16, 8, seed=g)) for g in range(2)]
    report = kernel.tune(2.0, batch, on_device(random(8, 8)), on_device(random(8, 16)), on_device(random(16, 16, 2)),
                         budget=LONG)
    default = report.tried[0].tilings
    assert all(report.best.tilings[name].columns < default[name].columns for name in ("gemm_0", "gemm_1"))
    changed = ["gemm_1" if choice[0] == built[0][0] else "gemm_0" for choice in built[1:]]
    assert changed == sorted(changed, reverse=True)
    assert set(changed) == {"gemm_0", "gemm_1"}
    options = kernel._overloads.lowering(kernel._overloads.current_device())
    assert [name for name, _ in options.schedules] == ["gemm_0", "gemm_1"]


def test_later_kernels_and_processes_use_it(folder, timings):
    kernel = tl_dpnp.compile(SOURCE)
    kernel.tune(*arguments(), budget=LONG)
    again = tl_dpnp.compile(SOURCE)
    check(again)
    assert (again.stats.tuned, again.stats.cache_hits) == (1, 1)
    assert again.schedules() == kernel.schedules()
    code = f"""
import dpnp, sys, tl_dpnp
kernel = tl_dpnp.compile({SOURCE!r})
make = lambda *shape: dpnp.ones(shape, dtype="f4", order="F")
C = make(16, 8, 3)
kernel(make(16, 12, 3), make(12, 8), C)
assert (C == 13).all()
print(kernel.stats.tuned, kernel.stats.cache_hits, kernel.stats.driver_builds, "numba" in sys.modules)
"""
    root = os.path.dirname(os.path.dirname(tl_dpnp.__file__))
    output = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": root}, text=True,
                            capture_output=True, timeout=120, check=True).stdout
    assert output.split() == ["1", "1", "0", "False"]


def test_it_holds_for_the_sizes_that_calls_have_kernels_for(folder, timings):
    """With sizes left open, those of other calls keep the default."""
    source = SOURCE.replace("16x12", "?x12").replace("16x8", "?x8")
    kernel = tl_dpnp.compile(source)
    kernel.tune(*arguments(), budget=LONG)
    for sizes, tuned in ((16, 1), (24, 0)):
        again = tl_dpnp.compile(source)
        again(*(on_device(random(*shape)) for shape in ((sizes, 12, 3), (12, 8), (sizes, 8, 3))))
        assert (again.stats.tuned, again.stats.specialized) == (tuned, 1)


def test_it_can_be_ignored(folder, timings):
    kernel = tl_dpnp.compile(SOURCE)
    before = kernel.schedules()
    kernel.tune(*arguments(), budget=LONG)
    plain = tl_dpnp.compile(SOURCE, tuned=False)
    check(plain)
    assert plain.schedules() == before
    assert plain.stats.tuned == 0
    assert pickle.loads(pickle.dumps(plain)).schedules() == before
    with config.scope(TUNED=False):
        assert tl_dpnp.compile(SOURCE).schedules() == before
        assert tl_dpnp.compile(SOURCE, tuned=True).schedules() == kernel.schedules()
    assert tl_dpnp.compile(SOURCE, cache=False).schedules() == before


def test_without_the_cache_it_holds_for_the_kernel(folder, timings):
    kernel = tl_dpnp.compile(SOURCE, cache=False)
    before = kernel.schedules()
    kernel.tune(*arguments(), budget=LONG)
    assert kernel.schedules() != before
    assert not folder.exists()
    check(kernel)


def test_recompiling_keeps_it(folder, timings):
    kernel = tl_dpnp.compile(SOURCE)
    kernel.tune(*arguments(), budget=LONG)
    tuned = kernel.schedules()
    kernel.recompile()
    assert kernel.schedules() == tuned
    check(kernel)


@pytest.mark.parametrize("damage", ["cut", "changed", "of another kind"])
def test_a_damaged_result_is_ignored(folder, timings, damage):
    kernel = tl_dpnp.compile(SOURCE)
    check(kernel)
    before = kernel.schedules()
    kernel.tune(*arguments(), budget=LONG)
    (entry,) = (path for path in folder.glob("*.json") if '"gain"' in path.read_text())
    if damage == "of another kind":
        tl_dpnp.runtime.store.cache.open_cache().store(entry.stem, tl_dpnp.runtime.store.cache.Entry({"schedules": 3}))
        again = tl_dpnp.compile(SOURCE)
        check(again)
    else:
        text = entry.read_text()
        entry.write_text(text[: len(text) // 2] if damage == "cut" else text.replace("split", "spilt"))
        again = tl_dpnp.compile(SOURCE)
        with pytest.warns(tl_dpnp.CacheWarning, match="is ignored"):
            check(again)
    assert again.stats.tuned == 0
    assert again.schedules() == before


def test_the_users_schedules_win(folder, timings):
    given = {"gemm_0": lambda schedule: schedule.vectorize("m")}
    plain = tl_dpnp.compile(FUSED, schedule=given)
    wanted = plain.schedules()["gemm_0"]
    batch = [on_device(random(16, 8, seed=g)) for g in range(2)]
    report = plain.tune(2.0, batch, on_device(random(8, 8)), on_device(random(8, 16)), on_device(random(16, 16, 2)),
                        budget=LONG)
    assert set(report.best.tilings) == {"gemm_1"}
    assert plain.schedules()["gemm_0"] == wanted
    assert plain.stats.tuned == 1
    # What was found beside the user's schedule says nothing about the default.
    assert tl_dpnp.compile(FUSED).schedules() == tl_dpnp.compile(FUSED, tuned=False).schedules()


# --- data -------------------------------------------------------------------------------------------------------------


def padded(array, margin=5):
    """Return an array in a larger one, with gaps between its columns, and the larger one."""
    rows, *rest = array.shape
    whole = dpt.asarray(np.full((rows + margin, *rest), 7, array.dtype), order="F")
    whole[2 : 2 + rows, ...] = dpt.asarray(array)
    return whole[2 : 2 + rows, ...], whole


def test_arrays_keep_their_contents():
    kernel = tl_dpnp.compile(FUSED.replace("%D: memref<f32x16x16x?>", "%D: memref<f32x16x16x?,strided<1,?,?>>")
                             .replace("%D[:,:,%0] : memref<f32x16x16x?>",
                                      "%D[:,:,%0] : memref<f32x16x16x?,strided<1,?,?>>")
                             .replace("memref<f32x8x16>, f32, memref<f32x16x16>",
                                      "memref<f32x8x16>, f32, memref<f32x16x16,strided<1,?>>"))
    batch = [on_device(random(16, 8, seed=g)) for g in range(3)]
    b, c = on_device(random(8, 8, seed=7)), on_device(random(8, 16, seed=8))
    d, whole = padded(random(16, 16, 3, seed=9))
    before = [dpt.asnumpy(whole), *(one.asnumpy() for one in (*batch, b, c))]
    kernel.tune(2.0, batch, b, c, d, budget=0.6)
    after = [dpt.asnumpy(whole), *(one.asnumpy() for one in (*batch, b, c))]
    assert all(map(np.array_equal, before, after))
    product = np.stack([a @ before[4].T @ before[5] for a in before[1:4]], axis=-1)
    kernel(2.0, batch, b, c, d)
    np.testing.assert_array_equal(dpt.asnumpy(whole)[2:18], before[0][2:18] + 2 * product)


def test_written_groups_are_copied_as_the_kernel_reaches_them():
    """The group's offset moves all accesses; a list of arrays has none."""
    source = """
    func @scale(%C: group<memref<f32x8>, offset: ?>) {
      %g = group_id
      %c = load %C[%g] : group<memref<f32x8>, offset: ?>
      axpby.n 1.0, %c, 1.0, %c : f32, memref<f32x8>, f32, memref<f32x8>
    }"""
    kernel = tl_dpnp.compile(source)
    memory = dpnp.arange(64, dtype="f4")
    arrays = [memory[start : start + 8] for start in (8, 24, 40)]
    for group in (arrays, tl_dpnp.group(arrays, offset=-8), tl_dpnp.group(arrays, offset=16)):
        before = memory.asnumpy()
        kernel.tune(group, budget=0.3)
        assert np.array_equal(memory.asnumpy(), before)
    kernel(tl_dpnp.group(arrays, offset=-8))
    assert memory.asnumpy()[[0, 7, 8, 16, 23]].tolist() == [0, 14, 8, 32, 46]


def test_integers_that_a_kernel_updates_are_old_in_every_run():
    """They may be indices: the second run must not see what the first one wrote."""
    kernel = tl_dpnp.compile(COUNT)
    x = dpnp.zeros(5, dtype="i8")
    call = kernel._binding.bind([x, 3])
    device = kernel._overloads.current_device()
    bench = tuning.Workbench(kernel._platform, kernel._binding, device, kernel.options.lowering, [], call, [x, 3],
                             x.sycl_queue, None)
    bench.build(())
    for _ in range(3):
        bench.sample(())
    assert dpt.asnumpy(bench._replicas.arguments[0]).tolist() == [3] * 5
    assert x.asnumpy().tolist() == [0] * 5


def test_samples_of_updates_begin_with_the_old_contents():
    kernel = tl_dpnp.compile(SOURCE)
    a, b, c = arguments()
    call = kernel._binding.bind([a, b, c])
    device = kernel._overloads.current_device()
    instructions = space.tunables(kernel._program.function, device, kernel.options.lowering)
    bench = tuning.Workbench(kernel._platform, kernel._binding, device, kernel.options.lowering, instructions, call,
                             [a, b, c], a.sycl_queue, None)
    bench.build(bench.default)
    bench.sample(bench.default)
    assert not np.array_equal(dpt.asnumpy(bench._replicas.arguments[2]), c.asnumpy())
    bench._replicas.restore()
    assert np.array_equal(dpt.asnumpy(bench._replicas.arguments[2]), c.asnumpy())


# --- what cannot be tuned ---------------------------------------------------------------------------------------------


def test_a_kernel_without_instructions_has_nothing_to_tune(folder):
    kernel = tl_dpnp.compile(COUNT)
    x = dpnp.zeros(5, dtype="i8")
    report = kernel.tune(x, 1)
    assert (len(report.tried), report.gain) == (1, 1.0)
    assert "no instruction to tune" in repr(report)
    kernel(x, 2)
    assert x.asnumpy().tolist() == [2] * 5


def test_what_is_refused():
    kernel = tl_dpnp.compile(SOURCE)
    a, b, c = arguments()
    for budget in (0, -1.0, "10", True, float("nan"), float("inf")):
        with pytest.raises(tl_dpnp.TLTypeError, match="a positive number of seconds"):
            kernel.tune(a, b, c, budget=budget)
    with pytest.raises(tl_dpnp.TLBindingError, match="no work-group to time"):
        kernel.tune(a, b, c, group_size=0, budget=np.float32(1))
    with pytest.raises(tl_dpnp.TLTypeError, match="missing 1 required positional argument: 'C'"):
        kernel.tune(a, b)
    with pytest.raises(tl_dpnp.UnsupportedError, match="tuned=False"):
        tl_dpnp.compile(SOURCE, tuned=False).tune(a, b, c)
    with pytest.raises(tl_dpnp.UnsupportedError, match='target="reference"'):
        tl_dpnp.compile(SOURCE, target="reference").tune(a, b, c)
    with pytest.raises(tl_dpnp.TLTypeError, match="tuned= says how a device"):
        tl_dpnp.compile(SOURCE, target="reference", tuned=True)
    with pytest.raises(tl_dpnp.TLTypeError, match="True or False"):
        tl_dpnp.compile(SOURCE, tuned=1)


def test_an_interrupt_ends_the_search_and_the_kernel_works(folder, monkeypatch):
    def interrupt(workbench, choice):
        raise KeyboardInterrupt

    monkeypatch.setattr(tuning.Workbench, "sample", interrupt)
    kernel = tl_dpnp.compile(SOURCE)
    report = kernel.tune(*arguments(), budget=LONG)
    assert report.interrupted
    assert "interrupted" in repr(report)
    assert report.best is report.tried[0]
    check(kernel)


@pytest.mark.parametrize("end", ["interrupt", "budget"])
def test_a_search_that_compares_nothing_leaves_what_was_found_before(folder, timings, monkeypatch, end):
    def interrupt(workbench, choice):
        raise KeyboardInterrupt

    kernel = tl_dpnp.compile(SOURCE)
    default = kernel.schedules()
    assert kernel.tune(*arguments(), budget=LONG).compares
    found = kernel.schedules()
    assert found != default
    if end == "interrupt":
        monkeypatch.setattr(tuning.Workbench, "sample", interrupt)
    report = kernel.tune(*arguments(), budget=LONG if end == "interrupt" else 1e-9)
    assert not report.compares
    assert kernel.schedules() == tl_dpnp.compile(SOURCE).schedules() == found
    check(kernel)


def test_the_bar_is_shown_on_terminals_only(folder, timings, monkeypatch, capsys):
    kernel = tl_dpnp.compile(SOURCE)
    kernel.tune(*arguments(), budget=LONG)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    kernel.tune(*arguments(), budget=LONG)
    shown = capsys.readouterr().err
    assert "tuning @product" in shown
    assert "100%" in shown
    kernel.tune(*arguments(), budget=LONG, progress=False)
    assert capsys.readouterr().err == ""
