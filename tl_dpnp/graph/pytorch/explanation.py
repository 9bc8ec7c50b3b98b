"""What became of a function of PyTorch: kernels, and operations that are left to PyTorch with the reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from tl_dpnp.graph.kernel_summary import KernelReport, KernelSummary, count, size
from tl_dpnp.graph.pytorch.backend import Compilation
from tl_dpnp.graph.pytorch.planning import KernelStep, Left
from tl_dpnp.graph.pytorch.program import Program
from tl_dpnp.records import dataclass

__all__ = ["Explanation"]


@dataclass(frozen=True)
class Explanation:
    """What a call did; made by `tl_dpnp.explain`.

    `graphs` is how many graphs PyTorch has made of the function: more than one where it had to stop between them.
    `left` are the operations that are PyTorch's, and `whole` says why graphs are that are all PyTorch's.
    """

    function: str
    graphs: int
    kernels: tuple[KernelSummary, ...]
    left: tuple[Left, ...]
    whole: tuple[str, ...]

    @classmethod
    def of(cls, function: str, compilations: Iterable[Compilation]) -> Explanation:
        """Return the explanation of graphs that were compiled and run."""
        made = list(compilations)
        programs = [program for each in made for program in tuple(each.programs.values())]
        return cls(function, len(made), tuple(kernel for program in programs for kernel in _kernels(program)),
                   tuple(left for program in programs for left in program.planned.left),
                   tuple(each.whole for each in made if each.whole))

    @property
    def launches(self) -> int:
        """How many kernels and operations of PyTorch there are."""
        return len(self.kernels) + len(self.left)

    def __str__(self) -> str:
        before, now = (sum(getattr(kernel, name) for kernel in self.kernels) for name in ("bytes_before", "bytes"))
        fused = sum(len(kernel.operations) for kernel in self.kernels)
        lines = [f"{self.function}: {count(fused, 'operation')} became {count(len(self.kernels), 'kernel')}, "
                 f"{len(self.left)} left to PyTorch; {size(before)} moved before, {size(now)} now"]
        lines += [f"  {line}" for kernel in self.kernels for line in str(kernel).splitlines()]
        lines += [f"  {left}" for left in self.left]
        lines += [f"  a graph is PyTorch's: {reason}" for reason in self.whole]
        if self.graphs > 1:
            lines.append(f"  PyTorch made {self.graphs} graphs of it: TORCH_LOGS=graph_breaks says where it stopped")
        for kernel in {kernel.source: kernel for kernel in self.kernels}.values():
            lines += ["", kernel.source.rstrip()]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as data that JSON takes."""
        return {"function": self.function, "graphs": self.graphs, "left": [asdict(left) for left in self.left],
                "whole": list(self.whole), "kernels": [kernel.to_dict() for kernel in self.kernels]}


def _kernels(program: Program) -> list[KernelSummary]:
    planned = program.planned
    steps = [step for step in planned.steps if isinstance(step, KernelStep)]
    return [KernelSummary(KernelReport(step.region, kernel, compiled), planned.origins)
            for step, kernel, compiled in zip(steps, program.kernels, program.compiled, strict=True)]
