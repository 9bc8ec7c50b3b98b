"""Distinct random kernels, compiled, called and dropped: none may leave memory or mappings behind."""

from __future__ import annotations

import gc
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.campaigns.outcome import Outcome, case_seeds

__all__ = ["KINDS", "run"]

ROOT = Path(__file__).parents[2]
#: Kernels before anything is measured: Numba and the driver load what they need with the first ones, and allocators
#: settle.
WARM_UP = 20
#: Kernels that are measured at the least: with fewer the steps of allocators are larger than what is looked for.
FEWEST = 100
#: Mappings that may come and go with threads and allocators.
SPARE_MAPPINGS = 8
#: Types of factors and results.
TYPES = (("f32", "f32"), ("f64", "f64"), ("i32", "i32"), ("i64", "i64"), ("f16", "f32"), ("bf16", "f32"), ("i8", "i32"))
PRODUCT = """
func @product_{number}(%A: memref<{t}x{m}x{k}x?>, %B: memref<{t}x{k}x{n}>, %C: memref<{r}x{m}x{n}x?>) {{
  %g = group_id
  %a = subview %A[:,:,%g] : memref<{t}x{m}x{k}x?>
  %c = subview %C[:,:,%g] : memref<{r}x{m}x{n}x?>
  gemm.n.n {alpha}, %a, %B, 1, %c : {r}, memref<{t}x{m}x{k}>, memref<{t}x{k}x{n}>, {r}, memref<{r}x{m}x{n}>
}}
"""


# --- the process that is measured ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """What a process holds after a number of kernels: bytes of resident memory and mappings."""

    kernels: int
    resident: int
    mappings: int


