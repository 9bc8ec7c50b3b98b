"""The host without Numba: what is put in other words for LLVM, and what becomes of its crashes."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

import tl_dpnp
from tl_dpnp.errors import LoweringError
from tl_dpnp.runtime.sycl import llvm_process, llvm_worker
from tl_dpnp.runtime.sycl.casts import with_plain_casts
from tl_dpnp.runtime.sycl.inline_assembly import Assembly, with_assembly, without_assembly
from tl_dpnp.runtime.sycl.llvm_process import LLVMProcess

needs_current = pytest.mark.skipif(find_spec("numba_dpex") is not None, reason="numba-dpex compiles here")

#: What runs in the process: no LLVM, but what the text asks for.
WORKER = """
import os, sys
sys.path[:] = {path!r}
from tl_dpnp.runtime.sycl import llvm_worker

def result(llvm, task, text):
    if text == b"abort":
        print("an assertion failed", file=sys.stderr, flush=True)
        os.abort()
    if text == b"raise":
        raise ValueError("a planted fault")
    if text == b"end":
        os.kill(os.getppid(), 9)
        os.kill(os.getpid(), 9)
    return (llvm_worker.REFUSED, b"no module") if text == b"refuse" else (llvm_worker.DONE, task + b" " + text)

llvm_worker.Library = str
llvm_worker._result = result
llvm_worker.main("no library")
"""


@pytest.fixture
def process():
    llvm = LLVMProcess([sys.executable, "-c", WORKER.format(path=[os.getcwd(), *sys.path])])
    yield llvm
    llvm._end()


@pytest.mark.parametrize(("text", "message"), [
    ("abort", r"LLVM ended while it compiled the kernel \(SIGABRT\); it wrote: an assertion failed"),
    ("raise", r"\(exit status 1\); it wrote: Traceback[^$]*a planted fault"),
    ("end", r"\(SIGKILL: it was killed, or did not answer within 300 s\); it wrote: nothing"),
    ("refuse", "LLVM refuses the kernel: no module"),
])
def test_a_crash_is_an_error_and_the_next_compilation_works(process, text, message):
    assert process.translate("x" * 100_000) == b"translate " + b"x" * 100_000
    for _ in range(2):
        with pytest.raises(LoweringError, match=message):
            process.translate(text)
        assert process.optimise("y") == "optimise y"


def test_threads_take_turns(process):
    found = {}
    threads = [threading.Thread(target=lambda number=number: found.update({number: process.optimise(str(number))}))
               for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: f"optimise {number}" for number in range(8)}


def test_a_fork_has_a_process_of_its_own(process):
    process.optimise("x")
    child = os.fork()
    if not child:
        os._exit(process._process is not None)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert process.optimise("y") == "optimise y"


def test_the_process_ends_with_its_owner(process):
    process.optimise("x")
    process._process.stdin.close()
    assert process._process.wait(timeout=20) == 0


def test_the_process_imports_nothing_but_what_it_runs(tmp_path, monkeypatch):
    """A first compilation waits for it: llvmlite, what Python's site imports and packages of ours took 40 ms of it."""
    for name in ("resource", "struct", "ctypes"):
        (tmp_path / f"{name}.py").write_text("raise AssertionError('a file of the user')")
    monkeypatch.setenv("PYTHONPATH", ".")
    code = llvm_process._START.replace('worker["main"](sys.argv[2])', "print(*sys.modules)")
    assert code != llvm_process._START
    imported = subprocess.run([sys.executable, "-S", "-c", code, llvm_worker.__file__], capture_output=True, text=True,
                              check=True, cwd=tmp_path, env=llvm_process._environment()).stdout.split()
    assert "ctypes" in imported
    assert not {"llvmlite", "tl_dpnp", "typing", "re", "traceback", "site"} & set(imported)


def test_a_compilation_starts_the_process_before_it_lowers(monkeypatch):
    from tl_dpnp.runtime import compiler
    from tl_dpnp.runtime.sycl import compilation

    done = []
    monkeypatch.setattr(compilation, "_is_numba_dpex_here", lambda: False)
    monkeypatch.setattr(LLVMProcess, "_running", lambda self: done.append("start"))

    def stop(*_):
        done.append("lower")
        raise LoweringError("a planted fault")

    monkeypatch.setattr(compiler, "_lower", stop)
    kernel = tl_dpnp.compile("func @f(%x: memref<f32x8>) {\n  axpby.n 1.0, %x, 1.0, %x\n}", cache=False)
    with pytest.raises(LoweringError, match="a planted fault"):
        kernel.inspect_spirv()
    assert done == ["start", "lower"]


