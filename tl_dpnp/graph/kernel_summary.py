"""What a kernel of fused code computes, and the bytes that it moves, for `tl_dpnp.explain`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

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
from tl_dpnp.graph.partition import Region
from tl_dpnp.records import dataclass
from tl_dpnp.target.targets import TARGETS

__all__ = ["KernelReport", "KernelSummary", "Origins", "count", "size"]

#: Where operations come from: what they are called, the user's file and line.
Origins = Mapping[Node, tuple[str, str, int]]


@dataclass(frozen=True)
class KernelReport:
    """One kernel of a plan: its region, and the kernel object."""

    region: Region
    kernel: Any
    compiled: bool


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

    def __init__(self, report: KernelReport, origins: Origins) -> None:
        region = report.region
        self.report = report
        self.name: str = report.kernel.name
        self.groups = region.groups
        self.interleaved = int(region.placement.grid[0].chunk) if region.placement.is_interleaved else 0
        self.compiled = report.compiled
        nodes = [node for node in topological(region.roots) if isinstance(node, Map | NOT_ELEMENTWISE)]
        self.operations = tuple(_operation(node, origins) for node in nodes)
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
        """The loops of each linear-algebra instruction, and what was done to them, for the current device.

        It is empty where the kernel is interpreted.
        """
        if TARGETS[self.report.kernel.options.target].is_interpreted:
            return ""
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
                f"{size(self.bytes_before)} moved before, {size(self.bytes)} now, {self.flops / 1e6:.3g} MFLOP")
        lines = [head, *(f"    {operation}" for operation in self.operations)]
        lines += [f"    reads what another kernel computes: {reason}" for reason in self.reasons]
        return "\n".join(lines)


def _operation(node: Node, origins: Origins) -> Operation:
    label, file, line = origins.get(node, ("", "", 0))
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
        inner = [origins[other] for other in origins if node in operands_of(other)]
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


def size(count: int) -> str:
    """Return a number of bytes in words."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000  # type: ignore[assignment]
    return f"{count:.3g} GB"


def count(number: int, noun: str) -> str:
    """Return so many of something in words."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


