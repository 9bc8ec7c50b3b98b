"""Runs a section: times its cases, relates them to what the machine can do, and judges them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from . import machine, processes
from .contests import Contest, have
from .limits import Fill, FmaPeak, Limit, Read, Triad
from .quiet import DISTURBED, OtherPrograms, SharedCores, SharedThreads, wait_for_quiet
from .realistic_programs import BEST
from .results import Measurement, Report, judge
from .sections import SECTIONS, Section
from .small_products import BEST_GENERATED, GENERATED
from .tables import COMPLEX, QUICK
from .timing import Contestant, interleave, quartiles

__all__ = ["cases_of", "run", "run_in_child"]

#: Megabytes that a triad moves, a filling writes, or a sum reads: as many as the cases from memory, since of fewer a
#: part would stay in the last-level caches from one pass to the next.
_MEGABYTES = 256
#: Seconds for which OpenBLAS's threads spin at most, as this package has it; its threads and OpenMP's are asleep then.
_PAUSE = 0.02
#: Facts of a measurement, and what to say of them where all cores are measured, and where one is: the part of the cores
#: that other programs took, the part of the turns for which the host ran several cores on one of its own.
_OTHERS, _SHARED = "other programs", "shared cores"
_DISTURBANCES = {
    _OTHERS: "other programs took part of the cores, {:.0%} at most",
    _SHARED: "the host ran several cores on one of its own, for {:.0%} of the turns at most",
}
_DISTURBANCES_OF_ONE = {
    _SHARED: "something else ran on the same core of the host, for {:.0%} of the turns at most",
}


def cases_of(section: Section) -> tuple[str, ...]:
    """Return the cases to run: a few with ``TL_DPNP_BENCH=quick``."""
    return section.quick if QUICK else section.cases


def _limits(section: Section, case: str) -> dict[str, Limit]:
    threads = len(os.sched_getaffinity(0))
    limits: dict[str, Limit] = {}
    if "fma" in section.limits:
        element = case.split()[0]
        limits["FMA peak"] = FmaPeak(COMPLEX.get(element, element), threads)
    if "triad" in section.limits:
        for stores in ("plain", "streaming"):
            limits[f"triad {stores}"] = Triad(_MEGABYTES, threads, stores == "streaming")
            limits[f"fill {stores}"] = Fill(_MEGABYTES, threads, stores == "streaming")
        for loads in ("plain", "prefetching"):
            limits[f"read {loads}"] = Read(_MEGABYTES, threads, loads == "prefetching")
    return limits


#: How often a case is measured again when other programs disturbed it.
_ATTEMPTS = 3


def _undisturbed(
    measure: Callable[[], dict[str, list[float]]], patience: float
) -> tuple[dict[str, list[float]], float]:
    """Return the times of the attempt in which other programs took least of the machine, and the part they took.

    What decides between attempts is the load that others made, never a result.
    """
    attempts = []
    end = time.monotonic() + patience
    for _ in range(_ATTEMPTS):
        wait_for_quiet(end - time.monotonic())
        others = OtherPrograms()
        times = measure()
        attempts.append((others.share(), times))
        if attempts[-1][0] < DISTURBED or time.monotonic() >= end:
            break
    share, times = min(attempts, key=lambda attempt: attempt[0])
    return times, share


def _measure(section: Section, case: str, seconds: float, patience: float) -> Measurement:
    contest, limits = section.prepare(case), _limits(section, case)
    if isinstance(contest, Measurement):
        return contest
    clock, pause = (time.process_time, 0.0) if section.one_core else (time.perf_counter, _PAUSE)
    players = {name: player for name, player in contest.contestants.items() if name in ("tl_dpnp", *section.peers)}
    peers = [name for name in players if name != "tl_dpnp"]
    players |= {name: Contestant(limit) for name, limit in limits.items()}
    shared = SharedThreads(max(seconds, patience)) if section.one_core else SharedCores(
        len(os.sched_getaffinity(0)), patience=seconds)
    times, disturbed = _undisturbed(
        lambda: interleave(players, seconds, clock, section.block, pause=pause, before=shared.wait),
        0.0 if section.one_core else patience)  # the time of a process is its own
    own = times["tl_dpnp"]
    reached = None
    if limits:
        fastest = _fastest(limits, times)
        rates = [
            {kind: 1e9 * _rate(limits[name]) / times[name][r] for kind, name in fastest.items()}
            for r in range(len(own))
        ]
        reached = quartiles([_bound(contest, rate) / own[r] for r, rate in enumerate(rates)])
    work = {"GF/s": contest.flops * 1e-9, "GB/s": contest.bytes * 1e-9}
    values = [t * 1e6 for t in own] if section.unit == "µs" else [work[section.unit] / t for t in own]
    ratios = {
        name: quartiles([theirs / ours for theirs, ours in zip(times[name], own, strict=True)]) for name in peers
    }
    facts = {name: _rate(limit) / quartiles(times[name]).median for name, limit in limits.items()} | contest.facts
    if BEST in section.columns:
        facts[BEST] = min(ratio.median for ratio in ratios.values())
    generated = [ratios[name].median for name in GENERATED if name in ratios]
    if generated:
        facts[BEST_GENERATED] = min(generated)
    facts[_OTHERS], facts[_SHARED] = disturbed, shared.share
    if contest.bytes:
        facts["flops per byte"] = contest.flops / contest.bytes
    return Measurement(case, quartiles(values), quartiles(own).median, ratios, reached, facts)


def _rate(limit: Limit) -> float:
    return 1e-9 * (limit.flops if isinstance(limit, FmaPeak) else limit.bytes)


def _fastest(limits: Mapping[str, Limit], times: Mapping[str, Sequence[float]]) -> dict[str, str]:
    """Return the limits to compare with, by kind: of two ways to do the same, the one that is faster by the median.

    The faster one of each round would be faster than either where times scatter.
    """
    ascending = sorted(limits, key=lambda name: _rate(limits[name]) / quartiles(times[name]).median)
    return {name.split()[0]: name for name in ascending}


def _bound(contest: Contest, rates: Mapping[str, float]) -> float:
    """Return the least seconds that a pass can take at these rates of one round."""
    read = contest.bytes - contest.written
    sizes = {"FMA": contest.flops, "triad": contest.bytes, "read": read, "fill": contest.written}
    return max(sizes[kind] / rate for kind, rate in rates.items())


def run(
    section: Section, seconds: float, keep: Callable[[str], bool] = lambda case: True,
    progress: Callable[[Measurement], None] = lambda measurement: None, patience: float = 0.0,
) -> Report:
    """Measure the cases of a section that `keep` accepts, each for about `seconds`, in this process.

    For each, wait up to `patience` seconds for other programs, and other machines on the same host, to leave the cores
    alone, and measure again if programs disturbed it.  A note tells how many cases were disturbed all the same.
    Where the section is for one core, the process must not have loaded dpctl or NumPy yet (`RuntimeError`).
    """
    if section.one_core:
        processes.pin_to_one_core()
    described = machine.describe()
    measurements = []
    for case in filter(keep, cases_of(section)):
        measurements.append(_measure(section, case, seconds, patience))
        progress(measurements[-1])
    notes = section.remarks(measurements)
    notes += [f"{peer} is not installed" for peer in section.peers
             if peer in ("numpy", "dpnp", "torch") and BEST not in section.columns and not have(peer)]
    notes += [f"{peer} is not installed, or has no kernels for these" for peer in section.peers
              if peer in GENERATED and not any(peer in m.ratios for m in measurements)]
    for fact, what in (_DISTURBANCES_OF_ONE if section.one_core else _DISTURBANCES).items():
        shares = [m.facts[fact] for m in measurements if m.facts.get(fact, 0.0) >= DISTURBED]
        if shares:
            notes.append(f"disturbed: in {len(shares)} of {len(measurements)} cases {what.format(max(shares))}")
    return Report(
        section.name, section.title, section.method, section.unit,
        {(): "", ("fma",): "FMA peak", ("triad",): "memory", ("fma", "triad"): "roofline"}[section.limits],
        measurements, judge(section.targets, measurements), described, list(section.columns), notes,
    )


def run_in_child(name: str, seconds: float) -> Report:
    """Run a section in a fresh process: this one may have loaded NumPy already, as asv does.

    Raises `subprocess.CalledProcessError` if it fails.
    """
    folder = str(Path(__file__).parents[1])
    path = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))
    with tempfile.TemporaryDirectory() as results:
        output = Path(results) / "report.json"
        command = [sys.executable, "-m", "benchmarks.measure", name, str(seconds), str(output)]
        subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=True)
        return Report.load(output)


if __name__ == "__main__":
    run(SECTIONS[sys.argv[1]], float(sys.argv[2])).save(Path(sys.argv[3]))
