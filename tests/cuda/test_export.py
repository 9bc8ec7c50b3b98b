"""Kernels for programs in C and C++ on CUDA devices: they build without warnings, and compute what NumPy does."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import tl_dpnp
from tests.cuda.test_tiled import source as product
from tl_dpnp.__main__ import main
from tl_dpnp.errors import UnsupportedError
from tl_dpnp.runtime.cuda import driver_adapter as driver

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
HEADERS = ["-idirafter", os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/include"]


def _why_not() -> str | None:
    if shutil.which("gcc") is None or shutil.which("g++") is None:
        return "gcc and g++ are not installed"
    command = ["gcc", *HEADERS, "-E", "-x", "c", "-"]
    found = subprocess.run(command, input="#include <cuda.h>", text=True, capture_output=True)
    return "CUDA's headers are not installed: set CUDA_HOME" if found.returncode else None


_missing = _why_not()
needs_compiler = pytest.mark.skipif(_missing is not None, reason=str(_missing))
on_device = pytest.mark.skipif(driver.device_count() == 0, reason="there is no CUDA device")

#: D[g] += alpha (A[g] Bᵀ) C for a group A and a batch D.
CHAIN = """
func @chain(%alpha: f32, %A: group<memref<f32x16x8>>, %B: memref<f32x8x8>, %C: memref<f32x8x16>,
            %D: memref<f32x16x16x?>) {
  %0 = group_id
  %1 = load %A[%0] : group<memref<f32x16x8>>
  %2 = subview %D[:,:,%0] : memref<f32x16x16x?>
  %t = alloca -> memref<f32x16x8>
  gemm.n.t 1.0, %1, %B, 0.0, %t : f32, memref<f32x16x8>, memref<f32x8x8>, f32, memref<f32x16x8>
  gemm.n.n %alpha, %t, %C, 1.0, %2 : f32, memref<f32x16x8>, memref<f32x8x16>, f32, memref<f32x16x16>
}"""

#: C[g] := h A[g] B[g], each work-group with sizes of its own.
RAGGED = """
func @ragged(%h: f16, %A: group<memref<f32x?x?>>, %B: group<memref<f32x?x?>>, %C: group<memref<f32x?x?>>) {
  %g = group_id
  %a = load %A[%g] : group<memref<f32x?x?>>
  %b = load %B[%g] : group<memref<f32x?x?>>
  %c = load %C[%g] : group<memref<f32x?x?>>
  %f = cast %h : f32
  gemm.n.n %f, %a, %b, 0.0, %c : f32, memref<f32x?x?>, memref<f32x?x?>, f32, memref<f32x?x?>
}"""


def random(*shape: int, seed: int) -> np.ndarray:
    """Return an array of small integers, whose products and sums are exact in float32."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype("float32", order="F")


