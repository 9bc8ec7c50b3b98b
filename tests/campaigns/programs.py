"""Random programs on the device, in every way to compile them, against the interpreter."""

from __future__ import annotations

import functools
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

from tests.campaigns.campaign import Campaign, run_campaign
from tests.campaigns.outcome import Outcome
from tests.campaigns.worker import ROOT, Verdict
from tests.strategies.arguments import Argument, ArrayArgument, GroupArgument, ScalarArgument
from tests.strategies.programs import Program, random_program
from tests.strategies.reduction import smaller
from tests.strategies.writer import DEVICE_TYPES, Features
from tl_dpnp.errors import LoweringError, ScheduleError, UnsupportedError
from tl_dpnp.language import ops
from tl_dpnp.language.printer import print_module
from tl_dpnp.scalars import BF16, C32, C64, F16, F32, F64, I1, I8, I32, I64, INDEX, U8, ScalarType

__all__ = ["CAMPAIGN", "Case", "run"]

#: The types of a program for the matrix engine: those of operands, and those of results.
ENGINE_TYPES: tuple[tuple[tuple[ScalarType, ...], tuple[ScalarType, ...]], ...] = (
    ((BF16,), (F32, BF16)), ((F16,), (F32, F16)), ((I8,), (I32,)), ((U8, I8), (I32,)), ((F32,), (F32,)),
)
#: What every third program may contain.
WITH_COMPLEX = Features(types=(*DEVICE_TYPES, *(C32, C64) * 4), atomic_types=(I32, F32, F64, C32, C64))
#: And what every third other one may.
WITH_WORK_ITEMS = Features(work_items=True)
#: Programs that are written until one has a product for the engine.
ATTEMPTS = 200


@dataclass(frozen=True)
class Case:
    """A program and the seed of its arguments and of all other choices."""

    program: Program
    seed: int
    precision: str | None = None


def make(kind: str, seed: int) -> Case:
    """Return the case of a seed."""
    if kind.startswith("dpas"):
        return engine_case(seed)
    features = {0: WITH_COMPLEX, 1: WITH_WORK_ITEMS}.get(seed % 3)
    return Case(random_program(seed, features), seed)


def engine_case(seed: int) -> Case:
    """Return a program with a product of types that the matrix engine takes."""
    rng = random.Random(seed)
    inputs, outputs = rng.choice(ENGINE_TYPES)
    features = Features(types=(I1, *dict.fromkeys((*inputs, *outputs)), rng.choice((I64, INDEX))), mathematics=False)
    for _ in range(ATTEMPTS):
        program = random_program(random.Random(rng.getrandbits(32)), features)
        exact = not any(program.tolerances)
        if any(_fits(operation, inputs, outputs) for operation in program.function.body.walk()) and (
            exact or F32 not in inputs
        ):
            return Case(program, seed, "high" if inputs == (F32,) else None)
    raise AssertionError(f"no program of {inputs} and {outputs} has a product")


def _fits(operation: ops.Operation, inputs: tuple[ScalarType, ...], outputs: tuple[ScalarType, ...]) -> bool:
    if not isinstance(operation, ops.Gemm | ops.Gemv):
        return False
    nonzero = not isinstance(operation.alpha, ops.Constant) or operation.alpha.value != 0
    return (nonzero and all(operand.type.element in inputs for operand in operation.inputs)
            and operation.output.type.element in outputs)


def check(kind: str, case: Case) -> Verdict:
    """Run a case on the device and on the interpreter."""
    return CHECKS[kind](case, random.Random(case.seed))


def _compared(case: Case, layout: str, labels: tuple[str, ...] = (), **options: object) -> Verdict:
    from tests.differential.device import LAYOUTS, disagreements

    found = disagreements(case.program, LAYOUTS[layout], seed=case.seed, **options)
    return Verdict("\n".join(["wrong:", *found]) if found else "", labels)


def _layout(rng: random.Random) -> str:
    return rng.choice(("vector", _subgroups(rng)))


def _subgroups(rng: random.Random) -> str:
    return rng.choice(("one_subgroup", "several_subgroups", "many_subgroups"))


def _on_engine(case: Case, rng: random.Random, lanes: int) -> Verdict:
    """Run with DPAS computed lane by lane, and say whether the program has any."""
    from tests.differential.device import disagreements

    used = []

    def look(kernel: object, *_: object, **__: object) -> None:
        used.append("tensorize(m, dpas_" in kernel.lower().schedule)

    subgroups = rng.choice((None, (lanes, 1), (2 * lanes, 2)))
    try:
        found = disagreements(case.program, ("subgroup", subgroups, lanes), seed=case.seed, prepare=look,
                              emulate_dpas=lanes, precision=case.precision)
    except LoweringError as error:
        if "does not vectorize" not in str(error):
            raise
        return Verdict(labels=("refused",))
    return Verdict("\n".join(["wrong:", *found]) if found else "", ("with DPAS" if used[0] else "without DPAS",))


def _scheduled(case: Case, rng: random.Random) -> Verdict:
    """Run with random schedules, in the vector form of any primitives, else tiled products."""
    from tests.differential.device import LAYOUTS, disagreements
    from tl_dpnp.language.verifier import verify
    from tl_dpnp.lowering.canonicalize import canonicalize
    from tl_dpnp.lowering.contraction import contractions_of
    from tl_dpnp.lowering.layout import SubgroupLayout

    vector = rng.random() < 0.6
    layout = LAYOUTS["vector"] if vector else ("subgroup", (8, 2), 4)
    verify(case.program.module)
    found = contractions_of(canonicalize(case.program.function))
    names = [contraction.nest.name for operation, contraction in found if vector or isinstance(operation, ops.Gemm)]
    count = rng.randint(1, len(names)) if names else 0
    given = {name: functools.partial(_rescheduled, rng.randbytes(2048), None if vector else SubgroupLayout(4, 2, 2))
             for name in rng.sample(names, count)}
    try:
        wrong = disagreements(case.program, layout, seed=case.seed, schedule=given)
    except (ScheduleError, UnsupportedError):
        return Verdict(labels=("refused",))
    return Verdict("\n".join(["wrong:", *wrong]) if wrong else "", (f"in the {layout[0]} form",))


