"""One stack's side of the campaign `stacks`: a random program on this environment's device, and all that it left.

A worker process of each Python imports this; what it answers must mean the same to both.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import numpy as np

from tests.campaigns import programs
from tests.campaigns.campaign import Campaign
from tests.campaigns.programs import Case
from tests.campaigns.worker import Verdict
from tests.differential.device import LAYOUTS, Layout, run_on_device
from tests.strategies.arguments import Argument, ArrayArgument, GroupArgument
from tl_dpnp.errors import TLError
from tl_dpnp.runtime.sycl import host_code_adapter, opencl_programs_adapter

__all__ = ["CAMPAIGN", "KINDS", "Run", "answer", "contents", "with_contents"]

#: The forms that programs are run in.
KINDS = ("vector", "subgroup", "debug")


@dataclass(frozen=True)
class Run(Verdict):
    """What came of a program: the bytes of each buffer before and after, the machine code's digest, or an error's name.

    `code` is empty where the driver keeps the machine code to itself.
    """

    before: tuple[bytes, ...] = ()
    after: tuple[bytes, ...] = ()
    code: str = ""
    error: str = ""


def layout_of(kind: str, seed: int) -> Layout:
    """Return how the case of a seed is compiled: the same on both stacks."""
    rng = random.Random(seed)
    subgroups = LAYOUTS[rng.choice(("one_subgroup", "several_subgroups", "many_subgroups"))]
    return {"vector": LAYOUTS["vector"], "subgroup": subgroups}.get(kind, rng.choice((LAYOUTS["vector"], subgroups)))


def answer(kind: str, case: Case) -> Run:
    """Compile and run a program here."""
    arguments = case.program.make_arguments(case.seed)
    before = contents(arguments)
    with _digests() as codes:
        try:
            after = run_on_device(case.program, layout_of(kind, case.seed), arguments, debug=kind == "debug")
        except TLError as error:
            return Run(before=before, error=type(error).__name__)
    return Run(before=before, after=contents(after), code=" ".join(codes()))


def contents(arguments: list[Argument]) -> tuple[bytes, ...]:
    """Return the bytes of all buffers."""
    return tuple(array.buffer.tobytes() for argument in arguments for array in _arrays(argument))


def with_contents(arguments: list[Argument], buffers: tuple[bytes, ...]) -> list[Argument]:
    """Return the arguments with other bytes in their buffers."""
    left = iter(buffers)

    def filled(array: ArrayArgument) -> ArrayArgument:
        return replace(array, buffer=np.frombuffer(next(left), array.buffer.dtype))

    made: list[Argument] = []
    for argument in arguments:
        match argument:
            case ArrayArgument():
                made.append(filled(argument))
            case GroupArgument(arrays=arrays):
                made.append(replace(argument, arrays=tuple(map(filled, arrays))))
            case _:
                made.append(argument)
    return made


def _arrays(argument: Argument) -> tuple[ArrayArgument, ...]:
    match argument:
        case ArrayArgument():
            return (argument,)
        case GroupArgument(arrays=arrays):
            return arrays
    return ()


@contextmanager
def _digests() -> Iterator[Any]:
    """Within, note each program that OpenCL builds; what is given returns the digests of their machine code."""
    build, handles = opencl_programs_adapter.build, []

    def noted(*arguments: Any, **named: Any) -> Any:
        handles.append(build(*arguments, **named))
        return handles[-1]

    with mock.patch.object(opencl_programs_adapter, "build", noted):
        yield lambda: [digest(opencl_programs_adapter.binary_of(handle)) for handle in handles]


def digest(binary: bytes) -> str:
    """Return what tells machine code from other machine code: functions and constants, not the names in the file."""
    found = hashlib.sha256()
    for section in host_code_adapter._sections(host_code_adapter._object_of(binary)):
        if section.name.startswith((b".text", b".rodata", b".ltext", b".lrodata")):
            found.update(section.name + b"\0" + section.content)
    return found.hexdigest()[:16]


CAMPAIGN = Campaign("stacks", KINDS, programs.make, answer, programs.simpler, programs.text, module=__name__)
