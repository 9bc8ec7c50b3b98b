"""Kernels for programs in C and C++: they build without warnings, and compute what NumPy does."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import tl_dpnp
from tests.runtime.support import FUSED, RAGGED, random
from tests.runtime.test_divided import source as product
from tl_dpnp.__main__ import main
from tl_dpnp.errors import LoweringError, TLError, UnsupportedError
from tl_dpnp.lowering.device import H200
from tl_dpnp.lowering.plan import LaunchPlan
from tl_dpnp.lowering.variants import FewGroups
from tl_dpnp.runtime import compiler
from tl_dpnp.runtime.export import export as exporting
from tl_dpnp.runtime.export.members import members_of
from tl_dpnp.runtime.sycl.launch import chunk_of, exceeded_by
from tl_dpnp.target.device import Device

DRIVER = Path(__file__).with_name("exported_driver.c")
LIBRARIES = Path(sys.prefix, "lib")
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
#: The oneAPI runtime of 2026 brings OpenCL's headers; Debian has them in opencl-headers.
HEADERS = ["-idirafter", str(Path(sys.prefix, "include"))]


def _why_not() -> str | None:
    if shutil.which("gcc") is None or shutil.which("g++") is None:
        return "gcc and g++ are not installed"
    command = ["gcc", *HEADERS, "-E", "-x", "c", "-"]
    if subprocess.run(command, input="#include <CL/cl.h>", text=True, capture_output=True).returncode:
        return "OpenCL's headers are not installed (Debian: opencl-headers)"
    return None if (LIBRARIES / "libOpenCL.so.1").exists() else f"OpenCL's loader is not in {LIBRARIES}"


_missing = _why_not()
needs_compiler = pytest.mark.skipif(_missing is not None, reason=str(_missing))

#: One scalar of each kind, stored as it comes.
SCALARS = """
func @scalars(%flag: i1, %small: i8, %long: u64, %half: f16, %brain: bf16, %double: f64, %pair: c32,
              %flags: memref<i1x?>, %smalls: memref<i8x?>, %longs: memref<u64x?>, %halves: memref<f16x?>,
              %brains: memref<bf16x?>, %doubles: memref<f64x?>, %pairs: memref<c32x?>) {
  %g = group_id
  store %flag, %flags[%g] : memref<i1x?>
  store %small, %smalls[%g] : memref<i8x?>
  store %long, %longs[%g] : memref<u64x?>
  store %half, %halves[%g] : memref<f16x?>
  store %brain, %brains[%g] : memref<bf16x?>
  store %double, %doubles[%g] : memref<f64x?>
  store %pair, %pairs[%g] : memref<c32x?>
}"""

#: y[g] := x[g][1] + the length of x, with an offset, and strides that vary.
TABLES = """
func @tables(%x: group<memref<f32x?,strided<?>>, offset: ?>, %y: memref<f32x?,strided<?>>) {
  %g = group_id
  %n = size %x[0] : index
  %a = load %x[%g] : group<memref<f32x?,strided<?>>, offset: ?>
  %one = constant 1 : index
  %v = load %a[%one] : memref<f32x?,strided<?>>
  %f = cast %n : f32
  %s = arith.add %v, %f : f32
  store %s, %y[%g] : memref<f32x?,strided<?>>
}"""


class Program:
    """An exported kernel in a library of its own, with the driver: `run` takes the members of its struct by name."""

    def __init__(self, source: str, folder: Path, **options: Any) -> None:
        self.kernel = tl_dpnp.compile(source, **options)
        name = self.kernel.name
        self.kernel.export(folder)
        self.facts = json.loads((folder / f"{name}.json").read_text())
        library = folder / "library.so"
        macros = [f"-DARGUMENTS={name}_arguments", f"-DVALUES={name}_values", f"-DCOUNT={name}_count",
                  f"-DKERNEL={name}_kernel"]
        subprocess.run(
            ["gcc", "-std=c99", "-shared", "-fPIC", *WARNINGS, f"-I{folder}", *HEADERS, *macros, "-include",
             f"{name}.h", DRIVER, folder / "tl_opencl.c", folder / f"{name}.c", "-o", library, f"-L{LIBRARIES}",
             "-l:libOpenCL.so.1", f"-Wl,-rpath,{LIBRARIES}"], check=True)
        self.library = ctypes.CDLL(str(library))
        self.library.number.restype = ctypes.c_float
        self._arguments = type("Arguments", (ctypes.Structure,), {
            "_fields_": [(each["name"], _ctype(each["type"])) for each in self.facts["arguments"]]})

    def run(self, groups: int, size: int = 0, **members: Any) -> None:
        given = {name: value.ctypes.data if isinstance(value, np.ndarray) else value for name, value in members.items()}
        assert given.keys() == {each["name"] for each in self.facts["arguments"]}
        code = self.library.run(ctypes.byref(self._arguments(**given)), ctypes.c_int64(groups), ctypes.c_int64(size))
        assert code == 0, f"OpenCL's code {code}"

    def plan(self, groups: int, size: int, units: int) -> list[int]:
        """Return what ``tl_plan`` finds: variant, the last three arguments, global and local sizes."""
        found = (ctypes.c_int64 * 8)()
        self.library.plan(*map(ctypes.c_int64, (groups, size, units)), found)
        return [*found]


def _ctype(type_: str) -> Any:
    if type_.endswith("*"):
        return ctypes.c_void_p
    return {"float": ctypes.c_float, "double": ctypes.c_double}.get(type_) or getattr(
        ctypes, f"c_{type_.removesuffix('_t')}")


def table(arrays: list[np.ndarray]) -> np.ndarray:
    """Return the addresses of arrays."""
    return np.array([array.ctypes.data for array in arrays], np.uint64)


# --- building --------------------------------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("compiler", ["gcc -std=c99", "gcc -std=c17", "g++ -x c++ -std=c++11", "g++ -x c++ -std=c++20"])
def test_all_sources_compile_without_warnings_as_c_and_as_cpp(compiler, tmp_path):
    for source in (FUSED, SCALARS, TABLES):
        tl_dpnp.compile(source).export(tmp_path)
    sources = [*tmp_path.glob("*.c")]
    assert len(sources) == 4
    for source in sources:
        run = subprocess.run([*compiler.split(), *WARNINGS, *HEADERS, "-c", source, "-o", "/dev/null"],
                             capture_output=True, text=True)
        assert (run.returncode, run.stderr) == (0, "")


# --- running ---------------------------------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("form", [None, "subgroup"])
def test_the_chain_of_two_products_is_that_of_numpy(form, tmp_path):
    groups = 37
    a = [random(16, 8, seed=seed) for seed in range(groups)]
    b, c, d = random(8, 8, seed=50), random(8, 16, seed=51), random(16, 16, groups, seed=52)
    expected = d + np.stack([0.5 * (each @ b.T) @ c for each in a], axis=2)
    program = Program(FUSED, tmp_path, form=form)
    program.run(groups, alpha=0.5, A=table(a), B=b, C=c, D=d, D_size_2=groups)
    np.testing.assert_array_equal(d, expected)
    program.run(0, alpha=0.5, A=table(a), B=b, C=c, D=d, D_size_2=groups)
    np.testing.assert_array_equal(d, expected)


@needs_compiler
def test_groups_of_any_sizes_come_with_a_row_of_sizes_for_each_element(tmp_path):
    sizes = [(3, 4, 5), (1, 1, 1), (17, 9, 2), (8, 8, 8)]
    a = [random(m, k, seed=m) for m, n, k in sizes]
    b = [random(k, n, seed=n) for m, n, k in sizes]
    c = [np.empty((m, n), np.float32, order="F") for m, n, k in sizes]

    def rows(arrays):  # the second stride of a packed matrix is known from its first size, and dynamic all the same
        return np.array([[*array.shape, array.shape[0]] for array in arrays], np.int64)

    Program(RAGGED, tmp_path).run(4, A=table(a), A_dope=rows(a), B=table(b), B_dope=rows(b), C=table(c), C_dope=rows(c))
    for number, result in enumerate(c):
        np.testing.assert_array_equal(result, a[number] @ b[number])


@needs_compiler
def test_offsets_strides_and_lengths_are_arguments(tmp_path):
    x = [np.arange(12, dtype=np.float32) * (number + 1) for number in range(3)]
    y = np.zeros(9, np.float32)
    Program(TABLES, tmp_path).run(
        3, x=table(x), x_offset=2, x_dope=np.array([[5, 2], [4, 2], [3, 3]], np.int64), x_length=3, y=y, y_size_0=3,
        y_stride_0=3)
    np.testing.assert_array_equal(y[::3], [4 + 3, 2 * 4 + 3, 3 * 5 + 3])
    assert not y[1::3].any()
    assert not y[2::3].any()


@needs_compiler
def test_scalars_of_all_kinds_arrive_as_they_are(tmp_path):
    groups = 3
    half, brain = np.float16(1 / 3), np.float32(1 / 3).view(np.uint32) >> 16
    results = {name: np.zeros(groups, dtype) for name, dtype in {
        "flags": np.bool_, "smalls": np.int8, "longs": np.uint64, "halves": np.float16, "brains": np.uint16,
        "doubles": np.float64, "pairs": np.complex64}.items()}
    Program(SCALARS, tmp_path).run(
        groups, flag=1, small=-7, long_=(1 << 64) - 3, half=int(half.view(np.uint16)), brain=int(brain),
        double_=1 / 3, pair_real=0.25, pair_imag=-2.0, **results,
        **{f"{name}_size_0": groups for name in results})
    expected = {"flags": True, "smalls": -7, "longs": (1 << 64) - 3, "halves": half, "brains": brain, "doubles": 1 / 3,
                "pairs": 0.25 - 2j}
    for name, values in results.items():
        assert (values == np.array(expected[name], values.dtype)).all(), name


@needs_compiler
def test_extents_are_arguments_of_programs_that_know_several_axes(tmp_path):
    x = np.zeros((5, 3), np.int64, order="F")
    source = """func @places(%x: memref<index x?x?>) {
      %i = group_id.x : index  %j = group_id.y : index  %n = num_groups.z : index
      %a = mul %i, 10 : index  %b = add %a, %j : index  %c = mul %b, %n : index
      store %c, %x[%i, %j]
    }"""
    Program(source, tmp_path).run(5 * 3 * 2, x=x, x_size_0=5, x_size_1=3, x_stride_1=5, groups_x=5, groups_y=3,
                                  groups_z=2)
    np.testing.assert_array_equal(x, 2 * (10 * np.arange(5)[:, None] + np.arange(3)))


@needs_compiler
def test_all_halves_become_the_floats_that_they_are(tmp_path):
    number = Program(FUSED, tmp_path).library.number
    bits = np.arange(1 << 16, dtype=np.uint32)
    for is_brain, expected in enumerate([bits.astype(np.uint16).view(np.float16).astype(np.float32),
                                         (bits << 16).view(np.float32)]):
        found = np.array([number(is_brain, int(each)) for each in bits], np.float32)
        np.testing.assert_array_equal(found, expected)


# --- launches --------------------------------------------------------------------------------------------------------


@needs_compiler
def test_a_launch_is_planned_as_in_python(tmp_path):
    """Chunks, ranges, the variant and the caches are those of `tl_dpnp.runtime.sycl.launch`."""
    for number, (text, form) in enumerate([
            (FUSED, None), (FUSED, "subgroup"), (product(128, 128, 128), None), (RAGGED, None)]):
        program = Program(text, tmp_path / str(number), form=form)
        device = program.kernel._overloads.current_device()
        variants = program.kernel._overloads.variants(device)
        plans = [LaunchPlan.from_json(dict(each["plan"])) for each in program.facts["variants"]]
        assert [each["for_few"] for each in program.facts["variants"]] == [
            isinstance(each.condition, FewGroups) for each in variants]
        for units in (1, 2, 64):
            for groups in (1, 2, 7, 100, 12_345, 1_000_000):
                for size in (0, 1 << 20, (1 << 20) + 1, 1 << 25, 1 << 34):
                    expected = _planned(program, plans, replace(device, compute_units=units), groups, size)
                    assert program.plan(groups, size, units) == expected, (number, units, groups, size)


def _planned(program: Program, plans: list[LaunchPlan], device: Device, groups: int, size: int) -> list[int]:
    few = len(plans) > 1 and groups < device.launches.items * device.compute_units
    variant = 0 if few or len(plans) == 1 else 1
    plan, beyond = plans[variant], exceeded_by(size, device)
    total = groups * plan.parts
    chunk = chunk_of(plan, total, device, program.kernel._program.usage.has_fixed_work and not beyond)
    ranges = [[*sizes[::-1], 0][:2] for sizes in plan.ranges(total, chunk)]
    return [variant, total, chunk, beyond, *ranges[0], *ranges[1]]


@needs_compiler
@pytest.mark.parametrize("groups", [1, 2000])
def test_calls_of_few_large_products_take_their_variant(groups, tmp_path):
    m, n, k = 64, 128, 64
    a = [random(m, k, seed=seed) for seed in range(groups)]
    b, c = random(k, n, groups, seed=1), np.zeros((m, n, groups), np.float32, order="F")
    program = Program(product(m, n, k), tmp_path)
    assert [each["plan"]["form"] for each in program.facts["variants"]] == ["divided", "vector"]
    program.run(groups, b.nbytes, alpha=2.0, group=table(a), b=b, b_size_2=groups, c=c, c_size_2=groups)
    np.testing.assert_array_equal(c, np.stack([2 * a[g] @ b[:, :, g] for g in range(groups)], axis=2))


# --- what is written -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [FUSED, RAGGED, TABLES, SCALARS, product(8, 8, 8)])
def test_members_are_the_arguments_that_the_compiler_gave_the_kernel(source):
    kernel = tl_dpnp.compile(source)
    lowered = kernel.lower()
    members = members_of(kernel.parameters, kernel._program.usage, lowered.plan.measured)
    carried = {"tl_integer": "index", "tl_address": "index", "tl_f16": "f32", "tl_bf16": "f32"}
    found = [carried.get(member.function, member.function.removeprefix("tl_")) for member in members]
    widened = {"f16": "f32", "bf16": "f32"}
    expected = [widened.get(argument.type.name, argument.type.name) for argument in lowered.arguments]
    assert [*found, *["index"] * 3] == expected


@needs_compiler
def test_kernels_whose_names_differ_in_case_go_together(tmp_path):
    program = "func @{} (%x: memref<f32x4>) {{ }}"
    for name in ("axpy", "Axpy"):
        tl_dpnp.compile(program.format(name)).export(tmp_path)
    lines = ['#include "axpy.h"', '#include "Axpy.h"', "int counts[] = {axpy_count, Axpy_count};\n"]
    subprocess.run(["gcc", "-std=c99", *WARNINGS, f"-I{tmp_path}", "-fsyntax-only", "-x", "c", "-"],
                   input="\n".join(lines), text=True, check=True)


def test_functions_whose_files_are_called_alike_do_not_replace_one_another(tmp_path):
    one, other = (tl_dpnp.compile(f"func @{name}(%x: memref<f32x4>) {{ }}") for name in ("1", "kernel_1"))
    paths = one.export(tmp_path)
    before = {path: path.read_bytes() for path in paths}
    with pytest.raises(tl_dpnp.UnsupportedError, match=r"@kernel_1 and @1, .* both called kernel_1 in C"):
        other.export(tmp_path)
    assert {path: path.read_bytes() for path in paths} == before
    assert one.export(tmp_path) == paths
    assert other.export(tmp_path / "other")


def test_names_are_such_that_c_and_cpp_can_have(tmp_path):
    names = "class int long I 0 D D_size_0 D_size_0_ int_".split()
    parameters = ", ".join(f"%{name}: {'memref<f32x?>' if name == 'D' else 'i32'}" for name in names)
    tl_dpnp.compile(f"func @0({parameters}) {{ }}").export(tmp_path)
    facts = json.loads((tmp_path / "kernel_0.json").read_text())
    found = [each["name"] for each in facts["arguments"]]
    assert found == ["class_", "int__", "long_", "I_", "_0", "D", "D_size_0__", "D_size_0", "D_size_0_", "int_"]
    assert len(set(found)) == len(found)


@needs_compiler
@pytest.mark.parametrize("name", ["math", "string", "features", "tl", "tl_kernel", "tl_opencl"])
def test_functions_named_like_headers_have_files_of_their_own(name, tmp_path):
    """Compilers take the folder's headers for those of C, and each file would replace one that all kernels share."""
    paths = tl_dpnp.compile(f"func @{name}(%x: memref<f32x4>) {{ }}").export(tmp_path)
    assert len(set(paths)) == len(paths)
    symbol = f"kernel_{name}"
    lines = ["#include <math.h>", "#include <stdio.h>", f'#include "{symbol}.h"', '#include "tl_opencl.h"',
             f"const tl_kernel *kernel = &{symbol}_kernel;\n"]
    sources = ["\n".join(lines), *((tmp_path / file).read_text() for file in (f"{symbol}.c", "tl_opencl.c"))]
    for command in ("gcc -std=c99 -x c", "g++ -std=c++11 -x c++"):
        for source in sources:
            subprocess.run([*command.split(), *WARNINGS, f"-I{tmp_path}", *HEADERS, "-fsyntax-only", "-"], text=True,
                           input=source, check=True)


