"""What runs in the process of LLVM (`tl_dpnp.runtime.sycl.llvm_process`): text in, text or SPIR-V out, again and again.

SPIR-V is written by LLVM's own target, which is part of llvmlite's wheel.  It knows integers of at most 64 bits, and
LLVM's InstCombine makes wider ones of vectors, so kernels are given only the passes below: drivers optimise them
anyway.  Nothing is optimised for a machine, either: LLVM's CodeGenPrepare would take an offset that is 0 in the first
iteration of a loop for the pointer, and the address for an offset from it.  Drivers know that nothing lies at a null
pointer, and that what is stored there is not what is loaded from elsewhere.

Each task is done by a fork of this process.  What LLVM's target keeps of a module it looks for in the next one: with
LLVM 22 the eighteenth small kernel in a process had loads of a wrong type.  And what LLVM does not expect aborts the
process that it happens in.

A first compilation waits for this process to start, so it imports neither llvmlite, which takes 25 ms, nor a package of
ours: this file is run by itself, and calls the functions of llvmlite's library that llvmlite.binding calls.  They are
those of llvmlite 0.50.
"""

from __future__ import annotations

import ctypes
import os
import resource
import struct

TYPE_CHECKING = False  # typing, too, takes time to import
if TYPE_CHECKING:
    from typing import IO, Any

__all__ = ["DONE", "ENDED", "HEADER", "REFUSED", "main"]

#: What stands before each part of a message: its length.
HEADER = struct.Struct("<Q")
#: What became of a task: done, refused with a text that says why, or ended by a signal or with a status.
DONE, REFUSED, ENDED = b"done", b"refused", b"ended"
_TRIPLE = b"spirv64-unknown-unknown"
#: The extensions of SPIR-V that the emitters use, by LLVM's names.
_EXTENSIONS = ("SPV_EXT_shader_atomic_float_add", "SPV_ALTERA_arbitrary_precision_integers", "SPV_INTEL_subgroups")
_PASSES = "AlwaysInliner GlobalDCE SROA SimplifyCFG SCCP DCE SimplifyCFG LoopRotate LoopSimplify".split()
#: ``llvm::CodeGenOptLevel::None``.
_NOT_OPTIMISED = 0
#: ``LLVMPY_TargetMachineEmitToMemory``: an object, and no assembly text.
_OBJECT = 1

_POINTER, _TEXT, _NUMBER = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
_RETURNED_TEXT = ctypes.POINTER(ctypes.c_char_p)
#: The functions of llvmlite's library, without ``LLVMPY_``: what each returns, and its arguments.
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    **{f"InitializeAll{name}": (None,) for name in ("TargetInfos", "Targets", "TargetMCs", "AsmPrinters")},
    **{f"module_Add{name}Pass": (None, _POINTER) for name in _PASSES},
    "SetCommandLine": (None, _TEXT, _TEXT),
    "GetTargetFromTriple": (_POINTER, _TEXT, _RETURNED_TEXT),
    "CreateTargetMachine": (_POINTER, _POINTER, _TEXT, _TEXT, _TEXT, _NUMBER, _TEXT, _TEXT, _NUMBER, _NUMBER, _TEXT),
    "CreateTargetMachineData": (_POINTER, _POINTER),
    "CopyStringRepOfTargetData": (None, _POINTER, _RETURNED_TEXT),
    "GetGlobalContext": (_POINTER,),
    "ParseAssembly": (_POINTER, _POINTER, _TEXT, _RETURNED_TEXT),
    "SetTarget": (None, _POINTER, _TEXT),
    "SetDataLayout": (None, _POINTER, _TEXT),
    "VerifyModule": (ctypes.c_bool, _POINTER, _RETURNED_TEXT),
    "CreatePipelineTuningOptions": (_POINTER,),
    "CreatePassBuilder": (_POINTER, _POINTER, _POINTER),
    "CreateNewModulePassManager": (_POINTER,),
    "RunNewModulePassManager": (None, _POINTER, _POINTER, _POINTER),
    "PrintModuleToString": (None, _POINTER, _RETURNED_TEXT),
    "TargetMachineEmitToMemory": (_POINTER, _POINTER, _POINTER, _NUMBER, _RETURNED_TEXT),
    "GetBufferStart": (_POINTER, _POINTER),
    "GetBufferSize": (ctypes.c_size_t, _POINTER),
}


class RefusedError(Exception):
    """LLVM refuses a module; the text says why."""


