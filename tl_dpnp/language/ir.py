"""The intermediate representation of the whole compiler: values, operations, regions, functions.

An operation is a frozen dataclass that holds its operands, its results and the span of its source text.  Operands
are `Value` objects (a name and a type; names are unique where they are visible) or typed `Constant` objects.
Two operations are equal when they say the same; the span takes no part in it.  The classes of operations, one for
each instruction, are in `tl_dpnp.language.instructions`; all names are together in `tl_dpnp.language.ops`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import field, fields
from numbers import Number
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from tl_dpnp.errors import Span, TLTypeError
from tl_dpnp.language.rule_error import RuleError
from tl_dpnp.language.types import CooperativeMatrixType, MemrefType, Type
from tl_dpnp.records import dataclass
from tl_dpnp.scalars import ScalarType

if TYPE_CHECKING:
    from tl_dpnp.language.assembly import Writing
    from tl_dpnp.language.elaborate import Elaborator, ParseTree
    from tl_dpnp.language.interpreter.machine import Steps, WorkGroup

__all__ = [
    "MISSING", "NO_SPAN", "POISON", "Assertion", "Constant", "Function", "Module", "Operand", "Operation", "Region",
    "Slice", "Value", "matrix_type", "memref_type", "scalar_type",
]

NO_SPAN = Span("<builder>", 0, 0, 0, 0)


def _no_element(value: Value, *_other: object) -> NoReturn:
    raise TLTypeError(f"{value} is a value of the tensor language, whose elements Python does not reach: write "
                      "b.load(x, i), b.store(a, x, i), b.subview(x, (offset, size)) or b.size(x, 0), with b for the "
                      "builder")


def _no_operator(value: Value, *_other: object) -> NoReturn:
    raise TLTypeError(f"{value} is a value of the tensor language, which Python's operators do not compute with: write "
                      'b.add(x, y), b.mul(x, y), b.cmp("lt", x, y) and so on, with b for the builder')


def _asked_by_the_package() -> bool:
    """Whether who called the caller is a module of the package, which may ask whether there is a value, or which."""
    return bool(sys._getframe(2).f_globals.get("__name__", "").partition(".")[0] == "tl_dpnp")


@dataclass(frozen=True)
class Value:
    """A local identifier: ``%name``.  Unnamed identifiers have digits for a name."""

    name: str
    type: Type
    span: Span = field(default=NO_SPAN, compare=False, repr=False)

    def __str__(self) -> str:
        return f"%{self.name}"

    def __bool__(self) -> bool:
        # Python would take any value of the user's for true, and build one branch only.
        if _asked_by_the_package():
            return True
        raise TLTypeError(f"{self} is known when the kernel runs, not while it is built: write with "
                          "b.if_(condition):, with b for the builder and a value of i1 for the condition")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Value):
            return self.name == other.name and self.type == other.type
        # As a condition of the user's it would be false while the kernel is built.
        if isinstance(other, Number) and not _asked_by_the_package():
            _no_operator(self)
        return NotImplemented

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _no_operator
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __matmul__ = __rmatmul__ = _no_operator
    __getitem__ = __setitem__ = __contains__ = __len__ = __iter__ = _no_element
    __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __abs__ = __and__ = __or__ = __xor__ = __invert__ = _no_operator


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

#: Type of a value whose definition is wrong: no rule is applied to it, so that one mistake gives one diagnostic.
POISON = ScalarType("<error>", 0, "signed", "void")
#: Stands for a value that the source leaves out by mistake; it has no name.
MISSING = Value("", POISON)


@dataclass(frozen=True)
class Slice:
    """One entry of a subview: ``offset`` alone (`is_index`; removes the mode) or ``offset : size``.

    `size` is None for ``?``: what is left of the mode after the offset.  A plain colon is ``0 : ?``.
    """

    offset: Operand
    size: Operand | None = None
    is_index: bool = False


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


#: The names of the fields that hold what an operation defines: results, and what loops define for their bodies.
_DEFINITIONS = frozenset(("result", "outputs", "variable", "variables", "carried"))


@dataclass(frozen=True, kw_only=True)
class Operation:
    """Base of all operations: what is asked of an instruction, and what follows from its fields.

    Fields named `result` and `outputs` are results, `variable`, `variables` and `carried` what a loop defines for its
    body; in all others, values and constants are operands, in order, and regions are regions.

    `collective` operations distribute their work over the work-items of a work-group and may not stand in regions that
    each of these runs for itself, such as that of ``foreach``; all others are replicated (tensor language reference,
    section "Execution model").  A `pure` one does nothing but give its results.
    """

    #: The word that the instruction begins with, how it is written, as a complete example, and what hints say of that.
    mnemonic: ClassVar[str]
    example: ClassVar[str]
    remark: ClassVar[str] = ""
    #: An example in the dialect 0.4, where another word begins it or something else is annotated.
    newer_example: ClassVar[str] = ""
    #: The words that may follow it behind a dot, as in ``arith.add``, and others that it may begin with.
    kinds: ClassVar[tuple[str, ...]] = ()
    aliases: ClassVar[tuple[str, ...]] = ()
    #: Words of other languages for which somebody wants it, and what a hint then says in front of the example.
    foreign: ClassVar[tuple[tuple[str, ...], str]] = ((), "")
    #: Whether the dialects before 0.4 lack it.
    is_newer: ClassVar[bool] = False
    collective: ClassVar[bool] = False
    pure: ClassVar[bool] = False
    #: The work-items among which it is done where each of them runs a region for itself: "work-group" or "sub-group".
    among: ClassVar[str | None] = None
    #: Whether its regions are run by each work-item for itself, and which of them do that together.
    shared: ClassVar[bool] = False
    together: ClassVar[tuple[str, ...]] = ()
    #: Whether a work-item may have to wait for others in it: the interpreter runs its `steps` then.
    waits: ClassVar[bool] = False
    #: Whether operands, or results, may be integers below 8 bits, which are for memory.
    takes_subbyte: ClassVar[bool] = False
    gives_subbyte: ClassVar[bool] = False

    span: Span = field(default=NO_SPAN, compare=False, repr=False)

    # --- what follows from the fields --------------------------------------------------------------------------------

    @property
    def results(self) -> tuple[Value, ...]:
        """The values that the operation defines."""
        result = getattr(self, "result", None)
        return () if result is None else (result,)

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The values and constants that the operation uses, not those used inside its regions."""
        found: tuple[Operand, ...] | None = self.__dict__.get("_operands")
        if found is None:
            collected: list[Operand] = []
            _collect([self.__dict__[name] for name in _names_of_uses(type(self))], collected)
            found = self.__dict__["_operands"] = tuple(collected)
        return found

    @property
    def regions(self) -> tuple[Region, ...]:
        """The regions that the operation contains."""
        return ()

    @property
    def loop_variables(self) -> tuple[Value, ...]:
        """The variables and carried values that a loop defines for its body."""
        return ()

    @property
    def is_cooperative(self) -> bool:
        """Whether cooperative matrices are among its operands, results or carried values: a sub-group does it."""
        found: bool | None = self.__dict__.get("_is_cooperative")
        if found is None:
            values = (*self.operands, *self.results, *self.loop_variables)
            found = any(isinstance(value.type, CooperativeMatrixType) for value in values)
            self.__dict__["_is_cooperative"] = found
        return found

    @property
    def done_among(self) -> str | None:
        """The work-items among which it is done: a sub-group where it is cooperative, else those of `among`."""
        return "sub-group" if self.is_cooperative else self.among

    @property
    def is_constant(self) -> bool:
        """Whether a cooperative matrix that it gives is the same for all sub-groups, wherever it stands."""
        return False

    @property
    def yielded(self) -> tuple[Value, ...] | None:
        """Values of the types that its regions yield; None where they yield nothing."""
        return None

    def complete(self, span: Span, type: Type | None) -> None:
        """Say where an operation is written and, unless that is None, the type of its only result.

        For what has just been read, and is known to nobody else.
        """
        own = self.__dict__
        own["span"] = span
        if type is not None:
            result = own["result"]
            own["result"] = Value(result.name, type, result.span)
            own.pop("_is_cooperative", None)

    # --- effects -----------------------------------------------------------------------------------------------------

    @property
    def reads(self) -> tuple[Value, ...]:
        """The memrefs whose elements the operation reads, without those of its regions."""
        return ()

    @property
    def writes(self) -> tuple[Value, ...]:
        """The memrefs whose elements the operation writes, without those of its regions."""
        return ()

    @property
    def viewed(self) -> Value | None:
        """The memref or group whose memory the result refers to; None if the result refers to none, or to its own."""
        return None

    @property
    def asked(self) -> Value | None:
        """The memref or group that the operation asks of whether there is one; None if it does not ask."""
        return None

    @classmethod
    def result_count(cls) -> int | None:
        """Return how many results all operations of the class have; None if that varies."""
        names = {f.name for f in fields(cls)}
        return None if "outputs" in names else int("result" in names)

    # --- the language ------------------------------------------------------------------------------------------------

    @classmethod
    def grammar(cls) -> dict[str, str]:
        """Return the rules of the grammar by name; those named ``..._instruction`` are spellings of the instruction."""
        raise NotImplementedError(f"{cls.__name__} has no grammar")

    @classmethod
    def read(cls, elaborator: Elaborator, tree: ParseTree, results: tuple[Value, ...]) -> Operation:
        """Return the operation of a parse tree of one of the rules; the types of `results` are not known yet."""
        raise NotImplementedError(f"{cls.__name__} cannot be read")

    def spell(self, writing: Writing) -> str:
        """Return the operation as text of the language, without its results and regions.

        Raises `UnsupportedError` where the dialect of `writing` cannot say it.
        """
        raise TypeError(f"{type(self).__name__} is no operation of the tensor language")

    def result_type(self) -> Type | None:
        """Return the type of the operation's only result where its operands determine it, else None.

        Raises `RuleError` where the operation is not defined for its operands.
        """
        return None

    def errors(self) -> Iterator[RuleError]:
        """Yield an error for every rule that the operation breaks on its own, other than those of `result_type`.

        Rules that need the surroundings of an operation (names, regions, lifetimes) are in `verifier`.
        """
        yield from ()

    def execute(self, group: WorkGroup) -> tuple[Any, ...]:
        """Do the operation for a work-group of the interpreter; return the values of the results.

        This is the meaning of the instruction.  No compiler's code takes part in it.
        """
        raise NotImplementedError(f"the interpreter does not know {type(self).__name__}")

    def steps(self, group: WorkGroup) -> Steps:
        """Do what `execute` does where work-items wait: yield each `Meeting`, and go on with what comes of it."""
        raise NotImplementedError(f"nobody waits in {type(self).__name__}")


