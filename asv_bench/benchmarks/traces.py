"""What it costs to trace a function again at each call, for functions of a few to some hundred operations."""

from __future__ import annotations

import importlib.util
import random
import statistics
import sys
import tempfile
from pathlib import Path
from types import ModuleType

from .contests import Contest
from .tables import QUICK
from .timing import Contestant, interleave

__all__ = ["CASES", "PER_OPERATION", "traced"]

#: The fact of a measurement: microseconds for each operation.
PER_OPERATION = "µs an operation"
#: Operations of the functions; what they are is drawn by this seed.
CASES = tuple(f"{count} operations" for count in (3, 10, 30, 100, 300))
_SEED = 20261123
_OPERATIONS = ("{0} + {1}", "{0} * 0.5", "{0} - {1}", "dpnp.maximum({0}, {1})", "{0} @ x1", "dpnp.tanh({0})")
#: How far back the second operand of an operation is, at most.
_REACH = 6
_folders: list[tempfile.TemporaryDirectory[str]] = []


def _text(count: int, seed: int) -> str:
    """Return two functions of so many operations; the first asks for the time, and so is traced at each call."""
    draw = random.Random(seed)
    body = "".join(
        f"    x{number} = {draw.choice(_OPERATIONS)}\n".format(
            f"x{number - 1}", f"x{draw.randrange(max(0, number - _REACH), number)}")
        for number in range(2, count + 2))
    return "".join(f"def {name}(x0, x1):\n{first}{body}    return x{count + 1}\n\n\n"
                   for name, first in (("again", "    time.perf_counter()\n"), ("kept", "")))


def _module(text: str) -> ModuleType:
    """Return a module of this text, whose file stays as long as the process: its functions are found in it."""
    folder = tempfile.TemporaryDirectory(prefix="traced-")
    path = Path(folder.name) / f"traced_{len(_folders)}.py"
    path.write_text(f"import time\n\nimport dpnp\n\n\n{text}", encoding="utf-8")
    _folders.append(folder)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def traced(case: str) -> Contest:
    """A blocking call of a fused function of drawn operations on a batch of four 4 × 4 matrices, which is traced at
    each call because it asks for the time.  The peer is the same function without that, which keeps its plan; the
    column is the difference of the medians, of calls in turns, for each operation."""
    import dpnp

    import tl_dpnp

    count = int(case.split()[0])
    module = _module(_text(count, _SEED + count))
    arrays = [0.1 * dpnp.ones((4, 4, 4), dtype="f4") for _ in range(2)]
    again, kept = tl_dpnp.fuse(module.again), tl_dpnp.fuse(module.kept)
    for function in (again, kept):
        for _ in range(3):
            function(*arrays)
    assert again.explain(*arrays).again
    assert not kept.explain(*arrays).again
    contestants = {"tl_dpnp": Contestant(lambda: again(*arrays)), "kept": Contestant(lambda: kept(*arrays))}
    times = interleave(contestants, 0.1 if QUICK else 1.0)
    cost = statistics.median(times["tl_dpnp"]) - statistics.median(times["kept"])
    return Contest(contestants, facts={PER_OPERATION: 1e6 * cost / count})