def test_what_hinders_the_start_is_said_by_what_needs_it(monkeypatch):
    from tl_dpnp.runtime.sycl import compilation

    def refused(_):
        raise LoweringError("no LLVM")

    monkeypatch.setattr(compilation, "_is_numba_dpex_here", lambda: False)
    monkeypatch.setattr(LLVMProcess, "_running", refused)
    compilation.prepare()
    with pytest.raises(LoweringError, match="no LLVM"):
        compilation.translate("")


def test_to_start_does_not_wait_for_a_task(process):
    with process._lock:
        process.start()
    assert process._process is None
    process.start()
    assert process._process is not None


@pytest.mark.parametrize("package", [None, SimpleNamespace(origin="/nowhere", submodule_search_locations=["/nowhere"])])
def test_without_the_library(monkeypatch, package):
    monkeypatch.setattr(llvm_process, "find_spec", lambda name: package)
    with pytest.raises(LoweringError, match=r"no libllvmlite\.so of (llvmlite|/nowhere): install llvmlite again"):
        LLVMProcess().translate("")


def test_without_an_interpreter(monkeypatch):
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(LoweringError, match=r"set sys\.executable"):
        LLVMProcess().translate("")


# --- in other words --------------------------------------------------------------------------------------------------


def test_assembly_becomes_functions():
    text, assemblies = without_assembly("""
define void @f(i64 %a, <4 x float> %b) {
  %".1" = call <4 x float> asm  "", "=v,0"(<4 x float> %b)
  %".2" = call <4 x float> asm  "", "=v,0"(<4 x float> %".1")
  call void asm sideeffect "vmovntps $1, ($0)\\0A", "r,v,~{memory}" (float addrspace(1)* %".3", <4 x float> %".2")
  call void asm sideeffect "nop", "r,r" (<2 x i16> <i16 1, i16 2>, i32 7)
  call void asm sideeffect "pause", "" ()
  ret void
}
""")
    assert text == """
define void @f(i64 %a, <4 x float> %b) {
  %".1" = call spir_func <4 x float> @tl_assembly_0(<4 x float> %b)
  %".2" = call spir_func <4 x float> @tl_assembly_0(<4 x float> %".1")
  call spir_func void @tl_assembly_1(float addrspace(1)* %".3", <4 x float> %".2")
  call spir_func void @tl_assembly_2(<2 x i16> <i16 1, i16 2>, i32 7)
  call spir_func void @tl_assembly_3()
  ret void
}
declare spir_func <4 x float> @tl_assembly_0(<4 x float>) nounwind readnone
declare spir_func void @tl_assembly_1(float addrspace(1)*, <4 x float>) nounwind
declare spir_func void @tl_assembly_2(<2 x i16>, i32) nounwind
declare spir_func void @tl_assembly_3() nounwind
"""
    assert assemblies == {"tl_assembly_0": Assembly("", "=v,0", False),
                          "tl_assembly_1": Assembly("vmovntps $1, ($0)\n", "r,v,~{memory}", True),
                          "tl_assembly_2": Assembly("nop", "r,r", True), "tl_assembly_3": Assembly("pause", "", True)}


def instruction(code, *operands):
    words = []
    for operand in operands:
        if isinstance(operand, str):
            content = operand.encode() + b"\0" * (4 - len(operand) % 4)
            words += struct.unpack(f"<{len(content) // 4}I", content)
        else:
            words.append(operand)
    return struct.pack(f"<{len(words) + 1}I", (len(words) + 1) << 16 | code, *words)


