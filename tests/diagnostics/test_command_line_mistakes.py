"""Mistakes on the command line: what the message says to write instead is then accepted."""

import pytest
from click.testing import CliRunner

from tests.runtime.support import AXPY
from tl_dpnp.__main__ import main

#: What was written, what is said of it, and what the advice in that makes of it.
MISTAKES = {
    "command of another tool": ("format axpy.tl", "did you mean fmt?", "fmt axpy.tl"),
    "command that is none": ("check axpy.tl", "a FILE alone is checked", "axpy.tl"),
    "name with its sign": ("axpy.tl -f @axpy", "did you mean --function axpy?", "axpy.tl --function axpy"),
    "misspelt name": ("axpy.tl -f axpyy --emit source", "did you mean --function axpy?",
                      "axpy.tl --function axpy --emit source"),
    "device in capitals": ("axpy.tl --emit source --device CPU", "small letters, cpu",
                           "axpy.tl --emit source --device cpu"),
    "device that is not there": ("axpy.tl --emit source --device gpu:7", "there are opencl:cpu:0 (",
                                 "axpy.tl --emit source --device opencl:cpu:0"),
    "device without a stage": ("axpy.tl --device cpu", "use them with --emit", "axpy.tl --device cpu --emit source"),
    "mapping of a text": ("axpy.tl --emit parsed --mapping subgroup", "leave them out", "axpy.tl --emit parsed"),
    "device of a text": ("axpy.tl --emit canonical --device cpu", "leave them out", "axpy.tl --emit canonical"),
    "misspelt mapping": ("axpy.tl --emit source --mapping vectors", "'vector'",
                         "axpy.tl --emit source --mapping vector"),
    "output of a check": ("axpy.tl -o out.txt", "use them with --emit", "axpy.tl -o out.txt --emit parsed"),
    "file of a report": ("-s axpy.tl", "leave FILE out", "-s"),
    "report with all else": ("axpy.tl --sys-json --dpas --emit source -f axpy --device cpu --mapping vector",
                             "leave FILE and --emit and --function and --device and --mapping and --dpas out",
                             "--sys-json"),
    "file of the forms of DPAS": ("--dpas axpy.tl", "leave FILE out", "axpy.tl"),
    "folder that is not there": ("axpy.tl --emit parsed -o none/out.txt", "No such file or directory: 'none/out.txt'",
                                 "axpy.tl --emit parsed -o out.txt"),
    "disk that is full": ("axpy.tl --emit parsed -o /dev/full", "No space left", "axpy.tl --emit parsed -o out.txt"),
    "limit that is none": ("cache prune --limit inf", "inf is no finite number", "cache prune --limit 0"),
    "age that is none": ("cache prune --older-than nan", "nan is no finite number", "cache prune --older-than 1"),
    "budget without end": ("tune axpy.tl --budget inf", "inf is no finite number",
                           "tune axpy.tl --budget 0.05 --batch 8"),
    "variable without a value": ("fmt -D n axpy.tl", "no NAME=VALUE", "fmt -D n=8 axpy.tl"),
    "variable of no value": ("fmt -D n=many axpy.tl", "for example $n = 8", "fmt -D n=8 axpy.tl"),
    "variable with two values": ("fmt -D n=8 -D n=9 axpy.tl", "n is given 2 times", "fmt -D n=8 axpy.tl"),
    "two shapes of an array": ("tune axpy.tl --budget 0.05 --shape x=8 --shape x=9", "x is given 2 times",
                               "tune axpy.tl --budget 0.05 --shape x=8 --shape y=8"),
    "sizes with commas": ("tune axpy.tl --budget 0.05 --shape x=8,8", "such as 16x8x100",
                          "tune axpy.tl --budget 0.05 --shape x=8 --shape y=8"),
    "one size of two": ("tune axpy.tl --budget 0.05 --shape x=8", "those that it does not give are 1000",
                        "tune axpy.tl --budget 0.05 --shape x=8 --shape y=8"),
    "sizes beyond all memory": ("tune axpy.tl --budget 0.05 --batch 100000000000000",
                                "no memory for %x of shape 100000000000000", "tune axpy.tl --budget 0.05 --batch 8"),
    "sizes of a scalar": ("tune axpy.tl --budget 0.05 --shape alpha=8", "there are %x, %y",
                          "tune axpy.tl --budget 0.05 --batch 8"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_advice_is_accepted(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "axpy.tl").write_text(AXPY)
    wrong, advice, right = MISTAKES[name]
    with_cache = {"env": {"TL_DPNP_CACHE_DIR": str(tmp_path / "cache")}}
    result = CliRunner().invoke(main, wrong.split(), **with_cache)
    assert result.exit_code in (1, 2), result.output
    assert isinstance(result.exception, SystemExit), result.exception
    assert advice in " ".join(result.output.split())
    result = CliRunner().invoke(main, right.split(), **with_cache)
    assert result.exit_code == 0, result.output


def test_a_path_that_is_no_word_names_no_commands(tmp_path):
    assert "commands" not in CliRunner().invoke(main, [str(tmp_path / "fmt.tl")]).output