def sample(kernels: int) -> Sample:
    """Measure this process without what it has not collected yet."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    with open("/proc/self/maps", "rb") as file:
        return Sample(kernels, resident, sum(1 for _ in file))


def product(rng: random.Random, number: int) -> dict[str, Any]:
    """Return what `PRODUCT` is filled with; its number makes a program distinct from all others."""
    factor, result = rng.choice(TYPES)
    m, n, k = (rng.randint(1, 24) for _ in range(3))
    alpha = number + (1 if result.startswith("i") else 0.5)
    return {"number": number, "t": factor, "r": result, "m": m, "n": n, "k": k, "alpha": alpha}


def call(kernel: Any, sizes: dict[str, Any], submit: bool) -> None:
    """Run a product once."""
    import tl_dpnp
    from tl_dpnp.runtime.sycl.tensor_adapter import tensor
    from tl_dpnp.scalars import SCALAR_TYPES

    t, r, m, n, k = (sizes[name] for name in "trmnk")
    shapes = (t, (3, k, m)), (t, (n, k)), (r, (3, n, m))
    arrays = [tl_dpnp.rev(tensor.ones(shape, dtype=SCALAR_TYPES[name].storage)) for name, shape in shapes]
    if submit:
        kernel.submit(*arrays).wait()
    else:
        kernel(*arrays)


def measured(seed: int, count: int, seconds: float, warm: bool) -> list[Sample]:
    """Compile, call and drop `count` kernels, or fewer where the time is over; with `warm` they are in the cache."""
    import tl_dpnp

    rng = random.Random(seed)
    samples, end = [], time.monotonic() + seconds
    for number in range(count):
        sizes = product(rng, number)
        options = {} if warm else {"debug": rng.random() < 0.1, "form": rng.choice(("vector",) * 4 + ("subgroup",))}
        kernel = tl_dpnp.compile(PRODUCT.format(**sizes), cache=warm, **options)
        call(kernel, sizes, submit=rng.random() < 0.3)
        del kernel
        if number >= WARM_UP and (number % 10 == 0 or number == count - 1):
            samples.append(sample(number))
        if time.monotonic() > end:
            break
    return samples


# --- the campaign ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """How kernels are made, and the bytes of resident memory that each may leave."""

    allowed: int
    share: float


#: Kernels that are compiled and built, and those whose machine code is in the cache; of the latter a tenth.
KINDS = {"built": Kind(300_000, 1.0), "cached": Kind(20_000, 0.1)}


def run(seed: int, minutes: float, count: int | None = None, *, kind: str | None = None) -> Outcome:
    """Measure `count` kernels that are built, and a tenth of that, 100 at the least, from the cache; 1000 without.

    They end earlier where the minutes are over.  What counts is how memory grows over the later half.
    """
    if kind is not None and kind not in KINDS:
        raise SystemExit(f"memory has no kind {kind!r}; it has {', '.join(KINDS)}")
    chosen = [kind] if kind else list(KINDS)
    failures, notes, tried = [], [], 0
    case = next(case_seeds(seed))
    for name in chosen:
        wanted = max(100, round((count or 1000) * KINDS[name].share)) if name == "cached" else count or 1000
        result = _measure(name, case, wanted, 60 * minutes / len(chosen))
        if isinstance(result, str):
            failures.append(f"{_command(name, seed, wanted)}\n{result}")
            continue
        tried += result[-1].kernels + 1 if result else 0
        what, wrong = judged(name, result)
        notes.append(f"{name}: {what}")
        if wrong:
            failures.append(f"{_command(name, seed, wanted)}\n{what}\n{_table(result)}")
    return Outcome(tried, tuple(failures), tuple(notes))


def judged(name: str, samples: list[Sample]) -> tuple[str, bool]:
    """Return what the later half of the samples says in words, and whether too much stays."""
    later = samples[len(samples) // 2:]
    kernels = later[-1].kernels - later[0].kernels if later else 0
    if not later or later[-1].kernels < WARM_UP + FEWEST:
        return f"{later[-1].kernels + 1 if later else 0} kernels are too few to tell what they leave", False
    bytes_each = (later[-1].resident - later[0].resident) / kernels
    mappings = later[-1].mappings - later[0].mappings
    text = (f"{later[-1].kernels + 1} kernels; of the last {kernels} each left {bytes_each / 1e6:.4f} MB "
            f"(allowed: {KINDS[name].allowed / 1e6}), and all of them {mappings} mappings")
    return text, bytes_each > KINDS[name].allowed or mappings > SPARE_MAPPINGS + kernels // 100


def _measure(name: str, seed: int, count: int, seconds: float) -> list[Sample] | str:
    """Return the samples of a process of its own, or how it failed."""
    with tempfile.TemporaryDirectory() as folder:
        if name == "cached":
            filled = _process("filled", seed, count, seconds * 0.8, folder)
            if isinstance(filled, str):
                return filled
            count, seconds = (filled[-1].kernels + 1 if filled else 0), seconds * 0.2
        return _process(name, seed, count, seconds, folder)


def _process(name: str, seed: int, count: int, seconds: float, folder: str) -> list[Sample] | str:
    command = [sys.executable, "-m", __name__, name, str(seed), str(count), str(seconds)]
    ended = subprocess.run(command, cwd=ROOT, env={**os.environ, "TL_DPNP_CACHE_DIR": folder}, capture_output=True,
                           text=True, errors="replace", check=False)
    if ended.returncode:
        return f"ended with {ended.returncode}\n{ended.stderr[-3000:]}"
    return [Sample(**values) for values in json.loads(ended.stdout)]


def _command(name: str, seed: int, count: int) -> str:
    return f"repeat with: python -m tests.campaigns memory --kind {name} --seed {seed} --count {count}"


def _table(samples: list[Sample]) -> str:
    step = max(1, len(samples) // 20)
    return "\n".join(f"  {s.kernels:6} kernels {s.resident / 1e6:8.1f} MB {s.mappings:6} mappings"
                     for s in samples[::step])


def main(name: str, seed: int, count: int, seconds: float) -> None:
    """Be the process that is measured; "filled" fills the cache for "cached"."""
    print(json.dumps([asdict(one) for one in measured(seed, count, seconds, warm=name != "built")]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
