"""A program that was parsed before is read from the disk cache, without the parser."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from tl_dpnp import config
from tl_dpnp.errors import TLError
from tl_dpnp.runtime.store import source_cache

PROGRAM = """
func @scale(%x: memref<f32x4>) {
  axpby.n 2.0, %x, 0.0, %x : f32, memref<f32x4>, f32, memref<f32x4>
}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path):
    """Give each test a cache folder of its own."""
    with config.scope(CACHE=True, CACHE_DIR=tmp_path / "cache"):
        yield tmp_path / "cache"


@pytest.fixture
def parses(monkeypatch):
    """Count how often the parser runs."""
    calls = []
    plain = source_cache._parse
    monkeypatch.setattr(source_cache, "_parse",
                        lambda text, name, define: calls.append(name) or plain(text, name, define))
    return calls


def test_the_second_time_nothing_is_parsed(parses):
    first = source_cache.parse(PROGRAM, "a.tl")
    assert source_cache.parse(PROGRAM, "a.tl") == first
    assert parses == ["a.tl"]


def test_text_and_file_name_are_both_part_of_the_key(parses):
    assert source_cache.parse(PROGRAM, "a.tl").functions[0].span.file == "a.tl"
    assert source_cache.parse(PROGRAM, "b.tl").functions[0].span.file == "b.tl"
    source_cache.parse(PROGRAM + "\n", "a.tl")
    assert parses == ["a.tl", "b.tl", "a.tl"]


def test_compile_time_variables_are_part_of_the_key(parses):
    text = "func @f(%x: memref<f32x$n>) { }"
    for n in (4, 5, "5", 4):
        (function,) = source_cache.parse(text, "a.tl", define={"n": n})
        assert str(function.parameters[0].type) == f"memref<f32x{n}>"
    assert len(parses) == 3


def test_without_a_cache_it_is_parsed_each_time(parses, folder):
    source_cache.parse(PROGRAM, cache=False)
    with config.scope(CACHE=False):
        source_cache.parse(PROGRAM)
    assert len(parses) == 2
    assert not folder.exists()


def test_programs_with_errors_are_not_kept(parses):
    for _ in range(2):
        with pytest.raises(TLError, match="%y"):
            source_cache.parse(PROGRAM.replace("0.0, %x", "0.0, %y"))
    assert len(parses) == 2


def test_an_entry_that_is_no_module_is_replaced(parses, monkeypatch):
    monkeypatch.setattr(source_cache, "to_data", lambda module: ["nothing"])
    source_cache.parse(PROGRAM)
    monkeypatch.undo()
    assert source_cache.parse(PROGRAM).functions[0].name == "scale"


def test_a_warm_start_loads_neither_parser_nor_compiler(tmp_path):
    code = (
        "import sys, json, dpnp, tl_dpnp\n"
        f"kernel = tl_dpnp.compile({PROGRAM!r})\n"
        "x = dpnp.ones(4, dtype='float32'); kernel(x)\n"
        "print(json.dumps([dpnp.asnumpy(x).tolist(), sorted(sys.modules)]))"
    )
    environment = {**os.environ, "TL_DPNP_CACHE_DIR": str(tmp_path / "cache"), "TL_DPNP_CACHE": "1"}
    for warm in (False, True):
        command = [sys.executable, "-c", code]
        result = subprocess.run(command, env=environment, cwd=pathlib.Path(__file__).parents[2], capture_output=True)
        values, modules = json.loads(result.stdout)
        assert values == [2.0] * 4
        assert ("lark" in modules, "llvmlite" in modules) == (not warm, not warm)