_uses: dict[type[Operation], tuple[str, ...]] = {}


def _names_of_uses(kind: type[Operation]) -> tuple[str, ...]:
    """Return the fields of a class that may hold operands."""
    if kind not in _uses:
        _uses[kind] = tuple(f.name for f in fields(kind) if f.name != "span" and f.name not in _DEFINITIONS)
    return _uses[kind]


def _collect(entries: Sequence[object], found: list[Operand]) -> None:
    """Append the operands among the values of fields."""
    for entry in entries:
        if isinstance(entry, (Value, Constant)):
            found.append(entry)
        elif isinstance(entry, tuple):
            _collect(entry, found)
        elif isinstance(entry, Slice):
            _collect((entry.offset, entry.size), found)


# --- functions and modules -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Assertion:
    """What a program asserts of the arrays for a memref or group parameter, which it names.

    Addresses are multiples of `alignment` bytes; sizes and strides, in elements, are multiples of the numbers in
    `shape_gcd` and `stride_gcd`, which are those of the first modes.
    """

    parameter: str
    alignment: int | None = None
    shape_gcd: tuple[int, ...] = ()
    stride_gcd: tuple[int, ...] = ()
    span: Span = field(default=NO_SPAN, compare=False, repr=False)

    @property
    def says_something(self) -> bool:
        """Whether it asserts anything: lists of no numbers do not."""
        return bool(self.alignment is not None or self.shape_gcd or self.stride_gcd)


@dataclass(frozen=True)
class Function:
    """A kernel: its parameters, its attributes (None where the compiler chooses) and its body.

    `defaults` are values of scalar parameters, by name, for calls that do not give them; text has none.  `assertions`
    are about parameters, at most one about each.
    """

    name: str
    parameters: tuple[Value, ...]
    body: Region
    work_group_size: tuple[int, int] | None = None
    subgroup_size: int | None = None
    span: Span = field(default=NO_SPAN, compare=False, repr=False)
    defaults: tuple[tuple[str, bool | int | float | complex], ...] = ()
    assertions: tuple[Assertion, ...] = ()

    @property
    def has_attributes(self) -> bool:
        """Whether attributes say anything of how large a work-group is."""
        return self.work_group_size is not None or self.subgroup_size is not None


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


def matrix_type(operand: Operand) -> CooperativeMatrixType:
    """Return the type of `operand`, which the verifier has proved to be a cooperative matrix."""
    assert isinstance(operand.type, CooperativeMatrixType), operand
    return operand.type
