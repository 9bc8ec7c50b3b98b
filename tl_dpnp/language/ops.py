"""The operations of the tensor language: the intermediate representation of the whole compiler.

An operation is a frozen dataclass that holds its operands, its results and the span of its source text.  Operands
are `Value` objects (a name and a type; names are unique where they are visible) or typed `Constant` objects.
Two operations are equal when they say the same; the span takes no part in it.

`collective` operations distribute their work over the work-items of a work-group and may not stand inside
``foreach``; all others are replicated (tensor language reference, section "Execution model").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from tl_dpnp.errors import Span
from tl_dpnp.language.types import MemrefType, Type
from tl_dpnp.scalars import Precision, ScalarType

NO_SPAN = Span("<builder>", 0, 0, 0, 0)


@dataclass(frozen=True)
class Value:
    """A local identifier: ``%name``.  Unnamed identifiers have digits for a name."""

    name: str
    type: Type
    span: Span = field(default=NO_SPAN, compare=False, repr=False)

    def __str__(self) -> str:
        return f"%{self.name}"


@dataclass(frozen=True, eq=False)
class Constant:
    """A literal with the type that the instruction annotates; `value` is exact in that type.

    bool for i1, int for integers, float for floats (rounded to the type), complex for complex types.
    Constants are equal when they are the same bits: NaN equals NaN, and 0.0 differs from -0.0.
    """

    value: bool | int | float | complex
    type: ScalarType
    span: Span = field(default=NO_SPAN, compare=False, repr=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[object, str, ScalarType]:
        return self.value.__class__, repr(self.value), self.type


Operand = Value | Constant


@dataclass(frozen=True)
class Region:
    """An ordered list of operations between braces."""

    operations: tuple[Operation, ...] = ()

    def __iter__(self) -> Iterator[Operation]:
        return iter(self.operations)

    def walk(self) -> Iterator[Operation]:
        """Yield every operation, those of nested regions included, in source order."""
        for operation in self.operations:
            yield operation
            for region in operation.regions:
                yield from region.walk()


@dataclass(frozen=True, kw_only=True)
class Operation:
    """Base of all operations."""

    collective: ClassVar[bool] = False
    span: Span = field(default=NO_SPAN, compare=False, repr=False)

    @property
    def results(self) -> tuple[Value, ...]:
        """The values that the operation defines."""
        result = getattr(self, "result", None)
        return () if result is None else (result,)

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The values and constants that the operation uses, not those used inside its regions."""
        return ()

    @property
    def regions(self) -> tuple[Region, ...]:
        """The regions that the operation contains."""
        return ()


# --- scalars ---------------------------------------------------------------------------------------------------------

#: Binary arithmetic: name → the kinds of scalar that it accepts.
ARITHMETIC: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("add", "sub", "mul", "div"), ("signed", "unsigned", "float", "complex")),
    "rem": ("signed", "unsigned", "float"),
    **dict.fromkeys(("shl", "shr"), ("signed", "unsigned")),
    **dict.fromkeys(("and", "or", "xor"), ("signed", "unsigned", "boolean")),
}
#: Unary arithmetic: name → the kinds of scalar that it accepts.
UNARY: dict[str, tuple[str, ...]] = {
    "neg": ("signed", "unsigned", "float", "complex"),
    "not": ("signed", "unsigned", "boolean"),
}
#: Scalar mathematics (an extension): name → number of operands and accepted kinds.
MATHEMATICS: dict[str, tuple[int, tuple[str, ...]]] = {
    **dict.fromkeys(("exp", "log", "sqrt", "rsqrt", "sin", "cos", "tanh"), (1, ("float",))),
    "abs": (1, ("signed", "unsigned", "float")),
    "min": (2, ("signed", "unsigned", "float")),
    "max": (2, ("signed", "unsigned", "float")),
    "fma": (3, ("float",)),
}
COMPARISONS = ("eq", "ne", "gt", "ge", "lt", "le")


@dataclass(frozen=True)
class Arith(Operation):
    """``arith.<kind> a, b : type`` — both operands and the result have one scalar type; `kind` is in `ARITHMETIC`."""

    kind: str
    lhs: Operand
    rhs: Operand
    result: Value

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.lhs, self.rhs)


@dataclass(frozen=True)
class Unary(Operation):
    """``arith.neg`` and ``arith.not``; `kind` is in `UNARY`."""

    kind: str
    operand: Operand
    result: Value

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.operand,)


