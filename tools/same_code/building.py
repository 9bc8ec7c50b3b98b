"""From a definition to the texts of its kernel, in the environment of its target, and the processes that do it.

A process reads definitions as lines of JSON on standard input and answers each with a line: ``python -m
tools.same_code.building``.  With ``fused`` it answers with the functions that `fuse` writes, and ends.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from typing import Any

from tl_dpnp.errors import TLError
from tl_dpnp.language import ops, parse
from tl_dpnp.lowering import LoweredKernel, lower
from tools.same_code.definitions import DEVICES, Definition
from tools.same_code.normal_form import normal_form

__all__ = ["build", "fingerprint"]


def build(definition: Definition) -> dict[str, Any]:
    """Return ``parts``, the texts of a kernel by name, and ``facts`` about it.

    What the compiler refuses has its message as the only part.  Bypasses the kernel cache.
    """
    try:
        (function,) = parse(definition.source)
        lowered = lower(function, DEVICES[definition.device], definition.lowering_options)
        code = _code(lowered, definition)
    except TLError as error:
        return {"parts": {"refusal": f"{type(error).__name__}: {error}"}, "facts": {"refused": True}}
    parts = _texts(lowered, code.llvm)
    if definition.needs_cuda:
        parts["ptx"] = code.binary.decode()
    instructions = sorted({name for operation in function.body.walk() for name in _names(operation)})
    facts = {
        "refused": False, "mapping": _mapping(lowered, definition), "engine": _engine(parts, definition),
        "instructions": instructions,
        "types": sorted(set(re.findall(r"\b(?:[iu]\d+|index|b?f\d+|c\d+)(?=\b|x)", definition.source))),
    }
    return {"parts": parts, "facts": facts}


def fingerprint(definition: Definition) -> str:
    """Return the name of a kernel, its mapping, its engine, and hashes of its texts, as one line.

    Its LLVM IR is that of its body, as it is before an adapter compiles it: no Numba has a part in that.
    """
    try:
        (function,) = parse(definition.source)
        lowered = lower(function, DEVICES[definition.device], definition.lowering_options)
    except TLError as error:
        return f"{definition.name}: refused, {_hash('refusal', str(error))}"
    parts = _texts(lowered, lowered.llvm)
    hashes = ", ".join(f"{part} {_hash(part, text)}" for part, text in parts.items())
    return f"{definition.name}: {_mapping(lowered, definition)}; {_engine(parts, definition)}; {hashes}"


def _texts(lowered: LoweredKernel, llvm: str) -> dict[str, str]:
    plan = json.dumps(lowered.plan.to_json(), indent=1, sort_keys=True)
    return {"plan": plan, "source": lowered.source, "schedule": lowered.schedule, "llvm": llvm}


def _hash(part: str, text: str) -> str:
    return hashlib.sha256(normal_form(part, text).encode()).hexdigest()[:12]


def _code(lowered: LoweredKernel, definition: Definition) -> Any:
    if definition.needs_cuda:
        from tl_dpnp.runtime.cuda import numba_cuda_adapter

        return numba_cuda_adapter.build(lowered, DEVICES[definition.device])
    from tl_dpnp.runtime.sycl import numba_dpex_adapter

    return numba_dpex_adapter.build(lowered)


def _mapping(lowered: LoweredKernel, definition: Definition) -> str:
    """Return the form of a kernel with the loop nests that it has besides, in words."""
    names = [schedule.name for schedule in lowered.variants]
    options = dict(definition.options)
    return ", ".join([
        lowered.plan.form,
        *(["jammed"] if any(name.endswith("_jammed") for name in names) else []),
        *(["beyond caches"] if any(name.endswith("_beyond") for name in names) else []),
        *(["checked"] if options.get("debug") else []),
        *(["given schedule"] if options.get("schedules") else []),
    ])


def _engine(parts: dict[str, str], definition: Definition) -> str:
    """Return what multiplies, from the code itself."""
    if definition.needs_cuda:
        found = re.search(r"\b(wgmma\.mma_async|mma\.sp|mma\.sync)", parts.get("ptx", parts["llvm"]))
        return found[1] if found else "fma"
    if re.search(r"\bdpas_\w+", parts["schedule"]):
        lanes = dict(definition.options).get("emulate_dpas")
        return f"dpas emulated, {lanes} lanes" if lanes else "dpas"
    if re.search(r"\bamx_\w+", parts["schedule"]):
        return "amx emulated" if dict(definition.options).get("amx") == "emulate" else "amx"
    return "simd"


def _names(operation: ops.Operation) -> Iterator[str]:
    """Yield the spelling of an operation."""
    match operation:
        case ops.LinearAlgebra(transposes=transposes, atomic=atomic):
            letters = ["t" if transpose else "n" for transpose in transposes]
            yield ".".join([operation.mnemonic, *letters, *(["atomic"] if atomic else [])])
        case ops.Arith(kind=kind) | ops.Unary(kind=kind):
            yield f"arith.{kind}"
        case ops.Math(kind=kind):
            yield f"math.{kind}"
        case ops.Compare(kind=kind):
            yield f"cmp.{kind}"
        case _:
            yield re.sub(r"(?<!^)(?=[A-Z])", "_", type(operation).__name__).lower()


def _serve() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed
    if sys.argv[1:] == ["fused"]:
        from tools.same_code.fused import sources

        answers.write(json.dumps(sources()) + "\n")
        answers.close()
        return
    for line in sys.stdin:
        start = time.process_time()
        answer = build(Definition.from_json(json.loads(line)))
        answer["seconds"] = time.process_time() - start
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    _serve()