def _rescheduled(choices: bytes, layout: object, schedule: object) -> None:
    """Apply random primitives: what hypothesis draws follows from the bytes."""
    from hypothesis import given, settings
    from hypothesis import strategies as st

    from tests.lowering.random_schedules import apply_random_primitives
    from tests.lowering.tiled_schedules import apply_random_tiling

    @given(st.data())
    @settings(database=None, deadline=None)
    def apply(data: st.DataObject) -> None:
        if layout is None:
            apply_random_primitives(data, schedule, 8)
        else:
            apply_random_tiling(data, schedule, layout)

    apply.hypothesis.fuzz_one_input(choices)


def _tuned(case: Case, rng: random.Random) -> Verdict:
    """Run after a search in which chance decides how fast a schedule is."""
    from tests.differential.device import LAYOUTS, disagreements
    from tl_dpnp.lowering import space
    from tl_dpnp.runtime.tune import tuning

    shapes, seconds = space.Tunable.shapes, {}

    def sample(workbench: tuning.Workbench, choice: tuning.Choice) -> float:
        workbench._run(choice)
        return seconds.setdefault(choice, rng.uniform(1e-3, 2e-3))

    def some(instruction: space.Tunable, best: object) -> list:
        found = shapes(instruction, best)
        return rng.sample(found, min(2, len(found)))

    gains = []

    def tune(kernel: object, *arguments: object, group_size: int) -> None:
        gains.append(kernel.tune(*arguments, group_size=group_size, budget=600, progress=False).gain)

    with (mock.patch.object(tuning.Workbench, "sample", sample), mock.patch.object(space.Tunable, "shapes", some),
          mock.patch.object(space, "_UNROLLINGS", (2,))):
        found = disagreements(case.program, LAYOUTS[_layout(rng)], seed=case.seed, prepare=tune)
    return Verdict("\n".join(["wrong:", *found]) if found else "",
                   ("with another schedule" if gains[0] > 1 else "with the default",))


def _cuda(case: Case, rng: random.Random) -> Verdict:
    """Run on a CUDA device; where there is none, compile for one, to PTX."""
    import tl_dpnp
    from tests.cuda.programs import LAYOUTS, disagreements, with_layout
    from tl_dpnp.runtime.cuda.driver_adapter import device_count

    layout, debug = rng.choice(list(LAYOUTS)), rng.random() < 0.25
    if device_count():
        found = disagreements(case.program, layout, debug, seed=case.seed)
        return Verdict("\n".join(["wrong:", *found]) if found else "", ("on a device",))
    function = with_layout(case.program, layout)
    kernel = tl_dpnp.compile(ops.Module((function,)), target="cuda", cache=False, debug=debug)
    (text,) = kernel.inspect_ptx().values()
    return Verdict("" if ".visible .entry tl_kernel" in text else "wrong: the PTX has no kernel", ("to PTX",))


CHECKS: dict[str, Callable[[Case, random.Random], Verdict]] = {
    "vector": lambda case, rng: _compared(case, "vector"),
    "subgroup": lambda case, rng: _compared(case, _subgroups(rng)),
    "debug": lambda case, rng: _compared(case, _layout(rng), debug=True),
    "dpas8": lambda case, rng: _on_engine(case, rng, 8),
    "dpas16": lambda case, rng: _on_engine(case, rng, 16),
    "schedules": _scheduled,
    "tuned": _tuned,
    "cuda": _cuda,
}


def simpler(kind: str, case: Case) -> Iterator[Case]:
    """Yield the case with smaller programs."""
    for program in smaller(case.program, case.seed):
        yield replace(case, program=program)


def text(kind: str, case: Case) -> str:
    """Return the program and its call."""
    arguments = [f";   %{value.name} = {_described(template)}" for value, template in zip(
        case.program.function.parameters, case.program.templates, strict=True)]
    head = f"; {case.program.group_size} work-groups, arguments of make_arguments({case.seed}):"
    return "\n".join([print_module(case.program.module).rstrip(), head, *arguments])


def _described(argument: Argument) -> str:
    match argument:
        case ScalarArgument(value=value):
            return str(value)
        case ArrayArgument(shape=shape, strides=strides):
            return f"array of {shape}, strides {strides}"
        case GroupArgument(arrays=arrays, offset=offset):
            return f"[{'; '.join(map(_described, arrays))}], offset {offset}"


CAMPAIGN = Campaign("programs", tuple(CHECKS), make, check, simpler, text)


def run(
    seed: int, minutes: float, count: int | None = None, *, kind: str | None = None, workers: int | None = None,
    cuda_python: str | None = None,
) -> Outcome:
    """Run the campaign; `cuda_python` is the interpreter of the environment with numba-cuda."""
    python = cuda_python or str(ROOT / ".venv-cuda/bin/python")
    without = {} if os.access(python, os.X_OK) else {"cuda": f"{Path(python)} does not exist"}
    return run_campaign(CAMPAIGN, seed, minutes, count, kind=kind, workers=workers, pythons={"cuda": python},
                        without=without)
