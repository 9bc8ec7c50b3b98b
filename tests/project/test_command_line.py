"""``python -m tl_dpnp``: stages, the system report, and errors without tracebacks."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

import tl_dpnp
from tl_dpnp import config
from tl_dpnp.__main__ import STAGES, main
from tl_dpnp.runtime.store.cache import Entry, key_of, open_cache

PROGRAM = """
func @scale(%x: memref<f32x4>, %y: memref<f32x4>) {
  axpby.n 2.0, %x, 0.0, %y : f32, memref<f32x4>, f32, memref<f32x4>
}
"""
SECOND = "func @nothing(%x: memref<f32x4>) { }\n"


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "scale.tl"
    path.write_text(PROGRAM)
    return path


def run(*arguments, **options):
    return CliRunner().invoke(main, [str(argument) for argument in arguments], **options)


def test_a_right_program_is_accepted_silently(file):
    result = run(file)
    assert (result.exit_code, result.output) == (0, "")


@pytest.mark.parametrize(
    ("stage", "holds"),
    [
        ("parsed", "func @scale"),
        ("canonical", "constant 2.0 : f32"),
        ("memory", "constant 2.0 : f32"),
        ("barriers", "constant 2.0 : f32"),
        ("schedule", "for "),
        ("source", "def "),
        ("llvm", "define "),
    ],
)
def test_every_stage_prints(file, stage, holds):
    result = run(file, f"--emit={stage}")
    assert result.exit_code == 0, result.output
    assert holds in result.stdout


def test_the_stages_of_the_compiler_are_all_there():
    from tl_dpnp import lowering

    assert list(STAGES)[: len(lowering.STAGES)] == list(lowering.STAGES)
    assert list(STAGES)[len(lowering.STAGES) :] == ["schedule", "source", "llvm", "spirv"]


def test_parsed_text_parses_again(file, tmp_path):
    again = tmp_path / "again.tl"
    assert run(file, "--emit=parsed", "-o", again).exit_code == 0
    assert run(again, "--emit=parsed").stdout == again.read_text()
    assert "axpby %c0, %x, %c1, %y\n" in again.read_text()  # an older program becomes one of the newest dialect


def test_spirv_goes_to_a_file(file, tmp_path):
    output = tmp_path / "scale.spv"
    assert run(file, "--emit=spirv", "-o", output).exit_code == 0
    assert int.from_bytes(output.read_bytes()[:4], "little") == 0x07230203


def test_spirv_on_the_screen_needs_the_disassembler(file, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    result = run(file, "--emit=spirv")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "write the binary to a file with -o" in result.stderr


def test_one_function_of_several(tmp_path):
    path = tmp_path / "two.tl"
    path.write_text(PROGRAM + SECOND)
    both, one = run(path, "--emit=parsed").stdout, run(path, "--emit=parsed", "-f", "nothing").stdout
    assert "@scale" in both
    assert "@nothing" in both
    assert "@scale" not in one
    assert "choose one with --function" in run(path, "--emit=spirv", "-o", tmp_path / "x").stderr
    assert run(path, "-f", "other").stderr.endswith("there is no function @other; there are @scale, @nothing\n")


def test_standard_input():
    assert "@scale" in run("-", "--emit=parsed", input=PROGRAM).stdout


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (PROGRAM.replace("%x, 0.0", "%z, 0.0").encode(), r"wrong\.tl:3:\d+: error: .*%z"),
        (b"func @f(", r"wrong\.tl:1:\d+: error: "),
        (b"\xff\xfe\x00", r"wrong\.tl: byte 0 is not UTF-8"),
    ],
    ids=["verify", "syntax", "bytes"],
)
def test_a_wrong_program_ends_in_a_diagnostic(tmp_path, content, message):
    path = tmp_path / "wrong.tl"
    path.write_bytes(content)
    result = run(path, "--emit=source")
    assert (result.exit_code, result.stdout) == (1, "")
    assert re.search(message, result.stderr)
    assert "Traceback" not in result.stderr


def test_an_unknown_stage_is_refused(file):
    result = run(file, "--emit=assembly")
    assert result.exit_code == 2
    assert "canonical" in result.stderr


def test_help_holds_the_tables():
    text = run("--help").output
    assert all(name in text for name in STAGES)
    assert all(setting.variable in text for setting in config.SETTINGS.values())


def test_the_system_report_and_its_json():
    text, data = run("-s").output, json.loads(run("--sys-json").stdout)
    assert data["python"].startswith(f"{sys.version_info.major}.{sys.version_info.minor}.")
    assert {"dpctl", "dpnp", "numba-dpex"} <= {package["name"] for package in data["packages"]}
    assert data["devices"]
    assert all(device["name"] in text for device in data["devices"])


def test_the_system_report_names_problems(monkeypatch):
    from tl_dpnp.runtime import system_info

    monkeypatch.setenv("TL_DPNP_TARGET", "abacus")
    monkeypatch.setenv("TL_DPNP_COLOUR", "1")
    monkeypatch.setenv("OCL_ICD_FILENAMES", "/no/such/libintelocl.so")
    monkeypatch.setattr(system_info, "_version", lambda name: None if name == "dpnp" else "0.0")
    problems = {problem.what: problem.fix for problem in system_info.gather().problems}
    assert problems["dpnp is not installed"] == "run: pip install 'dpnp==0.15.0'"
    assert problems["numba is 0.0, and the others here were built against 0.59.1"] == "run: pip install 'numba==0.59.1'"
    assert any("TL_DPNP_TARGET='abacus' is not understood" in what for what in problems)
    (fix,) = (fix for what, fix in problems.items() if what.startswith("TL_DPNP_COLOUR is set, and there is no such"))
    assert fix == "run: unset TL_DPNP_COLOUR"
    assert "OCL_ICD_FILENAMES names /no/such/libintelocl.so, which does not exist" in problems


def test_the_system_report_names_what_settings_ask_for_and_is_not_there(monkeypatch, tmp_path):
    from tl_dpnp.runtime import system_info

    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("TL_DPNP_CACHE_DIR", str(file))
    monkeypatch.setenv("TL_DPNP_TARGET", "cuda")
    problems = {problem.what: problem.fix for problem in system_info.gather().problems}
    (fix,) = (fix for what, fix in problems.items() if what.startswith(f"the kernel cache in {file} is not used: "))
    assert fix == "set TL_DPNP_CACHE_DIR to a folder of yours, or run: unset TL_DPNP_CACHE_DIR"
    (fix,) = (fix for what, fix in problems.items() if what.startswith('target="cuda" needs numba-cuda'))
    assert fix == "run: unset TL_DPNP_TARGET"


def test_the_system_report_has_no_advice_that_would_break_the_environment_for_cuda(monkeypatch):
    """What `pip install .` brings replaces Numba by one that is too old for numba-cuda."""
    from tl_dpnp.runtime import system_info

    there = {"numba-cuda": "0.30.4", "numba": "0.68.1", "llvmlite": "0.50.0", "numpy": "2.4.6", "lark": "1.3.1",
             "click": "8.5.1", "opt_einsum": "3.4.0"}
    monkeypatch.setattr(system_info, "_version", there.get)
    info = system_info.gather()
    assert {package.name: package.found for package in info.packages if package.found} == there
    problems = {problem.what: problem.fix for problem in info.problems}
    assert problems["tl_dpnp is used from a source folder and is not installed"] == "run: pip install --no-deps ."
    for package in ("platformdirs", "cuda-bindings"):
        assert problems[f"{package} is not installed"].endswith("pip install -r requirements-cuda.txt")
    assert not [what for what in problems if "dpctl" in what or "dpnp is not" in what or "numba-dpex" in what]


def test_a_device_without_dpctl_is_an_error_that_says_what_to_install(file):
    code = (f"import sys\nsys.modules['dpctl'] = None\nfrom tl_dpnp.__main__ import main\n"
            f"main([{str(file)!r}, '--emit=source', '--device=cpu'])")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith("--device needs dpctl, which is not installed here")


def test_the_version_is_that_of_the_package_also_where_it_is_not_installed(monkeypatch):
    assert run("--version").output == f"tl_dpnp, version {tl_dpnp.__version__}\n"
    monkeypatch.setattr(tl_dpnp, "__version__", "0+unknown")
    assert run("--version").output == "tl_dpnp, version 0+unknown\n"


def test_without_a_device_the_error_says_where_to_look(file, monkeypatch):
    """In a process of its own: which devices there are is found out once."""
    monkeypatch.setenv("ONEAPI_DEVICE_SELECTOR", "level_zero:gpu")
    run = subprocess.run([sys.executable, "-m", "tl_dpnp", file, "--emit=llvm"], capture_output=True, text=True,
                         check=False)
    assert run.returncode == 1
    assert run.stderr.startswith("there is no SYCL device")
    assert "python -m tl_dpnp -s" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Return a cache with four entries of 0, 1, 2 and 3 days, of which the two eldest share a content."""
    monkeypatch.setenv("TL_DPNP_CACHE_DIR", str(tmp_path / "cache"))
    cache = open_cache()
    now = time.time()
    for age, content in enumerate([b"", b"1" * 1000, b"2" * 2000, b"2" * 2000]):
        key = key_of(age)
        cache.store(key, Entry({"age": age}, content))
        os.utime(cache.path(key), (now - age * 86400 - 60,) * 2)
    (tmp_path / "cache" / "notes.json").write_text("somebody's own")
    return cache


