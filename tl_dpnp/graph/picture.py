"""A graph as an SVG picture: arrays on top, a column with a frame for each kernel and each call of dpnp."""

from __future__ import annotations

from dataclasses import field
from xml.sax.saxutils import escape

from tl_dpnp.graph.nodes import (
    Accumulate,
    Arange,
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
    View,
    operands_of,
    topological,
)
from tl_dpnp.graph.plan import KernelStep
from tl_dpnp.graph.trace import Trace
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.package_name import NAME

__all__ = ["draw"]

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 150, 34, 18, 26, 24
#: A character's width at the font size of 11, of wide fonts without serifs.
_CHARACTER = 6.6
_COLORS = ("#dbeafe", "#dcfce7", "#fef9c3", "#fae8ff", "#ffedd5", "#e0f2fe")


@dataclass
class _Picture:
    """Boxes, lines and frames, in the order in which they are drawn."""

    frames: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    boxes: list[str] = field(default_factory=list)
    width: int = 0
    height: int = 0

    def box(self, x: int, y: int, text: str, below: str, color: str) -> None:
        self.boxes.append(
            f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" fill="{color}" stroke="#334155"/>'
            f'<text x="{x + _WIDTH // 2}" y="{y + 15}" text-anchor="middle">{escape(text)}</text>'
            f'<text x="{x + _WIDTH // 2}" y="{y + 28}" text-anchor="middle" fill="#64748b">{escape(below)}</text>'
        )
        self.width = max(self.width, x + _WIDTH + _MARGIN)
        self.height = max(self.height, y + _HEIGHT + _MARGIN)

    def line(self, start: tuple[int, int], end: tuple[int, int]) -> None:
        x1, y1, x2, y2 = start[0] + _WIDTH // 2, start[1] + _HEIGHT, end[0] + _WIDTH // 2, end[1]
        self.lines.append(f'<path d="M{x1},{y1} C{x1},{y1 + 20} {x2},{y2 - 20} {x2},{y2}" fill="none" '
                          'stroke="#94a3b8" marker-end="url(#tip)"/>')


def draw(title: str, trace: Trace) -> str:
    """Return the SVG of the graph that a trace recorded."""
    picture = _Picture()
    slots: dict[int, tuple[int, int]] = {}
    first, top = _MARGIN, _MARGIN + 30
    inputs = _input_slots(trace)
    for number, slot in enumerate(inputs):
        place = first + number * (_WIDTH + _GAP_X), top
        array = inputs[slot]
        picture.box(*place, f"array {slot}", _shape(array), "#f1f5f9")
        slots[slot] = place
    top += _HEIGHT + 2 * _GAP_Y + 20
    for number, step in enumerate(trace.steps):
        if isinstance(step, KernelStep):
            first, bottom = _draw_kernel(picture, step, number, first, top, slots)
            top = top if first < 1400 else bottom
        elif isinstance(step.report, str):
            picture.box(first, top, f"{NAME}.{step.report}", f"a call of {NAME}", "#e2e8f0")
            first += _WIDTH + _GAP_X
    body = "\n".join([*picture.frames, *picture.lines, *picture.boxes])
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{picture.width}" height="{picture.height}" '
        'font-family="sans-serif" font-size="11">\n'
        '<defs><marker id="tip" markerWidth="7" markerHeight="7" refX="6" refY="3.5" orient="auto">'
        '<path d="M0,0 L7,3.5 L0,7 z" fill="#94a3b8"/></marker></defs>\n'
        f'<rect width="100%" height="100%" fill="white"/>\n'
        f'<text x="{_MARGIN}" y="{_MARGIN}" font-size="14">{escape(title)}</text>\n{body}\n</svg>\n'
    )


def _input_slots(trace: Trace) -> dict[int, Array]:
    """Return the arrays that kernels read and that no kernel writes first."""
    found: dict[int, Array] = {}
    written: set[int] = set()
    for step in trace.steps:
        if isinstance(step, KernelStep):
            for leaf, _ in step.report.region.placement.leaves:
                if leaf.slot not in written:
                    found.setdefault(leaf.slot, leaf)
            written.update(array.slot for array in step.report.region.outputs)
    return found


def _draw_kernel(
    picture: _Picture, step: KernelStep, number: int, first: int, top: int, slots: dict[int, tuple[int, int]]
) -> tuple[int, int]:
    """Draw one kernel from the column at `first`; returns where the next one begins, and the bottom."""
    region, color = step.report.region, _COLORS[number % len(_COLORS)]
    nodes = [node for node in topological(region.roots) if not isinstance(node, Array | Number | Parameter)]
    depth: dict[Node, int] = {}
    for node in nodes:
        depth[node] = max((depth[o] + 1 for o in operands_of(node) if o in depth), default=0)
    rows: dict[int, list[Node]] = {}
    for node in nodes:
        rows.setdefault(depth[node], []).append(node)
    columns = max((len(row) for row in rows.values()), default=1)
    places: dict[Node, tuple[int, int]] = {}
    for level, row in rows.items():
        for column, node in enumerate(row):
            x = first + _GAP_X + column * (_WIDTH + _GAP_X)
            y = top + 30 + level * (_HEIGHT + _GAP_Y)
            places[node] = x, y
            picture.box(x, y, _label(node), _shape(node), color)
    for node in nodes:
        for operand in operands_of(node):
            start = places.get(operand) or (slots.get(operand.slot) if isinstance(operand, Array) else None)
            if start is not None:
                picture.line(start, places[node])
    for root, array in zip(region.roots, region.outputs, strict=True):
        slots[array.slot] = places.get(root, (first, top))
    caption = f"@{step.report.kernel.name}, {region.groups} work-groups"
    width = max(_GAP_X + columns * (_WIDTH + _GAP_X), 20 + round(_CHARACTER * len(caption)))
    height = 30 + len(rows) * (_HEIGHT + _GAP_Y)
    picture.frames.append(
        f'<rect x="{first}" y="{top}" width="{width}" height="{height}" rx="10" fill="{color}" fill-opacity="0.35" '
        f'stroke="#2563eb" stroke-dasharray="5,3"/><text x="{first + 10}" y="{top + 17}" fill="#1d4ed8">'
        f"{escape(caption)}</text>"
    )
    picture.width, picture.height = max(picture.width, first + width + _MARGIN), max(picture.height, top + height + 24)
    return first + width + 2 * _GAP_X, top + height + _GAP_Y


def _label(node: Node) -> str:
    match node:
        case Map(kind=kind) | Reduce(kind=kind) | Eliminate(kind=kind):
            return kind
        case Contract():
            return f"{','.join(node.operand_letters)}->{node.letters}"
        case View():
            return "view"
        case Reshape():
            return "reshape"
        case Assemble() | Accumulate() | Arange() | Take():
            return type(node).__name__.lower()
    return "array"


def _shape(node: Node) -> str:
    return f"{node.dtype} {'×'.join(map(str, node.shape)) or '0-d'}"
