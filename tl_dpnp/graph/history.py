"""What became of the calls of one fused function: counts, logs, warnings, and reasons for each new trace."""

from __future__ import annotations

import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tl_dpnp.errors import FusionWarning, warn
from tl_dpnp.graph.breaks import Break, listing, refusal
from tl_dpnp.graph.keys import CallKey, without_sizes
from tl_dpnp.graph.retraces import HINTS_OF_KINDS, CallKind, Change, ParameterNames, between
from tl_dpnp.graph.specialization import Specialization
from tl_dpnp.graph.statistics import FusionStats
from tl_dpnp.graph.trace import Trace
from tl_dpnp.graph.varying import NamedArray
from tl_dpnp.logs import is_wanted, log
from tl_dpnp.records import dataclass
from tl_dpnp.runtime.package_name import NAME

__all__ = ["History"]

#: Calls among which the one is looked for that a new one differs least from, and those that are remembered.
_COMPARED, _MOST_KINDS = 32, 512
#: Traces because something was of another kind after which it is said that it keeps changing.
_MANY_KINDS = 64


@dataclass(frozen=True)
class _Seen:
    """A trace that was made: its number, counted from 1, the call, and the plan if there was one and it is there."""

    number: int
    kind: CallKind
    plan: Callable[[], Specialization | None]


