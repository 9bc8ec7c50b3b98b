"""Random loops, branches and foreach."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import suppress

from tests.strategies.abstract import Interval, Magnitude, Ref, Retry, Scalar
from tests.strategies.algebra import Algebra
from tests.strategies.memory import Sizes
from tests.strategies.writer import Frame, Written
from tl_dpnp.language import ops
from tl_dpnp.scalars import C64, F64, I8, I16, I64, INDEX, U8, ScalarType

MAX_DEPTH = 3


class Control(Algebra):
    """Writes operations with regions, and the lists of operations inside them."""

    sinks: dict[ScalarType, Ref]

    # --- lists of operations ---

    def statements(self, count: int) -> None:
        """Emit about `count` operations of all sorts into the open region, which is not inside foreach."""
        kinds: list[tuple[Callable[[], object], int]] = [
            (self.linear_algebra, 14), (lambda: self.linear_algebra(temporary=True), 6), (self.view, 3),
            (lambda: self.expression(self.any_type(), 2), 2), (self.foreach, 3),
            (lambda: self.filled(self.any_type(), self.small_shape()), 1),
            (lambda: self.emit(ops.Barrier()), 1), (self.lifetime_stop, 3),
        ]
        if self.features.newer:
            kinds.append((self.accumulate, 1))
        if self.features.work_items:
            kinds.append((self.work_items, 12))
        if self.features.replicated_memory:
            kinds.append((self.replicated_store, 2))
        if self.frame.depth < MAX_DEPTH:
            kinds += [(self.for_loop, 3), (self.branch, 3)]
        self._some(kinds, count)
        self.use_up()

    def replicated_statements(self, count: int) -> None:
        """Emit about `count` operations that may stand inside foreach."""
        kinds: list[tuple[Callable[[], object], int]] = [
            (lambda: self.expression(self.any_type(), 2), 3), (self.view, 1), (self.own_store, 3),
        ]
        if self.frame.depth < MAX_DEPTH + 1:
            kinds += [(self.for_loop, 1), (self.branch, 1)]
        self._some(kinds, count)

    def _some(self, kinds: Sequence[tuple[Callable[[], object], int]], count: int) -> None:
        attempts, weights = [kind for kind, _ in kinds], [weight for _, weight in kinds]
        for _ in range(count):
            with suppress(Retry):
                self.first(self.rng.choices(attempts, weights, k=4))

    def inner_statements(self, count: int) -> None:
        if self.frame.in_foreach:
            self.replicated_statements(count)
        else:
            self.statements(count)

    def work_items(self) -> None:
        """Emit a region that work-items run; defined with those."""
        raise NotImplementedError

    def small_shape(self) -> list[int]:
        sizes = [self.uniform_sizes()[0] for _ in range(self.rng.randint(0, 2))]
        if 0 in sizes:
            raise Retry
        return sizes

    def use_up(self) -> None:
        """Copy to the sinks what the open region computed and nothing used, so that nothing is dead."""
        own = {operation.result.name for operation in self.operations if isinstance(operation, ops.Alloca)}
        for ref in [r for r in self.frame.refs if r.value.name in own]:
            self.attempt(lambda ref=ref: self.drain(ref))
        if not self.features.replicated_memory:
            return
        here = {result.name for operation in self.operations for result in operation.results}
        for scalar in list(self.frame.scalars):
            if isinstance(scalar.operand, ops.Value) and scalar.operand.name in here - self.used:
                self.attempt(lambda scalar=scalar: self._sink(scalar))

    def attempt(self, action: Callable[[], object]) -> None:
        """Do what fits here, or nothing: some complex and inexact values go into no sink."""
        with suppress(Retry):
            self.first([action])

    def _sink(self, value: Scalar, index: Scalar | None = None) -> None:
        """Store a value in the sink of its kind, at `index` or anywhere."""
        kind = C64 if value.type.is_complex else F64 if value.type.mantissa else I64
        if kind not in self.sinks:
            raise Retry
        sink = self.sinks[kind]
        slot = index or self.constant_index(self.rng.randrange(sink.shapes[0][0]))
        column = self.constant_index(self.rng.randrange(sink.shapes[0][1]))
        self.store(self.converted(value, kind), sink, [slot, column])

    def drain(self, ref: Ref) -> None:
        """Copy one line of a temporary to a sink."""
        if ref.order == 0:
            if not self.features.replicated_memory:
                raise Retry
            self._sink(self.element(ref, []))
            return
        mode = self.rng.randrange(ref.order)
        slots = self.sinks[I64].shapes[0][0]
        sizes = ref.sizes(mode)
        stop = self.size_operand(ref, mode) if max(sizes) <= slots else self.constant_index(slots)
        with _Iterations(self, 0, (stop, tuple(min(size, slots) for size in sizes))) as (index,):
            self._sink(self.element(ref, self.indices(ref, mode, index)), index)

    def lifetime_stop(self) -> None:
        """End the lifetime of a temporary that this region allocated."""
        own = {operation.result.name for operation in self.operations if isinstance(operation, ops.Alloca)}
        ref = self.pick([r for r in self.frame.refs if r.value.name in own])
        if self.chance(0.7):
            self.drain(ref)
        self.emit(ops.LifetimeStop(source=ref.value))
        self.frame.refs[:] = [r for r in self.frame.refs if r.root is not ref.root]

    # --- loops ---

    def _variable(self, largest: int) -> ScalarType:
        """Return a type for a loop variable that goes up to `largest`."""
        types = [t for t in (I8, I16, I64, U8, *self.features.types) if t.is_integer and t.maximum > largest]
        return INDEX if self.chance(0.6) else self.pick(types)

    def _as_index(self, variable: ops.Value, interval: Interval) -> Scalar:
        """Make the loop variable visible, as an index too."""
        if variable.type == INDEX:
            index = Scalar(variable, interval=interval)
            self.frame.scalars.append(index)
            return index
        self.frame.scalars.append(Scalar(variable))
        return self.scalar(lambda r: ops.Cast(operand=variable, result=r), INDEX, interval=interval)

    def for_loop(self) -> None:
        """Emit a sequential loop; its bounds are constants or the size of a mode."""
        modes = [(r, mode) for r in self.frame.refs for mode in range(r.order) if max(r.sizes(mode)) <= 8]
        step = ops.Constant(1, INDEX)
        if modes and self.chance(0.5):
            ref, mode = self.pick(modes)
            sizes = ref.sizes(mode)
            start, stop = 0, self.size_operand(ref, mode).operand
        else:
            start = self.rng.randint(0, 3)
            trips, stride = self.rng.randint(0, 4), self.rng.choice([1, 1, 2, 3])
            sizes = (start + trips * stride - (self.rng.randrange(stride) if trips else 0),) * self.groups
            stop, step = ops.Constant(sizes[0], INDEX), ops.Constant(stride, INDEX)
        variable_type = INDEX
        if isinstance(stop, ops.Constant):
            variable_type = self._variable(max(sizes) + 4)
            stop, step = ops.Constant(stop.value, variable_type), ops.Constant(step.value, variable_type)
        variable = ops.Value(self.name(), variable_type)
        last = tuple(max((s for s in range(start, size, step.value)), default=start - 1) for size in sizes)
        times = max(len(range(start, size, step.value)) for size in sizes)
        carried: list[ops.Value] = []
        initial: list[Scalar] = []
        following: list[Scalar] = []
        if self.features.newer and self.chance(0.4):
            types = [type_ for type_ in (self.any_type() for _ in range(self.rng.randint(1, 3))) if type_ != INDEX]
            carried = [ops.Value(self.name(), type_) for type_ in types]
            initial = [self.expression(type_, 1) for type_ in types]
        with self.loop(), self.region(self.frame.inner(times)) as body:
            self._as_index(variable, Interval((start,) * self.groups, last))
            # Of floats nothing is known from one iteration to the next but that they are among what was yielded.
            self.frame.scalars += [Scalar(value) for value in carried if not value.type.mantissa]
            self.inner_statements(self.rng.randint(1, 2))
            for value in carried:
                others = [other for other in carried if other.type == value.type]
                is_moved = self.chance(0.4)
                following.append(Scalar(self.pick(others)) if is_moved else self.expression(value.type, 1))
            if carried:
                self.emit(ops.Yield(values=tuple(value.operand for value in following)))
        if not body:
            raise Retry
        outputs = tuple(ops.Value(self.name(), value.type) for value in carried)
        self.emit(ops.For(variable=variable, start=ops.Constant(start, variable_type), stop=stop, step=step,
                          body=ops.Region(tuple(body)), carried=tuple(carried),
                          initial=tuple(value.operand for value in initial), outputs=outputs))
        for output in outputs:
            possible = [value.magnitude for value in (*initial, *following) if value.type == output.type]
            self.frame.scalars.append(Scalar(output, functools.reduce(Magnitude.union, possible)))

    def branch(self) -> None:
        """Emit an if, with or without else and results."""
        condition = self.comparison(1) if self.chance(0.8) else self.expression(self.features.types[0], 1)
        types = [self.any_type() for _ in range(self.rng.randint(1, 2))] if self.chance(0.4) else []
        regions, yields = [], []
        for _ in range(2 if types or self.chance(0.5) else 1):
            with self.region(self.frame.inner()) as body:
                self.inner_statements(self.rng.randint(1, 2))
                if types:
                    yields.append([self.expression(t, 1) for t in types])
                    self.emit(ops.Yield(values=tuple(value.operand for value in yields[-1])))
            regions.append(ops.Region(tuple(body)))
        outputs = tuple(ops.Value(self.name(), t) for t in types)
        self.emit(ops.If(condition=condition.operand, outputs=outputs, then=regions[0],
                         otherwise=regions[1] if len(regions) > 1 else None))
        for position, output in enumerate(outputs):
            self.frame.scalars.append(
                Scalar(output, yields[0][position].magnitude.union(yields[1][position].magnitude)))

    # --- foreach ---

    def foreach(self) -> None:
        """Emit a foreach whose iterations write one memref, or two, each at places of their own."""
        targets = [r for r in self.frame.refs if r.root.writable and r.order > 0]
        ref = self.pick(targets)
        mode = self.rng.randrange(ref.order)
        sizes = ref.sizes(mode)
        low = self.rng.choice([0, 0, 0, min(1, *sizes), min(3, *sizes)])
        stop = self.size_operand(ref, mode)
        with _Iterations(self, low, (stop, sizes)) as (index,):
            self.frame.written = (Written(ref, mode, index),)
            others = [(r, m) for r in targets for m in range(r.order)
                      if r.root is not ref.root and r.sizes(m) == sizes]
            if others and self.chance(0.3):
                other, other_mode = self.pick(others)
                self.frame.written += (Written(other, other_mode, index),)
            self.replicated_statements(self.rng.randint(0, 2))
            for written in self.frame.written:
                self.first([lambda w=written: self.own_store(w)] * 4)

    def own_store(self, written: Written | None = None) -> None:
        """Inside foreach, store to a place that belongs to this iteration."""
        written = written or self.pick(self.frame.written)
        indices = self.indices(written.ref, written.mode, written.index)
        self.store_or_update(self.expression(written.ref.root.element, self.rng.randint(1, 2)), written.ref, indices)

    def filled(self, element: ScalarType, shape: Sequence[int]) -> Ref:
        if not shape and not self.features.replicated_memory:
            raise Retry
        ref = self.allocate(element, shape)
        if not shape:
            self.store(self.expression(element), ref, [])
            self.publish(ref)
            return ref
        modes = self.rng.sample(range(len(shape)), self.rng.randint(1, len(shape)))
        iterations = _Iterations(self, 0, *((self.size_operand(ref, mode), ref.sizes(mode)) for mode in modes))
        with iterations as indices:
            self._fill(ref, [indices[modes.index(m)] if m in modes else None for m in range(len(shape))])
        self.publish(ref)
        return ref

    def _fill(self, ref: Ref, indices: list[Scalar | None]) -> None:
        """Store to all elements that the given indices leave open, with a loop for each open mode."""
        if None not in indices:
            value = self.first([lambda: self.expression(ref.root.element, 1)])
            if value.magnitude.bound > 64:
                raise Retry
            self.store(value, ref, [index for index in indices if index is not None])
            return
        mode = indices.index(None)
        variable = ops.Value(self.name(), INDEX)
        sizes = ref.sizes(mode)
        with self.loop(), self.region(self.frame.inner(sizes[0])) as body:
            interval = Interval((0,) * self.groups, tuple(size - 1 for size in sizes))
            indices[mode] = self._as_index(variable, interval)
            self._fill(ref, indices)
        self.emit(ops.For(variable=variable, start=ops.Constant(0, INDEX), stop=ops.Constant(sizes[0], INDEX),
                          step=ops.Constant(1, INDEX), body=ops.Region(tuple(body))))

    def iteration_frame(self) -> Frame:
        frame = self.frame.inner()
        frame.in_foreach = True
        return frame


class _Iterations:
    """The region of a foreach from `low` to the sizes of modes: gives its indices, emits it when it closes."""

    def __init__(self, writer: Control, low: int, *modes: tuple[Scalar, Sizes]) -> None:
        self.writer, self.low, self.modes = writer, low, modes

    def __enter__(self) -> list[Scalar]:
        writer = self.writer
        self.variables = []
        for stop, sizes in self.modes:
            is_constant = isinstance(stop.operand, ops.Constant)
            self.variables.append(ops.Value(writer.name(), writer._variable(max(sizes) + 1) if is_constant else INDEX))
        self.region = writer.region(writer.iteration_frame())
        self.body = self.region.__enter__()
        return [
            writer._as_index(variable, Interval((self.low,) * writer.groups, tuple(size - 1 for size in sizes)))
            for variable, (_, sizes) in zip(self.variables, self.modes, strict=True)
        ]

    def __exit__(self, *error: object) -> None:
        self.region.__exit__(*error)
        if error[0] is not None:
            return
        starts, stops = [], []
        for variable, (stop, _) in zip(self.variables, self.modes, strict=True):
            end = stop.operand
            stops.append(ops.Constant(end.value, variable.type) if isinstance(end, ops.Constant) else end)
            starts.append(ops.Constant(self.low, variable.type))
        self.writer.emit(ops.Foreach(variables=tuple(self.variables), starts=tuple(starts), stops=tuple(stops),
                                     body=ops.Region(tuple(self.body))))
