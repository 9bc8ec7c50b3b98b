"""What became of a fused function: kernels, memory traffic, calls that were left to dpnp, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tl_dpnp.graph.breaks import Break, listing
from tl_dpnp.graph.kernel_summary import KernelSummary, count, size
from tl_dpnp.graph.plan import CallStep, KernelStep
from tl_dpnp.graph.trace import Trace
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.package_name import NAME

__all__ = ["Explanation", "KernelSummary"]


@dataclass(frozen=True)
class Explanation:
    """What a call of a fused function did; made by `tl_dpnp.explain`.

    `again` says why the function is traced at each call, and is empty where it runs from a plan.  `calls` are the
    names of dpnp functions that were called.  `dynamic` names the axes whose sizes kernels are given, `static` those
    whose sizes changed and are known to kernels, with the reason.
    """

    function: str
    kernels: tuple[KernelSummary, ...]
    calls: tuple[str, ...]
    breaks: tuple[Break, ...]
    again: tuple[Break, ...]
    trace: Trace
    dynamic: tuple[str, ...] = ()
    static: tuple[str, ...] = ()

    @classmethod
    def of_trace(cls, name: str, trace: Trace, again: Sequence[Break]) -> Explanation:
        """Return the explanation of one trace."""
        return cls._of(name, trace, again)

    @classmethod
    def of_block(cls, trace: Trace) -> Explanation:
        """Return the explanation of a ``with`` block."""
        return cls._of("fusing", trace, ())

    @classmethod
    def _of(cls, name: str, trace: Trace, again: Sequence[Break]) -> Explanation:
        kernels = tuple(KernelSummary(step.report, trace.origins) for step in trace.steps
                        if isinstance(step, KernelStep))
        calls = tuple(step.report for step in trace.steps if isinstance(step, CallStep))
        static = tuple(f"{name}: {reason}" for name, reason in trace.static.items())
        return cls(name, kernels, calls, tuple(trace.breaks), tuple(again), trace, tuple(trace.dynamic), static)

    @property
    def launches_before(self) -> int:
        """How many operations dpnp would have done one by one."""
        return sum(len(kernel.operations) for kernel in self.kernels) + len(self.calls)

    @property
    def launches(self) -> int:
        """How many kernels and calls of dpnp there are now."""
        return len(self.kernels) + len(self.calls)

    @property
    def bytes_before(self) -> int:
        """Bytes that the fused operations would move one by one."""
        return sum(kernel.bytes_before for kernel in self.kernels)

    @property
    def bytes(self) -> int:
        """Bytes that the kernels move."""
        return sum(kernel.bytes for kernel in self.kernels)

    def __str__(self) -> str:
        if self.trace.left is not None:
            return f"{self.function} runs in {NAME} as it is:\n  {self.trace.left}"
        lines = [
            f"{self.function}: {self.launches_before} operations became {count(len(self.kernels), 'kernel')} and "
            f"{count(len(self.calls), 'call')} of {NAME}; {size(self.bytes_before)} moved before, "
            f"{size(self.bytes)} now",
        ]
        lines += [f"  {line}" for kernel in self.kernels for line in str(kernel).splitlines()]
        lines += [f"  {NAME}.{name}" for name in self.calls]
        if self.dynamic:
            lines.append(f"sizes that kernels are given: {', '.join(self.dynamic)}")
        if self.static:
            lines += ["sizes that changed and that kernels know:", *(f"  {line}" for line in self.static)]
        if self.breaks:
            lines += ["breaks:", *(f"  {line}" for line in listing(self.breaks))]
        if self.again:
            lines += ["traced at each call:", *(f"  {line}" for line in listing(self.again))]
        for kernel in {kernel.source: kernel for kernel in self.kernels}.values():
            lines += ["", kernel.source.rstrip(), "", kernel.schedule.rstrip()]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as data that JSON takes."""
        return {
            "function": self.function, "launches_before": self.launches_before, "launches": self.launches,
            "bytes_before": self.bytes_before, "bytes": self.bytes, "calls": list(self.calls),
            "kernels": [kernel.to_dict() for kernel in self.kernels],
            "dynamic": list(self.dynamic), "static": list(self.static),
            "breaks": [asdict(b) for b in self.breaks], "again": [asdict(b) for b in self.again],
        }

    def svg(self) -> str:
        """Return a picture of the graph, a frame around what each kernel computes."""
        from tl_dpnp.graph.picture import draw

        return draw(self.function, self.trace)