def test_functions_become_assembly():
    """Numbers are those of the specification: 17 OpCapability, 10 OpExtension, 5 OpName, 71 OpDecorate and so on."""
    def module(bound, *instructions):
        return struct.pack("<5I", 0x07230203, 0x00010400, 0, bound, 0) + b"".join(instructions)

    memory_model, void, type_, kernel = instruction(14, 2, 2), instruction(19, 2), instruction(33, 3, 2), (
        instruction(54, 2, 5, 0, 3), instruction(248, 6))
    end = instruction(253), instruction(56)
    given = module(
        8, instruction(17, 6), memory_model, instruction(5, 4, "tl_assembly_0"), instruction(5, 5, "f"),
        instruction(71, 4, 41, "tl_assembly_0", 1), void, type_, instruction(54, 2, 4, 0, 3), instruction(56), *kernel,
        instruction(57, 2, 7, 4), *end)
    expected = module(
        9, instruction(17, 5606), instruction(17, 6), instruction(10, "SPV_INTEL_inline_assembly"), memory_model,
        instruction(5, 5, "f"), instruction(71, 4, 5608), void, type_,
        instruction(5609, 8, "spir64-unknown-unknown"), instruction(5610, 2, 4, 3, 8, "pause", "~{memory}"), *kernel,
        instruction(5611, 2, 7, 4), *end)
    assert with_assembly(given, {"tl_assembly_0": Assembly("pause", "~{memory}", True)}) == expected
    assert with_assembly(given, {}) == given


def test_masks_become_numbers_by_a_choice():
    assert with_plain_casts("""define void @f(<8 x i1> %m) {
  %a = uitofp <8 x i1> %m to <8 x double>
  %b = sext <8 x i1> %m to <8 x i64>
  %c = zext <8 x i8> %d to <8 x i64>
}""") == """define void @f(<8 x i1> %m) {
  %a = select <8 x i1> %m, <8 x double> splat (double 1.0), <8 x double> zeroinitializer
  %b = select <8 x i1> %m, <8 x i64> splat (i64 -1), <8 x i64> zeroinitializer
  %c = zext <8 x i8> %d to <8 x i64>
}"""


def test_block_messages_are_given_pointers_to_elements():
    begin = "call spir_func <8 x i16> @_Z30intel_sub_group_block_read_us8PU3AS3Kt(ptr addrspace(3)"
    assert with_plain_casts(f"""define void @f() {{
  %a = {begin} @local_memory) #2
  %b = {begin} getelementptr (i8, ptr addrspace(3) @local_memory, i64 64))
  store i32 0, ptr addrspace(3) @local_memory
  %c = {begin} @local_memory)
}}""") == f"""define void @f() {{
  %tl.element.0 = getelementptr i16, ptr addrspace(3) @local_memory, i64 0
  %a = {begin} %tl.element.0) #2
  %b = {begin} getelementptr (i8, ptr addrspace(3) @local_memory, i64 64))
  store i32 0, ptr addrspace(3) @local_memory
  %tl.element.1 = getelementptr i16, ptr addrspace(3) @local_memory, i64 0
  %c = {begin} %tl.element.1)
}}"""


def test_what_is_narrowed_and_widened_is_masked():
    assert with_plain_casts("""define void @f(i64 %a, <4 x i32> %b) {
  %c = trunc i64 %a to i8
  %d = zext i8 %c to i16
  %e = zext i8 %c to i64
  %f = trunc nuw <4 x i32> %b to <4 x i16>
  %"g h" = zext nneg <4 x i16> %f to <4 x i64>
  %i = sext i8 %c to i32
  %j = trunc i64 %a to i32
  %k = trunc i32 %j to i8
  %l = zext i8 %k to i32
}
define void @g(i8 %c) {
  %d = zext i8 %c to i16
}""") == """define void @f(i64 %a, <4 x i32> %b) {
  %c = trunc i64 %a to i8
  %tl.whole.0 = trunc i64 %a to i16
  %d = and i16 %tl.whole.0, 255
  %e = and i64 %a, 255
  %f = trunc nuw <4 x i32> %b to <4 x i16>
  %tl.whole.1 = zext <4 x i32> %b to <4 x i64>
  %"g h" = and <4 x i64> %tl.whole.1, splat (i64 65535)
  %i = sext i8 %c to i32
  %j = trunc i64 %a to i32
  %k = trunc i32 %j to i8
  %tl.whole.2 = trunc i64 %a to i32
  %l = and i32 %tl.whole.2, 255
}
define void @g(i8 %c) {
  %d = zext i8 %c to i16
}"""


