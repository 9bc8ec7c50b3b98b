"""Cases with planted defects, for the tests of the campaigns: worker processes import this, and start quickly."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

from tests.campaigns.campaign import Campaign
from tests.campaigns.worker import Verdict

__all__ = ["CAMPAIGN"]

#: A number from which on the planted defect shows.
TOO_LARGE = 70


def make(kind: str, seed: int) -> Any:
    """Return some numbers below 100, or a program."""
    if kind == "program":
        from tests.campaigns import programs

        return programs.make("vector", seed)
    rng = random.Random(seed)
    return [rng.randrange(100) for _ in range(4)]


def check(kind: str, case: Any) -> Verdict:
    """Fail in the way that the kind names, where a number is too large or the program has a product."""
    if kind == "program":
        from tests.campaigns import programs

        with mock.patch("tests.differential.device.run_on_device", interpreted_with_a_defect):
            return programs.check("vector", case)
    if max(case, default=0) < TOO_LARGE or kind == "right":
        return Verdict(labels=("small numbers",))
    match kind:
        case "wrong":
            return Verdict("wrong: a number is too large")
        case "raises":
            raise ValueError("too large")
        case "dies":
            os.write(2, b"about to die\n")
            os.kill(os.getpid(), signal.SIGSEGV)
        case "ends":
            os._exit(3)
        case "hangs":
            time.sleep(1000)
    raise AssertionError(kind)


def interpreted_with_a_defect(program: Any, layout: Any, arguments: Any, *_: Any, **__: Any) -> Any:
    """Stand for a device: compute what the interpreter does, and one element less where there is a product."""
    from tests.strategies.arguments import numpy_arguments
    from tl_dpnp.language import ops
    from tl_dpnp.language.interpreter import interpret

    interpret(program.function, numpy_arguments(arguments), program.group_size)
    if any(isinstance(operation, ops.Gemm) for operation in program.function.body.walk()):
        first = next(place for place, argument in enumerate(arguments) if hasattr(argument, "buffer"))
        buffer = arguments[first].buffer.copy()
        buffer[0] = not buffer[0]
        arguments[first] = replace(arguments[first], buffer=buffer)
    return arguments


def smaller(kind: str, case: Any) -> Iterator[Any]:
    """Yield less numbers and lower ones, or smaller programs."""
    if kind == "program":
        from tests.campaigns import programs

        yield from programs.simpler("vector", case)
        return
    for place in range(len(case)):
        yield case[:place] + case[place + 1 :]
    for place, number in enumerate(case):
        for less in (TOO_LARGE, number - 1):
            if 0 <= less < number:
                yield [*case[:place], less, *case[place + 1 :]]


def text(kind: str, case: Any) -> str:
    """Return the case for a reader."""
    if kind == "program":
        from tests.campaigns import programs

        return programs.text("vector", case)
    return str(case)


CAMPAIGN = Campaign("planted", ("right", "wrong", "raises", "dies", "ends", "hangs", "program"), make, check, smaller,
                    text, limit=60.0)
