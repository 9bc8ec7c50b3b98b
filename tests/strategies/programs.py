"""Random well-typed programs for differential tests.

`random_program(seed)` writes a program in which every target must compute what the interpreter computes: no data
races, no access out of bounds, no undefined scalar operation, and floats that are either exact in any order of
summation or known up to a stated tolerance.  The seed reproduces the program; `programs` is its hypothesis strategy.

What keeps programs free of races: a work-group writes only its own element of a group, its own slice of a memref or
its own temporaries, or adds atomically to memory that nobody reads; an iteration of foreach writes only where its
own index leads and reads nothing that other iterations write; the output of an instruction shares no memory with
its inputs.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.strategies.abstract import Interval, Magnitude, Ref, Root, Scalar
from tests.strategies.arguments import (
    MAGNITUDE,
    MARGIN,
    Argument,
    ArrayArgument,
    GroupArgument,
    ScalarArgument,
)
from tests.strategies.memory import Sizes
from tests.strategies.work_items import WorkItems
from tests.strategies.writer import Features
from tl_dpnp.language import ops
from tl_dpnp.language.printer import print_module
from tl_dpnp.language.types import GroupType, MemrefType, canonical_strides
from tl_dpnp.scalars import C64, F64, I64, INDEX, ScalarType

SIZES = (1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 19, 23, 31, 33, 37)
SINK_SHAPE = (max(SIZES), 5)  # a line of any temporary, in one of a few columns
MAX_ELEMENTS = 2048


@dataclass(frozen=True, repr=False)
class Program:
    """A program of one function, how to call it and how exactly the result is known.

    `tolerances` has the largest absolute error of an element for each parameter; 0 means equal.
    """

    seed: int | None
    function: ops.Function
    group_size: int
    templates: tuple[Argument, ...]
    tolerances: tuple[float, ...]

    @property
    def module(self) -> ops.Module:
        """The function as a module."""
        return ops.Module((self.function,))

    def __repr__(self) -> str:
        return f"random_program({self.seed})  # {self.group_size} work-groups\n{print_module(self.module)}"

    def make_arguments(self, seed: int = 0) -> list[Argument]:
        """Return fresh arguments: the same buffers for the same seed."""
        rng = random.Random(seed)
        return [a if isinstance(a, ScalarArgument) else a.filled(rng) for a in self.templates]


def random_program(source: int | random.Random, features: Features | None = None) -> Program:
    """Return the program of a seed, or one drawn from a random generator."""
    seed = source if isinstance(source, int) else None
    rng = random.Random(source) if isinstance(source, int) else source
    return _Builder(rng, features or Features()).program(seed)


def programs(features: Features | None = None) -> st.SearchStrategy[Program]:
    """Return a strategy of programs; each carries the seed that reproduces it."""
    return st.integers(0, 2**32 - 1).map(lambda seed: random_program(seed, features))


class _Builder(WorkItems):
    """Writes the parameters, the views of them that belong to the work-group, and the body."""

    def program(self, seed: int | None) -> Program:
        self.parameters: list[tuple[ops.Value, Argument, Root | None]] = []
        self.accumulators: list[Ref] = []
        self.sinks: dict[ScalarType, Ref] = {}
        self.pool = [(size,) * self.groups for size in self.rng.sample(SIZES, 3)]
        if self.features.zero_sizes and self.chance(0.05):
            self.pool.append((0,) * self.groups)
        varying = [0, 1, 2, 3, 5, 8, 13, 17] if self.features.zero_sizes else [1, 2, 3, 5, 8, 13, 17]
        self.varying = tuple(self.rng.choice(varying) for _ in range(self.groups))
        own = tuple(range(self.groups))
        self.group_id = self.scalar(lambda r: ops.GroupId(result=r), INDEX, interval=Interval(own, own))
        if self.chance(0.2):
            spread = (self.groups,) * self.groups
            self.scalar(lambda r: ops.GroupSize(result=r), INDEX, interval=Interval(spread, spread))
        for sink_type in (I64, F64, *({C64} & set(self.features.types))):
            shape = [(size,) * self.groups for size in SINK_SHAPE]
            self.sinks[sink_type] = self.batch(sink_type, shape, writable=True)
        self.frame.refs.clear()
        self.roots.clear()
        for _ in range(self.rng.randint(0, 3)):
            self.scalar_parameter(self.any_type())
        self.memrefs()
        self.statements(self.rng.randint(*self.features.statements))
        function = ops.Function(self.name_of_kernel(), tuple(p for p, _, _ in self.parameters),
                                ops.Region(tuple(self.operations)))
        tolerances = tuple(0.0 if root is None or root.is_exact or root.magnitude.whole else 4 * root.magnitude.error
                           for _, _, root in self.parameters)
        return Program(seed, function, self.groups, tuple(a for _, a, _ in self.parameters), tolerances)

    def name_of_kernel(self) -> str:
        return self.pick(["kernel", "f1", "Batched_update"])

    def uniform_sizes(self) -> Sizes:
        return self.pick([sizes for sizes in self.pool if sizes[0] > 0] if self.chance(0.8) else self.pool)

    # --- parameters ---

    def memrefs(self) -> None:
        """Add the memref and group parameters: at least one to write and two to read."""
        makers = [self.group, self.batch, self.block]
        types = [self.any_type() for _ in range(self.rng.randint(1, 3))]
        for number in range(self.rng.randint(3, 6)):
            element = self.pick(types)
            if number < 3 and not self.algebra_types().count(element):
                element = self.pick(self.algebra_types())
            sizes = self.some_sizes(varying=True)
            writable = number == 0 or self.chance(0.4)
            if not writable and self.chance(0.3):
                self.shared(element, [s for s in sizes if s is not self.varying])
                continue
            maker = self.group if self.varying in sizes else self.pick(makers)
            maker(element, sizes, writable)
        atomic = [t for t in self.features.atomic_types if t in self.features.types]
        if atomic and self.chance(0.4):
            self.accumulator(self.pick(atomic), self.some_sizes(varying=False))

    def some_sizes(self, varying: bool) -> list[Sizes]:
        """Return the sizes of 0 to 3 modes."""
        order = self.rng.choice([0, 1, 1, 2, 2, 2, 2, 3])
        sizes = [self.varying if varying and self.chance(0.2) else self.uniform_sizes() for _ in range(order)]
        total = 1
        for mode in sizes:
            total *= max(mode)
        return sizes if total <= MAX_ELEMENTS else sizes[:1]

    def layout(self, shape: tuple[int, ...], padded: bool) -> tuple[int, ...]:
        """Return strides: packed, or with gaps between the modes."""
        if not padded:
            return tuple(stride for stride in canonical_strides(tuple(max(s, 1) for s in shape)) if stride is not None)
        strides, stride = [], self.rng.choice([1, 1, 1, 2])
        for size in shape:
            strides.append(stride)
            stride = stride * max(size, 1) + self.rng.randint(0, 3)
        return tuple(strides)

    def memref_type(self, element: ScalarType, arrays: list[ArrayArgument]) -> MemrefType:
        """Return a type that all the arrays have: dynamic where they differ, and elsewhere by chance."""
        def entry(values: set[int], probability: float) -> int | None:
            value = next(iter(values))
            return value if len(values) == 1 and value > 0 and not self.chance(probability) else None

        order = len(arrays[0].shape)
        shape = tuple(entry({a.shape[mode] for a in arrays}, 0.3) for mode in range(order))
        packed = canonical_strides(shape)
        if all(p in (None, a.strides[mode]) for mode, p in enumerate(packed) for a in arrays) and self.chance(0.7):
            return MemrefType(element, shape)
        strides = tuple(entry({a.strides[mode] for a in arrays}, 0.3) for mode in range(order))
        return MemrefType(element, shape, strides)

    def parameter(self, parameter_type: ScalarType | MemrefType | GroupType, argument: Argument,
                  root: Root | None) -> ops.Value:
        value = ops.Value(self.name(), parameter_type)
        self.parameters.append((value, argument, root))
        return value

    def scalar_parameter(self, scalar_type: ScalarType) -> None:
        interval, magnitude = None, Magnitude()
        if scalar_type.is_boolean:
            number: bool | int | float | complex = self.chance(0.5)
        elif scalar_type == INDEX:
            number = self.rng.randint(0, 4)
            interval = Interval((number,) * self.groups, (number,) * self.groups)
        elif scalar_type.is_integer:
            number = self.pick([self.rng.randint(scalar_type.minimum, scalar_type.maximum), 1, 3])
        else:
            number = float(self.rng.randint(-MAGNITUDE, MAGNITUDE))
            magnitude = Magnitude(abs(number))
            number = complex(number) if scalar_type.is_complex else number
        value = self.parameter(scalar_type, ScalarArgument(number), None)
        self.frame.scalars.append(Scalar(value, magnitude, interval))

    def ref(self, value: ops.Value, root: Root, arrays: list[ArrayArgument]) -> Ref:
        """Make a memref visible, whose array in each work-group is given."""
        ref = Ref(value, root, tuple(a.shape for a in arrays), tuple(a.strides for a in arrays))
        self.roots.append(root)
        self.frame.refs.append(ref)
        return ref

    def shared(self, element: ScalarType, sizes: list[Sizes]) -> Ref:
        """Add a memref that all work-groups read."""
        shape = tuple(s[0] for s in sizes)
        array = ArrayArgument(element, shape, self.layout(shape, self.chance(0.3)))
        root = Root(element, False)
        value = self.parameter(self.memref_type(element, [array]), array, root)
        return self.ref(value, root, [array] * self.groups)

    def accumulator(self, element: ScalarType, sizes: list[Sizes]) -> None:
        """Add a memref to which all work-groups add atomically and which none reads."""
        ref = self.shared(element, sizes)
        self.frame.refs.pop()
        ref.root.readable, ref.root.writable = False, True
        self.accumulators.append(ref)

    def batch(self, element: ScalarType, sizes: list[Sizes], writable: bool) -> Ref:
        """Add a memref whose last mode counts the work-groups; each sees its slice."""
        shape = (*(s[0] for s in sizes), self.groups)
        array = ArrayArgument(element, shape, self.layout(shape, self.chance(0.3)))
        root = Root(element, writable)
        value = self.parameter(self.memref_type(element, [array]), array, root)
        whole = Ref(value, root, (array.shape,) * self.groups, (array.strides,) * self.groups)
        slices = [ops.Slice(ops.Constant(0, INDEX))] * len(sizes)
        slices.append(ops.Slice(self.group_id.operand, is_index=True))
        ref = self.subview(whole, slices, [shape[:-1]] * self.groups)
        self.roots.append(root)
        self.frame.refs.append(ref)
        return ref

    def block(self, element: ScalarType, sizes: list[Sizes], writable: bool) -> Ref:
        """Add a memref of which each work-group sees a block of the last mode."""
        sizes = sizes or [self.uniform_sizes()]
        length = max(1, sizes[-1][0])
        shape = (*(s[0] for s in sizes[:-1]), length * self.groups)
        array = ArrayArgument(element, shape, self.layout(shape, self.chance(0.3)))
        root = Root(element, writable)
        value = self.parameter(self.memref_type(element, [array]), array, root)
        whole = Ref(value, root, (array.shape,) * self.groups, (array.strides,) * self.groups)
        starts = tuple(group * length for group in range(self.groups))
        start = self.scalar(lambda r: ops.Arith(kind="mul", lhs=self.group_id.operand,
                                                rhs=ops.Constant(length, INDEX), result=r),
                            INDEX, interval=Interval(starts, starts))
        slices = [ops.Slice(ops.Constant(0, INDEX))] * (len(sizes) - 1)
        slices.append(ops.Slice(start.operand, ops.Constant(length, INDEX)))
        ref = self.subview(whole, slices, [(*shape[:-1], length)] * self.groups)
        self.roots.append(root)
        self.frame.refs.append(ref)
        return ref

    def group(self, element: ScalarType, sizes: list[Sizes], writable: bool) -> Ref:
        """Add a group; each work-group loads its own element, or all the same one to read."""
        offset = self.rng.randint(-5, 5) if self.features.group_offsets and self.chance(0.3) else 0
        padded = self.chance(0.3)
        same = None if writable or self.chance(0.8) else self.rng.randrange(self.groups)
        arrays = []
        for number in range(self.groups):
            shape = tuple(s[number if same is None else same] for s in sizes)
            arrays.append(ArrayArgument(element, shape, self.layout(shape, padded), MARGIN + max(0, -offset)))
        dynamic_offset = offset != 0 and self.chance(0.5)
        length = self.groups if self.features.newer and self.chance(0.2) else None
        group_type = GroupType(self.memref_type(element, arrays), None if dynamic_offset else offset, length)
        root = Root(element, writable)
        argument = GroupArgument(tuple(arrays), offset if dynamic_offset else 0)
        value = self.parameter(group_type, argument, root)
        index = self.group_id.operand if same is None else ops.Constant(same, INDEX)
        result = ops.Value(self.name(), group_type.memref)
        self.emit(ops.Load(source=value, indices=(index,), result=result))
        if self.features.newer and self.chance(0.2):
            spread = (self.groups,) * self.groups
            self.scalar(lambda r: ops.SizeOf(source=value, mode=0, result=r), INDEX, interval=Interval(spread, spread))
        return self.ref(result, root, arrays if same is None else [arrays[same]] * self.groups)
