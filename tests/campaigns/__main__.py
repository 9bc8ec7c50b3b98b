"""The command ``python -m tests.campaigns NAME [--seed N] [--minutes M] [--count K]``: one campaign, all, or a list."""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import math
import random
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.campaigns.outcome import SEEDS, Outcome

FOLDER = Path(__file__).parent


def campaigns() -> dict[str, str]:
    """Return what each campaign does, by name: the modules here that define ``run``, without importing them."""
    found = {}
    for path in sorted(path for path in FOLDER.glob("[!_]*.py") if not path.name.startswith("test_")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if any(isinstance(node, ast.FunctionDef) and node.name == "run" for node in tree.body):
            found[path.stem] = (ast.get_docstring(tree) or "").partition("\n")[0]
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; return the exit status, 1 if a case failed."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell: processes inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    known = campaigns()
    options = _parser(known).parse_args(arguments)
    if options.name == "list":
        print("\n".join(f"{name:<10} {what}" for name, what in known.items()))
        return 0
    seed = random.SystemRandom().randrange(SEEDS) if options.seed is None else options.seed
    minutes = options.minutes if options.minutes is not None else 1.0 if options.count is None else math.inf
    given = {name: getattr(options, name) for name in ("kind", "workers", "cuda_python", "other_python")}
    extra = {name: value for name, value in given.items() if value is not None}
    names = list(known) if options.name == "all" else [options.name]
    outcomes = [run_one(name, seed, minutes, options.count, extra) for name in names]
    return int(any(outcome.failures for outcome in outcomes))


def run_one(name: str, seed: int, minutes: float, count: int | None, extra: dict[str, Any]) -> Outcome:
    """Run a campaign and print what it found; the last line has the count and the seed."""
    run = importlib.import_module(f"tests.campaigns.{name}").run
    for option in extra:
        if option not in inspect.signature(run).parameters:
            raise SystemExit(f"the campaign {name!r} takes no --{option.replace('_', '-')}")
    print(f"{name}: seed {seed}", flush=True)
    start = time.monotonic()
    outcome: Outcome = run(seed, minutes, count, **extra)
    for number, failure in enumerate(outcome.failures, 1):
        print(f"\n--- {name}, failure {number} of {len(outcome.failures)} ---\n{failure.rstrip()}")
    for note in outcome.notes:
        print(f"{name}: {note}")
    print(f"{name}: {time.monotonic() - start:.0f} s")
    print(outcome.closing_line(name, seed), flush=True)
    return outcome


def _parser(known: dict[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.campaigns", description="Look for defects at random.")
    parser.add_argument("name", choices=[*known, "all", "list"], metavar="NAME",
                        help=f"{', '.join(known)}; all of them: all; what they do: list")
    parser.add_argument("--seed", type=int, help="repeats a campaign; drawn and printed if left out")
    parser.add_argument("--minutes", type=float, help="stop after so long (1 if no count is given)")
    parser.add_argument("--count", type=int, help="stop after so many cases")
    parser.add_argument("--kind", help="try cases of one kind only, where the campaign has several")
    parser.add_argument("--workers", type=int, help="processes that try cases (the number of cores)")
    parser.add_argument("--cuda-python", help="the interpreter with numba-cuda, for the kind 'cuda'")
    parser.add_argument("--other-python", help="the interpreter of the other environment, for 'stacks'")
    return parser


if __name__ == "__main__":
    sys.exit(main())
