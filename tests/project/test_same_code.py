"""The net behind changes of the compiler: equal code is equal in every run, and other code is seen."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import tests.bench.conftest  # noqa: F401  the benchmarks, which the kernels are drawn from, change the environment
from asv_bench.benchmarks.namespaces import names
from tl_dpnp.kernels.targets import spirv
from tools.same_code import forms, linear_algebra
from tools.same_code.__main__ import main
from tools.same_code.building import build
from tools.same_code.definitions import DEVICES, Definition
from tools.same_code.fused import written
from tools.same_code.normal_form import normal_form, without_names
from tools.same_code.recording import Record, changed_parts, difference

KERNELS = ["linear/gemv.n/f32-f32-*", "linear/hadamard/i4-*"]

LLVM = """; ModuleID = 'tl_kernel$2'
source_filename = "<string>"
declare float @_Z3fmafff(float, float, float) #0 ; a comment

define void @_ZN13_3cdynamic_3e13tl_kernel_242B5abcd(float %.1) #1 {{
entry:
  %x.{n} = fadd float %.1, {constant} ; another
  call void asm "a; b", "r"(float %x.{n})
  br label %"body {n}", !prof !{n}

"body {n}":
  ret void
}}
attributes #0 = {{ nounwind }}
attributes #1 = {{ norecurse }}
!{n} = !{{i32 1}}
"""


def test_names_and_comments_are_no_difference():
    one, other = (LLVM.format(n=n, constant="1.0") for n in (3, 17))
    other = other.replace("tl_kernel$2", "tl_kernel$8").replace("_242B5abcd", "_248B5efgh").replace("a comment", "it")
    assert normal_form("llvm", one) == normal_form("llvm", other)
    assert 'asm "a; b"' in normal_form("llvm", one)
    assert "comment" not in normal_form("llvm", one)


def test_a_constant_an_operand_and_an_order_are_differences():
    text = LLVM.format(n=3, constant="1.0")
    assert normal_form("llvm", text) != normal_form("llvm", LLVM.format(n=3, constant="2.0"))
    assert normal_form("llvm", text) != normal_form("llvm", text.replace("(float %x.3)", "(float %.1)"))
    assert normal_form("llvm", text) != normal_form("llvm", text.replace("a; b", "a; c"))
    lines = "  %a = add i32 %x, %y\n  %b = sub i32 %x, %y\n"
    assert normal_form("llvm", lines) != normal_form("llvm", "".join(reversed(lines.splitlines(True))))
    ptx = "// a compiler\n.visible .entry tl_kernel(\n.param .u64 _ZN13_3cdynamic_3e9tl_kernelB2v1B7abc_param_0)\n{0}"
    assert normal_form("ptx", ptx) == normal_form("ptx", ptx.replace("B7abc", "B7xyz").replace("a compiler", "2"))
    assert normal_form("ptx", ptx) != normal_form("ptx", ptx.replace("{0}", "ret;"))


def test_a_difference_shows_the_instruction_alone():
    before = "".join(f"  %v{n} = add i32 %v{n - 1}, {n}\n" for n in range(2, 30))
    after = before.replace("%v9 = add", "%v9 = sub")
    after = "  %w = mul i32 %v0, %v1\n" + "".join(
        line.replace("%v", "%w_") for line in after.splitlines(keepends=True))
    changed = [line for line in difference("llvm", before, after) if line[0] in "+-"]
    assert changed[2:] == ["+  % = mul i32 %, %", "-  % = add i32 %, 9", "+  % = sub i32 %, 9"]
    assert without_names("plan", "%x") == "%x"


def run(*arguments: str, seed: int) -> Result:
    """Run the command, its processes with a hash seed."""
    given = [part for pattern in KERNELS for part in ("--only", pattern)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONHASHSEED", str(seed))
        return CliRunner().invoke(main, [*arguments, *given, "--without-cuda", "--processes=1"])


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("record") / "record"
    result = run("record", str(path), seed=1)
    assert result.exit_code == 0, result.output
    assert "instructions in no kernel" in result.output
    return path


def test_two_runs_make_the_same_code(recorded):
    result = run("compare", str(recorded), seed=2)
    assert result.exit_code == 0, result.output
    assert f"0 changed of {len(Record.load(recorded).definitions)} kernels" in result.output


@contextmanager
def other_code() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(spirv._FUNCTIONS, "fma", "_Z3mad")
        yield


def test_a_change_of_the_compiler_is_seen(recorded):
    record = Record.load(recorded)
    (definition,) = (d for d in record.definitions if d.name.startswith("linear/gemv.n/f32-f32-default"))
    before = record.built[definition.name]["parts"]
    assert changed_parts(before, build(definition)["parts"]) == []
    with other_code():
        after = build(definition)["parts"]
    assert changed_parts(before, after) == ["llvm"]
    lines = list(difference("llvm", before["llvm"], after["llvm"], context=0))
    assert any(line.startswith("+") and "_Z3mad" in line for line in lines)


def test_what_is_refused_is_compared_by_its_message():
    definition = Definition("it", "func @f(%x: memref<f32>) { %y = atomic_load.cross_device %x[] : f32 }", "sm_90a")
    built = build(definition)
    assert built["facts"]["refused"]
    assert "has the scope .cross_device" in built["parts"]["refusal"]


def test_a_kernel_is_shown_and_files_are_checked(recorded, tmp_path):
    name = next(d.name for d in Record.load(recorded).definitions if d.name.startswith("linear"))
    shown = CliRunner().invoke(main, ["show", name, "--file", str(recorded)])
    assert "define spir_kernel void @tl_kernel" in shown.output
    path = tmp_path / "no record"
    path.write_text("{}")
    refused = CliRunner().invoke(main, ["compare", str(path)])
    assert refused.exit_code == 1
    assert "is no record" in refused.output
    refused = CliRunner().invoke(main, ["record", str(path), "--only", "tiled/*", "--cuda-python", "/no/python"])
    assert "/no/python, which is missing" in refused.output


def test_what_fuse_writes_is_recorded_without_running_it():
    name = sorted(names())[0]
    first, second = (written(name, "f32") for _ in range(2))
    assert first == second
    assert all(text.startswith("func @") for text in first)
    assert first


def test_kernels_are_many_and_of_all_targets():
    """Definitions alone: all of them are built by the command."""
    definitions = [*linear_algebra.linear_algebra(), *linear_algebra.scalar_code(), *forms.random_programs(0, 10),
                   *(definition for family in forms.FAMILIES.values() for definition in family())]
    assert len({definition.name for definition in definitions}) == len(definitions) >= 150
    assert {definition.device for definition in definitions} == set(DEVICES)
