"""What became of a fused function: kernels, memory traffic, calls that were left to dpnp, and why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tl_dpnp.graph.breaks import Break, listing
from tl_dpnp.graph.grids import flops_of
from tl_dpnp.graph.nodes import (
    NOT_ELEMENTWISE,
    Accumulate,
    Array,
    Assemble,
    Contract,
    Eliminate,
    Map,
    Node,
    Number,
    Parameter,
    Reduce,
    Reshape,
    Take,
    operands_of,
    topological,
)
from tl_dpnp.graph.plan import CallStep, KernelReport, KernelStep
from tl_dpnp.graph.trace import Trace

__all__ = ["Explanation", "KernelSummary"]


@dataclass(frozen=True)
class Operation:
    """One dpnp operation that became part of a kernel, and the line it comes from."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    file: str
    line: int

    def __str__(self) -> str:
        sizes = "×".join(map(str, self.shape)) or "0-d"
        return f"{self.name} {self.dtype} {sizes}  {Path(self.file).name}:{self.line}"


class KernelSummary:
    """One kernel: what it computes, for how many work-groups, and the bytes that it moves.

    Each work-group computes so many `interleaved` matrices of a batch side by side, 0 if there is no such layout.
    """

    def __init__(self, report: KernelReport, trace: Trace) -> None:
        region = report.region
        self.report = report
        self.name: str = report.kernel.name
        self.groups = region.groups
        self.interleaved = int(region.placement.grid[0].chunk) if region.placement.is_interleaved else 0
        self.compiled = report.compiled
        nodes = [node for node in topological(region.roots) if isinstance(node, Map | NOT_ELEMENTWISE)]
        self.operations = tuple(_operation(node, trace) for node in nodes)
        self.flops = 2 * sum(map(flops_of, nodes))
        self.bytes = sum(_bytes(leaf) for leaf in dict.fromkeys(leaf for leaf, _ in region.placement.leaves))
        self.bytes += sum(map(_bytes, region.outputs))
        self.bytes_before = sum(_bytes_alone(node) for node in nodes)
        self.reasons = region.reasons

    @property
    def source(self) -> str:
        """The kernel in the tensor language."""
        text: str = self.report.kernel.source_text
        return text

    @cached_property
    def schedule(self) -> str:
        """The loops of each linear-algebra instruction, and what was done to them, for the current device."""
        return "\n\n".join(self.report.kernel.inspect_schedule().values())

    def to_dict(self) -> dict[str, Any]:
        """Return everything as data that JSON takes."""
        return {
            "name": self.name, "groups": self.groups, "interleaved": self.interleaved, "compiled": self.compiled,
            "flops": self.flops, "bytes": self.bytes, "bytes_before": self.bytes_before, "reasons": list(self.reasons),
            "operations": [asdict(operation) for operation in self.operations], "source": self.source,
            "schedule": self.schedule,
        }

    def __str__(self) -> str:
        layout = f" of {self.interleaved} interleaved matrices" if self.interleaved else ""
        head = (f"@{self.name}: {len(self.operations)} operations, {self.groups} work-groups{layout}, "
                f"{_size(self.bytes_before)} moved before, {_size(self.bytes)} now, {self.flops / 1e6:.3g} MFLOP")
        lines = [head, *(f"    {operation}" for operation in self.operations)]
        lines += [f"    reads what another kernel computes: {reason}" for reason in self.reasons]
        return "\n".join(lines)


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
        kernels = tuple(KernelSummary(step.report, trace) for step in trace.steps if isinstance(step, KernelStep))
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
            return f"{self.function} runs in dpnp as it is:\n  {self.trace.left}"
        lines = [
            f"{self.function}: {self.launches_before} operations became {_count(len(self.kernels), 'kernel')} and "
            f"{_count(len(self.calls), 'call')} of dpnp; {_size(self.bytes_before)} moved before, "
            f"{_size(self.bytes)} now",
        ]
        lines += [f"  {line}" for kernel in self.kernels for line in str(kernel).splitlines()]
        lines += [f"  dpnp.{name}" for name in self.calls]
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


def _operation(node: Node, trace: Trace) -> Operation:
    label, file, line = trace.origins.get(node, ("", "", 0))
    match node:
        case Map(kind=kind) | Reduce(kind=kind) | Eliminate(kind=kind):
            label = kind
        case Contract():
            label = f"product {','.join(node.operand_letters)}->{node.letters}"
        case Reshape():
            label = "reshape"
        case Assemble() | Accumulate() | Take():
            label = type(node).__name__.lower()
    if not line:
        inner = [trace.origins[other] for other in trace.origins if node in operands_of(other)]
        _, file, line = inner[0] if inner else ("", "", 0)
    return Operation(label, node.shape, str(node.dtype), file, line)


def _bytes(array: Array) -> int:
    """Return the bytes that an array has in memory; broadcast axes count once."""
    sizes = [size for size, stride in zip(array.shape, array.strides, strict=True) if stride or size == 0]
    return math.prod(sizes) * array.dtype.itemsize


def _bytes_alone(node: Node) -> int:
    """Return the bytes that an operation moves when its operands and its result are in memory."""
    total = node.size * node.dtype.itemsize
    for operand in operands_of(node):
        if isinstance(operand, Array):
            total += _bytes(operand)
        elif not isinstance(operand, Number | Parameter):
            total += operand.size * operand.dtype.itemsize
    return total


def _size(count: int) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000  # type: ignore[assignment]
    return f"{count:.3g} GB"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