class Library:
    """llvmlite's library: its functions by their names without ``LLVMPY_``.

    What they return is not given back: the process ends after its task.
    """

    def __init__(self, path: str) -> None:
        """Load the library at `path`, and have LLVM know its target for SPIR-V."""
        library = ctypes.CDLL(path)
        self.functions: dict[str, Any] = {}
        for name, (returned, *arguments) in _FUNCTIONS.items():
            function = library[f"LLVMPY_{name}"]
            function.restype, function.argtypes = returned, arguments
            self.functions[name] = function
        for name in ("TargetInfos", "Targets", "TargetMCs", "AsmPrinters"):
            self.call(f"InitializeAll{name}")
        self.call("SetCommandLine", b"", b"--spirv-ext=" + ",".join(f"+{name}" for name in _EXTENSIONS).encode())

    def call(self, name: str, *arguments: Any) -> Any:
        """Call a function."""
        return self.functions[name](*arguments)

    def with_text(self, name: str, *arguments: Any) -> tuple[Any, bytes]:
        """Call a function whose last argument takes a text from it; return what it returns, and the text."""
        text = ctypes.c_char_p()
        return self.functions[name](*arguments, ctypes.byref(text)), text.value or b""


def _optimised(llvm: Library, machine: int, module: int) -> bytes:
    passes = llvm.call("CreateNewModulePassManager")
    for name in _PASSES:
        llvm.call(f"module_Add{name}Pass", passes)
    builder = llvm.call("CreatePassBuilder", machine, llvm.call("CreatePipelineTuningOptions"))
    llvm.call("RunNewModulePassManager", passes, module, builder)
    return llvm.with_text("PrintModuleToString", module)[1]


def _spirv(llvm: Library, machine: int, module: int) -> bytes:
    buffer, problem = llvm.with_text("TargetMachineEmitToMemory", machine, module, _OBJECT)
    if not buffer:
        raise RefusedError(problem.decode(errors="replace"))
    return ctypes.string_at(llvm.call("GetBufferStart", buffer), llvm.call("GetBufferSize", buffer))


#: What can be done with a module.
TASKS = {b"optimise": _optimised, b"translate": _spirv}


def main(path: str) -> None:
    """Do what comes in, until nothing does; `path` is that of llvmlite's library."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash is reported, and leaves no file
    requests, answers = os.fdopen(os.dup(0), "rb", 0), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what LLVM may print
    llvm = Library(path)
    while (task := _received(requests)) is not None:
        text = _received(requests)
        if text is None:
            return
        child = os.fork()
        if not child:
            try:
                _answer(answers, *_result(llvm, task, text))
                os._exit(0)
            except BaseException:
                import traceback

                traceback.print_exc()
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        if status:
            _answer(answers, ENDED, str(os.waitstatus_to_exitcode(status)).encode())


def _result(llvm: Library, task: bytes, text: bytes) -> tuple[bytes, bytes]:
    machine = _machine(llvm)
    try:
        return DONE, TASKS[task](llvm, machine, _module(llvm, machine, text))
    except RefusedError as problem:
        return REFUSED, str(problem).encode()


def _machine(llvm: Library) -> int:
    target, problem = llvm.with_text("GetTargetFromTriple", _TRIPLE)
    if not target:
        raise RuntimeError(problem.decode(errors="replace"))
    machine: int | None = llvm.call("CreateTargetMachine", target, _TRIPLE, b"", b"", _NOT_OPTIMISED, b"default",
                                    b"jitdefault", 0, 0, b"")
    if machine is None:
        raise RuntimeError("LLVM makes nothing for its target SPIR-V")
    return machine


def _module(llvm: Library, machine: int, text: bytes) -> int:
    module, problem = llvm.with_text("ParseAssembly", llvm.call("GetGlobalContext"), text)
    if problem or module is None:
        raise RefusedError(f"LLVM IR parsing error\n{problem.decode(errors='replace')}")
    _, layout = llvm.with_text("CopyStringRepOfTargetData", llvm.call("CreateTargetMachineData", machine))
    llvm.call("SetTarget", module, _TRIPLE)
    llvm.call("SetDataLayout", module, layout)
    is_broken, problem = llvm.with_text("VerifyModule", module)
    if is_broken:
        raise RefusedError(problem.decode(errors="replace"))
    assert isinstance(module, int)
    return module


def _answer(file: IO[bytes], *parts: bytes) -> None:
    for part in parts:
        file.write(HEADER.pack(len(part)) + part)
    file.flush()


def _received(file: Any) -> bytes | None:
    """Return what comes next, None where nothing does any more."""
    header = _read(file, HEADER.size)
    return None if header is None else _read(file, HEADER.unpack(header)[0])


def _read(file: Any, size: int) -> bytes | None:
    content = b""
    while len(content) < size:
        part = file.read(size - len(content))
        if not part:
            return None
        content += part
    return content
