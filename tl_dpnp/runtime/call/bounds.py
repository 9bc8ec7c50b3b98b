"""The record of a kernel that was compiled with ``debug=True`` (`tl_dpnp.lowering.plan`)."""

from __future__ import annotations

from collections.abc import Sequence

from tl_dpnp.errors import Diagnostic, Span, TLBoundsError
from tl_dpnp.language.extents import Extents, group_name
from tl_dpnp.lowering.plan import CHECK_FIELDS, LaunchPlan

__all__ = ["CHECK_RECORD_LENGTH", "raise_if_failed"]

CHECK_RECORD_LENGTH = 2 * CHECK_FIELDS


def raise_if_failed(
    record: Sequence[int], plan: LaunchPlan, text: str | None, extents: Extents
) -> None:
    """Raise `TLBoundsError` for the check that a record says has failed; `text` is the source, where there is one.

    `extents` are those of the launch.
    """
    claimed, number, group, value, bound = record[:CHECK_FIELDS]
    if not claimed:
        return
    check = plan.checks[number]
    span = Span(check.file, check.line, check.column, check.end_line, check.end_column)
    lines = [] if text is None else text.splitlines()
    line = lines[span.line - 1] if 0 < span.line <= len(lines) else None
    message = f"{check.message.format(value=value, bound=bound)} (in work-group {group_name(group, extents)})"
    raise TLBoundsError.from_diagnostics([Diagnostic(message, span if span.line else None, None, line)])
