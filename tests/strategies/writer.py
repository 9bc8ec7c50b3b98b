"""The state of a program under construction: operations, visible values, enclosing loops."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from tests.strategies.abstract import Interval, Magnitude, Ref, Retry, Root, Scalar, exact_limit
from tl_dpnp.language import ops
from tl_dpnp.scalars import (
    BF16,
    C32,
    C64,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    INDEX,
    U8,
    U16,
    U32,
    U64,
    ScalarType,
    is_lossless,
)

T = TypeVar("T")

DEVICE_TYPES = (I1, I8, I16, I32, I64, INDEX, U8, U16, U32, U64, F16, BF16, F32, F64)
ALL_TYPES = (*DEVICE_TYPES, C32, C64)


@dataclass(frozen=True)
class Features:
    """What random programs may contain."""

    types: tuple[ScalarType, ...] = DEVICE_TYPES
    atomic_types: tuple[ScalarType, ...] = (I32, I64, U32, U64, F32, F64)
    mathematics: bool = True
    mixed_types: bool = True
    zero_sizes: bool = True
    group_offsets: bool = True
    replicated_memory: bool = True  # loads and stores outside foreach
    newer: bool = True  # what the dialect 0.3 cannot say
    work_items: bool = False  # regions that each work-item runs for itself
    statements: tuple[int, int] = (1, 4)
    max_groups: int = 5


@dataclass(frozen=True)
class Written:
    """Inside foreach: the memref that the iterations write, and its mode that is indexed by `index`, one each."""

    ref: Ref
    mode: int
    index: Scalar


@dataclass
class Frame:
    """What is visible and allowed at one place of the program."""

    scalars: list[Scalar] = field(default_factory=list)
    refs: list[Ref] = field(default_factory=list)
    times: int = 1
    depth: int = 0
    written: tuple[Written, ...] = ()
    in_foreach: bool = False

    def inner(self, times: int = 1) -> Frame:
        """Return the frame of a region inside this one, run up to `times` times."""
        return Frame(list(self.scalars), list(self.refs), self.times * max(times, 1), self.depth + 1, self.written,
                     self.in_foreach)


class Writer:
    """Emits operations into the innermost open region."""

    def __init__(self, rng: random.Random, features: Features) -> None:
        self.rng = rng
        self.features = features
        self.groups = rng.randint(1, features.max_groups)
        self.frame = Frame()
        self.operations: list[ops.Operation] = []
        self.used: set[str] = set()
        self.roots: list[Root] = []
        self.local_bytes = 0
        self._names = 0

    # --- choices ---

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def pick(self, choices: Sequence[T]) -> T:
        """Return one of the choices; raise `Retry` where there is none."""
        if not choices:
            raise Retry
        return choices[self.rng.randrange(len(choices))]

    def shuffled(self, choices: Sequence[T]) -> list[T]:
        return self.rng.sample(choices, len(choices))

    def first(self, attempts: Sequence[Callable[[], T]]) -> T:
        """Return the result of the first attempt that fits, and leave no trace of the others."""
        for attempt in attempts:
            count, scalars, refs = len(self.operations), len(self.frame.scalars), len(self.frame.refs)
            local_bytes, used = self.local_bytes, set(self.used)
            try:
                return attempt()
            except Retry:
                del self.operations[count:], self.frame.scalars[scalars:], self.frame.refs[refs:]
                self.local_bytes, self.used = local_bytes, used
        raise Retry

    # --- emission ---

    def name(self) -> str:
        self._names += 1
        return str(self._names) if self.chance(0.5) else f"{self.pick(['a', 'tmp_', 'X'])}{self._names}"

    def emit(self, operation: ops.Operation) -> None:
        self.operations.append(operation)
        self.used |= {operand.name for operand in operation.operands if isinstance(operand, ops.Value)}

    def scalar(self, make: Callable[[ops.Value], ops.Operation], scalar_type: ScalarType,
               magnitude: Magnitude | None = None, interval: Interval | None = None) -> Scalar:
        """Emit the operation that `make` builds for a new result of `scalar_type`."""
        result = ops.Value(self.name(), scalar_type)
        self.emit(make(result))
        scalar = Scalar(result, magnitude or Magnitude(), interval)
        self.frame.scalars.append(scalar)
        return scalar

    @contextmanager
    def region(self, frame: Frame) -> Iterator[list[ops.Operation]]:
        """Open a region; the operations emitted inside go to the list that is given."""
        outer, outer_frame = self.operations, self.frame
        self.operations, self.frame = [], frame
        try:
            yield self.operations
        finally:
            self.operations, self.frame = outer, outer_frame

    @contextmanager
    def loop(self) -> Iterator[None]:
        """Decide for each memory what the loop's body may do with it, since the body reads what it writes later."""
        changed = [(root, root.readable, root.writable) for root in self.roots
                   if root.cap is None and root.readable and not root.is_exact]
        for root, _, writable in changed:
            mode = self.pick(["read", "write", "both"]) if writable else "read"
            if mode == "both" and root.magnitude.whole:
                bound = min(max(8 * root.magnitude.bound, 1024.0), exact_limit(root.element))
                root.cap = Magnitude(bound)
            elif mode == "read":
                root.cap, root.writable = root.magnitude, False
            else:
                root.readable = False
        try:
            yield
        finally:
            for root, readable, writable in changed:
                root.cap, root.readable, root.writable = None, readable, writable

    # --- index values ---

    def constant_index(self, value: int) -> Scalar:
        spread = (value,) * self.groups
        return Scalar(ops.Constant(value, INDEX), Magnitude(), Interval(spread, spread))

    def index_for(self, sizes: tuple[int, ...]) -> Scalar:
        """Return an index inside a mode of these sizes: a constant, or a value with or without an offset."""
        return self._fitting(sizes, lambda interval: interval.fits(sizes))

    def _fitting(self, sizes: tuple[int, ...], fits: Callable[[Interval], bool]) -> Scalar:
        values = [s for s in self.frame.scalars if s.interval is not None and fits(s.interval)]
        if values and self.chance(0.6):
            return self.pick(values)
        if min(sizes) > 0 and self.chance(0.9):
            return self.constant_index(self.rng.randrange(min(sizes)))
        others = [s for s in self.frame.scalars if s.interval is not None]
        if others:
            return self.moved(self.pick(others), sizes)
        return self.pick(values)

    def moved(self, index: Scalar, sizes: tuple[int, ...]) -> Scalar:
        """Return ``index + c`` or ``c − index``, one to one, inside a mode of these sizes."""
        low, high = index.interval.low, index.interval.high
        live = [g for g in range(self.groups) if low[g] <= high[g]]
        if not live:
            raise Retry
        if self.chance(0.5):
            least, most = max(-low[g] for g in live), min(sizes[g] - 1 - high[g] for g in live)
            kind = "add"
        else:
            least, most = max(high[g] for g in live), min(sizes[g] - 1 + low[g] for g in live)
            kind = "sub"
        if least > most:
            raise Retry
        amount = self.rng.randint(least, min(most, least + 5))
        constant = ops.Constant(amount, INDEX)
        if kind == "add":
            interval = Interval(tuple(x + amount for x in low), tuple(x + amount for x in high))
            operands = self.pick([(index.operand, constant), (constant, index.operand)])
        else:
            interval = Interval(tuple(amount - x for x in high), tuple(amount - x for x in low))
            operands = (constant, index.operand)
        return self.scalar(lambda r: ops.Arith(kind=kind, lhs=operands[0], rhs=operands[1], result=r), INDEX,
                           interval=interval)

    # --- types ---

    def any_type(self) -> ScalarType:
        """Return a scalar type, a floating-point one more often than the others."""
        floats = [t for t in self.features.types if t.mantissa]
        return self.pick(floats if floats and self.chance(0.35) else self.features.types)

    def converts(self, source: ScalarType, target: ScalarType) -> bool:
        """Whether a linear-algebra operand of `source` may feed an output of `target` here."""
        return source == target or (self.features.mixed_types and is_lossless(source, target))
