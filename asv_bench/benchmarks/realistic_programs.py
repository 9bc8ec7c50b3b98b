"""Realistic programs (`realistic/`) fused, against plain dpnp and NumPy, and against JAX and PyTorch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .contests import Contest
from .namespaces import Call, agree, arrays_of, in_turn, make, names, varied
from .realistic_peers import PEERS, Process
from .results import Measurement
from .timing import Contestant

__all__ = ["BATCHES", "BEST", "COLUMNS", "PEERS", "Programs", "host_arrays", "remarks"]

BATCHES = (1, 100, 10_000)
#: Facts of measurements: kernels and calls of dpnp in a call, whether a plan was kept, processor seconds of the first
#: call.
KERNELS, CALLS, PLAN, FIRST = "kernels", "calls of dpnp", "plan", "first call, CPU s"
COLUMNS = (KERNELS, CALLS, PLAN, FIRST)
#: The shortest median of a peer over that of tl_dpnp.
BEST = "speed over the best peer"


def host_arrays(result: Any) -> list[Any]:
    """Return the arrays of a result of dpnp in NumPy."""
    return [array.asnumpy() if hasattr(array, "asnumpy") else array for array in arrays_of(result)]


@dataclass(frozen=True)
class Programs:
    """Which programs are measured, with sizes drawn from `seed`."""

    seed: int = 0
    batches: tuple[int, ...] = BATCHES
    elements: tuple[str, ...] = ("f32",)
    only: tuple[str, ...] = ()

    @property
    def cases(self) -> tuple[str, ...]:
        """Their cases, such as ``f32 gru_step 100``."""
        return tuple(f"{element} {name} {batch}" for name in self.only or names() for element in self.elements
                     for batch in self.batches)

    def fused(self, case: str) -> Contest:
        """All cores; a blocking call of the same Python function, fused, in dpnp, and in NumPy, on data of one seed.
        Each makes new results; floats among the arguments differ from call to call.  The results of all were compared
        first, for each of these numbers."""
        _, call, contestants, facts = self._own(case)
        host = self._make("numpy", case)

        def wait(arguments: tuple[Any, ...]) -> None:
            for array in arrays_of(call.function(*arguments)):
                array.sycl_queue.wait()

        turns, numpy_turns = varied(call), varied(host)
        for arguments, host_arguments in zip(turns, numpy_turns, strict=True):
            expected = arrays_of(host.function(*host_arguments))
            agree(f"{case} in dpnp", host_arrays(call.function(*arguments)), expected, case.split()[0])
        contestants["dpnp"] = Contestant(in_turn(lambda *arguments: wait(arguments), turns))
        contestants["numpy"] = Contestant(in_turn(host.function, numpy_turns))
        return Contest(contestants, facts=facts)

    def against_peers(self, case: str) -> Contest:
        """All cores; the same programs fused, under ``jax.jit``, in PyTorch, and under ``torch.compile``, on the CPU.
        Each peer runs in a process and an environment of its own and takes its turns there, with as many threads as it
        chooses; it compares its results with NumPy's first.  Objects are pytrees in JAX, integers are static."""
        element, name, batch = case.split()
        _, _, contestants, facts = self._own(case)
        for peer in PEERS:
            contestants[peer] = Process.of(peer).prepared(name, int(batch), element, self.seed)
        return Contest(contestants, facts=facts)

    def _make(self, namespace: str, case: str) -> Call:
        element, name, batch = case.split()
        return make(namespace, name, int(batch), element, self.seed)

    def _own(self, case: str) -> tuple[Any, Call, dict[str, Contestant], dict[str, float]]:
        """Return the fused function, once its results were compared with NumPy's."""
        import tl_dpnp

        call, host = self._make("dpnp", case), self._make("numpy", case)
        own = tl_dpnp.fuse(call.function)
        turns = varied(call)
        start = time.process_time()
        own(*turns[0])
        first = time.process_time() - start
        for arguments, host_arguments in zip(turns, varied(host), strict=True):
            agree(case, host_arrays(own(*arguments)), arrays_of(host.function(*host_arguments)), case.split()[0])
        explanation = own.explain(*call.arguments)
        facts = {KERNELS: float(len(explanation.kernels)), CALLS: float(len(explanation.calls)),
                 PLAN: float(not explanation.again), FIRST: first}
        return own, call, {"tl_dpnp": Contestant(in_turn(own, turns))}, facts


def remarks(measurements: Sequence[Measurement]) -> list[str]:
    """Return how many programs became one kernel, and how many keep a plan."""
    count = len(measurements)
    alone = sum(m.facts[KERNELS] == 1 and m.facts[CALLS] == 0 for m in measurements)
    kept = sum(m.facts[PLAN] == 1 for m in measurements)
    return [f"of {count} cases {alone} are one kernel, {kept} keep a plan"]
