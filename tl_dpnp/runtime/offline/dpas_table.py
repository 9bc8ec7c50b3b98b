"""What became of every form of DPAS: each compiled for each device, and its assembly read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tl_dpnp.errors import LoweringError
from tl_dpnp.kernels.dpas.probe import probe_module
from tl_dpnp.kernels.dpas.rows import DpasRow, rows
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.offline.assembly import has_types, parse
from tl_dpnp.runtime.offline.binary import KernelFacts, read_binary
from tl_dpnp.runtime.offline.targets import TARGETS, OfflineTarget
from tl_dpnp.runtime.offline.tools import compile_binary, disassemble, validate_spirv
from tl_dpnp.runtime.sycl.compilation import require_offline, translate

__all__ = ["RowReport", "check_rows", "table"]

_LEGEND = (
    "A repeat count is listed where spirv-val accepts the kernel, ocloc compiles it, and its assembly has",
    "the one dpas that was meant, with its types, no call and no scratch memory.  Compiled, not run.",
)


@dataclass(frozen=True)
class RowReport:
    """A row for one device: why it cannot be reached, or what is wrong with what the compiler made of it."""

    row: DpasRow
    unreachable: str | None
    faults: tuple[str, ...] = ()


def check_rows(target: OfflineTarget) -> list[RowReport]:
    """Compile all reachable rows for a device and return a report of each row of its execution size.

    Raises UnsupportedError where a tool or numba-dpex is missing, LoweringError where a tool fails.
    """
    require_offline(target.name)
    legal = rows(target.description.dpas_lanes)
    reachable = [row for row in legal if row.unreachable is None]
    spirv = translate(probe_module(reachable, emulated=False))
    validate_spirv(spirv)
    binary = read_binary(compile_binary(spirv, target.name))
    if binary.undefined:
        raise LoweringError(f"compiling DPAS for {target.name} left undefined: {', '.join(binary.undefined)}")
    assembly = disassemble(binary.code, target.platform)
    faults = {
        row: tuple(_faults(row, binary.facts[row.name], assembly[row.name])) for row in reachable
    }
    return [RowReport(row, row.unreachable, faults.get(row, ())) for row in legal]


def _faults(row: DpasRow, facts: KernelFacts, text: str) -> Iterator[str]:
    instructions = parse(text)
    found = [entry for entry in instructions if entry.name == "dpas"]
    if len(found) != 1:
        yield f"{len(found)} dpas"
    for entry in found:
        if entry.modifier != f"8x{row.repeat}":
            yield f"dpas.{entry.modifier}"
        if not has_types(entry, row):
            yield f"types {' '.join(entry.types)}"
    if any(entry.name.startswith("call") for entry in instructions):
        yield "a call"
    if facts.scratch:
        yield f"{facts.scratch} bytes of scratch"
    if facts.lanes != row.execution_size:
        yield f"{facts.lanes} lanes"


def table() -> str:
    """Compile everything and return the table as text: for each combination of types the repeat counts that work."""
    reports = {name: check_rows(target) for name, target in TARGETS.items()}
    keys = list(dict.fromkeys(report.row.key for report in next(iter(reports.values()))))
    lines = [_line(("D", "C", "A", "B"), [f"{name}: repeat counts" for name in reports])]
    for key in keys:
        cells = [_cell([report for report in found if report.row.key == key]) for found in reports.values()]
        lines.append(_line(key, cells))
    lines += ["", *_LEGEND, ""]
    for name, found in reports.items():
        reached = sum(report.unreachable is None and not report.faults for report in found)
        reason: dict[str, int] = {}
        for report in found:
            if report.unreachable is not None:
                reason[report.unreachable] = reason.get(report.unreachable, 0) + 1
        lines.append(f"{name}: {reached} of {len(found)} rows")
        lines += [f"  {count:4} not: {text}" for text, count in reason.items()]
        lines += [f"  FAULT {report.row}: {', '.join(report.faults)}" for report in found if report.faults]
    return "\n".join(lines)


def _line(key: Sequence[str], cells: Sequence[str]) -> str:
    return "".join(f"{cell:6}" for cell in key) + "  ".join(f"{cell:22}" for cell in cells).rstrip()


def _cell(reports: Sequence[RowReport]) -> str:
    works = [str(report.row.repeat) for report in reports if report.unreachable is None and not report.faults]
    faulty = [f"{report.row.repeat}!" for report in reports if report.faults]
    return " ".join([*works, *faulty]) or "-"
