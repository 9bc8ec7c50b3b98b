"""The rows that tests draw: each value is covered, the seed decides, and all can be asked for."""

import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from tests.drawing import drawn_rows

ROOT = pathlib.Path(__file__).parents[2]
ROWS = list(itertools.product("abcde", range(4), (False, True)))
TEST = """
import pytest

@pytest.mark.drawn
@pytest.mark.parametrize("first", range(9))
@pytest.mark.parametrize("second", range(9))
def test_drawn(first, second):
    assert (first, second) != (4, 5)

@pytest.mark.drawn(2, by=lambda pair: pair)
@pytest.mark.parametrize("pair", [(first, second) for first in range(9) for second in range(9)])
def test_by(pair):
    pass

@pytest.mark.drawn(count=3)
@pytest.mark.parametrize("number", range(9))
def test_counted(number):
    assert False
"""


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("seed", ["0", "1"])
def test_each_value_comes_so_often(times, seed):
    kept = [ROWS[place] for place in drawn_rows(ROWS, seed, times)]
    for column in range(3):
        values = [row[column] for row in ROWS]
        assert all([row[column] for row in kept].count(value) >= times for value in values)
    assert len(kept) < len(ROWS) / 4 * times
    assert kept == sorted(kept, key=ROWS.index)


def test_each_pair_comes():
    kept = [ROWS[place] for place in drawn_rows(ROWS, "3", pairs=True)]
    for one, other in itertools.combinations(range(3), 2):
        assert {(row[one], row[other]) for row in kept} == {(row[one], row[other]) for row in ROWS}
    assert len(kept) < len(ROWS)


def test_a_seed_draws_the_same_rows_and_others_draw_all():
    assert drawn_rows(ROWS, "7") == drawn_rows(ROWS, "7")
    assert {place for seed in range(100) for place in drawn_rows(ROWS, str(seed))} == set(range(len(ROWS)))
    assert len(drawn_rows(ROWS, "7", count=5)) == 5


def test_a_run_has_a_sample_or_every_row_and_shows_the_seed(tmp_path):
    (tmp_path / "test_some.py").write_text(TEST)
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = drawn: a sample\n")

    def run(test, *options):
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", tmp_path]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run([*command, f"test_some.py{test}", *options], cwd=tmp_path, env=environment,
                              capture_output=True, text=True, check=False, timeout=120).stdout

    assert "= 1 failed, 80 passed in " in run("::test_drawn", "--every-row")
    assert "= 1 failed in " in run("::test_drawn[5-4]")
    output = run("", "--seed", "5")
    rows = re.findall(r"(\d+) (failed|passed|deselected)", output.splitlines()[-1])
    counted = {word: int(number) for number, word in rows}
    assert sum(counted.values()) == 81 + 81 + 9
    assert 9 + 2 * 9 + 3 <= counted["failed"] + counted["passed"] <= 17 + 2 * 17 + 3
    assert "tests drawn: --seed 5\n" in output
    assert output.count("a row that was drawn") == output.count("\n--seed 5\n") == counted["failed"] >= 3
    assert "--seed 5 --share 0.5" in run("::test_counted", "--seed", "5", "--share", "0.5")