class Copy:
    """An array on the device; the object has to be kept."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.memory = driver.Memory(0, max(1, array.nbytes))
        self.memory.write(np.frombuffer(array.tobytes(order="A"), np.uint8))

    def read(self) -> np.ndarray:
        return self.memory.read(str(self.array.dtype)).reshape(self.array.shape, order="F")


def table(copies: list[Copy]) -> Copy:
    """Return the addresses of arrays, on the device."""
    return Copy(np.array([copy.memory.address for copy in copies], np.uint64))


def built(kernel: Any, folder: Path, *others: str) -> tuple[dict[str, Any], Path]:
    """Export a kernel and build it with the driver of the tests; return its description and the library."""
    name, library = kernel.name, folder / "library.so"
    kernel.export(folder)
    facts = json.loads((folder / f"{name}.json").read_text())
    macros = [f"-DARGUMENTS={name}_arguments", f"-DVALUES={name}_values", f"-DCOUNT={name}_count",
              f"-DKERNEL={name}_kernel"]
    sources = [*map(Path(__file__).with_name, ("exported_driver.c", *others)), folder / "tl_cuda.c",
               folder / f"{name}.c"]
    # What the library has itself comes before the driver that another test loaded for all.
    subprocess.run(["gcc", "-std=c99", "-shared", "-fPIC", "-Wl,-Bsymbolic", *WARNINGS, f"-I{folder}", *HEADERS,
                    *macros, "-include", f"{name}.h", *sources, "-o", library], check=True)
    return facts, library


def run(source: str, folder: Path, groups: int, form: str | None = None, **members: Any) -> str:
    """Export a kernel, build it with the driver and run it; return its form."""
    facts, library = built(tl_dpnp.compile(source, target="cuda", form=form), folder)
    ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
    types = {"float": ctypes.c_float, "uint16_t": ctypes.c_uint16, "int64_t": ctypes.c_int64}
    given = {name: value.memory.address if isinstance(value, Copy) else value for name, value in members.items()}
    assert given.keys() == {each["name"] for each in facts["arguments"]}
    structure = type("Arguments", (ctypes.Structure,), {
        "_fields_": [(each["name"], types.get(each["type"], ctypes.c_void_p)) for each in facts["arguments"]]})
    with driver.current(0):
        code = ctypes.CDLL(str(library)).run(ctypes.byref(structure(**given)), ctypes.c_int64(groups))
    assert code == 0, f"CUDA's code {code}"
    (variant,) = facts["variants"]
    return variant["plan"]["form"]


@needs_compiler
@pytest.mark.parametrize("compiler", ["gcc -std=c99", "gcc -std=c17", "g++ -x c++ -std=c++11", "g++ -x c++ -std=c++20"])
def test_all_sources_compile_without_warnings_as_c_and_as_cpp(compiler, tmp_path):
    for source in (CHAIN, RAGGED):
        tl_dpnp.compile(source, target="cuda").export(tmp_path)
    sources = [*tmp_path.glob("*.c")]
    assert len(sources) == 3
    for source in sources:
        found = subprocess.run([*compiler.split(), *WARNINGS, *HEADERS, "-c", source, "-o", "/dev/null"],
                               capture_output=True, text=True)
        assert (found.returncode, found.stderr) == (0, "")


@needs_compiler
@on_device
@pytest.mark.parametrize("form", ["staged", "subgroup"])
@pytest.mark.parametrize("groups", [1, 37, 20_000])
def test_the_chain_of_two_products_is_that_of_numpy(form, groups, tmp_path):
    a, b, c, d = random(16, 8, groups, seed=1), random(8, 8, seed=2), random(8, 16, seed=3), random(
        16, 16, groups, seed=4)
    expected = d + 0.5 * np.einsum("ikg,jk,jn->ing", a, b, c, optimize=True)
    whole, result = Copy(a), Copy(d)
    addresses = Copy(whole.memory.address + 4 * 16 * 8 * np.arange(groups, dtype=np.uint64))
    found = run(CHAIN, tmp_path, groups, form, alpha=0.5, A=addresses, B=Copy(b), C=Copy(c), D=result, D_size_2=groups)
    assert found == form
    np.testing.assert_array_equal(result.read(), expected)


@needs_compiler
@on_device
def test_groups_of_any_sizes_come_with_a_row_of_sizes_for_each_element(tmp_path):
    sizes = [(3, 4, 5), (1, 1, 1), (17, 9, 2), (8, 8, 8)]
    a = [Copy(random(m, k, seed=m)) for m, n, k in sizes]
    b = [Copy(random(k, n, seed=n)) for m, n, k in sizes]
    c = [Copy(np.empty((m, n), np.float32, order="F")) for m, n, k in sizes]

    def rows(copies):  # the second stride of a packed matrix is its first size
        return Copy(np.array([[*copy.array.shape, copy.array.shape[0]] for copy in copies], np.int64))

    half = int(np.float16(0.5).view(np.uint16))
    run(RAGGED, tmp_path, 4, h=half, A=table(a), A_dope=rows(a), B=table(b), B_dope=rows(b), C=table(c), C_dope=rows(c))
    for left, right, result in zip(a, b, c, strict=True):
        np.testing.assert_array_equal(result.read(), 0.5 * left.array @ right.array)


@needs_compiler
@pytest.mark.parametrize("groups", [1, 7, 1000])
@pytest.mark.parametrize("form", ["subgroup", "staged", "packed"])
def test_a_launch_has_all_work_groups_of_the_device(form, groups, tmp_path):
    """Without a device; those of a divided product are several for one of the program, as in calls from Python."""
    text = product("bf16", "f32", sizes=(150, 160, 170) if form == "packed" else (32, 32, 32), batched="ABC")
    facts, library = built(tl_dpnp.compile(text, target="cuda", form=form), tmp_path, "noted_launch.c")
    (plan,) = (variant["plan"] for variant in facts["variants"])
    assert plan["form"] == form
    assert (plan["parts"] > 1) == (form == "packed")
    loaded = ctypes.CDLL(str(library))
    assert loaded.run(bytes(8 * len(facts["arguments"])), ctypes.c_int64(groups)) == 0
    blocks, told = (ctypes.c_int64 * 2).in_dll(loaded, "noted")
    assert told == groups * plan["parts"]
    assert blocks == (told if form == "subgroup" else min(-(-told // plan["teams"]), 200))


def test_the_kernel_for_any_call_is_exported(tmp_path):
    """Large products have kernels with other arguments besides."""
    matrix = "memref<f32x?x?>"
    source = f"func @gemm(%A: {matrix}, %B: {matrix}, %C: {matrix}) {{\n  gemm.n.n 1.0, %A, %B, 0.0, %C : f32, " \
             f"{matrix}, {matrix}, f32, {matrix}\n}}"
    kernel = tl_dpnp.compile(source, target="cuda")
    assert len(kernel._overloads.variants(kernel._overloads.current_device())) > 1
    paths = kernel.export(tmp_path)
    facts = json.loads((tmp_path / "gemm.json").read_text())
    (variant,) = facts["variants"]
    assert variant["plan"]["form"] in ("staged", "subgroup")
    assert tmp_path / f"gemm_{variant['plan']['form']}.ptx" in paths


@pytest.mark.parametrize("form", ["tiled", "blocked"])
def test_forms_with_other_arguments_are_refused(form, tmp_path):
    matrix = "memref<f32x512x512>"
    source = f"func @gemm(%A: {matrix}, %B: {matrix}, %C: {matrix}) {{\n  gemm.n.n 1.0, %A, %B, 0.0, %C : f32, " \
             f"{matrix}, {matrix}, f32, {matrix}\n}}"
    with pytest.raises(UnsupportedError, match=f'export: form="{form}" has arguments of its own, which no launcher'):
        tl_dpnp.compile(source, target="cuda", form=form, precision="default").export(tmp_path)


def test_the_command_exports_ptx(tmp_path):
    file = tmp_path / "chain.tl"
    file.write_text(CHAIN)
    found = CliRunner().invoke(main, ["export", str(file), "-o", str(tmp_path), "--target", "cuda"])
    assert found.exit_code == 0, found.output
    assert {"chain.h", "chain.c", "chain_staged.ptx", "tl_cuda.c"} <= {Path(line).name for line in found.output.split()}
