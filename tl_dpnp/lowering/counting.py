"""How loops count: in 64 bits, without passing the end of them."""

from __future__ import annotations

from tl_dpnp.lowering.body.tree import Expression
from tl_dpnp.scalars import INDEX, U64, ScalarType

__all__ = ["counter_type", "cannot_overflow"]

#: A loop that starts below this and takes steps of at most `_SHORT` would count for days before it overflows.
_FAR, _SHORT = 1 << 62, 1 << 10


def counter_type(variable: ScalarType) -> ScalarType:
    """Return the type in which the bounds of a loop compare as those of its variable's type do."""
    return U64 if variable == U64 else INDEX


def cannot_overflow(
    variable: ScalarType, start: Expression, stop: Expression, step: Expression, first: int = 0
) -> bool:
    """Return whether ``counter < stop`` and ``counter + step`` never pass 2⁶³ − 1.

    The counter starts up to `first` behind `start`.  Steps that are known at run time only might be 0 or less.
    """
    if not isinstance(step, int) or step < 1:
        return False
    if variable.bits < 64:
        return True
    if isinstance(stop, int) and stop + step <= INDEX.maximum and isinstance(start, int):
        return start + first <= INDEX.maximum
    if variable == U64:
        return False
    if step == 1 and first == 0:
        return True
    return isinstance(start, int) and start < _FAR and max(step, first) <= _SHORT
