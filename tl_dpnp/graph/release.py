"""What a trace may leave behind: stand-ins of arrays and numbers in objects that outlive it.

While a function is traced, lazy arrays stand for the caller's own ones, and traced numbers for plain ones.  Where
the function has put one into a container, an attribute or a variable of an outer scope, what it stands for takes its
place.
"""

from __future__ import annotations

import collections
import functools
import types
from collections.abc import Sequence
from typing import Any

from tl_dpnp.graph.held import references
from tl_dpnp.graph.holders import holders_of, near_holders_of
from tl_dpnp.graph.lazy import LazyArray
from tl_dpnp.graph.trace import Trace
from tl_dpnp.graph.traced_scalars import TRACED, TracedInteger, plain

__all__ = ["is_kept", "release", "restored"]

#: How often holders of holders are looked for: a tuple in a tuple is made anew with what holds it.
_ROUNDS = 8


def restored(trace: Trace, value: Any) -> Any:
    """Return a result with the caller's own arrays and plain numbers for what stands for them."""
    if not is_kept(trace):
        return value
    own = trace.known.by_lazy()
    seen: set[int] = set()

    def restore(value: Any) -> Any:
        kind = type(value)
        if kind is LazyArray:
            return own.get(id(value), value)
        if kind in TRACED:
            return plain(value)
        if id(value) in seen:
            return value
        if kind is tuple or (issubclass(kind, tuple) and hasattr(kind, "_make")):
            parts = [restore(part) for part in value]
            if any(new is not old for new, old in zip(parts, value, strict=True)):
                return tuple(parts) if kind is tuple else kind._make(parts)
        elif kind is list or kind is dict:
            seen.add(id(value))
            for key, part in list(value.items() if kind is dict else enumerate(value)):
                new = restore(part)
                if new is not part:
                    value[key] = new
        return value

    return restore(value)


def release(trace: Trace, roots: Sequence[Any] = ()) -> None:
    """Put the caller's own arrays and plain numbers where stand-ins for them are left; the trace has ended.

    They are looked for near `roots` first.
    """
    counted = _counted(trace)
    if not counted:
        return
    own = trace.known.by_lazy()
    trace.known.forget()
    real = {id(value): plain(value) if type(value) in TRACED else own[id(value)] for value, _ in counted}
    held = [value for value, _ in counted]
    ours: list[Any] = [held, real, own]
    near = near_holders_of(counted, roots) if roots else None
    for _ in range(_ROUNDS):
        ours.append(held)
        found: list[Any] = []
        for holder in holders_of(held) if near is None else near:
            if any(holder is mine for mine in ours) or isinstance(holder, types.FrameType):
                continue
            if isinstance(holder, tuple):
                if id(holder) not in real:
                    real[id(holder)] = _again(holder, real)
                    found.append(holder)
            else:
                _replace(holder, real)
        if not found:
            return
        if near is not None:
            holder = None
            counts = [count - 1 for count in references(found)]  # they are among those found near
            near = near_holders_of([*zip(found, counts, strict=True)], roots)
        held = found


def is_kept(trace: Trace) -> bool:
    """Return whether something outside of the trace still refers to a stand-in."""
    return trace.known.are_held() or (trace.tape.has_traced and bool(kept(trace)))


def kept(trace: Trace) -> list[Any]:
    """Return the stand-ins that something outside of the trace still refers to."""
    return [value for value, _ in _counted(trace)]


def _counted(trace: Trace) -> list[tuple[Any, int]]:
    """Return the stand-ins that something outside of the trace still refers to, with how many references there are."""
    arrays, numbers = trace.known.held(), trace.tape.left()
    if not numbers:
        return arrays
    of_tape = [type(number) is TracedInteger for number in numbers]  # which the tape holds
    counts = [count - own for count, own in zip(references(numbers), of_tape, strict=True)]
    return arrays + [pair for pair in zip(numbers, counts, strict=True) if pair[1] > 0]


def _again(holder: tuple[Any, ...], real: dict[int, Any]) -> tuple[Any, ...]:
    parts = [real.get(id(part), part) for part in holder]
    kind: Any = type(holder)
    return kind._make(parts) if hasattr(kind, "_make") else tuple.__new__(kind, parts)


def _replace(holder: Any, real: dict[int, Any]) -> None:
    """Put what is real where stand-ins are in one object."""
    if isinstance(holder, list | collections.deque):
        for place, part in enumerate(holder):
            if id(part) in real:
                holder[place] = real[id(part)]
    elif isinstance(holder, dict):
        items = list(holder.items())
        moved = any(id(key) in real for key in holder)
        if moved:
            holder.clear()  # all are put in anew, in their order
        for key, part in items:
            if moved or id(part) in real:
                holder[real.get(id(key), key)] = real.get(id(part), part)
    elif isinstance(holder, set):
        for part in [part for part in holder if id(part) in real]:
            holder.remove(part)
            holder.add(real[id(part)])
    elif isinstance(holder, types.CellType):
        holder.cell_contents = real.get(id(holder.cell_contents), holder.cell_contents)
    elif isinstance(holder, types.FunctionType):
        if id(holder.__defaults__) in real:
            holder.__defaults__ = real[id(holder.__defaults__)]
    elif isinstance(holder, functools.partial):
        state: Any = holder.__reduce__()[2]
        partial: Any = holder
        partial.__setstate__(tuple(real.get(id(part), part) for part in state))
    else:
        if isinstance(holder, BaseException) and id(holder.args) in real:
            holder.args = real[id(holder.args)]
        _replace_attributes(holder, real)


def _replace_attributes(holder: Any, real: dict[int, Any]) -> None:
    values = getattr(holder, "__dict__", None)
    if type(values) is dict:
        _replace(values, real)
    for base in type(holder).__mro__:
        for member in vars(base).values():
            if isinstance(member, types.MemberDescriptorType) and base.__module__ != "builtins":
                try:
                    value = member.__get__(holder)
                except AttributeError:
                    continue
                if id(value) in real:
                    member.__set__(holder, real[id(value)])
