"""The options of `tl_dpnp.fuse`, which are the same for all packages of arrays."""

from __future__ import annotations

from tl_dpnp.errors import TLTypeError

__all__ = ["check_options"]

_BREAKS = ("quiet", "warn", "error")


def check_options(fullgraph: bool, on_break: str, recompile_limit: int, dynamic: bool | None) -> None:
    """Raise `TLTypeError` for options that are not understood."""
    if on_break not in _BREAKS:
        raise TLTypeError(f"on_break={on_break!r} is not understood: it takes {', '.join(map(repr, _BREAKS))}")
    if not isinstance(fullgraph, bool):
        raise TLTypeError(f"fullgraph={fullgraph!r} is not understood: it takes True or False")
    if fullgraph and on_break == "warn":
        raise TLTypeError("fullgraph=True raises an error for breaks, on_break='warn' does not: leave one of them out")
    if not isinstance(recompile_limit, int) or isinstance(recompile_limit, bool) or recompile_limit < 1:
        raise TLTypeError(f"recompile_limit={recompile_limit!r} is not understood: it takes a number from 1")
    if dynamic is not None and not isinstance(dynamic, bool):
        raise TLTypeError(f"dynamic={dynamic!r} is not understood: it takes None, True or False")