# --- with LLVM -------------------------------------------------------------------------------------------------------


@needs_current
def test_llvm_crashes_and_goes_on():
    from tl_dpnp.runtime.sycl.llvm_process import LLVM

    module = """define spir_kernel void @f(ptr addrspace(1) %a, <16 x float> %b) {{
  %c = bitcast <16 x float> %b to i512
  %d = add i512 %c, {constant}
  %e = trunc i512 %d to i64
  store i64 %e, ptr addrspace(1) %a
  ret void
}}"""
    with pytest.raises(LoweringError, match=r"LLVM ended while it compiled the kernel \(SIGABRT\)"):
        LLVM.translate(module.format(constant=2**400))
    assert LLVM.translate("define spir_kernel void @f() {\n  ret void\n}")[:4] == struct.pack("<I", 0x07230203)
    with pytest.raises(LoweringError, match=r"LLVM refuses the kernel: .*error"):
        LLVM.translate("define nothing")


@needs_current
@pytest.mark.parametrize("element", ["i8", "u8"])
def test_integers_that_are_narrowed_twice_and_widened(element):
    """What is stored atomically is widened to a word; the argument comes as 64 bits, the cast makes 8 of its 16."""
    import dpnp

    kernel = tl_dpnp.compile(f"""func @f(%n: i16, %x: memref<{element}x8>) {{
      %b = cast %n : {element}
      foreach (%i) = (0), (8) {{
        atomic_store %b, %x[%i]
      }}
    }}""", form="subgroup", cache=False)
    x = dpnp.zeros(8, dtype={"i8": "int8", "u8": "uint8"}[element])
    kernel(259, x, group_size=1)
    assert x.asnumpy().tolist() == [3] * 8


@needs_current
def test_integers_that_are_narrowed_and_widened():
    """LLVM's target alone made a bitwise and of 64 and 16 bits, which the driver refuses."""
    import dpnp

    kernel = tl_dpnp.compile("""func @f(%n: index, %x: memref<u16x8>) {
      %b = cast %n : index -> u8
      %h = cast %b : u8 -> u16
      foreach %i = 0, 8 {
        %v = load %x[%i] : memref<u16x8>
        %p = arith.mul %v, %h : u16
        store %p, %x[%i] : memref<u16x8>
      }
    }""", cache=False)
    x = dpnp.arange(8, dtype="uint16")
    kernel(259, x, group_size=1)
    assert x.asnumpy().tolist() == [3 * value for value in range(8)]


@needs_current
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_products_call_the_function_fma(element):
    """With the instruction instead, Intel's CPU runtime kept the sums of larger tiles in memory."""
    import dpnp

    kernel = tl_dpnp.compile(f"""func @f(%A: memref<{element}x64x64>, %B: memref<{element}x64x64>,
                                         %C: memref<{element}x64x64>) {{
      gemm.n.n 1.0, %A, %B, 0.0, %C
    }}""", cache=False)
    A, B, C = (dpnp.ones((64, 64), dtype=element.replace("f", "float"), order="F") for _ in range(3))
    kernel(A, B, C, group_size=1)
    assert (C.asnumpy() == 64).all()
    (binary,) = kernel.inspect_spirv().values()
    words = struct.unpack(f"<{len(binary) // 4}I", binary)
    assert b"_Z3fmaDv" in binary
    assert b"_Z3xma" not in binary
    assert not _extended_instructions(words) & {26, 29}  # fma and mad, in OpenCL.std


def _extended_instructions(words):
    """Return the numbers of the instructions of extended sets (OpExtInst, 12) in a module of SPIR-V."""
    place, found = 5, set()
    while place < len(words):
        if words[place] & 0xFFFF == 12:
            found.add(words[place + 4])
        place += words[place] >> 16
    return found


def test_a_host_is_chosen_by_what_is_installed(monkeypatch):
    from tl_dpnp.errors import UnsupportedError
    from tl_dpnp.runtime.sycl import compilation

    monkeypatch.setattr(compilation, "find_spec", lambda name: None)
    with pytest.raises(UnsupportedError, match=r"code for pvc, which is not here.*install tl_dpnp for Python 3\.10"):
        compilation.require_offline("pvc")
