"""Programs as users write them, in PyTorch on a GPU: ``python -m asv_bench.cuda_fuse``.

Each program of `asv_bench/benchmarks/realistic` runs eagerly, with Inductor (`torch.compile`) and with the backend
tl_dpnp.  Results are compared with those in float64.  Times of kernels are those of CUDA graphs with several calls,
medians of rounds in turns; those of calls are until the call returns, of a batch whose kernels take no longer.
Needs PyTorch and a GPU.
"""

from __future__ import annotations

import fcntl
import json
import math
import statistics
import subprocess
import sys
import time
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

_ROUNDS, _CALLS, _HOST_CALLS = 7, 3, 200
_LOCK = Path("/tmp/tl_dpnp_cuda_fuse.lock")


def _namespace() -> str:
    """Register the namespace of PyTorch's functions with arrays on the GPU; return its name."""
    import torch

    from asv_bench.benchmarks import namespaces

    space = types.ModuleType("cuda_namespace")
    vars(space).update(vars(namespaces._torch()), asarray=lambda array: torch.from_numpy(array).cuda(),
                       eye=lambda *sizes, **named: torch.eye(*sizes, device="cuda", **named))
    namespaces._NAMESPACES["cuda"] = lambda: space
    return "cuda"


def _host_seconds(call: Callable[[], Any]) -> float:
    import torch

    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(_HOST_CALLS):
        call()
    return (time.perf_counter() - begin) / _HOST_CALLS


def _errors(name: str, batch: int, element: str, results: dict[str, Any]) -> dict[str, float]:
    """Return the largest error of each way's results, relative to the largest element of the result in float64."""
    from asv_bench.benchmarks.namespaces import arrays_of, make

    exact = [array.double() for array in arrays_of(make(_namespace(), name, batch, "f64")())] \
        if element != "f64" else [array.double() for array in arrays_of(results["eager"])]
    found = {}
    for way, result in results.items():
        worst = 0.0
        for one, other in zip(arrays_of(result), exact, strict=True):
            scale = max(float(other.abs().max()), 1e-30)
            worst = max(worst, float((one.double() - other).abs().max()) / scale)
        found[way] = worst
    return found


def _compiled(
    name: str, batch: int, element: str, compared: Sequence[str]
) -> tuple[dict[str, Callable[[], Any]], Any]:
    import torch

    from asv_bench.benchmarks.namespaces import make
    from tl_dpnp.graph.pytorch.backend import Backend

    backend = Backend()
    call = make(_namespace(), name, batch, element)
    ways: dict[str, Callable[[], Any]] = {"eager": call}
    for way, chosen in (("inductor", "inductor"), ("tl_dpnp", backend)):
        if way not in compared:
            continue
        function = torch.compile(call.function, backend=chosen, dynamic=False)
        ways[way] = lambda function=function: function(*call.arguments)  # type: ignore[misc]
    return ways, backend


def _case(name: str, batch: int, element: str, small: int, compared: Sequence[str]) -> dict[str, Any]:
    """Measure one program; compilation goes on beside that of others, measurements do not."""
    import torch

    from asv_bench.cuda_graphs import graph_of, interleaved_seconds

    torch._dynamo.config.recompile_limit = 64
    torch.backends.cuda.matmul.allow_tf32 = False
    ways, backend = _compiled(name, batch, element, compared)
    begin: dict[str, float] = {}
    results = {}
    with torch.no_grad():
        for way, call in ways.items():
            start = time.perf_counter()
            results[way] = call()
            torch.cuda.synchronize()
            begin[way] = time.perf_counter() - start
            call()
        errors = _errors(name, batch, element, results)
        del results
        hosts, _ = _compiled(name, small, element, compared)
        for call in hosts.values():
            for _ in range(5):
                call()
        with _LOCK.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            graphs = [graph_of(call, _CALLS) for call in ways.values()]
            samples = interleaved_seconds(graphs, _ROUNDS)
            host = [[_host_seconds(call) for call in hosts.values()] for _ in range(3)]
    programs = [program for each in backend.compilations for program in each.programs.values()]
    return {
        "name": name, "errors": errors, "first": begin,
        "seconds": {way: statistics.median(times) / _CALLS for way, times in zip(ways, samples, strict=True)},
        "host": dict(zip(ways, map(statistics.median, zip(*host, strict=True)), strict=True)),
        "kernels": sum(len(program.kernels) for program in programs),
        "left": sorted({left.name for program in programs for left in program.planned.left}),
    }


def _line(case: dict[str, Any]) -> str:
    seconds, host = case["seconds"], case["host"]
    others = ", ".join(f"of {way} {value / seconds['tl_dpnp']:6.2f}" for way, value in seconds.items()
                       if way != "tl_dpnp")
    calls = ", ".join(f"{way} {value * 1e6:.1f}" for way, value in host.items())
    return (f"{case['name']:<26} {seconds['tl_dpnp'] * 1e6:8.1f} us, {others}; calls in us: {calls}; errors "
            f"{case['errors']['eager']:.0e} {case['errors']['tl_dpnp']:.0e}; {case['kernels']} kernels, left "
            f"{', '.join(case['left']) or 'nothing'}")


@click.command(help=__doc__)
@click.option("--batch", default=20000, show_default=True)
@click.option("--small", default=64, show_default=True, help="The batch of which the calls are timed.")
@click.option("--element", default="f32", show_default=True)
@click.option("--processes", default=14, show_default=True)
@click.option("--only", default="", help="Names of programs, or files of them, apart by commas.")
@click.option("--beside", default="inductor", show_default=True, help="Ways beside eager, apart by commas.")
@click.option("--case", "one", default="", hidden=True)
def main(batch: int, small: int, element: str, processes: int, only: str, beside: str, one: str) -> None:
    """Print a line for each program, and geometric means."""
    if one:
        print(json.dumps(_case(one, batch, element, small, (*beside.split(","), "tl_dpnp"))))
        return
    from asv_bench.benchmarks.namespaces import names

    chosen = [name for name, file in names().items() if not only or {name, file} & set(only.split(","))]
    running: list[tuple[str, subprocess.Popen[str]]] = []
    cases: list[dict[str, Any]] = []

    def finish() -> None:
        name, process = running.pop(0)
        out, err = process.communicate()
        lines = [line for line in out.splitlines() if line.startswith("{")]
        if lines:
            cases.append(json.loads(lines[-1]))
            print(_line(cases[-1]), flush=True)
        else:
            print(f"{name}: {' | '.join(err.strip().splitlines()[-4:])[:600]}", flush=True)

    for name in chosen:
        if len(running) >= processes:
            finish()
        command = [sys.executable, "-m", "asv_bench.cuda_fuse", "--case", name, "--batch", str(batch), "--small",
                   str(small), "--element", element, "--beside", beside]
        running.append((name, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)))
    while running:
        finish()
    for way in ("eager", *filter(None, beside.split(","))):
        ratios = sorted(case["seconds"][way] / case["seconds"]["tl_dpnp"] for case in cases)
        mean = math.exp(statistics.mean(map(math.log, ratios)))
        print(f"{len(cases)} programs, of the speed of {way}: geometric mean {mean:.2f}, least {ratios[0]:.2f}, "
              f"median {statistics.median(ratios):.2f}, slower {sum(ratio < 1 for ratio in ratios)}")


if __name__ == "__main__":
    main()
