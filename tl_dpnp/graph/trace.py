"""Recording: what happens between dpnp code that runs and the steps of a plan.

A `Trace` holds the registers and steps of one run of a function.  Operations on lazy arrays add nodes to the graph;
when a value is needed in memory, the graph so far becomes kernels, which run at once and are remembered as steps.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tl_dpnp.graph.breaks import Break, NotFused, break_here, user_frame
from tl_dpnp.graph.calls import Template
from tl_dpnp.graph.extents import base_of, extent_in, is_reversed
from tl_dpnp.graph.functions import TAKE_NUMBERS
from tl_dpnp.graph.held import HeldArrays
from tl_dpnp.graph.in_place import safe_in_place
from tl_dpnp.graph.known_arrays import KnownArrays
from tl_dpnp.graph.lazy import LazyArray
from tl_dpnp.graph.memory_order import in_order_of, in_order_of_dpnp
from tl_dpnp.graph.memrefs import fits_memref
from tl_dpnp.graph.nodes import (
    Accumulate,
    Array,
    Assemble,
    ComplexParameter,
    Contract,
    Eliminate,
    Map,
    Node,
    Parameter,
    Reduce,
    Take,
    topological,
)
from tl_dpnp.graph.own_memory import give_arrays, give_each_memory_of_its_own
from tl_dpnp.graph.partition import substitute
from tl_dpnp.graph.placeholders import may_have_effects, stand_in
from tl_dpnp.graph.plan import (
    AllocateStep,
    CallStep,
    Place,
    Registers,
    Step,
    array_at,
)
from tl_dpnp.graph.planning import Planned, allocation, kernel_steps, requests_for, work_groups_on
from tl_dpnp.graph.trace_cache import TraceCache
from tl_dpnp.graph.traced_scalars import GIVEN, SILENT, TRACED, TRACED_COMPLEX, TRACED_INTEGERS, ScalarTape
from tl_dpnp.graph.varying import Choice, Varying
from tl_dpnp.runtime.array_package import (
    Content,
    array_around,
    array_facts,
    common_kind,
    content_of,
    element_strides_of,
    first_element,
    is_writable,
    viewed,
    xp,
)
from tl_dpnp.runtime.progress import Compiling

__all__ = ["Trace", "active_trace", "fusable", "this_thread"]


class _ThisThread(threading.local):
    """What belongs to one thread: the trace that it records into."""

    trace: Trace | None = None


this_thread = _ThisThread()

#: Functions whose kernels are given floats, of which integers are a part.
_TAKE_FLOATS = ("power", "where")


def active_trace() -> Trace | None:
    """Return the trace that this thread records into."""
    return this_thread.trace


def fusable(dtype: np.dtype[Any]) -> bool:
    """Return whether kernels compute with a dtype."""
    return dtype.kind in "biu" or dtype.char in "efdFD"


class Trace:
    """The recording of one run of a function.

    `refuse` is given each break before what it names is done, and may raise an error.  In a `rehearsal` other arrays
    stand for those that exist.  `left` says why a function was not traced at all.  `operations` are the names of what
    was recorded; `sizes_are_read` once somebody has looked at the shape of a lazy array, and `axes_read` has the axes
    whose sizes somebody has looked at one by one; `planned` is the graph that all steps come from, if it is one.
    """

    interceptor: Any = None
    observed = True
    ended = rehearsal = False
    refuse: Callable[[Break], None] | None = None
    left: Break | None = None
    compilations = 0
    varying: Varying | None = None
    sizes_are_read = False
    planned: Planned | None = None
    _outside = 0
    _outer: Trace | None = None

    def __init__(self, cache: TraceCache | None = None, name: str = "a block") -> None:
        self.cache = cache or TraceCache()
        self.name = name
        self.registers: Registers = []
        self.steps: list[Step] = []
        self.breaks: list[Break] = []
        self.tape = ScalarTape()
        self.origins: dict[Node, tuple[str, str, int]] = {}
        self.choices: list[Choice] = []
        self.dynamic: list[str] = []
        self.static: dict[str, str] = {}
        self.operations: set[str] = set()
        self.axes_read: list[tuple[Node, int]] = []
        self._lazies = HeldArrays()
        self.known = KnownArrays()
        self._dirty: list[Any] = []

    @functools.cached_property
    def compiling(self) -> Compiling:
        """What has been compiled so far; most traces compile nothing."""
        return Compiling(f"tl_dpnp: compiling {self.name}")

    # --- being active ------------------------------------------------------------------------------------------------

    def __enter__(self) -> Trace:
        state = this_thread
        self._outer, state.trace = state.trace, self
        return self

    def __exit__(self, *exception: object) -> None:
        this_thread.trace = self._outer

    # --- lazy arrays -------------------------------------------------------------------------------------------------

    def argument(self, array: Any, facts: Any = None) -> Any:
        """Return the lazy array for an array that exists; the same one for the same array.

        `facts` are what `keys.array_facts` gives of it, where that is known.
        """
        known = self.known.lazy_of(array)
        if known is not None:
            return known
        usm = array if isinstance(array, Content) else content_of(array)
        usm = stand_in(usm) if self.rehearsal else usm
        self.registers.append(usm)
        lazy = self._in_memory(usm, len(self.registers) - 1, facts)
        self.known.add(array, lazy)
        return lazy

    def _in_memory(self, usm: Any, slot: int, facts: Any = None) -> Any:
        node, usm_type, queue = self.cache.in_memory(usm, slot, facts)
        if self._dirty and any(map(self._same_memory(node), (lazy._target for lazy in self._dirty))):
            self.write_back()  # who reads this array sees what was written to the other one
        return self.lazy(node, usm_type, queue)

    def register(self, slot: int) -> Any:
        """Return a lazy array for what a step has put into a register."""
        return self._in_memory(self.registers[slot], slot)

    def lazy(self, node: Node, usm_type: str, queue: Any, base: Any = None) -> Any:
        """Return a new lazy array; a view shares the storage of its base."""
        result = LazyArray(self, node, usm_type, queue, object() if base is None else base._storage)
        self._lazies.add(result)
        if self.observed and type(node) is not Array:
            frame = user_frame()
            label = getattr(node, "kind", type(node).__name__.lower())
            self.origins[node] = label, frame.f_code.co_filename, frame.f_lineno
        if self._outside:
            self.materialize([result])
        return result

    def repeat(self, name: str, arguments: Sequence[Any]) -> Any:
        """Return the result of an operation if that needs no more than to be looked up, else None."""

    def record(
        self, name: str, recorder: Callable[..., Any], arguments: Sequence[Any], keywords: dict[str, Any]
    ) -> Any:
        """Call a recorder, or return what it has recorded before for the same operation."""
        if self.observed:
            self.operations.add(name)
        if name not in TAKE_NUMBERS:  # sizes, axes and exponents: a plan is made for their values
            kinds = TRACED_INTEGERS if name in _TAKE_FLOATS else SILENT
            arguments, keywords = self.settled(arguments, kinds), self.settled(keywords, kinds)
        if self._dirty:  # what is captured later writes back what a node that was asked for before still reads
            self._capture_all((*arguments, *keywords.values()))
        if keywords and keywords.get("out") is not None:
            return recorder(self, *arguments, **keywords)
        if self._dirty or self._outside or (found := self.cache.key_of(self.tape, name, arguments, keywords)) is None:
            return in_order_of_dpnp(self, name, recorder, arguments, keywords)
        key, arguments = found
        entry = self.cache.results.get(key)
        if entry is not None:
            node, usm_type, queue, base = entry
            return self.lazy(node, usm_type, queue, None if base is None else arguments[base])
        before = self._progress()
        result = in_order_of_dpnp(self, name, recorder, arguments, keywords)
        self._remember(key, arguments, result, before)
        return result

    def _capture_all(self, value: Any) -> None:
        if isinstance(value, list | tuple):
            for part in value:
                self._capture_all(part)
        elif isinstance(value, xp.ndarray) and type(value) is not LazyArray:
            self.capture(value)

    def settled(self, value: Any, kinds: Collection[type] = SILENT) -> Any:
        """Return arguments with plain numbers in the place of traced ones of some kinds."""
        return self.tape.fix_all(value, kinds) if self.tape.has_silent else value

    def _progress(self) -> tuple[int, ...]:
        """Return how far the trace has come in everything that a recorder may add to besides nodes."""
        return len(self.registers), len(self.steps), len(self.breaks), len(self.tape.values)

    def _remember(self, key: Any, arguments: Sequence[Any], result: Any, before: tuple[int, ...]) -> None:
        """Keep a recorded operation that did nothing else."""
        if type(result) is not LazyArray or result._trace is not self or self._dirty or self._progress() != before:
            return
        if any(result is value for value in arguments):
            return
        base = next((number for number, value in enumerate(arguments)
                     if type(value) is LazyArray and value._storage is result._storage), None)
        self.cache.keep(key, (result._node, result._usm_type, result._queue, base))

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Let code run that is not followed: all is in memory before, and what it records is computed at once."""
        self.compute_all()
        self._outside += 1
        try:
            yield
        finally:
            self._outside -= 1

    def live(self) -> list[Any]:
        """Return the lazy arrays that somebody still holds."""
        return self._lazies.live()

    def operand(self, value: Any) -> tuple[Node, str | None, Any]:
        """Return the node of an operand, its USM type and its queue; raises `NotFused` for what has none."""
        if type(value) is LazyArray and value._trace is not self:
            value = array_around(value._array_obj)
        if type(value) is LazyArray:
            node = value._node
            if not fusable(node.dtype):
                raise NotFused(f"kernels do not compute with {node.dtype}")
            if isinstance(node, Array) and not fits_memref(node):
                raise NotFused("the axes of the array interleave or overlap in memory", "copy the array first")
            return node, value._usm_type, value._queue
        if isinstance(value, xp.ndarray | Content):
            return self.operand(self.capture(value))
        if type(value) in GIVEN:  # all values of it share a kernel
            value = self.tape.fixed_number(value)
        if type(value) in TRACED:
            position = self.tape.operand(value) if value.tape is self.tape else None
            if position is not None:
                kind = ComplexParameter if type(value) in TRACED_COMPLEX else Parameter
                return self.cache.parameter(position, kind), None, None
            value = self.tape.fix(value)
            if type(value) in GIVEN:
                return self.operand(value)
        if isinstance(value, bool | int | float | np.bool_ | np.integer | np.floating):
            plain = value.item() if isinstance(value, np.generic) else value
            return self.cache.number(plain), None, None
        raise NotFused(f"an operand is a {type(value).__name__}")

    def capture(self, array: Any) -> Any:
        """Return the lazy array for one that is no argument and was made by none of the steps."""
        known = self.known.lazy_of(array)
        if known is not None:
            return known
        if self.ended:
            return array
        self.write_back()
        if self.interceptor is not None:
            return self.interceptor.captured(array)
        return self.argument(array)

    def placed(self, results: Sequence[tuple[Node, str | None, Any]]) -> tuple[Any, Any]:
        """Return the USM type and the queue of a result of these operands."""
        arrays = [(usm, queue) for _, usm, queue in results if queue is not None]
        if not arrays:
            raise NotFused("no operand is an array")
        usm_type, queue = arrays[0]
        for other, another in arrays[1:]:
            if another is not queue and another != queue:
                raise NotFused("the arrays are on different queues")
            if other != usm_type:
                usm_type = common_kind((str(usm_type), str(other)))
        return usm_type, queue

    # --- computing ---------------------------------------------------------------------------------------------------

    def materialize(self, lazies: Iterable[Any]) -> None:
        """Have the values of lazy arrays in memory: their nodes become `Array` nodes."""
        if self._dirty:
            self.write_back()
        lazies = [lazy for lazy in lazies if type(base_of(lazy._node)) is not Array]
        while lazies:
            if len(lazies) > 1:
                give_each_memory_of_its_own(self, lazies)
            bases = [(lazy, base_of(lazy._node)) for lazy in lazies]
            wanted = {base: lazy for lazy, base in bases if not isinstance(base, Array)}
            first = next(iter(wanted.values()))
            usm_type, queue = first._usm_type, first._queue
            roots = {base: self._new_array(base, usm_type, queue) for base, lazy in wanted.items()
                     if lazy._usm_type == usm_type and lazy._queue == queue}
            self._run_regions(dict(roots), usm_type, queue)
            self._replace(roots, {base: wanted[base]._storage for base in roots})
            lazies = [] if len(roots) == len(wanted) else lazies

    def compute_all(self) -> None:
        """Have everything in memory that somebody still holds, and written what was assigned."""
        self.write_back()
        self.materialize(self.live())

    def _replace(self, arrays: dict[Node, Array], owners: dict[Node, Any]) -> None:
        """Let all lazy arrays read what has been computed from memory; only the `owners` have it as their own."""
        known = self.cache.replaced.setdefault(tuple(arrays.items()), {})
        for lazy in self.live():
            node = lazy._node
            if not isinstance(node, Array):
                base = base_of(node)
                other = base in arrays and owners[base] is not lazy._storage
                memo = known.get(base if other else None)
                if memo is None:
                    read: dict[Node, Node] = {base: self.cache.copy(arrays[base], 1)} if other else {}
                    memo = known[base if other else None] = {**arrays, **read}
                lazy._node = memo.get(node) or substitute(node, memo, self._renamed)

    def _renamed(self, old: Node, new: Node) -> None:
        self.cache.renamed(old, new)
        if old in self.origins:
            self.origins[new] = self.origins[old]

    def _new_array(self, node: Node, usm_type: str, queue: Any) -> Array:
        self.registers.append(None)
        return self.cache.result(node, len(self.registers) - 1, usm_type, queue)

    def _run_regions(self, roots: dict[Node, Array], usm_type: str, queue: Any) -> None:
        there = tuple(self.registers[array.slot] is None for array in roots.values())
        key = tuple(roots.items()), there, usm_type, queue, len(self.registers)
        known = self.cache.steps.get(key)
        if known is not None:
            steps, registers = known
            self.registers += [None] * registers
            for step in steps:
                self._do(step)
            return
        steps_before, registers_before = len(self.steps), len(self.registers)
        with self.compiling.step():
            self._prepare_regions(roots, usm_type, queue)
        self.cache.steps[key] = tuple(self.steps[steps_before:]), len(self.registers) - registers_before

    def _prepare_regions(self, roots: dict[Node, Array], usm_type: str, queue: Any) -> None:
        empty = {node: array for node, array in roots.items() if node.size == 0}
        if empty:
            self._do(AllocateStep(tuple(allocation(array, usm_type) for array in empty.values()), queue))
        rest = {node: array for node, array in roots.items() if node.size}
        if not rest:
            return
        device = work_groups_on(queue)
        whole = {array.slot: array for array in rest.values()}

        def new_array(node: Node) -> Array:
            array = self._new_array(node, usm_type, queue)
            whole[array.slot] = array
            return array

        registers = len(self.registers)
        requests, choice, graph = requests_for(rest, new_array, device, self._renamed, self.varying)
        if choice is not None:
            self.choices.append(choice)
        if self.observed:
            alone = not self.steps
            self.planned = Planned(rest, graph, requests, device, usm_type, queue, registers) if alone else None
        for step in kernel_steps(requests, whole, usm_type, queue, lambda slot: self.registers[slot] is not None):
            self.compilations += step.report.compiled
            self.compiling.done = self.compilations
            self._do(step)

    def _do(self, step: Step) -> None:
        try:
            step.run(self.registers, self.tape.values)
        except Exception as error:  # it is no part of the plan: the function may go on without it
            self.note(str(step.report) if isinstance(step, CallStep) else "a kernel",
                      f"it raised {type(error).__name__}, and might not with other values", again=True)
            raise
        self.steps.append(step)

    def place_of(self, lazy: Any) -> Place:
        """Return where a lazy array lies, computing it if need be."""
        if not isinstance(lazy._node, Array):
            self.materialize([lazy])
        node = lazy._node
        return Place(node.slot) if self.cache.is_whole(node) else self.view_of(lazy)

    def view_of(self, lazy: Any) -> Place:
        """Return where a lazy array lies, as a view of its register, even if it is all of that."""
        node = lazy._node
        return Place(node.slot, node.dtype, node.shape, node.strides, node.offset)

    def array_of(self, lazy: Any) -> Any:
        """Return the content of a lazy array, computed and complete."""
        if self.cache.is_whole(lazy._node):
            return self.registers[lazy._node.slot]
        return array_at(self.place_of(lazy), self.registers)

    # --- writing to memory -------------------------------------------------------------------------------------------

    def assign(self, target: Any, node: Node) -> None:
        """Give `target`, an array of the same shape, new contents: an in-place operation or ``out=``.

        Arrays in memory are written when something else could see it, at the latest at the end of the trace.
        """
        self.operations.add("assignment")
        computed = isinstance(node, Map | Contract | Reduce | Assemble | Accumulate | Take | Eliminate)
        if node.dtype != target.dtype or not computed:
            node = Map(node.shape, target.dtype, "astype", (node,), target.dtype)
        others = [lazy for lazy in self.live() if lazy is not target and lazy._storage is target._storage]
        value = self._holder(node, target)  # it follows where memory is written that `node` would read
        if others:
            self.materialize([target])
        if self.is_dirty(target) and self._readers(target._target, (target, value)):
            self.write_back()
        node = value._node
        if not isinstance(target._node, Array) or self.is_dirty(target):
            target._node = node if self.is_dirty(target) else in_order_of(target, node)
            return
        self._flush_readers(target, value)
        node = value._node
        if isinstance(node, Array):
            node = Map(node.shape, target.dtype, "positive", (node,), target.dtype)
        target._target = target._node
        target._node = node
        self._dirty.append(target)
        if others or self._outside or self._overlapped(target):
            self.write_back()

    def _holder(self, node: Node, target: Any) -> Any:
        """Return a lazy array of a node for as long as it is worked with."""
        result = LazyArray(self, node, target._usm_type, target._queue, object())
        self._lazies.add(result)
        return result

    def is_writable(self, lazy: Any) -> bool:
        """Return whether an array may be written: arrays that existed before may be read-only."""
        node = base_of(lazy._node)
        held = self.registers[node.slot] if isinstance(node, Array) else None
        return held is None or is_writable(held)

    def is_dirty(self, lazy: Any) -> bool:
        """Return whether an in-place operation on an array in memory is still to be written."""
        return any(dirty is lazy for dirty in self._dirty)

    def write_back(self) -> None:
        """Write what in-place operations have computed to the arrays that they belong to."""
        while self._dirty:
            target = self._dirty.pop(0)
            array, node = target._target, target._node
            target._node = array
            del target._target
            if array.size == 0:
                continue
            is_plain = fits_memref(array) and not is_reversed(array)
            if not is_plain or not safe_in_place(node, array, self._same_memory(array)):
                temporary = {node: self._new_array(node, target._usm_type, target._queue)}
                self._run_regions(dict(temporary), target._usm_type, target._queue)
                self._replace(temporary, {node: None})
                node = Map(array.shape, array.dtype, "positive", (temporary[node],), array.dtype)
            self._run_regions({node: array}, target._usm_type, target._queue)
            self._replace({node: array}, {node: target._storage})

    def _same_memory(self, array: Array) -> Callable[[Array], bool]:
        """Return whether another array may share memory with `array`."""
        low, high = extent_in(array, self.registers[array.slot])

        def overlaps(other: Array) -> bool:
            other_low, other_high = extent_in(other, self.registers[other.slot])
            return other_low < high and low < other_high

        return overlaps

    def _overlapped(self, target: Any) -> bool:
        """Return whether another lazy array that is in memory shares it with `target`."""
        overlaps = self._same_memory(target._target)
        return any(isinstance(lazy._node, Array) and overlaps(lazy._node)
                   for lazy in self.live() if lazy is not target)

    def _readers(self, array: Array, but: Sequence[Any]) -> list[Any]:
        """Return the lazy arrays that are still to be computed and read the memory of an array."""
        overlaps = self._same_memory(array)
        return [
            lazy for lazy in self.live()
            if not any(lazy is other for other in but) and not isinstance(lazy._node, Array) and any(
                isinstance(node, Array) and self.registers[node.slot] is not None and overlaps(node)
                for node in topological((lazy._node,))
            )
        ]

    def _flush_readers(self, target: Any, value: Any = None) -> None:
        """Compute what still has to read the old contents of `target`, but for `value`, its new ones."""
        waiting = self._readers(target._node, (target, value))
        dirty = [lazy for lazy in waiting if self.is_dirty(lazy)]
        if dirty:
            self.write_back()
        self.materialize([lazy for lazy in waiting if not any(lazy is done for done in dirty)])

    # --- leaving the graph -------------------------------------------------------------------------------------------

    def note(self, what: str, reason: str, hint: str = "", again: bool = False) -> None:
        """Remember a break at the user's line."""
        self.breaks.append(break_here(what, reason, hint, again))
        if self.refuse is not None:
            self.refuse(self.breaks[-1])

    def escape(self, lazy: Any) -> Any:
        """Return the memory of a lazy array to code that is not recorded, which may read and write it."""
        self.write_back()
        self.materialize([lazy])
        self._flush_readers(lazy)
        return self.array_of(lazy)

    def renew_register(self, usm: Any) -> None:
        """Put a view of all of an array into the register that has it, if there is one: the array is going to change.
        """
        for slot, held in enumerate(self.registers):
            if held is usm:
                self.registers[slot] = viewed(
                    usm, usm.shape, usm.dtype, element_strides_of(usm), first_element(array_facts(usm)))

    def given_away(self, lazy: Any) -> Any:
        """Return a dpnp array on the memory of a lazy one, to which nobody sees who reads or writes: all that is
        recorded from now on is computed at once.
        """
        array = array_around(self.escape(lazy))
        self._outside += 1
        return array

    def call(self, function: Callable[..., Any], name: str, arguments: Sequence[Any], keywords: dict[str, Any]) -> Any:
        """Call dpnp itself on the arrays behind lazy arguments, as a step of the plan; returns lazy results."""
        if self.rehearsal and may_have_effects(name, [*arguments, *keywords.values()]):
            self.note(name, "it may do more than compute", "warm up a function without it", again=True)
        self.write_back()
        template = Template(self, name, arguments, keywords)
        for lazy in template.lazies:
            self._flush_readers(lazy)
        step = CallStep(function, template.build, template.keep, report=name)
        self._do(step)
        return template.result()

    # --- the end -----------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Turn all lazy arrays that are left into ordinary ones."""
        self.compute_all()
        give_arrays(self)
        self.settle_all()

    def settle_all(self) -> None:
        """Turn all lazy arrays that are left, whose values are in memory, into ordinary ones, and end the trace."""
        for lazy in self.live():
            self.settle(lazy)
        self.end()

    def let_go(self) -> None:
        """Forget the lazy arrays and the traced numbers themselves, which nobody is to look for any more."""
        self._lazies.clear()
        self.tape.let_go()

    def end(self) -> None:
        """Let what outlives the trace run as it is."""
        self.ended = True
        if self.interceptor is not None:
            self.interceptor.end()

    def settle(self, lazy: Any) -> None:
        """Turn a lazy array whose value is in memory into a plain `dpnp.ndarray`."""
        lazy.settle(self.array_of(lazy))
