"""Schedules that compute a product by ``mma.sync``, for each form that a nest can mean."""

from __future__ import annotations

from collections.abc import Callable

from tl_dpnp.kernels.mma.rows import ROWS, MmaRow
from tl_dpnp.lowering.schedule import Schedule

__all__ = ["TENSORIZED", "scheduled", "shapes", "source", "types"]

#: The forms that schedules can use.
TENSORIZED = [name for name, row in ROWS.items() if row.unused is None]


def types(row: MmaRow) -> tuple[str, str]:
    """Return the types of the operands and of the result."""
    return "f32" if row.a.name == "tf32" else row.a.name, row.c.name


def shapes(row: MmaRow) -> tuple[int, int, int]:
    """Return rows, columns and depth of a product of several tiles and pieces."""
    return 2 * row.m, 16, 6 * row.k


def source(row: MmaRow, transposes: str) -> str:
    """Return C := 2 op(A) op(B) - C for one warp."""
    m, n, k = shapes(row)
    element, result = types(row)
    a, b, c = (f"memref<{name}x{'x'.join(map(str, shape[::-1] if letter == 't' else shape))}>"
               for name, shape, letter in ((element, (m, k), transposes[0]), (element, (k, n), transposes[1]),
                                           (result, (m, n), "n")))
    return f"""func @product(%A: {a}, %B: {b}, %C: {c}) work_group_size(32, 1) subgroup_size(32) {{
      gemm.{".".join(transposes)} 2.0, %A, %B, -1.0, %C : {result}, {a}, {b}, {result}, {c}
    }}"""


def scheduled(row: MmaRow, copied: str = "", buffers: int = 2) -> Callable[[Schedule], None]:
    """Return the schedule; the operands in `copied` are read from local memory, filled asynchronously if they can."""
    def schedule_product(schedule: Schedule) -> None:
        rows, columns = schedule.split("m", row.m), schedule.split("n", row.n)
        blocks = [schedule.split(rows.inner, 8)] if row.m > 8 else []
        first, pair = blocks[0].inner if blocks else rows.inner, schedule.split(columns.inner, 2)
        tiles, own = [rows.outer, columns.outer], [*(split.outer for split in blocks), pair.inner]
        schedule.reorder(first, pair.outer, *tiles, *own)
        parts = schedule.decompose_reduction("k", above=first)
        piece = schedule.split("k", 2 * row.k)
        step = schedule.split(piece.inner, row.k)
        schedule.reorder(piece.outer, first, pair.outer, step.outer, *tiles, *own, step.inner)
        for names in ({}, parts.init, parts.finish):
            schedule.bind(schedule.fuse(names.get(first, first), names.get(pair.outer, pair.outer)), "lanes")
            for loop in [*tiles, *own] if names else tiles:
                schedule.unroll(names.get(loop, loop))
        schedule.tensorize(own[0], row.name)
        for operand in copied:
            copy = schedule.cache_read(operand, "local")
            schedule.compute_at(copy, piece.outer)
            fast = schedule.loops_of(copy)[1]
            schedule.bind(schedule.split(fast, 32, tail="guard").inner, "lanes")
            schedule.double_buffer(copy, buffers)
            schedule.copy_async(copy)
        schedule.unroll(step.outer)
        schedule.load_ahead(step.outer)

    return schedule_product