class History:
    """The calls of the function `name`.

    `traces` counts all of them, `rehearsals` those of `warmup`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.traces = self.rehearsals = self.dpnp_calls = 0
        self.compilations = self.kernels = 0
        self.seconds = 0.0
        self._kinds: OrderedDict[Any, _Seen] = OrderedDict()
        self._varied: dict[str, dict[str, str]] = {}
        self._said: set[Any] = set()
        self._changed: Counter[str] = Counter()
        self._shapes: dict[str, dict[tuple[int, ...], None]] = {}
        self.dynamic: dict[str, None] = {}
        self.static: dict[str, str] = {}
        self._last_shapes: dict[tuple[Any, ...], dict[str, tuple[int, ...]]] = {}
        self._served: OrderedDict[tuple[Any, ...], bool] = OrderedDict()

    def stats(self, calls: Sequence[int], forgotten: int) -> FusionStats:
        """Return the counts; `calls` are those of the plans that are there, `forgotten` those of all others."""
        hits, traced = forgotten + sum(calls), self.traces - self.rehearsals
        return FusionStats(
            hits + traced + self.dpnp_calls, hits, traced, self.dpnp_calls, self.traces, len(calls), self.compilations,
            self.kernels, round(self.seconds, 3), tuple(self.dynamic),
        )

    # --- traces ------------------------------------------------------------------------------------------------------

    def differing(
        self, key: CallKey, arguments: Sequence[Any], keywords: dict[str, Any], names: ParameterNames
    ) -> Change | None:
        """Return why the last plan for calls with the same key does not fit this one, None if there is no such plan."""
        seen = self._kinds.get(tuple(key.parts))
        plan = None if seen is None else seen.plan()
        return None if plan is None else plan.misfit(key, arguments, keywords, names)

    def is_served(self, parts: Sequence[Any]) -> bool:
        """Return whether kernels are likely there for a call: the last one that differs in sizes alone compiled none,
        or was given sizes.
        """
        return self._served.get(without_sizes(parts), False)

    def sized(
        self, parts: Sequence[Any], trace: Trace, kind: CallKind | None, named: Mapping[int, NamedArray]
    ) -> None:
        """Take in what the kernels of a trace are given because it varies; `named` are arrays by their registers."""
        if kind is None and not trace.choices:  # it has been traced before
            return
        found = [choice.described(named) for choice in trace.choices]
        trace.dynamic = list(dict.fromkeys(name for dynamic, _ in found for name in dynamic))
        trace.static = {name: reason for _, static in found for name, reason in static.items()}
        key = without_sizes(parts)
        shapes = {} if kind is None else kind.shapes()
        is_another = any(choice.is_new and choice.is_static for choice in trace.choices)
        if kind is not None and trace.compilations and is_another:
            for name, shape in self._last_shapes.get(key, {}).items():
                for axis, (before, after) in enumerate(zip(shape, shapes.get(name, ()), strict=False)):
                    if before != after:
                        trace.static.setdefault(f"axis {axis} of {name}", "the function does something else for it")
        self.dynamic |= dict.fromkeys(trace.dynamic)
        self.static |= trace.static
        if kind is None:  # it has been traced before
            return
        self._last_shapes[key] = shapes
        self._served[key] = not trace.compilations or any(choice.sizes for choice in trace.choices)
        self._served.move_to_end(key)
        while len(self._served) > _MOST_KINDS:
            self._last_shapes.pop(self._served.popitem(last=False)[0], None)

    def traced(
        self, parts: Any, trace: Trace, kind: CallKind | None, plan: Specialization | None, change: Change | None
    ) -> None:
        """Take in a trace of a call with a key: its kind if it was an observed one, its plan if it has left one.

        `change` is what `differing` has found.
        """
        if kind is None and not trace.compilations:
            return
        self.compilations += trace.compilations > 0
        self.kernels += trace.compilations
        self.seconds += trace.compiling.seconds
        wanted = is_wanted("recompiles")
        if trace.compilations or wanted:
            seen, changes = self._reasons(parts, kind, change)
            if trace.compilations:
                for name, shape in kind.shapes().items() if kind is not None else ():
                    self._shapes.setdefault(name, {})[shape] = None
                for each in changes:
                    values = self._varied.setdefault(each.what, {})
                    values.update(dict.fromkeys((each.before, each.after), each.hint))
            if wanted and self.traces > 1:
                self._log_retrace(trace, seen, changes)
        if kind is not None:
            self._many_kinds(parts, kind, change)
            self._kinds[parts] = _Seen(self.traces, kind, weakref.ref(plan) if plan is not None else lambda: None)
            self._kinds.move_to_end(parts)
            while len(self._kinds) > _MOST_KINDS:
                self._kinds.popitem(last=False)

    def _many_kinds(self, parts: Any, kind: CallKind, change: Change | None) -> None:
        """Warn once of each argument or variable that keeps changing, so that each call of it needs a trace."""
        last = next(reversed(self._kinds.values()), None)
        changes = [] if last is None or parts in self._kinds else between(last.kind, kind)
        for each in changes if change is None else [change]:
            self._changed[each.what] += each.hint in HINTS_OF_KINDS
            if self._changed[each.what] == _MANY_KINDS and each.what not in self._said:
                self._said.add(each.what)
                warn(f"{self.name} has been traced {_MANY_KINDS} times because {each}: {each.hint}, so that calls need "
                     "no trace", FusionWarning)

    def _reasons(self, parts: Any, kind: CallKind | None, change: Change | None) -> tuple[_Seen | None, list[Change]]:
        """Return what differs, and the trace that it differs from."""
        seen = self._kinds.get(parts)
        if kind is None:
            return seen, [Change("what the function does", "as in its first trace", "something new")]
        if seen is not None:
            return seen, [change or Change("its plan", "there", "forgotten: there were too many")]
        others = [self._kinds[key] for key in list(self._kinds)[-_COMPARED:]]
        seen = min(reversed(others), key=lambda other: len(kind.differing(other.kind)), default=None)
        return seen, [] if seen is None else between(seen.kind, kind)

    def _log_retrace(self, trace: Trace, seen: _Seen | None, changes: Sequence[Change]) -> None:
        kernels = "1 kernel" if trace.compilations == 1 else f"{trace.compilations or 'no'} kernels"
        text = "; ".join(map(str, changes)) or "nothing that is known differs"
        beside = "" if seen is None else f" (beside trace {seen.number})"
        if trace.compilations and trace.dynamic:
            text += f"; sizes that kernels are given: {', '.join(trace.dynamic)}"
        if trace.compilations:
            text += "".join(f"; {name} is known to kernels: {reason}" for name, reason in trace.static.items())
        log("recompiles", [f"{self.name}: trace {self.traces}, {kernels} compiled: {text}{beside}"])

    def many_values(self, count: int, names: Sequence[str]) -> None:
        """Warn once that there are plans for many values of numbers."""
        if "values" not in self._said:
            self._said.add("values")
            names = [name.removeprefix("argument ") for name in dict.fromkeys(names)]
            warn(f"{self.name} has been traced for {count} values of {', '.join(names)}: it looks at the value, as a "
                 "size, an index or in a comparison, so that each needs a plan of its own", FusionWarning)

    # --- breaks ------------------------------------------------------------------------------------------------------

    def report(self, breaks: Sequence[Break], strict: bool, warned: bool) -> None:
        """Log breaks that are new; with `strict` raise `UnsupportedError`, with `warned` warn."""
        new = [each for each in breaks if each not in self._said]
        if new:
            self._said.update(new)
            log("breaks", [f"{self.name}: {line}" for line in listing(new)])
        if breaks and strict:
            raise refusal(self.name, breaks)
        if breaks and warned:
            warn(str(refusal(self.name, breaks)), FusionWarning)

    def left(self, reason: str, hint: str, strict: bool, place: tuple[str, int]) -> Break:
        """Take in that a call runs in dpnp as it is, and why; warns once, or raises `UnsupportedError` if `strict`."""
        found = Break(self.name, reason, *place, hint, True)
        if strict:
            raise refusal(self.name, [found])
        self.dpnp_calls += 1
        if found not in self._said:
            self._said.add(found)
            log("breaks", [f"{self.name}: {found}"])
            warn(f"{self.name} runs in {NAME} as it is, without fusion: {reason}; {hint}", FusionWarning)
        return found

    def _varying_axes(self) -> Iterator[str]:
        """Yield the axes of arguments that had many sizes in traces that compiled, with some of the sizes."""
        for name, shapes in self._shapes.items():
            if len({len(shape) for shape in shapes}) == 1:
                for axis, sizes in enumerate(zip(*shapes, strict=True)):
                    known = list(dict.fromkeys(sizes))
                    if len(known) > 1:
                        some = ", ".join(map(str, known[:6])) + (", …" if len(known) > 6 else "")
                        yield f"axis {axis} of {name} had the sizes {some}"

    def limit(self, limit: int) -> tuple[str, str]:
        """Return that the function was compiled too often as a reason, and what to do about it."""
        texts = list(self._varying_axes())
        texts += [f"{what} was of {len(values)} kinds ({', '.join(list(values)[:4])}{', …' if len(values) > 4 else ''})"
                 for what, values in self._varied.items()]
        texts += [f"{name} is known to kernels because {why}" for name, why in self.static.items()]
        named: dict[str, list[str]] = {}
        for what, values in self._varied.items():
            for hint in filter(None, dict.fromkeys(values.values())):
                named.setdefault(hint, []).append(what)
        hints = [f"{' and '.join(whats)}: {hint}" for hint, whats in named.items()]
        reason = f"it has been compiled {self.compilations} times, and {', '.join(texts) or 'in other ways each time'}"
        return reason, "; ".join([*hints, f"or raise recompile_limit={limit}"])
