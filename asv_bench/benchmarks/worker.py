"""Times tl_dpnp alone on behalf of another process, which lets two versions of it take turns: see `asv_bench.compare`.

``python -m benchmarks.worker SECTION`` answers lines of JSON on standard input with lines on standard output: the name
of a case with ``{"rate": …, "batch": …}`` once it is ready, where one pass in s seconds is a speed of ``rate / s``; and
``null`` with the seconds of one pass, by the section's clock.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable
from typing import Any

from . import processes
from .contests import Contest
from .sections import SECTIONS
from .timing import Contestant

_BLOCK_SECONDS = 5e-3


def _ready(case: str, contest: Contest, unit: str) -> tuple[dict[str, Any], Callable[[], None], int]:
    own: Contestant = contest.contestants["tl_dpnp"]
    for _ in range(2):
        own.call()
    start = time.perf_counter()
    own.call()
    calls = max(1, math.ceil(_BLOCK_SECONDS / max(time.perf_counter() - start, 1e-9)))

    def block() -> None:
        for _ in range(calls):
            own.call()

    rate = {"GF/s": contest.flops * 1e-9, "GB/s": contest.bytes * 1e-9, "µs": 1.0}[unit]  # calls in a second
    return {"rate": rate, "batch": contest.batch}, block, calls * own.passes


def serve(name: str) -> None:
    """Answer until the input ends."""
    section = SECTIONS[name]
    if section.one_core:
        processes.pin_to_one_core()
    clock = time.process_time if section.one_core else time.perf_counter
    import tl_dpnp

    answers = sys.stdout
    sys.stdout = sys.stderr
    print(json.dumps({"tl_dpnp": tl_dpnp.__file__}), file=answers, flush=True)
    block, passes = (lambda: None), 1
    for line in sys.stdin:
        case = json.loads(line)
        if case is None:
            start = clock()
            block()
            answer: Any = (clock() - start) / passes
        else:
            contest = section.prepare(case)
            if not isinstance(contest, Contest):
                raise TypeError(f"the section {name} is not timed in turns")
            answer, block, passes = _ready(case, contest, section.unit)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