def test_a_device_that_is_not_here_has_the_form_for_its_kind(tmp_path):
    pytest.importorskip("numba_dpex", reason="code for GPUs that are not here is made from what numba-dpex makes")
    paths = tl_dpnp.compile(FUSED).export(tmp_path, device="pvc")
    facts = json.loads((tmp_path / "fused.json").read_text())
    assert [each["plan"]["form"] for each in facts["variants"]] == ["subgroup"]
    assert tmp_path / "fused_subgroup.spv" in paths
    assert (tmp_path / "fused_subgroup.spv").read_bytes()[:4] == b"\x03\x02\x23\x07"
    assert "Max (offline)" in (tmp_path / "fused.h").read_text()


def test_nothing_of_an_export_stays_in_the_kernel(tmp_path):
    kernel = tl_dpnp.compile(FUSED)
    kernel.export(tmp_path)
    assert kernel.signatures == []


@pytest.mark.parametrize(("source", "options", "message"), [
    (FUSED, {"debug": True}, "export: @fused was compiled with debug=True, whose checks need a call from Python"),
    (FUSED, {"target": "reference"}, 'export: @fused has target="reference", for which no code is generated'),
    ("func @nothing() { }", {}, "export: @nothing has no parameters, and so no results"),
])
def test_what_cannot_be_exported_says_why(source, options, message, tmp_path):
    with pytest.raises(UnsupportedError, match=message.replace("(", r"\(")):
        tl_dpnp.compile(source, **options).export(tmp_path / "folder")
    assert not (tmp_path / "folder").exists()