@dataclass(frozen=True)
class Math(Operation):
    """``math.<kind> a[, b[, c]] : type`` (an extension); `kind` is in `MATHEMATICS`."""

    kind: str
    arguments: tuple[Operand, ...]
    result: Value

    @property
    def operands(self) -> tuple[Operand, ...]:
        return self.arguments


@dataclass(frozen=True)
class Cast(Operation):
    """``cast a : from -> to``; a cast to i1 asks whether the value differs from zero."""

    operand: Operand
    result: Value

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.operand,)


@dataclass(frozen=True)
class Compare(Operation):
    """``cmp.<kind> a, b : type``; the result is i1; `kind` is in `COMPARISONS`."""

    kind: str
    lhs: Operand
    rhs: Operand
    result: Value

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.lhs, self.rhs)


@dataclass(frozen=True)
class GroupId(Operation):
    """``group_id``: index of this work-group, from 0 to ``group_size`` − 1."""

    result: Value


@dataclass(frozen=True)
class GroupSize(Operation):
    """``group_size``: number of work-groups of the launch."""

    result: Value


# --- memory ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Alloca(Operation):
    """``alloca -> memref``: temporary memory of the work-group, freed at the end of the enclosing region."""

    collective: ClassVar[bool] = True
    result: Value


@dataclass(frozen=True)
class LifetimeStop(Operation):
    """``lifetime_stop %m``: the temporary is not used after this point."""

    collective: ClassVar[bool] = True
    source: Value

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.source,)


@dataclass(frozen=True)
class Barrier(Operation):
    """``barrier``: orders all memory accesses of the work-group before it with those after it."""

    collective: ClassVar[bool] = True


@dataclass(frozen=True)
class Load(Operation):
    """``load %m[i, ...] : memref`` gives an element, ``load %g[i] : group`` gives a memref."""

    source: Value
    indices: tuple[Operand, ...]
    result: Value

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.source, *self.indices)


@dataclass(frozen=True)
class Store(Operation):
    """``store v, %m[i, ...] : memref``."""

    value: Operand
    target: Value
    indices: tuple[Operand, ...]

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.value, self.target, *self.indices)


# --- views -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SizeOf(Operation):
    """``size %m[mode] : memref``: the size of one mode."""

    source: Value
    mode: int
    result: Value

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.source,)


@dataclass(frozen=True)
class Expand(Operation):
    """``expand %m[mode -> s1 x s2 ...] : memref``: one mode viewed as several.

    `shape` holds constants, index values, and at most one `None` for ``?``, which is inferred.
    """

    source: Value
    mode: int
    shape: tuple[Constant | Value | None, ...]
    result: Value

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.source, *(s for s in self.shape if s is not None))


@dataclass(frozen=True)
class Fuse(Operation):
    """``fuse %m[first, last] : memref``: adjacent modes viewed as one."""

    source: Value
    first: int
    last: int
    result: Value

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.source,)


@dataclass(frozen=True)
class Slice:
    """One entry of a subview: ``offset`` alone (`is_index`; removes the mode) or ``offset : size``.

    `size` is None for ``?``: what is left of the mode after the offset.  A plain colon is ``0 : ?``.
    """

    offset: Operand
    size: Operand | None = None
    is_index: bool = False


@dataclass(frozen=True)
class Subview(Operation):
    """``subview %m[slices] : memref``: a view of a part of a memref."""

    source: Value
    slices: tuple[Slice, ...]
    result: Value

    @property
    def operands(self) -> tuple[Operand, ...]:
        entries: list[Operand] = [self.source]
        for entry in self.slices:
            entries.append(entry.offset)
            if entry.size is not None:
                entries.append(entry.size)
        return tuple(entries)


# --- control ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Yield(Operation):
    """``yield a, b : t, t``: the values that a region gives to the operation that contains it."""

    values: tuple[Operand, ...] = ()

    @property
    def operands(self) -> tuple[Operand, ...]:
        return self.values


@dataclass(frozen=True)
class If(Operation):
    """``if condition -> (types) { ... } else { ... }``; `outputs` are the values it returns."""

    condition: Operand
    outputs: tuple[Value, ...]
    then: Region
    otherwise: Region | None = None

    @property
    def results(self) -> tuple[Value, ...]:
        return self.outputs

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.condition,)

    @property
    def regions(self) -> tuple[Region, ...]:
        return (self.then,) if self.otherwise is None else (self.then, self.otherwise)


