"""Seconds to parse and verify long texts: programs drawn at random in all spellings, and SeisSol's kernels repeated.

``python -m asv_bench.parsing --seed 7``: the least of some tries for each length.  Exits with 1 where 1 MB takes more
than 2 s, or where the longest text takes more than 1.25 times as long for each character as the shortest.
"""

from __future__ import annotations

import random
import re
import sys
import time
from pathlib import Path

import click

from tests.strategies.programs import random_program
from tests.strategies.writer import ALL_TYPES, Features
from tl_dpnp.language import parse, print_module

_SEISSOL = Path(__file__).parents[1] / "examples/seissol_kernels.tl"
_MOST_SECONDS, _MOST_GROWTH = 2.0, 1.25


def _drawn(rng: random.Random) -> str:
    """Return a random program in a random dialect."""
    newer = rng.random() < 0.5
    features = Features(types=ALL_TYPES, newer=newer, work_items=newer and rng.random() < 0.5)
    return print_module(random_program(rng.getrandbits(32), features).module, "0.4" if newer else "0.3")


def _long(size: int, rng: random.Random | None) -> str:
    """Return at least `size` characters of programs whose functions have names of their own."""
    parts: list[str] = []
    length = 0
    while length < size:
        text = _SEISSOL.read_text(encoding="utf-8") if rng is None else _drawn(rng)
        parts.append(re.sub(r"@(\w+)", rf"@\g<1>_{len(parts)}", text))
        length += len(parts[-1])
    return "".join(parts)


def _seconds(text: str, tries: int) -> float:
    """Return the least seconds of a processor that a text takes."""
    found = []
    for _ in range(tries):
        start = time.process_time()
        parse(text)
        found.append(time.process_time() - start)
    return min(found)


@click.command(help=__doc__)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--megabytes", default="0.5,1,2", show_default=True)
@click.option("--tries", type=int, default=5, show_default=True)
def main(seed: int, megabytes: str, tries: int) -> None:
    """See the module."""
    sizes = [int(float(size) * 1e6) for size in megabytes.split(",")]
    missed = False
    for name in ("random", "SeisSol"):
        paces = []
        for size in sizes:
            text = _long(size, random.Random(seed) if name == "random" else None)
            seconds = _seconds(text, tries)
            paces.append(seconds / len(text) * 1e6)
            click.echo(f"{name:>8} {len(text) / 1e6:4.2f} MB: {seconds:.2f} s, {paces[-1]:.2f} s for 1 MB")
        missed |= max(paces) > _MOST_SECONDS or paces[-1] > _MOST_GROWTH * paces[0]
    sys.exit(missed)


if __name__ == "__main__":
    main()
