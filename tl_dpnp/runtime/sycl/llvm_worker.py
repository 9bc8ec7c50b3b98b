"""What runs in the process of LLVM (`tl_dpnp.runtime.sycl.llvm_process`): text in, text or SPIR-V out, again and again.

SPIR-V is written by LLVM's own target, which is part of llvmlite's wheel.  It knows integers of at most 64 bits, and
LLVM's InstCombine makes wider ones of vectors, so kernels are given only the passes below: drivers optimise them
anyway.  Nothing is optimised for a machine, either (`opt=0`): LLVM's CodeGenPrepare would take an offset that is 0 in
the first iteration of a loop for the pointer, and the address for an offset from it.  Drivers know that nothing lies at
a null pointer, and that what is stored there is not what is loaded from elsewhere.

Each task is done by a fork of this process.  What LLVM's target keeps of a module it looks for in the next one: with
LLVM 22 the eighteenth small kernel in a process had loads of a wrong type.  And what LLVM does not expect aborts the
process that it happens in.
"""

from __future__ import annotations

import os
import resource
import struct
import traceback
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import llvmlite.binding as llvm

__all__ = ["DONE", "ENDED", "HEADER", "REFUSED", "main"]

#: What stands before each part of a message: its length.
HEADER = struct.Struct("<Q")
#: What became of a task: done, refused with a text that says why, or ended by a signal or with a status.
DONE, REFUSED, ENDED = b"done", b"refused", b"ended"
_TRIPLE = "spirv64-unknown-unknown"
#: The extensions of SPIR-V that the emitters use, by LLVM's names.
_EXTENSIONS = ("SPV_EXT_shader_atomic_float_add", "SPV_ALTERA_arbitrary_precision_integers", "SPV_INTEL_subgroups")
_PASSES = ("always_inliner global_dead_code_eliminate sroa simplify_cfg sccp dead_code_elimination simplify_cfg "
           "loop_rotate loop_simplify").split()


def _optimised(binding: Any, machine: llvm.TargetMachine, module: llvm.ModuleRef) -> bytes:
    passes = binding.create_new_module_pass_manager()
    for name in _PASSES:
        getattr(passes, f"add_{name}_pass")()
    options = binding.create_pipeline_tuning_options(speed_level=2)
    passes.run(module, binding.create_pass_builder(machine, options))
    return str(module).encode()


def _spirv(binding: Any, machine: llvm.TargetMachine, module: llvm.ModuleRef) -> bytes:
    binary: bytes = machine.emit_object(module)
    return binary


#: What can be done with a module.
TASKS = {b"optimise": _optimised, b"translate": _spirv}


def main() -> None:
    """Do what comes in, until nothing does."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a crash is reported, and leaves no file
    requests, answers = os.fdopen(os.dup(0), "rb", 0), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what LLVM may print
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.set_option("", f"--spirv-ext={','.join(f'+{name}' for name in _EXTENSIONS)}")
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
                traceback.print_exc()
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        if status:
            _answer(answers, ENDED, str(os.waitstatus_to_exitcode(status)).encode())


def _result(binding: Any, task: bytes, text: bytes) -> tuple[bytes, bytes]:
    machine = binding.Target.from_triple(_TRIPLE).create_target_machine(opt=0)
    try:
        module = binding.parse_assembly(text.decode())
        module.triple, module.data_layout = _TRIPLE, str(machine.target_data)
        module.verify()
        return DONE, TASKS[task](binding, machine, module)
    except RuntimeError as problem:
        return REFUSED, str(problem).encode()


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