@dataclass(frozen=True)
class For(Operation):
    """``for %i = start, stop[, step] : type { ... }``: sequential, over [start, stop)."""

    variable: Value
    start: Operand
    stop: Operand
    step: Operand
    body: Region

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.start, self.stop, self.step)

    @property
    def regions(self) -> tuple[Region, ...]:
        return (self.body,)


@dataclass(frozen=True)
class Foreach(Operation):
    """``foreach (%i, ...) = (start, ...), (stop, ...) { ... }``: each tuple of indices once, in no order.

    The iterations are spread over the work-items.  A loop over one index is ``foreach %i = start, stop : type``.
    """

    collective: ClassVar[bool] = True
    variables: tuple[Value, ...]
    starts: tuple[Operand, ...]
    stops: tuple[Operand, ...]
    body: Region

    @property
    def ranges(self) -> Iterator[tuple[Value, Operand, Operand]]:
        """Each variable with its first value and the end of its range."""
        return zip(self.variables, self.starts, self.stops, strict=True)

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (*self.starts, *self.stops)

    @property
    def regions(self) -> tuple[Region, ...]:
        return (self.body,)


# --- linear algebra --------------------------------------------------------------------------------------------------


def variables_of(operation: Operation) -> tuple[Value, ...]:
    """Return the variables that a loop defines for its body; none of other operations."""
    match operation:
        case For(variable=variable):
            return (variable,)
        case Foreach(variables=variables):
            return variables
    return ()


@dataclass(frozen=True)
class LinearAlgebra(Operation):
    """Base of the collective instructions ``out := alpha · f(inputs) + beta · out``.

    `transposes` holds one flag for each input that the spelling gives a ``.t`` or ``.n``; `atomic` updates `out`
    atomically.  `alpha` and `beta` carry their annotated types.  `precision` is what a product of f32 may lose on a
    matrix engine, None where the kernel's option decides.
    """

    collective: ClassVar[bool] = True
    alpha: Operand
    inputs: tuple[Value, ...]
    beta: Operand
    output: Value
    transposes: tuple[bool, ...] = ()
    atomic: bool = False
    precision: Precision | None = None

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (self.alpha, *self.inputs, self.beta, self.output)


@dataclass(frozen=True)
class Axpby(LinearAlgebra):
    """B := alpha op(A) + beta B, for orders 0, 1 and 2."""


@dataclass(frozen=True)
class Gemm(LinearAlgebra):
    """C := alpha op1(A) op2(B) + beta C."""


@dataclass(frozen=True)
class Gemv(LinearAlgebra):
    """c := alpha op(A) b + beta c."""


@dataclass(frozen=True)
class Ger(LinearAlgebra):
    """C := alpha a bᵀ + beta C."""


@dataclass(frozen=True)
class Hadamard(LinearAlgebra):
    """c := alpha a ∘ b + beta c."""


@dataclass(frozen=True)
class Sum(LinearAlgebra):
    """B := alpha op(A) 1 + beta B for a matrix; b := alpha ⟨a, 1⟩ + beta b for a vector."""


# --- functions and modules -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Function:
    """A kernel: its parameters, its attributes (None where the compiler chooses) and its body."""

    name: str
    parameters: tuple[Value, ...]
    body: Region
    work_group_size: tuple[int, int] | None = None
    subgroup_size: int | None = None
    span: Span = field(default=NO_SPAN, compare=False, repr=False)


@dataclass(frozen=True)
class Module:
    """The functions of one source text, in order."""

    functions: tuple[Function, ...]

    def __iter__(self) -> Iterator[Function]:
        return iter(self.functions)


def memref_type(value: Value) -> MemrefType:
    """Return the type of `value`, which the verifier has proved to be a memref."""
    assert isinstance(value.type, MemrefType), value
    return value.type


def scalar_type(operand: Operand) -> ScalarType:
    """Return the type of `operand`, which the verifier has proved to be a scalar."""
    assert isinstance(operand.type, ScalarType), operand
    return operand.type


__all__ = [name for name in dir() if not name.startswith("_") and name not in {
    "ClassVar", "Iterator", "annotations", "dataclass", "field", "Size", "Type", "GroupType", "MemrefType",
    "ScalarType", "Span",
}]