def ages(cache):
    return [age for age in range(4) if cache.load(key_of(age)) is not None]


def test_the_size_of_the_cache(kept):
    result = run("cache")
    assert result.exit_code == 0
    size = sum(path.stat().st_size for path in pathlib.Path(kept.folder).iterdir()) - len("somebody's own")
    assert result.output == f"{kept.folder}: 4 entries, {size / 1024:.1f} KiB\n"


@pytest.mark.parametrize(("options", "left", "contents"), [
    (["--older-than", "1.5"], [0, 1], 1), (["--older-than", "2.5"], [0, 1, 2], 2), (["--limit", "1"], [0, 1, 2, 3], 2),
    (["--limit", "0.0025"], [0, 1], 1), (["--limit", "0"], [], 0), (["--older-than", "9", "--limit", "0.001"], [0], 0),
])  # fmt: skip
def test_pruning_the_cache(kept, options, left, contents):
    result = run("cache", "prune", *options)
    assert result.exit_code == 0, result.output
    assert f"removed {4 - len(left)} entr" in result.output
    assert ages(kept) == left
    names = [path.name for path in pathlib.Path(kept.folder).iterdir()]
    assert len([name for name in names if name.endswith(".bin")]) == contents
    assert "notes.json" in names, "a file that is none of the cache's"


