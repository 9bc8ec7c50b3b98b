"""Which objects refer to some values: first looked for near where those were used, then among all that there are.

Going through all objects takes 10 ns for each, 30 ms in a program with three million; it is spared where as many
references were found as there are.
"""

from __future__ import annotations

import builtins
import collections
import gc
import types
from collections.abc import Sequence
from typing import Any

from tl_dpnp.errors import FusionWarning, warn
from tl_dpnp.garbage import unfreeze
from tl_dpnp.graph.trace import Trace
from tl_dpnp.graph.traced_scalars import ScalarTape

__all__ = ["holders_of", "near_holders_of"]

#: Objects that are looked into near a place.
_MOST = 2000
#: Objects with nothing in them that a function could have put there.  References of a trace and its tape, which frames
#: of an error lead to, are in no count.
_CLOSED = (type, types.ModuleType, types.CodeType, str, bytes, int, float, complex, Trace, ScalarTape)


def holders_of(values: Sequence[Any]) -> list[Any]:
    """Return what refers to values, which the garbage collector does not say of objects that are frozen."""
    if unfreeze():  # and not frozen again: what was made since would never be collected
        warn("gc.unfreeze() was called: a fused function has put arguments or numbers into objects, which are looked "
             "for among all that there are, and not found where gc.freeze() has put them", FusionWarning)
    return gc.get_referrers(*values)


def near_holders_of(counted: Sequence[tuple[Any, int]], roots: Sequence[Any]) -> list[Any] | None:
    """Return what refers to values, each given with how often, if all of it can be reached from `roots` nearby.

    What an object refers to is what it tells the garbage collector: never more than it holds, since the collector would
    free what others hold (CPython's "Supporting Cyclic Garbage Collection").  So nothing is left where all is found.
    """
    missing = {id(value): count for value, count in counted}
    left = sum(missing.values())
    queue, seen = collections.deque(roots), {id(counted), *missing}
    holders = []
    for _ in range(_MOST):
        if left <= 0 or not queue:
            break
        holder = queue.popleft()
        if id(holder) in seen or isinstance(holder, _CLOSED):
            continue
        seen.add(id(holder))
        if isinstance(holder, types.FrameType):
            seen.update((id(holder.f_globals), id(holder.f_builtins)))
        elif isinstance(holder, types.FunctionType):
            seen.update((id(holder.__globals__), id(vars(builtins))))
        parts = gc.get_referents(holder)
        if isinstance(holder, types.FrameType):
            # Until Python 3.10 frames refer to those that called them, and so on to all that the program has.
            parts = [part for part in parts if part is not holder.f_back]
        references = sum(id(part) in missing for part in parts)
        if references:
            holders.append(holder)
            left -= references
        queue.extend(reversed(parts))  # what was added last, first
    return None if left > 0 else holders
