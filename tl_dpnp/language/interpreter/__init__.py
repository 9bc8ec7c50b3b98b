"""A NumPy interpreter of the IR: the meaning of the language as a program, and the user's debugger.

It computes what every other target must compute; it is written to be plain, not fast.  What the language leaves
undefined is defined here, so that a run always ends in a result or in a `TLError`:

- An access outside a memref, an expand that does not divide, a fuse of modes that are not adjacent in memory and
  sizes that do not match in linear algebra always raise.
- Integer division by zero gives 0, a shift by the width or more shifts every bit out, and a float outside an
  integer's range casts to the nearest end of it (NaN to 0).  With ``debug=True`` the three raise.
- Temporary memory starts as NaN, or as the byte pattern 0xCB for integers and true for i1, and is set to the same
  again at its ``lifetime_stop``.

Floating-point linear algebra accumulates in a wider type and rounds once (see `algebra`); integers wrap.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tl_dpnp.language.interpreter.machine import interpret

__all__ = ["interpret"]


def __getattr__(name: str) -> Any:
    """The machine is imported when it is asked for: to fold constants takes the meaning of scalars only."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tl_dpnp.language.interpreter import machine

    return getattr(machine, name)
