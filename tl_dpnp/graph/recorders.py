"""What all recorders share: their table, and the step from operands to a new lazy array."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tl_dpnp.graph.breaks import NotFused
from tl_dpnp.graph.lazy import LazyArray
from tl_dpnp.graph.nodes import Node, Number, Parameter
from tl_dpnp.graph.trace import Trace, fusable
from tl_dpnp.graph.traced_scalars import plain
from tl_dpnp.runtime.array_package import xp
from tl_dpnp.runtime.package_name import NAME

__all__ = [
    "RECORDERS", "Operand", "Recorder", "array_axis", "array_operands", "check_arrays", "descriptor", "only_defaults",
    "recorded", "records", "result_array", "static_integer", "viewed",
]

Recorder = Callable[..., Any]

#: What `Trace.operand` returns: the node, the USM type and the queue of an operand, the last two None for a number.
Operand = tuple[Node, str | None, Any]

#: The recorders by dpnp's names; ``linalg.`` in front for those of that module.
RECORDERS: dict[str, Recorder] = {}


def records(*names: str) -> Callable[[Recorder], Recorder]:
    def register(recorder: Recorder) -> Recorder:
        RECORDERS.update(dict.fromkeys(names, recorder))
        return recorder

    return register


def recorded(trace: Trace, name: str, *arguments: Any, **keywords: Any) -> Any:
    """Record one function of dpnp, for recorders of functions that consist of others, and return its result."""
    return RECORDERS[name](trace, *arguments, **keywords)


def array_operands(trace: Trace, *values: Any) -> list[Operand]:
    """Return the operands that values are; raises `NotFused` where one is no array."""
    operands = [trace.operand(value) for value in values]
    if any(queue is None for _, _, queue in operands):
        raise NotFused("an operand is no array")
    return operands


def check_arrays(*values: Any) -> None:
    """Raise `NotFused` where a value is no array of dpnp's; unlike `array_operands`, ask for no node."""
    if not all(isinstance(value, xp.ndarray) for value in values):
        raise NotFused("an operand is no array")


def only_defaults(keywords: dict[str, Any], **defaults: Any) -> None:
    """Raise `NotFused` if a keyword has another value than the one that changes nothing."""
    for name, value in keywords.items():
        if name not in defaults or not _is_same(value, defaults[name]):
            raise NotFused(f"the argument {name}= is not fused")


def _is_same(value: Any, default: Any) -> bool:
    """Return whether a value means the default; arrays, which compare element by element, never do."""
    if value is default:
        return True
    same = ("K", "k", "C", "c", None) if default == "K" else (default,)
    return isinstance(value, bool | int | float | str | None) and value in same


def result_array(trace: Trace, node: Node, operands: Sequence[Operand], out: Any = None) -> Any:
    """Return the lazy array of a new node, or `out` after assigning to it."""
    usm_type, queue = trace.placed(operands)
    if not fusable(node.dtype):
        raise NotFused(f"kernels do not compute with {node.dtype}")
    if out is None:
        return trace.lazy(node, usm_type, queue)
    if not isinstance(out, xp.ndarray):
        raise NotFused(f"out= is no {NAME} array")
    target = out if type(out) is LazyArray else trace.capture(out)
    trace.operand(target)
    if not trace.is_writable(target):
        raise NotFused("out= is read-only")
    if target.shape != node.shape or target.dtype != node.dtype or target._queue != queue:
        raise NotFused("out= has another shape, dtype or queue than the result")
    if any(size > 1 and not stride for size, stride in zip(target.shape, target.strides, strict=True)):
        raise NotFused("out= is broadcast")
    trace.assign(target, node)
    return target


def descriptor(node: Node, value: Any) -> Any:
    """Return what stands for an operand where dpnp is asked for a dtype."""
    if isinstance(node, Parameter):
        return plain(value) if isinstance(value, int | complex | np.generic) else 1.0
    if isinstance(node, Number):
        return value if isinstance(value, np.generic) else node.value
    return node.dtype


def array_axis(axis: Any, ndim: int) -> int:
    index = static_integer(axis)
    if not -ndim <= index < ndim:
        raise NotFused("the axis is out of bounds")
    return index % ndim


def static_integer(value: Any) -> int:
    if isinstance(value, xp.ndarray):
        raise NotFused("an array is given for an integer")
    if not isinstance(value, int | np.integer):  # which functions of dpnp take other objects is theirs to say
        raise NotFused(f"{value!r} is no integer")
    return operator.index(value)


def viewed(trace: Trace, x: Any, make: Callable[[Node], Node]) -> Any:
    """Return the view of an array that `make` gives for its node."""
    lazy = x if type(x) is LazyArray else trace.capture(x) if isinstance(x, xp.ndarray) else None
    if lazy is None:
        raise NotFused("an operand is no array")
    if trace.is_dirty(lazy):
        trace.write_back()
    node, usm_type, queue = trace.operand(lazy)
    return trace.lazy(make(node), usm_type or "device", queue, base=lazy)