def test_devices_are_those_of_the_target(tmp_path):
    with pytest.raises(UnsupportedError, match=r'H200.* is no device for target="sycl"'):
        tl_dpnp.compile(FUSED).export(tmp_path, device=H200)


def test_kernels_that_need_a_permission_are_refused(tmp_path, monkeypatch):
    """There are tiles on few machines: here the code says that it uses them."""
    def compiled(*arguments):
        return compiler.compile_program(*arguments)._replace(binary=b"tileloadd")

    monkeypatch.setattr(exporting, "compile_program", compiled)
    with pytest.raises(UnsupportedError, match="which a process must ask Linux for: set TL_DPNP_AMX=off"):
        tl_dpnp.compile(FUSED).export(tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_what_the_compiler_refuses_leaves_no_files(tmp_path, monkeypatch):
    def refuse(*arguments):
        raise LoweringError("refused")

    monkeypatch.setattr(exporting, "compile_program", refuse)
    with pytest.raises(TLError, match="refused"):
        tl_dpnp.compile(FUSED).export(tmp_path)
    assert [*tmp_path.iterdir()] == []


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_exports_each_function_and_prints_the_files(tmp_path):
    file = tmp_path / "kernels.tl"
    file.write_text(f"{FUSED}\n{TABLES}")
    run = CliRunner().invoke(main, ["export", str(file), "-o", str(tmp_path / "all")])
    assert run.exit_code == 0, run.output
    assert sorted(run.stdout.splitlines()) == sorted(str(path) for path in (tmp_path / "all").iterdir())
    assert {"fused.h", "fused.c", "tables.h", "tables.c", "tl_opencl.c"} <= {
        path.name for path in (tmp_path / "all").iterdir()}
    run = CliRunner().invoke(main, ["export", str(file), "-o", str(tmp_path / "one"), "-f", "tables"])
    assert run.exit_code == 0, run.output
    assert not (tmp_path / "one" / "fused.h").exists()


@pytest.mark.parametrize(("options", "message"), [
    (["-f", "other"], "there is no function @other"), (["--device", "gen9"], "there is no offline compilation for")])
def test_errors_of_the_command_are_lines(options, message, tmp_path):
    file = tmp_path / "kernels.tl"
    file.write_text(FUSED)
    run = CliRunner().invoke(main, ["export", str(file), "-o", str(tmp_path), *options])
    assert run.exit_code == 1
    assert message in run.output
    assert "Traceback" not in run.output


def test_a_folder_is_needed(tmp_path):
    file = tmp_path / "kernels.tl"
    file.write_text(FUSED)
    run = CliRunner().invoke(main, ["export", str(file)])
    assert run.exit_code == 2
    assert "-o" in run.output
