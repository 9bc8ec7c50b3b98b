"""Cooperative matrices on a CUDA device, and without one what they are compiled to."""

from __future__ import annotations

import copy
import os
import random
from dataclasses import replace

import numpy as np
import pytest

import tl_dpnp
from tests.conformance.collective_pages import MATRIX_ENTRIES
from tests.conformance.known import refusal
from tests.conformance.mappings import Mapping
from tests.conformance.programs import cases
from tests.cuda.programs import LAYOUTS, called
from tests.strategies.matrices import MatrixProgram
from tl_dpnp.language import ops, parse
from tl_dpnp.language.interpreter import interpret
from tl_dpnp.runtime.cuda.driver_adapter import device_count

#: How many eights of random programs, and of two dozens of instructions.
PARTS = int(os.environ.get("TL_DPNP_TEST_CUDA_MATRICES", "3"))
on_device = pytest.mark.skipif(device_count() == 0, reason="there is no CUDA device")


def sized(source, layout):
    (function,) = parse(source)
    return replace(function, work_group_size=LAYOUTS[layout], subgroup_size=LAYOUTS[layout] and 32)


def compiled(source, layout):
    return tl_dpnp.compile(ops.Module((sized(source, layout),)), target="cuda", cache=False)


def disagreements(source, layout, arguments):
    """Return which of the arrays a device computes differently from the interpreter, with the same sizes."""
    expected, found = copy.deepcopy(arguments), copy.deepcopy(arguments)
    interpret(sized(source, layout), expected, (1, 1, 1), order_seed=0)
    called(compiled(source, layout), found)
    return [place for place, pair in enumerate(zip(expected, found, strict=True)) if not np.array_equal(*pair)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_random_programs_compile(layout):
    """Sub-groups take their turns between barriers of the block."""
    for seed in range(4):
        (ptx,) = compiled(MatrixProgram(seed).source, layout).inspect_ptx().values()
        assert "bar.sync" in ptx


@on_device
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_random_programs_agree_with_the_interpreter(layout, part):
    wrong = {}
    for seed in range(8 * part, 8 * part + 8):
        program = MatrixProgram(seed)
        if found := disagreements(program.source, layout, program.arguments()):
            wrong[seed] = found
    assert not wrong


@on_device
@pytest.mark.parametrize("part", range(PARTS))
def test_instructions_agree_with_the_interpreter(part):
    """Some of all spellings and types of the conformance run, in one sub-group."""
    def run(function, arguments):
        sized = replace(function, work_group_size=(32, 1), subgroup_size=32)
        called(tl_dpnp.compile(sized, target="cuda", cache=False), arguments)

    known = [case for case in cases(MATRIX_ENTRIES) if case.is_allowed and refusal(case, "cuda") is None
             and case.entry.harness != "matrix components"]  # whose arrays are for fewer work-items
    drawn = random.Random(1).sample(known, len(known))[24 * part : 24 * part + 24]
    assert not Mapping("cuda", "CUDA", "numba_cuda", run).failures(drawn)