def test_pruning_asks_what_to_remove(kept):
    result = run("cache", "prune")
    assert result.exit_code == 2
    assert "--older-than DAYS, --limit MIB, or both" in result.output
    assert ages(kept) == [0, 1, 2, 3]


def test_a_cache_that_is_not_there_is_empty(tmp_path, monkeypatch):
    monkeypatch.setenv("TL_DPNP_CACHE_DIR", str(tmp_path / "none"))
    assert run("cache").output == f"{tmp_path / 'none'}: 0 entries, 0.0 KiB\n"
    assert run("cache", "prune", "--limit", "0").exit_code == 0
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("command", [["cache"], ["cache", "prune", "--limit", "0"]])
def test_a_file_in_place_of_the_cache_is_an_error_without_a_traceback(command, tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_text("")
    monkeypatch.setenv("TL_DPNP_CACHE_DIR", str(path))
    result = run(*command)
    assert (result.exit_code, type(result.exception)) == (1, SystemExit)
    assert f"Not a directory: '{path}'" in result.stderr


def test_help_names_the_commands():
    assert re.search(r"cache +Print where the disk cache is and how large", run("--help").output)
    assert "--older-than DAYS" in run("cache", "prune", "--help").output


# --- fmt -------------------------------------------------------------------------------------------------------------

UNTIDY = """; what it is for
$n   = 4


func @scale(%x:memref<f32 x $n>,
   %y : memref<f32x4>)
{

     axpby.n 2.0,%x, 0.0 , %y :f32,memref<f32x4>, f32, memref<f32x4>; twice
    ; the end
}
"""
TIDY = """; what it is for
$n = 4

func @scale(%x: memref<f32 x $n>,
            %y: memref<f32x4>)
{
  axpby.n 2.0, %x, 0.0, %y : f32, memref<f32x4>, f32, memref<f32x4> ; twice
  ; the end
}
"""


def test_fmt_lays_a_file_out_and_keeps_comments_and_variables(tmp_path):
    path = tmp_path / "a.tl"
    path.write_text(UNTIDY)
    assert (run("fmt", "--check", path).exit_code, path.read_text()) == (1, UNTIDY)
    shown = run("fmt", "--diff", path)
    assert (shown.exit_code, path.read_text()) == (0, UNTIDY)
    assert "+$n = 4\n" in shown.output
    assert "-$n   = 4\n" in shown.output
    assert run("fmt", path).output == f"{path}: is formatted\n"
    assert path.read_text() == TIDY
    assert (run("fmt", path).output, run("fmt", "--check", path).exit_code) == ("", 0)
    assert run("fmt", "-", input=UNTIDY).output == TIDY


def test_fmt_refuses_what_is_no_program_and_goes_on(tmp_path):
    wrong, right = tmp_path / "wrong.tl", tmp_path / "right.tl"
    wrong.write_text("func @f( {\n")
    right.write_text(UNTIDY)
    result = run("fmt", wrong, right)
    assert result.exit_code == 1
    assert f"{wrong}:1:10: error" in result.output
    assert (wrong.read_text(), right.read_text()) == ("func @f( {\n", TIDY)


def test_fmt_goes_on_where_it_cannot_write(tmp_path, monkeypatch):
    first, second = tmp_path / "first.tl", tmp_path / "second.tl"
    for path in (first, second):
        path.write_text(UNTIDY)
    write = pathlib.Path.write_text

    def refuse(path, *arguments, **options):
        if path == first:
            raise PermissionError(13, "Permission denied", str(path))
        return write(path, *arguments, **options)

    monkeypatch.setattr(pathlib.Path, "write_text", refuse)
    result = run("fmt", first, second)
    assert (result.exit_code, type(result.exception)) == (1, SystemExit)
    assert f"Permission denied: '{first}'" in result.output
    assert f"{first}: is formatted" not in result.output
    assert (first.read_text(), second.read_text()) == (UNTIDY, TIDY)


def test_a_byte_order_mark_is_taken_as_in_python(tmp_path):
    path = tmp_path / "scale.tl"
    path.write_bytes(b"\xef\xbb\xbf" + PROGRAM.encode())
    assert tl_dpnp.compile(path).name == "scale"
    assert (run(path).exit_code, run(path).output) == (0, "")
    assert run(path, "--emit=source").exit_code == 0
    assert "func @scale" in run("-", "--emit=parsed", input=path.read_bytes()).output


def test_fmt_takes_variables_that_the_text_leaves_open(tmp_path):
    path = tmp_path / "a.tl"
    path.write_text("func @f(%x:memref<f32x4>) { $m = !calc($n 2 *) }\n")
    assert run("fmt", path).exit_code == 1
    assert run("fmt", "-D", "n=4", path).exit_code == 0
    assert path.read_text() == "func @f(%x: memref<f32x4>) { $m = !calc($n 2 *) }\n"


def test_all_commands_take_variables_that_a_text_leaves_open(tmp_path, monkeypatch):
    monkeypatch.setenv("TL_DPNP_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "open.tl"
    path.write_text(PROGRAM.replace("f32x4", "$t x$n"))
    given = ("-D", "n=4", "-D", "t=f64")
    assert run(path).exit_code == 1
    assert (run(path, *given).exit_code, run(path, *given).output) == (0, "")
    for stage in ("parsed", "barriers", "source"):
        assert "memref<f64x4>" in run(path, *given, f"--emit={stage}").output
    assert run("export", path, "-o", tmp_path / "exported", *given).exit_code == 0
    assert "f64x4" in (tmp_path / "exported" / "scale.json").read_text()
    assert run("tune", path, "--budget", "0.1", *given).output.startswith("@scale on ")
    assert "leave FILE and --define out" in " ".join(run("-s", path, *given).output.split())


# --- devices, mappings, tuning ---------------------------------------------------------------------------------------

def test_device_and_mapping_choose_what_is_compiled(file):
    vector, subgroup = (run(file, "--emit=llvm", "--device", "cpu", "--mapping", mapping)
                        for mapping in ("vector", "subgroup"))
    assert (vector.exit_code, subgroup.exit_code) == (0, 0)
    assert vector.output != subgroup.output
    wrong = run(file, "--emit=llvm", "--device", "accelerator:7")
    assert wrong.exit_code == 1
    assert "there is no SYCL device 'accelerator:7'; there are opencl:cpu:0" in wrong.output
    assert run(file, "--mapping", "vector").exit_code == 2


def test_tune_makes_arguments_and_keeps_what_it_finds(tmp_path, monkeypatch):
    monkeypatch.setenv("TL_DPNP_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "product.tl"
    path.write_text("""func @product(%a: f32, %A: group<memref<f32x?x8>>, %B: memref<f32x8x8>, %C: memref<f32x4x8x?>) {
  %g = group_id
  %x = load %A[%g] : group<memref<f32x?x8>>
  %c = subview %C[:,:,%g] : memref<f32x4x8x?>
  gemm.n.n %a, %x, %B, 0.0, %c : f32, memref<f32x?x8>, memref<f32x8x8>, f32, memref<f32x4x8>
}
""")
    result = run("tune", path, "--shape", "A=4x8", "--batch", "20", "--budget", "0.5", "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("@product on ")
    assert "(default)" in result.output
    assert list((tmp_path / "cache").iterdir())
    with config.scope(CACHE=False):
        assert "is shown, and not kept" in run("tune", path, "--shape", "A=4x8", "--budget", "0.1").stderr
    for shape, message in (("A=4x9", "the shape 4x9 does not fit %A"), ("D=4", "there is no array %D")):
        wrong = run("tune", path, "--shape", shape)
        assert (wrong.exit_code, message in wrong.output) == (1, True), wrong.output
    assert "is no shape such as 16x8x100" in run("tune", path, "--shape", "A=4by8").output
