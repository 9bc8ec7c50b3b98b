"""A program that was parsed before is read from the disk cache, without the parser."""

import json
import os
import pathlib
import pickle
import subprocess
import sys

import pytest

from tl_dpnp import config
from tl_dpnp.errors import TLError
from tl_dpnp.runtime.call.interface import INTERFACES
from tl_dpnp.runtime.store import source_cache
from tl_dpnp.runtime.store.cache import Entry

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


#: What calls have to know of it: groups, batch modes, sizes that must be equal, defaults.
PRODUCTS = """
func @products(%a: f32, %A: group<memref<f32x?x8>>, %B: memref<f32x8x?x?>, %C: memref<f32x?x?x?>) {
  %g = group_id
  %1 = load %A[%g] : group<memref<f32x?x8>>
  %2 = subview %B[:,:,%g] : memref<f32x8x?x?>
  %3 = subview %C[:,:,%g] : memref<f32x?x?x?>
  gemm.n.n %a, %1, %2, 0.0, %3 : f32, memref<f32x?x8>, memref<f32x8x?>, f32, memref<f32x?x?>
}
func @none() { }
"""


@pytest.mark.parametrize("text", [PROGRAM, PRODUCTS], ids=["PROGRAM", "PRODUCTS"])
def test_the_second_time_nothing_is_parsed(parses, text):
    first, second = (source_cache.programs_of(text, "a.tl") for _ in range(2))
    assert parses == ["a.tl"]
    for parsed, kept in zip(first, second, strict=True):
        assert kept.interface == parsed.interface
        # With the places, which equality leaves out.
        assert INTERFACES.encode(kept.interface) == INTERFACES.encode(parsed.interface)
        assert kept.function == parsed.function
        assert (kept.text, kept.defined) == (parsed.text, parsed.defined)
        assert pickle.loads(pickle.dumps(kept)).function == parsed.function
    assert parses == ["a.tl"]


def test_text_and_file_name_are_both_part_of_the_key(parses):
    assert source_cache.programs_of(PROGRAM, "a.tl")[0].function.span.file == "a.tl"
    assert source_cache.programs_of(PROGRAM, "b.tl")[0].interface.span.file == "b.tl"
    source_cache.programs_of(PROGRAM + "\n", "a.tl")
    assert parses == ["a.tl", "b.tl", "a.tl"]


def test_compile_time_variables_are_part_of_the_key(parses):
    text = "func @f(%x: memref<f32x$n>) { }"
    for n in (4, 5, "5", 4):
        (program,) = source_cache.programs_of(text, "a.tl", define={"n": n})
        assert str(program.parameters[0].type) == f"memref<f32x{n}>"
    assert len(parses) == 3


def test_without_a_cache_it_is_parsed_each_time(parses, folder):
    source_cache.programs_of(PROGRAM, cache=False)
    with config.scope(CACHE=False):
        source_cache.programs_of(PROGRAM)
    assert len(parses) == 2
    assert not folder.exists()


def test_programs_with_errors_are_not_kept(parses):
    for _ in range(2):
        with pytest.raises(TLError, match="%y"):
            source_cache.programs_of(PROGRAM.replace("0.0, %x", "0.0, %y"))
    assert len(parses) == 2


@pytest.mark.parametrize("entry", [
    Entry({}), Entry({"interfaces": None}), Entry({"interfaces": [["nothing"]]}),
    Entry({"interfaces": [["Span", "a", 1, 1]]}),
])
def test_an_entry_without_interfaces_is_replaced(parses, monkeypatch, entry):
    with monkeypatch.context() as patch:
        patch.setattr(source_cache, "_entry", lambda module, programs: entry)
        source_cache.programs_of(PROGRAM)
    for _ in range(2):
        assert source_cache.programs_of(PROGRAM)[0].name == "scale"
    assert len(parses) == 2


@pytest.mark.parametrize("content", [b"", b"nothing", b"[]", b'["Module", ["nothing"]]', b"\xff"])
def test_content_that_is_no_module_is_parsed_again(parses, monkeypatch, content):
    whole = source_cache._entry
    monkeypatch.setattr(source_cache, "_entry", lambda *parts: Entry(whole(*parts).facts, content))
    source_cache.programs_of(PROGRAM)
    (program,) = source_cache.programs_of(PROGRAM)
    assert program.name == "scale"
    assert len(parses) == 1
    assert program.function.name == "scale"
    assert len(parses) == 2


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
        for needed_when_cold in ("lark", "llvmlite", "tl_dpnp.language.ops", "tl_dpnp.lowering.pipeline"):
            assert (needed_when_cold in modules) is not warm
        assert "tl_dpnp.lowering.mappings.blocked" not in modules  # which is for CUDA devices
